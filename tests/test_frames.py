"""Frames of pandas, polars and pyarrow: labels kept, nullable types read, text refused by name."""

import datetime
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from depthrank.errors import DepthrankError
from depthrank.observations import Observations

NAN = np.nan
TABLE = np.array([[1, 2, NAN], [2, NAN, 6], [NAN, 6, 9], [4, 8, 12.0]])
ROWS = ("r1", "r2", "r3", "r4")
COLS = ("c1", "c2", "c3")


def test_dt01_none_is_missing_and_text_is_refused_by_column_and_value():
    frame = pd.DataFrame({"a": pd.Series([1, None, 3], dtype=object), "b": ["2", "x", "6"]})
    np.testing.assert_array_equal(
        Observations.from_frame(frame[["a"]]).to_dense(), [[1], [NAN], [3]]
    )
    with pytest.raises(DepthrankError, match="column 'b', row 1: 'x' is not a number"):
        Observations.from_frame(frame)


def test_dt02_labels_and_their_order_survive():
    frame = pd.DataFrame([[1, 2], [3, NAN], [5, 6]], index=["r2", "r1", "r3"], columns=["b", "a"])
    seen = Observations.from_any(frame)
    assert seen.row_labels == ("r2", "r1", "r3")
    assert seen.col_labels == ("b", "a")
    back = seen.labelled(seen.to_dense())
    assert back.loc["r3", "a"] == 6
    pd.testing.assert_frame_equal(
        back.astype(float), frame.astype(float), check_index_type=False, check_column_type=False
    )


def test_dt03_nullable_types_are_read():
    frame = pd.DataFrame(
        {
            "i": pd.array([1, None, 3], dtype="Int64"),
            "f": pd.array([2, 4, None], dtype="Float64"),
            "b": pd.array([True, None, False], dtype="boolean"),
        }
    )
    expected = [[1, 2, 1], [NAN, 4, NAN], [3, NAN, 0]]
    np.testing.assert_array_equal(Observations.from_frame(frame).to_dense(), expected)
    for twin in (pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        np.testing.assert_array_equal(Observations.from_any(twin).to_dense(), expected)


@pytest.mark.parametrize("library", [pd.DataFrame, pl.DataFrame, pa.table])
def test_dt04_a_text_column_is_named_with_what_to_do(library):
    frame = library({"x": [1.0, 2.0], "city": ["Rome", "Oslo"], "y": [3.0, 4.0]})
    with pytest.raises(DepthrankError, match=r"column 'city', row 0: 'Rome'.* Drop or select"):
        Observations.from_frame(frame)
    seen = Observations.from_frame(frame, rows="city")
    assert seen.row_labels == ("Rome", "Oslo")
    assert seen.col_labels == ("x", "y")


def test_dates_are_no_numbers():
    with pytest.raises(DepthrankError, match=r"column 'd', row 0: .*2020.* is not a number"):
        Observations.from_frame(pd.DataFrame({"d": [datetime.datetime(2020, 1, 2)]}))


def test_a_default_index_and_default_columns_are_positions():
    seen = Observations.from_frame(pd.DataFrame(TABLE))
    assert seen.row_labels is None
    assert seen.col_labels is None
    filtered = pd.DataFrame(TABLE).iloc[[1, 3]]
    assert Observations.from_frame(filtered).row_labels == (1, 3)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_wide_and_long_frames_agree(library):
    wide = pd.DataFrame(TABLE, columns=list(COLS))
    wide.insert(0, "name", list(ROWS))
    long = wide.melt("name", var_name="item", value_name="score").sample(frac=1, random_state=2)
    convert = {"pandas": lambda f: f, "polars": pl.from_pandas, "pyarrow": pa.Table.from_pandas}
    a = Observations.from_frame(convert[library](wide), rows="name")
    b = Observations.from_frame(convert[library](long), rows="name", cols="item", values="score")
    for seen in (a, b):
        assert (seen.row_labels, seen.col_labels) == (ROWS, COLS)
        np.testing.assert_array_equal(seen.to_dense(), TABLE)


def test_long_labels_of_any_type_are_kept():
    when = [pd.Timestamp("2021-03-01"), pd.Timestamp("2020-01-01")]
    frame = pd.DataFrame({"day": when, "who": ["NA", "Zoë"], "n": [1, 2]})
    seen = Observations.from_frame(frame, rows="day", cols="who", values="n")
    assert seen.row_labels == (when[1], when[0])
    assert seen.col_labels == ("NA", "Zoë")
    by_position = Observations.from_frame(frame, rows=0, cols=1, values=2)
    assert by_position.row_labels == seen.row_labels


def test_a_long_frame_needs_three_columns_that_exist():
    frame = pd.DataFrame({"u": ["a"], "i": ["b"], "v": [1.0]})
    with pytest.raises(DepthrankError, match="needs all of rows=, cols= and values="):
        Observations.from_frame(frame, cols="i", values="v")
    with pytest.raises(DepthrankError, match=r"no column 'w'; the columns are 'u', 'i', 'v'\."):
        Observations.from_frame(frame, rows="u", cols="i", values="w")
    with pytest.raises(DepthrankError, match="three different columns"):
        Observations.from_frame(frame, rows="u", cols="u", values="v")


def test_missing_labels_and_missing_columns_are_refused():
    frame = pd.DataFrame({"u": ["a", None], "v": [1.0, 2.0]})
    with pytest.raises(DepthrankError, match="column 'u' holds row labels, but some are missing"):
        Observations.from_frame(frame, rows="u")
    with pytest.raises(DepthrankError, match="no columns of numbers"):
        Observations.from_frame(frame[["v"]], rows="v")
    twice = pd.DataFrame([[1, 2]], columns=["a", "a"])
    assert Observations.from_frame(twice).col_labels == ("a", "a")
    with pytest.raises(DepthrankError, match="2 columns are named 'a'; give a position"):
        Observations.from_frame(twice, rows="a")


def test_markers_apply_to_wide_and_long():
    wide = pd.DataFrame({"a": [1, -1], "b": [3, 4]})
    assert Observations.from_frame(wide, missing=-1).n_observed == 3
    long = pd.DataFrame({"u": [0, 1], "i": [0, 1], "v": [-1, 5]})
    seen = Observations.from_frame(long, rows="u", cols="i", values="v", missing=-1)
    assert (seen.shape, seen.n_observed) == ((2, 2), 1)


def test_frame_libraries_are_not_imported_by_other_input():
    code = (
        "import sys, numpy as np; from depthrank.observations import Observations;"
        "Observations.from_any(np.ones((2, 3)));"
        "print([m for m in ('pandas', 'polars', 'pyarrow', 'jax') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
