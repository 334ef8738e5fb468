"""The flow under a pull towards the start, by splitting.

loss + strength/2 sum_l |W_l - A_l|^2 has two flows that are each known: that of the loss, from the
engine, and the pull's, an exponential. Alternating half a step of the pull, a step of the loss and
half a step of the pull again (Strang) has an error of second order in the step.
"""

from collections.abc import Sequence

import numpy as np

from depthrank.factors import Factors
from depthrank.observations import Observations

__all__ = ["LASTING", "anchored_flow"]

LASTING = 5.0
"""The pull holds for this long, in units of 1/strength: what it governs is then settled."""

STEPS = 50


def anchored_flow(
    observations: Sequence[Observations],
    factors: Sequence[Factors],
    anchors: Sequence[Factors],
    strength: float,
    max_time: float = np.inf,
    *,
    steps: int = STEPS,
    rtol: float = 1e-6,
) -> list[tuple[Factors, float]]:
    """Follow members of one shape under a pull towards their anchors.

    Parameters
    ----------
    observations, factors, anchors : sequences, one entry a member
    strength : float
        > 0.
    max_time : float
        Flow time to end at, if that is before `LASTING` / strength.
    steps : int
        Splitting steps.
    rtol : float
        Of the flow between two of them.

    Returns
    -------
    list of (factors, time)
        Label: numerical, splitting error of second order in 1/steps.
    """
    from depthrank.dynamics.members import factors_of, follow

    total = min(LASTING / strength, max_time)
    h = total / steps
    stay = float(np.exp(-strength * h / 2))

    def pull(states: Sequence[Factors]) -> list[Factors]:
        return [
            tuple(A + stay * (W - A) for W, A in zip(state, anchor, strict=True))
            for state, anchor in zip(states, anchors, strict=True)
        ]

    now = list(factors)
    for _ in range(steps):
        found = follow(observations, pull(now), max_time=h, tol=1e-30, rtol=rtol)
        now = pull(factors_of(found))
    return [(state, total) for state in now]
