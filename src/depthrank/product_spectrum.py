"""Singular values of a product of factors, each to its own relative precision.

Multiplying the factors out rounds every singular value to the precision of the largest one. Deep
factors make spectra that fall over many decades (sigma_2 / sigma_1 of 1e-11 is ordinary), so the
small values are taken from the factors themselves: QR sweeps through the chain turn the product
into nearly diagonal triangular form, in which groups of very different size no longer mix, and
each group is decomposed on its own.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import scipy.linalg

from depthrank.factors import end_to_end
from depthrank.spectra import singular_values

_TRUSTED = 1e-6  # above this ratio to the largest value, the product itself is precise enough
_GAP = 1e-3  # neighbouring values further apart than this end a group
_COUPLING = 1e-6  # of the larger group: what is left of the mixing moves small values by 1e-12
_SWEEPS = 4  # each multiplies the mixing of two groups by their ratio


def product_singular_values(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Return the singular values of W_L ... W_1, descending.

    Parameters
    ----------
    factors : sequence of float arrays
        (W_1, ..., W_L), W_l of shape [..., d_l, d_{l-1}].

    Returns
    -------
    float array [..., min(m, n)]
        Small values keep the relative precision of the factors as long as neighbouring groups
        are a factor of 1000 or more apart; otherwise as `spectra.singular_values`.

    Notes
    -----
    **Label.** Numerical. A value below the precision of a factor itself (about 1e-16 of that
    factor's largest singular value, to the power of the depth) is noise here too.
    """
    product = end_to_end(factors)
    values = np.array(singular_values(product))
    # The product alone is precise enough for most members of a stack.
    graded = (values[..., -1] <= _TRUSTED * values[..., 0]) & (values[..., 0] > 0)
    if len(factors) > 1 and graded.any():
        chain = [np.asarray(factor, float)[graded] for factor in factors]
        values[graded] = _graded(chain, product[graded], values[graded])
    return values


def _graded(chain: list[np.ndarray], product: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """Return the singular values of a stack [k, ., .] of products with small ones among them."""
    # Columns in the order of a pivoted decomposition start the sweeps graded, large before small.
    order = [scipy.linalg.qr(member, mode="r", pivoting=True)[1] for member in product]
    chain[0] = np.take_along_axis(chain[0], np.array(order)[:, None, :], axis=2)
    for _ in range(_SWEEPS):
        chain = _sweep(chain)
    triangle = end_to_end(chain)
    values = plain.copy()
    patterns, which = np.unique(_cuts(triangle), axis=0, return_inverse=True)
    for index, cuts in enumerate(patterns):
        members = which.ravel() == index
        if cuts.any():
            edges = [0, *(np.flatnonzero(cuts) + 1), min(triangle.shape[1:])]
            groups = [triangle[members, a:b, a:b] for a, b in pairwise(edges)]
            found = np.concatenate([np.asarray(singular_values(g)) for g in groups], axis=1)
            # Hidden widths below min(m, n) leave a smaller triangle; other values are zero.
            values[members] = 0.0
            values[members, : found.shape[1]] = np.sort(found, axis=1)[:, ::-1]
    return values


def _sweep(chain: list[np.ndarray]) -> list[np.ndarray]:
    """Return triangular factors of the transposed product, up to an orthogonal factor."""
    triangles: list[np.ndarray] = []
    turn: np.ndarray | None = None
    for factor in chain:
        turn, triangle = np.linalg.qr(factor if turn is None else factor @ turn)
        triangles.append(triangle)
    return [np.swapaxes(triangle, 1, 2) for triangle in reversed(triangles)]


def _cuts(triangle: np.ndarray) -> np.ndarray:
    """Return after which rows, [k, size - 1], a stack falls into groups that no longer mix.

    A coupling C between a group of values near a and one far below moves the small values by
    (C / a)^2 relative: both the gap and the smallness of C are checked.
    """
    magnitude = np.abs(triangle)
    size = np.diagonal(magnitude, axis1=1, axis2=2)
    above = np.minimum.accumulate(size, axis=1)[:, :-1]
    below = np.maximum.accumulate(size[:, ::-1], axis=1)[:, ::-1][:, 1:]
    before = np.arange(size.shape[1] - 1)
    coupling = np.maximum(
        _running_maximum(magnitude)[:, before, before + 1],
        _running_maximum(np.swapaxes(magnitude, 1, 2))[:, before, before + 1],
    )
    return (below < _GAP * above) & (coupling < _COUPLING * above)


def _running_maximum(magnitude: np.ndarray) -> np.ndarray:
    """Return at [., i, j] the maximum over rows up to i and columns from j on."""
    rows = np.maximum.accumulate(magnitude, axis=1)
    return np.maximum.accumulate(rows[:, :, ::-1], axis=2)[:, :, ::-1]
