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
from depthrank.theory.limits import Limits, LimitsGrid, half_time, limits, limits_grid
from depthrank.theory.matching import matching_limit, matching_state, unequal_diagonal_limit
from depthrank.theory.plasticity import RigidityBound, certificate, rigidity, rigidity_unbalanced
from depthrank.theory.rates import SmallAlphaRate, ratio_bounds, small_alpha_rate
from depthrank.theory.structure import CanCouple, can_couple, coupled_by_depth
from depthrank.theory.two_by_two import (
    TwoByTwo,
    Warm2x2,
    singular_values_after,
    two_by_two,
    warm_2x2,
)

__all__ = [
    "CanCouple",
    "CouplingSummary",
    "Limits",
    "LimitsGrid",
    "RankMeasures",
    "RigidityBound",
    "SmallAlphaRate",
    "TwoByTwo",
    "Warm2x2",
    "can_couple",
    "certificate",
    "coupled_by_depth",
    "coupling",
    "coupling_over",
    "coupling_strength",
    "coupling_summary",
    "half_time",
    "limits",
    "limits_grid",
    "matching_limit",
    "matching_state",
    "ratio_bounds",
    "rigidity",
    "rigidity_unbalanced",
    "singular_values_after",
    "small_alpha_rate",
    "tangent_kernel",
    "two_by_two",
    "unequal_diagonal_limit",
    "warm_2x2",
]
