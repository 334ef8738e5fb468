"""`depthrank spectra`: rank measures of weights."""

from typing import Any

import numpy as np
import pytest


@pytest.fixture
def layers(tmp_path):
    path = tmp_path / "weights.npz"
    skinny = np.random.default_rng(0).standard_normal((10, 5))
    np.savez(path, eye=np.eye(10), zero=np.zeros((10, 10)), skinny=skinny)
    return path


def test_rk15_every_layer_has_its_row_and_the_mean_stands_beside(run, layers):
    found = run("spectra", layers, "--json").json
    eye, zero, skinny = found["layers"]
    assert [row["max_rank"] for row in found["layers"]] == [10, 10, 5]
    assert [eye["name"], eye["shape"], eye["stable_rank"]] == ["eye", [10, 10], 10.0]
    assert (zero["effective_rank"], zero["numerical_rank"]) == (0.0, 0)
    assert 0 < skinny["normalised"]["stable_rank"] <= 1
    mean = sum(row["stable_rank"] for row in found["layers"]) / 3
    assert found["summary"]["mean"]["stable_rank"] == pytest.approx(mean)


def test_rk16_a_layer_with_nan_is_named_and_the_others_go_on(run, tmp_path):
    path = tmp_path / "weights.npz"
    np.savez(path, a=np.eye(3), b=np.full((2, 2), np.nan), c=np.eye(2))
    said = run("spectra", path, "--json")
    assert said.status == 1
    a, b, c = said.json["layers"]
    assert (a["stable_rank"], c["stable_rank"]) == (3.0, 2.0)
    assert (b["status"], b["stable_rank"]) == ("failed", None)
    assert "NaN" in b["reason"] or "nan" in b["reason"]
    assert "1 of 3 arrays could not be measured" in said.err
    shown = run("spectra", path)
    assert "Warning: b: " in shown.err
    assert "failed" in shown.out


def test_people_see_a_table_and_a_picture(run, layers, tmp_path):
    said = run("spectra", layers, "--plot", tmp_path / "spectra.svg")
    assert said.status == 0
    assert "weights.npz: 3 of 3 measured" in said.out
    assert "\n mean " in said.out
    assert b"<svg" in (tmp_path / "spectra.svg").read_bytes()


def test_names_are_no_markup(run, tmp_path):
    arrays: dict[str, Any] = {"[red]a[/red]": np.eye(2)}
    np.savez(tmp_path / "w.npz", **arrays)
    assert "[red]a[/red]" in run("spectra", tmp_path / "w.npz").out


def test_unknown_file_is_status_2(run, ratings):
    said = run("spectra", ratings)
    assert (said.status, said.out) == (2, "")
    assert "weights are read from .safetensors, .npz, .npy, .pt" in said.err


def test_comparison_and_histogram(run, layers, tmp_path):
    after = tmp_path / "after.npz"
    np.savez(after, eye=2 * np.eye(10), zero=np.zeros((10, 10)), fresh=np.eye(2))
    said = run("spectra", after, "--against", layers, "--histogram", tmp_path / "h.png")
    assert said.status == 0
    assert "Effective rank against weights.npz" in said.out
    assert "skinny: the first has [10, 5]" in said.err
    assert (tmp_path / "h.png").read_bytes().startswith(b"\x89PNG")
    rows = run("spectra", after, "--against", layers, "--json").json["comparison"]
    assert (rows[0]["distance"], rows[0]["change"]["stable_rank"]) == (1.0, 10.0)
    assert rows[1]["distance"] is None
