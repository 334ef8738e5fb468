"""Exact limits beyond equal constant blocks: whole-block targets, commuting starts, circulants.

Whenever all factors start equal inside a commutative algebra of symmetric matrices that contains
the observed data, the flow splits into scalar modes. Each function states which algebra it is.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError
from depthrank.theory._measures import RankMeasures, check_dense, rank_measures
from depthrank.theory._roots import log_offsets, solve_log_x
from depthrank.theory._start import check_depth, check_start, start_logs
from depthrank.theory.limits import pair_gap

__all__ = [
    "BlockLimits",
    "ModeLimits",
    "block_limits",
    "circulant_limit",
    "infinite_depth_limit",
    "mode_limits",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockLimits(RankMeasures):
    """Limit for equal, fully observed diagonal blocks; see `RankMeasures` for the spectrum.

    Attributes
    ----------
    in_block, cross_block : ndarray, shape (s, s)
        The diagonal blocks of the limit, all equal, and the others, all equal.
    n_blocks : int
    loss : float
        Half the sum of squared errors at the limit; > 0 only if the block has negative eigenvalues.
    """

    in_block: Array
    cross_block: Array
    n_blocks: int
    loss: float

    def end_to_end(self) -> Array:
        """Return the whole limit, shape (n s, n s)."""
        n, s = self.n_blocks, len(self.in_block)
        check_dense(n * s)
        inner = self.in_block - self.cross_block
        return np.asarray(np.kron(np.eye(n), inner) + np.kron(np.ones((n, n)), self.cross_block))


@dataclass(frozen=True, eq=False, kw_only=True)
class ModeLimits(RankMeasures):
    """Limit as eigenvalues; see `RankMeasures` for the spectrum.

    Attributes
    ----------
    factor_eigenvalues, multiplicities : ndarray
        In the order of the input (or of the frequencies 0, ..., d-1).
    """

    factor_eigenvalues: Array
    multiplicities: NDArray[np.int64]


def block_limits(
    *,
    depth: int,
    alpha: float,
    m: float,
    n_blocks: int,
    block: ArrayLike,
    init: str = "elementwise",
) -> BlockLimits:
    """Limit for n equal, fully observed symmetric blocks T of any positive semidefinite kind.

    Every eigenvector of T with eigenvalue tau gives its own copy of the two-mode problem of
    `limits`. From the element-wise start only the all-ones vector couples the blocks, and it must
    be an eigenvector of T; from the block start (`init="block"`) every mode couples, T is
    arbitrary, and as alpha -> 0 at depth >= 3 the limit tends to J kron T. Negative eigenvalues
    decay to zero and leave their residual. With several rising modes at depth >= 3 the exact
    solution is unstable: see `amplification_exponent` before comparing a simulation with it.

    Label: exact. Source: Shin & Yun (ICLR 2026), Theorem 3.3, in the generality derived here.

    Parameters
    ----------
    depth, alpha, m, n_blocks, init
        As for `limits`; depth >= 2, init "elementwise" or "block".
    block : array_like, shape (s, s)
        The target T of every diagonal block.
    """
    depth = check_depth(depth, least=2)
    a, mm = check_start(float(alpha), float(m))
    T = np.asarray(block, dtype=np.float64)
    if T.ndim != 2 or T.shape[0] != T.shape[1] or not np.allclose(T, T.T, rtol=1e-12, atol=0):
        raise DepthrankError(
            f"block has shape {T.shape} and must be a symmetric matrix: the theorem assumes that "
            "it shares eigenvectors with the start. Simulate other blocks with depthrank.flow."
        )
    if init not in ("elementwise", "block"):
        raise DepthrankError(f"init is {init!r}; for whole blocks it is 'elementwise' or 'block'.")
    n, s = int(n_blocks), len(T)
    tau, Q = _modes(T, init)
    start = start_logs(a, mm, n, s, init)
    level = np.array(np.abs(tau).max() * 1e-13)
    logs = np.full((s, 2), -np.inf)
    for k in range(s):
        if tau[k] <= level:
            continue
        coupled = init == "block" or k == 0
        gap = pair_gap(depth, n, np.array(np.log(tau[k])), *start) if coupled else np.array(0.0)
        first = np.log(n * tau[k]) - np.log1p((n - 1) * np.exp(-gap))
        logs[k] = first, first - gap
    multiplicities = np.tile([1, n - 1], s)
    kept = multiplicities > 0
    risen = np.where(tau > level, tau, 0.0)
    cross = np.exp(logs[:, 0]) - np.exp(logs[:, 1]) if n > 1 else np.zeros(s)
    return BlockLimits(
        **rank_measures(logs.ravel()[kept], multiplicities[kept]),
        in_block=(Q * risen) @ Q.T,
        cross_block=(Q * (cross / n)) @ Q.T,
        n_blocks=n,
        loss=float(0.5 * n * np.sum(np.minimum(tau, 0.0) ** 2)),
    )


def _modes(T: Array, init: str) -> tuple[Array, Array]:
    """Eigenvalues and eigenvectors of the block; the all-ones vector first if it must be one."""
    if init == "block":
        tau, Q = np.linalg.eigh(T)
        return tau, Q
    s = len(T)
    ones = np.full(s, s**-0.5)
    image = T @ ones
    first = float(ones @ image)
    if np.linalg.norm(image - first * ones) > 1e-10 * np.linalg.norm(T):
        raise DepthrankError(
            "the rows of block have unequal sums: the element-wise start assumes that the all-ones "
            "vector is an eigenvector of the block. Use init='block', or depthrank.flow."
        )
    tau, Q = np.linalg.eigh(T - first * np.outer(ones, ones))
    # drop the eigenvector that is the all-ones vector (now with eigenvalue 0)
    drop = int(np.argmax(np.abs(ones @ Q)))
    rest = np.delete(Q, drop, axis=1)
    rest = np.linalg.qr(np.column_stack([ones, rest]))[0][:, 1:]
    values = np.einsum("ik,ij,jk->k", rest, T, rest)
    return np.concatenate([[first], values]), np.column_stack([ones, rest])


def mode_limits(
    *, depth: int, eigenvalues: ArrayLike, multiplicities: ArrayLike, value: float
) -> ModeLimits:
    """Limit for an observed diagonal (one value) from any start in a constant-diagonal algebra.

    All factors start equal to one symmetric matrix with the given positive eigenvalues, in a
    commutative algebra whose members have a constant diagonal (symmetric circulants, for example).
    Depth 2 conserves all ratios; depth L >= 3 conserves e_j^{-(L-2)} - e_k^{-(L-2)}, and the limit
    is the unique root of sum_j m_j (x + D_j)^{-L/(L-2)} = n value by the argument of `limits`. As
    the start shrinks, the stable rank tends to the multiplicity of the largest initial eigenvalue.

    Label: exact. Source: derived here; Shin & Yun (ICLR 2026), Theorem 3.3 has two eigenvalues.
    """
    depth = check_depth(depth, least=2)
    e = np.asarray(eigenvalues, dtype=np.float64)
    mult = np.asarray(multiplicities, dtype=np.int64)
    if e.ndim != 1 or e.shape != mult.shape or not np.all(e > 0) or not np.all(mult >= 1):
        raise DepthrankError(
            f"eigenvalues {e.tolist()} with multiplicities {mult.tolist()}; the theorem assumes "
            "positive eigenvalues, each with a multiplicity >= 1."
        )
    if not (np.isfinite(value) and value > 0):
        raise DepthrankError(f"value is {value!r}; a positive limit needs a finite value > 0.")
    order = np.argsort(-e, kind="stable")
    log_e, sorted_mult = np.log(e[order]), mult[order].astype(np.float64)
    log_ratio = log_e - log_e[0]
    log_total = np.log(mult.sum() * value)
    if depth == 2:
        gaps = -2.0 * log_ratio
    else:
        log_d = log_offsets(depth, log_e, log_ratio)
        z = solve_log_x(depth, log_d, sorted_mult, np.array(log_total))
        gaps = depth / (depth - 2) * np.logaddexp(0.0, log_d - z)
    log_sigma = np.empty_like(gaps)
    log_sigma[order] = log_total - np.log(sorted_mult @ np.exp(-gaps)) - gaps
    return ModeLimits(
        **rank_measures(log_sigma, mult),
        factor_eigenvalues=np.exp(log_sigma / depth),
        multiplicities=mult,
    )


def infinite_depth_limit(
    *, sigma_1: float, sigma_2: float, n_blocks: int, value: float
) -> ModeLimits:
    """Limit as depth -> inf with the initial singular values held fixed and time rescaled by L.

    1/sigma_2 - 1/sigma_1 is conserved; finite depth differs by O(1/L). factor_eigenvalues are all 1
    (every factor tends to the identity). Label: exact. Source: derived here from the equations of
    Shin & Yun (ICLR 2026), Theorem 3.3.

    Parameters
    ----------
    sigma_1, sigma_2 : float
        Initial singular values, sigma_1 >= sigma_2 > 0, of multiplicity 1 and n_blocks - 1.
    n_blocks : int
    value : float
        The observed diagonal value (block size times value for constant blocks), > 0.
    """
    if not (sigma_1 >= sigma_2 > 0 and value > 0 and n_blocks >= 2):
        raise DepthrankError(
            f"sigma_1 {sigma_1:g}, sigma_2 {sigma_2:g}, n_blocks {n_blocks}, value {value:g}; "
            "assumed are sigma_1 >= sigma_2 > 0, n_blocks >= 2 and value > 0."
        )
    total, D = n_blocks * value, 1 / sigma_2 - 1 / sigma_1
    b = n_blocks * (1 - value * D)
    root = np.sqrt(b * b + 4 * D * total)
    # whichever form does not cancel
    first = 2 * total / (b + root) if b >= 0 else (root - b) / (2 * D)
    mult = np.array([1, n_blocks - 1])
    logs = np.log(np.array([first, first / (1 + D * first)]))
    return ModeLimits(
        **rank_measures(logs, mult), factor_eigenvalues=np.ones(2), multiplicities=mult
    )


def circulant_limit(*, depth: int, dimension: int, value: float, offset_value: float) -> ModeLimits:
    """Limit when the diagonal (w) and both neighbouring circulant offsets (v) are observed.

    From W(0) = alpha I, any alpha: depth 2 ends at sigma_j = exp(A + B cos theta_j), depth L >= 3
    at (A - B cos theta_j)^{-L/(L-2)}, theta_j = 2 pi j/d, with A, B fixed by mean sigma_j = w and
    mean sigma_j cos theta_j = v. The pattern is connected, yet the limit has full rank at every
    alpha and depth: connected does not imply low rank.

    Label: exact. Source: derived here. Eigenvalues are those of X by frequency j = 0, ..., d-1.

    Parameters
    ----------
    depth : int
        >= 2.
    dimension : int
        d >= 3.
    value, offset_value : float
        w > 0 and v, with min_j cos theta_j < v/w < 1.
    """
    depth = check_depth(depth, least=2)
    d = int(dimension)
    cosine = np.cos(2 * np.pi * np.arange(d) / d)
    if d < 3 or not value > 0 or not cosine.min() < offset_value / value < 1:
        raise DepthrankError(
            f"dimension {d}, value {value:g}, offset_value {offset_value:g}; assumed are d >= 3, "
            f"value > 0 and {cosine.min():.4g} < offset_value/value < 1."
        )
    share = offset_value / value
    # for a negative share mirror the cosine so that its maximum is again 1
    scale = 1.0 if share >= 0 else float(cosine.min())
    c, want = cosine / scale, share / scale
    low, high = 0.0, 1.0
    while _tilted_mean(depth, c, high)[0] < want:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        if _tilted_mean(depth, c, middle)[0] < want:
            low = middle
        else:
            high = middle
    logs = _tilted_mean(depth, c, 0.5 * (low + high))[1]
    logs += np.log(value) - np.log(np.mean(np.exp(logs)))
    mult = np.ones(d, dtype=np.int64)
    return ModeLimits(
        **rank_measures(logs, mult),
        factor_eigenvalues=np.exp(logs / depth),
        multiplicities=mult,
    )


def _tilted_mean(depth: int, c: Array, u: float) -> tuple[float, Array]:
    """Mean of c under weights exp(B c) (depth 2) or (1 - beta c)^{-q}; it rises to 1 with u."""
    if depth == 2:
        logs = u * (c - 1.0)
    else:
        # beta = 1 - e^{-u}, so that 1 - beta c keeps its digits near c = 1
        logs = -depth / (depth - 2) * np.log((1.0 - c) + np.exp(-u) * c)
        logs -= logs.max()
    weights = np.exp(logs)
    return float(weights @ c / weights.sum()), logs
