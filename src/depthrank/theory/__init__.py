"""What must happen: exact limits, bounds and certificates, each with its assumptions checked."""

from depthrank.theory._measures import RankMeasures
from depthrank.theory.coupling import (
    CouplingSummary,
    coupling,
    coupling_over,
    coupling_strength,
    coupling_summary,
    tangent_kernel,
)
from depthrank.theory.limits import Limits, LimitsGrid, limits, limits_grid
from depthrank.theory.rates import SmallAlphaRate, ratio_bounds, small_alpha_rate
from depthrank.theory.structure import CanCouple, can_couple, coupled_by_depth

__all__ = [
    "CanCouple",
    "CouplingSummary",
    "Limits",
    "LimitsGrid",
    "RankMeasures",
    "SmallAlphaRate",
    "can_couple",
    "coupled_by_depth",
    "coupling",
    "coupling_over",
    "coupling_strength",
    "coupling_summary",
    "limits",
    "limits_grid",
    "ratio_bounds",
    "small_alpha_rate",
    "tangent_kernel",
]
