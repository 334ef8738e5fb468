"""A complete matrix into a file of the family it came from."""

import csv
import gzip
import io
import os
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank import memory
from depthrank.errors import DepthrankError
from depthrank.files.atomic import atomic
from depthrank.files.columnar import UNNAMED_INDEX
from depthrank.files.images import write_image
from depthrank.files.reading import PARQUET_SUFFIXES, TEXT_SUFFIXES, suffix
from depthrank.observations import Observations
from depthrank.source import Source

Matrix = NDArray[np.float64]


def write(
    path: "str | os.PathLike[str]",
    matrix: ArrayLike,
    like: Observations | None = None,
    *,
    row_labels: Sequence[Hashable] | None = None,
    col_labels: Sequence[Hashable] | None = None,
) -> None:
    """Write a matrix; the ending of the name says the kind, `like` the form.

    Numbers are written so that reading them gives the same numbers; NaN is a missing cell.

    Parameters
    ----------
    path : path_like
        CSV, TSV (also gzipped), Parquet, NPY, NPZ, Matrix Market, PNG or JPEG. Written whole or
        not at all; an older file is replaced.
    matrix : array_like, [m, n]
        The values, NaN where unknown.
    like : Observations, optional
        The input the matrix came from: its labels are kept and, as far as the kind of file has
        them, wide or long layout, names of columns, separator, decimal sign, encoding, colour.
    row_labels, col_labels : sequence of hashable, optional
        Labels instead of those of `like`.

    Raises
    ------
    DepthrankError
        If the shape does not fit `like` or the labels, the kind of file cannot hold the matrix, or
        the folder cannot be written to. No file is left then.
    """
    file = Path(path)
    dense = np.asarray(matrix, dtype=np.float64)
    if like is not None:
        row_labels = like.row_labels if row_labels is None else row_labels
        col_labels = like.col_labels if col_labels is None else col_labels
    try:
        _check(dense, like, row_labels, col_labels)
        ending = suffix(file)
        source = like.source if like is not None else None
        with atomic(file) as handle:
            if ending in TEXT_SUFFIXES:
                form = _text_form(source, ending, row_labels, col_labels)
                with _text(handle, form, zipped=file.name.lower().endswith(".gz")) as text:
                    _write_text(text, dense, row_labels, col_labels, form)
            elif ending in PARQUET_SUFFIXES:
                _write_parquet(handle, dense, row_labels, col_labels, source)
            elif ending == ".npy":
                np.save(handle, dense, allow_pickle=False)
            elif ending == ".npz":
                _write_npz(handle, dense, row_labels, col_labels)
            elif ending == ".mtx":
                _write_mtx(handle, dense)
            else:
                write_image(handle, ending, dense, source)
    except DepthrankError as error:
        raise DepthrankError(f"{str(path)!r}: {error}") from None
    except UnicodeEncodeError as error:
        raise DepthrankError(
            f"{str(path)!r}: a label holds {error.object[error.start : error.end]!r}, which the "
            f"input's encoding {error.encoding} does not have. Read the input as UTF-8."
        ) from None
    except OSError as error:
        raise DepthrankError(f"{str(path)!r} cannot be written: {error.strerror}.") from None


def _check(
    dense: Matrix,
    like: Observations | None,
    row_labels: Sequence[Hashable] | None,
    col_labels: Sequence[Hashable] | None,
) -> None:
    if dense.ndim != 2:
        raise DepthrankError(f"the matrix has shape {dense.shape}; it must be two-dimensional.")
    if like is not None and dense.shape != like.shape:
        raise DepthrankError(
            f"the matrix has shape {dense.shape}, the input {like.shape}; they must be equal."
        )
    for labels, size, what in (
        (row_labels, dense.shape[0], "row"),
        (col_labels, dense.shape[1], "column"),
    ):
        if labels is not None and len(labels) != size:
            raise DepthrankError(f"there are {len(labels)} {what} labels for {size} {what}s.")


# Text


def _text_form(
    source: Source | None,
    ending: str,
    row_labels: Sequence[Hashable] | None,
    col_labels: Sequence[Hashable] | None,
) -> Source:
    """Return the form of a text file: that of the input, or plain for this ending."""
    form = source if source is not None else Source(path="", kind="csv")
    if source is None or form.kind != "csv":
        named = row_labels is not None or col_labels is not None
        form = Source(
            path="",
            kind="csv",
            layout=form.layout,
            header=named or form.layout == "long",
            corner="" if form.corner == UNNAMED_INDEX else form.corner,
            columns=form.columns,
            order=form.order,
        )
    corner = None if row_labels is None else form.corner or ""
    if not form.path.lower().removesuffix(".gz").endswith(ending):  # TSV in, CSV out
        form = replace(form, separator="\t" if ending in (".tsv", ".tab") else ",")
    return replace(form, corner=corner)


@contextmanager
def _text(handle: IO[bytes], form: Source, *, zipped: bool) -> Iterator[IO[str]]:
    """Open the text layer, perhaps gzipped, over a binary file that stays open."""
    # No name and no time inside: the same table gives the same bytes.
    raw = gzip.GzipFile("", "wb", fileobj=handle, mtime=0) if zipped else None
    text = io.TextIOWrapper(raw or handle, encoding=form.encoding, newline="")
    yield text
    text.flush()
    text.detach()
    if raw is not None:
        raw.close()


def _write_text(
    text: IO[str],
    dense: Matrix,
    row_labels: Sequence[Hashable] | None,
    col_labels: Sequence[Hashable] | None,
    form: Source,
) -> None:
    writer = csv.writer(text, delimiter=form.separator, lineterminator=form.newline)
    rows = range(dense.shape[0]) if row_labels is None else row_labels
    cols = range(dense.shape[1]) if col_labels is None else col_labels
    if form.layout == "long":
        places = np.argsort(form.order)  # the columns stand in the order of the input

        def arranged(cell: Sequence[object]) -> list[object]:
            return [cell[k] for k in places]

        if form.header:
            writer.writerow(arranged(form.columns))
        for row, line in zip(rows, dense, strict=True):
            cells = zip(cols, _written(line, form.decimal), strict=True)
            writer.writerows(arranged((row, col, token)) for col, token in cells)
        return
    corner = [] if form.corner is None else [form.corner]
    if form.header:
        writer.writerow([*corner, *cols])
    for row, line in zip(rows, dense, strict=True):
        writer.writerow([*([row] if corner else []), *_written(line, form.decimal)])


def _written(line: Matrix, decimal: str) -> Iterable[str]:
    tokens = map(_number, line.tolist())
    return (token.replace(".", decimal) for token in tokens) if decimal != "." else tokens


def _number(value: float) -> str:
    """Write a number in the fewest characters that read back as the same number."""
    if value != value:
        return ""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


# Parquet, NumPy, Matrix Market


def _write_parquet(
    handle: IO[bytes],
    dense: Matrix,
    row_labels: Sequence[Hashable] | None,
    col_labels: Sequence[Hashable] | None,
    source: Source | None,
) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    m, n = dense.shape
    rows = list(range(m) if row_labels is None else row_labels)
    cols = list(range(n) if col_labels is None else col_labels)
    if source is not None and source.layout == "long":
        memory.require(40 * dense.size, f"a long table of {dense.size:,} cells")
        names = source.columns
        table = pa.table(
            {
                names[0]: pa.array(rows).take(pa.array(np.repeat(np.arange(m), n))),
                names[1]: pa.array(cols).take(pa.array(np.tile(np.arange(n), m))),
                names[2]: pa.array(dense.ravel(), from_pandas=True),
            }
        ).select([names[k] for k in np.argsort(source.order)])
    else:
        memory.require(2 * dense.nbytes, f"a table of {m:,} x {n:,} cells")
        table = _wide_table(dense, row_labels, [str(label) for label in cols], source)
    parquet.write_table(table, handle)


def _wide_table(
    dense: Matrix,
    row_labels: Sequence[Hashable] | None,
    names: list[str],
    source: Source | None,
) -> Any:
    """Build a wide pyarrow table whose row labels are a pandas index or a column of their own."""
    import pandas as pd
    import pyarrow as pa

    corner = source.corner if source is not None else None
    as_index = source is None or source.index or not corner
    if len({*names, corner}) <= len(names) or len(set(names)) < len(names):
        raise DepthrankError("two columns have one name; Parquet needs them different.")
    frame = pd.DataFrame(dense, columns=pd.Index(names, dtype=object))
    if row_labels is None:
        return pa.Table.from_pandas(frame, preserve_index=False)
    if not as_index:
        frame.insert(0, str(corner), list(row_labels))
        return pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(None)
    named = corner if corner and corner != UNNAMED_INDEX else None
    frame.index = pd.Index(list(row_labels), name=named)
    return pa.Table.from_pandas(frame, preserve_index=True)


def _write_npz(
    handle: IO[bytes],
    dense: Matrix,
    row_labels: Sequence[Hashable] | None,
    col_labels: Sequence[Hashable] | None,
) -> None:
    arrays = {"matrix": dense}
    for key, labels in (("row_labels", row_labels), ("col_labels", col_labels)):
        if labels is not None:
            array = np.array(list(labels))
            # Objects would need pickling; their text does not.
            plain = array.ndim == 1 and array.dtype.kind in "biuf"
            arrays[key] = array if plain else np.array([str(label) for label in labels])
    np.savez_compressed(handle, allow_pickle=False, **arrays)


def _write_mtx(handle: IO[bytes], dense: Matrix) -> None:
    import scipy.io
    import scipy.sparse

    if np.isnan(dense).any():  # left out, which in this format means missing
        rows, cols = np.nonzero(~np.isnan(dense))
        stored = scipy.sparse.coo_array((dense[rows, cols], (rows, cols)), shape=dense.shape)
        scipy.io.mmwrite(handle, stored, symmetry="general")
    else:
        scipy.io.mmwrite(handle, dense, symmetry="general")
