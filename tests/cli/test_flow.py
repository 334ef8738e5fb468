"""`depthrank flow`: the flow, against the closed form and from the command line's side."""

import numpy as np
import pytest

from depthrank.dynamics.trajectory import read_course


def flow_and_limits(run, *setting, tol="1e-16"):
    flowed = run("flow", *setting, "--tol", tol, "--json")
    assert flowed.status == 0
    return flowed.json, run("limits", *setting, "--json").json


@pytest.mark.parametrize(("depth", "m"), [(2, "2"), (3, "2"), (4, "2"), (2, "inf"), (3, "inf")])
def test_diagonal_ends_fitted_at_the_closed_form(run, depth, m):
    setting = ("--dimension", "10", "--depth", depth, "--alpha", "0.01", "--m", m)
    found, exact = flow_and_limits(run, *setting)
    assert found["stopped_by"] == "fitted"
    assert found["converged"] is True
    np.testing.assert_allclose(found["singular_values"], exact["singular_values"], rtol=1e-6)
    for key in ("coupled", "regime"):
        assert found[key] == exact[key]
    assert found["limit"]["largest_relative_difference"] < 1e-6
    assert found["stable_rank"] == pytest.approx(exact["stable_rank"], rel=1e-9)


def test_blocks_end_fitted_at_the_closed_form(run):
    """The modes inside blocks decay only algebraically: a loose end will do for the others."""
    setting = ("--blocks", "3", "--block-size", "2", "--depth", "3", "--alpha", "0.1", "--m", "3")
    found, exact = flow_and_limits(run, *setting, tol="1e-9")
    assert found["stopped_by"] == "fitted"
    ours, theirs = found["singular_values"][:3], exact["singular_values"][:3]
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert max(found["singular_values"][3:]) < 1e-4
    assert found["coupled"] is exact["coupled"] is True


def test_rp06_drawn_seed_is_reported_and_repeats_the_run(run):
    made = ("--pattern", "uniform", "--shape", "6x4", "--fraction", "0.7", "--rank", "1")
    words = ("flow", *made, "--depth", "2", "--json")
    first = run(*words).json
    again = run(*words, "--seed", first["seed"]).json
    for key in ("singular_values", "loss", "reconstruction_error", "time", "evaluations"):
        assert first[key] == again[key]
    assert first["regime"].startswith("no closed form: ")
    assert first["limit"] is None


def test_file_and_pattern_give_the_same_flow(run, tmp_path):
    table = np.full((3, 3), np.nan)
    np.fill_diagonal(table, 1.0)
    np.save(tmp_path / "diagonal.npy", table)
    setting = ("--depth", "3", "--alpha", "0.1", "--m", "2", "--json")
    made = run("flow", "--dimension", "3", *setting).json
    read = run("flow", "--input", tmp_path / "diagonal.npy", *setting).json
    assert made["singular_values"] == read["singular_values"]
    assert read["limit"]["largest_relative_difference"] < 1e-6
    assert read["regime"] == "equal diagonal blocks with one value: Theorem 3.3"


@pytest.mark.parametrize("ending", ["nc", "zarr"])
def test_pl01_pictures_course_and_page_are_written_without_a_display(
    run, tmp_path, monkeypatch, ending
):
    monkeypatch.delenv("DISPLAY", raising=False)
    course = tmp_path / f"run.{ending}"
    words = ("flow", "--dimension", "3", "--depth", "2", "--alpha", "0.3", "--m", "2", "--quiet")
    for picture in ("run.png", "run.svg"):
        said = run(*words, "--plot", tmp_path / picture, "--save", course)
        assert (said.status, said.out, said.err) == (0, "", "")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in (tmp_path / "run.svg").read_bytes()
    saved = read_course(course)
    assert float(saved["loss"][-1]) <= 0.5 * 3 * 1e-14  # the default threshold on three cells
    assert {path.name for path in tmp_path.iterdir()} == {"run.png", "run.svg", course.name}


def test_recorded_times_are_those_asked_for(run, tmp_path):
    words = ("flow", "--dimension", "3", "--depth", "2", "--alpha", "0.3", "--m", "2", "--quiet")
    assert run(*words, "--times", "0.5,1,2", "--save", tmp_path / "run.nc").status == 0
    assert read_course(tmp_path / "run.nc")["time"].values.tolist() == [0.5, 1.0, 2.0]


def test_optimiser_takes_the_place_of_the_flow(run):
    words = ("flow", "--dimension", "3", "--depth", "2", "--alpha", "0.3", "--m", "2", "--json")
    found = run(*words, "--optimizer", "sgd", "--learning-rate", "0.05", "--steps", "50")
    assert found.status == 0
    assert (found.json["stopped_by"], found.json["steps"]) == ("steps", 50)
    assert found.json["time"] == pytest.approx(2.5)
    assert any("steps" in text for text in found.json["warnings"])
    assert found.err.startswith("Warning: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--dimension", "4", "--alpha", "1"), "--init alpha-m needs --alpha A and --m M"),
        (("--dimension", "4", "--init", "identity", "--m", "2"), "belong to --init alpha-m"),
        (("--shape", "4by5"), "--shape is '4by5'; write rows and columns as in 20x30"),
        ((), "the size is missing or given twice"),
        (("--dimension", "4", "--pattern", "bernoulli"), "bernoulli needs --fraction"),
        (("--dimension", "4", "--pattern", "disconnected"), "disconnected needs --components"),
        (("--dimension", "4", "--pattern", "uniform", "--count", "0"), "observes no entry"),
        (
            ("--dimension", "4", "--pattern", "uniform", "--block-size", "2"),
            "belong to the pattern",
        ),
        (("--dimension", "5", "--block-size", "2"), "no multiple of --block-size 2"),
        (("--blocks", "0"), "--blocks is 0; it must be >= 1"),
        (("--blocks", "2", "--dimension", "5"), "--dimension 5 is not --blocks 2 times 1"),
        (("--dimension", "4", "--rank", "5"), "--rank is 5; it must lie between 1 and 4"),
        (("--dimension", "4", "--times", "1,b"), "--times is '1,b'"),
        (("--dimension", "4", "--times", "2,1"), "strictly increasing"),
        (("--dimension", "4", "--optimizer", "sgd"), "go together; give both"),
        (("--dimension", "4", "--input", "x.csv"), "makes a problem and --input reads one"),
        (("--dimension", "4", "--plot", "run.gif"), r"must end in .png or .svg or .pdf"),
        (("--dimension", "4", "--save", "no/run.nc"), "the folder .*no' does not exist"),
        (("--dimension", "200000"), "needs .* GiB"),
    ],
)
def test_wrong_options_are_named(run, words, message):
    import re

    said = run("flow", "--depth", "2", *words)
    assert (said.status, said.out) == (2, "")
    assert re.search(message, said.err)


def test_optimiser_refuses_what_belongs_to_the_flow(run):
    words = ("flow", "--depth", "2", "--dimension", "3", "--optimizer", "sgd")
    said = run(*words, "--learning-rate", "0.1", "--solver", "tsit5")
    assert said.status == 2
    assert "--solver belongs to the flow" in said.err


def test_python_lines_of_the_page_do_the_same(run, tmp_path):
    page = tmp_path / "run.html"
    words = ("--pattern", "banded", "--shape", "5x4", "--rank", "1", "--depth", "2")
    found = run(*("flow", *words, "--tol", "1e-10", "--seed", "3", "--json", "--report", page)).json
    import html

    lines = html.unescape(page.read_text().split("<pre>")[-1].split("</pre>")[0])
    scope: dict[str, object] = {}
    exec(lines, scope)
    assert scope["run"].singular_values.tolist() == found["singular_values"]  # type: ignore[attr-defined]
