"""How fast the rank falls to one as alpha -> 0, and explicit two-sided bounds at any alpha."""

from dataclasses import dataclass

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.theory._roots import log_offsets
from depthrank.theory._start import check_depth, check_start, start_logs

__all__ = ["SmallAlphaRate", "ratio_bounds", "small_alpha_rate"]


@dataclass(frozen=True, kw_only=True)
class SmallAlphaRate:
    """Leading behaviour of the limit as alpha -> 0 at depth L >= 3 and 1 < m < inf.

    Attributes
    ----------
    exponent : int
        2 L: stable_rank - 1 falls like alpha to this power.
    coefficient : float
        stable_rank - 1 = coefficient * alpha^exponent * (1 + O(alpha^(L-2))).
    sigma_ratio : float
        sigma_2/sigma_1 ~ (1 + Delta)^(-L/(L-2)) at the given alpha, up to a factor
        1 + O(sigma_ratio).
    stable_rank_minus_1, effective_rank_minus_1 : float
        What that ratio gives for the rank measures; the effective rank falls only like
        alpha^L log(1/alpha).
    delta : float
        Delta = kappa ((n tau)^(1/L)/alpha)^(L-2), the one combination on which the limit depends.
    label : str
        'asymptotic'.
    """

    exponent: int
    coefficient: float
    sigma_ratio: float
    stable_rank_minus_1: float
    effective_rank_minus_1: float
    delta: float
    label: str = "asymptotic"


def _log_delta(
    depth: int, alpha: float, m: float, n: int, s: int, value: float, init: str
) -> tuple[float, float]:
    """Return log Delta and log kappa' (Delta at alpha = 1, n tau = 1)."""
    depth = check_depth(depth, least=2)
    if depth == 2 or not value > 0 or n < 2:
        raise DepthrankError(
            f"depth is {depth}, value {value:g}, n_blocks {n}; the small-alpha rate assumes depth "
            ">= 3, value > 0, n_blocks >= 2. At depth 2 the limit is free of alpha (limits)."
        )
    a, mm = check_start(alpha, m)
    if np.isinf(m) or m == 1:
        raise DepthrankError(
            f"m is {m:g}; the small-alpha rate assumes 1 < m < inf (at m = inf the rank stays n "
            "for every alpha, at m = 1 it is one from the start)."
        )
    log_e1, log_r = start_logs(np.array(1.0), mm, n, s, init)
    log_kappa = float(log_offsets(depth, log_e1 + log_r, log_r))
    shift = (depth - 2) * (np.log(n * s * value) / depth - float(np.log(a)))
    return log_kappa + float(shift), log_kappa


def small_alpha_rate(
    *,
    depth: int,
    alpha: float,
    m: float,
    n_blocks: int,
    block_size: int = 1,
    value: float = 1.0,
    init: str = "elementwise",
) -> SmallAlphaRate:
    """Stable rank -> 1 as alpha -> 0: exponent, constant and the values at one alpha.

    With kappa = a_2^{-(L-2)} - a_1^{-(L-2)}: stable_rank - 1 = (n-1) kappa^{-2L/(L-2)}
    alpha^{2L}/(n tau)^2 (1 + O(alpha^{L-2})). The small singular values end at a constant multiple
    of their initial size while the leading one grows to n tau.

    Label: asymptotic, with the error order stated. Source: Shin & Yun (ICLR 2026), Corollary 3.4.

    Parameters are those of `limits`.
    """
    log_delta, log_kappa = _log_delta(depth, alpha, m, n_blocks, block_size, value, init)
    q = depth / (depth - 2)
    log_ratio = -q * float(np.logaddexp(0.0, log_delta))
    ratio = float(np.exp(log_ratio))
    log_total = np.log(n_blocks * block_size * value)
    return SmallAlphaRate(
        exponent=2 * depth,
        coefficient=float((n_blocks - 1) * np.exp(-2 * q * log_kappa - 2 * log_total)),
        sigma_ratio=ratio,
        stable_rank_minus_1=float((n_blocks - 1) * np.exp(2 * log_ratio)),
        effective_rank_minus_1=(n_blocks - 1) * ratio * (1 - log_ratio),
        delta=float(np.exp(log_delta)),
    )


def ratio_bounds(
    *,
    depth: int,
    alpha: float,
    m: float,
    n_blocks: int,
    block_size: int = 1,
    value: float = 1.0,
    init: str = "elementwise",
) -> tuple[float, float]:
    """Two-sided bounds on log(sigma_2/sigma_1) of the limit, in closed form, at every alpha.

    y = e_2/e_1 solves (y^{-L} + n - 1)^p - (1 + (n-1) y^L)^p = Delta, p = (L-2)/L, whose two terms
    are bounded by concavity:
    (Delta + n^p)^{-1/(L-2)} <= y <= max(1, Delta + 1 - (n-1)^p)^{-1/(L-2)}.

    Label: rigorous bound. Source: derived here from the equation of Shin & Yun (ICLR 2026),
    Theorem 3.3.
    """
    log_delta, _ = _log_delta(depth, alpha, m, n_blocks, block_size, value, init)
    p = (depth - 2) / depth
    low = np.logaddexp(log_delta, p * np.log(n_blocks))
    shift = (n_blocks - 1) ** p - 1
    high = (
        log_delta + np.log1p(-shift * np.exp(-log_delta)) if np.exp(log_delta) > 1 + shift else 0.0
    )
    return -float(low) / p, -float(high) / p
