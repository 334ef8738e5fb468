"""Members of one shape followed together, to their ends or from one record to the next."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.factors import Factors
from depthrank.observations import Observations

if TYPE_CHECKING:
    import xarray

__all__ = ["factors_of", "follow"]

_SMALLEST = 16  # smaller batches are filled up to this, so that few programs are compiled


def follow(
    observations: Sequence[Observations], starts: Sequence[Factors], **options: Any
) -> "xarray.Dataset":
    """Return what `flow_batch` returns, factors included; Ctrl-C is raised, not kept."""
    from depthrank.dynamics.batch import flow_batch

    count = len(starts)
    size = max(_SMALLEST, 1 << (count - 1).bit_length())
    # Members beyond the last are copies of it.
    chosen = np.minimum(np.arange(size), count - 1)
    found = flow_batch(
        [observations[k] for k in chosen], [starts[k] for k in chosen], factors=True, **options
    )
    if (found["stopped_by"] == "interrupted").any():
        raise KeyboardInterrupt
    return found.isel(member=slice(count))


def factors_of(data: "xarray.Dataset") -> list[Factors]:
    """Return the final factors of every member."""
    names = [f"factor_{k}" for k in range(1, 100) if f"factor_{k}" in data]
    layers = [data[name].values for name in names]
    return [tuple(layer[k] for layer in layers) for k in range(data.sizes["member"])]
