"""The durable result of a sweep: one zarr group, an array per variable over the axes.

The group is made complete under a temporary name and renamed, values are written batch by batch,
and the status of a batch's cells last: whenever the writer ends, what has the status "done" is
whole, and everything can be read. No pickles.
"""

import json
import math
import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank._version import __version__
from depthrank.dynamics.trajectory import CONVENTIONS
from depthrank.errors import DepthrankError
from depthrank.sweeps.batches import modes_of
from depthrank.sweeps.config import Config, difference
from depthrank.sweeps.variables import ENDINGS, VARIABLES, Variable

if TYPE_CHECKING:
    import xarray
    import zarr

__all__ = ["FORMAT", "STATUSES", "Store", "open_sweep"]

FORMAT = 1
STATUSES = ("pending", "done", "failed", "absent")
PENDING, DONE, FAILED, ABSENT = range(4)
_CHUNK = 4096  # cells in a chunk: small enough to be written again for every batch
_FILL: dict[str, Any] = {"f8": np.nan, "i8": -1, "i1": -1, "str": ""}


class Store:
    """The store of one sweep, open for writing; the caller holds its lock."""

    def __init__(self, path: Path, config: Config) -> None:
        self.path, self.config = path, config
        self._group: zarr.Group = _group(path, "r+")
        self._arrays: dict[str, Any] = dict(self._group.arrays())
        self.status: np.ndarray = np.array(self._arrays["status"][...]).ravel()

    @classmethod
    def create(cls, path: Path, config: Config) -> "Store":
        """Make the store of a config: complete or not at all.

        Raises
        ------
        DepthrankError
            If there is something at `path`, or the store cannot be written.
        """
        if path.exists():
            raise DepthrankError(
                f"{str(path)!r} exists; give --resume to go on with it, or another --out."
            )
        part = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            _write_skeleton(part, config)
            part.rename(path)
        except OSError as error:
            shutil.rmtree(part, ignore_errors=True)
            raise DepthrankError(
                f"cannot make the store {str(path)!r}: {error.strerror or error}."
            ) from None
        return cls(path, config)

    @classmethod
    def resume(cls, path: Path, config: Config) -> "Store":
        """Open the store of the same config, to go on.

        Raises
        ------
        DepthrankError
            If it is no store, of another version, or of a config that differs.
        """
        attrs = dict(_group(path, "r").attrs)
        if attrs["depthrank_version"] != __version__:
            raise DepthrankError(
                f"{str(path)!r} was begun by depthrank {attrs['depthrank_version']}; this is "
                f"{__version__}, whose numbers may differ. Go on with that version, or take "
                "another --out."
            )
        lines = difference(json.loads(str(attrs["config"])), _plain(config))
        if lines:
            raise DepthrankError(
                f"{str(path)!r} holds another sweep; the configs differ in\n  "
                + "\n  ".join(lines[:20])
                + ("\n  ..." if len(lines) > 20 else "")
                + "\nRestore the config, or take another --out."
            )
        for left in path.rglob("*.partial"):  # a chunk that a killed writer did not finish
            with suppress(OSError):
                left.unlink()
        try:
            return cls(path, config)
        except OSError as error:
            raise DepthrankError(f"cannot open {str(path)!r}: {error.strerror}.") from None

    def commit(
        self, cells: Sequence[int], values: dict[str, np.ndarray], reasons: Sequence[str]
    ) -> None:
        """Write what a batch gave; the status of its cells last.

        Parameters
        ----------
        cells : sequence of int
            Flat positions.
        values : dict of arrays [cell, ...]
            Empty where the whole batch failed.
        reasons : sequence of str
            Why a cell failed, empty where it did not.

        Raises
        ------
        OSError
            If the disk is full or the store has become read-only.
        """
        failed = np.array([bool(reason) for reason in reasons])
        flat = np.asarray(cells)
        good = flat[~failed]
        for name, array in values.items():
            if good.size:
                self._write(name, good, array[~failed])
        retried = (self.status[flat] == FAILED).any()  # then an old reason has to go
        if failed.any() or retried:
            self._write("reason", flat, np.array(reasons, dtype=object))
        status = np.where(failed, FAILED, DONE).astype(np.int8)
        self._write("status", flat, status)
        self.status[flat] = status

    def _write(self, name: str, flat: np.ndarray, values: np.ndarray) -> None:
        array: Any = self._arrays[name]
        if not self.config.shape:  # no axes: one cell
            array[...] = values[0]
            return
        index: tuple[Any, ...] = np.unravel_index(flat, self.config.shape)
        if values.ndim == 2:
            modes = np.arange(values.shape[1])
            index = (*(i[:, None] for i in index), modes[None, :])
        array.vindex[index] = values.astype(object) if array.dtype.kind == "T" else values

    def record(self, run: dict[str, Any]) -> None:
        """Note a run in the attributes."""
        runs = json.loads(str(self._group.attrs.get("runs", "[]")))
        self._group.attrs["runs"] = json.dumps([*runs, run])


def open_sweep(path: str | Path) -> "xarray.Dataset":
    """Open the store of a sweep, finished or not, as a Dataset over its axes.

    Parameters
    ----------
    path : path_like
        The zarr group.

    Returns
    -------
    xarray.Dataset
        The variables of the task, NaN where a cell is not done; `status` ("pending", "done",
        "failed" or "absent") and `reason` of every cell. Attributes: config, conventions,
        versions, runs.

    Raises
    ------
    DepthrankError
        If there is no sweep at `path`, or one of another format.

    Examples
    --------
    >>> ds = depthrank.sweeps.open_sweep("phase.zarr")                          # doctest: +SKIP
    >>> ds.stable_rank.sel(depth=3)                                             # doctest: +SKIP
    """
    import xarray

    place = Path(path)
    _group(place, "r")
    data = xarray.open_zarr(place, consolidated=False, chunks=None).load()
    names = [one.name for one in VARIABLES[str(data.attrs["task"])]]
    data = data[[*names, "status", "reason"]]
    data["status"] = _words(data["status"], STATUSES)
    for name in ("stopped_by", "first_stopped_by"):
        if name in data:
            data[name] = _words(data[name], ENDINGS)
    for name in (*data.coords, *data.data_vars):
        if data[name].dtype.kind == "T":
            attrs = data[name].attrs
            words = data[name].values.astype(object)
            data[name] = (data[name].dims, words, attrs)
    return data


def _words(codes: "xarray.DataArray", words: Sequence[str]) -> "xarray.DataArray":
    table = np.array([*words, ""], dtype=object)  # -1, no value, takes the last
    return codes.copy(data=table[codes.values.astype(int)])


def _group(path: Path, mode: Any) -> "zarr.Group":
    """Open the group of a sweep and check what wrote it."""
    import zarr

    if not path.exists():
        raise DepthrankError(f"there is no sweep at {str(path)!r}.")
    try:
        group = zarr.open_group(path, mode=mode)
        attrs = dict(group.attrs)
    except (OSError, ValueError, KeyError) as error:
        raise DepthrankError(f"{str(path)!r} holds no sweep that can be read: {error}") from None
    form = attrs.get("depthrank_sweep_format")
    if form is None:
        raise DepthrankError(f"{str(path)!r} is a zarr group, but not one of a sweep.")
    if form != FORMAT:
        raise DepthrankError(
            f"{str(path)!r} has sweep format {form}, written by depthrank "
            f"{attrs.get('depthrank_version')}; this is {__version__}, which reads format "
            f"{FORMAT}. Read it with that version."
        )
    return group


def _plain(config: Config) -> Any:
    return json.loads(json.dumps(config.canonical()))


def _write_skeleton(path: Path, config: Config) -> None:
    import zarr

    attrs: dict[str, Any] = {f"convention_{name}": text for name, text in CONVENTIONS.items()}
    versions = {"numpy": np.__version__, "jax": version("jax"), "zarr": zarr.__version__}
    attrs |= {
        "depthrank_sweep_format": FORMAT,
        "depthrank_version": __version__,
        "versions": json.dumps(versions),
        "title": config.title,
        "task": config.task,
        "config": json.dumps(_plain(config)),
        "axes": json.dumps([axis.name for axis in config.axes]),
        "runs": "[]",
    }
    group = zarr.create_group(path, zarr_format=3, attributes=attrs)
    for axis in config.axes:
        labels = np.array(axis.labels)
        coordinate: Any = labels.astype(object) if labels.dtype.kind == "U" else labels
        array = group.create_array(
            axis.name,
            shape=labels.shape,
            dtype=str if labels.dtype.kind == "U" else labels.dtype,
            dimension_names=(axis.name,),
            attributes={"sets": json.dumps(axis.sets)},
        )
        array[...] = coordinate
    modes = modes_of(config.cells)
    for variable in (
        *VARIABLES[config.task],
        Variable("status", "whether the cell is there", "i1"),
        Variable("reason", "why a cell failed", "str"),
    ):
        _make_array(group, config, variable, modes)
    absent = np.full(config.size, PENDING, np.int8)
    absent[[k for k in range(config.size) if k not in config.cells]] = ABSENT
    status: Any = group["status"]
    status[...] = absent.reshape(config.shape)


def _make_array(group: "zarr.Group", config: Config, variable: Variable, modes: int) -> None:
    names = tuple(axis.name for axis in config.axes)
    shape, chunks = config.shape, _chunks(config.shape)
    if variable.modes:
        names, shape, chunks = (*names, "mode"), (*shape, modes), (*chunks, modes)
    attrs: dict[str, Any] = {"long_name": variable.meaning}
    meanings = {"status": STATUSES, "stopped_by": ENDINGS, "first_stopped_by": ENDINGS}.get(
        variable.name
    )
    if meanings:
        attrs |= {"flag_values": list(range(len(meanings))), "flag_meanings": " ".join(meanings)}
    group.create_array(
        variable.name,
        shape=shape,
        chunks=chunks,
        dtype=str if variable.kind == "str" else variable.kind,
        fill_value=PENDING if variable.name == "status" else _FILL[variable.kind],
        dimension_names=names,
        attributes=attrs,
    )


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Cut the leading axes until a chunk holds few enough cells."""
    chunks = list(shape)
    for axis in range(len(chunks)):
        rest = math.prod(chunks[axis + 1 :])
        chunks[axis] = max(1, min(chunks[axis], _CHUNK // max(rest, 1)))
        if chunks[axis] > 1:
            break
    return tuple(chunks)
