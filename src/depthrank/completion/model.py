"""What a fit leaves behind: the factors, the preparation, the observations, and how to use them."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depthrank import memory, spectra
from depthrank.completion.averaging import Average
from depthrank.completion.determine import LABELS, Determination
from depthrank.completion.foldin import ColumnSpace, column_space
from depthrank.completion.offsets import Fallback, Preparation, fallback
from depthrank.completion.trials import Fit
from depthrank.completion.uncertainty import calibration, knowledge
from depthrank.factors import Factors
from depthrank.graph import ISOLATED, Connectivity, connectivity
from depthrank.observations import Observations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

_PAIRS = 2**16  # cells predicted at a time


@dataclass(frozen=True, eq=False)
class CompletionModel:
    """A fitted completion.

    Attributes
    ----------
    observations : Observations
        What it was fitted to, user's units.
    preparation : Preparation
        Offsets and scales.
    factors : tuple of arrays
        (W_1, ..., W_L), fitted to the prepared cells.
    noise : float
        Root mean square residual, prepared units: of held-out cells where some were held out, of
        the observed ones otherwise.
    rank : int
        Rank of the fit, for what its pattern determines.
    calibration : float64 [201] or None
        Quantiles of held-out errors over their standard deviations, at `uncertainty.LEVELS`.
    """

    observations: Observations
    preparation: Preparation
    factors: Factors
    noise: float
    rank: int = 1
    calibration: Floats | None = None

    @cached_property
    def knowledge(self) -> Average:
        """How well rows and columns are known."""
        return knowledge(self)

    @cached_property
    def determination(self) -> Determination:
        """Which cells the pattern determines at the rank of the fit."""
        return Determination(self.observations, self.graph, self.rank)

    @cached_property
    def graph(self) -> Connectivity:
        """Components of what is seen, and the label of each cell."""
        return connectivity(self.observations)

    @cached_property
    def fallback(self) -> Fallback:
        """Means that stand where nothing can be estimated."""
        return fallback(self.observations)

    @cached_property
    def columns(self) -> ColumnSpace:
        """Column space that new rows are folded into."""
        occupied = int(np.count_nonzero(self.graph.row_counts))
        return column_space(self.factors, max(occupied, 1), self.noise)

    @cached_property
    def halves(self) -> tuple[Floats, Floats]:
        """The end-to-end matrix as left [m, d] times right [d, n]."""
        right = self.factors[0]
        for W in self.factors[1:-1]:
            right = W @ right
        left = self.factors[-1] if len(self.factors) > 1 else np.eye(len(right))
        return left, right

    @cached_property
    def twins(self) -> dict[tuple[bytes, bytes], int]:
        """First row with the same cells and values, by what is seen of it."""
        firsts: dict[tuple[bytes, bytes], int] = {}
        for row, (cols, values) in enumerate(by_row(self.observations)):
            firsts.setdefault(_key(cols, values), row)
        return firsts

    def cells(self, rows: Any, cols: Any) -> Floats:
        """Return the estimate of cells by position; -1 stands for an unknown row or column.

        Observed cells get the model's value here, not the one that was observed. Where nothing is
        known of the row or the column, the estimate is the fallback.
        """
        i, j = (np.asarray(x, dtype=np.int64) for x in np.broadcast_arrays(rows, cols))
        left, right = self.halves
        values = np.empty(i.shape)
        flat_i, flat_j, flat = i.ravel(), j.ravel(), values.reshape(-1)
        for start in range(0, flat.size, _PAIRS):
            a, b = flat_i[start : start + _PAIRS], flat_j[start : start + _PAIRS]
            product = np.einsum("kd,kd->k", left[a], right.T[b])
            estimate = self.preparation.base(a, b) + self.preparation.scales[b] * product
            flat[start : start + _PAIRS] = self._with_fallback(estimate, a, b)
        return flat.reshape(i.shape)

    def _with_fallback(self, estimate: Floats, rows: Ints, cols: Ints) -> Floats:
        means, graph = self.fallback, self.graph
        no_row = (rows < 0) | (graph.row_component[rows] < 0)
        no_col = (cols < 0) | (graph.col_component[cols] < 0)
        estimate = np.where(no_row, means.col_means[cols], estimate)
        estimate = np.where(no_col, means.row_means[rows], estimate)
        return np.where(no_row & no_col, means.overall, estimate)

    def estimate_table(self) -> Floats:
        """Return the estimate of every cell, [m, n]; memory is checked first."""
        m, n = self.observations.shape
        memory.require(3 * 8 * m * n, f"a completed {m:,} x {n:,} table", "Predict chosen cells.")
        left, right = self.halves
        table = (left @ right) * self.preparation.scales
        table += self.preparation.base(np.arange(m)[:, None], np.arange(n))
        means, graph = self.fallback, self.graph
        table[graph.isolated_rows] = means.col_means
        table[:, graph.isolated_cols] = means.row_means[:, None]
        table[np.ix_(graph.isolated_rows, graph.isolated_cols)] = means.overall
        return np.asarray(table)

    def completed(self) -> Floats:
        """Return the table with observed cells as given and all others filled, [m, n].

        Rows that agree in every cell, observed or missing, are filled alike: as the first of them.
        """
        table = self.estimate_table()
        rows = list(by_row(self.observations))
        first = [self.twins[_key(*row)] for row in rows]
        if first != list(range(len(first))):
            table = table[first]
        table[self.observations.rows, self.observations.cols] = self.observations.values
        return table

    def filled(self, table: Observations) -> Floats:
        """Return a table of the same columns with its missing cells filled, [k, n].

        A row that agrees with a training row in every cell is filled as that row was; any other
        is folded in by itself. An empty row gets the column means.
        """
        k, n = table.shape
        memory.require(2 * 8 * k * n, f"a completed {k:,} x {n:,} table", "Give fewer rows.")
        known = np.full(k, -1)
        rows = list(by_row(table))
        for row, (cols, values) in enumerate(rows):
            known[row] = self.twins.get(_key(cols, values), -1)
        result = np.empty((k, n))
        old = np.flatnonzero(known >= 0)
        result[old] = self.cells(known[old, None], np.arange(n))
        for row in np.flatnonzero(known < 0).tolist():
            result[row] = self.new_row(*rows[row])
        result[table.rows, table.cols] = table.values
        return result

    def new_row(self, cols: Ints, values: Floats) -> Floats:
        """Return the estimate of a row of which some cells are seen, [n], user's units."""
        if not len(cols):
            return self.fallback.col_means.copy()
        way = self.preparation
        effect = way.new_row_effect(cols, values)
        base = way.mean + effect + way.col_effects
        row = base + way.scales * self.columns.fold(cols, (values - base[cols]) / way.scales[cols])
        empty = self.graph.isolated_cols
        row[empty] = values.mean()
        return np.asarray(row)


def by_row(table: Observations) -> Any:
    """Yield the columns and values that are seen of each row."""
    ends = np.searchsorted(table.rows, np.arange(table.shape[0] + 1))
    for start, stop in pairwise(ends.tolist()):
        yield table.cols[start:stop], table.values[start:stop]


def _key(cols: Ints, values: Floats) -> tuple[bytes, bytes]:
    return cols.tobytes(), (values + 0.0).tobytes()  # -0.0 is 0.0


def cell_names(model: CompletionModel, rows: Ints, cols: Ints) -> NDArray[np.str_]:
    """Name what is known of cells: a label of the graph, or what is unseen."""
    codes = np.full(rows.shape, ISOLATED, dtype=np.int8)
    known = (rows >= 0) & (cols >= 0)
    codes[known] = model.determination.label(rows[known], cols[known])
    names = np.array(LABELS, dtype=object)[codes]
    names[(rows < 0) & (cols >= 0)] = "unseen row"
    names[(rows >= 0) & (cols < 0)] = "unseen column"
    names[(rows < 0) & (cols < 0)] = "unseen row and column"
    return names.astype(str)


def model_of(observations: Observations, done: Fit) -> CompletionModel:
    """Return the model that a fit has found."""
    trajectory = done.trajectory
    mse = trajectory.observed_mse
    if done.best is not None and done.best.trajectory.validation_mse is not None:
        # Held-out residuals: those of the fit are too small by what it has adapted to noise.
        mse = max(mse, done.best.trajectory.validation_mse)
    noise = float(np.sqrt(mse))
    rank = _rank(done)
    quantiles = None
    if done.best is not None and done.held_out is not None:
        best = done.best
        trained = observations.difference(done.held_out)
        trial = CompletionModel(trained, best.preparation, best.trajectory.factors, noise, rank)
        quantiles = calibration(trial, done.held_out)
    way, factors = done.preparation, trajectory.factors
    return CompletionModel(observations, way, factors, noise, rank, quantiles)


def _rank(done: Fit) -> int:
    """Return the rank that a fit assumes: exactly where it was polished, effectively elsewhere."""
    if done.setting.finish == "polished":
        return max(len(done.trajectory.factors[0]), 1)
    effective = spectra.effective_rank_of(done.trajectory.singular_values)
    return max(int(np.rint(effective)) if np.isfinite(effective) else 1, 1)


def hidden_cell_rmse(model: CompletionModel, table: Observations, folds: int = 5) -> float:
    """Return the error on cells that are hidden in turn and estimated from the rest of their row.

    The c-th observed cell of a row is in part c mod `folds`, or mod the number of its cells.
    """
    squares, count = 0.0, 0
    for cols, values in by_row(table):
        parts = min(folds, len(cols))
        if parts < 2:
            continue
        part = np.arange(len(cols)) % parts
        for hidden in range(parts):
            out = part == hidden
            error = model.new_row(cols[~out], values[~out])[cols[out]] - values[out]
            squares, count = squares + float(error @ error), count + int(out.sum())
    return float(np.sqrt(squares / count)) if count else float("nan")
