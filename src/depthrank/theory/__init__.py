"""What must happen: exact limits, bounds and certificates, each with its assumptions checked."""

from depthrank.theory._measures import RankMeasures
from depthrank.theory.limits import Limits, LimitsGrid, limits, limits_grid
from depthrank.theory.rates import SmallAlphaRate, ratio_bounds, small_alpha_rate

__all__ = [
    "Limits",
    "LimitsGrid",
    "RankMeasures",
    "SmallAlphaRate",
    "limits",
    "limits_grid",
    "ratio_bounds",
    "small_alpha_rate",
]
