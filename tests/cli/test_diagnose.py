"""`depthrank diagnose`: connectivity, identifiability and a recommended depth."""

import numpy as np
import pytest


@pytest.fixture
def two_parts(tmp_path):
    """Two components, an empty row "gap" and an empty column "void"."""
    path = tmp_path / "parts.csv"
    path.write_text("name,a,b,c,d,void\np,1,2,,,\nq,3,4,,,\ngap,,,,,\nr,,,5,,\ns,,,6,7,\n")
    return path


def test_keys_and_counts(run, two_parts):
    found = run("diagnose", two_parts, "--json").json
    assert found["shape"] == [5, 5]
    assert (found["n_observed"], found["n_missing"], found["components"]) == (7, 18, 2)
    assert (found["isolated_rows"], found["isolated_cols"]) == (["gap"], ["void"])
    assert found["component_shapes"] == [[2, 2], [2, 2]]
    assert found["bridges"] == 3
    assert found["cells"] == {"observed": 7, "within": 1, "across": 8, "isolated": 9}
    assert found["coupled"] == {"1": False, "2": False, "3": True, "4": True}
    assert found["under_determined"]["2"] == {"rows": 2, "cols": 2}
    assert found["recommended_depth"] == 3
    assert "2 components" in found["reasons"][0]
    assert any("8 missing cells lie across components" in text for text in found["reasons"])
    assert any("1 row and 1 column without any observed" in text for text in found["reasons"])


def test_people_see_the_same(run, two_parts):
    said = run("diagnose", two_parts)
    assert said.status == 0
    assert "5 x 5, 7 cells observed" in said.out
    assert "rows without data     gap\n" in said.out
    assert "Recommended depth: 3" in said.out


def test_connected_and_single_rows(run, ratings, tmp_path):
    found = run("diagnose", ratings, "--json").json
    assert found["coupled"]["2"] is True
    assert found["reasons"][0].startswith("All observed cells hang together")
    np.save(tmp_path / "row.npy", [[1.0, np.nan, 2.0]])
    found = run("diagnose", tmp_path / "row.npy", "--json").json
    assert (found["recommended_depth"], found["isolated_cols"]) == (2, [1])


def test_reading_options_reach_the_reader(run, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("w;d;s\nA;x;1,5\nA;x;2,5\nB;y;-\nB;x;3\n")
    words = ("--rows", "w", "--cols", "d", "--values", "s", "--decimal", ",", "--missing", "-")
    found = run("diagnose", path, *words, "--json").json
    assert (found["shape"], found["n_observed"], found["duplicates"]) == ([2, 2], 2, 1)
    said = run("diagnose", path, *words, "--duplicates", "error")
    assert said.status == 2
    assert "'A'" in said.err


def test_huge_shape_is_no_obstacle(run, tmp_path):
    path = tmp_path / "huge.mtx"
    path.write_text(
        "%%MatrixMarket matrix coordinate real general\n200000 200000 2\n1 1 5\n2 200000 6\n"
    )
    said = run("diagnose", path)
    assert said.status == 0
    assert "2, 3, 4, 5, 6, 7, 8, 9, and 199,990 more" in said.out


def test_nothing_observed_is_an_error(run, tmp_path):
    np.save(tmp_path / "holes.npy", np.full((2, 3), np.nan))
    said = run("diagnose", tmp_path / "holes.npy")
    assert said.status == 2
    assert "no cell is observed" in said.err
