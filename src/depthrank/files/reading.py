"""One door for every kind of file."""

import gzip
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import numpy as np

from depthrank.coordinates import Duplicates
from depthrank.errors import DepthrankError
from depthrank.files import arrays, columnar, images, tables
from depthrank.files.tokens import markers
from depthrank.observations import Observations

Auto = bool | Literal["auto"]

TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".tab")
PARQUET_SUFFIXES = (".parquet", ".pq")
KNOWN = "CSV/TSV (.csv .tsv .txt .tab, also .gz), .parquet, .npy, .npz, .mtx, .png or .jpg"


def read(
    path: "str | os.PathLike[str]",
    *,
    rows: str | int | None = None,
    cols: str | int | None = None,
    values: str | int | None = None,
    missing: str | float | Iterable[str | float] = (),
    duplicates: Duplicates = "mean",
    sep: str | None = None,
    decimal: Literal[".", ","] = ".",
    header: Auto = "auto",
    row_labels: Auto = "auto",
    encoding: str | None = None,
    mask: "str | os.PathLike[str] | None" = None,
) -> Observations:
    """Read a matrix with holes from a file; its name's ending says the kind.

    Parameters
    ----------
    path : path_like
        CSV, TSV or other separated text (also gzipped), Parquet, NPY, NPZ, Matrix Market, PNG or
        JPEG.
    rows, cols, values : str or int, optional
        All three: the table is long, one line per cell, and these are its columns of row labels,
        column labels and values; names, or positions from 0. `rows` alone: the column of row
        labels in a wide table. A table headed row, col (or column), value or user, item, rating is
        taken as long without them.
    missing : token, number or several, optional
        Further markers of a missing cell. An empty cell, "NA" and "NaN" (in any case) always are;
        any other text is an error. A marker that is a number works in every kind of file.
    duplicates : {"mean", "error", "first", "last"}, default "mean"
        Value of a cell that is given more than once.
    sep : str, optional
        Separator of text; by default found out among comma, semicolon, tab and bar.
    decimal : {".", ","}, default "."
        Decimal sign of text.
    header : bool or "auto", default "auto"
        Whether the first line of text holds names. "auto": if it is not made of numbers.
    row_labels : bool or "auto", default "auto"
        Whether the first column of a wide table holds row labels. "auto": if it is text, has no
        name, or is called id, row, index, name, label or key and has no label twice.
    encoding : str, optional
        Encoding of text. By default UTF-8, or UTF-16 and UTF-32 with a byte-order mark, or, with a
        warning, Windows-1252.
    mask : path_like, optional
        A second file, image or NPY, of equal size: zero where a cell is missing.

    Returns
    -------
    Observations
        `source` remembers the form of the file, for `write`.

    Raises
    ------
    DepthrankError
        If the file cannot be read as what it is called, with the line and column at fault; if it
        holds no cell, an infinite value or an unknown token.

    Notes
    -----
    Labels in text are kept as they stand: "007", "NA" and "null" are labels. The rows and columns
    of a long table stand in the natural order of their labels.
    """
    file = Path(path)
    try:
        kind = suffix(file)
        with file.open("rb") as handle:
            raw = handle.read() if kind in (*TEXT_SUFFIXES, ".mtx") else b""
        if kind in TEXT_SUFFIXES:
            observations = tables.read_table(
                file,
                _unzipped(raw),
                rows=rows,
                cols=cols,
                values=values,
                missing=missing,
                duplicates=duplicates,
                sep=sep,
                decimal=decimal,
                header=header,
                row_labels=row_labels,
                encoding=encoding,
            )
        elif kind in PARQUET_SUFFIXES:
            observations = columnar.read_parquet(
                file,
                rows=rows,
                cols=cols,
                values=values,
                missing=_numbers(missing),
                duplicates=duplicates,
                row_labels=row_labels,
            )
        else:
            observations = _read_matrix(file, kind, raw, _numbers(missing), duplicates)
        return observations if mask is None else _masked(observations, Path(mask))
    except DepthrankError as error:
        raise DepthrankError(f"{str(path)!r}: {error}") from None
    except OSError as error:
        raise DepthrankError(f"{str(path)!r} cannot be read: {error.strerror}.") from None


def suffix(path: Path) -> str:
    """Return the ending that says the kind of file, without ".gz"; refuse an unknown one."""
    name = path.name.lower()
    ending = Path(name.removesuffix(".gz")).suffix
    zipped = name.endswith(".gz")
    known = TEXT_SUFFIXES + (
        (".mtx",) if zipped else (*PARQUET_SUFFIXES, ".npy", ".npz", ".mtx", *images.SUFFIXES)
    )
    if ending not in known:
        raise DepthrankError(f"the ending {path.suffix!r} is not known; known are {KNOWN}.")
    return ending


def _read_matrix(
    file: Path, kind: str, raw: bytes, missing: list[float], duplicates: Duplicates
) -> Observations:
    if kind == ".npy":
        return arrays.read_npy(file, missing=missing)
    if kind == ".npz":
        return arrays.read_npz(file, missing=missing, duplicates=duplicates)
    if kind == ".mtx":
        return arrays.read_mtx(file, _unzipped(raw), missing=missing, duplicates=duplicates)
    return images.read_image(file)


def _unzipped(raw: bytes) -> bytes:
    if not raw.startswith(b"\x1f\x8b"):
        return raw
    try:
        return gzip.decompress(raw)
    except (OSError, EOFError, zlib.error) as error:
        raise DepthrankError(f"the gzip data are damaged: {error}.") from None


def _numbers(missing: str | float | Iterable[str | float]) -> list[float]:
    return sorted(markers(missing)[1])


def _masked(observations: Observations, path: Path) -> Observations:
    """Keep the cells where the mask of a second file is not zero."""
    if suffix(path) in images.SUFFIXES:
        pixels = images.load_pixels(path)[0]
        colours = pixels[:, :, : 3 if pixels.shape[2] >= 3 else 1]
        shown = np.asarray(colours.any(axis=2))
    elif suffix(path) == ".npy":
        shown = arrays.load_npy(path) != 0
    else:
        raise DepthrankError(f"the mask {str(path)!r} must be an image or an NPY file.")
    channels = 1 if observations.source is None else observations.source.channels
    m, n = observations.shape
    if shown.shape != (m, n // channels):
        raise DepthrankError(
            f"the mask {str(path)!r} has shape {shown.shape}, the input {(m, n // channels)}; they "
            "must be equal."
        )
    return observations.select(shown[observations.rows, observations.cols % (n // channels)])
