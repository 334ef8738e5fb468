"""NPY, NPZ, Matrix Market and Parquet; and the same matrix out of every kind of file."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.io
import scipy.sparse as sp

from depthrank import files, memory
from depthrank.errors import DepthrankError
from depthrank.observations import Observations

NAN = np.nan
TABLE = np.array([[1, 2, NAN], [2, NAN, 6], [NAN, 6, 9], [4, 8, 12.0]])
ROWS = ["r1", "r2", "r3", "r4"]
COLS = ["c1", "c2", "c3"]
FRAME = pd.DataFrame(TABLE, index=pd.Index(ROWS), columns=COLS)
LONG = (
    FRAME.rename_axis("who")
    .reset_index()
    .melt("who", var_name="what", value_name="v")
    .dropna()
    .sample(frac=1, random_state=1)
)


def mtx(path: Path, text: str) -> Observations:
    path = path / "a.mtx"
    path.write_text("%%MatrixMarket matrix " + text)
    return files.read(path)


def test_io10_the_same_matrix_from_every_kind_of_file(tmp_path):
    long: dict[str, Any] = {"rows": "who", "cols": "what", "values": "v"}
    FRAME.to_csv(tmp_path / "wide.csv")
    FRAME.to_parquet(tmp_path / "wide.parquet")
    FRAME.rename_axis("name").reset_index().to_parquet(tmp_path / "column.parquet")
    LONG.to_csv(tmp_path / "long.tsv", index=False, sep="\t")
    LONG.to_parquet(tmp_path / "long.parquet", index=False)
    np.save(tmp_path / "a.npy", TABLE)
    np.savez(tmp_path / "a.npz", anything=TABLE)
    np.savez(tmp_path / "masked.npz", matrix=np.nan_to_num(TABLE), mask=~np.isnan(TABLE))
    rows, cols = np.nonzero(~np.isnan(TABLE))
    stored = sp.coo_array((TABLE[rows, cols], (rows, cols)), shape=TABLE.shape)
    np.savez(
        tmp_path / "cells.npz", rows=rows, cols=cols, values=TABLE[rows, cols], shape=TABLE.shape
    )
    sp.save_npz(tmp_path / "scipy.npz", stored.tocsr())
    scipy.io.mmwrite(tmp_path / "a.mtx", stored)
    scipy.io.mmwrite(tmp_path / "dense.mtx", TABLE)
    (tmp_path / "b.mtx.gz").write_bytes(gzip.compress((tmp_path / "a.mtx").read_bytes()))
    names = sorted(path.name for path in tmp_path.iterdir())
    assert len(names) == 13
    for name in names:
        seen = files.read(tmp_path / name, **(long if name.startswith("long") else {}))
        np.testing.assert_array_equal(seen.to_dense(), TABLE, err_msg=name)
        if name.endswith((".csv", ".tsv", ".parquet")):
            assert (seen.row_labels, seen.col_labels) == (tuple(ROWS), tuple(COLS)), name
        else:
            assert (seen.row_labels, seen.col_labels) == (None, None), name


# Parquet


def test_parquet_labels_come_from_the_index_or_a_text_column_or_an_option(tmp_path):
    path = tmp_path / "a.parquet"
    pd.DataFrame({"x": [1.0, 2.0]}, index=pd.Index([7, 5], name="key")).to_parquet(path)
    assert files.read(path).row_labels == (7, 5)
    assert files.read(path, row_labels=False).col_labels == ("x", "key")
    pd.DataFrame({"a": [1, 2], "id": [10, 11]}).to_parquet(path)
    seen = files.read(path, rows="id")
    assert (seen.row_labels, seen.col_labels) == ((10, 11), ("a",))
    assert files.read(path, row_labels=True).row_labels == (1, 2)
    pd.DataFrame({"a": [1, -1]}).to_parquet(path)
    assert files.read(path, missing="-1").n_observed == 1


def test_a_parquet_table_of_cells_is_known_by_its_names(tmp_path):
    path = tmp_path / "a.parquet"
    LONG.set_axis(["row", "col", "value"], axis=1).to_parquet(path, index=False)
    np.testing.assert_array_equal(files.read(path).to_dense(), TABLE)


def test_parquet_says_what_is_wrong(tmp_path):
    path = tmp_path / "a.parquet"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(DepthrankError, match=r"a.parquet': this cannot be read as Parquet"):
        files.read(path)
    pd.DataFrame({"a": [1.0], "t": ["x"]}).to_parquet(path)
    with pytest.raises(DepthrankError, match="column 't', row 0: 'x' is not a number"):
        files.read(path)
    FRAME.iloc[:0].to_parquet(path)
    with pytest.raises(DepthrankError, match="the table has no rows"):
        files.read(path)
    index = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["u", "k"])
    pd.DataFrame({"x": [1.0, 2.0]}, index=index).to_parquet(path)
    with pytest.raises(DepthrankError, match=r"2 index columns \(u, k\)"):
        files.read(path)


# NumPy


def test_numpy_files_hold_no_objects(tmp_path):
    objects = np.array([[{}, 1]], dtype=object)
    np.save(tmp_path / "a.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "a.npz", allow_pickle=True, x=objects)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(DepthrankError, match="holds Python objects, which are not read"):
            files.read(tmp_path / name)


def test_damaged_numpy_files_say_so(tmp_path):
    for name, content in (
        ("a.npy", b"junk"),
        ("b.npy", b""),
        ("a.npz", b"junk"),
        ("b.npz", b"PK\3\4"),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(
            DepthrankError, match=r"cannot be read as an NP[YZ] file|Python objects"
        ):
            files.read(tmp_path / name)
    np.save(tmp_path / "a.npy", np.arange(3))
    with pytest.raises(DepthrankError, match=r"shape \(3,\); it must be two-dimensional"):
        files.read(tmp_path / "a.npy")


def test_an_npz_of_unknown_arrays_lists_them(tmp_path):
    np.savez(tmp_path / "a.npz", weights=TABLE, bias=TABLE)
    with pytest.raises(DepthrankError, match="holds the arrays bias, weights; it must hold one"):
        files.read(tmp_path / "a.npz")


def test_npz_labels_come_along(tmp_path):
    np.savez(tmp_path / "a.npz", matrix=TABLE, row_labels=ROWS, col_labels=[3, 1, 2])
    seen = files.read(tmp_path / "a.npz")
    assert (seen.row_labels, seen.col_labels) == (tuple(ROWS), (3, 1, 2))
    np.savez(tmp_path / "a.npz", matrix=TABLE, mask=~np.isnan(TABLE), row_labels=ROWS)
    assert files.read(tmp_path / "a.npz").row_labels == tuple(ROWS)


# Matrix Market


def test_sp02_matrix_market_entries_given_twice_are_not_summed(tmp_path):
    seen = mtx(tmp_path, "coordinate real general\n2 3 3\n1 2 4\n1 2 5\n2 1 2\n")
    np.testing.assert_array_equal(seen.to_dense(), [[NAN, 4.5, NAN], [2, NAN, NAN]])
    assert seen.n_duplicates == 1
    last = files.read(tmp_path / "a.mtx", duplicates="last")
    assert last.values.tolist() == [5.0, 2.0]


def test_matrix_market_symmetry_is_unfolded_and_stored_zeros_stay(tmp_path):
    seen = mtx(tmp_path, "coordinate real symmetric\n3 3 3\n1 1 4\n2 1 5\n3 2 0\n")
    np.testing.assert_array_equal(seen.to_dense(), [[4, 5, NAN], [5, NAN, 0], [NAN, 0, NAN]])


def test_matrix_market_arrays_may_hold_nan(tmp_path):
    seen = mtx(tmp_path, "array real general\n2 2\n1\nnan\n3\n4\n")
    np.testing.assert_array_equal(seen.to_dense(), [[1, 3], [NAN, 4]])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("coordinate pattern general\n2 3 1\n1 2\n", "a pattern matrix.* a pattern has no values"),
        ("coordinate complex general\n1 1 1\n1 1 2 3\n", "a complex matrix; it must be real"),
        ("coordinate real general\n2 3 3\n1 2 4\n", "as a Matrix Market file: Truncated"),
        ("coordinate real general\n2 3 1\n3 2 4\n", "Row index out of bounds"),
        ("coordinate real general\n2 3 1\n1 2 inf\n", "infinite value at row 0, column 1"),
        ("nonsense", "cannot be read as a Matrix Market file"),
    ],
)
def test_matrix_market_says_what_is_wrong(tmp_path, text, message):
    with pytest.raises(DepthrankError, match=message):
        mtx(tmp_path, text)


def test_me02_huge_shapes_load_sparse_and_are_refused_dense(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 2**33)
    seen = mtx(tmp_path, "coordinate real general\n200000 200000 1\n200000 7 2.5\n")
    assert seen.shape == (200_000, 200_000)
    with pytest.raises(DepthrankError, match="a dense 200,000 x 200,000 matrix needs 298 GiB"):
        mtx(tmp_path, "array real general\n200000 200000\n1\n")
