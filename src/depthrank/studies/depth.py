"""Is deeper lower? Three ways of comparing depths fairly."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.initialization import AlphaM
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below
from depthrank.studies.simulate import flows, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 10
WAYS = ("equal alpha", "equal end-to-end scale", "equal escape time")


@dataclass(frozen=True)
class Settings:
    """Depths, and depth-2 alphas; every other depth gets its equal in each of the three ways."""

    depths: tuple[int, ...] = (2, 3, 4)
    alphas: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01, 1e-3)
    m: float = 100.0
    exact_alphas: int = 16


def run(settings: Settings, seed: int) -> Data:
    """Simulate every depth at the alphas that each comparison gives it; nothing is random."""
    given = np.array(settings.alphas)
    fine = np.geomspace(given.min(), given.max(), settings.exact_alphas)
    shape = (len(WAYS), len(settings.depths))
    alphas = np.zeros((*shape, given.size))
    ranks, exact = np.zeros_like(alphas), np.zeros_like(alphas)
    curves = np.zeros((*shape, fine.size))
    diagonal = observe(patterns.diagonal((SIZE, SIZE)))
    for k, depth in enumerate(settings.depths):
        for way in range(len(WAYS)):
            alphas[way, k] = [_equal(way, depth, a, settings.m) for a in given]
            dense = np.array([_equal(way, depth, a, settings.m) for a in fine])
            for table, at in ((curves, dense), (exact, alphas[way, k])):
                table[way, k] = theory.limits_grid(
                    depth=depth, alpha=at, m=settings.m, n_blocks=SIZE
                ).stable_rank
        starts = [AlphaM(a, settings.m)((SIZE,) * (depth + 1)) for a in alphas[:, k].ravel()]
        found = flows(diagonal, starts)
        fitted = found["stopped_by"].values == "fitted"
        ranks[:, k] = np.where(fitted, found["stable_rank"].values, np.nan).reshape(3, given.size)
    return {
        "depths": np.array(settings.depths),
        "alphas": alphas,
        "m": settings.m,
        "stable_rank": ranks,
        "exact": exact,
        "fine": fine,
        "curves": curves,
    }


def _equal(way: int, depth: int, alpha: float, m: float) -> float:
    """Alpha of `depth` that equals depth 2 at `alpha`."""
    if way == 0 or depth == 2:
        return alpha
    if way == 1:  # the diagonal of the end-to-end start, alpha^L up to a factor of m and size
        return float(alpha ** (2 / depth))
    from scipy.optimize import brentq

    wanted = np.log(_half_time(2, alpha, m))

    def late(log_alpha: float) -> float:
        return float(np.log(_half_time(depth, float(np.exp(log_alpha)), m)) - wanted)

    found = brentq(late, np.log(1e-3), np.log(_largest_start(depth, m)), xtol=1e-9)
    return float(np.exp(found))


def _half_time(depth: int, alpha: float, m: float) -> float:
    first, second = 1 + (SIZE - 1) / m, 1 - 1 / m
    logs = float(np.log(alpha * first)), float(np.log(second / first))
    time = theory.half_time(depth, 1.0, *logs, SIZE)
    return 1e-12 if time is None else max(time, 1e-12)


def _largest_start(depth: int, m: float) -> float:
    """Alpha just below the one that starts with the observed mode at half its target."""
    first, second = 1 + (SIZE - 1) / m, 1 - 1 / m
    return float((0.499 * SIZE / (first**depth + (SIZE - 1) * second**depth)) ** (1 / depth))


def figure(data: Data) -> "Figure":
    """Stable rank over the depth-2 alpha, one panel a comparison."""
    fig, axes = drawing.panels(len(WAYS))
    given: Any = data["alphas"][0, 0]
    for way, (ax, name) in enumerate(zip(axes, WAYS, strict=True)):
        for k, depth in enumerate(map(int, data["depths"])):
            colour = drawing.depth_colour(depth)
            ax.semilogx(data["fine"], data["curves"][way, k], "-", color=colour)
            ax.semilogx(
                given, data["stable_rank"][way, k], "o", color=colour, label=f"depth {depth}"
            )
        drawing.title(ax, name, "alpha at depth 2", "stable rank of the limit")
        ax.set_ylim(0.97, 1.03 * float(data["stable_rank"].max()))
    drawing.legend(axes[0])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    ranks = data["stable_rank"]
    rises = np.diff(ranks, axis=1)
    result = []
    for way, name in enumerate(WAYS):
        result.append(
            below(
                f"depth/{name.replace(' ', '-')}",
                f"Compared at {name}: every further factor lowers the stable rank (largest change "
                "from one depth to the next, alpha at depth 2 up to "
                f"{data['alphas'][0, 0].max():g}).",
                rises[way].max(),
                0.0,
            )
        )
    given = data["alphas"][0, 0]
    small, hundredth = int(np.argmin(given)), int(np.argmin(np.abs(given - 0.01)))
    return [
        *result,
        below(
            "depth/exact",
            "All of these simulated limits are the exact ones (largest difference of a stable "
            "rank).",
            np.abs(data["exact"] - ranks).max(),
            1e-6,
        ),
        above(
            "depth/objection",
            "The objection to equal alpha is right in degree: at equal escape time depth 3 ends "
            "much farther from rank one than at equal alpha (ratio of stable rank - 1, alpha = "
            "0.01 at depth 2) ...",
            (ranks[2, 1, hundredth] - 1) / (ranks[0, 1, hundredth] - 1),
            100.0,
        ),
        below(
            "depth/small-start",
            "... and not in kind: at the smallest start depth 3 is near rank one in all three "
            "comparisons (largest stable rank) ...",
            ranks[:, 1, small].max(),
            1.1,
        ),
        about(
            "depth/shallow",
            "... where depth 2 keeps its stable rank, the same at every scale.",
            ranks[0, 0, small],
            1 + (SIZE - 1) * ((data["m"] - 1) / (data["m"] + SIZE - 1)) ** 4,
            1e-6,
        ),
    ]


STUDY = Study(
    name="depth",
    title="Is deeper lower? Three comparisons",
    source="Theorem 3.3 and Corollary 3.4, compared across depths",
    summary="A deeper product of equally small factors starts closer to zero and takes longer to "
    "leave it, so comparing depths at the same alpha may be unfair. Compared at the same "
    "end-to-end scale and at the same escape time, deeper still gives lower rank, but the"
    " gap is smaller.",
    caption="Stable rank of the limit over the scale of the start (10 x 10, diagonal observed, m "
    "= 100). Left: the same alpha at every depth. Middle: the same end-to-end matrix "
    "scale. Right: starts that take equally long to leave zero. Dots: simulated, lines: "
    "exact.",
    quick=Settings(),
    full=Settings(depths=(2, 3, 4, 5), alphas=(0.3, 0.2, 0.1, 0.05, 0.03, 0.01, 3e-3, 1e-3)),
    run=run,
    figure=figure,
    claims=claims,
)
