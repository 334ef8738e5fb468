"""Batches of flows as a step of a larger computation: their final factors, and Ctrl-C passed on.

JAX is imported when the first batch starts, not before: commands that list studies need none.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.factors import Factors, end_to_end
from depthrank.observations import Observations

if TYPE_CHECKING:
    import xarray

__all__ = ["factors_of", "follow", "layers_of", "products"]


def follow(
    observations: Observations | Sequence[Observations], starts: Sequence[Factors], **options: Any
) -> "xarray.Dataset":
    """Return what `flow_batch` returns, factors included; Ctrl-C is raised, not kept."""
    from depthrank.dynamics.batch import flow_batch

    found = flow_batch(observations, starts, factors=True, **options)
    if (found["stopped_by"] == "interrupted").any():
        raise KeyboardInterrupt
    return found


def layers_of(data: "xarray.Dataset") -> list[np.ndarray]:
    """Return the final factors of all members, one stack [member, d_l, d_{l-1}] a layer."""
    depth = sum(str(name).startswith("factor_") for name in data.data_vars)
    return [data[f"factor_{k}"].values for k in range(1, depth + 1)]


def factors_of(data: "xarray.Dataset") -> list[Factors]:
    """Return the final factors of every member."""
    return list(zip(*layers_of(data), strict=True))


def products(data: "xarray.Dataset") -> np.ndarray:
    """Return the final end-to-end matrices, [member, m, n]."""
    return np.asarray(end_to_end(layers_of(data)))
