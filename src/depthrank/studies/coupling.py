"""Which observed entries train together, by depth, pattern and start."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.graph import connectivity
from depthrank.initialization import AlphaM, Gaussian
from depthrank.observations import Observations
from depthrank.seeds import generator
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, above, below
from depthrank.studies.simulate import course, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 10
PATTERNS = ("diagonal", "blocks", "two components", "connected", "random")
STARTS = ("diagonal start", "alpha-m start", "random start")


@dataclass(frozen=True)
class Settings:
    """Depths, times along the trajectories and scale of the starts."""

    depths: tuple[int, ...] = (2, 3)
    times: tuple[float, ...] = (0.0, 0.3, 1.0, 3.0, 10.0)
    alpha: float = 0.2


def masks(seed: int) -> dict[str, np.ndarray]:
    """Return the patterns, by name."""
    shape = (SIZE, SIZE)
    return {
        "diagonal": patterns.diagonal(shape),
        "blocks": patterns.block_diagonal([(2, 2)] * (SIZE // 2)),
        "two components": patterns.disconnected(shape, components=2, count=30, seed=seed),
        "connected": patterns.connected(shape, count=30, seed=seed),
        "random": patterns.uniform(shape, count=25, seed=seed),
    }


def run(settings: Settings, seed: int) -> Data:
    """Measure the largest couplings along each trajectory, [depth, pattern, start, time]."""
    seen = {name: observe(mask) for name, mask in masks(seed).items()}
    shape = (len(settings.depths), len(PATTERNS), len(STARTS), len(settings.times))
    across, within, apart = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    disagreements, kernel_error = 0, 0.0
    for a, depth in enumerate(settings.depths):
        dims = (SIZE,) * (depth + 1)
        inits: tuple[Any, ...] = (
            AlphaM(settings.alpha, np.inf),
            AlphaM(settings.alpha, 2.0),
            Gaussian(settings.alpha**depth * np.sqrt(SIZE)),
        )
        cases = list(product(PATTERNS, inits))
        starts = [init(dims, seed) for _, init in cases]
        states = course([seen[p] for p, _ in cases], starts, settings.times)
        for k, (p, _) in enumerate(cases):
            at = a, k // len(STARTS), k % len(STARTS)
            found = np.array([_largest(state[k], seen[p]) for state in states])
            across[at], within[at], apart[at] = found.T
            verdict = theory.can_couple(seen[p], factors=starts[k]).across
            disagreements += verdict != bool(across[at].max() > 1e-12)
        kernel_error = max(kernel_error, _kernel_error(depth, settings.alpha))
    return {
        "depths": np.array(settings.depths),
        "times": np.array(settings.times),
        "across": across,
        "within": within,
        "apart": apart,
        "components": np.array([connectivity(seen[p]).n_components for p in PATTERNS]),
        "disagreements": disagreements,
        "kernel_error": kernel_error,
        "late": np.array(_late_coupling(seed)),
    }


def _largest(factors: Any, seen: Observations) -> tuple[float, float, float]:
    """Largest coupling across components, within them, and between entries sharing no line."""
    matrix = np.abs(theory.coupling(factors, seen))
    np.fill_diagonal(matrix, 0.0)
    part = connectivity(seen).row_component[seen.rows]
    same = part[:, None] == part
    apart = (seen.rows[:, None] != seen.rows) & (seen.cols[:, None] != seen.cols)
    across, within, no_line = (
        float(np.max(matrix, where=where, initial=0.0)) for where in (~same, same, apart)
    )
    return across, within, no_line


def _kernel_error(depth: int, alpha: float) -> float:
    """Compare gradients' inner products with the closed form, on the diagonal."""
    factors = AlphaM(alpha, 2.0)((SIZE,) * (depth + 1))
    kernel = theory.tangent_kernel(factors, patterns.diagonal((SIZE, SIZE)))
    closed = np.array(theory.start_kernel(depth=depth, dimension=SIZE, alpha=alpha, m=2.0))
    found = np.array([kernel[0, 0], kernel[0, 1], np.linalg.eigvalsh(kernel)[-1]])
    return float(np.max(np.abs(found - closed)) / closed[2])


def _late_coupling(seed: int) -> list[float]:
    """Coupling at t = 0 and t = 0.5 of a start whose gradients are orthogonal at first only."""
    full = generator(seed, "init").standard_normal((SIZE, SIZE)) / np.sqrt(SIZE)
    start = (np.eye(SIZE), full, np.eye(SIZE))
    seen = observe(patterns.diagonal((SIZE, SIZE)))
    return [_largest(state[0], seen)[0] for state in course(seen, [start], (0.0, 0.5))]


def figure(data: Data) -> "Figure":
    """Coupling across components along the trajectories, one panel a start."""
    fig, axes = drawing.panels(len(STARTS))
    top = max(float(data["across"].max()), 0.1)
    marks = dict(zip(PATTERNS, "osD^v", strict=True))
    for b, (ax, start) in enumerate(zip(axes, STARTS, strict=True)):
        for a, depth in enumerate(data["depths"]):
            for c, name in enumerate(PATTERNS):
                if data["components"][c] > 1:
                    ax.plot(
                        data["times"],
                        data["across"][a, c, b],
                        marker=marks[name],
                        color=drawing.depth_colour(depth),
                        label=f"depth {depth}, {name}",
                    )
        drawing.title(ax, start, "flow time", "largest coupling across components")
        ax.set_xscale("symlog", linthresh=0.3)
        ax.set_ylim(-0.02, 1.15 * top)
    drawing.legend(axes[0], loc="upper left")
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    depths, across = data["depths"], data["across"]
    parts = data["components"] > 1
    two, deep = across[depths == 2], across[depths >= 3]
    mixing = deep[:, parts][:, :, 1:].max(axis=-1)
    return [
        below(
            "coupling/depth-2-across",
            "At depth 2 entries in different connected components never couple: largest "
            "coupling over all patterns, starts and times.",
            two[:, parts].max(),
            1e-14,
        ),
        above(
            "coupling/depth-3-across",
            "At depth 3 and more they do, from starts that are not diagonal: smallest, over "
            "disconnected patterns and starts, of the largest coupling on the way.",
            mixing.min(),
            1e-3,
        ),
        below(
            "coupling/diagonal-start",
            "From a diagonal start with diagonal observations nothing couples at any depth.",
            across[:, 0, 0].max(),
            1e-14,
        ),
        above(
            "coupling/inside-blocks",
            "'Decoupled' at depth 2 holds between components only: entries inside one block "
            "couple (largest coupling inside 2 x 2 blocks, smallest over starts).",
            data["within"][depths == 2][:, 1].max(axis=-1).min(),
            1e-3,
        ),
        below(
            "coupling/connected-but-orthogonal",
            "Conversely, connected does not mean that every pair couples: at depth 2 two "
            "entries that share neither row nor column never do, in any pattern.",
            data["apart"][depths == 2].max(),
            1e-14,
        ),
        below(
            "coupling/start-closed-form",
            "Inner products of gradients at the start match their closed form (relative error).",
            data["kernel_error"],
            1e-12,
        ),
        below(
            "coupling/structure",
            "The verdict from zero patterns and the observation graph alone agrees with what is "
            "measured along the way (number of disagreements).",
            data["disagreements"],
            0,
        ),
        below(
            "coupling/orthogonal-at-first",
            "A depth-3 start with identity outer factors and a full middle one: gradients of "
            "diagonal entries are orthogonal at t = 0 ...",
            data["late"][0],
            1e-14,
        ),
        above(
            "coupling/orthogonal-not-enough",
            "... and coupled at t = 0.5: orthogonality at the start is not decoupling.",
            data["late"][1],
            1e-3,
        ),
    ]


STUDY = Study(
    name="coupling",
    title="Which entries train together",
    source="Definition of coupled dynamics and Proposition 3.2",
    summary="Two observed entries are coupled when a training step for one changes the other. "
    "With two factors, entries in separate connected parts of the table never influence "
    "each other; with three or more they do, unless the start is specially arranged "
    "(diagonal factors).",
    caption="Largest normalised inner product between gradients of observed entries in different "
    "connected components, along training. Depth 2 stays at zero; depth 3 leaves it "
    "unless factors start diagonal on diagonal observations.",
    quick=Settings(),
    full=Settings(depths=(2, 3, 4, 5), times=(0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)),
    run=run,
    figure=figure,
    claims=claims,
)
