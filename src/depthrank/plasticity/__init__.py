"""Plasticity: training in phases, warm against cold, remedies, and a forecast before training."""

from depthrank.plasticity.comparing import Protocol, compare
from depthrank.plasticity.forecast import (
    ACTIONS,
    PlasticityReport,
    commutation_defect,
    plasticity_report,
)
from depthrank.plasticity.phases import Phase, WarmStart, warm_start
from depthrank.plasticity.remedies import (
    Border,
    Remedy,
    add_depth,
    anchor,
    cold,
    dash,
    none,
    rebalance,
    reset,
    shrink,
    shrink_perturb,
    truncate,
)

__all__ = [
    "ACTIONS",
    "Border",
    "Phase",
    "PlasticityReport",
    "Protocol",
    "Remedy",
    "WarmStart",
    "add_depth",
    "anchor",
    "cold",
    "commutation_defect",
    "compare",
    "dash",
    "none",
    "plasticity_report",
    "rebalance",
    "reset",
    "shrink",
    "shrink_perturb",
    "truncate",
    "warm_start",
]
