"""Rank measures of a limit from the logarithms of its singular values.

Near rank one the interesting number is the measure minus one, and the small singular values may lie
below the smallest float; both stay exact when everything is written in log(sigma_1 / sigma_j).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.memory import require


@dataclass(frozen=True, eq=False, kw_only=True)
class RankMeasures:
    """What is known of a limit's spectrum; every exact limit carries these.

    Attributes
    ----------
    singular_values : ndarray, shape (k,)
        All singular values, with multiplicities, descending. Values below 1e-308 read as 0.
    nuclear_norm : float
        Their sum.
    stable_rank, effective_rank, effective_rank_power2 : float
        ‖W‖_F² / ‖W‖_2², and exp of the entropy of s / sum(s) and of s^2 / sum(s^2); nan for
        the zero matrix, where no rank is defined.
    stable_rank_minus_1, effective_rank_minus_1 : float
        The same less one, accurate even where the measure itself rounds to 1.
    label : str
        'exact', 'rigorous bound', 'asymptotic' or 'numerical'.
    """

    singular_values: NDArray[np.float64]
    nuclear_norm: float
    stable_rank: float
    stable_rank_minus_1: float
    effective_rank: float
    effective_rank_minus_1: float
    effective_rank_power2: float
    label: str


def entropy_from_gaps(
    gaps: NDArray[np.float64], multiplicities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Entropy of p_j = s_j / sum(s) from gaps[..., j] = log(s_1 / s_j) >= 0, first gap 0."""
    weights = multiplicities * np.exp(-gaps)
    # log of the sum as log1p keeps an entropy of 1e-40 when one value dominates
    log_sum = np.log1p(weights[..., 1:].sum(axis=-1) + (weights[..., 0] - 1.0))
    finite = np.where(np.isfinite(gaps), gaps, 0.0)
    return np.asarray(log_sum + (weights * finite).sum(axis=-1) * np.exp(-log_sum))


def excess_stable_rank(
    gaps: NDArray[np.float64], multiplicities: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Stable rank minus one from the same gaps."""
    weights = multiplicities * np.exp(-2.0 * gaps)
    return np.asarray(weights[..., 1:].sum(axis=-1) + (weights[..., 0] - 1.0))


def rank_measures(
    log_sigma: ArrayLike, multiplicities: ArrayLike, label: str = "exact", zeros: int = 0
) -> dict[str, Any]:
    """Fields of `RankMeasures` from log singular values (-inf for zero) and multiplicities.

    `zeros` further singular values are exactly zero. The result is a dict to be unpacked into the
    constructor of the caller's dataclass.
    """
    logs = np.asarray(log_sigma, dtype=np.float64)
    mult = np.asarray(multiplicities, dtype=np.int64)
    order = np.argsort(-logs, kind="stable")
    logs, mult = logs[order], mult[order]
    values = np.concatenate([np.repeat(np.exp(logs), mult), np.zeros(zeros)])
    fields: dict[str, Any] = {
        "singular_values": values,
        "nuclear_norm": float(mult @ np.exp(logs)),
        "label": label,
    }
    names = (
        "stable_rank",
        "stable_rank_minus_1",
        "effective_rank",
        "effective_rank_minus_1",
        "effective_rank_power2",
    )
    if not logs.size or logs[0] == -np.inf:
        return fields | dict.fromkeys(names, float("nan"))
    gaps = logs[0] - logs
    weights = mult.astype(np.float64)
    excess = float(excess_stable_rank(gaps, weights))
    entropy = float(entropy_from_gaps(gaps, weights))
    squared = float(entropy_from_gaps(2.0 * gaps, weights))
    numbers = (1 + excess, excess, np.exp(entropy), np.expm1(entropy), np.exp(squared))
    return fields | {name: float(v) for name, v in zip(names, numbers, strict=True)}


def check_dense(dimension: int) -> None:
    """Refuse to build a dense limit that would not fit in memory."""
    require(
        5 * 8 * dimension**2,
        f"a dense {dimension} x {dimension} limit",
        "singular_values and the entry values say the same.",
    )
