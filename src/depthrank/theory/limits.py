"""Exact t -> infinity limits for equal diagonal or block-diagonal targets, at any depth.

The setting: an n s x n s matrix of which n diagonal blocks of size s are fully observed, all with
the same value; every factor starts at `AlphaM(alpha, m)`; gradient flow on half the sum of squared
errors. All factors then stay equal and symmetric, with eigenvalue e_1 on the all-ones vector
(multiplicity 1), e_2 on vectors constant on blocks with mean zero (n - 1), and e_3 on vectors with
mean zero inside each block (n (s - 1)), which decays to 0.

Source: Shin & Yun (ICLR 2026), Theorem 3.3 (limits at any depth) and Corollary 3.4 (small alpha).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError
from depthrank.theory._measures import (
    RankMeasures,
    check_dense,
    entropy_from_gaps,
    excess_stable_rank,
    rank_measures,
)
from depthrank.theory._roots import PairClock, log_offsets, solve_log_x
from depthrank.theory._start import check_depth, check_start, start_logs

__all__ = ["Limits", "LimitsGrid", "half_time", "limits", "limits_grid"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Limits(RankMeasures):
    """The exact limit of `limits`; see `RankMeasures` for the spectrum.

    Attributes
    ----------
    depth, n_blocks, block_size : int
        The problem.
    factor_eigenvalues, multiplicities : ndarray
        Eigenvalues e_j of each factor at the limit (all-ones vector first) and how often each
        occurs; the zero modes inside blocks are left out.
    in_block_entry, cross_block_entry : float
        An observed and an unobserved entry of the limit.
    loss : float
        Half the sum of squared errors at the limit: 0 unless the target is negative.
    rate : float
        lambda: near the limit the residual of the coupled modes falls like exp(-lambda t). It is
        also the largest Hessian eigenvalue there, so descent needs a step below 2/lambda. (The
        modes inside blocks, if any, decay only algebraically.) 0 for a target <= 0.
    t_half : float or None
        Flow time at which the mean observed mode reaches half its target; None if it starts above
        half or never gets there; inf if the time is beyond the largest float.
    log_ratio : float
        log(sigma_2/sigma_1), never underflowing; -inf at m = 1, nan for the zero limit.
    coupled : bool
        Whether gradients of entries in different blocks have a non-zero inner product on the way.
    regime : str
        One sentence on which mechanism decides this case.
    """

    depth: int
    n_blocks: int
    block_size: int
    factor_eigenvalues: Array
    multiplicities: NDArray[np.int64]
    in_block_entry: float
    cross_block_entry: float
    loss: float
    rate: float
    t_half: float | None
    log_ratio: float
    coupled: bool
    regime: str

    def end_to_end(self) -> Array:
        """Return the limit itself, shape (d, d) with d = n_blocks * block_size."""
        check_dense(self.n_blocks * self.block_size)
        blocks = np.kron(np.eye(self.n_blocks), np.ones((self.block_size, self.block_size)))
        return np.where(blocks > 0, self.in_block_entry, self.cross_block_entry)


@dataclass(frozen=True, eq=False, kw_only=True)
class LimitsGrid:
    """Limits over arrays of alpha, m and value; every field has their broadcast shape.

    `sigma_1` occurs once, `sigma_2` n_blocks - 1 times; see `Limits` for the rest. Label: exact.
    """

    sigma_1: Array
    sigma_2: Array
    log_ratio: Array
    stable_rank: Array
    stable_rank_minus_1: Array
    effective_rank: Array
    effective_rank_minus_1: Array
    cross_block_entry: Array


def limits(
    *,
    depth: int,
    alpha: float,
    m: float,
    n_blocks: int | None = None,
    block_size: int = 1,
    dimension: int | None = None,
    value: float = 1.0,
    init: str = "elementwise",
) -> Limits:
    """Exact limit of the gradient flow for n equal, constant, fully observed diagonal blocks.

    For depth L >= 3, tau = s value and D = e_2(0)^{-(L-2)} - e_1(0)^{-(L-2)} (conserved), the limit
    is the unique positive solution of

        sigma_1 + (n-1) sigma_2 = n tau,    sigma_2^{-(L-2)/L} - sigma_1^{-(L-2)/L} = D.

    Uniqueness: with x = e_1^{-(L-2)} the observed mode F(x) = (x^{-q} + (n-1)(x+D)^{-q})/n,
    q = L/(L-2), falls strictly from +inf to 0, so F(x) = tau once, inside the bracket
    (n tau)^{-1/q} <= x <= tau^{-1/q}, which does not depend on alpha or m; the scalar flow
    dx/dt = (L-2)(F(x) - tau) runs monotonically into it. The equation is solved in log x, so
    neither alpha^{-(L-2)} nor sigma_2 can overflow or vanish. For L = 2 the ratio
    sigma_1/sigma_2 = (e_1(0)/e_2(0))^2 is conserved and the limit does not depend on alpha. For
    L = 1 every unobserved entry stays where it started.

    Label: exact. Source: Shin & Yun (ICLR 2026), Theorem 3.3.

    Parameters
    ----------
    depth : int
        Number of factors L >= 1.
    alpha, m : float
        Start: alpha > 0 on the diagonal of every factor, alpha/m off it; 1 <= m <= inf.
    n_blocks, block_size, dimension : int, optional
        n blocks of size s; `dimension` = n s may replace `n_blocks`. block_size 1 is the diagonal.
    value : float
        The observed value, the same everywhere. A value <= 0 at depth >= 2 ends at the zero matrix.
    init : {"elementwise", "block", "constant-block"}
        What `alpha, m` mean when s > 1: per entry (`AlphaM`), (alpha I + alpha/m (J - I)) kron I_s,
        or constant blocks alpha and alpha/m. All three agree for s = 1.

    Returns
    -------
    Limits

    Raises
    ------
    DepthrankError
        If an assumption fails; the message says which.

    Examples
    --------
    >>> round(limits(depth=3, alpha=0.1, m=2.0, n_blocks=2).stable_rank, 6)
    1.0
    >>> limits(depth=3, alpha=0.1, m=float("inf"), n_blocks=2).stable_rank
    2.0
    """
    depth = check_depth(depth)
    a, mm = check_start(float(alpha), float(m))
    n, s = _check_blocks(n_blocks, block_size, dimension)
    if not np.isfinite(value):
        raise DepthrankError(f"value is {value!r}; the observed value must be a finite number.")
    log_e1, log_r = start_logs(a, mm, n, s, init)
    if depth == 1:
        return _depth_one(float(alpha), float(m), n, s, float(value), init)
    tau = s * float(value)
    mult = np.array([1, n - 1]) if n > 1 else np.array([1])
    coupled = bool(depth >= 3 and n > 1 and np.isfinite(m))
    common: dict[str, Any] = {"depth": depth, "n_blocks": n, "block_size": s, "coupled": coupled}
    if tau <= 0:
        return Limits(
            **rank_measures(np.full(mult.size, -np.inf), mult, zeros=n * (s - 1)),
            **common,
            factor_eigenvalues=np.zeros(mult.size),
            multiplicities=mult,
            in_block_entry=0.0,
            cross_block_entry=0.0,
            loss=0.5 * n * tau**2,
            rate=0.0,
            t_half=None,
            log_ratio=float("nan"),
            regime="target <= 0: every eigenvalue decays and the flow stops at the zero matrix",
        )
    gap = pair_gap(depth, n, np.array(np.log(tau)), log_e1, log_r)
    log_s1 = np.log(n * tau) - np.log1p((n - 1) * np.exp(-gap))
    log_sigma = np.array([log_s1, log_s1 - gap])[: mult.size]
    eigenvalues = np.exp(log_sigma / depth)
    return Limits(
        **rank_measures(log_sigma, mult, zeros=n * (s - 1)),
        **common,
        factor_eigenvalues=eigenvalues,
        multiplicities=mult,
        in_block_entry=float(value),
        cross_block_entry=float(_cross_entry(log_s1, gap, n * s)) if n > 1 else float(value),
        loss=0.0,
        rate=float(depth / n * (mult @ eigenvalues ** (2 * depth - 2))),
        t_half=half_time(depth, tau, float(log_e1), float(log_r), n),
        log_ratio=float(-gap) if n > 1 else float("nan"),
        regime=_regime(depth, n, float(m), float(gap)),
    )


def limits_grid(
    *,
    depth: int,
    alpha: ArrayLike,
    m: ArrayLike,
    n_blocks: int,
    block_size: int = 1,
    value: ArrayLike = 1.0,
    init: str = "elementwise",
) -> LimitsGrid:
    """Limits of `limits` for whole arrays of alpha, m and value (broadcast together).

    The same root finder, so every cell agrees with the scalar function to rounding; ten thousand
    cells take milliseconds. Needs depth >= 2, n_blocks >= 2 and value > 0.

    Label: exact. Source: Shin & Yun (ICLR 2026), Theorem 3.3.
    """
    depth = check_depth(depth, least=2)
    a, mm = check_start(alpha, m)
    n, s = _check_blocks(n_blocks, block_size, None)
    values = np.asarray(value, dtype=np.float64)
    if n < 2 or not np.all((values > 0) & np.isfinite(values)):
        raise DepthrankError(
            f"n_blocks is {n_blocks} and the smallest value {values.min():g}; a grid of limits "
            "needs n_blocks >= 2 and finite values > 0 (limits() covers the other cases singly)."
        )
    a, mm, values = np.broadcast_arrays(a, mm, values)
    log_tau = np.log(s * values)
    gap = pair_gap(depth, n, log_tau, *start_logs(a, mm, n, s, init))
    log_s1 = np.log(n) + log_tau - np.log1p((n - 1) * np.exp(-gap))
    gaps = np.stack([np.zeros_like(gap), gap], axis=-1)
    mult = np.array([1.0, n - 1.0])
    excess, entropy = excess_stable_rank(gaps, mult), entropy_from_gaps(gaps, mult)
    return LimitsGrid(
        sigma_1=np.exp(log_s1),
        sigma_2=np.exp(log_s1 - gap),
        log_ratio=-gap,
        stable_rank=1 + excess,
        stable_rank_minus_1=excess,
        effective_rank=np.exp(entropy),
        effective_rank_minus_1=np.expm1(entropy),
        cross_block_entry=_cross_entry(log_s1, gap, n * s),
    )


def half_time(depth: int, tau: float, log_e1: float, log_ratio: float, n: int) -> float | None:
    """Time at which F = (e_1^L + (n-1) e_2^L)/n reaches tau/2 > 0; None if it starts above.

    Logistic at L = 2, one Gauss-Legendre quadrature at L >= 3. Label: exact (to quadrature).
    """
    mult = np.array([1.0, n - 1.0]) if n > 1 else np.array([1.0])
    logs = np.array([log_e1, log_e1 + log_ratio])[: mult.size]
    log_f0 = float(np.log(mult @ np.exp(depth * (logs - log_e1)) / n) + depth * log_e1)
    if log_f0 >= np.log(tau / 2):
        return None
    if depth == 2:
        # tau/F_0 - 1 in logs: F_0 may lie below the smallest float
        log_odds = np.log(tau) - log_f0
        return float((log_odds + np.log1p(-np.exp(-log_odds))) / (2 * tau))
    with np.errstate(over="ignore"):
        x0 = float(np.exp(-(depth - 2) * log_e1))
        log_d = log_offsets(depth, logs, np.array([0.0, log_ratio])[: mult.size])
        offsets = np.exp(log_d)
    if not np.isfinite(x0):
        return float("inf")
    clock = PairClock(depth, x0, offsets, mult, tau)
    x_half = np.exp(solve_log_x(depth, log_d, mult, np.array(np.log(n * tau / 2))))
    return clock.time(clock.z(float(x_half)))


def pair_gap(depth: int, n: int, log_tau: Array, log_e1: Array, log_ratio: Array) -> Array:
    """log(sigma_1/sigma_2) >= 0 at the limit, elementwise."""
    if depth == 2:
        return np.asarray(-2.0 * log_ratio + np.zeros_like(log_tau))
    if n == 1:
        return np.full(log_tau.shape, np.inf)
    log_d = log_offsets(depth, log_e1 + log_ratio, log_ratio)
    stacked = np.stack([np.full_like(log_d, -np.inf), log_d], axis=-1)
    z = solve_log_x(depth, stacked, np.array([1.0, n - 1.0]), log_tau + np.log(n))
    return np.asarray(depth / (depth - 2) * np.logaddexp(0.0, log_d - z))


def _cross_entry(log_s1: Array, gap: Array, dimension: int) -> Array:
    """(sigma_1 - sigma_2)/d, accurate when the two nearly agree."""
    return np.asarray(-np.expm1(-gap) * np.exp(log_s1) / dimension)


def _check_blocks(n_blocks: int | None, block_size: int, dimension: int | None) -> tuple[int, int]:
    if block_size < 1 or int(block_size) != block_size:
        raise DepthrankError(f"block_size is {block_size!r}; it must be an integer >= 1.")
    if n_blocks is None:
        if dimension is None:
            raise DepthrankError("neither n_blocks nor dimension was given; give one of them.")
        if dimension % block_size:
            raise DepthrankError(
                f"dimension {dimension} is no multiple of block_size {block_size}: the exact "
                "limits assume blocks of equal size. Unequal blocks: simulate with depthrank.flow."
            )
        n_blocks = dimension // block_size
    if n_blocks < 1 or int(n_blocks) != n_blocks:
        raise DepthrankError(f"n_blocks is {n_blocks!r}; it must be an integer >= 1.")
    if dimension is not None and dimension != n_blocks * block_size:
        raise DepthrankError(
            f"dimension {dimension} is not n_blocks * block_size = {n_blocks} * {block_size}; "
            "give one of n_blocks and dimension, or both in agreement."
        )
    return int(n_blocks), int(block_size)


def _depth_one(alpha: float, m: float, n: int, s: int, value: float, init: str) -> Limits:
    """Depth 1: observed entries go to their values at rate 1, unobserved ones never move."""
    if init == "block" and s > 1 and n > 1 and np.isfinite(m):
        raise DepthrankError(
            "depth 1 with init='block' keeps the start outside the blocks, which is not constant "
            "there; use init='elementwise' or depthrank.flow."
        )
    cross = alpha / m
    mult = np.array([1, n - 1]) if n > 1 else np.array([1])
    eigenvalues = s * np.array([value + (n - 1) * cross, value - cross])[: mult.size]
    logs = np.full(mult.size, -np.inf)
    np.log(np.abs(eigenvalues), out=logs, where=eigenvalues != 0)
    start = {"block": alpha, "constant-block": s * alpha}.get(init, alpha + (s - 1) * cross)
    tau = s * value
    half = np.log((tau - start) / (tau / 2)) if tau > 0 and start < tau / 2 else None
    return Limits(
        **rank_measures(logs, mult, zeros=n * (s - 1)),
        depth=1,
        n_blocks=n,
        block_size=s,
        coupled=False,
        factor_eigenvalues=eigenvalues,
        multiplicities=mult,
        in_block_entry=value,
        cross_block_entry=cross if n > 1 else value,
        loss=0.0,
        rate=1.0,
        t_half=None if half is None else float(half),
        log_ratio=float(logs[-1] - logs[0]) if n > 1 else float("nan"),
        regime="depth 1: observed entries are fitted one by one, the others never move",
    )


def _regime(depth: int, n: int, m: float, gap: float) -> str:
    if n == 1:
        return "one block: a single mode, fitted at rank one"
    if m == 1:
        return "m = 1: the start has rank one and keeps it"
    if np.isinf(m):
        return "m = inf: blocks stay decoupled, full block rank at every alpha"
    if depth == 2:
        return "depth 2: blocks decoupled, the limit depends on m but not on alpha"
    if gap > np.log(1e2):
        return "coupled, small start: the leading mode takes all blocks, stable rank near one"
    if gap < np.log(2.0):
        return (
            "coupled, but the start is too large or too nearly diagonal: close to full block rank"
        )
    return "coupled, in the crossover between rank one and full block rank"
