"""What must happen: exact limits, bounds and certificates, each with its assumptions checked."""

from depthrank.theory._measures import RankMeasures
from depthrank.theory.blocks import (
    BlockLimits,
    ModeLimits,
    block_limits,
    circulant_limit,
    infinite_depth_limit,
    mode_limits,
)
from depthrank.theory.coupling import (
    CouplingSummary,
    coupling,
    coupling_over,
    coupling_strength,
    coupling_summary,
    tangent_kernel,
)
from depthrank.theory.exact import (
    amplification_exponent,
    escape_time,
    fully_observed_state,
    norm_divergence_bounds,
    start_kernel,
)
from depthrank.theory.limits import Limits, LimitsGrid, half_time, limits, limits_grid
from depthrank.theory.matching import matching_limit, matching_state, unequal_diagonal_limit
from depthrank.theory.plasticity import RigidityBound, certificate, rigidity, rigidity_unbalanced
from depthrank.theory.rates import SmallAlphaRate, ratio_bounds, small_alpha_rate
from depthrank.theory.recognise import DataLimit, limits_for
from depthrank.theory.structure import CanCouple, can_couple, coupled_by_depth
from depthrank.theory.trajectories import (
    ModeState,
    block_tail,
    descent_state,
    limits_state,
    mode_state,
    scalar_chain,
    single_mode,
    single_mode_time,
    unbalanced_mode,
)
from depthrank.theory.two_by_two import (
    TwoByTwo,
    Warm2x2,
    singular_values_after,
    two_by_two,
    warm_2x2,
)

__all__ = [
    "BlockLimits",
    "CanCouple",
    "CouplingSummary",
    "DataLimit",
    "Limits",
    "LimitsGrid",
    "ModeLimits",
    "ModeState",
    "RankMeasures",
    "RigidityBound",
    "SmallAlphaRate",
    "TwoByTwo",
    "Warm2x2",
    "amplification_exponent",
    "block_limits",
    "block_tail",
    "can_couple",
    "certificate",
    "circulant_limit",
    "coupled_by_depth",
    "coupling",
    "coupling_over",
    "coupling_strength",
    "coupling_summary",
    "descent_state",
    "escape_time",
    "fully_observed_state",
    "half_time",
    "infinite_depth_limit",
    "limits",
    "limits_for",
    "limits_grid",
    "limits_state",
    "matching_limit",
    "matching_state",
    "mode_limits",
    "mode_state",
    "norm_divergence_bounds",
    "ratio_bounds",
    "rigidity",
    "rigidity_unbalanced",
    "scalar_chain",
    "single_mode",
    "single_mode_time",
    "singular_values_after",
    "small_alpha_rate",
    "start_kernel",
    "tangent_kernel",
    "two_by_two",
    "unbalanced_mode",
    "unequal_diagonal_limit",
    "warm_2x2",
]
