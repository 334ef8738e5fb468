"""The main experiment: a large low-rank matrix from a fifth of its entries, by depth."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from depthrank import patterns
from depthrank.dynamics.members import products
from depthrank.initialization import TiedGaussian
from depthrank.observations import Observations
from depthrank.seeds import generator
from depthrank.spectra import effective_rank
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below, mean_interval
from depthrank.studies.simulate import flows
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """Size, rank and share of the problem; depths, alphas, draws."""

    size: int = 100
    rank: int = 5
    fraction: float = 0.2
    depths: tuple[int, ...] = (2, 3)
    alphas: tuple[float, ...] = (1e-2, 1e-4)
    seeds: int = 3
    tol: float = 1e-6  # relative residual 1e-3


def problem(settings: Settings, seed: int) -> tuple[np.ndarray, Observations]:
    """Draw a truth of Frobenius norm `size` and the entries seen of it."""
    n, rng = settings.size, generator(seed, "truth")
    left, right = rng.standard_normal((2, n, settings.rank))
    truth = left @ right.T
    truth *= n / np.linalg.norm(truth)
    mask = patterns.uniform((n, n), fraction=settings.fraction, seed=seed)
    return truth, Observations.from_mask(truth, mask)


def run(settings: Settings, seed: int) -> Data:
    """Train every draw: effective rank and error, [depth, alpha, draw].

    The start is the authors': one Gaussian matrix for all factors, entries of standard deviation
    alpha^(1/L)/sqrt(n).
    """
    draws = [seed * 1000 + k for k in range(settings.seeds)]
    problems = [problem(settings, draw) for draw in draws]
    truth = np.array([truth for truth, _ in problems])
    shape = (len(settings.depths), len(settings.alphas), settings.seeds)
    rank, error = np.zeros(shape), np.zeros(shape)
    spectrum = np.zeros((*shape, settings.size))
    unfinished = 0
    for a, depth in enumerate(settings.depths):
        for b, alpha in enumerate(settings.alphas):
            init = TiedGaussian(alpha * np.sqrt(settings.size))
            starts = [init((settings.size,) * (depth + 1), draw) for draw in draws]
            found = flows(
                [seen for _, seen in problems],
                starts,
                rtol=1e-5,
                tol=settings.tol,
            )
            unfinished += int((found["stopped_by"] != "fitted").sum())
            rank[a, b] = found["effective_rank"].values
            spectrum[a, b] = found["singular_values"].values
            missed = np.linalg.norm(products(found) - truth, axis=(1, 2))
            error[a, b] = missed / np.linalg.norm(truth, axis=(1, 2))
    return {
        "depths": np.array(settings.depths),
        "alphas": np.array(settings.alphas),
        "rank": settings.rank,
        "effective_rank": rank,
        "error": error,
        "spectrum": spectrum,
        "true_rank": effective_rank(truth),
        "unfinished": unfinished,
    }


def figure(data: Data) -> "Figure":
    """Effective rank and error by depth and alpha; one spectrum each."""
    fig, axes = drawing.panels(3)
    for b, (alpha, style) in enumerate(zip(data["alphas"], ("o-", "s--"), strict=False)):
        for ax, name in zip(axes[:2], ("effective_rank", "error"), strict=True):
            values = data[name][:, b]
            spread = np.std(values, axis=1)
            label = f"alpha = {alpha:g}"
            ax.errorbar(data["depths"], values.mean(axis=1), spread, fmt=style, label=label)
            ax.set_xticks(data["depths"])
    axes[0].set_ylim(bottom=0)
    axes[1].set_yscale("log")
    drawing.title(axes[0], "effective rank", "depth", "mean, spread over draws")
    drawing.title(axes[1], "reconstruction error", "depth", "relative, all entries")
    drawing.reference(axes[0], float(data["true_rank"].mean()), "truth")
    drawing.legend(axes[0])
    for a, depth in enumerate(map(int, data["depths"])):
        s = data["spectrum"][a, -1, 0]
        index = np.arange(1, s.size + 1)
        axes[2].semilogy(index, s, color=drawing.depth_colour(depth), label=f"depth {depth}")
    axes[2].axvline(data["rank"] + 0.5, color=drawing.GREY, lw=0.9, ls=":")
    axes[2].set_ylim(bottom=1e-5)
    name = f"singular values, alpha = {data['alphas'][-1]:g}"
    drawing.title(axes[2], name, "number (dotted: the true rank)", "size")
    drawing.legend(axes[2])
    return fig


def table(data: Data) -> tuple[list[str], list[list[str]]]:
    """Means with their 95 % intervals."""
    rows = []
    for a, depth in enumerate(map(int, data["depths"])):
        for b, alpha in enumerate(data["alphas"]):
            row = [f"depth {depth}, alpha {alpha:g}"]
            for name in ("effective_rank", "error"):
                mean = mean_interval(data[name][a, b])
                low, high = mean["interval"]
                row.append(f"{mean['measured']:.4g} ({low:.4g} to {high:.4g})")
            rows.append(row)
    return ["", "effective rank", "reconstruction error"], rows


def claims(data: Data) -> list[Claim]:
    """Decide the claims, from differences between runs on the same draw."""
    rank, error = data["effective_rank"], data["error"]
    result = [
        below(
            "recovery/fitted",
            "Every run fits the entries seen to a relative residual of 1e-3 (number that do not).",
            data["unfinished"],
            0,
        )
    ]
    for b, alpha in enumerate(data["alphas"]):
        better = mean_interval(np.log10(error[0, b] / error[1, b]))
        lower = mean_interval(rank[0, b] - rank[1, b])
        result += [
            above(
                f"recovery/error-{alpha:g}",
                f"alpha = {alpha:g}: depth 3 reconstructs better than depth 2 (mean of log10 of "
                "the ratio of errors).",
                better.pop("measured"),
                0.5,
                **better,
            ),
            above(
                f"recovery/rank-{alpha:g}",
                f"alpha = {alpha:g}: its effective rank is lower (mean difference).",
                lower.pop("measured"),
                0.5,
                **lower,
            ),
        ]
    near = mean_interval(rank[1, -1] - data["true_rank"])
    gain = mean_interval(np.log10(error[:, 0] / error[:, -1]).min(axis=0))
    return [
        *result,
        about(
            "recovery/true-rank",
            "Depth 3 from the smaller start ends at the effective rank of the truth (mean "
            "difference).",
            near.pop("measured"),
            0.0,
            0.1,
            **near,
        ),
        above(
            "recovery/start",
            "A smaller start reconstructs better at every depth (log10 of the ratio of errors, "
            "smallest over depths, mean of the draws).",
            gain.pop("measured"),
            0.0,
            **gain,
        ),
    ]


STUDY = Study(
    name="recovery",
    title="The main experiment: 100 x 100, rank 5, a fifth seen",
    source="Section on experiments",
    summary="A random 100 x 100 matrix of rank 5 is to be recovered from 20 % of its entries, "
    "which are connected. Both depths fit what they see; depth 3 finds the rest, depth 2 "
    "only from ever smaller starts.",
    caption="Effective rank and error over all entries, by depth and scale of the start (authors'"
    " start: one Gaussian matrix for all factors), and the spectra of one draw. Exact "
    "gradient flow to a relative residual of 1e-3.",
    quick=Settings(),
    full=Settings(depths=(2, 3, 4, 5), seeds=20, tol=1e-8),
    run=run,
    figure=figure,
    claims=claims,
    table=table,
)
