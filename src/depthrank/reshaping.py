"""How an array of weights becomes matrices, the same for files and for modules.

A rank measure needs a matrix, and a convolution kernel is none. Which matrix is made of it changes
the numbers several times over, so the choice is named and goes with every result. Each choice gives
a stack [b, m, n]; the spectrum of the layer is that of all b blocks together, which is the spectrum
of the block-diagonal matrix they form. b is 1 unless the convolution is grouped or cut in slices.
"""

import math
from typing import Any

import array_api_compat

from depthrank.errors import DepthrankError

__all__ = ["CONVOLUTIONS", "matrices"]

CONVOLUTIONS = {
    "flatten": "output channels x (input channels x all taps)",
    "slices": "one output x input matrix per tap, their spectra pooled",
    "spatial": "(output channels x first kernel axis) x (input channels x other kernel axes)",
}


def matrices(
    W: Any, *, conv: str = "flatten", out_axis: int = 0, groups: int = 1, transposed: bool = False
) -> Any:
    """Return the matrices that stand for an array of weights.

    Parameters
    ----------
    W : array of two or more axes
        NumPy, JAX or PyTorch; the result is of the same kind (a view where that is possible).
        Axes after the channels are kernel axes.
    conv : {"flatten", "slices", "spatial"}
        What becomes of kernels; see `CONVOLUTIONS`. Plain matrices are taken as they are.
    out_axis : int
        Axis of the output channels: 0 for PyTorch, -1 for Flax and Keras kernels, whose input
        channels stand just before it (for other values: the first of the other axes).
    groups : int
        Groups of a convolution: groups blocks, of output and input channels that see each other.
    transposed : bool
        PyTorch's transposed convolutions store input x output / groups x kernel.

    Returns
    -------
    array [b, m, n]

    Raises
    ------
    DepthrankError
        If `conv` is unknown, `out_axis` is no axis, or the channels do not divide into groups.

    Examples
    --------
    >>> import numpy as np
    >>> [matrices(np.ones((8, 4, 3, 3)), conv=c).shape for c in CONVOLUTIONS]
    [(1, 8, 36), (9, 8, 4), (1, 24, 12)]
    """
    if conv not in CONVOLUTIONS:
        raise DepthrankError(f"conv is {conv!r}; it must be one of {', '.join(CONVOLUTIONS)}.")
    xp = array_api_compat.array_namespace(W)
    if not -W.ndim <= out_axis < W.ndim:
        raise DepthrankError(f"out_axis is {out_axis}; the array has {W.ndim} axes.")
    if W.ndim > 2 and out_axis % W.ndim:
        axes = list(range(W.ndim))
        out = axes.pop(out_axis)
        inner = axes.pop(-1 if out == W.ndim - 1 else 0)
        W = xp.permute_dims(W, (out, inner, *axes))
    first, kernel = W.shape[0], tuple(W.shape[2:])
    if first % groups:
        raise DepthrankError(f"{first} channels do not divide into {groups} groups.")
    blocks = xp.reshape(W, (groups, first // groups, *W.shape[1:]))
    if transposed:
        axes = list(range(blocks.ndim))
        blocks = xp.permute_dims(blocks, (0, 2, 1, *axes[3:]))
    out, inner = blocks.shape[1:3]
    taps = math.prod(kernel)
    if conv == "flatten" or not kernel:
        return xp.reshape(blocks, (groups, out, inner * taps))
    blocks = xp.reshape(blocks, (groups, out, inner, kernel[0], taps // kernel[0]))
    if conv == "slices":
        moved = xp.permute_dims(blocks, (0, 3, 4, 1, 2))
        return xp.reshape(moved, (groups * taps, out, inner))
    moved = xp.permute_dims(blocks, (0, 1, 3, 2, 4))
    return xp.reshape(moved, (groups, out * kernel[0], inner * taps // kernel[0]))
