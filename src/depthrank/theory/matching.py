"""Depth 2 when no two observed entries share a row or a column: exactly solvable from any start.

An observed entry is <u, v> with u its row of W_2 and v its column of W_1, which no other observed
entry touches; u + v grows by sqrt(y) while u - v shrinks by it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError
from depthrank.factors import check_factors
from depthrank.theory._start import check_start

__all__ = ["matching_limit", "matching_state", "unequal_diagonal_limit"]

Array = NDArray[np.float64]


def matching_limit(
    factors: Sequence[Any], rows: ArrayLike, cols: ArrayLike, values: ArrayLike
) -> tuple[Array, Array]:
    """Limit (W_1, W_2) of the depth-2 flow for observations that form a matching.

    With P = ‖u_0 + v_0‖², Q = ‖u_0 - v_0‖²: u + v = sqrt(y) (u_0 + v_0), u - v = (u_0 - v_0)/
    sqrt(y), y = (2 w + sqrt(4 w^2 + P Q))/P. Any start, any hidden width, rectangular allowed.

    Label: exact. Source: derived here; it contains the disconnected case of Shin & Yun (ICLR 2026),
    Theorem 3.1.

    Parameters
    ----------
    factors : (W_1, W_2)
        The start.
    rows, cols, values : array_like, shape (k,)
        Observed entries, no row or column twice.

    Returns
    -------
    (W_1, W_2) : the factors at t = infinity; W_2 @ W_1 is the limit.
    """
    return _apply(factors, rows, cols, values, None)


def matching_state(
    factors: Sequence[Any], rows: ArrayLike, cols: ArrayLike, values: ArrayLike, t: float
) -> tuple[Array, Array]:
    """Factors at time t >= 0 of the same flow as `matching_limit`. Label: exact."""
    if not t >= 0:
        raise DepthrankError(f"t is {t!r}; it must be a time >= 0.")
    return _apply(factors, rows, cols, values, float(t))


def growth(P: float, Q: float, w: float, t: float | None) -> float:
    """Return the growth y(t) of ‖u + v‖² relative to its start (t None: the limit).

    dy/dt = 2 w y - (P y^2 - Q)/2, a Riccati equation. The limit is 0 or inf where one of u + v and
    u - v starts at zero and the target has the other sign: the product then decays to zero.
    """
    S = float(np.sqrt(4 * w * w + P * Q))
    if t is None:
        if P == 0.0:
            return Q / (-4 * w) if w < 0 else float("inf")
        return Q / (S - 2 * w) if w < 0 else (2 * w + S) / P
    if P == 0.0:  # dy/dt = 2 w y + Q/2
        return float(np.exp(2 * w * t) + (Q / (4 * w) * np.expm1(2 * w * t) if w else Q * t / 2))
    if S == 0.0:  # w = Q = 0
        return 1 / (1 + P * t / 2)
    # Y = P y moves between the roots Y_+ >= 0 >= Y_-, each from the form that does not cancel
    plus = 2 * w + S if w >= 0 else P * Q / (S - 2 * w)
    minus = 2 * w - S if w < 0 else -P * Q / (S + 2 * w)
    decay = float(np.exp(-S * t))
    numerator = (P - minus) * plus - (P - plus) * minus * decay
    return numerator / (P * ((P - minus) - (P - plus) * decay))


def _apply(
    factors: Sequence[Any],
    rows: ArrayLike,
    cols: ArrayLike,
    values: ArrayLike,
    t: float | None,
) -> tuple[Array, Array]:
    chain = check_factors(factors)
    if len(chain) != 2:
        raise DepthrankError(
            f"got {len(chain)} factors; matchings are exactly solvable at depth 2 only. At other "
            "depths simulate with depthrank.flow."
        )
    r, c, w = np.asarray(rows), np.asarray(cols), np.asarray(values, dtype=np.float64)
    if np.unique(r).size != r.size or np.unique(c).size != c.size:
        raise DepthrankError(
            "two observed entries share a row or a column; the closed form assumes a matching. "
            "Simulate other patterns with depthrank.flow."
        )
    W1, W2 = (W.astype(np.float64).copy() for W in chain)
    for i, j, value in zip(r, c, w, strict=True):
        plus, minus = W2[i] + W1[:, j], W2[i] - W1[:, j]
        P, Q = float(plus @ plus), float(minus @ minus)
        y = growth(P, Q, float(value), t)
        grown = np.sqrt(y) * plus if P > 0 else np.zeros_like(plus)
        shrunk = minus / np.sqrt(y) if Q > 0 else np.zeros_like(minus)
        W2[i], W1[:, j] = (grown + shrunk) / 2, (grown - shrunk) / 2
    return W1, W2


def unequal_diagonal_limit(values: ArrayLike, *, depth: int, alpha: float, m: float) -> Array:
    """Limit for an observed diagonal with unequal values, where it is known exactly.

    Depth 2, any m: X = diag(w)^{1/2} ((1-c) I + c J) diag(w)^{1/2}, c = (2m+d-2)/(m^2+d-1),
    independent of alpha, with w_i <= 0 sending row and column i to zero. Depth >= 3: only m = inf,
    X = diag(max(w, 0)); for finite m no closed form is known. At depth >= 3 the m = inf solution is
    exponentially unstable: off-diagonal entries of 1e-12 in the start may change the outcome.

    Label: exact. Source: derived here; Shin & Yun (ICLR 2026), Theorem 3.1 is d = 2.

    Returns
    -------
    ndarray, shape (d, d)
    """
    check_start(alpha, m)
    w = np.maximum(np.asarray(values, dtype=np.float64), 0.0)
    d = w.size
    if np.isinf(m):
        return np.diag(w)
    if depth != 2:
        raise DepthrankError(
            f"depth is {depth} and m is {m:g} with unequal diagonal values; the exact limit "
            "assumes equal values, or depth 2, or m = inf. Simulate this case with depthrank.flow."
        )
    c = (2 * m + d - 2) / (m**2 + d - 1)
    root = np.sqrt(w)
    return np.asarray(np.outer(root, root) * ((1 - c) * np.eye(d) + c))
