"""Stopping when the end is proved: error bars on a limit that was not waited for."""

import time
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.initialization import Balanced
from depthrank.observations import Observations
from depthrank.seeds import generator
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, above, below
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from depthrank.dynamics.trajectory import Trajectory


@dataclass(frozen=True)
class Settings:
    """Depths, widths of the error bar asked for, draws of the problem, its size."""

    depths: tuple[int, ...] = (2, 3)
    asked: tuple[float, ...] = (1.0, 0.1, 0.01)
    seeds: int = 3
    size: int = 12
    fraction: float = 0.4


def run(settings: Settings, seed: int) -> Data:
    """Follow flows from well-conditioned balanced starts to proof and to the end."""
    shape = (len(settings.depths), settings.seeds, len(settings.asked))
    names = ("certified", "share", "moved", "outside", "width")
    data: Data = {name: np.zeros(shape) for name in names}
    seconds = np.zeros((len(settings.depths), settings.seeds, 2))
    for (a, depth), b in product(enumerate(settings.depths), range(settings.seeds)):
        seen, start = _problem(settings, depth, seed * 1000 + b)
        end = _follow(seen, start)
        for c, asked in enumerate(settings.asked):
            early = _follow(seen, start, asked)
            for name, value in _compare(early, end).items():
                data[name][a, b, c] = value
        seconds[a, b] = _cost(early, end, seen)
    return data | {
        "depths": np.array(settings.depths),
        "asked": np.array(settings.asked),
        "proof_seconds": seconds[..., 0],
        "gradient_seconds": seconds[..., 1],
    }


def _problem(settings: Settings, depth: int, seed: int) -> tuple[Observations, Any]:
    """Draw a start near a matrix of condition number 3, and data somewhat off it."""
    n, rng = settings.size, generator(seed, "truth")
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    near = left @ np.diag(np.geomspace(3.0, 1.0, n)) @ right
    noise = rng.standard_normal((n, n))
    mask = patterns.uniform((n, n), fraction=settings.fraction, seed=seed)
    # Twice the smallest singular value away: nothing is proved at the start.
    far = near + 2.0 * noise / np.linalg.norm(noise[mask])
    return Observations.from_mask(far, mask), Balanced(near)((n,) * (depth + 1), seed)


def _follow(seen: Observations, start: Any, certify: float | None = None) -> "Trajectory":
    from depthrank.dynamics.flow import flow

    found = flow(seen, factors=start, tol=1e-18, rtol=1e-8, certify=certify, record="ends")
    if found.stopped_by == "interrupted":
        raise KeyboardInterrupt
    return found


def _compare(early: "Trajectory", end: "Trajectory") -> dict[str, float]:
    """Compare what was proved with where the flow went."""
    proof = early.certificate
    assert proof is not None
    s = end.singular_values
    slack = 1e-6 * s[0]  # the integration's own error
    outside = (s < proof.sigma_lower - slack) | (s > proof.sigma_upper + slack)
    move = np.linalg.norm(end.end_to_end - early.end_to_end)
    return {
        "certified": float(early.stopped_by == "certified"),
        "share": early.evaluations / end.evaluations,
        "moved": float(move / proof.product_move),
        "outside": float(outside.sum()),
        "width": float(np.max((proof.sigma_upper - proof.sigma_lower) / s)),
    }


def _cost(early: "Trajectory", end: "Trajectory", seen: Observations) -> tuple[float, float]:
    """Seconds of one proof (fastest of five), and of one gradient on average."""
    spent = []
    for _ in range(5):
        clock = time.perf_counter()
        theory.certificate(early.factors, seen)
        spent.append(time.perf_counter() - clock)
    return min(spent), end.seconds / end.evaluations


def figure(data: Data) -> "Figure":
    """Share of the work, and the true error in shares of the proved bar."""
    fig, axes = drawing.panels(2)
    for depth, share, moved in zip(data["depths"], data["share"], data["moved"], strict=True):
        colour, label = drawing.depth_colour(int(depth)), f"depth {depth}"
        axes[0].semilogx(data["asked"], share.T, "-", color=colour, alpha=0.25)
        axes[0].semilogx(data["asked"], share.mean(axis=0), "o-", color=colour, label=label)
        axes[1].loglog(data["asked"], moved.T, "o", color=colour, alpha=0.5)
    drawing.reference(axes[1], 1.0, "proved")
    drawing.title(
        axes[0], "work until the proof", "error bar asked for (relative)", "share of evaluations"
    )
    drawing.title(axes[1], "true error", "error bar asked for", "share of the proved bar")
    drawing.legend(axes[0])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    proofs = data["certified"].size
    proof, gradient = np.median(data["proof_seconds"]), np.median(data["gradient_seconds"])
    return [
        above(
            "certificate/reached",
            "From starts where nothing is proved yet (the residual is twice the smallest singular "
            f"value), the flow ends with a proof of convergence (share of {proofs} runs).",
            data["certified"].mean(),
            1.0,
        ),
        below(
            "certificate/bars",
            f"Every singular value of the limit lies within its error bar, in all {proofs} runs "
            "(number outside).",
            data["outside"].sum(),
            0,
        ),
        below(
            "certificate/move",
            "The end-to-end matrix then moves by no more than was proved (largest share of it).",
            data["moved"].max(),
            1 + 1e-6,
        ),
        below(
            "certificate/work",
            "The proof comes before the end: largest share of the evaluations of a run to a mean "
            "squared residual of 1e-18. A proof costs one singular value decomposition, here "
            f"{1e6 * proof:.0f} µs where a gradient takes {1e6 * gradient:.0f} µs (medians).",
            data["share"].max(),
            0.95,
        ),
    ]


STUDY = Study(
    name="certificate",
    title="Stopping when the end is proved",
    source="Theorems 4.2 and 4.3, restarted",
    summary="As soon as the residual is below the smallest singular value, the rest of the flow is "
    "confined: convergence to zero loss is proved, and every singular value of the limit has an "
    "error bar. Here flows stop at that proof, and the bars are checked against where they go.",
    caption="Left: share of the gradient evaluations spent when the proof is reached; thin lines "
    "are single draws. Right: the true error, as a share of the proved bar, stays below one.",
    quick=Settings(),
    full=Settings(depths=(2, 3, 4), asked=(1.0, 0.3, 0.1, 0.03, 0.01, 1e-3), seeds=10, size=20),
    run=run,
    figure=figure,
    claims=claims,
)
