"""Other optimisers than gradient flow, and the step size at which descent leaves it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.initialization import AlphaM, Gaussian
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below, between, mean_interval
from depthrank.studies.simulate import descents, modes, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 10
# Step sizes, the larger about as large as the optimiser bears here.
RATES = {
    "sgd": (0.1, 0.02),
    "momentum": (0.02, 0.004),
    "adam": (0.01, 0.002),
    "rmsprop": (0.003, 0.001),
    "adagrad": (0.1, 0.03),
}


@dataclass(frozen=True)
class Settings:
    """How many step sizes and seeds; steps at most; the start."""

    rates: int = 1
    seeds: int = 4
    depths: tuple[int, ...] = (2, 3)
    steps: int = 30_000
    init_scale: float = 1e-3
    alpha: float = 0.3
    m: float = 2.0
    shares: tuple[float, ...] = (0.8, 0.4, 0.2, 0.1, 0.05)


def run(settings: Settings, seed: int) -> Data:
    """Train a 10 x 10 diagonal from random starts by every optimiser, to a residual of 1e-4."""
    draws = [seed * 1000 + k for k in range(settings.seeds)]
    diagonal = observe(patterns.diagonal((SIZE, SIZE)))
    names, rates, ranks, unfinished = [], [], [], 0
    for name, steps in RATES.items():
        for rate in steps[: settings.rates]:
            row = []
            for depth in settings.depths:
                dims = (SIZE,) * (depth + 1)
                starts = [Gaussian(settings.init_scale)(dims, draw) for draw in draws]
                found = descents(diagonal, starts, name, rate, settings.steps, tol=1e-6)
                unfinished += sum(t.observed_mse > 1e-4 for t in found)
                row.append([t.effective_rank for t in found])
            names.append(name)
            rates.append(rate)
            ranks.append(row)
    return {
        "depths": np.array(settings.depths),
        "names": np.array(names),
        "rates": np.array(rates),
        "effective_rank": np.array(ranks),
        "unfinished": unfinished,
    } | _step_sizes(settings)


def _step_sizes(settings: Settings) -> Data:
    """Descent from the paper's start: below and above 2/lambda, and its distance from the flow."""
    diagonal = observe(patterns.diagonal((SIZE, SIZE)))
    result: dict[str, list[Any]] = {
        name: [] for name in ("inside", "beyond", "sharpness", "growth", "map_error", "deviation")
    }
    for depth in settings.depths:
        start = AlphaM(settings.alpha, settings.m)((SIZE,) * (depth + 1))
        problem: dict[str, Any] = {"depth": depth, "alpha": settings.alpha, "m": settings.m}
        exact = theory.limits(**problem, n_blocks=SIZE)
        longest = 2 / exact.rate
        (inside,) = descents(diagonal, [start], "sgd", 0.9 * longest, 10_000, tol=1e-20)
        (beyond,) = descents(diagonal, [start], "sgd", 1.3 * longest, 10_000, tol=1e-20)
        mapped = theory.descent_state(
            inside.evaluations, 0.9 * longest, **_reduced(depth, start[0])
        )
        found = np.array(modes(inside.factors))
        sharp = _sharpness(depth, modes(beyond.factors))
        result["inside"].append(inside.observed_mse)
        result["beyond"].append(beyond.observed_mse)
        result["sharpness"].append(sharp * 1.3 * longest / 2)
        result["growth"].append(modes(beyond.factors)[1] / exact.singular_values[1])
        result["map_error"].append(np.abs(found / mapped**depth - 1).max())
        result["deviation"].append(
            [_deviation(depth, start[0], share * longest, exact) for share in settings.shares]
        )
    return {name: np.array(values) for name, values in result.items()} | {
        "shares": np.array(settings.shares)
    }


def _reduced(depth: int, W: np.ndarray) -> dict[str, Any]:
    """Describe the two-number problem that a factor a I + b J starts."""
    first = W.sum() / SIZE
    eigenvalues = (first, (np.trace(W) - first) / (SIZE - 1))
    return {
        "depth": depth,
        "eigenvalues": eigenvalues,
        "multiplicities": (1, SIZE - 1),
        "target": 1.0,
    }


def _sharpness(depth: int, sigma: tuple[float, float]) -> float:
    """Largest Hessian eigenvalue of the loss at a fitted state with these singular values."""
    e = np.abs(sigma) ** (1 / depth)
    return float(depth / SIZE * (np.array([1, SIZE - 1]) @ e ** (2 * depth - 2)))


def _deviation(depth: int, W: np.ndarray, step: float, exact: Any) -> float:
    """Relative distance of sigma_2 after descent from that of the flow."""
    steps = int(60 / (step * exact.rate)) + int(200 / step)
    e = theory.descent_state(steps, step, **_reduced(depth, W))
    return float(abs(e[1] ** depth / exact.singular_values[1] - 1))


def figure(data: Data) -> "Figure":
    """Effective ranks by optimiser and depth; distance of descent from the flow."""
    fig, axes = drawing.panels(2, width=4.4)
    for a, depth in enumerate(map(int, data["depths"])):
        colour = drawing.depth_colour(depth)
        for k in range(len(data["names"])):
            values = data["effective_rank"][k, a]
            x = np.full(values.size, k + 0.12 * a)
            axes[0].plot(x, values, "o", ms=3, alpha=0.6, color=colour)
        axes[1].loglog(
            data["shares"],
            np.maximum(data["deviation"][a], 1e-16),
            "o-",
            color=colour,
            label=f"depth {depth}",
        )
    axes[1].set_xticks(data["shares"], [f"{share:g}" for share in data["shares"]])
    axes[1].minorticks_off()
    labels = [f"{n}\n{r:g}" for n, r in zip(data["names"], data["rates"], strict=True)]
    axes[0].set_xticks(range(len(labels)), labels, fontsize=7)
    axes[0].set_ylim(0, SIZE)
    drawing.title(axes[0], "10 x 10 diagonal, random starts", "", "effective rank")
    drawing.title(
        axes[1], "plain descent against flow", "step size / largest stable", "error of sigma_2"
    )
    drawing.legend(axes[1])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    result = [
        below(
            "optimizers/trained",
            "Every optimiser trains every depth (number of runs with a mean squared residual above "
            "1e-4).",
            data["unfinished"],
            0,
        )
    ]
    for k, (name, rate) in enumerate(zip(data["names"], data["rates"], strict=True)):
        change = mean_interval(data["effective_rank"][k, 0] - data["effective_rank"][k, 1])
        result.append(
            above(
                f"optimizers/{name}-{rate:g}",
                f"{name}, step {rate:g}: effective rank at depth 2 minus at depth 3, same seeds, "
                "mean of the draws.",
                change.pop("measured"),
                0.0,
                **change,
            )
        )
    return result + _step_claims(data)


def _step_claims(data: Data) -> list[Claim]:
    slopes = [
        np.log(row[-2] / row[-1]) / np.log(data["shares"][-2] / data["shares"][-1])
        for row in data["deviation"][1:]
    ]
    return [
        below(
            "optimizers/stable-step",
            "Plain descent with 0.9 of the predicted largest step 2/lambda converges at every "
            "depth (largest mean squared residual).",
            data["inside"].max(),
            1e-15,
        ),
        above(
            "optimizers/unstable-step",
            "With 1.3 of it, depth 2 cannot converge: on its way no other solution is flatter "
            "(mean squared residual at the end).",
            data["beyond"][0],
            1e-3,
        ),
        between(
            "optimizers/edge",
            "Depth 3 then converges all the same, elsewhere: to a flatter solution at the edge of "
            "stability (step times largest Hessian eigenvalue over two) ...",
            data["sharpness"][1] if data["beyond"][1] < 1e-12 else np.nan,
            0.9,
            1.0,
        ),
        above(
            "optimizers/edge-rank",
            "... which has higher rank: too large a step undoes the effect of depth (its sigma_2 "
            "over that of the flow).",
            data["growth"][1],
            10.0,
        ),
        below(
            "optimizers/map",
            "Descent keeps the symmetry of the start: its singular values are those of the "
            "two-number map (largest relative error).",
            data["map_error"].max(),
            1e-8,
        ),
        below(
            "optimizers/depth-2-exact",
            "At depth 2 descent of any stable step ends exactly where the flow does (relative "
            "error of sigma_2).",
            data["deviation"][0].max(),
            1e-9,
        ),
        about(
            "optimizers/depth-3-order",
            "At depth 3 it ends elsewhere by an amount proportional to the step (fitted power of "
            "the step size).",
            slopes[0],
            1.0,
            0.15,
        ),
    ]


STUDY = Study(
    name="optimizers",
    title="Other optimisers",
    source="Section on experiments; gradient flow is what the theorems assume",
    summary="Real training takes steps. Plain descent follows the flow as long as its step is "
    "below a limit that can be computed, and ends at higher rank beyond it. And the "
    "effect of depth is there for momentum and for the adaptive methods as well, to "
    "different degrees.",
    caption="Left: effective rank after training, by optimiser, step size and depth. Right: how "
    "far plain descent ends from the flow; at depth 2 not at all (rounding).",
    quick=Settings(),
    full=Settings(rates=2, seeds=12, depths=(2, 3, 4)),
    run=run,
    figure=figure,
    claims=claims,
)
