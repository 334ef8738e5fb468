"""Killed at random moments and resumed each time, a sweep ends as if nothing had happened."""

import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import xarray

from depthrank.sweeps import open_sweep

SHORT = """
task = "limits"
batch = 2
[fixed]
dimension = 5
[axes]
depth = [2, 3]
alpha = {log = [0.01, 1.0], points = 10}
m = [1.5, 2.0, 3.0, 4.0, 5.0, 6.0]
"""
LIMITS = """
task = "limits"
batch = 5
[fixed]
dimension = 5
[axes]
depth = [2, 3]
alpha = {log = [0.01, 1.0], points = 20}
m = {log = [1.5, 100.0], points = 10}
"""
FLOWS = """
batch = 10
[fixed]
pattern = "uniform"
rows = 5
columns = 4
rank = 2
fraction = 0.6
tol = 1e-8
max_steps = 300
[axes]
depth = [2, 3]
init_scale = {log = [0.01, 1.0], points = 10}
seed = {range = [0, 20]}
"""


def begin(config: Path, store: Path, *words: str) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "depthrank", "sweep", str(config), "--out", str(store)]
    return subprocess.Popen([*command, "--resume", "--quiet", *words])


def ended_equal(folder: Path, text: str, kills: int, workers: str = "1") -> list[int]:
    """Run once undisturbed and once killed so many times; return the cells done at each kill."""
    config = folder / "sweep.toml"
    config.write_text(text)
    words = ("--workers", workers)
    assert begin(config, folder / "whole.zarr", *words).wait() == 0
    chance = random.Random(7)
    done: list[int] = []
    killed = folder / "killed.zarr"
    for kill in range(kills):
        before, clock = last_commit(killed), time.monotonic()
        process = begin(config, killed, *words)
        if kill % 4 == 0:
            time.sleep(chance.uniform(0.0, 4.0))  # anywhere, while it starts too
        else:
            while last_commit(killed) == before and process.poll() is None:
                time.sleep(0.005)
            time.sleep(chance.uniform(0.0, 0.2))  # within the batch after, or its commit
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert time.monotonic() - clock < 300
        done.append(int((open_sweep(killed).status == "done").sum()) if killed.exists() else 0)
    assert begin(config, killed, *words).wait() == 0
    same(killed, folder / "whole.zarr")
    return done


def last_commit(store: Path) -> int:
    """Return when a status was last written, 0 for never."""
    with suppress(OSError):  # a file may be renamed meanwhile
        return max(
            (one.stat().st_mtime_ns for one in (store / "status").rglob("c/**/*")), default=0
        )
    return 0


def same(one: Path, other: Path) -> None:
    a, b = open_sweep(one), open_sweep(other)
    assert (a.status == "done").all()
    xarray.testing.assert_equal(a, b)
    for name in a.data_vars:
        if a[name].dtype.kind == "f":
            assert a[name].values.tobytes() == b[name].values.tobytes()


def test_killed_and_resumed_it_ends_the_same(tmp_path: Path) -> None:
    done = ended_equal(tmp_path, SHORT, kills=3)
    assert done == sorted(done)


@pytest.mark.slow
@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("text", [LIMITS, FLOWS], ids=["limits", "flows"])
def test_killed_twenty_times_four_hundred_cells_end_the_same(
    tmp_path: Path, text: str, workers: str, capsys: Any
) -> None:
    done = ended_equal(tmp_path, text, kills=20, workers=workers)
    with capsys.disabled():
        print(f"\nkilled at {done} of 400 cells")  # noqa: T201
