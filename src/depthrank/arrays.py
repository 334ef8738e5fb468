"""Arrays of any library that follows the array API: NumPy, JAX and PyTorch alike, checked once."""

import math
from typing import Any, TypeAlias

import array_api_compat
import numpy as np

from depthrank.errors import DepthrankError

__all__ = ["Array", "is_traced", "promoted", "real_array"]

Array: TypeAlias = Any  # the standard has no common class; what it supports is checked here


def is_traced(x: Any) -> bool:
    """Tell whether `x` is an abstract value inside a JAX transformation, without importing JAX.

    Parameters
    ----------
    x : object
        Anything.

    Returns
    -------
    bool
        True where the entries cannot be looked at.
    """
    return type(x).__module__.startswith("jax") and any(
        base.__name__ == "Tracer" for base in type(x).__mro__
    )


def real_array(x: Any, ndim: int, what: str) -> tuple[Array, Any]:
    """Check that `x` holds finite real numbers and return it as a floating array.

    Parameters
    ----------
    x : array_like
        NumPy, JAX and PyTorch arrays keep their kind; everything else becomes NumPy.
    ndim : int
        Least number of axes: 2 for matrices, 1 for lists. Further leading axes are batch axes.
    what : str
        The subject of the messages: "the matrix".

    Returns
    -------
    array, namespace
        The array, float32 or float64 (see `promoted`), and its array API namespace.

    Raises
    ------
    DepthrankError
        If there are too few axes or no entries, the numbers are not real, or one is NaN or
        infinite. Traced values are not looked at.
    """
    if isinstance(x, np.ma.MaskedArray):
        x = np.ma.filled(x.astype(np.float64), np.nan)  # a hole is no number: say where it is
    if not array_api_compat.is_array_api_obj(x):
        x = np.asarray(x)
    xp = array_api_compat.array_namespace(x)
    if x.ndim < ndim:
        wanted = "[..., m, n]; write a vector v as v[None, :]" if ndim == 2 else "[..., k]"
        raise DepthrankError(f"{what} has shape {tuple(x.shape)}; it must have shape {wanted}.")
    if 0 in x.shape[-ndim:]:
        raise DepthrankError(f"{what} has shape {tuple(x.shape)}; it must not be empty.")
    x = promoted(x, xp, what)
    if not is_traced(x):
        _check_finite(x, xp, what)
    return x, xp


def promoted(x: Array, xp: Any, what: str) -> Array:
    """Return `x` as float32 or float64, the types that have a singular value decomposition.

    Parameters
    ----------
    x : array
        Booleans and integers become float64 (in JAX its default floating type), shorter floating
        types float32, longer ones float64.
    xp : namespace
        The array API namespace of `x`.
    what : str
        The subject of the message.

    Returns
    -------
    array
        Of the same kind and shape.

    Raises
    ------
    DepthrankError
        If the numbers are complex, or not numbers.
    """
    if array_api_compat.is_numpy_array(x) and x.dtype.kind not in "biuf":
        if not x.dtype.name.startswith(("bfloat16", "float8")):
            raise DepthrankError(f"{what} has dtype {x.dtype}; it must hold real numbers.")
        x = x.astype(np.float32)  # extension types that NumPy itself knows nothing about
    if xp.isdtype(x.dtype, ("bool", "integral")):
        # float64 would warn in JAX where 64-bit types are off
        jax = array_api_compat.is_jax_array(x)
        return xp.astype(x, xp.asarray(0.0).dtype if jax else xp.float64)
    if not xp.isdtype(x.dtype, "real floating"):
        raise DepthrankError(f"{what} has dtype {x.dtype}; it must hold real numbers.")
    bits = xp.finfo(x.dtype).bits
    if bits in (32, 64):
        return x
    return xp.astype(x, xp.float32 if bits < 32 else xp.float64)


def _check_finite(x: Array, xp: Any, what: str) -> None:
    """Refuse NaN and infinity, naming the first one."""
    bad = ~xp.isfinite(x)
    if not bool(xp.any(bad)):
        return
    where = tuple(int(axis[0]) for axis in xp.nonzero(bad))
    value = float(x[where])
    name = "NaN" if math.isnan(value) else f"{value}"
    raise DepthrankError(
        f"{what} holds {name} at {where if len(where) > 1 else where[0]} "
        f"({int(xp.count_nonzero(bad))} of {math.prod(x.shape)} entries are not finite); rank "
        "measures need finite entries."
    )
