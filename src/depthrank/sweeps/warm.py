"""Cells that train in two phases: a part of what is seen first, then all of it."""

from collections.abc import Callable

from depthrank import plasticity
from depthrank.errors import DepthrankError
from depthrank.plasticity import Phase, Remedy, WarmStart, warm_start
from depthrank.sweeps.problems import Made, make, start_of
from depthrank.sweeps.settings import WarmCell, seed_of

__all__ = ["train"]


def train(cell: WarmCell) -> tuple[Made, WarmStart]:
    """Train a cell: `first` of its entries to the end, a remedy, then all entries.

    Raises
    ------
    DepthrankError
        If the problem cannot be made, or the remedy does not take its amount.
    """
    made = make(cell)
    early, _ = made.observations.split(1 - cell.first, seed_of(cell, "first"))
    if cell.first == 1:
        early = made.observations
    phases = [
        Phase(observations=early, tol=cell.tol, weight_decay=cell.weight_decay),
        Phase(
            observations=made.observations,
            remedy=_remedy(cell),
            tol=cell.tol,
            weight_decay=cell.weight_decay,
        ),
    ]
    run = warm_start(
        phases,
        depth=cell.depth,
        width=cell.width,
        init=start_of(cell, made.observations),
        seed=seed_of(cell, "init"),
        rtol=cell.rtol,
        max_steps=cell.max_steps,
    )
    return made, run


def _remedy(cell: WarmCell) -> Remedy:
    make_remedy: Callable[..., Remedy] = getattr(plasticity, cell.remedy)
    if cell.amount is None:
        return make_remedy()
    if cell.remedy in ("none", "cold", "rebalance"):
        raise DepthrankError(f"the remedy {cell.remedy} takes no amount; leave it out")
    whole = cell.remedy in ("reset", "add_depth")
    return make_remedy(int(cell.amount) if whole else cell.amount)
