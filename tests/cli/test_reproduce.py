"""`depthrank reproduce`: claims, verdicts, what is written, and how it ends."""

import json
import sys
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from depthrank import studies
from depthrank.studies import Study
from depthrank.studies.claim import above, below
from depthrank.studies.study import Data


def example(name: str, measured: float, stop: bool = False) -> Study:
    """Return a study that takes no time."""

    def run(settings: Any, seed: int) -> Data:
        if stop:
            raise KeyboardInterrupt
        return {"x": measured + seed}

    def figure(data: Data) -> Figure:
        drawn = Figure()
        drawn.subplots().plot([0, 1], [0, data["x"]])
        return drawn

    return Study(
        name=name,
        title=f"Title of {name} <&>",
        source="Theorem 0",
        summary="A summary.",
        caption="A caption.",
        quick="quick",
        full="full",
        run=run,
        figure=figure,
        claims=lambda data: [
            below(f"{name}/small", "It is small.", data["x"], 1.0),
            above(f"{name}/any", "It is <anything>.", -np.inf, -np.inf, n_seeds=3),
        ],
        table=lambda data: (["", "x"], [["row", f"{data['x']:g}"]]),
    )


@pytest.fixture
def three(monkeypatch):
    def put(*chosen):
        monkeypatch.setattr(studies, "STUDIES", chosen)

    put(example("good", 0.5), example("poor", 2.0), example("cut", 0.0, stop=True))
    return put


def test_claims_hold_and_everything_is_written(run, three, tmp_path):
    out = tmp_path / "there" / "below"
    said = run("reproduce", "good", "--out", out)
    assert said.status == 0
    assert "holds  good/small: 0.5 (expected at most 1)" in said.out
    assert "2 of 2 claims hold" in said.out
    assert sorted(p.name for p in out.iterdir()) == [
        "claims.json",
        "good.png",
        "good.svg",
        "index.html",
    ]
    page = (out / "index.html").read_text()
    assert "All 2 claims hold." in page
    assert "Title of good &lt;&amp;&gt;" in page
    assert "data:image/svg+xml;base64," in page
    assert "<script" not in page
    assert "http" not in page.split("Content-Security-Policy")[1]


def test_json_shape(run, three, tmp_path):
    said = run("reproduce", "good", "poor", "--jobs", 1, "--json", "--out", tmp_path, "--seed", "0")
    assert said.status == 1
    found = said.json
    assert found.keys() >= {"claims", "seconds"}
    assert [claim["id"] for claim in found["claims"]] == [
        "good/small",
        "good/any",
        "poor/small",
        "poor/any",
    ]
    for claim in found["claims"]:
        assert claim.keys() >= {"id", "statement", "measured", "expected", "verdict"}
    assert [claim["verdict"] for claim in found["claims"]] == ["holds", "holds", "fails", "holds"]
    assert json.loads((tmp_path / "claims.json").read_text()) == found


def test_failing_claim_ends_with_status_1_and_is_named(run, three, tmp_path):
    said = run("reproduce", "poor", "--out", tmp_path)
    assert said.status == 1
    assert "1 of 2 claims hold" in said.out
    assert "fails: poor/small" in said.out
    assert 'class="fails">fails<' in (tmp_path / "index.html").read_text()


def test_ctrl_c_keeps_what_is_done(run, three, tmp_path):
    said = run("reproduce", "good", "cut", "poor", "--jobs", 1, "--out", tmp_path, "--json")
    assert said.status == 130
    assert "1 of 3 studies are kept" in said.err
    assert [claim["id"] for claim in said.json["claims"]] == ["good/small", "good/any"]
    assert "Interrupted: cut, poor did not finish." in (tmp_path / "index.html").read_text()


def test_unknown_study_names_the_nearest(run, tmp_path):
    said = run("reproduce", "limit", "--out", tmp_path / "none")
    assert said.status == 2
    assert "there is no study 'limit'; did you mean 'limits'?" in said.err
    assert not (tmp_path / "none").exists()


def test_list(run):
    said = run("reproduce", "--list")
    assert said.status == 0
    assert len(said.out.splitlines()) == len(studies.STUDIES) == 15
    listed = run("reproduce", "--list", "--json").json["studies"]
    assert [one["name"] for one in listed] == [study.name for study in studies.STUDIES]


def test_quiet_says_nothing(run, three, tmp_path):
    said = run("reproduce", "good", "--out", tmp_path, "--quiet")
    assert (said.status, said.out, said.err) == (0, "", "")


def test_a_file_in_the_way_is_refused(run, three, tmp_path):
    (tmp_path / "file").write_text("x")
    said = run("reproduce", "good", "--out", tmp_path / "file")
    assert said.status == 2
    assert "Not a directory" in said.err


def test_a_study_that_needs_an_extra_runs_only_when_named_and_says_what_to_install(
    run, tmp_path, monkeypatch
):
    from depthrank.cli.reproduce import _choose

    assert "networks" not in [one.name for one in _choose([], studies.STUDIES)]
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "depthrank.networks", raising=False)
    said = run("reproduce", "networks", "--out", tmp_path)
    assert said.status == 2
    assert "pip install 'depthrank[torch]'" in said.err
