"""Numbers from whatever holds them: array-likes, plain objects, text."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depthrank.errors import DepthrankError


def as_dense(X: Any) -> NDArray[np.float64]:
    """Return a two-dimensional array as a float64 copy; None and masked cells become NaN."""
    hidden = None
    if isinstance(X, np.ma.MaskedArray):
        hidden, X = np.ma.getmaskarray(X), X.data
    try:
        array = np.asarray(X)
    except ValueError:
        raise DepthrankError("the rows differ in length; every row needs as many cells.") from None
    if array.ndim != 2 or array.size == 0:
        raise DepthrankError(
            f"the input has shape {array.shape}; it must be two-dimensional with at least one "
            "row and one column. A single row is [[1, 2, 3]], a single column [[1], [2], [3]]."
        )
    dense = as_real(array)
    if hidden is not None:
        dense[hidden] = np.nan
    return dense


def as_real(values: Any) -> NDArray[np.float64]:
    """Return numbers of any shape as a float64 copy; refuse text (unless numeric) and complex."""
    array = np.asarray(values)
    if array.dtype.kind in "biuf":
        return np.array(array, dtype=np.float64)
    if array.dtype.kind not in "OUS":
        raise DepthrankError(f"the values are of type {array.dtype}; they must be real numbers.")
    numbers = np.empty(array.shape)
    for cell in np.ndindex(array.shape):
        where = ", ".join(f"{axis} {i}" for axis, i in zip(("row", "column"), cell, strict=False))
        numbers[cell] = as_number(array[cell], where if array.ndim == 2 else f"entry {cell[0]}")
    return numbers


def objects_as_numbers(items: Sequence[Any], column: str) -> NDArray[np.float64]:
    """Convert the plain objects of a column, named in the error, to float64."""
    return np.array([as_number(x, f"{column}, row {i}") for i, x in enumerate(items)], np.float64)


def as_number(item: Any, where: str) -> float:
    """Convert one object: None and its like are NaN, numeric text is read, other text refused."""
    if is_missing(item):
        return float("nan")
    if isinstance(item, int | float | np.integer | np.floating | np.bool_ | Decimal | Fraction):
        return float(item)
    # float() would also read "1_000".
    if isinstance(item, str) and "_" not in item:
        try:
            return float(item)
        except ValueError:
            pass
    raise DepthrankError(
        f"{where}: {item!r} is not a number. Drop or select columns so that only numbers are "
        "left; if that column holds the row labels, name it with rows=."
    )


def is_missing(item: object) -> bool:
    """Tell whether an object stands for a missing value: None, NaN, NaT, pandas' NA."""
    if item is None or type(item).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(item, float | np.floating | np.datetime64) and bool(item != item)


def without_marked(values: NDArray[np.float64], missing: Any) -> NDArray[np.float64]:
    """Return the values with every one that marks a missing cell set to NaN."""
    markers = as_real(np.atleast_1d(missing))
    markers = markers[~np.isnan(markers)]
    return np.where(np.isin(values, markers), np.nan, values) if markers.size else values
