"""Further statements: full data at depth 2, the start's kernel, escape, divergence, stability.

Each function names its assumptions and its label.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError
from depthrank.factors import check_factors, imbalance
from depthrank.theory._start import check_depth, check_start, start_logs

__all__ = [
    "amplification_exponent",
    "escape_time",
    "fully_observed_state",
    "norm_divergence_bounds",
    "start_kernel",
]

Array = NDArray[np.float64]


def start_kernel(
    *, depth: int, alpha: float, m: float, dimension: int
) -> tuple[float, float, float]:
    """Tangent kernel of an observed diagonal at the start `AlphaM(alpha, m)`.

    With g_q = (e_1^{2q} + (d-1) e_2^{2q})/d and o_q = (e_1^{2q} - e_2^{2q})/d: diagonal value
    sum_l g_{L-l} g_{l-1}, off-diagonal value sum_{l=2}^{L-1} o_{L-l} o_{l-1} (exactly 0 at depth 2
    and at m = inf, positive otherwise), largest eigenvalue (L/d)(e_1^{2L-2} + (d-1) e_2^{2L-2}).

    Label: exact. Source: Shin & Yun (ICLR 2026), Proposition 3.2, computed here.

    Returns
    -------
    (float, float, float)
        Diagonal value, off-diagonal value, largest eigenvalue.
    """
    depth, d = check_depth(depth), int(dimension)
    a, mm = check_start(float(alpha), float(m))
    log_e1, log_r = start_logs(a, mm, d, 1, "elementwise")
    e1, r = float(np.exp(log_e1)), float(log_r)
    powers = 2.0 * np.arange(depth)
    first = e1**powers
    second = first * np.exp(powers * r) if np.isfinite(r) else np.where(powers == 0, first, 0.0)
    g = (first + (d - 1) * second) / d
    o = (first - second) / d
    off = float(o[1:-1] @ o[1:-1][::-1]) if depth > 2 else 0.0
    return float(g @ g[::-1]), off, float(depth * g[-1])


def fully_observed_state(
    t: float, factors: Sequence[Any], target: ArrayLike, *, tolerance: float = 1e-9
) -> Array:
    """End-to-end matrix at time t, depth 2, everything observed, from any balanced start.

    With Q = [W_1^T; W_2] and F = [[0, Y^T], [Y, 0]] the product Q Q^T solves a Riccati equation:
    Q Q^T(t) = e^{Ft} Q_0 (I + Q_0^T (int_0^t e^{2Fs} ds) Q_0)^{-1} Q_0^T e^{Ft}; its lower left
    block is W. Rectangular targets and any hidden width.

    Label: exact. Source: derived here.

    Parameters
    ----------
    t : float
        Time >= 0, with t times the largest singular value of the target at most 30: beyond
        it rounding drowns the slower modes, and the leading ones have arrived.
    factors : (W_1, W_2)
        Balanced: W_2^T W_2 = W_1 W_1^T.
    target : array_like, shape (m, n)
    tolerance : float
        Largest imbalance, relative to ‖W_1‖_F², that counts as rounding.
    """
    Y = np.asarray(target, dtype=np.float64)
    chain = check_factors(factors, (Y.shape[0], Y.shape[1]))
    if len(chain) != 2:
        raise DepthrankError(
            f"got {len(chain)} factors; the closed form is for depth 2; use depthrank.flow."
        )
    found = imbalance(chain)
    if found > tolerance * float(np.sum(chain[0] ** 2)):
        raise DepthrankError(
            f"the factors have imbalance {found:.3g}; the closed form assumes "
            "W_2^T W_2 = W_1 W_1^T. Start from Balanced or AlphaM, or simulate with depthrank.flow."
        )
    m, n = Y.shape
    F = np.zeros((m + n, m + n))
    F[n:, :n], F[:n, n:] = Y, Y.T
    rates, V = np.linalg.eigh(F)
    if not 0 <= t * rates[-1] <= 30:
        raise DepthrankError(
            f"t = {t:g} times the largest singular value {rates[-1]:g} must lie in [0, 30]."
        )
    C = V.T @ np.vstack([chain[0].T, chain[1]])
    if t == 0:
        return np.asarray(chain[1] @ chain[0], dtype=np.float64)
    small = np.abs(rates) * t < 1e-12
    safe = np.where(small, 1.0, rates)
    # With S = integral^{1/2} C and its singular values s, the middle factor is s^2/(1 + s^2)
    # between e^{Ft} integral^{-1/2}, which stays bounded as t grows.
    integral = np.where(small, t, np.expm1(2 * safe * t) / (2 * safe))
    outer = np.where(small, t**-0.5, np.sqrt(2 * safe / -np.expm1(-2 * safe * t)))
    U, s, _ = np.linalg.svd(np.sqrt(integral)[:, None] * C, full_matrices=False)
    left = (V * outer) @ U
    return np.asarray(((left * (s**2 / (1 + s**2))) @ left.T)[n:, :n])


def escape_time(
    *,
    depth: int,
    alpha: float,
    m: float,
    n_blocks: int,
    level: float,
    block_size: int = 1,
    value: float = 1.0,
) -> float:
    """Time at which the leading factor eigenvalue reaches `level`, for small alpha.

    The plateau near zero lasts (alpha a_1)^{-(L-2)}/((L-2) tau) at depth L >= 3, log(1/alpha)/tau
    at depth 2 (where the value returned is exact for one mode). Error O(alpha^2).

    Label: asymptotic. Source: derived here, for the setting of Shin & Yun (ICLR 2026),
    Corollary 3.4.
    """
    depth = check_depth(depth, least=2)
    a, mm = check_start(float(alpha), float(m))
    n, tau = int(n_blocks), block_size * float(value)
    log_e1 = float(start_logs(a, mm, n, block_size, "elementwise")[0])
    top = level**depth / (n * tau)
    if not 0 < top < 1:
        raise DepthrankError(
            f"level^L is {level**depth:g}; it must lie between 0 and the final {n * tau:g}."
        )
    if depth == 2:
        ratio = float(np.exp(2 * log_e1)) / (n * tau)
        return float(np.log(top / (1 - top) * (1 - ratio) / ratio) / (2 * tau))
    from scipy.special import hyp2f1

    share = 2.0 / depth
    with np.errstate(over="ignore"):
        plateau = float(np.exp(-(depth - 2) * log_e1)) - level ** -(depth - 2.0)
    rise = level**2 / (2 * n * tau**2) * float(hyp2f1(1.0, share, 1.0 + share, top))
    return plateau / ((depth - 2) * tau) + rise


def norm_divergence_bounds(loss: float) -> tuple[float, float]:
    """Bounds for the 2 x 2 problem whose norm diverges: X_12 = X_21 = 1, X_22 = 0, X_11 free.

    From a balanced start with positive determinant the determinant stays positive, so for
    loss < 1/4: abs(X_11) >= (1 - sqrt(loss))^2 / sqrt(2 loss) and sigma_2 <= sqrt(2 loss): the norm
    grows without bound as the loss falls, while the effective rank tends to 1. In floating point
    the comparison ends when sigma_2 < 1e-9 sigma_1: rounding then flips the determinant's sign.

    Label: rigorous bound. Source: derived here; the example is known from the literature on
    implicit bias in matrix factorisation.

    Parameters
    ----------
    loss : float
        Half the sum of squared errors on the three observed entries, in (0, 1/4).

    Returns
    -------
    (float, float)
        Lower bound on abs(X_11), upper bound on sigma_2.
    """
    if not 0 < loss < 0.25:
        raise DepthrankError(f"loss is {loss!r}; the bounds hold for 0 < loss < 1/4.")
    return float((1 - np.sqrt(loss)) ** 2 / np.sqrt(2 * loss)), float(np.sqrt(2 * loss))


def amplification_exponent(
    *, depth: int, targets: ArrayLike, starts: ArrayLike, n_blocks: int = 1
) -> float:
    """Estimate the exponent Lambda of how much rounding grows while slow modes wait (depth >= 3).

    With escape times t_k = e_k(0)^{-(L-2)}/((L-2) tau_k), Lambda = max over t_j < t_k of
    tau_k (n tau_j)^{(L-2)/L} (t_k - t_j): a waiting mode is fitted through the direction of one
    that has already grown. Expect a float64 run to differ from the exact solution by about
    1e-16 exp(Lambda); above 30 it leaves the symmetric manifold. Exactly diagonal starts on
    diagonal data are safe all the same: exact zeros stay zero.

    Label: asymptotic (an estimate of growth rates). Source: derived here.

    Parameters
    ----------
    depth : int
    targets, starts : array_like, shape (k,)
        tau_k > 0 and e_k(0) > 0 of the modes that rise.
    n_blocks : int
        How many blocks each leading mode fills (1 for unequal diagonal values at m = inf).

    Returns
    -------
    float
        0 at depth 2 and when all modes rise together.
    """
    depth = check_depth(depth, least=2)
    tau = np.asarray(targets, dtype=np.float64)
    e = np.asarray(starts, dtype=np.float64)
    if tau.shape != e.shape or not (np.all(tau > 0) and np.all(e > 0)):
        raise DepthrankError(
            f"targets have shape {tau.shape}, starts {e.shape}; give one positive start for each "
            "positive target."
        )
    if depth == 2 or tau.size < 2:
        return 0.0
    times = e ** -(depth - 2.0) / ((depth - 2) * tau)
    waits = times[:, None] - times[None, :]
    rates = tau[:, None] * (n_blocks * tau[None, :]) ** ((depth - 2) / depth)
    return float(np.max(np.where(waits > 0, rates * waits, 0.0)))
