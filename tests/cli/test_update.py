"""`depthrank update`: new entries into a saved model, whole or not at all."""

import csv

import numpy as np
import pytest

from depthrank.completion.estimator import DeepMatrixCompletion
from tests.cli.test_complete import KEYS
from tests.completion.test_update import FIRST, reference

ALSO = {"strategy", "warm_stable_rank_bound", "predicted_plasticity_loss"}


@pytest.fixture(scope="module")
def fitted():
    return reference().fit(FIRST)


@pytest.fixture
def model(fitted, tmp_path):
    path = tmp_path / "model.depthrank"
    fitted.save(path)
    return path


@pytest.fixture
def new(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("row,col,value\nu4,i1,4\nu4,i3,12\nu1,i4,4\nu2,i4,8\nu1,i1,1\n")
    return path


def test_new_cells_are_taken_in_and_the_model_replaced(run, model, new, tmp_path):
    out, report = tmp_path / "out.csv", tmp_path / "page.html"
    words = ("--json", "--compare", "-o", out, "--report", report)
    said = run("update", model, new, *words)
    assert said.status == 0
    found = said.json
    assert found.keys() >= KEYS | ALSO
    assert (found["strategy"], found["shape"]) == ("warm", [4, 4])
    assert (found["new_cells"], found["unchanged"]) == (4, 1)
    assert found["before"]["shape"] == [3, 3]
    assert found["compare"]["cold"]["effective_rank"] == pytest.approx(1, abs=1e-2)
    assert not found["compare"]["differ"]
    loaded = DeepMatrixCompletion.load(model)
    assert loaded.predict(["u4"], ["i4"])[0] == pytest.approx(16, rel=0.05)
    with out.open(newline="") as file:
        lines = list(csv.reader(file))
    assert len(lines) == 17
    page = report.read_text()
    assert "Before and after" in page
    assert "from scratch" in page
    assert "<script" not in page


def test_people_see_what_was_new_and_why(run, model, new, tmp_path):
    kept = model.read_bytes()
    other = tmp_path / "other.depthrank"
    said = run("update", model, new, "--model", other)
    assert said.status == 0
    assert "New: 4 new cells, 0 corrected values, 1 new row, 1 new column; 1 cell as before." in (
        said.out
    )
    assert "Strategy: warm." in said.out
    assert "resuming is fastest" in said.out
    assert model.read_bytes() == kept
    assert other.exists()


def test_nothing_new_leaves_the_file(run, model, tmp_path):
    kept = model.read_bytes()
    for name, text in (
        ("known.csv", "row,col,value\nu1,i1,1\n"),
        ("empty.csv", ",i1,i2,i3\nu1,,,\nu2,,,\n"),
    ):
        (tmp_path / name).write_text(text)
        said = run("update", model, tmp_path / name, "--json")
        assert said.status == 0
        assert said.json["strategy"] == "none"
        assert "the model stays as it is" in said.err
        assert model.read_bytes() == kept


def test_ws12_wide_tables_are_realigned_or_name_what_is_missing(run, model, tmp_path):
    (tmp_path / "turned.csv").write_text(",i3,i1,i2\nu4,12,,8\n")
    said = run("update", model, tmp_path / "turned.csv", "--json")
    assert said.json["new_rows"] == 1
    assert DeepMatrixCompletion.load(model).predict(["u4"], ["i1"])[0] == pytest.approx(4, rel=0.02)
    (tmp_path / "thin.csv").write_text(",i1,i2\nu5,5,10\n")
    said = run("update", model, tmp_path / "thin.csv")
    assert (said.status, said.out) == (2, "")
    assert "lacks the column 'i3' of the model" in said.err


def test_interruption_leaves_the_file_and_ends_with_130(run, model, new, monkeypatch, tmp_path):
    kept = model.read_bytes()

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("depthrank.completion.candidates.run", stop)
    out = tmp_path / "out.csv"
    said = run("update", model, new, "-o", out)
    assert said.status == 130
    assert "nothing was written" in said.err
    assert model.read_bytes() == kept
    assert not out.exists()


def test_wrong_input_is_one_message(run, model, new, tmp_path):
    whole = model.read_bytes()
    thin = tmp_path / "thin.csv"
    thin.write_text("row,col,value\nu4,i1,4\n")
    cut = tmp_path / "cut.depthrank"
    cut.write_bytes(whole[: len(whole) // 2])
    for words, message in (
        ((cut, new), "is not a model file, or is damaged"),
        ((tmp_path / "none.depthrank", new), "there is no model file"),
        ((model, new, "--depth", "2"), "model has depth 3, depth=2 is asked for"),
        ((model, new, "--holdout", "1"), r"--holdout is 1.0; it must lie in [0, 1)"),
        ((model, new, "--report", "x.txt"), "must end in .html or .htm"),
        ((model, thin, "--holdout", "0.5"), "no new cell can be spared"),
    ):
        said = run("update", *words)
        assert (said.status, said.out) == (2, "")
        assert message in said.err
        assert "Traceback" not in said.err
    assert model.read_bytes() == whole
    np.testing.assert_equal(run("update", model, new, "--strategy", "hot").status, 2)
