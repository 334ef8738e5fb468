"""The smallest loss of plasticity, its counter-picture, and where its hypotheses end."""

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

from depthrank import patterns, theory
from depthrank.dynamics.members import factors_of, products
from depthrank.initialization import AlphaM
from depthrank.observations import Observations
from depthrank.spectra import stable_rank
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, about, above, below
from depthrank.studies.simulate import course, flows, observe
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RING = 10  # size of the commuting counter-picture


@dataclass(frozen=True)
class Settings:
    """Ratios m of phase 1 and values of the added entry; starts of the cold runs."""

    ms: tuple[float, ...] = (3.0, 10.0, 100.0, np.inf)
    values: tuple[float, ...] = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3)
    cold: tuple[float, ...] = (0.3, 0.1, 0.03, 0.01)
    times: tuple[float, ...] = (0.0, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
    ring_depths: tuple[int, ...] = (2, 3)


def run(settings: Settings, seed: int) -> Data:
    """Fit the diagonal, add entry (1, 2), go on; `seed` plays no role, nothing is random."""
    dims = (2, 2, 2)
    eye = np.eye(2, dtype=bool)
    phase_1 = flows(observe(eye), [AlphaM(0.1, m)(dims) for m in (*settings.ms, 2.0)])
    fitted = dict(zip((*settings.ms, 2.0), factors_of(phase_1), strict=True))
    cells = [(m, v) for m, v in product(settings.ms, settings.values) if _covered(m, v)]
    seen = [_three(v) for _, v in cells] + [_three(0.1)]
    warm = flows(seen, [fitted[m] for m, _ in cells] + [fitted[2.0]])
    X = products(warm)
    bounds = [theory.warm_2x2(value=1.0, new_value=v, m=m) for m, v in cells]
    cold = flows(_three(1.0), [AlphaM(a, np.inf)(dims) for a in settings.cold])
    way = course(_three(1.0), [fitted[np.inf]], settings.times)
    return {
        "m": np.array([m for m, _ in cells]),
        "value": np.array([v for _, v in cells]),
        "x21": X[:-1, 1, 0],
        "stable_rank": stable_rank(X[:-1]),
        "start": np.array([bound.x21_start for bound in bounds]),
        "bound": np.array([bound.stable_rank_lower for bound in bounds]),
        "outside": X[-1, 1, 0],
        "outside_start": float((fitted[2.0][1] @ fitted[2.0][0])[1, 0]),
        "loss": warm["loss"].values,
        "alphas": np.array(settings.cold),
        "cold": cold["stable_rank"].values,
        "times": np.array(settings.times),
        "way": np.array([(s[0][1] @ s[0][0])[1, 0] for s in way]),
    } | _ring(settings)


def _covered(m: float, v: float) -> bool:
    """Whether the theorem's hypotheses hold: v > b and v b < 1."""
    b = 0.0 if np.isinf(m) else 2 * m / (m**2 + 1)
    return v > b and v * b < 1


def _three(v: float) -> Observations:
    return Observations.from_dense(np.array([[1.0, v], [np.nan, 1.0]]))


def _ring(settings: Settings) -> Data:
    """Diagonal first, then the two neighbouring circulant diagonals: everything commutes."""
    diagonal = np.eye(RING, dtype=bool)
    index = np.arange(RING)
    gap = (index[:, None] - index) % RING
    truth = np.where(diagonal, 1.0, 0.5)
    both = Observations.from_mask(truth, diagonal | (gap == 1) | (gap == RING - 1))
    difference, error, ranks = [], [], []
    for depth in settings.ring_depths:
        start = AlphaM(0.5, np.inf)((RING,) * (depth + 1))
        warm_start = factors_of(flows(observe(patterns.diagonal((RING, RING))), [start]))[0]
        cold, warm = products(flows(both, [start, warm_start]))
        exact = theory.circulant_limit(depth=depth, dimension=RING, value=1.0, offset_value=0.5)
        s = np.linalg.svd(cold, compute_uv=False)
        difference.append(np.abs(cold - warm).max())
        error.append(np.abs(s - exact.singular_values).max())
        ranks.append(float(stable_rank(cold)))
    return {"ring_difference": difference, "ring_error": error, "ring_rank": ranks}


def figure(data: Data) -> "Figure":
    """X_21 on the way; stable rank over the new value with its bound; cold against warm."""
    fig, axes = drawing.panels(3)
    axes[0].plot(data["times"], data["way"], "o-", color=drawing.depth_colour(2))
    drawing.reference(axes[0], 1.0, "value that would give rank one")
    drawing.title(axes[0], "the unseen entry, going on from diag(1, 1)", "flow time", "X_21")
    axes[0].set_ylim(-0.1, 1.15)
    for k, m in enumerate(np.unique(data["m"])):
        at = data["m"] == m
        colour = ("#6baed6", "#2171b5", "#08306b", "#b3261e")[k % 4]
        axes[1].plot(
            data["value"][at], data["stable_rank"][at], "o", color=colour, label=f"m = {m:g}"
        )
        axes[1].plot(data["value"][at], data["bound"][at], "-", color=colour)
    drawing.title(axes[1], "after going on (line: bound)", "value of the new entry", "stable rank")
    drawing.legend(axes[1])
    axes[2].semilogx(data["alphas"], data["cold"], "o-", label="cold")
    warm = data["stable_rank"][np.isinf(data["m"]) & (data["value"] == 1.0)][0]
    axes[2].axhline(warm, color=drawing.RED, label="warm")
    drawing.title(axes[2], "three ones observed, depth 2", "alpha", "stable rank")
    drawing.legend(axes[2])
    return fig


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    ones = np.isinf(data["m"]) & (data["value"] == 1.0)
    fitted = data["loss"].max() < 1e-14
    return [
        about(
            "warm-two-by-two/entry",
            "Depth 2, diag(1, 1) fitted from a diagonal start, then X_12 = 1 observed as well: the "
            "unseen X_21 ends here, where rank one would need 1.",
            data["x21"][ones][0] if fitted else np.nan,
            -0.03471557393187418,
            1e-6,
        ),
        about(
            "warm-two-by-two/stable-rank",
            "Stable rank of that warm start.",
            data["stable_rank"][ones][0],
            1.159921978913270,
            1e-6,
        ),
        below(
            "warm-two-by-two/cold",
            "A cold start on the same three entries reaches stable rank one as alpha -> 0 (at "
            "alpha = 0.01).",
            data["cold"][-1],
            1.001,
        ),
        above(
            "warm-two-by-two/bound",
            "The proved lower bound on the stable rank holds for every m and new value covered "
            "(smallest margin, to an integration error of 1e-7).",
            (data["stable_rank"] - data["bound"]).min(),
            -1e-7,
        ),
        below(
            "warm-two-by-two/away",
            "The unseen entry ends no higher than it began: largest rise over all cases covered.",
            (data["x21"] - data["start"]).max(),
            1e-7,
        ),
        below(
            "warm-two-by-two/monotone",
            "It falls all the way (largest rise between two recorded times).",
            np.diff(data["way"]).max(),
            1e-8,
        ),
        below(
            "warm-two-by-two/not-stuck",
            "Nothing is stuck in a local minimum: every warm start reaches zero training loss "
            "(largest loss).",
            data["loss"].max(),
            1e-14,
        ),
        above(
            "warm-two-by-two/outside",
            "Outside the hypotheses, with the new value below what the model already predicts "
            "(m = 2, value 0.1 against 0.8), the entry moves up instead (its rise).",
            data["outside"] - data["outside_start"],
            0.1,
        ),
        below(
            "warm-two-by-two/commuting",
            "No loss of plasticity where old and new observations commute (10 x 10 circulant, "
            "depth 2 and 3): cold and warm end at the same matrix (largest difference of an "
            "entry).",
            max(data["ring_difference"]),
            1e-6,
        ),
        below(
            "warm-two-by-two/commuting-exact",
            "... which is the exact circulant limit (largest error of a singular value).",
            max(data["ring_error"]),
            1e-6,
        ),
        above(
            "warm-two-by-two/connected-high-rank",
            "That pattern is connected, and yet the limit has full rank even at depth 2: connected "
            "does not imply low rank from a diagonal start (stable rank).",
            data["ring_rank"][0],
            1.5,
        ),
    ]


STUDY = Study(
    name="warm-two-by-two",
    title="The smallest loss of plasticity",
    source="Theorems 4.2 and 4.3, the 2 x 2 case",
    summary="Fit the diagonal of a 2 x 2 table, then observe one more cell and go on training. "
    "The last unseen cell moves away from the value that would make the table rank one, "
    "and ends there. A cold start on the same three cells does not. Where old and new "
    "cells commute, warm and cold agree.",
    caption="Left: the unseen entry moves away from the rank-one value. Middle: stable rank after"
    " going on, above the proved bound for every m and new value covered by the theorem. "
    "Right: cold starts reach rank one, the warm one does not.",
    quick=Settings(),
    full=Settings(
        ms=(2.0, 3.0, 5.0, 10.0, 30.0, 100.0, np.inf),
        values=tuple(np.round(np.arange(0.3, 3.05, 0.1), 2)),
        ring_depths=(2, 3, 4),
    ),
    run=run,
    figure=figure,
    claims=claims,
)
