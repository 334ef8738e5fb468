"""Stores: complete or absent, readable at any moment, resumed only where they belong."""

import json
import os
import subprocess
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

from depthrank.errors import DepthrankError
from depthrank.sweeps import averages, frame, open_sweep, sweep
from depthrank.sweeps.config import load
from depthrank.sweeps.lock import lock_path, locked, owner
from depthrank.sweeps.store import Store
from depthrank.sweeps.summary import write_parquet
from depthrank.theory import limits

CONFIG: dict[str, Any] = {
    "task": "limits",
    "batch": 4,
    "fixed": {"dimension": 5, "m": 3.0},
    "axes": {"depth": [2, 3], "alpha": {"log": [0.01, 1.0], "points": 6}},
}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    sweep(CONFIG, tmp_path / "a.zarr")
    return tmp_path / "a.zarr"


def test_values_stand_at_their_labels(store: Path) -> None:
    ds = open_sweep(store)
    assert ds.stable_rank.dims == ("depth", "alpha")
    exact = limits(depth=3, alpha=0.01, m=3.0, dimension=5)
    found = float(ds.stable_rank.sel(depth=3, alpha=0.01))
    assert found == pytest.approx(exact.stable_rank, rel=1e-14)
    assert (ds.status == "done").all()
    assert (ds.reason == "").all()
    assert ds.attrs["task"] == "limits"
    assert json.loads(ds.attrs["runs"])[0]["cells"] == 12


def test_any_zarr_reader_can_open_it(store: Path) -> None:
    raw = xarray.open_zarr(store, consolidated=False, chunks=None)
    assert raw.status.attrs["flag_meanings"] == "pending done failed absent"
    assert int(raw.status.sum()) == 12


def test_texts_label_axes(tmp_path: Path) -> None:
    cases = [{"label": "half", "value": 0.5}, {"label": "one", "value": 1.0}]
    ds = sweep(
        CONFIG | {"axes": {"depth": [3], "alpha": [0.1], "size": cases}}, tmp_path / "t.zarr"
    )
    exact = limits(depth=3, alpha=0.1, m=3.0, dimension=5, value=0.5)
    sigma = ds.sigma_1.sel(size="half").item()
    assert sigma == pytest.approx(exact.singular_values[0], rel=1e-14)


def test_a_sweep_without_axes_is_one_cell(tmp_path: Path) -> None:
    fixed = {"dimension": 5, "m": 3.0, "depth": 3, "alpha": 0.1}
    ds = sweep({"task": "limits", "fixed": fixed}, tmp_path / "one.zarr")
    assert ds.stable_rank.dims == ()
    assert ds.status.item() == "done"


def test_it_is_not_written_over(store: Path) -> None:
    with pytest.raises(DepthrankError, match="exists; give --resume to go on with it"):
        sweep(CONFIG, store)


def test_resuming_a_finished_sweep_does_nothing(store: Path) -> None:
    seen: list[Any] = []
    sweep(CONFIG, store, resume=True, progress=seen.append)
    assert seen == []


def test_a_config_that_differs_is_refused_with_the_difference(store: Path) -> None:
    other = CONFIG | {"fixed": {"dimension": 5, "m": 4.0}}
    with pytest.raises(DepthrankError, match=r"differ in\n  fixed.m: 3 in the store, 4 in the"):
        sweep(other, store, resume=True)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("depthrank_sweep_format", 99, "has sweep format 99, written by depthrank .* reads format"),
        ("depthrank_version", "0.0.7", "was begun by depthrank 0.0.7; this is"),
    ],
)
def test_a_store_of_another_version_is_refused(
    store: Path, key: str, value: Any, message: str
) -> None:
    meta = json.loads((store / "zarr.json").read_text())
    meta["attributes"][key] = value
    (store / "zarr.json").write_text(json.dumps(meta))
    with pytest.raises(DepthrankError, match=message):
        sweep(CONFIG, store, resume=True)
    if key == "depthrank_sweep_format":
        with pytest.raises(DepthrankError, match=message):
            open_sweep(store)
    else:
        open_sweep(store)  # reading is fine


def test_what_is_no_sweep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DepthrankError, match="there is no sweep at"):
        open_sweep(tmp_path / "none.zarr")
    (tmp_path / "folder").mkdir()
    with pytest.raises(DepthrankError, match="holds no sweep that can be read"):
        open_sweep(tmp_path / "folder")
    xarray.Dataset({"a": 1}).to_zarr(tmp_path / "other.zarr", consolidated=False)
    with pytest.raises(DepthrankError, match="is a zarr group, but not one of a sweep"):
        open_sweep(tmp_path / "other.zarr")


def test_there_must_be_a_folder_to_write_in(tmp_path: Path) -> None:
    with pytest.raises(DepthrankError, match=r"the folder .*none' does not exist; make it first"):
        sweep(CONFIG, tmp_path / "none" / "a.zarr")


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder nobody may write in")
def test_a_place_that_cannot_be_written_is_one_message() -> None:
    with pytest.raises(DepthrankError, match=r"cannot lock '/proc/self/a\.zarr'"):
        sweep(CONFIG, "/proc/self/a.zarr")


def test_a_disk_that_fills_keeps_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The third batch meets a full disk half-way through its variables."""
    real, written = Store._write, []

    def write(self: Store, name: str, flat: Any, values: Any) -> None:
        written.append(name)
        if written.count("stable_rank") == 3 and name == "sigma_1":
            raise OSError(28, "No space left on device")
        real(self, name, flat, values)

    monkeypatch.setattr(Store, "_write", write)
    with pytest.raises(DepthrankError, match=r"No space left on device. 6 of 12 cells are kept"):
        sweep(CONFIG, tmp_path / "full.zarr")
    ds = open_sweep(tmp_path / "full.zarr")
    assert int((ds.status == "done").sum()) == 6  # batches of 4 and 2
    monkeypatch.undo()
    resumed = sweep(CONFIG, tmp_path / "full.zarr", resume=True)
    whole = sweep(CONFIG, tmp_path / "whole.zarr")
    xarray.testing.assert_equal(resumed, whole)
    assert not lock_path(tmp_path / "full.zarr").exists()


def test_a_store_that_cannot_be_made_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import depthrank.sweeps.store as module

    def refuse(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(module, "_make_array", refuse)
    with pytest.raises(DepthrankError, match=r"cannot make the store .*: Read-only file system"):
        sweep(CONFIG, tmp_path / "ro.zarr")
    assert list(tmp_path.iterdir()) == []


def test_a_store_larger_than_the_disk_is_refused_before_it_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import depthrank.sweeps.running as module

    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(module.shutil, "disk_usage", lambda _: usage(2000, 1000, 1000))
    with pytest.raises(DepthrankError, match=r"the store needs about .*; .* are free"):
        sweep(CONFIG, tmp_path / "large.zarr")


def test_two_writers_cannot_hold_one_store(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    with locked(path):
        who = owner(path)
        assert who is not None
        assert who["pid"] == os.getpid()
        with pytest.raises(DepthrankError, match=f"is being written by process {os.getpid()} of"):
            sweep(CONFIG, path)
    assert owner(path) is None
    assert not path.exists()


def test_the_lock_of_a_killed_owner_is_taken_over(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    code = (
        "import os, sys; from pathlib import Path; from depthrank.sweeps.lock import locked\n"
        "with locked(Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert owner(path) is not None
    sweep(CONFIG, path)
    assert owner(path) is None


def test_a_lock_of_another_machine_says_how_to_clear_it(tmp_path: Path) -> None:
    path = tmp_path / "a.zarr"
    theirs = {"pid": 7, "host": "elsewhere", "user": "ada", "since": "2026-01-01T00:00:00+00:00"}
    lock_path(path).write_text(json.dumps(theirs))
    with pytest.raises(DepthrankError, match=r"process 7 of ada on elsewhere .*stale: remove it"):
        sweep(CONFIG, path)
    assert lock_path(path).exists()


def test_retrying_runs_failed_cells_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from depthrank.sweeps import tasks

    real = tasks._RUNS["limits"]

    def broken(batch: Any, progress: Any) -> Any:
        if any(cell.alpha == 1.0 for cell in batch.settings):
            raise RuntimeError("it broke")
        return real(batch, progress)

    monkeypatch.setitem(tasks._RUNS, "limits", broken)
    path = tmp_path / "a.zarr"
    ds = sweep(CONFIG, path)
    assert int((ds.status == "failed").sum()) == 2  # the rest of their batches is done
    assert str(ds.reason.sel(depth=2, alpha=1.0).item()).startswith("RuntimeError: it broke (")
    monkeypatch.undo()
    assert int((sweep(CONFIG, path, resume=True).status == "failed").sum()) == 2
    again = sweep(CONFIG, path, resume=True, retry_failed=True)
    xarray.testing.assert_equal(again, sweep(CONFIG, tmp_path / "whole.zarr"))


def test_averages_say_over_how_many(store: Path) -> None:
    found = averages(open_sweep(store), "stable_rank", ["depth"])
    values = open_sweep(store).stable_rank.values
    np.testing.assert_allclose(found["mean"], values.mean(axis=1), rtol=1e-14)
    half = 2.570581835636314 * values.std(axis=1, ddof=1) / np.sqrt(6)  # t of 5 degrees, 97.5 %
    np.testing.assert_allclose(found["high"] - found["mean"], half, rtol=1e-9)
    assert (found.n == 6).all()
    with pytest.raises(DepthrankError, match="no variable 'stable_rnak'; did you mean 'stable"):
        averages(open_sweep(store), "stable_rnak")
    with pytest.raises(DepthrankError, match="no axis 'dept'; there are depth, alpha"):
        averages(open_sweep(store), "stable_rank", ["dept"])


def test_it_becomes_a_table(store: Path, tmp_path: Path) -> None:
    import pandas as pd

    data = open_sweep(store)
    table = frame(data)
    assert len(table) == 12
    assert list(table.columns[:4]) == ["depth", "alpha", "status", "reason"]
    assert write_parquet(data, tmp_path / "t.parquet") == 12
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "t.parquet"), table, check_dtype=False)
    assert load(CONFIG).place(7) == "depth=3, alpha=0.0251189"
