"""The decay clock: how much of the start weight decay has worn off, by the settings alone.

Under decoupled or coupled decay lambda, step size eta and momentum mu a weight that no gradient
holds shrinks by exp(-sum eta lambda / (1 - mu)). Two runs compare only at equal clocks: the rank of
weights at a small clock is still that of their start (Galanti et al. 2022 on decay and rank).
"""

import math
from collections.abc import Iterable
from typing import Any

from depthrank.errors import DepthrankError

__all__ = ["clock_rate", "decay_clock", "matching_decay", "remaining_start"]


def clock_rate(optimizer: Any) -> float:
    """Return eta lambda / (1 - mu) of a PyTorch optimiser now; the largest of its groups.

    Momentum counts where it accumulates (SGD); adaptive methods divide coupled decay by the scale
    of the gradient, so that for them the number is exact for decoupled decay only (AdamW).
    """
    rates = []
    for group in optimizer.param_groups:
        momentum = group.get("momentum") or 0.0
        rates.append(group["lr"] * group.get("weight_decay", 0.0) / (1 - momentum))
    return max(map(float, rates))


def decay_clock(
    learning_rates: Iterable[float], weight_decay: float, momentum: float = 0.0
) -> float:
    """Return the sum over steps of eta lambda / (1 - mu).

    Parameters
    ----------
    learning_rates : iterable of float
        One a step.
    weight_decay : float
        Coefficient of W itself in the update, as PyTorch counts it (lambda, not lambda / 2).
    momentum : float
        In [0, 1).

    Raises
    ------
    DepthrankError
        If momentum is not in [0, 1) or the decay is negative.

    Examples
    --------
    >>> round(decay_clock([0.1] * 1000, 5e-4, 0.9), 6)
    0.5
    """
    if not 0 <= momentum < 1 or weight_decay < 0:
        raise DepthrankError(
            f"momentum is {momentum} and weight_decay {weight_decay}; they must be in [0, 1) and "
            ">= 0."
        )
    return math.fsum(learning_rates) * weight_decay / (1 - momentum)


def remaining_start(clock: float) -> float:
    """Return exp(-clock), the share of the initial weights left where no gradient holds them."""
    return math.exp(-clock)


def matching_decay(clock: float, learning_rates: Iterable[float], momentum: float = 0.0) -> float:
    """Return the weight decay that gives a shorter run the clock of a published one.

    Raises
    ------
    DepthrankError
        As `decay_clock`, or if the learning rates sum to nothing.
    """
    unit = decay_clock(learning_rates, 1.0, momentum)
    if unit <= 0:
        raise DepthrankError("the learning rates sum to 0; no decay gives them a clock.")
    return clock / unit
