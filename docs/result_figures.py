"""Pictures of the pages on the results: agreement and breakdown, drawn at every build.

The dots come from integrating all factors with SciPy, without any symmetry assumed; problems are
small, so that a build stays quick. `depthrank reproduce` measures the same on larger grids.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from scipy.integrate import solve_ivp

from depthrank import patterns, theory
from depthrank.factors import end_to_end
from depthrank.initialization import AlphaM, Gaussian
from depthrank.spectra import effective_rank, stable_rank
from depthrank.studies import drawing

HERE = Path(__file__).parent
FOLDER = HERE / "_build" / "figures"


def follow(factors: Any, target: np.ndarray, times: Any) -> list[tuple[np.ndarray, ...]]:
    """Integrate the gradient flow of all factors on the finite entries of `target`."""
    seen = np.isfinite(target)
    goal = np.where(seen, target, 0.0)
    shapes = [W.shape for W in factors]
    cuts = np.cumsum([W.size for W in factors])[:-1]

    def split(y: np.ndarray) -> list[np.ndarray]:
        return [p.reshape(s) for p, s in zip(np.split(y, cuts), shapes, strict=True)]

    def slope(_: float, y: np.ndarray) -> np.ndarray:
        chain = split(y)
        below = [np.eye(shapes[0][1])]
        for W in chain:
            below.append(W @ below[-1])
        back = np.where(seen, below[-1] - goal, 0.0)
        parts = []
        for W, right in zip(reversed(chain), reversed(below[:-1]), strict=True):
            parts.append(-(back @ right.T).ravel())
            back = W.T @ back
        return np.concatenate(parts[::-1])

    start = np.concatenate([W.ravel() for W in factors])
    times = np.atleast_1d(times)
    found = solve_ivp(
        slope, (0, times[-1]), start, "LSODA", times, rtol=1e-8, atol=1e-12, first_step=1e-3
    )
    return [tuple(split(y)) for y in found.y.T]


def end(factors: Any, target: np.ndarray, time: float = 1e3) -> np.ndarray:
    """Return the end-to-end matrix at a late time."""
    return end_to_end(follow(factors, target, [time])[0])


def diagonal(values: Any) -> np.ndarray:
    """Return a target of which the diagonal is seen."""
    return np.where(np.eye(len(values)) > 0, np.diag(values), np.nan)


def coupling(agree: Any, broken: Any) -> None:
    """Draw couplings along the way, from full and from diagonal starts."""
    d, times = 4, np.linspace(0, 4, 15)
    for depth in (2, 3, 4):
        for axes, start in (
            (agree, Gaussian(0.3)((d,) * (depth + 1), 1)),
            (broken, AlphaM(0.6, np.inf)((d,) * (depth + 1))),
        ):
            course = theory.coupling_over(
                follow(start, diagonal(np.ones(d)), times), patterns.diagonal((d, d))
            )
            axes.plot(times, course["largest"], color=drawing.depth_colour(depth))
    drawing.title(agree, "random start, diagonal seen", "flow time", "largest coupling")
    drawing.title(broken, "diagonal start: none at any depth", "flow time", "largest coupling")
    broken.set_ylim(agree.get_ylim())


def two_by_two(agree: Any, broken: Any) -> None:
    """Draw the disconnected limit over m, and sigma_2 of connected ones over alpha."""
    m = np.geomspace(1.01, 100, 60)
    exact = [theory.two_by_two(diagonal([1, 1]), alpha=0.1, m=x).matrix for x in m]
    agree.semilogx(m, stable_rank(np.array(exact)), color=drawing.depth_colour(2))
    for x in (1.1, 2.0, 5.0, 30.0):
        for alpha, mark in ((0.5, "o"), (0.05, "x")):
            X = end(AlphaM(alpha, x)((2, 2, 2)), diagonal([1, 1]), 30)
            agree.plot(x, stable_rank(X), mark, color=drawing.INK)
    drawing.title(agree, "disconnected: alpha 0.5 (o), 0.05 (x)", "m", "stable rank")
    alphas = np.array([0.3, 0.1, 0.03, 0.01])
    for gap, label in (((1, 0), "all but (2,1)"), ((1, 1), "all but (2,2)")):
        full = np.ones((2, 2))
        full[gap] = np.nan
        s = [np.linalg.svd(end(AlphaM(a, 2.0)((2, 2, 2)), full, 60))[1][1] for a in alphas]
        broken.loglog(alphas, s, "o-", label=label)
    drawing.title(broken, "connected: low only as alpha falls", "alpha", "second singular value")
    drawing.legend(broken)


def limits(agree: Any, broken: Any) -> None:
    """Draw exact limits with simulated ones, and the algebraic tail inside blocks."""
    alphas = np.geomspace(0.05, 2, 60)
    for depth in (2, 3, 4):
        colour = drawing.depth_colour(depth)
        grid = theory.limits_grid(depth=depth, alpha=alphas, m=20.0, n_blocks=4)
        agree.semilogx(alphas, grid.stable_rank, color=colour, label=f"depth {depth}")
        for a in (0.2, 0.5, 1.0, 2.0):
            X = end(AlphaM(a, 20.0)((4,) * (depth + 1)), diagonal(np.ones(4)), 200)
            agree.plot(a, stable_rank(X), "o", color=colour)
        times = np.geomspace(1, 1e3, 13)
        tail = [
            theory.limits_state(t, depth=depth, alpha=0.5, m=2.0, n_blocks=2, block_size=2)
            for t in times
        ]
        broken.loglog(times, [s.stable_rank_minus_1 for s in tail], color=colour)
        target = np.where(patterns.block_diagonal([(2, 2)] * 2), 1.0, np.nan)
        course = follow(AlphaM(0.5, 2.0)((4,) * (depth + 1)), target, times)
        broken.plot(times, [stable_rank(end_to_end(f)) - 1 for f in course], "o", color=colour)
    drawing.title(agree, "4 x 4 diagonal, m = 20", "alpha", "stable rank of the limit")
    drawing.title(broken, "two 2 x 2 blocks: a slow tail", "flow time", "stable rank − 1")
    drawing.legend(agree)


def small_start(agree: Any, broken: Any) -> None:
    """Draw the predicted power of alpha, and m so large that it sets in late."""
    alphas = np.geomspace(1e-3, 1, 40)
    for depth in (2, 3, 4):
        colour = drawing.depth_colour(depth)
        exact = theory.limits_grid(depth=depth, alpha=alphas, m=2.0, n_blocks=10)
        agree.loglog(alphas, exact.stable_rank_minus_1, color=colour, label=f"depth {depth}")
        if depth > 2:
            rate = theory.small_alpha_rate(depth=depth, alpha=1.0, m=2.0, n_blocks=10)
            line = rate.coefficient * alphas**rate.exponent
            agree.plot(alphas, line, ":", color=colour)
        for m, style in ((1e2, "-"), (1e4, "--")):
            late = theory.limits_grid(depth=depth, alpha=alphas, m=m, n_blocks=10)
            broken.semilogx(alphas, late.stable_rank, style, color=colour)
    drawing.title(agree, "m = 2 (dotted: predicted power)", "alpha", "stable rank − 1")
    drawing.title(broken, "m = 100, and 10,000 (dashed)", "alpha", "stable rank")
    drawing.legend(agree)


def depth(agree: Any, broken: Any) -> None:
    """Draw depths at equal end-to-end scale, and from large starts."""
    scale = np.geomspace(1e-3, 3, 60)
    for L in (2, 3, 4, 6):
        colour = drawing.depth_colour(L)
        for axes, alpha in ((agree, scale ** (1 / L)), (broken, np.linspace(0.5, 4, 60))):
            grid = theory.limits_grid(depth=L, alpha=alpha, m=20.0, n_blocks=4)
            axes.plot(
                scale if axes is agree else alpha,
                grid.stable_rank,
                color=colour,
                label=f"depth {L}",
            )
        for c in (0.05, 0.5):
            X = end(AlphaM(c ** (1 / L), 20.0)((4,) * (L + 1)), diagonal(np.ones(4)), 100)
            agree.plot(c, stable_rank(X), "o", color=colour)
    agree.set_xscale("log")
    drawing.title(agree, "equal end-to-end scale", "alpha to the power of depth", "stable rank")
    drawing.title(broken, "equal alpha, up to large", "alpha", "stable rank")
    drawing.legend(agree)


def gaussian(agree: Any, broken: Any) -> None:
    """Draw effective ranks of random starts on a diagonal, and on connected data."""
    u = np.linspace(0.7, 1.4, 5)
    joined = np.where(patterns.connected((5, 5), count=12, seed=3), np.outer(u, u), np.nan)
    for axes, target in ((agree, diagonal(np.ones(5))), (broken, joined)):
        for L in (2, 3):
            ranks = [
                effective_rank(end(Gaussian(0.01)((5,) * (L + 1), k), target, 300))
                for k in range(6)
            ]
            axes.plot(np.full(6, L), ranks, "o", color=drawing.depth_colour(L))
        axes.set_xticks([2, 3])
        axes.set_xlim(1.5, 3.5)
        axes.set_ylim(0.9, 5)
    drawing.title(agree, "diagonal seen", "depth", "effective rank")
    drawing.title(broken, "connected, rank-one data: little to gain", "depth", "effective rank")


def recovery(agree: Any, broken: Any) -> None:
    """Draw spectra of a recovered 14 x 14 matrix from a small and from a large start."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((14, 2)) @ rng.standard_normal((2, 14))
    truth *= 14 / np.linalg.norm(truth)
    target = np.where(patterns.uniform((14, 14), fraction=0.5, seed=0), truth, np.nan)
    for axes, scale in ((agree, 0.01), (broken, 10.0)):
        for L in (2, 3):
            X = end(Gaussian(scale)((14,) * (L + 1), 0), target, 60)
            error = np.linalg.norm(X - truth) / np.linalg.norm(truth)
            s = np.linalg.svd(X, compute_uv=False)
            label = f"depth {L}, error {error:.2g}"
            axes.semilogy(range(1, 15), s, "o-", color=drawing.depth_colour(L), label=label)
        axes.set_ylim(1e-5, 50)
        drawing.title(axes, f"14 x 14, rank 2, start {scale:g}", "number", "singular value")
        drawing.legend(axes)


def connecting(agree: Any, broken: Any) -> None:
    """Draw ranks while components are joined, from a small and from a larger start."""
    sizes = [(2, 2)] * 3
    base = patterns.block_diagonal(sizes)
    masks = [base.copy() for _ in range(3)]
    masks[1][0, 2] = masks[2][0, 2] = masks[2][2, 4] = True
    for axes, scale in ((agree, 1e-6), (broken, 0.1)):
        for L in (2, 3):
            means = []
            for mask in masks:
                target = np.where(mask, 1.0, np.nan)
                starts = [Gaussian(scale)((6,) * (L + 1), k) for k in range(3)]
                late = 60 + 3 * scale ** -(1 - 2 / L) if L > 2 else 60
                means.append(np.mean([effective_rank(end(s, target, late)) for s in starts]))
            axes.plot([3, 2, 1], means, "o-", color=drawing.depth_colour(L), label=f"depth {L}")
        axes.invert_xaxis()
        axes.set_xticks([3, 2, 1])
        axes.set_ylim(0.9, 3.6)
        drawing.title(axes, f"start of size {scale:g}", "components", "effective rank")
    drawing.legend(agree)


def plasticity(agree: Any, broken: Any) -> None:
    """Draw the loss with its bound, and stable ranks where the bound becomes void."""
    d, times = 6, np.linspace(0, 5, 16)

    def added(value: float) -> np.ndarray:
        return np.where(np.eye(d, k=1) > 0, value, diagonal(np.ones(d)))

    values = np.array([0.02, 0.1, 0.2, 0.3, 0.5, 1.0])
    for L in (2, 3, 4):
        colour, start = drawing.depth_colour(L), (np.eye(d),) * L
        course = [end_to_end(f) for f in follow(start, added(0.2), times)]
        residual = np.array([np.sqrt(np.nansum((X - added(0.2)) ** 2)) for X in course])
        bound = theory.rigidity(np.eye(d), residual[0], L)
        agree.semilogy(times, residual**2 / 2, "o", color=colour, label=f"depth {L}")
        agree.plot(times, bound.residual_bound(times) ** 2 / 2, color=colour)
        ends = [stable_rank(end(start, added(v), 60)) for v in values]
        bounds = [theory.rigidity(np.eye(d), v * np.sqrt(d - 1), L) for v in values]
        broken.semilogx(values, ends, "o-", color=colour)
        low = [np.nan if b.vacuous else b.stable_rank_lower for b in bounds]
        broken.plot(values, low, "--", color=colour)
    agree.set_ylim(bottom=1e-12)
    drawing.title(agree, "loss after adding cells (line: bound)", "flow time", "observed loss")
    drawing.title(broken, "end (dashed: bound, till void)", "value of new cells", "stable rank")
    drawing.legend(agree)


def warm_two_by_two(agree: Any, broken: Any) -> None:
    """Draw the ratio of singular values over the new value, in and out of the hypotheses."""
    values = np.linspace(0.1, 3, 12)
    for m, colour in ((np.inf, drawing.INK), (5.0, drawing.depth_colour(2))):
        b = 0.0 if np.isinf(m) else 2 * m / (m**2 + 1)
        root = np.linalg.cholesky(np.array([[1.0, b], [b, 1.0]]))
        start = (root.T, root)
        ends = [end(start, np.array([[1.0, v], [np.nan, 1.0]]), 60) for v in values]
        agree.plot(values, stable_rank(np.array(ends)), "o", color=colour, label=f"m = {m:g}")
        covered = [v for v in np.linspace(0.1, 3, 80) if v > b and v * b < 1]
        line = [theory.warm_2x2(value=1, new_value=v, m=m).stable_rank_lower for v in covered]
        agree.plot(covered, line, color=colour)
        broken.plot(values, [X[1, 0] - b for X in ends], "o-", color=colour, label=f"m = {m:g}")
    broken.axhline(0, color=drawing.GREY, lw=0.8)
    drawing.title(agree, "warm ends (line: bound)", "value of the new cell", "stable rank")
    drawing.title(broken, "up where the value is below b", "value of the new cell", "move of X_21")
    drawing.legend(agree)


def optimizers(agree: Any, broken: Any) -> None:
    """Draw how far descent ends from the flow, and what too long a step does."""
    shares = np.geomspace(0.02, 0.9, 12)
    first, second = 0.3 * 5.5, 0.3 * 0.5
    for L in (2, 3, 4):
        exact = theory.limits(depth=L, alpha=0.3, m=2.0, n_blocks=10)
        longest, colour = 2 / exact.rate, drawing.depth_colour(L)

        def sigma(share: float, depth: int = L, step: float = longest) -> float:
            e = theory.descent_state(
                4000,
                share * step,
                depth=depth,
                eigenvalues=(first, second),
                multiplicities=(1, 9),
                target=1.0,
            )
            return abs(float(e[1])) ** depth

        error = [abs(sigma(x) / exact.singular_values[1] - 1) for x in shares]
        agree.loglog(shares, np.maximum(error, 1e-16), "o-", color=colour, label=f"depth {L}")
        if L > 2:
            long = np.linspace(0.5, 1.6, 23)
            broken.plot(long, [sigma(x) for x in long], "o-", ms=3, color=colour)
    drawing.title(agree, "descent against flow", "step / largest stable", "error of sigma_2")
    drawing.title(broken, "longer steps: higher rank", "step / largest stable", "sigma_2")
    drawing.legend(agree)


def no_help(agree: Any, broken: Any) -> None:
    """Draw stable rank over depth around the threshold, and an unstable exact solution."""
    depths = np.array([2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 48, 64])
    for alpha in (1.0, 1.9, 2.1, 3.0):
        ranks = [
            theory.limits(depth=int(L), alpha=alpha, m=2.0, n_blocks=2).stable_rank for L in depths
        ]
        agree.semilogx(depths, ranks, "o-", ms=3, label=f"alpha = {alpha:g}")
    agree.set_xticks([2, 4, 8, 16, 32, 64], ["2", "4", "8", "16", "32", "64"])
    agree.minorticks_off()
    tiny = np.array([1e-12, 1e-9, 1e-6, 1e-3])
    for L in (2, 3, 4):
        ends = []
        for off in tiny:
            W = np.array([[0.2, off], [off, 0.2]])
            ends.append(stable_rank(end((W,) * L, diagonal([1.0, 0.5]), 400)))
        broken.semilogx(tiny, ends, "o-", color=drawing.depth_colour(L), label=f"depth {L}")
    drawing.title(agree, "2 x 2, m = 2: threshold at alpha = 2", "depth", "stable rank")
    drawing.title(broken, "unequal diagonal", "off-diagonal entry of the start", "stable rank")
    drawing.legend(agree)
    drawing.legend(broken)


def certificate(agree: Any, broken: Any) -> None:
    """Draw error bars that close around the limit, and a condition that never comes true."""
    d, times = 5, np.linspace(0, 8, 30)
    rng = np.random.default_rng(3)
    near = np.diag(np.linspace(2.0, 1.0, d))
    noise = rng.standard_normal((d, d))
    target = near + 1.5 * noise / np.linalg.norm(noise)
    for L in (2, 3):
        colour = drawing.depth_colour(L)
        course = follow((near ** (1 / L),) * L, target, times)
        bars = []
        for factors in course:
            X = end_to_end(factors)
            bars.append(theory.rigidity(X, float(np.linalg.norm(X - target)), L))
        proved = [b.sigma_lower[-1] if b.certified else np.nan for b in bars]
        agree.fill_between(
            times, proved, [b.sigma_upper[-1] for b in bars], color=colour, alpha=0.3
        )
        agree.plot(times, [b.singular_values[-1] for b in bars], color=colour, label=f"depth {L}")
        low = follow((np.full((d, d), 0.1) + 0.1 * np.eye(d),) * L, np.ones((d, d)), 3 * times)
        gaps = [np.linalg.svd(end_to_end(f), compute_uv=False)[-1] for f in low]
        residual = [np.linalg.norm(end_to_end(f) - 1) for f in low]
        broken.semilogy(3 * times, residual, color=colour, label=f"residual, depth {L}")
        broken.plot(3 * times, gaps, "--", color=colour)
    agree.set_ylim(0, 1.5)
    broken.set_ylim(1e-4, 10)
    drawing.title(agree, "smallest value, error bar", "flow time", "singular value")
    drawing.title(broken, "rank one (dashed: smallest value)", "flow time", "size")
    drawing.legend(agree)
    drawing.legend(broken)


RESULTS: dict[str, Callable[[Any, Any], None]] = {
    "coupling": coupling,
    "two-by-two": two_by_two,
    "limits": limits,
    "small-start": small_start,
    "depth": depth,
    "gaussian": gaussian,
    "recovery": recovery,
    "connecting": connecting,
    "plasticity": plasticity,
    "warm-two-by-two": warm_two_by_two,
    "certificate": certificate,
    "optimizers": optimizers,
    "no-help": no_help,
}


def draw_results() -> None:
    """Write result-NAME.svg for every page."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, draw in RESULTS.items():
        figure, axes = drawing.panels(2, width=3.6)
        draw(*axes)
        with mpl.rc_context({"svg.hashsalt": "depthrank"}):
            Figure.savefig(figure, FOLDER / f"result-{name}.svg", metadata={"Date": None})


if __name__ == "__main__":
    draw_results()
