"""What a sweep will cost, before it is started: batches, memory, disk, and a rough time."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from depthrank.factors import dims
from depthrank.sweeps.batches import Batch, modes_of
from depthrank.sweeps.config import Config
from depthrank.sweeps.problems import shape_of
from depthrank.sweeps.settings import CompletionCell, DescentCell, MatrixCell, StartedCell, WarmCell
from depthrank.sweeps.variables import VARIABLES

__all__ = ["Estimate", "cell_seconds", "estimate", "store_bytes"]

# Measured on one core; a stranger's machine and grid may differ by a factor of several.
_FLOPS = 2e9  # of small products in a batch
_CALL = 2e-7  # seconds of an evaluation beside its products, per member
_EVALUATIONS = 700  # of a flow to its end
_COMPILING = 2.0  # seconds per program and factor, halved batches included
_FIT, _STUDY = 5.0, 20.0  # seconds
_PROCESS = 500 * 2**20  # bytes of a process with JAX loaded


@dataclass(frozen=True)
class Estimate:
    """What a sweep will cost.

    Attributes
    ----------
    cells, batches, programs : int
        Cells, batches, and compiled programs among them.
    seconds : float
        On one core, compilation included. Rough: within a factor of several.
    memory : int
        Bytes of one process at its largest batch.
    disk : int
        Bytes of the store, not compressed.
    """

    cells: int
    batches: int
    programs: int
    seconds: float
    memory: int
    disk: int


def estimate(config: Config, batches: Sequence[Batch]) -> Estimate:
    """Return what a sweep will cost."""
    programs = {batch.group for batch in batches}
    seconds = sum(cell_seconds(batch) * len(batch.cells) for batch in batches)
    for group in programs:
        batch = next(one for one in batches if one.group == group)
        if isinstance(batch.settings[0], StartedCell):
            seconds += _COMPILING * batch.settings[0].depth
    return Estimate(
        cells=len(config.cells),
        batches=len(batches),
        programs=len(programs),
        seconds=seconds,
        memory=_PROCESS + max((_bytes(batch) for batch in batches), default=0),
        disk=store_bytes(config),
    )


def store_bytes(config: Config) -> int:
    """Return what the arrays of a sweep take on disk at most, in bytes."""
    modes = modes_of(config.cells)
    width = {"f8": 8, "i8": 8, "i1": 1, "str": 1}
    per_cell = sum(width[v.kind] * (modes if v.modes else 1) for v in VARIABLES[config.task])
    return config.size * (per_cell + 2) + 2**16


def _sizes(cell: Any) -> list[tuple[int, int]]:
    return list(pairwise(dims(shape_of(cell), cell.depth, cell.width)))


def cell_seconds(batch: Batch) -> float:
    """Return what a cell of a batch takes on one core, roughly."""
    cell = batch.settings[0]
    if isinstance(cell, WarmCell):
        return _FIT
    if isinstance(cell, StartedCell):
        m, _ = shape_of(cell)
        # Up, down, and each factor's slope: three products a factor.
        flops = 6.0 * sum(into * out * max(into, out, m) for into, out in _sizes(cell))
        evaluations = cell.steps if isinstance(cell, DescentCell) else _EVALUATIONS
        return evaluations * (flops / _FLOPS + _CALL)
    if isinstance(cell, CompletionCell):
        return _FIT
    return _STUDY if batch.task == "study" else 1e-5


def _bytes(batch: Batch) -> int:
    cell = batch.settings[0]
    if not isinstance(cell, MatrixCell):
        return 0
    m, n = shape_of(cell)
    if not isinstance(cell, StartedCell):
        return 8 * 14 * 4 * m * n
    parameters = sum(into * out for into, out in _sizes(cell))
    return 8 * batch.size * (14 * parameters + 6 * m * n)
