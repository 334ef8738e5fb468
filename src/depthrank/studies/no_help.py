"""Where depth does not help: large starts, the order of limits, ties at the top, instability."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.initialization import AlphaM
from depthrank.observations import Observations
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below
from depthrank.studies.simulate import flows, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 10
M = 2.0  # for 2 x 2 starts: the threshold alpha (1 - 1/m) = 1 is alpha = 2


@dataclass(frozen=True)
class Settings:
    """Depths to simulate; exact limits go deeper."""

    depths: tuple[int, ...] = (2, 3, 4)
    exact_depths: tuple[int, ...] = (2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64)
    alphas: tuple[float, ...] = (1.0, 1.9, 2.1, 3.0)
    tiny: tuple[float, ...] = (0.0, 1e-12, 1e-9, 1e-6, 1e-3)
    huge_ms: tuple[float, ...] = (1e1, 1e2, 1e3, 1e4, 1e5, 1e6)
    small_alphas: tuple[float, ...] = (1.0, 0.3, 0.1, 0.03, 0.01)


def run(settings: Settings, seed: int) -> Data:
    """Simulate each question at 2 x 2 or 10 x 10; `seed` plays no role."""
    deep = max(settings.depths)
    simulated, unequal = [], []
    for depth in settings.depths:
        dims = (2,) * (depth + 1)
        starts = [AlphaM(a, M)(dims) for a in settings.alphas]
        seen = [observe(np.eye(2, dtype=bool))] * len(starts)
        starts += [_nearly_diagonal(0.1, e, depth) for e in settings.tiny]
        values = np.where(np.eye(2), np.diag([1.0, 0.5]), np.nan)
        seen += [Observations.from_dense(values)] * len(settings.tiny)
        ranks = flows(seen, starts)["stable_rank"].values
        simulated.append(ranks[: len(settings.alphas)])
        unequal.append(ranks[len(settings.alphas) :])
    exact = [
        theory.limits_grid(depth=depth, alpha=np.array(settings.alphas), m=M, n_blocks=2)
        for depth in settings.exact_depths
    ]
    dims = (SIZE,) * 4
    diagonal = observe(patterns.diagonal((SIZE, SIZE)))
    starts = [AlphaM(0.1, m)(dims) for m in settings.huge_ms]
    starts += [AlphaM(a, 100.0)(dims) for a in settings.small_alphas]
    starts += [(_two_at_the_top(a),) * 3 for a in settings.small_alphas]
    found = flows(diagonal, starts)
    first, second = len(settings.huge_ms), len(settings.huge_ms) + len(settings.small_alphas)
    ranks = found["stable_rank"].values
    return {
        "deepest": deep,
        "depths": np.array(settings.depths),
        "exact_depths": np.array(settings.exact_depths),
        "alphas": np.array(settings.alphas),
        "simulated": np.array(simulated),
        "exact": np.array([grid.stable_rank for grid in exact]),
        "tiny": np.array(settings.tiny),
        "unequal": np.array(unequal),
        "huge_ms": np.array(settings.huge_ms),
        "by_m": ranks[:first],
        "small_alphas": np.array(settings.small_alphas),
        "by_alpha": ranks[first:second],
        "tied": ranks[second:],
        "tied_nuclear": found["singular_values"].values.sum(axis=1) / SIZE,
    }


def _nearly_diagonal(alpha: float, off: float, depth: int) -> tuple[np.ndarray, ...]:
    return (np.array([[alpha, off], [off, alpha]]),) * depth


def _two_at_the_top(alpha: float) -> np.ndarray:
    """Return a symmetric circulant whose largest eigenvalue, 1.5 alpha, occurs twice."""
    phases = 2 * np.pi * np.outer(np.arange(SIZE), np.arange(SIZE)) / SIZE
    eigenvalues = np.full(SIZE, alpha)
    eigenvalues[[1, -1]] = 1.5 * alpha
    row = (np.cos(phases) @ eigenvalues) / SIZE
    index = np.arange(SIZE)
    return np.asarray(row[(index[:, None] - index) % SIZE])


def figure(data: Data) -> "Figure":
    """Stable rank over depth for four scales; over m and alpha; unequal targets."""
    fig, axes = drawing.panels(3)
    colours: Any = ("#2171b5", "#6baed6", "#fd8d3c", "#b3261e")
    for k, alpha in enumerate(data["alphas"]):
        colour = colours[k % 4]
        axes[0].semilogx(
            data["exact_depths"], data["exact"][:, k], "-", color=colour, label=f"alpha = {alpha:g}"
        )
        axes[0].semilogx(data["depths"], data["simulated"][:, k], "o", color=colour)
    axes[0].set_xticks([2, 4, 8, 16, 32, 64], ["2", "4", "8", "16", "32", "64"])
    axes[0].minorticks_off()
    drawing.title(axes[0], "2 x 2, m = 2 (line: exact)", "depth", "stable rank of the limit")
    drawing.legend(axes[0])
    axes[1].semilogx(data["huge_ms"], data["by_m"], "o-", label="alpha = 0.1, over m")
    twin = 1 / data["small_alphas"]
    axes[1].semilogx(twin, data["by_alpha"], "s-", label="m = 100, over 1/alpha")
    axes[1].semilogx(twin, data["tied"], "D-", label="two equal top modes, over 1/alpha")
    drawing.reference(axes[1], 2.0, "two")
    drawing.title(axes[1], "10 x 10, depth 3", "m, or 1/alpha", "stable rank of the limit")
    axes[1].set_ylim(0, 13)
    drawing.legend(axes[1], loc="upper left")
    shown = np.maximum(data["tiny"], 1e-14)
    for k, depth in enumerate(data["depths"]):
        axes[2].semilogx(
            shown,
            data["unequal"][k],
            "o-",
            color=drawing.depth_colour(int(depth)),
            label=f"depth {depth}",
        )
    drawing.title(
        axes[2],
        "diagonal (1, 1/2): nearly diagonal starts",
        "off-diagonal entry of the start (left end: 0)",
        "stable rank of the limit",
    )
    drawing.legend(axes[2])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    at = {int(depth): k for k, depth in enumerate(data["exact_depths"])}
    scale = {float(alpha): k for k, alpha in enumerate(data["alphas"])}
    exact, unequal = data["exact"], data["unequal"]
    rows = [at[int(depth)] for depth in data["depths"]]
    return [
        below(
            "no-help/exact",
            "The stable ranks below are those of simulation too (largest difference, where "
            "simulated).",
            np.abs(data["simulated"] - exact[rows]).max(),
            1e-6,
        ),
        below(
            "no-help/small",
            "alpha = 1, below the threshold alpha (1 - 1/m) = 1: every further factor lowers the "
            "stable rank (largest increase with depth).",
            np.diff(exact[:, scale[1.0]]).max(),
            0.0,
        ),
        above(
            "no-help/not-monotone",
            "alpha = 1.9, still below the threshold: the stable rank first rises with depth (from "
            "depth 3 to 8).",
            exact[at[8], scale[1.9]] - exact[at[3], scale[1.9]],
            0.02,
        ),
        below(
            "no-help/threshold-below",
            "... and only then falls to one (stable rank at depth 64).",
            exact[at[64], scale[1.9]],
            1.001,
        ),
        about(
            "no-help/threshold-above",
            "alpha = 3, above the threshold: deeper means higher rank, up to the full one (stable "
            "rank at depth 64).",
            exact[at[64], scale[3.0]],
            2.0,
            1e-3,
        ),
        below(
            "no-help/alpha-first",
            "alpha -> 0 at fixed m = 100 leads to stable rank one (depth 3, alpha = 0.01) ...",
            data["by_alpha"][-1],
            1.001,
        ),
        above(
            "no-help/m-first",
            "... m -> inf at fixed alpha = 0.1 to full rank (m = 1e6): the two limits do not "
            "commute.",
            data["by_m"][-1],
            9.9,
        ),
        about(
            "no-help/tied",
            "What counts is how often the largest eigenvalue of the start occurs: with two equal "
            "ones the stable rank tends to two, not one (depth 3, alpha = 0.01).",
            data["tied"][-1],
            2.0,
            1e-3,
        ),
        below(
            "no-help/nuclear-norm",
            "The nuclear norm cannot tell these limits apart: it is n w in all of them (largest "
            "relative deviation).",
            np.abs(data["tied_nuclear"] - 1).max(),
            1e-6,
        ),
        about(
            "no-help/unequal-diagonal",
            "Observed diagonal (1, 1/2), exactly diagonal start: stable rank 1.25 at every depth "
            "(the value at the largest depth).",
            unequal[-1, 0],
            1.25,
            1e-6,
        ),
        below(
            "no-help/unequal-unstable",
            "That solution is unstable at depth 4: off-diagonal entries of 1e-12 in the start "
            "bring the stable rank to one.",
            unequal[-1, 1],
            1.01,
        ),
        about(
            "no-help/unequal-depth-2",
            "At depth 2 it is stable: the same start still gives 1.25.",
            unequal[0, 1],
            1.25,
            1e-6,
        ),
    ]


STUDY = Study(
    name="no-help",
    title="Where depth does not help",
    source="Theorem 3.3 and Corollary 3.4, at their limits",
    summary="'The deeper, the lower the rank' needs a small start. From large starts more factors"
    " raise the rank; from nearly diagonal ones the order of two limits decides; and what"
    " the rank tends to is the number of equally strong leading directions in the start, "
    "not always one.",
    caption="Left: stable rank over depth below and above the threshold alpha = 2. Middle: alpha "
    "to zero and m to infinity do not commute; with a tie at the top the rank tends to "
    "two. Right: with unequal values the exactly diagonal solution is unstable at depth 3"
    " and more.",
    quick=Settings(),
    full=Settings(small_alphas=(1.0, 0.5, 0.3, 0.1, 0.05, 0.03, 0.01, 3e-3)),
    run=run,
    figure=figure,
    claims=claims,
)
