"""Rank measures: soft and hard counts of the directions a matrix uses.

Every measure comes in two forms: ``stable_rank(X)`` takes matrices [..., m, n], and
``stable_rank_of(s)`` takes singular values [..., k] that are already there. Leading axes are batch
axes. NumPy, JAX and PyTorch arrays give results of the same kind; lists and other array-likes give
NumPy. Conventions shared by all:

- Matrices are divided by their largest entry before the decomposition and singular values by s_1
  before any power, so that no scale between 1e-300 and 1e300 over- or underflows.
- The zero matrix gives 0 on every measure, without a warning.
- NaN and infinity are errors that say where. Inside a JAX transformation values cannot be looked
  at: there NaN comes out as NaN (as -1 from `numerical_rank`, which is an integer).
- Integers and booleans are promoted to float64 (the default floating type in JAX), half precision
  to float32; complex numbers and vectors are refused.
"""

import math
from typing import Any

import array_api_compat
import numpy as np

from depthrank.arrays import Array, is_traced, promoted, real_array
from depthrank.errors import DepthrankError

__all__ = [
    "condition_number",
    "condition_number_of",
    "default_tolerance",
    "effective_rank",
    "effective_rank_of",
    "nuclear_norm",
    "nuclear_norm_of",
    "nuclear_rank",
    "nuclear_rank_of",
    "numerical_rank",
    "numerical_rank_of",
    "participation_ratio",
    "participation_ratio_of",
    "schatten_norm",
    "schatten_norm_of",
    "singular_values",
    "spectral_gap",
    "spectral_gap_of",
    "stable_rank",
    "stable_rank_of",
]


def _decompose(X: Any) -> tuple[Array, Array, Any]:
    """Return singular values of X divided by its largest entry, that entry, and the namespace."""
    X, xp = real_array(X, 2, "the matrix")
    scale = xp.max(xp.abs(X), axis=(-2, -1))
    safe = xp.where(scale == 0, xp.ones_like(scale), scale)
    return xp.linalg.svdvals(X / safe[..., None, None]), scale, xp


def _relative(s: Any) -> tuple[Array, Array, Any]:
    """Return singular values divided by the largest one (zeros stay zeros), that one, namespace."""
    s, xp = real_array(s, 1, "the list of singular values")
    top = xp.max(s, axis=-1)
    return s / xp.where(top == 0, xp.ones_like(top), top)[..., None], top, xp


def _plain(value: Array) -> Array:
    """Return NumPy's zero-dimensional arrays, which `where` gives, as scalars like its sums."""
    return value[()] if value.ndim == 0 else value


def singular_values(X: Any) -> Array:
    """Return the singular values, descending.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.

    Returns
    -------
    array [..., min(m, n)]
        In the unit of X.

    Raises
    ------
    DepthrankError
        If X is a vector, empty, complex, or holds NaN or infinity.
    """
    s, scale, _ = _decompose(X)
    return s * scale[..., None]


def stable_rank_of(s: Any) -> Array:
    """Return Σ s_i² / s_1²; see `stable_rank`."""
    r, _, xp = _relative(s)
    return xp.sum(r * r, axis=-1)


def stable_rank(X: Any) -> Array:
    """Return the stable rank ‖X‖_F² / ‖X‖_2².

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.

    Returns
    -------
    array [...]
        Between 1 and rank X; 0 for the zero matrix.

    Raises
    ------
    DepthrankError
        As `singular_values`.

    Examples
    --------
    >>> round(float(stable_rank([[3.0, 0.0], [0.0, 1.0]])), 6)
    1.111111
    """
    return stable_rank_of(_decompose(X)[0])


def nuclear_rank_of(s: Any) -> Array:
    """Return Σ s_i / s_1; see `nuclear_rank`."""
    r, _, xp = _relative(s)
    return xp.sum(r, axis=-1)


def nuclear_rank(X: Any) -> Array:
    """Return ‖X‖_* / ‖X‖_2, the nuclear norm over the spectral norm.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.

    Returns
    -------
    array [...]
        Between 1 and rank X; 0 for the zero matrix. Never below the stable rank.

    Raises
    ------
    DepthrankError
        As `singular_values`.
    """
    return nuclear_rank_of(_decompose(X)[0])


def effective_rank_of(s: Any, power: float = 1) -> Array:
    """Return exp of the entropy of p_i = s_i^power / Σ s^power; see `effective_rank`."""
    if not 0 < power < math.inf:
        raise DepthrankError(f"power is {power!r}; it must be 1, 2 or another finite number > 0.")
    r, top, xp = _relative(s)
    weights = r if power == 1 else r**power
    total = xp.sum(weights, axis=-1)
    p = weights / xp.where(total == 0, xp.ones_like(total), total)[..., None]
    # p log p tends to 0 with p, so that no epsilon is needed inside the logarithm
    entropy = -xp.sum(p * xp.log(xp.where(p == 0, xp.ones_like(p), p)), axis=-1)
    return _plain(xp.where(top == 0, xp.zeros_like(top), xp.exp(entropy)))


def effective_rank(X: Any, power: float = 1) -> Array:
    """Return the effective rank: exp of the entropy (base e) of the normalised spectrum.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.
    power : float
        p_i = s_i^power / Σ s^power. 1 is Roy and Vetterli's definition and the paper's for matrix
        completion; 2 weighs by energy, the paper's choice for networks.

    Returns
    -------
    array [...]
        Between 1 and rank X; 0 for the zero matrix.

    Raises
    ------
    DepthrankError
        As `singular_values`, and if `power` is not a positive number.

    Examples
    --------
    >>> [round(float(effective_rank([[3.0, 0.0], [0.0, 1.0]], power)), 6) for power in (1, 2)]
    [1.754765, 1.384145]
    """
    return effective_rank_of(_decompose(X)[0], power)


def default_tolerance(X: Any) -> float:
    """Return the relative tolerance that `numerical_rank` uses for X: max(m, n)·eps.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices; eps is that of their floating type after promotion.

    Returns
    -------
    float
        Relative to the largest singular value.
    """
    if isinstance(X, np.ma.MaskedArray) or not array_api_compat.is_array_api_obj(X):
        X = np.asarray(X)
    if X.ndim < 2:
        raise DepthrankError(f"the matrix has shape {tuple(X.shape)}; it must have two axes.")
    xp = array_api_compat.array_namespace(X)
    eps = xp.finfo(promoted(X[..., :1, :1], xp, "the matrix").dtype).eps
    return max(X.shape[-2:]) * float(eps)


def numerical_rank_of(s: Any, tol: float) -> Array:
    """Count the singular values above tol·s_1; see `numerical_rank`."""
    if not 0 <= tol < 1:
        raise DepthrankError(f"tol is {tol!r}; it is relative to s_1 and must be in [0, 1).")
    r, top, xp = _relative(s)
    count = xp.count_nonzero(r > tol, axis=-1)
    return xp.where(xp.isnan(top), -xp.ones_like(count), count) if is_traced(s) else count


def numerical_rank(X: Any, tol: float | None = None) -> Array:
    """Return the number of singular values above tol·s_1.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.
    tol : float, optional
        Relative to the largest singular value, in [0, 1). By default max(m, n)·eps with the eps of
        the floating type of X (`default_tolerance`); half precision counts as float32.

    Returns
    -------
    integer array [...]
        0 for the zero matrix.

    Raises
    ------
    DepthrankError
        As `singular_values`, and if `tol` is outside [0, 1).
    """
    tol = default_tolerance(X) if tol is None else tol
    return numerical_rank_of(_decompose(X)[0], tol)


def schatten_norm_of(s: Any, p: float) -> Array:
    """Return (Σ s_i^p)^{1/p}; see `schatten_norm`."""
    if not p > 0:
        raise DepthrankError(f"p is {p!r}; it must be a number > 0, or inf.")
    r, top, xp = _relative(s)
    if p == math.inf:
        return top
    return top * xp.sum(r if p == 1 else r**p, axis=-1) ** (1 / p)


def schatten_norm(X: Any, p: float) -> Array:
    """Return the Schatten-p norm (Σ s_i^p)^{1/p}.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.
    p : float
        > 0. 1 is the nuclear norm, 2 the Frobenius norm, inf the spectral norm; below 1 it is a
        quasi-norm. Weight decay on L factors penalises the product by its power at p = 2/L.

    Returns
    -------
    array [...]
        In the unit of X; 0 for the zero matrix.

    Raises
    ------
    DepthrankError
        As `singular_values`, and if `p` is not > 0.
    """
    s, scale, _ = _decompose(X)
    return schatten_norm_of(s, p) * scale


def nuclear_norm_of(s: Any) -> Array:
    """Return Σ s_i; see `nuclear_norm`."""
    return schatten_norm_of(s, 1)


def nuclear_norm(X: Any) -> Array:
    """Return the nuclear norm Σ s_i, the Schatten norm at p = 1.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.

    Returns
    -------
    array [...]
        In the unit of X.

    Raises
    ------
    DepthrankError
        As `singular_values`.
    """
    return schatten_norm(X, 1)


def participation_ratio_of(s: Any) -> Array:
    """Return (Σ s_i²)² / Σ s_i⁴; see `participation_ratio`."""
    r, top, xp = _relative(s)
    energy = r * r
    fourth = xp.sum(energy * energy, axis=-1)
    return xp.sum(energy, axis=-1) ** 2 / xp.where(top == 0, xp.ones_like(top), fourth)


def participation_ratio(X: Any) -> Array:
    """Return the participation ratio (Σ s_i²)² / Σ s_i⁴.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.

    Returns
    -------
    array [...]
        Of the eigenvalues of XᵀX; between 1 and rank X, 0 for the zero matrix.

    Raises
    ------
    DepthrankError
        As `singular_values`.
    """
    return participation_ratio_of(_decompose(X)[0])


def spectral_gap_of(s: Any) -> Array:
    """Return (s_1 − s_2) / s_1 from descending singular values; see `spectral_gap`."""
    r, _, _ = _relative(s)
    return r[..., 0] - r[..., 1] if r.shape[-1] > 1 else r[..., 0]


def spectral_gap(X: Any) -> Array:
    """Return the relative spectral gap (s_1 − s_2) / s_1.

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.

    Returns
    -------
    array [...]
        In [0, 1]: 1 for rank one (and for one row or column), 0 for a repeated s_1 and for the
        zero matrix.

    Raises
    ------
    DepthrankError
        As `singular_values`.
    """
    return spectral_gap_of(_decompose(X)[0])


def condition_number_of(s: Any) -> Array:
    """Return s_1 / s_k from descending singular values; see `condition_number`."""
    r, top, xp = _relative(s)
    last = r[..., -1]
    # below the smallest normal number the quotient would overflow, with a warning
    singular = last < xp.finfo(r.dtype).smallest_normal
    one = xp.ones_like(last)
    quotient = xp.where(singular, one * math.inf, one / xp.where(singular, one, last))
    return _plain(xp.where(top == 0, xp.zeros_like(top), quotient))


def condition_number(X: Any) -> Array:
    """Return the condition number s_1 / s_k, k = min(m, n).

    Parameters
    ----------
    X : array_like [..., m, n]
        Matrices, finite.

    Returns
    -------
    array [...]
        >= 1; inf where s_k is 0 (rounding often leaves it near 1/eps instead); 0 for the zero
        matrix, as on every measure here.

    Raises
    ------
    DepthrankError
        As `singular_values`.
    """
    return condition_number_of(_decompose(X)[0])
