"""`depthrank sweep` from the command line."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

CONFIG = """
title = "A small one"
task = "limits"
batch = 4
[fixed]
dimension = 5
[axes]
depth = [2, 3]
alpha = {log = [0.01, 1.0], points = 6}
m = [1.5, 3.0, 10.0]
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(CONFIG)
    return path


@pytest.fixture
def store(run: Any, config: Path, tmp_path: Path) -> Path:
    path = tmp_path / "a.zarr"
    assert run("sweep", config, "--out", path, "--quiet").status == 0
    return path


def test_it_runs_and_says_how_it_stands(run: Any, config: Path, tmp_path: Path) -> None:
    said = run("sweep", config, "--out", tmp_path / "a.zarr", "--json")
    assert said.status == 0
    assert said.json["cells"] == said.json["done"] == 36
    assert said.json["failed"] == 0
    assert said.json["seconds"] > 0
    again = run("sweep", config, "--out", tmp_path / "a.zarr", "--resume")
    assert "36 of 36 cells done" in again.out


def test_a_dry_run_writes_nothing(run: Any, config: Path, tmp_path: Path) -> None:
    said = run("sweep", config, "--out", tmp_path / "a.zarr", "--dry-run")
    assert said.status == 0
    for words in ("36 cells", "10, for 2 programs", "time", "memory", "disk"):
        assert words in said.out
    found = run("sweep", config, "--out", tmp_path / "a.zarr", "--dry-run", "--json").json
    assert (found["cells"], found["batches"], found["done"]) == (36, 10, 0)
    assert not (tmp_path / "a.zarr").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "exists; give --resume"),
        (["--retry-failed"], "--retry-failed goes with --resume"),
    ],
)
def test_wrong_input_is_one_message(
    run: Any, config: Path, store: Path, words: list[str], message: str
) -> None:
    said = run("sweep", config, "--out", store, *words)
    assert said.status == 2
    assert message in said.err
    assert "Traceback" not in said.err


def test_a_bad_value_leaves_nothing_behind(run: Any, config: Path, tmp_path: Path) -> None:
    config.write_text(CONFIG.replace("10.0", "0.5"))
    said = run("sweep", config, "--out", tmp_path / "a.zarr")
    assert said.status == 2
    assert "m is 0.5: input should be greater than or equal to 1 (cell depth=2" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.toml"]


def test_show_says_n_of_n(run: Any, store: Path) -> None:
    said = run("sweep", "show", store, "--by", "depth", "--of", "stable_rank")
    assert said.status == 0
    assert "A small one: 36 of 36 cells done" in said.out
    assert said.out.count("18 of 18") == 2
    found = run("sweep", "show", store, "--json").json
    assert (found["cells"], found["done"], found["failed"]) == (36, 36, 0)
    assert [len(table) for table in found["averages"]] == [2, 6, 3]
    assert "18 of 18" in run("sweep", "show", store).out


def test_show_asks_for_what_is_there(run: Any, store: Path, tmp_path: Path) -> None:
    said = run("sweep", "show", store, "--of", "stable_rnak")
    assert said.status == 2
    assert "did you mean 'stable_rank'" in said.err
    assert run("sweep", "show", tmp_path / "none.zarr").status == 2


def test_plot_draws(run: Any, store: Path, tmp_path: Path) -> None:
    for name in ("a.png", "a.svg"):
        assert run("sweep", "plot", store, "--out", tmp_path / name).status == 0
        assert (tmp_path / name).stat().st_size > 5000
    said = run("sweep", "plot", store, "--out", tmp_path / "a.gif")
    assert said.status == 2


def test_export_writes_a_line_a_cell(run: Any, store: Path, tmp_path: Path) -> None:
    assert run("sweep", "export", store, tmp_path / "a.parquet").status == 0
    assert len(pd.read_parquet(tmp_path / "a.parquet")) == 36


def test_help_explains_all_commands(run: Any) -> None:
    assert "depthrank sweep phase.toml --out phase.zarr" in run("sweep", "--help").out
    assert (
        "n of N" in run("sweep", "show", "--help").out
        or "of how many" in run("sweep", "show", "--help").out
    )


@pytest.mark.parametrize(
    ("given", "passed"),
    [
        (["a.toml", "--ray"], ["a.toml", "--ray=local"]),
        (["--ray", "a.toml"], ["--ray=local", "a.toml"]),
        (["a.toml", "--ray", "10.0.0.7:6379"], ["a.toml", "--ray", "10.0.0.7:6379"]),
        (["a.toml", "--ray", "auto", "--json"], ["a.toml", "--ray", "auto", "--json"]),
        (["a.toml", "--ray", "--json"], ["a.toml", "--ray=local", "--json"]),
    ],
)
def test_the_address_of_ray_may_be_left_out(given: list[str], passed: list[str]) -> None:
    from depthrank.cli.sweep import _with_address

    assert _with_address(given) == passed


def test_without_ray_it_says_how_to_get_it(
    run: Any, config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    said = run("sweep", config, "--out", tmp_path / "a.zarr", "--ray")
    assert said.status == 2
    assert "pip install 'depthrank[ray]'" in said.err


@pytest.mark.skipif(os.name == "nt", reason="needs resource limits")
def test_a_file_that_may_grow_no_more_is_one_message(config: Path, tmp_path: Path) -> None:
    """The kernel refuses writes past a size, as it does on a full disk."""
    code = (
        "import resource, signal, sys\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))\n"
        "sys.argv = ['depthrank', *sys.argv[1:]]\n"
        "from depthrank.cli.main import main; main()"
    )
    command = [sys.executable, "-c", code, "sweep", str(config), "--out", str(tmp_path / "a.zarr")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: cannot ")
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "a.zarr").exists()


def test_progress_says_rate_and_time_left() -> None:
    from depthrank.cli.progress_count import about
    from depthrank.sweeps import Count

    count = Count(cells=100, done=40, failed=10, fresh=25, running=0.0, seconds=5.0)
    assert about(count) == "40 of 100 done, 10 failed, 5 cells/s, 10 s left, 5 s"
    first = Count(cells=100, done=0, failed=0, fresh=0, running=0.25, seconds=5.0)
    assert about(first) == "0 of 100 done, 25% of the first batch, 5 s"
