"""Going on from a fitted state: how fast, how far, and what depth changes."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import patterns, theory
from depthrank.dynamics.members import factors_of, products
from depthrank.factors import Factors, end_to_end
from depthrank.initialization import AlphaM
from depthrank.observations import Observations
from depthrank.spectra import stable_rank
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below
from depthrank.studies.simulate import course, flows, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Final stable ranks of depth 2 after identity, by value of the nine entries above the diagonal.
KNOWN = {0.02: 9.629, 0.1: 8.364, 0.5: 5.248, 1.0: 4.322}
KNOWN_BY_DEPTH = {2: 4.322, 3: 4.167, 4: 4.092}
# Stable rank before and after, depth 3, pre-trained from m = 100, by alpha.
KNOWN_PRETRAINED = {0.1: (1.020, 1.008), 1.0: (6.06, 2.66)}
# Bounds are exact, simulations accurate to about this.
SLACK = 1e-6


@dataclass(frozen=True)
class Settings:
    """Values of the added entries, times of the recorded course, an optional larger size."""

    depths: tuple[int, ...] = (2, 3, 4)
    size: int = 10
    values: tuple[float, ...] = (0.02, 0.1, 0.5, 1.0)
    times: tuple[float, ...] = (0.0, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0)
    large: int = 0
    cold_alpha: float = 1e-3


def run(settings: Settings, seed: int) -> Data:
    """Fit the diagonal from m = inf, add the diagonal above, go on; nothing is random."""
    data: Data = {"values": np.array(settings.values), "depths": np.array(settings.depths)}
    data["times"] = np.array(settings.times)
    rows = [_warm(settings, depth, settings.size) for depth in settings.depths]
    data |= {name: np.array([row[name] for row in rows]) for name in rows[0]}
    data |= _cold(settings) | _pretrained(settings) | _sharp(settings)
    if settings.large:
        rows = [_warm(settings, depth, settings.large) for depth in (2, 3)]
        data |= {f"large_{name}": np.array([row[name] for row in rows]) for name in rows[0]}
    return data


def _added(size: int, value: float) -> Observations:
    """Observe ones on the diagonal and `value` on the one above it."""
    truth = np.eye(size) + np.diag(np.full(size - 1, value), 1)
    return Observations.from_mask(truth, patterns.banded((size, size), lower=0, upper=1))


def _identity(depth: int, size: int) -> Factors:
    """Fit the diagonal from a diagonal start: the product becomes the identity."""
    start = AlphaM(0.5, np.inf)((size,) * (depth + 1))
    return factors_of(flows(observe(patterns.diagonal((size, size))), [start]))[0]


def _warm(settings: Settings, depth: int, size: int) -> Data:
    """Go on from the identity; residuals on the way, bounds, end, certificate."""
    start = _identity(depth, size)
    seen = [_added(size, value) for value in settings.values]
    states = course(seen, [start] * len(seen), settings.times, rtol=1e-10)
    found = flows(seen, [start] * len(seen))
    ends, final = products(found), factors_of(found)
    X0 = end_to_end(start)
    result: dict[str, list[Any]] = {}

    def keep(**numbers: Any) -> None:
        for name, value in numbers.items():
            result.setdefault(name, []).append(value)

    for k, observed in enumerate(seen):
        residuals = np.array([_residual(end_to_end(state[k]), observed) for state in states])
        bound = theory.rigidity(X0, residuals[0], depth)
        s = np.linalg.svd(ends[k], compute_uv=False)
        outside = (s < bound.sigma_lower - SLACK) | (s > bound.sigma_upper + SLACK)
        moved = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(final[k], start, strict=True)))
        keep(
            residual=residuals,
            bound=bound.residual_bound(settings.times),
            rate=bound.residual_rate,
            q=bound.q,
            vacuous=bound.vacuous,
            outside=int(outside.sum()),
            sigma_min=s[-1],
            floor=bound.floor,
            stable_rank=float(stable_rank(ends[k])),
            rank_bound=bound.stable_rank_lower,
            path_share=moved / bound.path_length,
            fitted=found["stopped_by"].values[k] == "fitted",
            **_certified(settings, [state[k] for state in states], observed, ends[k]),
        )
    return {name: np.array(values) for name, values in result.items()}


def _residual(X: np.ndarray, seen: Observations) -> float:
    return float(np.linalg.norm(X[seen.rows, seen.cols] - seen.values))


def _certified(
    settings: Settings, states: list[Factors], seen: Observations, end: np.ndarray
) -> dict[str, float]:
    """First recorded time with a certificate, and the true error in shares of its error bar."""
    for time, state in zip(settings.times, states, strict=True):
        proof = theory.certificate(state, seen)
        if proof.certified:
            error = float(np.linalg.norm(end_to_end(state) - end))
            return {"certified_at": time, "error_share": error / (proof.product_move + 1e-12)}
    return {"certified_at": np.inf, "error_share": np.inf}


def _cold(settings: Settings) -> Data:
    """Train on all the entries at once, ones, from a small start."""
    ranks = []
    for depth in settings.depths:
        dims = (settings.size,) * (depth + 1)
        found = flows(
            _added(settings.size, 1.0), [AlphaM(settings.cold_alpha ** (2 / depth), 2.0)(dims)]
        )
        ranks.append(float(found["stable_rank"][0]))
    return {"cold": np.array(ranks)}


def _pretrained(settings: Settings) -> Data:
    """Fit the diagonal at depth 3 from m = 100, then go on with ones above it."""
    size = settings.size
    starts = [AlphaM(alpha, 100.0)((size,) * 4) for alpha in KNOWN_PRETRAINED]
    first = flows(observe(patterns.diagonal((size, size))), starts)
    second = flows(_added(size, 1.0), factors_of(first))
    both = (first["stable_rank"].values, second["stable_rank"].values)
    return {"pretrained": np.stack(both, axis=1)}


def _sharp(settings: Settings) -> Data:
    """Simulate the case in which the theorem is an equality: one diagonal entry lowered to 0.6."""
    size = settings.size
    target = np.full((size, size), np.nan)
    target[0, 0] = 0.6
    gaps = []
    for depth in settings.depths:
        start = AlphaM(1.0, np.inf)((size,) * (depth + 1))
        end = products(flows(Observations.from_dense(target), [start]))[0]
        bound = theory.rigidity(np.eye(size), 0.4, depth)
        gaps.append(np.linalg.svd(end, compute_uv=False)[-1] - bound.floor)
    return {"sharp": np.array(gaps)}


def decay_rates(data: Data) -> np.ndarray:
    """Measured decay rate of the residual where it is small and still above rounding, nan else."""
    times, rates = data["times"], np.full(data["q"].shape, np.nan)
    for at in np.ndindex(*rates.shape):
        residual = data["residual"][at]
        good = np.flatnonzero((residual < 0.1 * residual[0]) & (residual > 1e-8))
        if good.size >= 2:
            first, last = good[0], good[-1]
            span = times[last] - times[first]
            rates[at] = np.log(residual[first] / residual[last]) / span
    return rates


def figure(data: Data) -> "Figure":
    """Residuals with predicted decay; singular values against the floor; warm against cold."""
    fig, axes = drawing.panels(3)
    for depth, residual, bound, vacuous in zip(
        data["depths"], data["residual"], data["bound"], data["vacuous"], strict=True
    ):
        colour = drawing.depth_colour(int(depth))
        for k in np.flatnonzero(~vacuous)[-1:]:
            axes[0].semilogy(
                data["times"], residual[k] ** 2 / 2, "o", color=colour, label=f"depth {depth}"
            )
            axes[0].semilogy(data["times"], bound[k] ** 2 / 2, "-", color=colour)
    axes[0].set_ylim(bottom=1e-14)
    drawing.title(axes[0], "new entries 0.1 (line: bound)", "flow time", "observed loss")
    drawing.legend(axes[0])
    for k, depth in enumerate(data["depths"]):
        colour = drawing.depth_colour(int(depth))
        axes[1].semilogx(data["values"], data["sigma_min"][k], "o-", color=colour)
        axes[1].semilogx(data["values"], data["floor"][k], "--", color=colour, lw=1)
        axes[2].plot(data["values"], data["stable_rank"][k], "o-", color=colour)
        axes[2].plot([1.0], [data["cold"][k]], "x", ms=8, color=colour)
        proved = ~data["vacuous"][k]
        axes[2].plot(data["values"][proved], data["rank_bound"][k][proved], "--", color=colour)
    drawing.title(
        axes[1], "smallest singular value (dashed: floor)", "value of new entries", "sigma_min"
    )
    drawing.title(
        axes[2], "warm ends (dashed: bound; x: cold)", "value of new entries", "stable rank"
    )
    axes[2].set_ylim(0.8, 10.4)
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    proved = ~data["vacuous"]
    shares = data["residual"][proved] / data["bound"][proved]
    high = data["residual"][proved] > 1e-8  # above the accuracy of the simulation
    slowest = np.nanmin((decay_rates(data) / np.where(proved, data["rate"], np.nan))[proved])
    result = [
        below(
            "plasticity/loss-bound",
            "Whenever the new residual is below the smallest singular value the loss falls at "
            "least exponentially, at the proved rate: largest ratio of residual to bound on the "
            "way, depths 2 to 4.",
            shares[high].max(),
            1 + SLACK,
        ),
        above(
            "plasticity/rate",
            "The measured decay rate is at least the proved one (smallest ratio).",
            slowest,
            1.0,
        ),
        below(
            "plasticity/intervals",
            "Every singular value ends inside its proved interval (number outside).",
            data["outside"][proved].sum(),
            0,
        ),
        above(
            "plasticity/rank-bound",
            "The stable rank after going on stays above the proved bound (smallest margin).",
            (data["stable_rank"] - data["rank_bound"])[proved].min(),
            -SLACK,
        ),
        below(
            "plasticity/path",
            "The parameters end no farther from where they were than the proved path length "
            "(largest share of it).",
            data["path_share"][proved].max(),
            1 + SLACK,
        ),
        below(
            "plasticity/sharp",
            "The floor cannot be improved: lowering one observed diagonal entry of the identity "
            "reaches it exactly, at every depth (largest gap).",
            np.abs(data["sharp"]).max(),
            1e-6,
        ),
        below(
            "plasticity/certificate",
            "At any computed state the theorem gives a proof of convergence with error bars: the "
            "end lies within them (largest error as a share of its bar, all values and depths).",
            data["error_share"].max(),
            1 + SLACK,
        ),
        about(
            "plasticity/vacuous",
            "For a truth of all ones the general bound says nothing: its condition is q < 1 and "
            "with k = 9 new entries q = sqrt(k).",
            data["q"][0, -1],
            3.0,
            1e-6,
        ),
    ]
    return result + _known_claims(data) + _comparisons(data) + _large_claims(data)


def _known_claims(data: Data) -> list[Claim]:
    result = []
    for k, value in enumerate(data["values"]):
        if data["stable_rank"].shape and float(value) in KNOWN and data["sharp"].size:
            result.append(
                about(
                    f"plasticity/depth-2-value-{value:g}",
                    f"Depth 2, 10 x 10, nine new entries of {value:g}: stable rank after going on "
                    "from the identity.",
                    data["stable_rank"][0, k],
                    KNOWN[float(value)],
                    6e-4,
                )
            )
    for k, depth in enumerate(data["depths"][1:], start=1):
        result.append(
            about(
                f"plasticity/depth-{depth}-value-1",
                f"Rigidity is no shallow phenomenon: from the same identity, depth {depth} ends "
                "as far from rank one (nine new ones).",
                data["stable_rank"][k, -1],
                KNOWN_BY_DEPTH[int(depth)],
                6e-4,
            )
        )
    return result


def _comparisons(data: Data) -> list[Claim]:
    (small_before, small_after), (big_before, big_after) = data["pretrained"]
    return [
        above(
            "plasticity/warm-against-cold",
            "Loss of plasticity at every depth: stable rank of the warm start from the identity "
            "minus that of a cold small start on the same entries (smallest over depths).",
            (data["stable_rank"][:, -1] - data["cold"]).min(),
            1.0,
        ),
        about(
            "plasticity/deep-small-before",
            "Depth helps through what phase 1 leaves: depth 3, m = 100, alpha = 0.1, stable rank "
            "before ...",
            small_before,
            KNOWN_PRETRAINED[0.1][0],
            1e-3,
        ),
        about(
            "plasticity/deep-small-after",
            "... and after the new entries: nothing is lost.",
            small_after,
            KNOWN_PRETRAINED[0.1][1],
            1e-3,
        ),
        about(
            "plasticity/deep-large-before",
            "The same with alpha = 1: stable rank before ...",
            big_before,
            KNOWN_PRETRAINED[1.0][0],
            1e-2,
        ),
        about(
            "plasticity/deep-large-after",
            "... and after: deep models with large starts lose plasticity too.",
            big_after,
            KNOWN_PRETRAINED[1.0][1],
            1e-2,
        ),
    ]


def _large_claims(data: Data) -> list[Claim]:
    if "large_q" not in data:
        return []
    proved = ~data["large_vacuous"]
    return [
        above(
            "plasticity/large-rank-bound",
            "100 x 100: the stable rank after going on stays above the proved bound.",
            (data["large_stable_rank"] - data["large_rank_bound"])[proved].min(),
            -SLACK,
        ),
        below(
            "plasticity/large-intervals",
            "100 x 100: every singular value ends inside its proved interval (number outside).",
            data["large_outside"][proved].sum(),
            0,
        ),
    ]


STUDY = Study(
    name="plasticity",
    title="Loss of plasticity",
    source="Theorems 4.2 and 4.3",
    summary="Fit the diagonal first, then go on training with more cells. If the new residual is "
    "smaller than the smallest singular value, the model provably fits the new cells "
    "without moving far, so it cannot lose rank. That is true at every depth; deep models"
    " escape only because a small start leaves them near rank one already.",
    caption="Left: loss after nine cells are added to a fitted 10 x 10 diagonal, with the proved "
    "exponential bound. Middle: the smallest singular value against its floor, which is "
    "void for large new entries. Right: warm starts stay at high rank, at every depth; "
    "cold small starts (crosses) do not.",
    quick=Settings(),
    full=Settings(large=100, times=tuple(np.round(np.arange(0, 10.05, 0.25), 2))),
    run=run,
    figure=figure,
    claims=claims,
)
