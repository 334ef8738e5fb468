"""What is seen of a matrix: a shape, the observed cells and their values.

Everything above stands on `Observations`: a frozen set of cells, sorted by row and column, each
given once, each finite. Dense arrays with holes, masks, sparse matrices, frames and files all
become one, and the same matrix gives the same object whichever way it came.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank import frames, memory
from depthrank.conversion import as_dense, as_real, without_marked
from depthrank.coordinates import (
    Duplicates,
    Floats,
    Ints,
    Labels,
    Skipped,
    as_label_tuple,
    as_positions,
    check_cells,
    check_labels,
    check_shape,
    encode,
    locate,
    merge_duplicates,
    place,
    spare_cells,
)
from depthrank.errors import DepthrankError
from depthrank.seeds import generator
from depthrank.source import Source

if TYPE_CHECKING:
    from os import PathLike

    import pandas


@dataclass(frozen=True, eq=False, repr=False)
class Observations:
    """The observed cells of an m x n matrix.

    Use one of the `from_...` methods or `read`; the constructor itself takes sorted or unsorted
    cells, each at most once.

    Parameters
    ----------
    shape : tuple of int
        (m, n), each at least 1.
    rows, cols : int64[k]
        Positions of the observed cells. Kept sorted by (row, column), read-only.
    values : float64[k]
        Their values, finite, in the user's units. Kept read-only.
    row_labels, col_labels : tuple of hashable, optional
        One label per row and column; None means that rows and columns are known by position.
    n_duplicates : int, default 0
        How many cells had been given more than once and were merged.
    source : Source, optional
        Form of the file they were read from.

    Raises
    ------
    DepthrankError
        If a position is out of range, a value is not finite, a cell is given twice or the lengths
        do not match.
    """

    shape: tuple[int, int]
    rows: Ints
    cols: Ints
    values: Floats
    row_labels: Labels | None = None
    col_labels: Labels | None = None
    n_duplicates: int = 0
    source: Source | None = None

    def __post_init__(self) -> None:
        shape = check_shape(self.shape)
        rows, cols = as_positions(self.rows, "rows"), as_positions(self.cols, "cols")
        values = np.array(self.values, dtype=np.float64)
        labels = check_labels((self.row_labels, self.col_labels), shape)
        check_cells(rows, cols, values, shape, *labels)
        if np.isnan(values).any():
            entry = int(np.argmax(np.isnan(values)))
            where = place(int(rows[entry]), int(cols[entry]), *labels)
            raise DepthrankError(f"the value at {where} is NaN; a missing cell is not observed.")
        cells = merge_duplicates(rows, cols, values, "error", *labels)[:3]
        for array in cells:
            array.setflags(write=False)
        names = ("shape", "rows", "cols", "values", "row_labels", "col_labels")
        for name, value in zip(names, (shape, *cells, *labels), strict=True):
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        m, n = self.shape
        return f"Observations({m} x {n}, {self.n_observed} observed, {self.density:.3g} of all)"

    # Where they come from

    @classmethod
    def from_dense(
        cls,
        X: Any,
        *,
        missing: Any = np.nan,
        row_labels: Iterable[Any] | None = None,
        col_labels: Iterable[Any] | None = None,
    ) -> Self:
        """Take the cells of a dense array that are not missing.

        Parameters
        ----------
        X : array_like, [m, n]
            Numbers; NaN, None and the masked cells of a masked array are missing. Integers and
            booleans become float64. Not changed.
        missing : scalar or sequence of scalars, default NaN
            Further values that mark a missing cell, such as -1.
        row_labels, col_labels : sequence of hashable, optional
            Labels of the m rows and n columns.

        Returns
        -------
        Observations

        Raises
        ------
        DepthrankError
            If `X` is not two-dimensional or holds infinity or something that is not a number.
        """
        dense = without_marked(as_dense(X), missing)
        rows, cols = np.nonzero(~np.isnan(dense))
        m, n = dense.shape
        return cls(
            (m, n),
            rows,
            cols,
            dense[rows, cols],
            as_label_tuple(row_labels),
            as_label_tuple(col_labels),
        )

    @classmethod
    def from_mask(cls, truth: ArrayLike, mask: ArrayLike) -> Self:
        """Take the cells of a known matrix that a mask shows.

        Parameters
        ----------
        truth : array_like, [m, n]
            The matrix. Values outside the mask do not matter.
        mask : array_like of bool, [m, n]
            True (or 1) where a cell is observed.

        Returns
        -------
        Observations

        Raises
        ------
        DepthrankError
            If the shapes differ, the mask holds anything but 0 and 1, or a shown cell is not
            finite.
        """
        dense, seen = as_dense(truth), np.asarray(mask)
        if seen.shape != dense.shape:
            raise DepthrankError(
                f"the mask has shape {seen.shape}, the matrix {dense.shape}; they must be equal."
            )
        if seen.dtype.kind not in "biuf" or not np.isin(seen, (0, 1)).all():
            raise DepthrankError("the mask must hold only True and False, or 1 and 0.")
        rows, cols = np.nonzero(seen)
        m, n = dense.shape
        return cls((m, n), rows, cols, dense[rows, cols])

    @classmethod
    def from_scipy(cls, S: Any, *, duplicates: Duplicates = "mean") -> Self:
        """Take the stored entries of a scipy sparse matrix or array.

        A stored zero is an observed 0; an entry that is not stored, or is stored as NaN, is
        missing. Entries stored twice are not summed.

        Parameters
        ----------
        S : scipy.sparse matrix or array, [m, n]
            Any format, real numbers.
        duplicates : {"mean", "error", "first", "last"}, default "mean"
            Value of a cell that is stored more than once.

        Returns
        -------
        Observations

        Raises
        ------
        DepthrankError
            If `S` is not two-dimensional or not real; with "error", if a cell is stored twice.
        """
        if len(S.shape) != 2 or S.dtype.kind not in "biuf":
            raise DepthrankError(
                f"the sparse input has shape {S.shape} and type {S.dtype}; it must be "
                "two-dimensional and hold real numbers."
            )
        coo = S.tocoo()
        return cls.from_coordinates(
            coo.row, coo.col, coo.data, shape=coo.shape, duplicates=duplicates
        )

    @classmethod
    def from_coordinates(
        cls,
        rows: ArrayLike,
        cols: ArrayLike,
        values: ArrayLike,
        shape: tuple[int, int] | None = None,
        *,
        row_labels: Iterable[Any] | None = None,
        col_labels: Iterable[Any] | None = None,
        duplicates: Duplicates = "mean",
    ) -> Self:
        """Take (row, column, value) triplets whose rows and columns are positions from 0.

        Parameters
        ----------
        rows, cols : array_like of int, [k]
            Positions. Negative ones are refused, they never count from the end.
        values : array_like, [k]
            Values; NaN is missing.
        shape : tuple of int, optional
            (m, n); by default as many as there are labels, or just large enough.
        row_labels, col_labels : sequence of hashable, optional
            Labels of the m rows and n columns.
        duplicates : {"mean", "error", "first", "last"}, default "mean"
            Value of a cell that is given more than once; how many were is `n_duplicates`.

        Returns
        -------
        Observations

        Raises
        ------
        DepthrankError
            If lengths differ, a position is out of range or a value is infinite; with "error", if
            a cell is given twice.
        """
        r, c, v = as_positions(rows, "rows"), as_positions(cols, "cols"), as_real(values)
        names = as_label_tuple(row_labels), as_label_tuple(col_labels)
        if shape is None:
            m, n = (
                int(positions.max(initial=-1)) + 1 if labels is None else len(labels)
                for positions, labels in zip((r, c), names, strict=True)
            )
            shape = (m, n)
        shape = check_shape(shape)
        labels = check_labels(names, shape)
        check_cells(r, c, v, shape, *labels)
        seen = ~np.isnan(v)
        r, c, v, n_merged = merge_duplicates(r[seen], c[seen], v[seen], duplicates, *labels)
        return cls(shape, r, c, v, *labels, n_duplicates=n_merged)

    @classmethod
    def from_long(
        cls, rows: Any, cols: Any, values: Any, *, duplicates: Duplicates = "mean"
    ) -> Self:
        """Take (row, column, value) triplets whose rows and columns are labels.

        Rows and columns stand in the natural order of their labels (2 before 10, "c2" before
        "c10"), so the order of the triplets does not matter. A triplet with a missing value still
        makes its row and column known.

        Parameters
        ----------
        rows, cols : sequence of hashable, [k]
            Labels of any type; text such as "NA" or "007" is a label like another.
        values : array_like, [k]
            Values; NaN and None are missing.
        duplicates : {"mean", "error", "first", "last"}, default "mean"
            Value of a cell that is given more than once.

        Returns
        -------
        Observations

        Raises
        ------
        DepthrankError
            If lengths differ, a label is missing, a value is infinite or not a number, or there is
            no triplet; with "error", if a cell is given twice.
        """
        (r, row_labels), (c, col_labels) = encode(rows, "row"), encode(cols, "column")
        return cls.from_coordinates(
            r, c, values, row_labels=row_labels, col_labels=col_labels, duplicates=duplicates
        )

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        *,
        rows: str | int | None = None,
        cols: str | int | None = None,
        values: str | int | None = None,
        missing: Any = np.nan,
        duplicates: Duplicates = "mean",
    ) -> Self:
        """Take a table of pandas, polars or pyarrow, wide or long.

        Parameters
        ----------
        frame : DataFrame or pyarrow.Table
            Wide by default: one line per matrix row, labels from the index and the column names.
        rows, cols, values : str or int, optional
            All three: the table is long, and these are its row-label, column-label and value
            columns (names, or positions from 0). `rows` alone: the column with the row labels of a
            wide table.
        missing : scalar or sequence of scalars, default NaN
            Further values that mark a missing cell.
        duplicates : {"mean", "error", "first", "last"}, default "mean"
            Value of a cell that a long table gives more than once.

        Returns
        -------
        Observations

        Raises
        ------
        DepthrankError
            If a column of numbers holds text (named), a column is unknown, or only some of the
            three columns of a long table are given.
        """
        if cols is None and values is None:
            dense, row_labels, col_labels, _ = frames.wide(frame, rows)
            return cls.from_dense(
                dense, missing=missing, row_labels=row_labels, col_labels=col_labels
            )
        r, c, v, _ = frames.long(frame, rows, cols, values)
        return cls.from_long(r, c, without_marked(v, missing), duplicates=duplicates)

    @classmethod
    def from_any(cls, X: Any) -> Self:
        """Take whatever holds a matrix, by its type.

        Parameters
        ----------
        X : Observations, DataFrame, scipy sparse matrix or array_like, [m, n]
            Observations come back as they are.

        Returns
        -------
        Observations

        Raises
        ------
        DepthrankError
            As the method of that type does.
        """
        if isinstance(X, cls):
            return X
        if frames.is_frame(X):
            return cls.from_frame(X)
        if type(X).__module__.startswith("scipy.sparse"):
            return cls.from_scipy(X)
        return cls.from_dense(X)

    @staticmethod
    def read(path: "str | PathLike[str]", **options: Any) -> "Observations":
        """Read a file: CSV, TSV, Parquet, NPY, NPZ, Matrix Market, PNG or JPEG.

        Parameters
        ----------
        path : path_like
            The file.
        **options
            Those of `depthrank.files.read`.

        Returns
        -------
        Observations
        """
        from depthrank import files

        return files.read(path, **options)

    # What they are

    @property
    def n_observed(self) -> int:
        """Number of observed cells."""
        return int(self.values.size)

    @property
    def n_missing(self) -> int:
        """Number of cells that are not observed."""
        return self.shape[0] * self.shape[1] - self.n_observed

    @property
    def density(self) -> float:
        """Observed share of all cells, 0 to 1."""
        return self.n_observed / (self.shape[0] * self.shape[1])

    @property
    def rms(self) -> float:
        """Root mean square of the observed values; 0 if there are none."""
        largest = float(np.abs(self.values).max(initial=0.0))
        # Scaled first: the squares of 1e200 and of 1e-200 leave the range of doubles.
        return largest * float(np.sqrt(np.mean((self.values / largest) ** 2))) if largest else 0.0

    @property
    def empty_rows(self) -> Ints:
        """Positions of the rows without an observed cell."""
        return np.flatnonzero(np.bincount(self.rows, minlength=self.shape[0]) == 0)

    @property
    def empty_cols(self) -> Ints:
        """Positions of the columns without an observed cell."""
        return np.flatnonzero(np.bincount(self.cols, minlength=self.shape[1]) == 0)

    def mask(self) -> NDArray[np.bool_]:
        """Return a bool array [m, n], True where a cell is observed; memory is checked first."""
        self._require_dense(1, "mask")
        dense = np.zeros(self.shape, dtype=bool)
        dense[self.rows, self.cols] = True
        return dense

    def to_dense(self, fill: float = np.nan) -> Floats:
        """Return a float64 array [m, n] with `fill` in the cells that are not observed.

        Parameters
        ----------
        fill : float, default NaN
            What stands in an unobserved cell.

        Returns
        -------
        float64[m, n]

        Raises
        ------
        DepthrankError
            If the array does not fit into memory; nothing is allocated then.
        """
        self._require_dense(8, "result")
        dense = np.full(self.shape, fill, dtype=np.float64)
        dense[self.rows, self.cols] = self.values
        return dense

    def labelled(self, matrix: ArrayLike) -> "pandas.DataFrame":
        """Return an [m, n] matrix as a pandas frame under these row and column labels."""
        import pandas as pd

        index = None if self.row_labels is None else pd.Index(list(self.row_labels), dtype=object)
        columns = None if self.col_labels is None else pd.Index(list(self.col_labels), dtype=object)
        return pd.DataFrame(np.asarray(matrix), index=index, columns=columns)

    def row_positions(self, ids: Any, *, strict: bool = True) -> Ints:
        """Find rows by label, or by position where there are no labels.

        Parameters
        ----------
        ids : sequence of hashable, [k]
            Compared as Python does: the integer 62 is not the text "62".
        strict : bool, default True
            Raise on an unknown id; otherwise its position is -1.

        Returns
        -------
        int64[k]

        Raises
        ------
        DepthrankError
            If an id is unknown (strict), or a label that several rows share is asked for.
        """
        return locate(ids, self.row_labels, self.shape, 0, strict=strict)

    def col_positions(self, ids: Any, *, strict: bool = True) -> Ints:
        """Find columns by label or position, as `row_positions` finds rows."""
        return locate(ids, self.col_labels, self.shape, 1, strict=strict)

    # What can be made of them; shape and labels stay

    def with_values(self, values: ArrayLike) -> Self:
        """Return the same cells with other values, float64[k] in the order of `rows`, `cols`."""
        return replace(self, values=as_real(values))

    def select(self, index: ArrayLike) -> Self:
        """Return some of the cells, by position in `values` or by a bool[k] mask."""
        chosen = np.asarray(index)
        if chosen.size == 0:
            chosen = chosen.astype(np.int64)
        return replace(
            self, rows=self.rows[chosen], cols=self.cols[chosen], values=self.values[chosen]
        )

    def split(self, fraction: float, seed: int) -> tuple[Self, Self]:
        """Hold out random cells, never the last one of a row or column.

        A row or column without a training cell could not be scored, so the cells drawn leave one
        at least in each. Where too few can be spared, fewer are held out than asked for, or none:
        look at `n_observed`.

        Parameters
        ----------
        fraction : float
            Share of the observed cells to hold out, 0 to 1; rounded, but one cell at least if it
            is above 0.
        seed : int
            Root seed; the stream is "holdout".

        Returns
        -------
        train, held_out : Observations

        Raises
        ------
        DepthrankError
            If `fraction` is not between 0 and 1.
        """
        if not 0.0 <= fraction <= 1.0:
            raise DepthrankError(f"fraction is {fraction!r}; it must be between 0 and 1.")
        wanted = max(round(fraction * self.n_observed), int(fraction > 0))
        order = generator(seed, "holdout").permutation(self.n_observed)
        held = spare_cells(self.rows, self.cols, self.shape, order, wanted)
        return self.select(~held), self.select(held)

    def union(self, other: Self) -> Self:
        """Return the cells of both; where both have a cell, `other` wins and it counts as merged.

        Raises
        ------
        DepthrankError
            If shapes or labels differ; bring them together with `aligned_to` first.
        """
        kept = self.difference(other)
        return replace(
            self,
            rows=np.concatenate((kept.rows, other.rows)),
            cols=np.concatenate((kept.cols, other.cols)),
            values=np.concatenate((kept.values, other.values)),
            n_duplicates=self.n_duplicates
            + other.n_duplicates
            + (self.n_observed - kept.n_observed),
        )

    def difference(self, other: Self) -> Self:
        """Return the cells that `other` does not have; shapes and labels must be equal."""
        return self.select(~self._shared_with(other))

    def overlap(self, other: Self) -> int:
        """Count the cells that `other` has too; shapes and labels must be equal."""
        return int(np.count_nonzero(self._shared_with(other)))

    def aligned_to(self, other: Self) -> tuple[Self, Skipped]:
        """Carry the cells over to the rows and columns of `other`, by label.

        Parameters
        ----------
        other : Observations
            Its shape and labels are taken; without labels, positions stand for themselves.

        Returns
        -------
        aligned : Observations
            These cells at the positions they have in `other`.
        skipped : Skipped
            How many cells could not be carried over, and why.
        """
        row_map = locate(_labels_of(self, 0), other.row_labels, other.shape, 0, strict=False)
        col_map = locate(_labels_of(self, 1), other.col_labels, other.shape, 1, strict=False)
        rows, cols = row_map[self.rows], col_map[self.cols]
        no_row, no_col = rows < 0, cols < 0
        known = ~(no_row | no_col)
        skipped = Skipped(
            int((no_row & ~no_col).sum()),
            int((no_col & ~no_row).sum()),
            int((no_row & no_col).sum()),
        )
        aligned = replace(
            self,
            shape=other.shape,
            rows=rows[known],
            cols=cols[known],
            values=self.values[known],
            row_labels=other.row_labels,
            col_labels=other.col_labels,
        )
        return aligned, skipped

    def _shared_with(self, other: "Observations") -> NDArray[np.bool_]:
        if self.shape != other.shape:
            raise DepthrankError(
                f"the observations have shapes {self.shape} and {other.shape}; they must be equal. "
                "Use aligned_to to bring them together."
            )
        for mine, its, what in (
            (self.row_labels, other.row_labels, "row"),
            (self.col_labels, other.col_labels, "column"),
        ):
            if mine != its:
                raise DepthrankError(
                    f"the {what} labels of the observations differ; use aligned_to first."
                )
        n = self.shape[1]  # m * n < 2^63, so a cell has an integer of its own
        return np.isin(self.rows * n + self.cols, other.rows * n + other.cols)

    def _require_dense(self, cell_bytes: int, what: str) -> None:
        m, n = self.shape
        memory.require(
            m * n * cell_bytes,
            f"a dense {m:,} x {n:,} {what}",
            "Keep to the observed cells, or take fewer rows or columns.",
        )


def _labels_of(observations: Observations, axis: int) -> Sequence[Any]:
    labels = observations.col_labels if axis else observations.row_labels
    return range(observations.shape[axis]) if labels is None else labels
