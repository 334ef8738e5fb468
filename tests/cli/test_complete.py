"""`depthrank complete`: a file goes in, a full one comes out, or one message."""

import csv
import os

import numpy as np
import pytest

import depthrank
from tests.cli.test_main import process

KEYS = {
    *("shape", "n_observed", "components", "depth", "weight_decay", "init_scale", "stopped_by"),
    *("observed_rmse", "validation_rmse", "holdout_rmse", "stable_rank", "effective_rank"),
    *("warnings", "seconds"),
}


def cells(path):
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_io15_wide_table_is_filled_with_its_labels(run, ratings, tmp_path):
    out = tmp_path / "filled.csv"
    said = run("complete", ratings, "-o", out, "--depth", "3", "--seed", "0")
    assert said.status == 0
    assert said.out.startswith(f"{ratings} -> {out}\n")
    head, *lines = cells(out)
    assert head == ["", "soup", "bread", "figs"]
    assert [line[0] for line in lines] == ["Ana", "Bo", "Cem", "Dee"]
    filled = np.array([[float(x) for x in line[1:]] for line in lines])
    truth = np.outer([1, 2, 3, 4], [1, 2, 3])
    np.testing.assert_allclose(filled, truth, rtol=1e-3)
    seen = depthrank.read(ratings)
    assert (filled[seen.rows, seen.cols] == seen.values).all()


def test_json_has_the_promised_keys_and_nothing_beside_it(run, low_rank_table):
    said = run("complete", low_rank_table, "--json", "--seed", "1", "--depth", "3")
    assert (said.status, said.err) == (0, "")
    assert said.json.keys() >= KEYS
    assert said.json["shape"] == [30, 12]
    assert said.json["holdout_rmse"] is None
    assert said.json["seed"] == 1


def test_held_out_cells_are_never_used_and_written_as_given(run, low_rank_table, tmp_path):
    """Changing a held-out value changes the error there and nothing else."""
    seen = depthrank.read(low_rank_table)
    train, held_out = seen.split(0.2, 5)
    wrong = seen.union(held_out.with_values(held_out.values + 100.0))
    np.save(tmp_path / "wrong.npy", wrong.to_dense())
    words = ("--holdout", "0.2", "--seed", "5", "--depth", "3", "--json", "-o")
    right_out, wrong_out = tmp_path / "a.npy", tmp_path / "b.npy"
    right = run("complete", low_rank_table, *words, right_out).json
    other = run("complete", tmp_path / "wrong.npy", *words, wrong_out).json
    assert right["holdout_rmse"] < 0.01 < right["baselines"]["row_plus_column"]
    assert other["holdout_rmse"] == pytest.approx(100.0, abs=0.1)
    assert right["n_trained"] + right["n_holdout"] == right["n_observed"] == seen.n_observed
    assert right["observed_rmse"] == other["observed_rmse"]
    gap = np.load(wrong_out) - np.load(right_out)
    gap[held_out.rows, held_out.cols] -= 100.0
    np.testing.assert_allclose(gap, 0.0, atol=1e-9)
    assert train.n_observed == right["n_trained"]


def test_rp06_seed_is_drawn_and_reported(run, low_rank_table, tmp_path):
    words = ("complete", low_rank_table, "--json", "--holdout", "0.1", "--depth", "2")
    first = run(*words, "-o", tmp_path / "a.npy").json
    again = run(*words, "-o", tmp_path / "b.npy", "--seed", first["seed"]).json
    assert first["holdout_rmse"] == again["holdout_rmse"]
    assert (tmp_path / "a.npy").read_bytes() == (tmp_path / "b.npy").read_bytes()


def test_people_see_sentences_and_baselines(run, low_rank_table):
    said = run("complete", low_rank_table, "--holdout", "0.1", "--depth", "3")
    assert "nothing written: no -o OUT" in said.out
    assert "cells never used: " in said.out
    assert "row plus column" in said.out
    assert "below the better of them" in said.out
    assert "in one component. Every missing cell is tied to observed ones." in said.out


def test_image_in_image_out(run, tmp_path):
    from PIL import Image

    rng = np.random.default_rng(0)
    grey = np.outer(rng.uniform(50, 250, 24), rng.uniform(0.3, 1, 20)).astype(np.uint8)
    alpha = np.where(rng.random(grey.shape) < 0.3, 0, 255).astype(np.uint8)
    Image.fromarray(np.dstack([grey, alpha]), "LA").save(tmp_path / "holes.png")
    words = ("--depth", "3", "--seed", "0", "--quiet", "--report", tmp_path / "page.html")
    said = run("complete", tmp_path / "holes.png", "-o", tmp_path / "whole.png", *words)
    assert (said.status, said.out) == (0, "")
    whole = np.asarray(Image.open(tmp_path / "whole.png"))
    assert whole.shape == grey.shape
    assert np.abs(whole.astype(int) - grey)[alpha == 0].mean() < 2
    assert "The filled table" not in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.csv", "", "the file is empty"),
        ("blank.csv", "\n\n", "empty|no cells"),
        ("head.csv", "a,b,c\n", "a header line and nothing else"),
        ("ragged.csv", "a,b,c\n1,2,3\n1,2,3,4\n1,2\n", "line 3.*line 4"),
        ("text.csv", ",a,b\nr,1,many\n", "line 2.*'many' is not a number"),
        ("page.csv", "<!DOCTYPE html><html></html>", "HTML"),
        ("holes.csv", ",a,b\nr,,\n", "no cell"),
        ("infinite.csv", ",a,b\nr,inf,1\n", "inf"),
        ("broken.npz", "PK nothing", "cannot be read|damaged|not"),
        (
            "huge.mtx",
            "%%MatrixMarket matrix coordinate real general\n200000 200000 1\n7 9 1.5\n",
            "200,000 x 200,000 table needs .* GiB",
        ),
    ],
)
def test_io05_me02_bad_input_is_one_message_and_no_file(run, tmp_path, name, content, message):
    import re

    (tmp_path / name).write_text(content)
    out = tmp_path / ("out" + (".mtx" if name.endswith(".mtx") else ".csv"))
    said = run("complete", tmp_path / name, "-o", out, "--report", tmp_path / "page.html")
    assert (said.status, said.out) == (2, "")
    assert said.err.startswith("Error: ")
    assert len(said.err.splitlines()) == 1
    assert re.search(message, said.err)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-o", "out.xyz"), "--out is 'out.xyz': the ending '.xyz' is not known"),
        (("-o", "out.png"), "--out is the image 'out.png', but the input is a table"),
        (("-o", "no/out.csv"), "the folder .* does not exist"),
        (("--report", "page.txt"), "--report is 'page.txt'; its name must end in .html"),
        (("--model", "m.zip"), "--model is 'm.zip'; its name must end in .depthrank"),
        (("--depth", "two"), "--depth is 'two'; it must be an integer, or auto"),
        (("--depth", "0"), "depth is 0"),
        (("--weight-decay", "much"), "--weight-decay is 'much'; it must be a number, or auto"),
        (("--holdout", "1.5"), r"--holdout is 1.5; it must lie in \[0, 1\)"),
    ],
)
def test_wrong_options_are_found_before_training(run, ratings, words, message):
    import re

    said = run("complete", ratings, *words)
    assert (said.status, said.out) == (2, "")
    assert re.search(message, said.err)


def test_holdout_that_no_cell_can_be_spared_for(run, tmp_path):
    (tmp_path / "thin.csv").write_text(",a,b\nr,1,\ns,,2\n")
    said = run("complete", tmp_path / "thin.csv", "--holdout", "0.5")
    assert said.status == 2
    assert "no cell can be spared" in said.err


def test_interruption_keeps_the_best_state_and_ends_with_130(
    run, low_rank_table, tmp_path, monkeypatch
):
    """Ctrl-C while the first flow is under way."""

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("depthrank.dynamics.run.Run._show", stop)
    out = tmp_path / "out.npy"
    said = run("complete", low_rank_table, "--depth", "3", "--seed", "0", "--json", "-o", out)
    assert said.status == 130
    assert said.json["stopped_by"] == "interrupted"
    assert said.err.splitlines()[-1] == "Interrupted; the best state so far was kept."
    assert np.isfinite(np.load(out)).all()


def test_rp04_a_process_of_its_own_writes_plain_lines(ratings, tmp_path):
    done = process("complete", ratings, "-o", tmp_path / "out.csv", "--seed", "0")
    assert done.returncode == 0
    assert "\r" not in done.stderr
    assert "\x1b" not in done.stdout + done.stderr
    assert os.path.exists(tmp_path / "out.csv")
