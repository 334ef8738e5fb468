"""What all commands share: help, version, status, one message."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import depthrank
from depthrank.cli import cache, console, progress
from depthrank.cli.main import app

COMMANDS = ("complete", "diagnose", "flow", "limits", "spectra")
START = [sys.executable, "-c", "from depthrank.cli.main import main; main()"]


def process(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a process of its own."""
    return subprocess.run(
        [*START, *map(str, words)],
        capture_output=True,
        text=True,
        env={**os.environ, "DEPTHRANK_CACHE": "off", **environment},
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example(run, name):
    said = run(name, "--help")
    assert said.status == 0
    assert f"  depthrank {name} " in said.out.split("Example")[1]
    assert "--json" in said.out


def test_help_lists_the_commands_and_version_is_that_of_the_package(run):
    said = run("--help")
    assert all(f"\n  {name} " in said.out for name in COMMANDS)
    assert run("--version").out == f"depthrank {depthrank.__version__}\n"
    assert run().status == 2


@pytest.mark.parametrize("words", [["--help"], ["complete", "--help"]])
def test_help_loads_nothing_heavy(words):
    code = (
        "import sys\nfrom depthrank.cli.main import app\n"
        f"try: app({words})\nexcept SystemExit: pass\n"
        "heavy = ('jax', 'numpy', 'pandas', 'matplotlib', 'rich', 'sklearn', 'xarray')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.strip() == "[]"


def test_help_answers_in_under_four_tenths_of_a_second():
    """Processor time of the best of three: what a quiet machine would take by the clock."""

    def seconds():
        before = os.times()
        assert process("complete", "--help", PYTHONDONTWRITEBYTECODE="").returncode == 0
        after = os.times()
        return sum(after[2:4]) - sum(before[2:4])

    assert min(seconds() for _ in range(3)) < 0.4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["sing"], "No such command 'sing'"),
        (["limits", "--depth", "3"], "Missing option '--alpha'"),
        (["limits", "--depth", "x", "--alpha", "1", "--m", "2"], "Invalid value for '--depth'"),
        (["complete"], "Missing argument 'INPUT'"),
        (["complete", "no.csv"], "'no.csv' cannot be read: No such file"),
        (["complete", "no.csv", "--offsets", "most"], "Invalid value for '--offsets'"),
    ],
)
def test_bad_usage_is_one_message_and_status_2(run, words, message):
    said = run(*words)
    assert (said.status, said.out) == (2, "")
    assert said.err.count("Error") == 1
    assert message in said.err


def test_no_traceback_in_a_process_of_its_own(tmp_path):
    (tmp_path / "empty.csv").touch()
    done = process("diagnose", tmp_path / "empty.csv")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: '{tmp_path / 'empty.csv'}': the file is empty.\n"


def test_ctrl_c_saves_what_there_is_and_ends_with_130(tmp_path):
    """A flow without end, interrupted once it is under way."""
    page = tmp_path / "run.html"
    words = ["flow", "--dimension", "4", "--depth", "3", "--alpha", "1e-3", "--m", "2"]
    words += ["--tol", "0", "--solver", "tsit5", "--report", page]
    code = START[2].replace("import main;", "import main; from depthrank.cli import progress;")
    code = code.replace("; main()", "; progress.LINE_SECONDS = 0.0; main()")
    running = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert running.stderr is not None
    assert running.stderr.readline().startswith("flow: squared residual")
    running.send_signal(signal.SIGINT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 130
    assert "interrupted" in out
    assert err.splitlines()[-1] == "Interrupted; this is the state that was reached."
    assert "Traceback" not in err
    assert page.stat().st_size > 10_000


def test_ctrl_c_before_anything_is_there_is_130_too(run, monkeypatch):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("depthrank.theory.limits", stop)
    said = run("limits", "--depth", "3", "--alpha", "1", "--m", "2", "--dimension", "4")
    assert (said.status, said.err) == (130, "Interrupted; nothing was written.\n")


def test_second_run_of_one_shape_compiles_nothing(tmp_path):
    words = ["flow", "--dimension", "3", "--depth", "2", "--alpha", "0.1", "--m", "2", "--json"]
    first = process(*words, DEPTHRANK_CACHE=str(tmp_path))
    kept = {path.name for path in tmp_path.rglob("*-cache")}
    assert first.returncode == 0
    assert kept
    second = process(*words, DEPTHRANK_CACHE=str(tmp_path), JAX_LOG_COMPILES="0")
    assert {path.name for path in tmp_path.rglob("*-cache")} == kept
    assert second.stderr == ""  # loading says nothing


def test_cache_moves_and_can_be_turned_off(tmp_path):
    assert cache.folder({"DEPTHRANK_CACHE": "off"}) is None
    moved = cache.folder({"DEPTHRANK_CACHE": str(tmp_path)})
    usual = cache.folder({"XDG_CACHE_HOME": str(tmp_path)})
    assert moved is not None
    assert usual is not None
    assert moved.parent == tmp_path
    assert usual.parent == tmp_path / "depthrank"
    assert moved.name == usual.name


def test_library_leaves_the_cache_alone():
    code = "import os, depthrank.cli.main; print('JAX_COMPILATION_CACHE_DIR' in os.environ)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_json_has_no_nan_and_no_infinity():
    value = {"a": float("nan"), "b": (float("inf"), -float("inf")), 3: Path("x")}
    assert console.plain(value) == {"a": None, "b": ["inf", "-inf"], "3": "x"}


def test_command_to_repeat_a_run_names_the_seed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["depthrank", "flow", "--plot", "a b.png"])
    assert console.asked(7) == "depthrank flow --plot 'a b.png' --seed 7"
    monkeypatch.setattr(sys, "argv", ["depthrank", "flow", "--seed=4"])
    assert console.asked(4) == "depthrank flow --seed=4"


class State:
    time, observed_mse, tol_mse, start_mse, validation_mse = 1.0, 1e-8, 1e-16, 1.0, float("inf")
    steps, evaluations, seconds = 1234, 5678, 9.0


def test_rp04_progress_off_a_terminal_is_a_few_plain_lines(capsys, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    with progress.Reporter("flow", quiet=False) as reporter:
        for tenth in range(600):
            clock[0] = tenth / 10
            reporter.callback(State)
    said = capsys.readouterr()
    assert said.out == ""
    assert "\r" not in said.err
    assert said.err.splitlines() == 2 * [
        "flow: squared residual 1.0e-08 (until 1e-16), 1,234 steps, 5,678 evaluations, 9 s"
    ]


def test_rp03_quiet_says_nothing(capsys, monkeypatch):
    monkeypatch.setattr(progress, "LINE_SECONDS", -1.0)
    with progress.Reporter("flow", quiet=True) as reporter:
        reporter.callback(State)
    assert capsys.readouterr() == ("", "")


def test_progress_is_the_share_of_the_way_in_logarithms():
    assert progress.log_share(1.0, 1e-8, 1e-16) == pytest.approx(0.5)
    assert progress.log_share(1.0, 2.0, 1e-16) == 0.0
    assert progress.log_share(1.0, 1e-20, 1e-16) == 1.0
    assert progress.log_share(1.0, 0.5, 0.0) is None


def test_app_is_one_group():
    assert app.info.name == "depthrank"
