"""What a fitted estimator can be asked about single cells: how sure, why, which next."""

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from depthrank.completion.averaging import opened
from depthrank.completion.model import cell_names
from depthrank.completion.uncertainty import deviations, width
from depthrank.errors import DepthrankError
from depthrank.observations import Observations

if TYPE_CHECKING:
    from depthrank.completion.model import CompletionModel

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Answers:
    """Questions to a fitted `DeepMatrixCompletion`; part of it."""

    _model: "CompletionModel"
    bounds: tuple[float, float] | None
    integers: bool

    def _limited(self, values: Floats) -> Floats:
        """Return estimates within the bounds, and whole if they must be."""
        if self.integers:
            values = np.rint(values)
        return values if self.bounds is None else np.clip(values, *self.bounds)

    def predict_std(self, rows: Any, cols: Any) -> Floats:
        """Return the standard deviation of what would be observed in single cells, [k].

        Parameters
        ----------
        rows, cols : sequence, [k]
            Labels or positions of the fitted table.

        Notes
        -----
        **Label.** Numerical: rows and columns Gaussian and independent given the data. Across
        unconnected parts and in empty rows and columns it is the size of the table.
        """
        check_is_fitted(self)
        return deviations(self._model, *self._known(rows, cols))

    def predict_interval(self, rows: Any, cols: Any, level: float = 0.9) -> tuple[Floats, Floats]:
        """Return intervals that hold what would be observed, with a given probability.

        Parameters
        ----------
        rows, cols : sequence, [k]
            Labels or positions of the fitted table.
        level : float, default 0.9
            Between 0 and 1.

        Returns
        -------
        (low, high) : float64 [k] each
            As wide as the errors on cells held out while choosing were, in units of each cell's
            standard deviation; Gaussian where none were. Of cells that go missing at random.

        Raises
        ------
        DepthrankError
            If the level is out of range or a label unknown.
        """
        check_is_fitted(self)
        if not isinstance(level, int | float) or not 0 < level < 1:
            raise DepthrankError(f"level is {level!r}; it must be a number between 0 and 1.")
        i, j = self._known(rows, cols)
        middle = self._model.cells(i, j)
        reach = width(self._model, float(level)) * deviations(self._model, i, j)
        return middle - reach, middle + reach

    def explain(self, row: Any, col: Any, n: int = 10) -> list[dict[str, Any]]:
        """Return the observed cells that an estimate leans on most.

        Parameters
        ----------
        row, col : label or position
        n : int, default 10
            At most so many cells.

        Returns
        -------
        list of dict
            `row`, `col` (labels where there are any), `value`, and `weight`: by how much the
            estimate moves if that value moves by one. Largest first. Only cells of the same row or
            column act directly.

        Notes
        -----
        **Label.** Linearised: the row's coefficients given the columns', and the column's given
        the rows'. What cells do by way of other rows and columns is left out.
        """
        check_is_fitted(self)
        model = self._model
        i, j = (int(position[0]) for position in self._known([row], [col]))
        seen, known, scales = model.observations, model.knowledge, model.preparation.scales
        u, v = opened(known.rows.mean), opened(known.cols.mean)
        beside = np.flatnonzero(seen.rows == i)
        above = np.flatnonzero(seen.cols == j)
        by_row = v[seen.cols[beside]] @ (known.rows.cov[i] @ v[j]) / known.sigma**2
        by_col = u[seen.rows[above]] @ (known.cols.cov[j] @ u[i]) / known.sigma**2
        weights = np.zeros(seen.n_observed)
        weights[beside] += by_row * scales[j] / scales[seen.cols[beside]]
        weights[above] += by_col
        order = np.argsort(-np.abs(weights), kind="stable")[: max(int(n), 0)]
        return [
            {
                "row": _label(seen.row_labels, seen.rows[k]),
                "col": _label(seen.col_labels, seen.cols[k]),
                "value": float(seen.values[k]),
                "weight": float(weights[k]),
            }
            for k in order[weights[order] != 0]
        ]

    def top_missing(self, row: Any, n: int = 10) -> list[tuple[Any, float]]:
        """Return the missing cells of a row with the largest estimates, as (column, estimate).

        Parameters
        ----------
        row : label or position
        n : int, default 10
            At most so many. Cells in empty columns and of other parts are not among them.
        """
        check_is_fitted(self)
        model, graph = self._model, self._model.graph
        i = int(model.observations.row_positions([row])[0])
        missing = np.setdiff1d(
            np.flatnonzero(graph.col_component == graph.row_component[i]),
            model.observations.cols[model.observations.rows == i],
        )
        estimates = self._limited(model.cells(i, missing))
        order = np.argsort(-estimates, kind="stable")[: max(int(n), 0)]
        labels = model.observations.col_labels
        return [(_label(labels, missing[k]), float(estimates[k])) for k in order]

    def cell_labels(self, rows: Any, cols: Any) -> NDArray[np.str_]:
        """Say what is known of single cells.

        Parameters
        ----------
        rows, cols : sequence, [k]
            As `predict` takes them.

        Returns
        -------
        array of str, [k]
            "observed"; "determined" at the rank of the fit (locally, by a rank test); "within" a
            connected part but not determined; "across" two parts; "isolated" (an empty row or
            column); "unseen row", "unseen column" or "unseen row and column".
        """
        check_is_fitted(self)
        return cell_names(self._model, *self._positions(rows, cols, strict=False))

    def evaluate(self, held_out: Observations) -> dict[str, Any]:
        """Compare the model with cells that it was not fitted to.

        Parameters
        ----------
        held_out : Observations
            Cells at labels or positions of the fitted table.

        Returns
        -------
        dict
            `rmse` over `n_scored` cells that were not in training (None if there are none), of
            estimates as they are; `rmse_limited` within bounds and rounded, where asked for;
            `skipped` cells of unknown rows or columns, counted apart; `in_training`, left out
            with a warning.
        """
        check_is_fitted(self)
        known, skipped = held_out.aligned_to(self._model.observations)
        fresh = known.difference(self._model.observations)
        shared = known.n_observed - fresh.n_observed
        if shared:
            warnings.warn(f"{shared} held-out cells were also in training; left out.", stacklevel=2)
        estimates = self._model.cells(fresh.rows, fresh.cols)
        return {
            "rmse": _rmse(estimates - fresh.values),
            "rmse_limited": _rmse(self._limited(estimates) - fresh.values),
            "n_scored": fresh.n_observed,
            "skipped": {"rows": skipped.rows, "cols": skipped.cols, "both": skipped.both},
            "in_training": shared,
        }

    def _known(self, rows: Any, cols: Any) -> tuple[Ints, Ints]:
        return self._positions(rows, cols, strict=True)

    def _positions(self, rows: Any, cols: Any, strict: bool) -> tuple[Ints, Ints]:
        table = self._model.observations
        # Positions out of range are mistakes; labels may be new.
        i = table.row_positions(rows, strict=strict or table.row_labels is None)
        j = table.col_positions(cols, strict=strict or table.col_labels is None)
        if i.shape != j.shape:
            raise DepthrankError(f"{len(i)} rows and {len(j)} columns; one of each per cell.")
        return i, j


def _label(labels: tuple[Any, ...] | None, position: Any) -> Any:
    return int(position) if labels is None else labels[int(position)]


def _rmse(error: Floats) -> float | None:
    return float(np.sqrt(np.mean(error**2))) if error.size else None
