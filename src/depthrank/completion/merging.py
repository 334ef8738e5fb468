"""A fitted table and new cells become one table; the factors grow with it."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depthrank import frames
from depthrank.completion.foldin import column_space
from depthrank.completion.model import CompletionModel, by_row
from depthrank.completion.offsets import Preparation
from depthrank.errors import DepthrankError
from depthrank.factors import Factors, dims
from depthrank.observations import Observations

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class News:
    """What new data bring to a table.

    Attributes
    ----------
    table : Observations
        Old and new cells; where both have a cell the newest value. Old rows and columns keep their
        places, new ones follow in the order of the new data.
    fresh : Observations
        Of these, the cells that are new or have another value than before.
    new_cells, corrected, unchanged : int
        Cells that were not known; known ones with another value; known ones with the same.
    new_rows, new_cols : int
        Rows and columns that were not there.
    """

    table: Observations
    fresh: Observations
    new_cells: int
    corrected: int
    unchanged: int
    new_rows: int
    new_cols: int

    @property
    def empty(self) -> bool:
        """Whether nothing changes."""
        return not (self.fresh.n_observed or self.new_rows or self.new_cols)

    def counts(self) -> dict[str, int]:
        """Return the numbers, by name."""
        names = ("new_cells", "corrected", "unchanged", "new_rows", "new_cols")
        return {name: getattr(self, name) for name in names}


def merge(old: Observations, new: Observations) -> News:
    """Bring new cells into the table they belong to.

    Parameters
    ----------
    old, new : Observations
        Rows and columns are matched by label, whatever their order; by position where neither has
        labels.

    Raises
    ------
    DepthrankError
        If one has labels where the other has none.
    """
    rows, row_labels, m = _axis(old, new, 0)
    cols, col_labels, n = _axis(old, new, 1)
    labels: dict[str, Any] = {"row_labels": row_labels, "col_labels": col_labels}
    grown = replace(old, shape=(m, n), **labels)
    placed = Observations((m, n), rows[new.rows], cols[new.cols], new.values, **labels)
    known = placed.select(_has(grown, placed))
    same = known.select(known.values == _values_at(grown, known))
    table = replace(grown.union(placed), n_duplicates=old.n_duplicates + new.n_duplicates)
    return News(
        table=table,
        fresh=placed.difference(same),
        new_cells=placed.n_observed - known.n_observed,
        corrected=known.n_observed - same.n_observed,
        unchanged=same.n_observed,
        new_rows=m - old.shape[0],
        new_cols=n - old.shape[1],
    )


def _axis(
    old: Observations, new: Observations, axis: int
) -> tuple[Ints, tuple[Any, ...] | None, int]:
    """Return where the new data's rows or columns stand in the common table, labels and size."""
    mine, its = ((one.col_labels if axis else one.row_labels) for one in (old, new))
    what, size = ("column", "row")[not axis], old.shape[axis]
    if (mine is None) != (its is None):
        with_labels = "fitted table" if its is None else "new data"
        other = "new data" if its is None else "fitted table"
        raise DepthrankError(
            f"the {what}s of the {with_labels} have labels, those of the {other} have none; give "
            f"both the same kind of {what} labels, so that no {what} is guessed."
        )
    if mine is None or its is None:
        total = max(size, new.shape[axis])
        return np.arange(total), None, total
    find = old.col_positions if axis else old.row_positions
    at = find(its, strict=False)
    unknown = np.flatnonzero(at < 0)
    at = at.copy()
    at[unknown] = size + np.arange(len(unknown))
    return at, (*mine, *(its[k] for k in unknown)), size + len(unknown)


def _has(table: Observations, cells: Observations) -> NDArray[np.bool_]:
    n = table.shape[1]
    return np.isin(cells.rows * n + cells.cols, table.rows * n + table.cols)


def _values_at(table: Observations, cells: Observations) -> NDArray[np.float64]:
    n = table.shape[1]
    at = np.searchsorted(table.rows * n + table.cols, cells.rows * n + cells.cols)
    return np.asarray(table.values[at])


def read_new(
    model: CompletionModel, X: Any, read: Callable[[Any], Observations], **how: Any
) -> Any:
    """Return new data as observations that know which rows and columns they mean.

    Observations and frames say it by their labels. Arrays and sparse matrices are further rows, as
    scikit-learn has it in `partial_fit`; `read` reads and checks them.
    """
    old = model.observations
    if isinstance(X, Observations):
        return X
    if frames.is_frame(X):
        new = Observations.from_frame(X, **how)
        missing = [x for x in old.col_labels or () if x not in set(new.col_labels or ())]
        if missing:
            raise DepthrankError(
                f"the new table lacks the column {missing[0]!r} of the fitted one"
                + (f" and {len(missing) - 1} more" if len(missing) > 1 else "")
                + "; give every column (empty where nothing is new), or cells as Observations."
            )
        return new
    new = read(X)
    if old.row_labels is not None:
        raise DepthrankError(
            "the rows of the fitted table have labels, those of the new array have none; give a "
            "frame or Observations with labels."
        )
    m, k = old.shape[0], new.shape[0]
    return Observations(
        (m + k, old.shape[1]), new.rows + m, new.cols, new.values, None, old.col_labels
    )


def grown(
    model: CompletionModel,
    table: Observations,
    way: Preparation,
    fresh: Callable[[tuple[int, ...]], Factors],
    width: int,
) -> Factors:
    """Return the model's factors at the size of a larger table.

    Old entries stay, converted to the new scales; further hidden units are those of a fresh start.
    New rows, then new columns, are folded in from their cells by regularised least squares on what
    the model has learned, so that going on starts near what the data say.

    Parameters
    ----------
    model : CompletionModel
    table : Observations
        The table to fit, user's units; its first rows and columns are the model's.
    way : Preparation
        Of that table.
    fresh : callable
        From sizes to starting factors.
    width : int
        Hidden width of the new table; not below the old one.
    """
    (m, n), (old_m, old_n) = table.shape, model.observations.shape
    depth = len(model.factors)
    hidden = max(width, *(W.shape[0] for W in model.factors[:-1]), 1) if depth > 1 else None
    result = [W.copy() for W in fresh(dims(table.shape, depth, hidden))]
    for W, kept in zip(result, model.factors, strict=True):
        W[: kept.shape[0], : kept.shape[1]] = kept
    result[0][: model.factors[0].shape[0], :old_n] *= model.preparation.scales / way.scales[:old_n]
    prepared = way.apply(table)
    if m > old_m:
        _fold(result, prepared, model.noise, range(old_m, m), old_n)
    if n > old_n:
        turned = [W.T for W in reversed(result)]
        flipped = Observations((n, m), prepared.cols, prepared.rows, prepared.values)
        _fold(turned, flipped, model.noise, range(old_n, n), m)
        result = [np.ascontiguousarray(W.T) for W in reversed(turned)]
    return tuple(result)


def _fold(
    factors: list[np.ndarray], prepared: Observations, noise: float, rows: range, n_cols: int
) -> None:
    """Set new rows of the last factor to what their cells in the first columns say."""
    last = factors[-1]
    old = [*factors[:-1], last[: rows.start]]
    old[0] = old[0][:, :n_cols]
    space = column_space(tuple(old), max(rows.start, 1), noise)
    right = np.eye(n_cols)
    for W in old[:-1]:
        right = W @ right
    inverse = np.linalg.pinv(right, rcond=1e-10)
    lines = list(by_row(prepared))
    for row in rows:
        cols, values = lines[row]
        known = cols < n_cols
        if known.any():
            last[row, : inverse.shape[1]] = space.fold(cols[known], values[known]) @ inverse
