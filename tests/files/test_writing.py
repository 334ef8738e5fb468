"""What was read comes back in its own form, exactly; and a file is written whole or not at all."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from depthrank import files
from depthrank.errors import DepthrankError
from depthrank.observations import Observations

NAN = np.nan
RNG = np.random.default_rng(7)
HARD = RNG.normal(size=(5, 4)) * 10.0 ** RNG.integers(-300, 300, (5, 4))
HARD[0] = [0.1, 1 / 3, 1e15, 123456789012345680.0]
HARD[1] = [5e-324, 1.7976931348623157e308, -0.1, 7.0]


@pytest.mark.parametrize(
    "name", ["a.csv", "a.tsv", "a.csv.gz", "a.parquet", "a.npy", "a.npz", "a.mtx"]
)
@pytest.mark.parametrize("holes", [False, True])
def test_numbers_come_back_exactly(tmp_path, name, holes):
    matrix = HARD.copy()
    if holes:
        matrix[2, 1] = NAN
    files.write(tmp_path / name, matrix)
    np.testing.assert_array_equal(files.read(tmp_path / name).to_dense(), matrix)


@pytest.mark.parametrize(
    "content",
    [
        ",c1,c2\nr1,1,\nr2,2,4.5\n",
        "id;c1;c2\nNA;1;\n007;2;4\n",
        "1,2,\n3,4,5\n",
        "r1\t1\t2\nr2\t3\t4\n",
        "row,column,value\nr1,c1,1\nr1,c2,2\nr2,c1,3\nr2,c2,\n",
        'id,c1\r\n"Smith, J.",1\r\n"a""b",2\r\n"two\nlines",3\r\n',
        '"a"\n1\n""\n3\n'.replace('"a"', "a"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_io15_io17_text_is_written_as_it_was_read(tmp_path, content, encoding):
    path = tmp_path / "in.csv"
    path.write_bytes(content.encode(encoding))
    seen = files.read(path)
    files.write(tmp_path / "out.csv", seen.to_dense(), seen)
    assert (tmp_path / "out.csv").read_bytes().decode(encoding) == content


def test_io07_labels_are_written_back_exactly(tmp_path):
    (tmp_path / "in.csv").write_text(",c1\nNA,1\n007,2\n7,3\nnull,4\nnan,5\n")
    seen = files.read(tmp_path / "in.csv")
    for name in ("out.csv", "out.tsv", "out.parquet", "out.npz"):
        files.write(tmp_path / name, seen.to_dense(), seen)
        assert files.read(tmp_path / name).row_labels == ("NA", "007", "7", "null", "nan"), name


def test_io03_decimal_commas_are_written_back(tmp_path):
    (tmp_path / "in.csv").write_text("a;b\n1,5;2\n;3,25\n")
    seen = files.read(tmp_path / "in.csv", decimal=",")
    files.write(tmp_path / "out.csv", [[1.5, 2], [0.125, 3.25]], seen)
    assert (tmp_path / "out.csv").read_text() == "a;b\n1,5;2\n0,125;3,25\n"


def test_a_completed_long_table_has_every_cell_under_its_names(tmp_path):
    (tmp_path / "in.csv").write_text("score|who|what\n1|u1|i1\n2|u2|i2\n")
    names: dict[str, Any] = {"rows": "who", "cols": "what", "values": "score"}
    seen = files.read(tmp_path / "in.csv", **names)
    files.write(tmp_path / "out.csv", [[1, 0.5], [NAN, 2]], seen)
    assert (
        tmp_path / "out.csv"
    ).read_text() == "score|who|what\n1|u1|i1\n0.5|u1|i2\n|u2|i1\n2|u2|i2\n"
    files.write(tmp_path / "out.parquet", [[1, 0.5], [NAN, 2]], seen)
    frame = pd.read_parquet(tmp_path / "out.parquet")
    assert list(frame.columns) == ["score", "who", "what"]
    again = files.read(tmp_path / "out.parquet", **names)
    np.testing.assert_array_equal(again.to_dense(), [[1, 0.5], [NAN, 2]])


def test_the_ending_decides_the_separator(tmp_path):
    (tmp_path / "in.tsv").write_text("\tc1\tc2\nr1\t1\t2\n")
    seen = files.read(tmp_path / "in.tsv")
    files.write(tmp_path / "out.csv", seen.to_dense(), seen)
    assert (tmp_path / "out.csv").read_text() == ",c1,c2\nr1,1,2\n"
    files.write(tmp_path / "out.tab", seen.to_dense(), seen)
    assert (tmp_path / "out.tab").read_text() == "\tc1\tc2\nr1\t1\t2\n"


@pytest.mark.parametrize("named", [None, "key"])
def test_dt02_a_pandas_index_comes_back_as_one(tmp_path, named):
    frame = pd.DataFrame(
        [[1.5, NAN], [2, 3]], index=pd.Index([9, 4], name=named), columns=["b", "a"]
    )
    frame.to_parquet(tmp_path / "in.parquet")
    seen = files.read(tmp_path / "in.parquet")
    files.write(tmp_path / "out.parquet", seen.to_dense(), seen)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), frame)
    files.write(tmp_path / "out.csv", seen.to_dense(), seen)
    assert (tmp_path / "out.csv").read_text() == f"{named or ''},b,a\n9,1.5,\n4,2,3\n"


def test_a_parquet_label_column_stays_a_column(tmp_path):
    frame = pd.DataFrame({"who": ["x", "y"], "a": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "in.parquet")
    seen = files.read(tmp_path / "in.parquet")
    files.write(tmp_path / "out.parquet", seen.to_dense(), seen)
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "out.parquet"), frame)


def test_labels_of_observations_that_came_from_no_file(tmp_path):
    seen = Observations.from_dense([[1, NAN]], row_labels=[("a", 1)], col_labels=[2.5, "x"])
    files.write(tmp_path / "a.csv", [[1, 2]], seen)
    assert (tmp_path / "a.csv").read_text() == ",2.5,x\n\"('a', 1)\",1,2\n"
    files.write(tmp_path / "b.csv", [[1, 2]], row_labels=["r"], col_labels=["c", "d"])
    assert (tmp_path / "b.csv").read_text() == ",c,d\nr,1,2\n"
    files.write(tmp_path / "c.npz", [[1, 2]], seen)
    assert files.read(tmp_path / "c.npz").col_labels == ("2.5", "x")


def test_what_does_not_fit_is_refused_before_anything_is_written(tmp_path):
    seen = Observations.from_dense([[1, 2]])
    with pytest.raises(DepthrankError, match=r"the matrix has shape \(2, 1\), the input \(1, 2\)"):
        files.write(tmp_path / "a.csv", [[1], [2]], seen)
    with pytest.raises(DepthrankError, match=r"shape \(2,\); it must be two-dimensional"):
        files.write(tmp_path / "a.csv", [1, 2])
    with pytest.raises(DepthrankError, match="there are 1 column labels for 2 columns"):
        files.write(tmp_path / "a.csv", [[1, 2]], col_labels=["x"])
    with pytest.raises(DepthrankError, match=r"the ending '.xls' is not known"):
        files.write(tmp_path / "a.xls", [[1, 2]])
    with pytest.raises(DepthrankError, match="two columns have one name"):
        files.write(tmp_path / "a.parquet", [[1, 2]], col_labels=["x", "x"])
    with pytest.raises(DepthrankError, match=r"cannot write '.*absent.*': No such file"):
        files.write(tmp_path / "absent" / "a.csv", [[1, 2]])
    assert list(tmp_path.iterdir()) == []


def test_a_label_the_encoding_lacks_is_named(tmp_path):
    (tmp_path / "in.csv").write_bytes(",c\né,1\n".encode("latin-1"))
    seen = files.read(tmp_path / "in.csv", encoding="latin-1")
    with pytest.raises(DepthrankError, match=r"a label holds '☃', which .* encoding latin-1"):
        files.write(tmp_path / "out.csv", seen.to_dense(), seen, row_labels=["☃"])
    assert [path.name for path in tmp_path.iterdir()] == ["in.csv"]


def test_atomic_leaves_the_old_file_when_writing_fails(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("old")
    with pytest.raises(KeyboardInterrupt), files.atomic(path) as handle:  # noqa: PT012
        handle.write(b"half")
        raise KeyboardInterrupt
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
    with files.atomic(path) as handle:
        handle.write(b"new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"


def test_atomic_follows_a_link_and_refuses_a_folder(tmp_path):
    target = tmp_path / "target.txt"
    target.write_text("old")
    link = tmp_path / "link.txt"
    link.symlink_to(target)
    with files.atomic(link) as handle:
        handle.write(b"new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    with pytest.raises(DepthrankError, match="it is a folder"), files.atomic(tmp_path):
        pass


def test_equal_tables_give_equal_bytes(tmp_path: Path):
    for name in ("a.csv.gz", "b.csv.gz"):
        files.write(tmp_path / name, HARD)
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
