"""From the settings of a cell to a training problem: what is seen, what is true, how it starts."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from depthrank import initialization, patterns
from depthrank.errors import DepthrankError
from depthrank.observations import Observations
from depthrank.seeds import generator
from depthrank.sweeps.settings import LimitsCell, MatrixCell, StartedCell, seed_of
from depthrank.truths import low_rank

__all__ = ["Made", "blocks_of", "make", "shape_of", "start_of"]

# What a problem depends on: cells that agree in these share one.
_FIELDS = tuple(MatrixCell.model_fields)


@dataclass(frozen=True, eq=False)
class Made:
    """A problem made to measure.

    Attributes
    ----------
    observations : Observations
        What training sees, noise included, held-out entries taken out.
    truth : float64 [m, n] or None
        The whole matrix without noise, where it is more than the observed values.
    held_out : Observations or None
        Entries kept out of training.
    """

    observations: Observations
    truth: np.ndarray | None
    held_out: Observations | None


def make(cell: MatrixCell) -> Made:
    """Return the problem of a cell.

    Raises
    ------
    DepthrankError
        If the pattern does not fit the size, nothing is seen, or the file cannot be read.
    """
    return _make(tuple(getattr(cell, name) for name in _FIELDS))


@lru_cache(maxsize=512)
def _make(values: tuple[Any, ...]) -> Made:
    cell = MatrixCell.model_construct(**dict(zip(_FIELDS, values, strict=True)))
    truth = None
    if cell.input is not None:
        observations = _read(cell.input, cell.row_column, cell.col_column, cell.value_column)
    else:
        mask = _mask(cell)
        if cell.rank is None:
            matrix = np.full(mask.shape, cell.value)
        else:
            matrix = truth = low_rank(mask.shape, cell.rank, cell.value, seed_of(cell, "truth"))
        observations = Observations.from_mask(matrix, mask)
    if cell.noise > 0:
        rng = generator(seed_of(cell, "noise"), "noise")
        # A draw for every entry of the matrix, so that a larger mask only adds noise.
        drawn = rng.standard_normal(observations.shape)[observations.rows, observations.cols]
        size = cell.noise * (abs(cell.value) if cell.input is None else observations.rms)
        observations = observations.with_values(observations.values + size * drawn)
    held_out = None
    if cell.holdout > 0:
        observations, held_out = observations.split(cell.holdout, seed_of(cell, "holdout"))
    if observations.n_observed == 0:
        raise DepthrankError("nothing is seen; give a larger fraction or count")
    return Made(observations, truth, held_out)


@lru_cache(maxsize=16)
def _read(path: str, rows: str | None, columns: str | None, values: str | None) -> Observations:
    from depthrank.files import read

    return read(path, rows=rows, cols=columns, values=values)


def shape_of(cell: MatrixCell) -> tuple[int, int]:
    """Return the shape (m, n) of a cell's matrix."""
    if cell.input is not None:
        return _read(cell.input, cell.row_column, cell.col_column, cell.value_column).shape
    if cell.seen_as == "block-diagonal":
        n, size = blocks_of(cell)
        return n * size, n * size
    if cell.dimension is not None:
        return cell.dimension, cell.dimension
    return cell.rows or 1, cell.columns or 1


def blocks_of(cell: MatrixCell | LimitsCell) -> tuple[int, int]:
    """Return number and size of the equal blocks of a block-diagonal (or diagonal) cell."""
    size = cell.block_size
    return cell.blocks if cell.blocks is not None else (cell.dimension or 1) // size, size


def start_of(cell: StartedCell, observations: Observations) -> initialization.Start:
    """Return how the factors of a cell start."""
    name = cell.start_name
    if name == "alpha-m":
        if cell.alpha is None or cell.m is None:
            raise DepthrankError("the start alpha-m needs alpha and m")
        return initialization.AlphaM(alpha=cell.alpha, m=cell.m)
    scale = cell.init_scale
    if scale is None:
        scale = initialization.default_scale(observations.values)
    return initialization.SCALED[name](init_scale=scale)


def _mask(cell: MatrixCell) -> np.ndarray:
    name, seed = cell.seen_as, seed_of(cell, "mask")
    if name == "block-diagonal":
        n, size = blocks_of(cell)
        return patterns.block_diagonal([(size, size)] * n)
    shape = shape_of(cell)
    if name == "uniform":
        return patterns.uniform(shape, fraction=cell.fraction, count=cell.count, seed=seed)
    if name == "bernoulli":
        if cell.fraction is None:
            raise DepthrankError("the pattern bernoulli needs a fraction, its probability")
        return patterns.bernoulli(shape, probability=cell.fraction, seed=seed)
    if name == "connected":
        return patterns.connected(shape, count=cell.count, seed=seed)
    if name == "disconnected":
        if cell.components is None:
            raise DepthrankError("the pattern disconnected needs components")
        return patterns.disconnected(shape, components=cell.components, count=cell.count, seed=seed)
    if name == "banded":
        return patterns.banded(shape, lower=cell.band, upper=cell.band)
    mask: np.ndarray = getattr(patterns, name.replace("-", "_"))(shape)
    return mask
