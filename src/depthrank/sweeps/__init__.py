"""Ten thousand experiments that survive the night: grids, batches, durable stores.

`depthrank.sweep` runs a config into a zarr group and `open_sweep` reads one, finished or not, as
an xarray Dataset over its axes. On the command line: `depthrank sweep`.
"""

from depthrank.sweeps.running import Count, sweep
from depthrank.sweeps.store import open_sweep
from depthrank.sweeps.summary import averages, frame

__all__ = ["Count", "averages", "frame", "open_sweep", "sweep"]
