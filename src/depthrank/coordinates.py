"""Cells as (row, column, value) triplets: labels to positions, duplicates to one value."""

import operator
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from depthrank.conversion import is_missing
from depthrank.errors import DepthrankError

Labels = tuple[Hashable, ...]
Duplicates = Literal["mean", "error", "first", "last"]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_DIGITS = re.compile(r"([0-9]+)")


@dataclass(frozen=True)
class Skipped:
    """Cells left out by `Observations.aligned_to` because a label is unknown there.

    Attributes
    ----------
    rows, cols : int
        Cells whose row, or whose column, alone is unknown.
    both : int
        Cells whose row and column are unknown.
    """

    rows: int = 0
    cols: int = 0
    both: int = 0

    @property
    def total(self) -> int:
        """All cells left out."""
        return self.rows + self.cols + self.both

    def __str__(self) -> str:
        kinds = ((self.rows, "unknown row"), (self.cols, "unknown column"), (self.both, "both"))
        listed = ", ".join(f"{count} {kind}" for count, kind in kinds if count)
        return f"skipped: {self.total}" + (f" ({listed})" if listed else "")


def place(row: int, col: int, row_labels: Labels | None, col_labels: Labels | None) -> str:
    """Name a cell by its positions, and its labels where there are any."""
    row_name = "" if row_labels is None else f" ({row_labels[row]!r})"
    col_name = "" if col_labels is None else f" ({col_labels[col]!r})"
    return f"row {row}{row_name}, column {col}{col_name}"


def as_positions(ids: Any, what: str) -> Ints:
    """Return one-dimensional integer positions; refuse anything that is not whole numbers."""
    array = np.asarray(ids)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise DepthrankError(
            f"{what} are an array of shape {array.shape} and type {array.dtype}; they must be a "
            "list of integer positions. For labels use Observations.from_long."
        )
    return array.astype(np.int64)


def as_labels(ids: Any) -> list[Any]:
    """Return labels as a list of plain Python objects."""
    if hasattr(ids, "to_pylist"):  # pyarrow
        return list(ids.to_pylist())
    if hasattr(ids, "to_list"):  # pandas, polars
        return list(ids.to_list())
    if isinstance(ids, np.ndarray) and ids.dtype.kind not in "mM":
        # Not for datetimes: nanoseconds would come back as bare integers.
        return list(ids.tolist())
    return list(ids)


def encode(ids: Any, what: str) -> tuple[Ints, Labels]:
    """Give every label a number; return each entry's number and the labels in that order.

    Numbers follow the natural order of the labels ("c2" before "c10", 2 before 10), not their first
    appearance: a long table then gives the same matrix however its lines are shuffled. Labels that
    cannot be compared keep the order in which they appear.
    """
    labels = as_labels(ids)
    seen: dict[Hashable, int] = {}
    try:
        codes = np.fromiter((seen.setdefault(x, len(seen)) for x in labels), dtype=np.int64)
    except TypeError as error:
        raise DepthrankError(f"a {what} label cannot be used as one: {error}.") from None
    unique = list(seen)
    for code, label in enumerate(unique):
        if is_missing(label):
            entry = int(np.argmax(codes == code))
            raise DepthrankError(
                f"the {what} label of entry {entry} is missing ({label!r}); every entry needs a "
                "row and a column label. Drop the entry or give it a label."
            )
    order = _natural_order(unique)
    rank = np.empty(len(unique), dtype=np.int64)
    rank[order] = np.arange(len(unique))
    return rank[codes], tuple(unique[i] for i in order)


def _natural_order(labels: Sequence[Any]) -> list[int]:
    key = _natural_key if all(type(x) is str for x in labels) else lambda x: x
    try:
        return sorted(range(len(labels)), key=lambda i: key(labels[i]))
    except TypeError:
        return list(range(len(labels)))


def _natural_key(label: str) -> tuple[object, ...]:
    # Digit runs compare by length, then text: no integer conversion, so no limit on their length.
    # The label itself comes last, to tell "007" from "7".
    pieces: list[object] = []
    for i, piece in enumerate(_DIGITS.split(label)):
        digits = piece.lstrip("0")
        pieces.append((len(digits), digits) if i % 2 else piece)
    return (tuple(pieces), label)


def locate(
    ids: Any, labels: Labels | None, shape: tuple[int, int], axis: int, *, strict: bool
) -> Ints:
    """Return the position of each id on an axis, -1 where it is unknown or, if strict, an error.

    Equality is Python's: the integer 62 finds the label 62, never the text "62". Without labels the
    ids are positions from 0.
    """
    asked = as_labels(ids)
    what = ("row", "column")[axis]
    known: Any
    if labels is None:
        known = range(shape[axis])
        found = [x if isinstance(x, int) and x in known else -1 for x in asked]
    else:
        known = {label: position for position, label in enumerate(labels)}
        found = [known.get(x, -1) for x in asked]
        if len(known) < len(labels):
            counts = Counter(labels)
            for label in asked:
                if counts[label] > 1:
                    raise DepthrankError(
                        f"{counts[label]} {what}s share the label {label!r}; use positions instead."
                    )
    if strict and -1 in found:
        raise DepthrankError(_unknown(asked[found.index(-1)], labels, shape, axis))
    return np.array(found, dtype=np.int64)


def _unknown(asked: Any, labels: Labels | None, shape: tuple[int, int], axis: int) -> str:
    what, other = ("row", "column") if axis == 0 else ("column", "row")
    if labels is None:
        size, across = shape[axis], shape[1 - axis]
        swapped = isinstance(asked, int) and size <= asked < across
        return (
            f"{what} {asked!r} is out of range for {size} {what}s ({across} {other}s)"
            + (" - swapped?" if swapped else ".")
            + f" Positions are whole numbers from 0 to {size - 1}."
        )
    kinds = sorted({"text" if isinstance(x, str) else type(x).__name__ for x in labels})
    shown = ", ".join(repr(x) for x in labels[:3])
    return f"unknown {what} id {asked!r} (ids are {' and '.join(kinds)}, such as {shown})."


def merge_duplicates(
    rows: Ints,
    cols: Ints,
    values: Floats,
    rule: Duplicates,
    row_labels: Labels | None,
    col_labels: Labels | None,
) -> tuple[Ints, Ints, Floats, int]:
    """Sort cells by (row, column) and give every pair one value; return also the pairs merged."""
    if rule not in ("mean", "error", "first", "last"):
        raise DepthrankError(
            f"duplicates is {rule!r}; it must be one of 'mean', 'error', 'first', 'last'."
        )
    before = (rows[1:] < rows[:-1]) | ((rows[1:] == rows[:-1]) & (cols[1:] < cols[:-1]))
    if before.any():
        order = np.lexsort((cols, rows))  # stable: entries of one pair stay in the order given
        rows, cols, values = rows[order], cols[order], values[order]
    new = np.ones(rows.size, dtype=bool)
    new[1:] = (rows[1:] != rows[:-1]) | (cols[1:] != cols[:-1])
    starts = np.flatnonzero(new)
    counts = np.diff(starts, append=rows.size)
    n_merged = int(np.count_nonzero(counts > 1))
    if n_merged == 0:
        return rows, cols, values, 0
    if rule == "error":
        first = int(np.argmax(counts > 1))
        start, count = starts[first], counts[first]
        given = ", ".join(f"{v:g}" for v in values[start : start + min(count, 5)])
        where = place(int(rows[start]), int(cols[start]), row_labels, col_labels)
        raise DepthrankError(
            f"{where} is given {count} times (values {given}); {n_merged} cells are given more "
            "than once. Choose duplicates='mean', 'first' or 'last', or remove them."
        )
    if rule == "mean":
        merged = np.add.reduceat(values, starts) / counts
    else:
        merged = values[starts] if rule == "first" else values[starts + counts - 1]
    return rows[starts], cols[starts], merged, n_merged


def check_shape(shape: tuple[int, int]) -> tuple[int, int]:
    """Return the shape as two plain integers, each at least 1."""
    try:
        m, n = (operator.index(size) for size in shape)
    except (TypeError, ValueError):
        raise DepthrankError(f"shape is {shape!r}; it must be two integers (m, n).") from None
    if min(m, n) < 1 or m * n >= 2**63:
        raise DepthrankError(
            f"the matrix is {m} x {n}; it needs at least one row and one column, and fewer than "
            "2^63 cells."
        )
    return m, n


def as_label_tuple(labels: Iterable[Hashable] | None) -> Labels | None:
    """Return labels as a tuple of plain objects."""
    return None if labels is None else tuple(as_labels(labels))


def check_labels(
    names: tuple[Iterable[Hashable] | None, Iterable[Hashable] | None], shape: tuple[int, int]
) -> tuple[Labels | None, Labels | None]:
    """Return row and column labels as tuples; refuse a wrong number of them."""
    rows, cols = as_label_tuple(names[0]), as_label_tuple(names[1])
    for labels, size, what in ((rows, shape[0], "row"), (cols, shape[1], "column")):
        if labels is not None and len(labels) != size:
            raise DepthrankError(f"there are {len(labels)} {what} labels for {size} {what}s.")
    return rows, cols


def check_cells(
    rows: Ints,
    cols: Ints,
    values: Floats,
    shape: tuple[int, int],
    row_labels: Labels | None = None,
    col_labels: Labels | None = None,
) -> None:
    """Check that cells fit together, lie inside the shape and are not infinite; name the first."""
    if not rows.shape == cols.shape == values.shape:
        raise DepthrankError(
            f"rows, cols and values have shapes {rows.shape}, {cols.shape} and {values.shape}; "
            "they must be lists of one length."
        )
    for positions, size, what in ((rows, shape[0], "row"), (cols, shape[1], "column")):
        outside = (positions < 0) | (positions >= size)
        if outside.any():
            entry = int(np.argmax(outside))
            raise DepthrankError(
                f"entry {entry} is at row {rows[entry]}, column {cols[entry]}, outside the "
                f"{shape[0]} x {shape[1]} matrix: a {what} must be 0 to {size - 1}."
            )
    infinite = np.isinf(values)
    if infinite.any():
        entry = int(np.argmax(infinite))
        where = place(int(rows[entry]), int(cols[entry]), row_labels, col_labels)
        raise DepthrankError(
            f"infinite value at {where}; values must be finite. Correct it or mark it as missing."
        )


def spare_cells(
    rows: Ints, cols: Ints, shape: tuple[int, int], order: Ints, wanted: int
) -> NDArray[np.bool_]:
    """Mark up to `wanted` cells, taken in the given order, that leave no row or column empty."""
    in_row = np.bincount(rows, minlength=shape[0]).tolist()
    in_col = np.bincount(cols, minlength=shape[1]).tolist()
    spared = np.zeros(rows.size, dtype=bool)
    n_spared = 0
    for cell, row, col in zip(
        order.tolist(), rows[order].tolist(), cols[order].tolist(), strict=True
    ):
        if n_spared == wanted:
            break
        if in_row[row] > 1 and in_col[col] > 1:
            in_row[row] -= 1
            in_col[col] -= 1
            spared[cell] = True
            n_spared += 1
    return spared
