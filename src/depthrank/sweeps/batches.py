"""From cells to batches: cells of one compiled shape and one set of options, in grid order.

Which cells form a batch follows from the config alone, never from what is left to do: a batch that
is run again after an interruption, or elsewhere, is the same computation and gives the same bits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from depthrank.sweeps.config import Config
from depthrank.sweeps.problems import shape_of
from depthrank.sweeps.settings import Cell, MatrixCell

__all__ = ["Batch", "batches_of"]

# Cells in one batch. Flows and descents share a compiled program; fits and studies take seconds
# each, so that every one is committed by itself.
_SIZES = {"flow": 512, "descent": 256, "limits": 4096, "completion": 1, "warm": 1, "study": 1}
# Smaller batches than the lanes of one program are filled up to powers of two, which share one.
_SMALLEST, _LANES = 16, 256
_STATIC = {
    "flow": ("depth", "width", "weight_decay", "tol", "rtol", "max_time", "max_steps", "solver"),
    "descent": ("depth", "width", "weight_decay", "optimizer", "steps", "batch_size"),
    "limits": ("depth", "blocks", "dimension", "block_size"),
}


@dataclass(frozen=True)
class Batch:
    """Cells that are run together.

    Attributes
    ----------
    task : str
    group : tuple
        What its cells share; batches of one group use the same compiled program.
    cells : tuple of int
        Flat positions of its cells.
    settings : tuple of Cell
        What each of them is told.
    size : int
        Members of the compiled batch; copies of the last cell fill it up.
    attempt : int
        How often it has died before.
    """

    task: str
    group: tuple[Any, ...]
    cells: tuple[int, ...]
    settings: tuple[Cell, ...]
    size: int
    attempt: int = 0

    def halves(self, *, smaller: bool) -> "list[Batch]":
        """Return its two halves: compiled smaller, or filled up to the size it had."""
        middle = (len(self.cells) + 1) // 2
        parts = [(self.cells[:middle], self.settings[:middle])]
        parts.append((self.cells[middle:], self.settings[middle:]))
        return [
            Batch(self.task, self.group, cells, settings, len(cells) if smaller else self.size)
            for cells, settings in parts
            if cells
        ]


def batches_of(config: Config) -> list[Batch]:
    """Return the batches of a config, those of one group in a row.

    Raises
    ------
    DepthrankError
        If a setting is out of range, or a data file cannot be read.
    """
    groups: dict[tuple[Any, ...], list[int]] = {}
    for index, cell in config.cells.items():
        groups.setdefault(_group(config.task, cell), []).append(index)
    most = config.batch or _SIZES[config.task]
    found = []
    for group, members in groups.items():
        for first in range(0, len(members), most):
            part = members[first : first + most]
            settings = tuple(config.cells[index] for index in part)
            size = _filled(len(part), most) if config.task in ("flow", "descent") else len(part)
            found.append(Batch(config.task, group, tuple(part), settings, size))
    return found


def _filled(count: int, most: int) -> int:
    """Return the size that a batch is filled up to: few sizes, hence few compilations."""
    if count >= _LANES:
        return count
    return min(max(most, count), max(_SMALLEST, 1 << (count - 1).bit_length()))


def _group(task: str, cell: Cell) -> tuple[Any, ...]:
    static = tuple(getattr(cell, name) for name in _STATIC.get(task, ()))
    if isinstance(cell, MatrixCell):
        return (task, shape_of(cell), *static)
    return (task, *static)


def modes_of(cells: Mapping[int, Cell]) -> int:
    """Return the largest number of singular values among the cells."""
    sizes = {min(shape_of(cell)) for cell in cells.values() if isinstance(cell, MatrixCell)}
    return int(np.max(list(sizes), initial=1))
