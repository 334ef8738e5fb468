"""Stable rank to one as alpha -> 0 at depth three and more, and at which rate."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.dynamics.members import factors_of
from depthrank.initialization import AlphaM
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, below
from depthrank.studies.simulate import flows, modes, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE, M = 10, 2.0


@dataclass(frozen=True)
class Settings:
    """Depths and starts; the last two alphas give the fitted exponent."""

    depths: tuple[int, ...] = (2, 3, 4)
    alphas: tuple[float, ...] = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01)
    # m of the starts whose simulated singular values are held against the two-sided bounds
    ms: tuple[float, ...] = (M, 100.0, np.inf)


def run(settings: Settings, seed: int) -> Data:
    """Simulate each start to its end; `seed` plays no role, nothing is random."""
    seen = observe(patterns.diagonal((SIZE, SIZE)))
    rows: list[tuple[Any, ...]] = []
    for depth in settings.depths:
        cells = list(product(settings.ms, settings.alphas))
        starts = [AlphaM(a, m)((SIZE,) * (depth + 1)) for m, a in cells]
        found = flows(seen, starts, rtol=1e-9)
        fitted = found["stopped_by"].values == "fitted"
        for (m, a), start, factors, good in zip(
            cells, starts, factors_of(found), fitted, strict=True
        ):
            (first, second), (_, before) = modes(factors), modes(start)
            rows.append(
                (depth, m, a, first, second, before) if good else (depth, m, a, *[np.nan] * 3)
            )
    names = ("depth", "m", "alpha", "sigma_1", "sigma_2", "sigma_2_start")
    data: Data = {name: np.array(v) for name, v in zip(names, zip(*rows, strict=True), strict=True)}
    data["excess"] = (SIZE - 1) * (data["sigma_2"] / data["sigma_1"]) ** 2
    q = data["sigma_2"] / (data["sigma_1"] + (SIZE - 1) * data["sigma_2"])
    top = 1 - (SIZE - 1) * q
    entropy = -(SIZE - 1) * q * np.log(q) - top * np.log1p(-(SIZE - 1) * q)
    data["effective_excess"] = np.expm1(entropy)
    return data | _predictions(data)


def _predictions(data: Data) -> Data:
    """Leading behaviour and two-sided bounds, where they are stated (depth >= 3, finite m)."""
    size = data["depth"].size
    names = ("excess", "effective", "low", "high")
    predicted = {f"predicted_{name}": np.full(size, np.nan) for name in names}
    for k in range(size):
        depth, m = int(data["depth"][k]), float(data["m"][k])
        if depth == 2 or np.isinf(m):
            continue
        problem: dict[str, Any] = {"depth": depth, "alpha": data["alpha"][k], "m": m}
        rate = theory.small_alpha_rate(**problem, n_blocks=SIZE)
        predicted["predicted_excess"][k] = rate.stable_rank_minus_1
        predicted["predicted_effective"][k] = rate.effective_rank_minus_1
        low, high = theory.ratio_bounds(**problem, n_blocks=SIZE)
        predicted["predicted_low"][k], predicted["predicted_high"][k] = np.exp([low, high])
    return predicted


def _at(data: Data, depth: int, m: float) -> dict[str, np.ndarray]:
    """Return the rows of one depth and m, by decreasing alpha."""
    chosen = (data["depth"] == depth) & (data["m"] == m)
    return {name: values[chosen] for name, values in data.items()}


def figure(data: Data) -> "Figure":
    """Stable rank minus one over alpha with the predicted power; ranks at m = inf."""
    fig, axes = drawing.panels(3)
    for depth in map(int, np.unique(data["depth"])):
        rows, colour = _at(data, depth, M), drawing.depth_colour(depth)
        for ax, name, line in (
            (axes[0], "excess", "predicted_excess"),
            (axes[1], "effective_excess", "predicted_effective"),
        ):
            ax.loglog(rows["alpha"], rows[name], "o", color=colour, label=f"depth {depth}")
            ax.loglog(rows["alpha"], rows[line], "-", color=colour)
        wide = _at(data, depth, np.inf)
        axes[2].semilogx(
            wide["alpha"], 1 + wide["excess"], "o-", color=colour, label=f"depth {depth}, m = inf"
        )
        medium = _at(data, depth, 100.0)
        axes[2].semilogx(medium["alpha"], 1 + medium["excess"], "s--", color=colour, ms=3)
    drawing.title(axes[0], "m = 2 (line: predicted)", "alpha", "stable rank − 1")
    drawing.title(axes[1], "m = 2 (line: predicted)", "alpha", "effective rank − 1")
    drawing.title(axes[2], "m = inf, and m = 100 (dashed)", "alpha", "stable rank")
    axes[2].set_ylim(0, SIZE + 1)
    drawing.legend(axes[0])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    result = []
    deep = [int(depth) for depth in np.unique(data["depth"]) if depth > 2]
    for depth in deep:
        rows = _at(data, depth, M)
        last = np.log(rows["excess"][-2:]) / np.log(10)
        decades = np.log10(rows["alpha"][-2] / rows["alpha"][-1])
        expected = theory.small_alpha_rate(
            depth=depth, alpha=rows["alpha"][-1], m=M, n_blocks=SIZE
        ).exponent
        result.append(
            about(
                f"small-start/exponent-depth-{depth}",
                f"Depth {depth}: stable rank - 1 of the simulated limit falls like "
                f"alpha^{2 * depth} (exponent between the two smallest alphas).",
                (last[0] - last[1]) / decades,
                expected,
                0.05,
            )
        )
    smallest = [_at(data, depth, M) for depth in deep]
    result += [
        below(
            "small-start/constant",
            "The constant in front is right as well: largest relative error of the predicted "
            "stable rank - 1 at the smallest alpha.",
            max(abs(r["predicted_excess"][-1] / r["excess"][-1] - 1) for r in smallest),
            1e-3,
        ),
        below(
            "small-start/effective-rank",
            "Effective rank - 1 falls more slowly, like alpha^L log(1/alpha): relative error of "
            "the prediction at the smallest alpha.",
            max(
                abs(r["predicted_effective"][-1] / r["effective_excess"][-1] - 1) for r in smallest
            ),
            1e-3,
        ),
        below(
            "small-start/rank-stays-full",
            "'Converges to rank one' is about the limit alpha -> 0: at every alpha > 0 the rank "
            "stays full. The small singular values end at a fixed multiple of where they began, "
            "(1 - (a_2/a_1)^(L-2))^(-L/(L-2)) (relative error at the smallest alpha).",
            max(abs(_growth(r) / _predicted_growth(r) - 1) for r in smallest),
            0.02,
        ),
        below(
            "small-start/bounds",
            "Closed-form bounds from both sides contain sigma_2/sigma_1 of every simulated limit "
            "(number outside, to a relative 1e-6).",
            _outside(data),
            0,
        ),
        below(
            "small-start/depth-2",
            "Depth 2 gains nothing from small starts: spread of the stable rank over alpha.",
            max(np.ptp(_at(data, 2, m)["excess"]) for m in np.unique(data["m"])),
            1e-6,
        ),
        about(
            "small-start/diagonal-start",
            "m = inf: stable rank n = 10 at every depth and alpha (the value farthest from 10).",
            1 + _farthest(data["excess"][np.isinf(data["m"])], SIZE - 1),
            SIZE,
            1e-5,
        ),
    ]
    return result


def _growth(rows: dict[str, np.ndarray]) -> float:
    return float(rows["sigma_2"][-1] / rows["sigma_2_start"][-1])


def _predicted_growth(rows: dict[str, np.ndarray]) -> float:
    depth, share = int(rows["depth"][0]), (1 - 1 / M) / (1 + (SIZE - 1) / M)
    return float((1 - share ** (depth - 2)) ** (-depth / (depth - 2)))


def _farthest(values: np.ndarray, target: float) -> float:
    return float(values[np.argmax(np.abs(values - target))])


def _outside(data: Data) -> float:
    stated = np.isfinite(data["predicted_low"])
    ratio = (data["sigma_2"] / data["sigma_1"])[stated]
    inside = (ratio >= data["predicted_low"][stated] * (1 - 1e-6)) & (
        ratio <= data["predicted_high"][stated] * (1 + 1e-6)
    )
    return float(np.sum(~inside))


STUDY = Study(
    name="small-start",
    title="Small starts at depth three and more",
    source="Corollary 3.4",
    summary="With three or more factors the result approaches rank one as the start shrinks, at a"
    " known power of its scale. With two factors the scale of the start makes no "
    "difference, and from an exactly diagonal start depth makes none.",
    caption="Distance from rank one against the scale alpha of the start (10 x 10, diagonal "
    "observed). Dots: simulated. Lines: predicted. Right, the breakdown: a diagonal start"
    " keeps full rank at any depth, and m = 100 behaves like it until alpha is small.",
    quick=Settings(),
    full=Settings(
        depths=(2, 3, 4, 5),
        alphas=(1.0, 0.7, 0.5, 0.3, 0.2, 0.1, 0.05, 0.02, 0.01, 5e-3),
        ms=(M, 10.0, 100.0, np.inf),
    ),
    run=run,
    figure=figure,
    claims=claims,
)
