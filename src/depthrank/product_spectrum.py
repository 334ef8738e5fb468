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
    product = factors[0]
    for factor in factors[1:]:
        product = factor @ product
    values = np.array(singular_values(product))
    # The product alone is precise enough for most members of a stack.
    graded = (values[..., -1] <= _TRUSTED * values[..., 0]) & (values[..., 0] > 0)
    if len(factors) > 1:
        for index in map(tuple, np.argwhere(graded)):
            member = [np.asarray(factor[index]) for factor in factors]
            values[index] = _graded(member, product[index], values[index])
    return values


def _graded(factors: list[np.ndarray], product: np.ndarray, plain: np.ndarray) -> np.ndarray:
    """Return the singular values of one product whose smallest are small."""
    chain = [np.asarray(factor, float) for factor in factors]
    # Columns in the order of a pivoted decomposition start the sweeps graded, large before small.
    chain[0] = chain[0][:, scipy.linalg.qr(product, mode="r", pivoting=True)[1]]
    for _ in range(_SWEEPS):
        chain = _sweep(chain)
    triangle = chain[0]
    for factor in chain[1:]:
        triangle = factor @ triangle
    cuts = _cuts(triangle)
    if not cuts:
        return plain
    edges = [0, *cuts, min(triangle.shape)]
    groups = [triangle[a:b, a:b] for a, b in pairwise(edges)]
    values = np.concatenate([np.asarray(singular_values(group)) for group in groups])
    # Hidden widths below min(m, n) leave a smaller triangle; the other values are exactly zero.
    return np.pad(np.sort(values)[::-1], (0, len(plain) - len(values)))


def _sweep(chain: list[np.ndarray]) -> list[np.ndarray]:
    """Return triangular factors of the transposed product, up to an orthogonal factor."""
    triangles: list[np.ndarray] = []
    turn: np.ndarray | None = None
    for factor in chain:
        turn, triangle = np.linalg.qr(factor if turn is None else factor @ turn)
        triangles.append(triangle)
    return [triangle.T for triangle in reversed(triangles)]


def _cuts(triangle: np.ndarray) -> list[int]:
    """Return where the triangle falls apart into groups that no longer mix.

    A coupling C between a group of values near a and one far below moves the small values by
    (C / a)^2 relative: both the gap and the smallness of C are checked.
    """
    size = np.abs(np.diagonal(triangle))
    cuts = []
    for k in range(1, len(size)):
        above = size[:k].min()
        coupling = max(np.abs(triangle[:k, k:]).max(), np.abs(triangle[k:, :k]).max(initial=0.0))
        if size[k:].max() < _GAP * above and coupling < _COUPLING * above:
            cuts.append(k)
    return cuts
