"""Separated text: encodings, separators, headers, labels, tokens; every refusal names its line."""

import gzip
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthrank import files
from depthrank.errors import DepthrankError
from depthrank.observations import Observations

NAN = np.nan


@pytest.fixture
def load(tmp_path: Path) -> Any:
    """Write text or bytes to a file and read it."""

    def load(content: str | bytes, name: str = "data.csv", **options: Any) -> Observations:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return files.read(path, **options)

    return load


def dense(observations: Observations) -> list[list[float]]:
    return observations.to_dense(fill=-99.0).tolist()


# Bytes


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-be"])
def test_io01_marks_of_encoding_do_not_reach_the_first_name(load, encoding):
    text = "row,col,value\nr1,c1,1\nr2,c1,2\nÅse,c1,3\n"
    mark = b"\xfe\xff" if encoding == "utf-16-be" else b""
    seen = load(mark + text.encode(encoding), rows="row", cols="col", values="value")
    assert seen.row_labels == ("r1", "r2", "Åse")
    assert dense(seen) == [[1.0], [2.0], [3.0]]


def test_text_that_is_not_utf8_is_read_as_windows_1252_with_a_warning(load):
    raw = ",c1,c2\nMünchen,1,2\nKöln,3,\n".encode("cp1252")
    with pytest.warns(UserWarning, match=r"line 2 holds a byte \(0xFC\) .* read as cp1252"):
        seen = load(raw)
    assert seen.row_labels == ("München", "Köln")
    assert load(raw, encoding="latin-1").row_labels == seen.row_labels
    with pytest.raises(DepthrankError, match=r"line 2 holds a byte \(0xFC\) .* in utf-8"):
        load(raw, encoding="utf-8")
    with pytest.raises(DepthrankError, match="no encoding named 'utf-9'"):
        load(raw, encoding="utf-9")
    with pytest.warns(UserWarning, match="read as latin-1"):
        assert load(b"a\x81,b\n1,2\n").col_labels == ("a\x81", "b")


def test_utf16_without_a_mark_is_recognised(load):
    with pytest.raises(DepthrankError, match="set the option encoding to 'utf-16-le'"):
        load("a,b\n1,2\n".encode("utf-16-le"))
    assert dense(load("a,b\n1,2\n".encode("utf-16-le"), encoding="utf-16-le")) == [[1.0, 2.0]]


def test_io11_other_kinds_of_file_are_recognised(load):
    with pytest.raises(DepthrankError, match="an HTML page"):
        load(" <!DOCTYPE html><html></html>")
    for magic, kind in (
        (b"PAR1\x15\x04", "a Parquet file; name it .parquet"),
        (b"PK\x03\x04", "a zip archive"),
        (b"\x89PNG\r\n", "a PNG image"),
        (b"%PDF-1.4", "a PDF document"),
    ):
        with pytest.raises(DepthrankError, match=f"not a text table but {kind}"):
            load(magic)
    zipped = gzip.compress(b"a,b\n1,2\n")
    for name in ("data.csv", "data.csv.gz", "data.tsv.gz"):
        assert dense(load(zipped, name)) == [[1.0, 2.0]]
    with pytest.raises(DepthrankError, match="the gzip data are damaged"):
        load(zipped[:-6], "data.csv.gz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file is empty"),
        ("a,b,c\n", "has a header line and nothing else"),
        ("\n\n   \n", "the file is blank"),
        ("\ufeff", "the file is empty"),
    ],
)
def test_io05_a_file_without_cells_says_so_in_one_line(load, content, message):
    with pytest.raises(DepthrankError, match=message) as error:
        load(content)
    assert "\n" not in str(error.value)
    with pytest.raises(DepthrankError, match=r"the file is|header line|no column"):
        load(content, rows="a", cols="b", values="c")


def test_files_that_are_not_there_or_not_known(tmp_path):
    with pytest.raises(DepthrankError, match=r"'.*absent.csv' cannot be read: No such file"):
        files.read(tmp_path / "absent.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DepthrankError, match=r"folder.csv' cannot be read: Is a directory"):
        files.read(tmp_path / "folder.csv")
    with pytest.raises(DepthrankError, match=r"the ending '.xlsx' is not known; known are CSV"):
        files.read(tmp_path / "book.xlsx")


# Records


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
def test_separators_are_found_out(load, separator):
    rows = ['"a,b;c|d"', "x", "y"], ["r1", "1", "2.5"], ["r2", "", "-3e2"]
    seen = load("\n".join(separator.join(row) for row in rows))
    assert dense(seen) == [[1.0, 2.5], [-99.0, -300.0]]
    assert seen.source is not None
    assert seen.source.separator == separator
    assert seen.source.corner == "a,b;c|d"


def test_a_semicolon_table_of_decimal_commas_is_not_comma_separated(load):
    seen = load("1,5;2,5;3,5\n4,5;;6,5\n", decimal=",")
    assert dense(seen) == [[1.5, 2.5, 3.5], [4.5, -99.0, 6.5]]


def test_a_separator_can_be_given(load):
    assert dense(load("1 2\n3 4\n", sep=" ")) == [[1.0, 2.0], [3.0, 4.0]]
    with pytest.raises(DepthrankError, match="sep is '::'; it must be one character"):
        load("1::2\n", sep="::")


def test_io06_spaces_around_numbers_and_blank_lines_are_nothing(load):
    options = {"rows": 0, "cols": 1, "values": 2}
    seen = load("3\t1\t2.9\n3\t2\t 2.7 \n\n", "u.tsv", **options)
    assert seen.values.tolist() == [2.9, 2.7]
    with pytest.raises(DepthrankError, match=r"line 2 \(4 fields, expected 3\)"):
        load("3\t1\t2.9\n3\t2\t\t2.7\n", "u.tsv", **options)


def test_io12_every_ragged_line_is_named(load):
    with pytest.raises(
        DepthrankError,
        match=r"line 3 \(4 fields, expected 3\), line 4 \(2 fields, expected 3\)\. Quote",
    ):
        load("a,b,c\n1,2,3\n1,2,3,4\n1,2\n")
    with pytest.raises(DepthrankError, match=r"line 6 \(1 field, expected 2\) and 3 more lines"):
        load("a,b\n" + "1\n" * 8)


def test_ragged_lines_are_counted_in_lines_not_records(load):
    with pytest.raises(DepthrankError, match=r"differ in length: line 5 \(3 fields, expected 2\)"):
        load('id,c\n"two\nlines",1\n\nx,2,3\n')


def test_io17_quoting_keeps_separators_quotes_and_line_breaks(load):
    seen = load('id,c1\r\n"Smith, J.",1\r\n"a""b",2\r\n"two\nlines",3\r\n')
    assert seen.row_labels == ("Smith, J.", 'a"b', "two\nlines")
    with pytest.raises(DepthrankError, match=r"line 2 cannot be read .*quotation mark not closed"):
        load('id,c1\n"Smith,1\nb,2\n')


# Headers and labels


def test_io15_wide_tables_keep_their_labels(load):
    content = ",c1,c2\nr1,1,\nr2,2,4\n"
    seen = load(content)
    assert (seen.row_labels, seen.col_labels) == (("r1", "r2"), ("c1", "c2"))
    assert dense(seen) == [[1.0, -99.0], [2.0, 4.0]]
    with pytest.raises(DepthrankError, match="line 2, column '': 'r1' is not a number"):
        load(content, row_labels=False)


@pytest.mark.parametrize("name", ["", "id", "person"])
def test_io07_ids_are_text_untouched(load, name):
    seen = load(f"{name},c1\nNA,1\n007,2\n7,3\nnull,4\nnan,5\n")
    assert seen.row_labels == ("NA", "007", "7", "null", "nan")
    assert seen.values.tolist() == [1, 2, 3, 4, 5]
    long = load(
        "u,i,v\nNA,c,1\n007,c,2\n7,c,3\nnull,nan,4\nnan,c,5\n", rows="u", cols="i", values="v"
    )
    assert set(long.row_labels or ()) == {"NA", "007", "7", "null", "nan"}
    assert long.col_labels == ("c", "nan")


@pytest.mark.parametrize(
    ("content", "row_labels", "col_labels", "shape"),
    [
        ("1,2,3\n4,,6\n", None, None, (2, 3)),  # numbers only
        ("a,b,c\n4,,6\n", None, ("a", "b", "c"), (1, 3)),  # names above numbers
        ("r1,1,2\nr2,3,4\n", ("r1", "r2"), None, (2, 2)),  # labels, no header
        ("x,1990,1991\na,1,2\nb,3,4\n", ("x", "a", "b"), None, (3, 2)),  # could be a row
        ("name,1990,1991\na,1,2\nb,3,4\n", ("a", "b"), ("1990", "1991"), (2, 2)),
        (",1990,1991\na,1,2\nb,3,4\n", ("a", "b"), ("1990", "1991"), (2, 2)),
        ("age,1990,1991\n30,1,2\n31,3,4\n", None, ("age", "1990", "1991"), (2, 3)),
        (",0,1\n0,1.5,2\n1,3,4\n", ("0", "1"), ("0", "1"), (2, 2)),  # a plain pandas frame
        ("id,q1,q2\n101,1,2\n102,3,4\n", ("101", "102"), ("q1", "q2"), (2, 2)),
        ("id,q1,q2\n101,1,2\n101,3,4\n", None, ("id", "q1", "q2"), (2, 3)),  # twice: no label
        (",2.5,3\n4,5,6\n", None, None, (2, 3)),  # a first cell that is missing
        (",,3\n4,5,6\n", None, None, (2, 3)),
        ("score\n1\n3\n", None, ("score",), (2, 1)),
        ("2020-01-01,1,2\n2020-01-02,3,\n", ("2020-01-01", "2020-01-02"), None, (2, 2)),
    ],
)
def test_headers_and_labels_are_found_out(load, content, row_labels, col_labels, shape):
    seen = load(content)
    assert seen.row_labels == row_labels
    assert seen.col_labels == col_labels
    assert seen.shape == shape


def test_headers_and_labels_can_be_said(load):
    content = ",2,3\n4,5,6\n"
    with pytest.raises(DepthrankError, match=r"line 1 \(, 2, 3, \.\.\.\) may be column labels or"):
        load(content)
    assert dense(load(content, header=False)) == [[-99.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    labelled = load(content, header=True)
    assert (labelled.row_labels, labelled.col_labels) == (("4",), ("2", "3"))
    plain = load("1,2\n3,4\n", header=True, row_labels=True)
    assert (plain.row_labels, plain.col_labels, dense(plain)) == (("3",), ("2",), [[4.0]])
    chosen = load("a,who,b\n1,x,2\n3,y,4\n", rows="who")
    assert (chosen.row_labels, chosen.col_labels) == (("x", "y"), ("a", "b"))
    with pytest.raises(DepthrankError, match="the only column holds row labels"):
        load("a\nx\n", row_labels=True)


def test_a_header_taken_for_data_gets_a_hint(load):
    with pytest.raises(
        DepthrankError, match=r"line 1, column 1 of 2: 'a'.* Is this line a header\?"
    ):
        load("a,b\n1,2\n3,4\n", header=False)


# Long tables


def test_io02_a_header_is_found_out_or_said(load):
    named = "user,item,rating\nu1,i1,3\nu2,i1,4\n"
    bare = named.split("\n", 1)[1]
    places: dict[str, Any] = {"rows": 0, "cols": 1, "values": 2}
    names: dict[str, Any] = {"rows": "user", "cols": "item", "values": "rating"}
    for seen in (
        load(named, **places),
        load(named, **names),
        load(named, header=True, **places),
        load(named),
        load(bare, **places),
        load(bare, header=False, **places),
        load(bare, rows="0", cols="1", values="2"),
    ):
        assert seen.row_labels == ("u1", "u2")
        assert dense(seen) == [[3.0], [4.0]]
    with pytest.raises(
        DepthrankError, match=r"line 1, .*'rating' is not a number.* Is this line a header\?"
    ):
        load(named, header=False, **places)


def test_io03_decimal_commas_need_the_option_and_get_a_hint(load):
    content = "r;c;v\nr1;c1;1,5\nr1;c2;3,0\nr2;c1;3,0\n"
    names: dict[str, Any] = {"rows": "r", "cols": "c", "values": "v"}
    assert load(content, sep=";", decimal=",", **names).values.tolist() == [1.5, 3.0, 3.0]
    with pytest.raises(
        DepthrankError, match=r"line 2, column 'v': '1,5' .* set the option decimal to ','"
    ):
        load(content, **names)
    with pytest.raises(DepthrankError, match=r"'1\.5' is not a number with a decimal comma"):
        load("a;b\n1.5;2\n", decimal=",")
    with pytest.raises(DepthrankError, match=r"decimal is '\.\.'; it must be"):
        load(content, decimal="..")


def test_long_columns_may_stand_anywhere(load):
    seen = load("t,v,who,what\n9,1.5,a,x\n8,,b,y\n", rows="who", cols="what", values="v")
    assert (seen.shape, seen.n_observed) == ((2, 2), 1)
    assert seen.source is not None
    assert seen.source.order == (2, 3, 1)


def test_long_tables_name_what_is_wrong(load):
    content = "u,i,v\na,x,1\n"
    with pytest.raises(DepthrankError, match=r"no column 'w'; the columns are 'u', 'i', 'v'"):
        load(content, rows="u", cols="i", values="w")
    with pytest.raises(DepthrankError, match="needs all of rows=, cols= and values="):
        load(content, cols="i", values="v")
    with pytest.raises(DepthrankError, match="must be three different columns"):
        load(content, rows="u", cols="u", values="v")
    with pytest.raises(DepthrankError, match="line 3: the column label is empty"):
        load(content + "b,,2\n", rows="u", cols="i", values="v")
    with pytest.raises(DepthrankError, match="name its columns by the options rows, cols"):
        load("who,what,v\na,x,1\n")


def test_sp02_duplicates_in_a_file_follow_the_rule(load):
    content = "u,i,v\na,x,4\na,x,5\nb,y,1\n"
    names: dict[str, Any] = {"rows": "u", "cols": "i", "values": "v"}
    assert load(content, **names).values.tolist() == [4.5, 1.0]
    assert load(content, **names).n_duplicates == 1
    assert load(content, duplicates="last", **names).values.tolist() == [5.0, 1.0]
    with pytest.raises(DepthrankError, match=r"row 0 \('a'\), column 0 \('x'\) is given 2 times"):
        load(content, duplicates="error", **names)


def test_sp07_a_long_file_needs_no_wide_table(load):
    lines = [f"{i * 7777},{69_999 - i * 7777},{i}" for i in range(10)]
    seen = load("row,col,value\n" + "\n".join(lines))
    assert seen.shape == (10, 10)
    assert seen.n_observed == 10


# Tokens


def test_io13_missing_tokens_are_few_and_can_be_added(load):
    content = "a,b\n1,\nNA,2\nNaN,nan\nnAn,3\n"
    assert dense(load(content)) == [[1.0, -99.0], [-99.0, 2.0], [-99.0, -99.0], [-99.0, 3.0]]
    for token in ("?", "-", "null", "n/a"):
        odd = f"a,b\n1,2\n3,{token}\n{token},6\n"
        with pytest.raises(DepthrankError) as error:
            load(odd, row_labels=False)
        assert f"line 3, column 'b': '{token}' is not a number. If it marks" in str(error.value)
        assert load(odd, missing=token, row_labels=False).n_missing == 2
        assert load(odd, missing=["x", token], row_labels=False).n_missing == 2


def test_dt06_a_marker_that_is_a_number_matches_as_one(load):
    content = "a,b\n1,-1\n-1.0,3\n"
    assert load(content).n_observed == 4
    assert load(content, missing="-1").n_observed == 2
    assert load(content, missing=-1).n_observed == 2


def test_nu03_infinity_in_a_file_is_named(load):
    with pytest.raises(DepthrankError, match="line 3, column 'b': infinite value '-inf'"):
        load("a,b\n1,2\n3,-inf\n")
    with pytest.raises(DepthrankError, match="infinite value '1e999'"):
        load("a,b\n1,1e999\n")


@pytest.mark.parametrize("token", ["1_000", "0x10", "1 000", "12%", "1,234.5"])
def test_what_only_resembles_a_number_is_refused(load, token):
    with pytest.raises(DepthrankError, match=r"line 2, column 'b': .* is not a number"):
        load(f'a,b\n1,"{token}"\n')


def test_a_table_of_real_size_loads_at_once(load):
    X = np.random.default_rng(0).normal(size=(3896, 75))
    lines = "\n".join(",".join(map(repr, row)) for row in X.tolist())
    started = time.perf_counter()
    seen = load(lines)
    # 0.5 s measured on an idle machine; a per-cell mistake costs ten times that
    assert time.perf_counter() - started < 5
    np.testing.assert_array_equal(seen.to_dense(), X)
