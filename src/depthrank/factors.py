"""The factors of a deep matrix factorisation: shapes, product, balance.

A matrix W of shape m × n is written as W_L ··· W_1. `factors` is the tuple (W_1, ..., W_L): W_1
acts first and is d_1 × n, W_L is m × d_{L-1}. `dims` is (n, d_1, ..., d_{L-1}, m), so that W_l has
shape dims[l] × dims[l-1].
"""

from collections.abc import Sequence
from itertools import pairwise
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np

from depthrank.errors import DepthrankError

__all__ = ["Factors", "check_dims", "check_factors", "dims", "end_to_end", "imbalance", "widths"]

Factors: TypeAlias = tuple[np.ndarray, ...]


def _positive(value: Any, name: str) -> int:
    """Return a positive integer, or say what is wrong with it."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < 1:
        raise DepthrankError(f"{name} is {value!r}; it must be an integer >= 1.")
    return int(value)


def dims(
    shape: tuple[int, int], depth: int, width: int | Sequence[int] | np.ndarray | None = None
) -> tuple[int, ...]:
    """Return the sizes (n, d_1, ..., d_{L-1}, m) of a chain of factors.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n) of the end-to-end matrix.
    depth : int
        Number of factors L, >= 1.
    width : int or sequence of int, optional
        Hidden sizes: one for all, or d_1, ..., d_{L-1}. By default min(m, n), the smallest width
        that restricts no rank. Ignored at depth 1, where nothing is hidden.

    Returns
    -------
    tuple of int
        L + 1 sizes, from the input side to the output side.

    Raises
    ------
    DepthrankError
        If a size is not a positive integer, or `width` has not depth - 1 entries.

    Examples
    --------
    >>> dims((7, 5), depth=3)
    (5, 5, 5, 7)
    >>> dims((7, 5), depth=3, width=(6, 4))
    (5, 6, 4, 7)
    """
    if len(shape) != 2:
        raise DepthrankError(f"shape is {shape!r}; it must be (rows, columns).")
    m, n = _positive(shape[0], "shape[0]"), _positive(shape[1], "shape[1]")
    depth = _positive(depth, "depth")
    if width is None:
        hidden: tuple[int, ...] = (min(m, n),) * (depth - 1)
    elif isinstance(width, Sequence | np.ndarray):
        if len(width) != depth - 1:
            raise DepthrankError(
                f"width has {len(width)} entries; depth {depth} has {depth - 1} hidden widths "
                "(or give one integer for all of them)."
            )
        hidden = tuple(_positive(w, f"width[{i}]") for i, w in enumerate(width))
    else:
        hidden = (_positive(width, "width"),) * (depth - 1)
    return (n, *hidden, m)


def check_dims(sizes: Sequence[int] | np.ndarray) -> tuple[int, ...]:
    """Return `sizes` as a tuple of ints, at least two, all positive.

    Parameters
    ----------
    sizes : sequence of int
        (n, d_1, ..., d_{L-1}, m), as `dims` returns it.

    Returns
    -------
    tuple of int
        The same sizes.

    Raises
    ------
    DepthrankError
        If there are fewer than two sizes, or one is not a positive integer.
    """
    if not isinstance(sizes, Sequence | np.ndarray) or len(sizes) < 2:
        raise DepthrankError(
            f"dims is {sizes!r}; it must be (n, d_1, ..., d_(L-1), m), at least (n, m)."
        )
    return tuple(_positive(size, f"dims[{i}]") for i, size in enumerate(sizes))


def check_factors(factors: Sequence[Any], shape: tuple[int, int] | None = None) -> Factors:
    """Check that `factors` is a chain and return it as NumPy arrays.

    Parameters
    ----------
    factors : sequence of array_like
        (W_1, ..., W_L), W_1 first. Integers become float64; floating types are kept.
    shape : (int, int), optional
        Shape (m, n) that the product must have.

    Returns
    -------
    tuple of ndarray
        Two-dimensional, finite, all of one floating type.

    Raises
    ------
    DepthrankError
        If the tuple is empty, a factor is not a finite real matrix, neighbouring sizes do not
        meet, or the product has another shape than `shape`.
    """
    if isinstance(factors, np.ndarray) and factors.ndim == 2:
        raise DepthrankError(
            f"factors is one matrix of shape {factors.shape}; give a tuple (W_1, ..., W_L), "
            "for depth 1 (W,)."
        )
    if len(factors) == 0:
        raise DepthrankError("factors is empty; it must hold at least one matrix.")
    arrays = [np.asarray(W) for W in factors]
    for position, W in enumerate(arrays, start=1):
        _check_one(W, position)
    for position in range(1, len(arrays)):
        above, below = arrays[position], arrays[position - 1]
        if above.shape[1] != below.shape[0]:
            raise DepthrankError(
                f"factor W_{position + 1} has shape {above.shape} and W_{position} has shape "
                f"{below.shape}; the columns of the one must be the rows of the other. "
                "W_1 acts first: W = W_L ... W_1."
            )
    product_shape = (arrays[-1].shape[0], arrays[0].shape[1])
    if shape is not None and product_shape != tuple(shape):
        raise DepthrankError(
            f"the factors multiply to shape {product_shape}; the matrix has shape {tuple(shape)}. "
            "W_1 acts first: its columns are the matrix's columns."
        )
    integers = all(W.dtype.kind in "biu" for W in arrays)
    dtype = np.dtype(np.float64) if integers else np.result_type(*arrays)
    return tuple(W.astype(dtype, copy=False) for W in arrays)


def _check_one(W: np.ndarray, position: int) -> None:
    """Refuse a factor that is not a finite, real, non-empty matrix."""
    name = f"factor W_{position}"
    if W.ndim != 2 or 0 in W.shape:
        raise DepthrankError(f"{name} has shape {W.shape}; it must be a non-empty matrix.")
    if W.dtype.kind not in "biuf":
        raise DepthrankError(f"{name} has dtype {W.dtype}; it must hold real numbers.")
    bad = ~np.isfinite(W)
    if bad.any():
        i, j = (int(k) for k in np.argwhere(bad)[0])
        raise DepthrankError(
            f"{name} holds {W[i, j]} at row {i}, column {j}; every entry must be finite."
        )


def end_to_end(factors: Sequence[Any]) -> Any:
    """Return the product W_L ··· W_1.

    Parameters
    ----------
    factors : sequence of arrays
        (W_1, ..., W_L). NumPy, JAX or PyTorch; leading axes are batch axes.

    Returns
    -------
    array
        Shape [..., m, n], of the same kind. At depth 1 it is W_1 itself.

    Examples
    --------
    >>> end_to_end((np.array([[1.0, 2.0]]), np.array([[3.0], [4.0]])))
    array([[3., 6.],
           [4., 8.]])
    """
    if len(factors) == 0:
        raise DepthrankError("factors is empty; it must hold at least one matrix.")
    product = factors[0]
    for W in factors[1:]:
        product = W @ product
    return product


def widths(factors: Sequence[Any]) -> tuple[int, ...]:
    """Return the sizes (n, d_1, ..., d_{L-1}, m) of given factors.

    Parameters
    ----------
    factors : sequence of arrays
        (W_1, ..., W_L).

    Returns
    -------
    tuple of int
        What `dims` returns for the same chain.
    """
    if len(factors) == 0:
        raise DepthrankError("factors is empty; it must hold at least one matrix.")
    return (int(factors[0].shape[-1]), *(int(W.shape[-2]) for W in factors))


def imbalance(factors: Sequence[Any]) -> float:
    r"""Return max_l ‖W_{l+1}ᵀ W_{l+1} − W_l W_lᵀ‖_F, which gradient flow conserves.

    Parameters
    ----------
    factors : sequence of array_like
        (W_1, ..., W_L), matrices.

    Returns
    -------
    float
        0 for balanced factors and at depth 1. It scales with the square of the factors.

    Notes
    -----
    **Assumes.** No weight decay: with decay λ each difference shrinks as exp(−2 λ t).
    **Source.** Arora, Cohen and Hazan (2018), Theorem 1; theory section 2, fact 1.
    """
    arrays = [np.asarray(W) for W in factors]
    differences = [above.T @ above - below @ below.T for below, above in pairwise(arrays)]
    return max((float(np.linalg.norm(D)) for D in differences), default=0.0)
