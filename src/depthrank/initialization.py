"""How factors start: a small family of rules that turn sizes and a seed into factors.

Every start is called as ``start(dims, seed)`` with dims = (n, d_1, ..., d_{L-1}, m) and returns
(W_1, ..., W_L) in float64, W_l of shape dims[l] × dims[l-1]. `AlphaM` is the deterministic start
of the coupled-dynamics paper. All the others state their size as `init_scale`: the Frobenius norm
of the end-to-end matrix W_L ··· W_1, exact or in expectation as each class says.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from numbers import Real
from typing import Any, TypeAlias

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.factors import Factors, check_dims
from depthrank.memory import require
from depthrank.seeds import generator

__all__ = [
    "SCALED",
    "AlphaM",
    "Balanced",
    "Gaussian",
    "Identity",
    "Orthogonal",
    "Start",
    "TiedGaussian",
    "default_scale",
]

# Any function of (dims, seed) that returns factors is a start; the classes below are such.
Start: TypeAlias = Callable[[tuple[int, ...], int], Factors]


def _check_scale(init_scale: Any) -> None:
    """Refuse an end-to-end size that is not a positive finite number."""
    real = isinstance(init_scale, Real) and not isinstance(init_scale, bool)
    if not real or not 0 < init_scale < math.inf:
        raise DepthrankError(
            f"init_scale is {init_scale!r}; it must be a finite number > 0 (from factors that are "
            "all zero, gradient flow never moves)."
        )


def _check_sizes(dims: tuple[int, ...]) -> tuple[int, ...]:
    """Return valid sizes whose factors fit in memory."""
    sizes = check_dims(dims)
    entries = sum(into * out for into, out in pairwise(sizes))
    advice = "Give smaller hidden widths."
    require(8 * entries, f"the float64 factors of sizes {sizes}", advice)
    return sizes


def _entry_std(init_scale: float, sizes: tuple[int, ...]) -> float:
    """Return the common standard deviation for which E‖W_L ··· W_1‖_F² = init_scale².

    For independent centred entries of variance v, E‖W_l B‖_F² = d_l v ‖B‖_F² for fixed B, so
    E‖W_L ··· W_1‖_F² = v^L Π_{l=0..L} d_l. Logarithms keep long wide chains from overflowing.
    """
    log_sizes = sum(math.log(size) for size in sizes)
    return math.exp((math.log(init_scale) - log_sizes / 2) / (len(sizes) - 1))


@dataclass(frozen=True)
class AlphaM:
    r"""The paper's deterministic start: alpha on the diagonal, alpha/m off it, in every factor.

    Parameters
    ----------
    alpha : float
        Diagonal entries of every factor, > 0. Not an end-to-end size: for d × d factors the
        end-to-end singular values are alpha^L (1 + (d-1)/m)^L once and alpha^L (1 − 1/m)^L
        d − 1 times.
    m : float
        Ratio of diagonal to off-diagonal entries, > 1; inf gives diagonal factors. The limit m = 1
        is accepted although the paper excludes it: every entry equals alpha, and a square chain
        stays at rank 1 for ever on the patterns of the paper.

    Notes
    -----
    Rectangular factors follow the same entrywise rule with the diagonal (i, i), i < min(rows,
    columns). Equal square factors are exactly balanced, rectangular chains in general are not.
    Nothing is random; the seed is ignored.
    """

    alpha: float
    m: float = math.inf

    def __post_init__(self) -> None:
        if not isinstance(self.alpha, Real) or not 0 < self.alpha < math.inf:
            raise DepthrankError(f"alpha is {self.alpha!r}; it must be a finite number > 0.")
        if not isinstance(self.m, Real) or not self.m >= 1:
            raise DepthrankError(
                f"m is {self.m!r}; it must be > 1 (inf for diagonal factors; 1, where all entries "
                "are equal, is the accepted limit)."
            )

    def __call__(self, dims: tuple[int, ...], seed: int = 0) -> Factors:
        """Return the factors of sizes `dims`; `seed` is ignored."""
        sizes = _check_sizes(dims)
        factors = []
        for n_in, n_out in pairwise(sizes):
            W = np.full((n_out, n_in), self.alpha / self.m)  # alpha / inf is 0
            np.fill_diagonal(W[: min(n_in, n_out)], self.alpha)
            factors.append(W)
        return tuple(factors)


@dataclass(frozen=True)
class Gaussian:
    r"""Independent Gaussian factors, all entries of all factors with one variance.

    Parameters
    ----------
    init_scale : float
        Root mean square, over draws, of the Frobenius norm of the end-to-end matrix:
        E‖W_L ··· W_1‖_F² = init_scale² exactly, for every chain of sizes.

    Notes
    -----
    The entry variance is v = (init_scale² / Π_{l=0..L} d_l)^{1/L}. For n × n factors the common
    choice of a standard deviation alpha^{1/L} / √n is init_scale = alpha √n. A single draw
    scatters about the mean, the more so the deeper and narrower the chain.
    """

    init_scale: float

    def __post_init__(self) -> None:
        _check_scale(self.init_scale)

    def __call__(self, dims: tuple[int, ...], seed: int = 0) -> Factors:
        """Return the factors of sizes `dims` drawn from the stream "init" of `seed`."""
        sizes = _check_sizes(dims)
        std = _entry_std(self.init_scale, sizes)
        rng = generator(seed, "init")
        return tuple(std * rng.standard_normal((n_out, n_in)) for n_in, n_out in pairwise(sizes))


@dataclass(frozen=True)
class TiedGaussian:
    r"""One Gaussian draw used for every factor; square factors of one size only.

    Parameters
    ----------
    init_scale : float
        The entries have the standard deviation that `Gaussian` gives them. As the factors are not
        independent, E‖W^L‖_F² = init_scale² holds only as the size d grows: at depth 2 the
        expectation is init_scale² (1 + 2/d²).

    Notes
    -----
    A start of measure zero: all factors equal, and in general not balanced, as W is not normal.
    It is what the authors' matrix completion script does: a standard deviation of
    alpha^{1/L} / √n there is init_scale = alpha √n here.
    """

    init_scale: float

    def __post_init__(self) -> None:
        _check_scale(self.init_scale)

    def __call__(self, dims: tuple[int, ...], seed: int = 0) -> Factors:
        """Return equal factors of sizes `dims` drawn from the stream "init" of `seed`."""
        sizes = _check_sizes(dims)
        if len(set(sizes)) > 1:
            raise DepthrankError(
                f"TiedGaussian got dims {sizes}; all factors are the same matrix, so all sizes "
                "must be equal. Use Gaussian for rectangular chains."
            )
        std = _entry_std(self.init_scale, sizes)
        W = std * generator(seed, "init").standard_normal((sizes[1], sizes[0]))
        return tuple(W.copy() for _ in sizes[1:])


@dataclass(frozen=True)
class Identity:
    r"""Every factor is the same multiple of the (rectangular) identity.

    Parameters
    ----------
    init_scale : float
        Frobenius norm of the end-to-end matrix, exact: its min(dims) non-zero singular values
        are all init_scale / √min(dims).

    Notes
    -----
    Exactly balanced when all sizes are equal, and more generally when only the two end sizes
    differ from a common hidden size that is not larger than either. Diagonal factors stay
    decoupled on matching patterns at every depth. Nothing is random; the seed is ignored.
    """

    init_scale: float

    def __post_init__(self) -> None:
        _check_scale(self.init_scale)

    def __call__(self, dims: tuple[int, ...], seed: int = 0) -> Factors:
        """Return the factors of sizes `dims`; `seed` is ignored."""
        sizes = _check_sizes(dims)
        value = (self.init_scale / math.sqrt(min(sizes))) ** (1 / (len(sizes) - 1))
        return tuple(value * np.eye(n_out, n_in) for n_in, n_out in pairwise(sizes))


@dataclass(frozen=True)
class Orthogonal:
    r"""Independent Haar-distributed (semi-)orthogonal factors, times one common number.

    Parameters
    ----------
    init_scale : float
        Frobenius norm of the end-to-end matrix, exact for every draw and every chain.

    Notes
    -----
    Factor W_l is c Q_l, where Q_l has orthonormal columns (rows >= columns) or orthonormal rows,
    uniformly distributed, and c = (init_scale / ‖Q_L ··· Q_1‖_F)^{1/L}. If the sizes first do not
    increase and then do not decrease, as with the default width min(m, n), the product is a partial
    isometry: its min(dims) non-zero singular values are all equal and c is the same for every draw.
    In other chains (a hidden layer wider than both of its sides) they are unequal. Square chains
    are exactly balanced.
    """

    init_scale: float

    def __post_init__(self) -> None:
        _check_scale(self.init_scale)

    def __call__(self, dims: tuple[int, ...], seed: int = 0) -> Factors:
        """Return the factors of sizes `dims` drawn from the stream "init" of `seed`."""
        sizes = _check_sizes(dims)
        rng = generator(seed, "init")
        frames = [_haar(rng, n_out, n_in) for n_in, n_out in pairwise(sizes)]
        product = frames[0]
        for Q in frames[1:]:
            product = Q @ product
        norm = float(np.linalg.norm(product))
        c = (self.init_scale / norm) ** (1 / len(frames))
        return tuple(c * Q for Q in frames)


def _haar(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Return a uniformly distributed matrix with orthonormal columns (or rows, if it is wide)."""
    Q, R = np.linalg.qr(rng.standard_normal((max(rows, columns), min(rows, columns))))
    # LAPACK fixes the signs of R in its own way; only a positive diagonal gives the Haar measure.
    Q = Q * np.where(np.diag(R) < 0, -1.0, 1.0)
    return Q if rows >= columns else np.ascontiguousarray(Q.T)


@dataclass(frozen=True, eq=False)
class Balanced:
    r"""Balanced factors of a given matrix: its singular value decomposition, split evenly.

    Parameters
    ----------
    matrix : array_like
        The end-to-end matrix X = U S Vᵀ, m × n, finite. It is copied.

    Notes
    -----
    W_1 = S^{1/L} Vᵀ, W_l = S^{1/L}, W_L = U S^{1/L}, padded with zeros to the hidden widths: the
    product is X and the imbalance 0, both to rounding. At depth 1 the factor is X itself. The
    end-to-end size is that of X. Singular values below max(m, n)·eps·s_1 are rounding and are
    dropped where a hidden width is too small for them. Directions in which X is zero start at zero
    and stay there at depth >= 2 (the rank of a balanced flow cannot grow); add a small Gaussian
    where it should. Nothing is random; the seed is ignored.
    """

    matrix: np.ndarray

    def __post_init__(self) -> None:
        X = np.array(self.matrix, dtype=np.float64)
        if X.ndim != 2 or 0 in X.shape:
            raise DepthrankError(f"matrix has shape {X.shape}; it must be a non-empty matrix.")
        bad = np.argwhere(~np.isfinite(X))
        if bad.size:
            i, j = (int(k) for k in bad[0])
            raise DepthrankError(
                f"matrix holds {X[i, j]} at row {i}, column {j}; every entry must be finite."
            )
        X.flags.writeable = False
        object.__setattr__(self, "matrix", X)

    def __call__(self, dims: tuple[int, ...], seed: int = 0) -> Factors:
        """Return the factors of sizes `dims`; `seed` is ignored.

        Raises
        ------
        DepthrankError
            If `dims` does not end in the matrix's sizes, or a hidden width is below its rank.
        """
        sizes = _check_sizes(dims)
        m, n = self.matrix.shape
        if (sizes[-1], sizes[0]) != (m, n):
            raise DepthrankError(
                f"dims {sizes} give an end-to-end matrix of shape {(sizes[-1], sizes[0])}; the "
                f"matrix to split has shape {(m, n)}."
            )
        depth = len(sizes) - 1
        if depth == 1:
            return (self.matrix.copy(),)
        U, s, Vt = np.linalg.svd(self.matrix, full_matrices=False)
        rank = int(np.sum(s > max(m, n) * np.finfo(np.float64).eps * s[0]))
        narrowest = min(sizes[1:-1])
        if narrowest < rank:
            raise DepthrankError(
                f"the narrowest hidden width is {narrowest}; the matrix has rank {rank}. Give "
                f"hidden widths >= {rank}, or a matrix of lower rank."
            )
        k = min(*sizes[1:-1], len(s))
        root = s[:k] ** (1 / depth)
        factors = [np.zeros((out, into)) for into, out in pairwise(sizes)]
        factors[0][:k] = root[:, None] * Vt[:k]
        factors[-1][:, :k] = U[:, :k] * root
        for W in factors[1:-1]:
            W[np.arange(k), np.arange(k)] = root
        return tuple(factors)


# The starts that `init_scale` alone describes, by the names of the command line and of sweeps.
SCALED: dict[str, Callable[..., Start]] = {
    "gaussian": Gaussian,
    "tied-gaussian": TiedGaussian,
    "identity": Identity,
    "orthogonal": Orthogonal,
}


def default_scale(values: np.ndarray) -> float:
    """Return the `init_scale` where none is given: a thousandth of the norm of what is observed."""
    return 1e-3 * (float(np.linalg.norm(values)) or 1.0)
