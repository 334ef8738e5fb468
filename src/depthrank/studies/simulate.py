"""Simulations shared by the studies."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from depthrank.dynamics.members import factors_of, follow
from depthrank.factors import Factors
from depthrank.observations import Observations

if TYPE_CHECKING:
    import xarray

    from depthrank.dynamics.trajectory import Trajectory

__all__ = ["course", "descents", "flows", "modes", "observe"]

Array = NDArray[np.float64]


def observe(mask: np.ndarray, value: float | np.ndarray = 1.0) -> Observations:
    """Observe `value` (a number or the whole truth) where the mask says so."""
    return Observations.from_mask(np.broadcast_to(np.asarray(value, float), mask.shape), mask)


def flows(
    observations: Observations | Sequence[Observations],
    starts: Sequence[Factors],
    *,
    tol: float = 1e-18,
    rtol: float = 1e-8,
    max_time: float = np.inf,
) -> "xarray.Dataset":
    """Follow gradient flows of one shape to their ends, closer than by default."""
    return follow(observations, starts, tol=tol, rtol=rtol, max_time=max_time)


def course(
    observations: Observations | Sequence[Observations],
    starts: Sequence[Factors],
    times: Sequence[float] | np.ndarray,
    **options: Any,
) -> list[list[Factors]]:
    """Return the factors of every member at each of the increasing times, [time][member]."""
    now, states, factors = 0.0, [], list(starts)
    for time in times:
        if time > now:
            part = flows(
                observations, factors, max_time=float(time - now), **{"tol": 1e-30, **options}
            )
            factors = factors_of(part)
        states.append(factors)
        now = float(time)
    return states


def modes(factors: Factors) -> tuple[float, float]:
    """Return sigma_1, sigma_2 of factors of the form a I + b J, multiplied up from eigenvalues.

    Eigenvalues of a factor are accurate to rounding of its largest, so that a sigma_2 far below
    the rounding of sigma_1 is still seen, where the decomposition of the product would lose it.
    """
    d = len(factors[0])
    sums = np.array([W.sum() / d for W in factors])
    traces = np.array([np.trace(W) for W in factors])
    return float(np.prod(sums)), float(np.prod((traces - sums) / (d - 1)))


def descents(
    observations: Observations,
    starts: Sequence[Factors],
    optimizer: str,
    learning_rate: float,
    steps: int,
    *,
    tol: float,
) -> "list[Trajectory]":
    """Train every start by the same optimiser, compiled once."""
    from depthrank.dynamics.descent import OPTIMIZERS, descend

    rule = OPTIMIZERS[optimizer](learning_rate)
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the studies look at how each run ended
        for start in starts:
            one = descend(
                observations,
                optimizer=rule,
                factors=start,
                steps=steps,
                tol=tol,
                record_every=max(1, steps // 20),
            )
            if one.stopped_by == "interrupted":  # descent keeps Ctrl-C to itself
                raise KeyboardInterrupt
            found.append(one)
    return found
