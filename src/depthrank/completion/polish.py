"""Least squares at a fixed rank, from a point that a flow or an average has found.

Neither ends exactly on a matrix of low rank. Where the spectrum has a clear gap, the best fit of
that rank is found by alternating least squares, each half-step on an orthonormal basis. It is a
proposal only: the caller accepts it if observed and held-out cells agree with it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from depthrank.completion.averaging import Pattern, summed
from depthrank.graph import Connectivity
from depthrank.observations import Observations

Floats = NDArray[np.float64]

GAP = 5.0
"""Ratio of neighbouring singular values that is taken for the end of the rank."""

MOST = 40  # largest rank that is polished
_SWEEPS = 3000
_RIDGE = 1e-13  # of the squares on orthonormal bases: rows with too few cells stay finite
_EXACT = 1e-14  # relative residual that rounding leaves
_PATIENCE = 20  # sweeps between two looks at the progress


def clear_ranks(s: Floats) -> list[int]:
    """Return the ranks that a clear gap of a spectrum follows, ascending.

    Parameters
    ----------
    s : float64 [k]
        Singular values, descending.
    """
    if not len(s) or s[0] <= 0:
        return []
    floor = 1e-12 * s[0]
    s = s[s > floor]
    ratios = s / np.append(s[1:], floor)
    return [int(k) + 1 for k in np.flatnonzero(ratios[:MOST] >= GAP)]


def leading(left: Floats, right: Floats) -> tuple[Floats, Floats, Floats]:
    """Return u [m, k], s [k], v [n, k] of the product left [m, k] times right [k, n]."""
    q_left, r_left = np.linalg.qr(left)
    q_right, r_right = np.linalg.qr(right.T)
    u, s, vt = np.linalg.svd(r_left @ r_right.T)
    k = len(s)
    return q_left @ u[:, :k], s, q_right @ vt[:k].T


def polish(observations: Observations, u: Floats, v: Floats) -> tuple[Floats, Floats, float]:
    """Return the least squares fit of the rank of `u` [m, r] and `v` [n, r].

    Parameters
    ----------
    observations : Observations
        Prepared cells.
    u, v : float64 [m, r], [n, r]
        Where to start; `v` is what is used.

    Returns
    -------
    (u, v, residual)
        Factors, balanced, and the root mean square residual over that of the cells.

    Notes
    -----
    **Label.** Numerical; a local minimum.
    """
    pattern = Pattern(observations)
    size = observations.rms or 1.0
    last = np.inf
    residual = np.inf
    for sweep in range(_SWEEPS):
        v = np.linalg.qr(v)[0]
        u = _solve(pattern.mask, pattern.table, v)
        basis = np.linalg.qr(u)[0]
        v = _solve(pattern.mask_t, pattern.table_t, basis)
        if sweep % _PATIENCE == 0:
            fitted = np.einsum("kd,kd->k", basis[observations.rows], v[observations.cols])
            residual = float(np.sqrt(np.mean((fitted - observations.values) ** 2))) / size
            if residual < _EXACT or residual > 0.99 * last:
                break
            last = residual
    left, s, right = leading(basis, v.T)
    root = np.sqrt(s)
    return left * root, right * root, residual


def balance(u: Floats, v: Floats, graph: Connectivity) -> tuple[Floats, Floats]:
    """Return a rank-one fit with both factors of every component of equal norm and one sign.

    Each component determines its part of u v^T, not how its size is shared between u and v; that
    decides the cells across components. Equal shares are what a flow from a balanced start keeps,
    and of all rank-one completions they are one of smallest nuclear norm, part by part.
    """
    u, v = np.abs(u), np.abs(v)
    for rows, cols in graph.components:
        ratio = np.linalg.norm(v[cols]) / max(np.linalg.norm(u[rows]), np.finfo(float).tiny)
        u[rows] *= np.sqrt(ratio)
        v[cols] /= np.sqrt(max(ratio, np.finfo(float).tiny))
    return u, v


def _solve(mask: Any, table: Any, basis: Floats) -> Floats:
    gram = summed(mask, basis[:, :, None] * basis[:, None, :])
    gram += _RIDGE * np.eye(basis.shape[1])
    aim = np.asarray(table @ basis)
    return np.asarray(np.linalg.solve(gram, aim[..., None])[..., 0])
