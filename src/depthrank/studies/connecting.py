"""From disconnected to connected, one observation at a time."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from depthrank import patterns
from depthrank.graph import connectivity
from depthrank.initialization import Gaussian
from depthrank.observations import Observations
from depthrank.seeds import generator
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below, mean_interval
from depthrank.studies.simulate import flows
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 10
TOLERANCE = 1e-8  # residuals of 1e-4: ranks are settled long before, the last digits cost most
VISIBLE = 0.03  # singular values above this share of the largest are counted


@dataclass(frozen=True)
class Settings:
    """Draws; the pattern starts with `components` parts and gains one bridge a step."""

    seeds: int = 8
    components: int = 4
    depths: tuple[int, ...] = (2, 3)
    scales: tuple[float, ...] = (1e-3, 1e-8)


def sequence(components: int, seed: int) -> list[Observations]:
    """Return rank-one data seen in that many components, then one bridge more at each step."""
    rng = generator(seed, "truth")
    truth = np.outer(rng.uniform(0.7, 1.4, SIZE), rng.uniform(0.7, 1.4, SIZE))
    mask = patterns.disconnected((SIZE, SIZE), components=components, count=24, seed=seed)
    result = [Observations.from_mask(truth, mask)]
    while True:
        found = connectivity(result[-1])
        if found.n_components == 1:
            return result
        across = found.row_component[:, None] != found.col_component
        mask = mask.copy()
        mask.ravel()[rng.choice(np.flatnonzero(across))] = True
        result.append(Observations.from_mask(truth, mask))


def run(settings: Settings, seed: int) -> Data:
    """Train from random starts at every step: ranks, [depth, step, draw]."""
    draws = [seed * 1000 + k for k in range(settings.seeds)]
    sequences = [sequence(settings.components, draw) for draw in draws]
    steps = settings.components
    shape = (len(settings.depths), len(settings.scales), steps, settings.seeds)
    effective, visible, unfinished = np.zeros(shape), np.zeros(shape), 0
    seen = [one[step] for step in range(steps) for one in sequences]
    for a, depth in enumerate(settings.depths):
        for b, scale in enumerate(settings.scales):
            init, dims = Gaussian(scale), (SIZE,) * (depth + 1)
            starts = [init(dims, draw) for _ in range(steps) for draw in draws]
            found = flows(seen, starts, rtol=1e-7, tol=TOLERANCE)
            unfinished += int((found["stopped_by"] != "fitted").sum())
            effective[a, b] = found["effective_rank"].values.reshape(shape[2:])
            s = found["singular_values"].values
            visible[a, b] = (s > VISIBLE * s[:, :1]).sum(axis=1).reshape(shape[2:])
    return {
        "depths": np.array(settings.depths),
        "scales": np.array(settings.scales),
        "components": np.arange(steps, 0, -1),
        "effective_rank": effective,
        "visible": visible,
        "unfinished": unfinished,
    }


def figure(data: Data) -> "Figure":
    """Effective rank over the number of components, one panel a scale of the start."""
    fig, axes = drawing.panels(len(data["scales"]))
    for b, (ax, scale) in enumerate(zip(axes, data["scales"], strict=True)):
        for a, depth in enumerate(map(int, data["depths"])):
            values, colour = data["effective_rank"][a, b], drawing.depth_colour(depth)
            ax.plot(data["components"], values, "o", ms=2.5, alpha=0.4, color=colour)
            mean = values.mean(axis=1)
            ax.plot(data["components"], mean, color=colour, label=f"depth {depth}")
        drawing.title(ax, f"start of size {scale:g}", "connected components", "effective rank")
        ax.invert_xaxis()
        ax.set_xticks(data["components"])
        ax.set_ylim(0.8, 4.2)
        ax.plot(data["components"], data["components"], ":", color=drawing.GREY, label="components")
    drawing.legend(axes[0])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    ranks, most = data["effective_rank"], int(data["components"][0])
    two, three = ranks[0], ranks[1]
    apart = mean_interval(two[0, 0] - two[-1, 0])
    joined = mean_interval(two[0, -1] - two[-1, -1])
    gap = mean_interval(two[-1, -1] - three[-1, -1])
    near_one = mean_interval(three[-1].max(axis=0))
    return [
        below(
            "connecting/fitted",
            "Every run fits its data to a relative residual of 1e-4 (number that do not).",
            data["unfinished"],
            0,
        ),
        about(
            "connecting/disconnected-count",
            f"Depth 2, rank-one data seen in {most} components: one singular value above 3 % of "
            "the largest for each component (the draw farthest from that, both scales).",
            _farthest(data["visible"][0, :, 0], most),
            most,
            0.0,
            n_seeds=two.shape[-1],
        ),
        about(
            "connecting/disconnected-scale",
            "Depth 2, disconnected: a far smaller start changes little (mean change of the "
            "effective rank).",
            apart.pop("measured"),
            0.0,
            0.15,
            **apart,
        ),
        above(
            "connecting/connected-scale",
            "Depth 2, connected: it lowers the effective rank (mean fall). Connected means low "
            "rank only as the start shrinks, and slowly.",
            joined.pop("measured"),
            0.2,
            **joined,
        ),
        below(
            "connecting/bridges",
            "Depth 2, small start: every bridge lowers the mean effective rank (largest change).",
            np.diff(two[-1].mean(axis=1)).max(),
            0.0,
            n_seeds=two.shape[-1],
        ),
        below(
            "connecting/depth-3",
            "Depth 3, same data and start: near rank one from the beginning (effective rank at the "
            "worst number of components, mean of the draws).",
            near_one.pop("measured"),
            1.1,
            **near_one,
        ),
        above(
            "connecting/depth-3-below-2",
            "Even when all is connected depth 3 ends lower than depth 2 (mean difference, small "
            "start).",
            gap.pop("measured"),
            0.0,
            **gap,
        ),
    ]


def _farthest(values: np.ndarray, target: float) -> float:
    return float(values.flat[np.argmax(np.abs(values - target))])


STUDY = Study(
    name="connecting",
    title="One observation more: from disconnected to connected",
    source="Theorems 3.1 and 3.3, from disconnected to connected",
    summary="Rank-one data are seen in four separate parts, then cells that join two parts are "
    "added one at a time. With two factors separate parts stay problems of their own, one"
    " rank for each; each bridge lowers the rank, but only as the start shrinks. With "
    "three factors the result is near rank one from the beginning.",
    caption="Effective rank while bridges are added (10 x 10, random starts). Dots: draws, lines:"
    " means. Left: a moderate start, where connecting helps depth 2 little; right: a tiny"
    " one.",
    quick=Settings(),
    # Depth 4 from 1e-8 stays on plateaus beyond half a million gradient evaluations.
    full=Settings(seeds=32),
    run=run,
    figure=figure,
    claims=claims,
)
