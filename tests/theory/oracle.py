"""The unreduced flow of all factors, integrated by SciPy: shares no formula with the package."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.integrate import solve_ivp

Array = NDArray[np.float64]


def product(factors: Any) -> Array:
    """W_L ... W_1."""
    W = factors[0]
    for V in factors[1:]:
        W = V @ W
    return np.asarray(W)


def integrate(
    factors: Any, mask: NDArray[np.bool_], target: Array, times: ArrayLike, rtol: float = 1e-12
) -> list[tuple[Array, ...]]:
    """Factors at the given times under the flow of half the squared error on the mask."""
    shapes = [W.shape for W in factors]
    ends = np.cumsum([0, *(a * b for a, b in shapes)])
    target = np.where(mask, target, 0.0)

    def unpack(theta: Array) -> tuple[Array, ...]:
        return tuple(theta[a:b].reshape(s) for a, b, s in zip(ends, ends[1:], shapes, strict=False))

    def velocity(_t: float, theta: Array) -> Array:
        chain = unpack(theta)
        below = [np.eye(shapes[0][1])]
        for W in chain[:-1]:
            below.append(W @ below[-1])
        back = np.where(mask, chain[-1] @ below[-1] - target, 0.0)
        out: list[Array] = []
        for W, B in zip(reversed(chain), reversed(below), strict=True):
            out.append(-back @ B.T)
            back = W.T @ back
        return np.concatenate([g.ravel() for g in reversed(out)])

    at = np.atleast_1d(np.asarray(times, dtype=float))
    start = np.concatenate([np.asarray(W, dtype=float).ravel() for W in factors])
    solved = solve_ivp(velocity, (0.0, at[-1]), start, "DOP853", t_eval=at, rtol=rtol, atol=1e-16)
    assert solved.success
    return [unpack(column) for column in solved.y.T]
