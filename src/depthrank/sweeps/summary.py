"""Reading a sweep: averages that say how many cells they are over, tables, Parquet."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    import pandas
    import xarray

__all__ = ["averages", "axes_of", "counts", "frame", "is_seed", "write_parquet"]


def axes_of(data: "xarray.Dataset") -> list[str]:
    """Return the names of a sweep's axes, in order."""
    return [str(name) for name in data["status"].dims]


def is_seed(axis: str) -> bool:
    """Whether an axis only repeats: `seed`, `mask_seed`, ..."""
    return axis == "seed" or axis.endswith("_seed")


def counts(data: "xarray.Dataset") -> dict[str, int]:
    """Return how many cells there are, and are done, failed and pending."""
    status = data["status"].values
    found = {name: int((status == name).sum()) for name in ("done", "failed", "pending")}
    return {"cells": sum(found.values()), **found}


def averages(data: "xarray.Dataset", variable: str, by: Sequence[str] = ()) -> "xarray.Dataset":
    """Average a variable over all axes but some, with a 95 % interval and counts.

    Parameters
    ----------
    data : xarray.Dataset
        From `open_sweep`.
    variable : str
        One of its numeric variables, without modes.
    by : sequence of str
        Axes that are kept.

    Returns
    -------
    xarray.Dataset
        Over the kept axes: `mean`, `low` and `high` (Student's t interval of the mean; NaN for
        less than two cells), `n` cells in the average, of `N` that there are. Cells that are not
        done, or have no such value, are left out of the average, never counted as zero.

    Raises
    ------
    DepthrankError
        If there is no such variable or axis.
    """
    import xarray
    from scipy.stats import t as student

    axes = axes_of(data)
    for name in by:
        if name not in axes:
            raise DepthrankError(f"there is no axis {name!r}; there are {', '.join(axes)}.")
    check_variable(data, variable)
    values = data[variable].astype(float)
    missing = data[variable].dtype.kind == "i"  # integers mark what is missing by -1
    good = (data["status"] == "done") & np.isfinite(values)
    if missing:
        good = good & (values >= 0)
    over = [axis for axis in axes if axis not in by]
    kept = values.where(good)
    n, N = good.sum(over), (data["status"] != "absent").sum(over)
    mean = kept.sum(over) / n.where(n > 0)
    spread = np.sqrt(((kept - mean) ** 2).sum(over) / (n - 1).where(n > 1))
    half = spread / np.sqrt(n.where(n > 0)) * student.ppf(0.975, (n - 1).where(n > 1))
    parts = {"mean": mean, "low": mean - half, "high": mean + half, "n": n, "N": N}
    return xarray.Dataset(parts, attrs={"variable": variable}).transpose(*by)


def numeric(data: "xarray.Dataset") -> list[str]:
    """Return the names of variables that can be averaged."""
    axes = tuple(axes_of(data))
    return [
        str(name)
        for name, array in data.data_vars.items()
        if array.dtype.kind in "fiu" and array.dims == axes
    ]


def check_variable(data: "xarray.Dataset", variable: str) -> None:
    """Refuse a variable that cannot be averaged, naming the nearest."""
    from difflib import get_close_matches

    known = numeric(data)
    if variable not in known:
        near = get_close_matches(variable, known, n=1, cutoff=0.5)
        guess = f" did you mean {near[0]!r}?" if near else ""
        raise DepthrankError(
            f"there is no variable {variable!r};{guess} There are {', '.join(known)}."
        )


def frame(data: "xarray.Dataset") -> "pandas.DataFrame":
    """Return a long table: a line per cell, its axes, status, reason and variables.

    Singular values become columns singular_value_1, ...; absent cells are left out.
    """
    import pandas as pd

    axes = axes_of(data)
    shape = data["status"].shape
    grids = np.meshgrid(*(data[axis].values for axis in axes), indexing="ij")
    columns: dict[str, Any] = {axis: grid.ravel() for axis, grid in zip(axes, grids, strict=True)}
    columns |= {name: data[name].values.ravel() for name in ("status", "reason")}
    for name, array in data.data_vars.items():
        if name in columns:
            continue
        if array.ndim > len(shape):
            flat = array.values.reshape(-1, array.shape[-1])
            for mode in range(flat.shape[1]):
                columns[f"singular_value_{mode + 1}"] = flat[:, mode]
        else:
            columns[str(name)] = array.values.ravel()
    table = pd.DataFrame(columns)
    return table[table["status"] != "absent"].reset_index(drop=True)


def write_parquet(data: "xarray.Dataset", path: Path) -> int:
    """Write the long table of a sweep to a Parquet file, whole or not at all; return its lines."""
    from depthrank.files.atomic import atomic

    table = frame(data)
    with atomic(path) as handle:
        table.to_parquet(handle, index=False)
    return len(table)
