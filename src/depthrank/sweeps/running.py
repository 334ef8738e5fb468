"""The loop of a sweep: batches out, results in, each committed as it comes."""

import os
import shutil
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank import memory
from depthrank.errors import DepthrankError
from depthrank.sweeps.batches import Batch, batches_of
from depthrank.sweeps.config import Config, load
from depthrank.sweeps.executors import Executor, Here, Outcome, Pool
from depthrank.sweeps.lock import locked
from depthrank.sweeps.store import ABSENT, DONE, FAILED, PENDING, Store, open_sweep

if TYPE_CHECKING:
    import xarray

__all__ = ["Count", "run_sweep", "sweep"]


@dataclass(frozen=True)
class Count:
    """How a sweep stands.

    Attributes
    ----------
    cells, done, failed : int
        Of the whole sweep.
    fresh : int
        Cells that this run has finished.
    running : float
        Cells that have ended in the batch under way (in this process).
    seconds : float
        Since this run began.
    """

    cells: int
    done: int
    failed: int
    fresh: int
    running: float
    seconds: float


def sweep(
    config: "str | Path | Mapping[str, Any]",
    out: str | Path,
    *,
    resume: bool = False,
    retry_failed: bool = False,
    workers: int = 1,
    ray: str | None = None,
    progress: Callable[[Count], None] | None = None,
) -> "xarray.Dataset":
    """Run a grid of experiments into a durable store.

    Parameters
    ----------
    config : path or mapping
        A TOML file, or a mapping of the same form: `task`, `fixed` settings, `axes`, and `when`
        for conditional axes.
    out : path
        The zarr group to write; its lock file stands beside it.
    resume : bool
        Go on with a store that is there; one of a config that differs is refused.
    retry_failed : bool
        With `resume`, run failed cells again.
    workers : int
        Processes on this machine; 1 runs everything in this one.
    ray : str, optional
        Run on Ray: "local", or the address of a cluster.
    progress : callable, optional
        Called with a `Count` after every batch, and now and then within one.

    Returns
    -------
    xarray.Dataset
        That of `open_sweep`: `ds.stable_rank.sel(depth=3)`, `ds.status`, `ds.reason`.

    Raises
    ------
    DepthrankError
        If something in the config is unknown or out of range, the store exists, belongs to another
        sweep, is being written by another process, or cannot be written any more.

    Notes
    -----
    A failed cell is recorded with its reason and the rest goes on. A batch whose process dies is
    run again, then in halves, then recorded. Ctrl-C keeps every batch that has ended. With
    `workers` the script itself must be importable (``if __name__ == "__main__":``), as for any
    process pool of Python.

    Examples
    --------
    >>> config = {
    ...     "fixed": {"dimension": 3, "m": 2.0},
    ...     "axes": {"depth": [2, 3], "alpha": {"log": [0.01, 1.0], "points": 3}},
    ... }
    >>> ds = depthrank.sweep(config, "small.zarr")                              # doctest: +SKIP
    """
    read = load(config)
    run_sweep(
        read,
        Path(out),
        resume=resume,
        retry_failed=retry_failed,
        workers=workers,
        ray=ray,
        progress=progress,
    )
    return open_sweep(out)


def run_sweep(
    config: Config,
    out: Path,
    *,
    resume: bool = False,
    retry_failed: bool = False,
    workers: int = 1,
    ray: str | None = None,
    gpus: float = 0.0,
    progress: Callable[[Count], None] | None = None,
) -> Count:
    """Run a sweep and say how it stands at the end; see `sweep`."""
    if workers < 1:
        raise DepthrankError(f"workers is {workers}; it must be an integer >= 1.")
    batches = batches_of(config)
    began = time.perf_counter()
    _check_disk(out, config)
    with locked(out):
        going_on = resume and out.exists()
        store = Store.resume(out, config) if going_on else Store.create(out, config)
        todo = _left(batches, store, retry_failed)
        loop = _Loop(store, progress, began, retry_failed)
        try:
            if todo:
                executor = loop.executor(min(workers, len(todo)), workers, ray, gpus)
                try:
                    loop.work(todo, executor)
                finally:
                    executor.close()
        except OSError as error:
            raise DepthrankError(
                f"cannot write {str(out)!r} any more: {error.strerror or error}. "
                f"{loop.count().done:,} of {len(config.cells):,} cells are kept; once that is "
                "mended, go on with --resume."
            ) from None
        finally:
            with suppress(OSError):  # a full disk has been told of
                loop.note(workers, ray)
        return loop.count()


def _left(batches: list[Batch], store: Store, retry_failed: bool) -> list[Batch]:
    """Return the batches with a cell to run: whole ones, so that they give the same bits."""
    wanted = (PENDING, FAILED) if retry_failed else (PENDING,)
    return [b for b in batches if np.isin(store.status[list(b.cells)], wanted).any()]


def _check_disk(out: Path, config: Config) -> None:
    from depthrank.sweeps.estimate import store_bytes

    parent = out.absolute().parent
    if not parent.is_dir():
        raise DepthrankError(f"the folder {str(parent)!r} does not exist; make it first.")
    need, disk = store_bytes(config), shutil.disk_usage(parent)
    if not out.exists() and disk.total and need > disk.free:
        raise DepthrankError(
            f"the store needs about {memory.gib(need)}; {memory.gib(disk.free)} are free in "
            f"{str(parent)!r}. Take another --out, or fewer cells."
        )


class _Loop:
    """Hands out batches and commits what comes back."""

    def __init__(
        self,
        store: Store,
        progress: Callable[[Count], None] | None,
        began: float,
        retry_failed: bool,
    ) -> None:
        self.store, self.progress, self.began = store, progress, began
        self.retry_failed = retry_failed
        self.started = datetime.now(UTC)
        self.fresh, self.running = 0, 0.0

    def executor(self, needed: int, workers: int, ray: str | None, gpus: float) -> Executor:
        """Return where the batches run."""
        if ray is not None:
            from depthrank.sweeps.cluster import Cluster

            return Cluster(ray, workers if workers > 1 else None, gpus)
        return Pool(needed) if workers > 1 else Here(self.within)

    def within(self, ended: int, members: int) -> None:
        """Take note of how far the batch under way is."""
        self.running = ended / max(members, 1)
        self.tell()

    def work(self, queue: list[Batch], executor: Executor) -> None:
        """Run all batches."""
        self.tell()
        while queue or executor.busy:
            while queue and executor.start(queue):
                pass
            for outcome in executor.finished():
                queue[:0] = self.take(outcome)
                self.running = 0.0
                self.tell()

    def take(self, outcome: Outcome) -> list[Batch]:
        """Commit what a batch gave; return what has to be run again."""
        batch = outcome.batch
        if outcome.results is None:
            if outcome.died and batch.attempt == 0 and outcome.reason != "out of memory":
                return [replace(batch, attempt=1)]  # whatever killed it may have been a chance
            if len(batch.cells) > 1:
                return batch.halves(smaller=outcome.died)
            self.commit(batch, {}, [outcome.reason])
            return []
        self.commit(batch, outcome.results.values, outcome.results.reasons)
        return []

    def commit(self, batch: Batch, values: dict[str, np.ndarray], reasons: list[str]) -> None:
        """Write the cells that were not done before."""
        wanted = (PENDING, FAILED) if self.retry_failed else (PENDING,)
        chosen = np.flatnonzero(np.isin(self.store.status[list(batch.cells)], wanted))
        if not chosen.size:
            return
        cells = [batch.cells[k] for k in chosen]
        picked = {name: array[chosen] for name, array in values.items()}
        self.store.commit(cells, picked, [reasons[k] for k in chosen])
        self.fresh += len(cells)

    def count(self) -> Count:
        """Say how the sweep stands."""
        status = self.store.status
        return Count(
            cells=int((status != ABSENT).sum()),
            done=int((status == DONE).sum()),
            failed=int((status == FAILED).sum()),
            fresh=self.fresh,
            running=self.running,
            seconds=time.perf_counter() - self.began,
        )

    def tell(self) -> None:
        """Report to the caller."""
        if self.progress is not None:
            self.progress(self.count())

    def note(self, workers: int, ray: str | None) -> None:
        """Record this run in the store."""
        self.store.record(
            {
                "started": self.started.isoformat(timespec="seconds"),
                "seconds": round(time.perf_counter() - self.began, 3),
                "cells": self.fresh,
                "host": socket.gethostname(),
                "pid": os.getpid(),
                "executor": "ray" if ray is not None else f"{workers} process(es)",
            }
        )
