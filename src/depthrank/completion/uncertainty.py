"""How far off an estimate may be: a standard deviation of each cell, and a calibrated interval.

The factors of a fit are taken as means of rows and columns that are Gaussian with the spread that
the fit has found; what the observed cells leave open of each row and column is then a covariance
(`averaging.covariances`). How well those standard deviations hold is measured on the cells that
were held out while choosing: the intervals are as wide as those cells, not the model, say. Where
nothing observed bears on a cell (across unconnected parts, in empty rows and columns), the
standard deviation is the size of the whole table: another start gives another answer there.
"""

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from depthrank.completion.averaging import Average, covariances
from depthrank.completion.polish import leading
from depthrank.graph import ACROSS, ISOLATED

if TYPE_CHECKING:
    from depthrank.completion.model import CompletionModel
    from depthrank.observations import Observations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVELS = np.linspace(0.0, 1.0, 201)
MODES = 20
"""Directions of a fit whose uncertainty is followed; the largest."""

_FEW = 20  # held-out cells below which quantiles say nothing
_CELLS = 2000  # at a time
_MOST = 20_000  # held-out cells that calibrate


def knowledge(model: "CompletionModel") -> Average:
    """Return how well the rows and columns of a model are known, prepared units."""
    left, right = model.halves
    u, s, v = leading(left, right)
    kept = np.flatnonzero(s > 1e-9 * max(float(s[0]), np.finfo(float).tiny))[:MODES]
    root = np.sqrt(s[kept])
    way = model.preparation
    scale = float(way.scales.mean())
    rows = np.hstack((u[:, kept] * root, way.row_effects[:, None] / scale))
    cols = np.hstack((v[:, kept] * root, way.col_effects[:, None] / scale))
    return covariances(way.apply(model.observations), rows, cols, model.noise)


def deviations(model: "CompletionModel", rows: Ints, cols: Ints) -> Floats:
    """Return the standard deviation of what would be observed in cells, user's units, [k]."""
    known, way = model.knowledge, model.preparation
    result = np.empty(len(rows))
    for start in range(0, len(rows), _CELLS):
        part = slice(start, start + _CELLS)
        result[part] = known.variance(rows[part], cols[part])
    result = np.sqrt(np.maximum(result, 0.0) + model.noise**2) * way.scales[cols]
    if len(rows):
        codes = model.graph.label(rows, cols)
        seen = model.observations.values
        spread = float(seen.std()) if way.offsets != "none" else model.observations.rms
        result[(codes == ACROSS) | (codes == ISOLATED)] = max(spread, float(model.noise))
    return result


def calibration(model: "CompletionModel", held_out: "Observations") -> Floats | None:
    """Return quantiles of |error| over standard deviation at `LEVELS`, None for too few cells.

    Parameters
    ----------
    model : CompletionModel
        Fitted without `held_out`.
    held_out : Observations
        User's units.
    """
    codes = model.graph.label(held_out.rows, held_out.cols)
    usable = np.flatnonzero((codes != ACROSS) & (codes != ISOLATED))
    if len(usable) < _FEW:
        return None
    usable = usable[:: -(-len(usable) // _MOST)]
    rows, cols = held_out.rows[usable], held_out.cols[usable]
    errors = np.abs(held_out.values[usable] - model.cells(rows, cols))
    ratios = errors / np.maximum(deviations(model, rows, cols), np.finfo(float).tiny)
    # One more than there are: the next cell is as likely to be the largest as any of these.
    levels = np.minimum(LEVELS * (1 + 1 / len(ratios)), 1.0)
    return np.asarray(np.quantile(ratios, levels))


def width(model: "CompletionModel", level: float) -> float:
    """Return how many standard deviations an interval of a level is wide, to each side."""
    from scipy.stats import norm

    if model.calibration is None:
        return float(norm.ppf(0.5 + level / 2))
    return float(np.interp(level, LEVELS, model.calibration))
