"""Singular values of a product of factors, each to its own relative precision.

Multiplying the factors out rounds every singular value to the precision of the largest one. Deep
factors make spectra that fall over many decades (sigma_2 / sigma_1 of 1e-11 is ordinary), so the
small values are taken from the factors themselves: QR sweeps through the chain turn the product
into nearly diagonal triangular form, in which groups of very different size no longer mix, and
each group is decomposed on its own.
"""

from collections.abc import Sequence

import numpy as np

from depthrank.spectra import singular_values

_TRUSTED = 1e-6  # above this ratio to the largest value, the product itself is precise enough
_GAP = 1e-3  # neighbouring values further apart than this end a group
_SWEEPS = 3  # each multiplies the mixing of two groups by the square of their ratio


def product_singular_values(factors: Sequence[np.ndarray]) -> np.ndarray:
    """Return the singular values of W_L ... W_1, descending.

    Parameters
    ----------
    factors : sequence of float arrays
        (W_1, ..., W_L), W_l of shape d_l x d_{l-1}.

    Returns
    -------
    float array [min(m, n)]
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
    plain = np.asarray(singular_values(product))
    if len(factors) == 1 or plain[0] == 0 or plain[-1] > _TRUSTED * plain[0]:
        return plain
    chain = [np.asarray(factor, float) for factor in factors]
    for _ in range(_SWEEPS):
        chain = _sweep(chain)
    triangle = chain[0]
    for factor in chain[1:]:
        triangle = factor @ triangle
    size = np.abs(np.diagonal(triangle))
    values = np.concatenate(
        [
            np.asarray(singular_values(triangle[group][:, group]))
            for group in _groups(size)
            if group.size
        ]
    )
    values = np.sort(values)[::-1]
    padded = np.zeros_like(plain)
    padded[: len(values)] = values[: len(plain)]
    return padded


def _sweep(chain: list[np.ndarray]) -> list[np.ndarray]:
    """Return triangular factors of the transposed product, up to an orthogonal factor."""
    triangles: list[np.ndarray] = []
    turn: np.ndarray | None = None
    for factor in chain:
        turn, triangle = np.linalg.qr(factor if turn is None else factor @ turn)
        triangles.append(triangle)
    return [triangle.T for triangle in reversed(triangles)]


def _groups(size: np.ndarray) -> list[np.ndarray]:
    """Return index groups of the diagonal whose sizes are within the gap of a neighbour."""
    order = np.argsort(size)[::-1]
    ordered = size[order]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(ordered[:-1] > 0, ordered[1:] / ordered[:-1], 1.0)
    return np.split(order, np.flatnonzero(ratio < _GAP) + 1)
