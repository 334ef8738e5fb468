"""The exact limits against the simulated flow."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.dynamics.members import factors_of
from depthrank.initialization import AlphaM
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, below
from depthrank.studies.simulate import course, flows, modes, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Below this a factor's small eigenvalue is rounding of its large one, in float64.
FLOAT_END = 1e-8


@dataclass(frozen=True)
class Settings:
    """Grids; blocks are single entries in `sizes`, and `block_size` wide in the course."""

    depths: tuple[int, ...] = (2, 3, 4)
    sizes: tuple[int, ...] = (2, 10)
    alphas: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01, 1e-3)
    ms: tuple[float, ...] = (1.1, 2.0, 10.0, 1e3, np.inf)
    times: tuple[float, ...] = (1.0, 3.0, 10.0, 100.0, 1000.0)
    grid: int = 20  # alphas, and as many ms, in one call
    value: float = 1.0


def run(settings: Settings, seed: int) -> Data:
    """Simulate the grid to its end and compare; `seed` plays no role, nothing is random."""
    rows: list[tuple[Any, ...]] = []
    for depth, d in product(settings.depths, settings.sizes):
        cells = list(product(settings.alphas, settings.ms))
        starts = [AlphaM(a, m)((d,) * (depth + 1)) for a, m in cells]
        seen = observe(patterns.diagonal((d, d)), settings.value)
        found = flows(seen, starts, rtol=1e-9)
        fitted = found["stopped_by"].values == "fitted"
        alpha, m = np.array(cells).T
        exact = theory.limits_grid(depth=depth, alpha=alpha, m=m, n_blocks=d, value=settings.value)
        for k, factors in enumerate(factors_of(found)):
            first, second = modes(factors)
            small = np.exp(exact.log_ratio[k] / depth)
            error = abs(first / exact.sigma_1[k] - 1)
            if small > FLOAT_END:
                error = max(error, abs(second / exact.sigma_2[k] - 1))
            rows.append((depth, d, alpha[k], m[k], error if fitted[k] else np.inf, small))
    names = ("depth", "d", "alpha", "m", "error", "ratio")
    data: Data = {name: np.array(v) for name, v in zip(names, zip(*rows, strict=True), strict=True)}
    return data | _on_the_way(settings) | _one_call(settings)


def _one_call(settings: Settings) -> Data:
    """Simulate a fine grid of starts at depth 3, diagonals of 2 and of 10, a call each."""
    alphas, ms = np.geomspace(1e-2, 1, settings.grid), np.geomspace(1.1, 100, settings.grid)
    alpha, m = (axis.ravel() for axis in np.meshgrid(alphas, ms, indexing="ij"))
    rows = []
    for d in (2, 10):
        starts = [AlphaM(a, b)((d,) * 4) for a, b in zip(alpha, m, strict=True)]
        seen = observe(patterns.diagonal((d, d)), settings.value)
        found = flows(seen, starts, tol=1e-16, rtol=2e-7)
        exact = theory.limits_grid(depth=3, alpha=alpha, m=m, n_blocks=d, value=settings.value)
        s = found["singular_values"].values
        error = max(
            np.abs(s[:, 0] / exact.sigma_1 - 1).max(), np.abs(s[:, -1] / exact.sigma_2 - 1).max()
        )
        unfitted = (found["stopped_by"].values != "fitted").sum()
        evaluations = found["evaluations"].values.sum()
        rows.append(
            (d, len(starts), error if unfitted == 0 else np.inf, evaluations, found.seconds)
        )
    return {"one_call": np.array(rows)}


def _on_the_way(settings: Settings) -> Data:
    """Compare whole courses: five 2 x 2 blocks with their algebraic tail, at every depth."""
    n, s, alpha, m = 5, 2, 0.5, 2.0
    mask = patterns.block_diagonal([(s, s)] * n)
    error, drift, tail = [], [], []
    for depth in settings.depths:
        start = AlphaM(alpha, m)((n * s,) * (depth + 1))
        # The tail's steps are second order and bounded relative to the whole factor: 1e-9 leaves
        # 2e-6 of the small tail at t = 1000, and the error falls with the tolerance.
        states = course(observe(mask), [start], settings.times, rtol=1e-11)
        for time, state in zip(settings.times, states, strict=True):
            exact = theory.limits_state(
                time, depth=depth, alpha=alpha, m=m, n_blocks=n, block_size=s
            )
            e = np.array(_block_eigenvalues(state[0], n, s))
            error.append(np.abs(e / exact.factor_eigenvalues - 1).max())
            tail.append((depth, time, e[2] ** depth, exact.factor_eigenvalues[2] ** depth))
            conserved = _conserved(e, depth), _conserved(_block_eigenvalues(start, n, s), depth)
            drift.append(abs(conserved[0] / conserved[1] - 1))
    return {"course_error": np.array(error), "drift": np.array(drift), "tail": np.array(tail)}


def _block_eigenvalues(factors: Any, n: int, s: int) -> tuple[float, float, float]:
    """Eigenvalues e_1, e_2, e_3 of the factors, of form a I + b (I kron J) + c J, averaged."""
    W = np.mean(factors, axis=0)
    total = W.sum() / (n * s)
    inside = sum(W[i * s : (i + 1) * s, i * s : (i + 1) * s].sum() for i in range(n)) / s
    second = (inside - total) / (n - 1)
    return total, second, (np.trace(W) - inside) / (n * (s - 1))


def _conserved(e: Any, depth: int) -> float:
    if depth == 2:
        return float(e[0] / e[1])
    return float(e[1] ** -(depth - 2.0) - e[0] ** -(depth - 2.0))


def figure(data: Data) -> "Figure":
    """Predicted against simulated; relative error over alpha; the tail of blocks."""
    fig, axes = drawing.panels(2)
    for depth in np.unique(data["depth"]):
        at = data["depth"] == depth
        axes[0].loglog(
            data["alpha"][at] * 1.08 ** (depth - 4),  # side by side
            np.maximum(data["error"][at], 1e-16),
            "o",
            alpha=0.6,
            color=drawing.depth_colour(int(depth)),
            label=f"depth {depth}",
        )
        rows = data["tail"][data["tail"][:, 0] == depth]
        axes[1].loglog(rows[:, 1], rows[:, 3], color=drawing.depth_colour(int(depth)))
        axes[1].loglog(rows[:, 1], rows[:, 2], "o", color=drawing.depth_colour(int(depth)))
    drawing.reference(axes[0], 1e-6, "accepted")
    drawing.title(axes[0], "limit, simulated against exact", "alpha", "relative error")
    drawing.legend(axes[0])
    drawing.title(
        axes[1], "slow tail inside 2 x 2 blocks", "flow time", "singular value (line: exact)"
    )
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    result = []
    for depth in np.unique(data["depth"]):
        at = data["depth"] == depth
        smallest, largest = data["alpha"][at].min(), data["alpha"][at].max()
        result.append(
            below(
                f"limits/depth-{depth}",
                f"Depth {depth}, diagonal observed: both singular values of the limit match the "
                f"exact ones; largest relative error of {at.sum()} starts, alpha {smallest:g} to "
                f"{largest:g}, m 1.1 to inf (sigma_2 where float64 can hold it).",
                data["error"][at].max(),
                1e-6,
            )
        )
    for d, members, error, evaluations, seconds in data["one_call"]:
        result.append(
            below(
                f"limits/one-call-{d:.0f}",
                f"{members:,.0f} starts on a diagonal of {d:.0f}, depth 3, alpha 0.01 to 1, m 1.1 "
                f"to 100, to a mean squared residual of 1e-16 in one call ({evaluations:,.0f} "
                f"gradient evaluations, {seconds:.1f} s, compiling included): largest relative "
                "error of both singular values.",
                error,
                1e-6,
            )
        )
    result += [
        below(
            "limits/diagonal-start",
            "m = inf: the limit is exactly w times the identity, rank n, at every depth and alpha "
            "(largest relative error).",
            data["error"][np.isinf(data["m"])].max(),
            1e-6,
        ),
        below(
            "limits/course",
            "Five constant 2 x 2 blocks: the three factor eigenvalues follow the exact solution at "
            "every time, the slow tail included (largest relative error).",
            data["course_error"].max(),
            1e-6,
        ),
        below(
            "limits/conserved",
            "The quantity that ties sigma_2 to sigma_1 is conserved along the way (largest "
            "relative drift).",
            data["drift"].max(),
            1e-6,
        ),
    ]
    return result


STUDY = Study(
    name="limits",
    title="Exact limits against simulation",
    source="Theorem 3.3",
    summary="For observed diagonals and blocks with equal values the end of training can be "
    "computed exactly, without training. Here every factor is simulated without assuming "
    "any of the symmetry, and the two are compared.",
    caption="Left: relative error of simulated against exact singular values, every start of the "
    "grid. Right: directions inside fully observed blocks decay only algebraically, as "
    "predicted; ranks measured at finite time contain them.",
    quick=Settings(),
    full=Settings(
        depths=(2, 3, 4, 5, 6),
        sizes=(2, 5, 10),
        alphas=(1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 3e-3, 1e-3),
        ms=(1.1, 1.5, 2.0, 5.0, 10.0, 100.0, 1e3, 1e6, np.inf),
        grid=100,
    ),
    run=run,
    figure=figure,
    claims=claims,
)
