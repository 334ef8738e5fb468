"""What helps a model that has to take in more data, and whether the report foresees it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns
from depthrank import plasticity as p
from depthrank.dynamics.members import factors_of, follow
from depthrank.initialization import Gaussian
from depthrank.observations import Observations
from depthrank.seeds import generator
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, above, below, mean_interval
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZE = 8
TOLERANCE, RTOL, STEPS = 1e-8, 1e-3, 3000
FLOOR = 1e-3  # errors below this are all alike
ACTIONS = {"resume": 0, "start over": 1, "add depth": 2, "shrink": 3}
ADVISED = (p.add_depth(), p.shrink_perturb(0.1))
FURTHER = (
    *(p.shrink(0.1), p.shrink_perturb(0.03), p.dash(0.3), p.dash(0.05), p.rebalance()),
    *(p.truncate(energy=0.9), p.reset(1), p.add_depth(variant="identity"), p.anchor(1e-2)),
)


@dataclass(frozen=True)
class Settings:
    """Draws of every kind of problem, ranks and starts; whether all remedies are run."""

    seeds: int = 3
    depths: tuple[int, ...] = (2, 3)
    kinds: tuple[str, ...] = ("blocks", "parts")
    ranks: tuple[int, ...] = (1,)
    scales: tuple[float, ...] = (1e-3,)
    all_remedies: bool = False


def problem(kind: str, rank: int, seed: int) -> tuple[np.ndarray, Observations, Observations]:
    """Return a truth, what is seen of it first, and what is added."""
    rng = generator(seed, "truth")
    truth = np.outer(rng.uniform(0.7, 1.4, SIZE), rng.uniform(0.7, 1.4, SIZE))
    if rank == 2:
        truth = truth + 0.5 * np.outer(rng.normal(size=SIZE), rng.normal(size=SIZE))
    truth *= SIZE / np.linalg.norm(truth)
    shape = (SIZE, SIZE)
    old, count = {
        "blocks": lambda: (patterns.block_diagonal([(3, 3), (3, 3), (2, 2)]), 10),
        "parts": lambda: (patterns.disconnected(shape, components=3, count=18, seed=seed), 14),
        "grow": lambda: (patterns.connected(shape, count=24, seed=seed), 14),
        "few": lambda: (patterns.connected(shape, count=40, seed=seed), 4),
    }[kind]()
    new = np.zeros_like(old)
    new.ravel()[rng.choice(np.flatnonzero(~old), count, replace=False)] = True
    return truth, Observations.from_mask(truth, old), Observations.from_mask(truth, new)


def run(settings: Settings, seed: int) -> Data:
    """Run all arms on all problems, and ask the report before each."""
    cases = [(kind, rank) for kind in settings.kinds for rank in settings.ranks]
    draws = [
        1000 * (seed + 1) + 20 * k + c for c in range(len(cases)) for k in range(settings.seeds)
    ]
    given = {draw: problem(*cases[i // settings.seeds], draw) for i, draw in enumerate(draws)}

    def protocol(draw: int) -> p.Protocol:
        truth, old, new = given[draw]
        first = p.Phase(observations=old, tol=TOLERANCE)
        return p.Protocol([first, p.Phase(observations=new, add=True, tol=TOLERANCE)], truth)

    starts = [Gaussian(scale) for scale in settings.scales]
    found = p.compare(
        protocol,
        depths=settings.depths,
        starts=starts,
        seeds=draws,
        remedies=(*ADVISED, *FURTHER) if settings.all_remedies else ADVISED,
        per_decade=0,
        rtol=RTOL,
        max_steps=STEPS,
    )
    advice = np.zeros((len(settings.depths), len(starts), len(draws)), dtype=int)
    for d, depth in enumerate(settings.depths):
        for a, start in enumerate(starts):
            begin = [start((SIZE,) * (depth + 1), draw) for draw in draws]
            options: dict[str, Any] = {"tol": TOLERANCE, "rtol": RTOL, "max_steps": STEPS}
            ends = factors_of(follow([given[x][1] for x in draws], begin, **options))
            for k, (draw, factors) in enumerate(zip(draws, ends, strict=True)):
                told = p.plasticity_report(factors, given[draw][1], given[draw][2])
                advice[d, a, k] = ACTIONS[told.action]
    return {
        "arms": found["arm"].values.astype(str),
        "depths": np.array(settings.depths),
        "cases": np.array([f"{kind}, rank {rank}" for kind, rank in cases]),
        "case": np.repeat(np.arange(len(cases)), settings.seeds),
        "error": found["end_error"].values,
        "effective_rank": found["end_effective_rank"].values,
        "evaluations": found["evaluations"].values,
        "advice": advice,
        "unfinished": int((found["stopped_by"] != "fitted").sum()),
    }


def outcomes(data: Data) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Within 5 % of the best action, and regret, of each policy, over all problems.

    An error above 1 counts as 1: the zero matrix does as well.
    """
    errors = np.minimum(data["error"][:4].reshape(4, -1), 1.0)
    best = errors.min(axis=0)
    chosen = {"report": data["advice"].reshape(-1)}
    chosen |= {name: np.full(best.shape, k) for name, k in (("warm", 0), ("cold", 1))}
    result = {}
    for name, action in chosen.items():
        got = errors[action, np.arange(best.size)]
        result[name] = ((got <= 1.05 * best + FLOOR).astype(float), got - best)
    return result


def table(data: Data) -> tuple[list[str], list[list[str]]]:
    """Mean error with its interval, rank and work of each arm, by depth and kind of problem."""
    rows = []
    for d, depth in enumerate(data["depths"]):
        for c, case in enumerate(data["cases"]):
            for k, arm in enumerate(data["arms"]):
                at = data["case"] == c
                stats = mean_interval(data["error"][k, d, 0, at])
                low, high = stats["interval"]
                rank = data["effective_rank"][k, d, 0, at].mean()
                work = data["evaluations"][k, d, 0, at].mean()
                error = f"{stats['measured']:.3f} ({low:.3f} to {high:.3f})"
                rows.append(
                    [f"{arm}, depth {depth}", str(case), error, f"{rank:.2f}", f"{work:.0f}"]
                )
    return ["arm", "data", "error (95 % interval)", "effective rank", "gradients"], rows


def figure(data: Data) -> "Figure":
    """Errors of all arms by depth, and the policies' regret."""
    fig, axes = drawing.panels(2, width=4.4)
    for d, depth in enumerate(map(int, data["depths"])):
        mean = data["error"][:, d, 0].mean(axis=-1)
        places = np.arange(len(mean)) + 0.3 * d - 0.15
        axes[0].barh(places, mean, 0.28, color=drawing.depth_colour(depth), label=f"depth {depth}")
    axes[0].set_yticks(range(len(data["arms"])), data["arms"], fontsize=7)
    axes[0].invert_yaxis()
    drawing.title(axes[0], "mean error, small start", "reconstruction error", "")
    drawing.legend(axes[0])
    for name, (_, regret) in outcomes(data).items():
        axes[1].plot(np.sort(regret), np.linspace(0, 1, regret.size), label=name)
    drawing.title(axes[1], "regret of three policies", "error above the best", "share of problems")
    drawing.legend(axes[1])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    found = outcomes(data)
    (hit, regret), (warm_hit, warm_regret), (cold_hit, _) = (
        found[name] for name in ("report", "warm", "cold")
    )
    gap = mean_interval((data["error"][0] - data["error"][1])[0].mean(axis=0))
    better, saved = mean_interval(hit - warm_hit), mean_interval(warm_regret - regret)
    return [
        below(
            "plasticity-remedies/fitted",
            "Every run fits what it observes (number that do not).",
            data["unfinished"],
            0,
        ),
        above(
            "plasticity-remedies/warm-against-cold",
            "Depth 2: resuming leaves a larger reconstruction error than starting over (mean "
            "difference).",
            gap.pop("measured"),
            0.0,
            **gap,
        ),
        above(
            "plasticity-remedies/forecast-against-warm",
            f"Of {hit.size} problems the recommended action is within 5 % of the best of four in "
            f"{hit.mean():.0%}, always resuming in {warm_hit.mean():.0%}, always starting over in "
            f"{cold_hit.mean():.0%} (difference to always resuming).",
            better.pop("measured"),
            0.0,
            **better,
        ),
        above(
            "plasticity-remedies/regret",
            f"Mean regret of the recommended action {regret.mean():.3g}, of always starting over "
            f"{found['cold'][1].mean():.3g}; saved against always resuming:",
            saved.pop("measured"),
            0.0,
            **saved,
        ),
    ]


STUDY = Study(
    name="plasticity-remedies",
    title="Remedies, and a forecast",
    source="section 4, and remedies from the literature",
    summary="A model is trained, then more cells of the same low-rank matrix arrive. It resumes, "
    "starts over, or its factors are treated in between. A report that looks at the state and the "
    "new cells recommends one of four actions before any training.",
    caption="Left: error of every arm. Right: how far the policies stay behind the best action.",
    quick=Settings(),
    full=Settings(
        seeds=10,
        kinds=("blocks", "parts", "grow", "few"),
        ranks=(1, 2),
        scales=(1e-3, 1.0),
        all_remedies=False,
    ),
    run=run,
    figure=figure,
    claims=claims,
    table=table,
)
