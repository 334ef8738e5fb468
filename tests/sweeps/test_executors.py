"""Where a batch runs does not change a bit of it, and what dies is run again."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from depthrank.sweeps import averages, sweep
from depthrank.sweeps.batches import Batch, batches_of
from depthrank.sweeps.config import load
from depthrank.sweeps.executors import Executor, Here, Outcome, Pool, attempt
from depthrank.sweeps.running import _Loop
from depthrank.sweeps.store import Store

LIMITS: dict[str, Any] = {
    "task": "limits",
    "batch": 3,
    "fixed": {"dimension": 5, "m": 3.0},
    "axes": {"depth": [2, 3], "alpha": {"log": [0.01, 1.0], "points": 6}},
}
FLOWS: dict[str, Any] = {
    "batch": 16,
    "fixed": {
        "pattern": "uniform",
        "rows": 5,
        "columns": 4,
        "rank": 2,
        "fraction": 0.6,
        "holdout": 0.1,
        "noise": 0.01,
        "depth": 2,
        "tol": 1e-8,
        "max_steps": 300,
    },
    "axes": {"init_scale": [0.01, 0.1], "seed": {"range": [0, 20]}},
}


def bits(data: xarray.Dataset) -> dict[str, bytes]:
    kinds = "fi"
    return {str(n): v.values.tobytes() for n, v in data.data_vars.items() if v.dtype.kind in kinds}


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> xarray.Dataset:
    return sweep(FLOWS, tmp_path_factory.mktemp("flows") / "here.zarr")


def test_flows_in_a_sweep_are_those_of_flow(flows: xarray.Dataset) -> None:
    from depthrank import Gaussian, Observations, patterns
    from depthrank.dynamics.flow import flow
    from depthrank.sweeps.problems import make

    assert (flows.status == "done").all()
    cell = load(FLOWS).cells[25]
    made = make(cell)  # type: ignore[arg-type]
    mask = patterns.uniform((5, 4), fraction=0.6, seed=5)
    assert made.truth is not None
    seen = Observations.from_mask(made.truth, mask)
    assert made.held_out is not None
    assert made.observations.n_observed + made.held_out.n_observed == seen.n_observed
    run = flow(
        made.observations, depth=2, init=Gaussian(0.1), seed=5, tol=1e-8, max_steps=300, rtol=1e-6
    )
    one = flows.sel(init_scale=0.1, seed=5)
    np.testing.assert_allclose(one.singular_values, run.singular_values, rtol=1e-4, atol=1e-6)
    assert str(one.stopped_by.item()) == run.stopped_by
    gap = np.linalg.norm(run.end_to_end - made.truth) / np.linalg.norm(made.truth)
    assert float(one.reconstruction_error) == pytest.approx(gap, rel=1e-4)


def test_a_failed_cell_says_why_and_the_rest_goes_on(tmp_path: Path) -> None:
    fixed = FLOWS["fixed"] | {"pattern": "disconnected"}
    del fixed["fraction"], fixed["holdout"]
    ds = sweep({"fixed": fixed, "axes": {"components": [2, 9]}}, tmp_path / "f.zarr")
    assert ds.status.values.tolist() == ["done", "failed"]
    assert "components is 9; it must be an integer between 1 and 4" in str(ds.reason.values[1])
    assert np.isnan(ds.loss.values[1])
    found = averages(ds, "n_observed")
    assert (int(found.n), int(found.N), float(found["mean"])) == (1, 2, 7.0)


def test_the_pool_gives_the_same_bits(flows: xarray.Dataset, tmp_path: Path) -> None:
    pooled = sweep(FLOWS, tmp_path / "pool.zarr", workers=2)
    assert bits(pooled) == bits(flows)


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")  # Ray leaves processes to be collected
def test_ray_gives_the_same_bits(flows: xarray.Dataset, tmp_path: Path) -> None:
    """Forty small batches on a cluster of its own."""
    sizes = FLOWS | {"batch": 1}
    here = sweep(sizes, tmp_path / "here.zarr")
    there = sweep(sizes, tmp_path / "ray.zarr", ray="local", workers=2)
    assert bits(there) == bits(here)


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore")  # Ray leaves processes to be collected
def test_a_ray_worker_that_is_killed_costs_a_retry(tmp_path: Path) -> None:
    from depthrank.sweeps.cluster import Cluster

    cluster = Cluster("local", 2)
    real, marks = cluster._remote, tmp_path / "died"

    def dies_once(batch: Batch) -> Outcome:
        if 0 in batch.cells and not marks.exists():
            marks.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return attempt(batch)

    cluster._remote = cluster._ray.remote(max_retries=0, num_cpus=1)(dies_once)
    assert real is not cluster._remote
    store, taken = worked(cluster, tmp_path)
    assert (store.status == 1).all()
    assert [outcome.died for outcome in taken].count(True) == 1


def worked(executor: Executor, folder: Path) -> tuple[Store, list[Outcome]]:
    """Work off the limits with an executor, and close it."""
    config = load(LIMITS)
    store = Store.create(folder / "made.zarr", config)
    loop, taken = _Loop(store, None, 0.0, False), []
    real = loop.take

    def take(outcome: Outcome) -> list[Batch]:
        taken.append(outcome)
        return real(outcome)

    loop.take = take  # type: ignore[method-assign]
    try:
        loop.work(batches_of(config), executor)
    finally:
        executor.close()
    return store, taken


class Mortal(Pool):
    """A pool whose worker is killed, from outside, as it takes a batch with a certain cell."""

    def __init__(self, workers: int, cell: int, times: int) -> None:
        super().__init__(workers)
        self.cell, self.times = cell, times

    def start(self, queue: list[Batch]) -> bool:
        # Stopped while the batch is given out, so that no worker is done before it is killed.
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        started = super().start(queue)
        for worker in self._workers:
            if worker.batch is not None and self.cell in worker.batch.cells and self.times:
                self.times -= 1
                os.kill(worker.process.pid or 0, signal.SIGKILL)
        for worker in self._workers:
            os.kill(worker.process.pid or 0, signal.SIGCONT)
        return started


def test_a_killed_worker_costs_the_retry_of_its_batch_only(tmp_path: Path) -> None:
    store, taken = worked(Mortal(2, cell=4, times=1), tmp_path)
    assert (store.status == 1).all()
    died = [outcome for outcome in taken if outcome.died]
    assert [outcome.batch.cells for outcome in died] == [(3, 4, 5)]
    assert died[0].reason == "its process died (SIGKILL)"
    assert len(taken) == 5  # four batches, one of them twice


class Poisoned(Here):
    """An executor in which every batch with a certain cell dies."""

    def finished(self) -> list[Outcome]:
        return [
            Outcome(one.batch, None, "its process died (SIGKILL)", died=True)
            if 4 in one.batch.cells
            else one
            for one in super().finished()
        ]


def test_a_cell_that_kills_every_time_is_recorded_and_the_rest_is_done(tmp_path: Path) -> None:
    store, taken = worked(Poisoned(), tmp_path)
    assert np.flatnonzero(store.status != 1).tolist() == [4]
    assert store.status[4] == 2
    sizes = [len(outcome.batch.cells) for outcome in taken if outcome.died]
    assert sizes == [3, 3, 2, 2, 1, 1]  # whole, again, in halves


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("RESOURCE_EXHAUSTED: 1 TB")])
def test_running_out_of_memory_is_told_apart(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    from depthrank.sweeps import tasks

    def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setitem(tasks._RUNS, "limits", refuse)
    outcome = attempt(batches_of(load(LIMITS))[0])
    assert outcome.died
    assert outcome.reason == "out of memory"


def test_ctrl_c_keeps_what_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from depthrank.sweeps import open_sweep, tasks

    real = tasks._RUNS["limits"]

    def interrupted(batch: Batch, progress: Any) -> Any:
        if 6 in batch.cells:
            raise KeyboardInterrupt
        return real(batch, progress)

    monkeypatch.setitem(tasks._RUNS, "limits", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sweep(LIMITS, tmp_path / "a.zarr")
    assert int((open_sweep(tmp_path / "a.zarr").status == "done").sum()) == 6
    assert not (tmp_path / "a.zarr.lock").exists()
