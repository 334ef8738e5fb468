"""What a search for a fit is asked, tries and returns."""

from dataclasses import dataclass, field

import numpy as np

from depthrank.completion.fitting import Engine, Setting
from depthrank.completion.offsets import Preparation
from depthrank.dynamics.trajectory import Trajectory
from depthrank.factors import Factors
from depthrank.observations import Observations

_PAIRS = 2**16  # cells at a time


@dataclass(frozen=True)
class Wish:
    """What the user fixed, and what is left to choose.

    Attributes
    ----------
    depth, weight_decay, offsets : number or str
        "auto", or fixed.
    width : int or None
        Hidden width; None for the default.
    scaling : str
        As `depthrank.completion.offsets.prepare` takes it.
    fraction : float or str
        Share of the observed cells to hold out while choosing, or "auto".
    init_scale : float or str
        Size of the start, or "auto".
    max_seconds : float
        For choosing and fitting together.
    """

    depth: int | str
    weight_decay: float | str
    offsets: str
    width: int
    scaling: str
    fraction: float | str
    init_scale: float | str = "auto"
    max_seconds: float = np.inf


@dataclass(frozen=True, eq=False)
class Trial:
    """One candidate and how it did.

    Attributes
    ----------
    setting : Setting
        What was tried.
    preparation : Preparation
        Fitted to the training part.
    trajectory : Trajectory
        Its flow; the factors are those of the smallest held-out error.
    rmse : float
        Held-out error, user's units.
    size : float
        Root mean square of the prepared training cells: 1, or 0, unless nothing was scaled.
    """

    setting: Setting
    preparation: Preparation
    trajectory: Trajectory
    rmse: float
    size: float

    def row(self) -> dict[str, object]:
        """Return what a report shows of it."""
        return {
            "depth": self.setting.depth,
            "weight_decay": self.setting.weight_decay,
            "offsets": self.setting.offsets,
            "width": self.setting.width,
            "finish": self.setting.finish,
            "validation_rmse": self.rmse,
            "stopped_by": self.trajectory.stopped_by,
            "evaluations": self.trajectory.evaluations,
            "seconds": self.trajectory.seconds,
        }


@dataclass(frozen=True, eq=False)
class Fit:
    """The chosen setting, fitted to every observed cell.

    Attributes
    ----------
    setting, preparation, trajectory : Setting, Preparation, Trajectory
        Of the final fit.
    trials : list of Trial
        What was tried on held-out cells, in order; empty where nothing was held out.
    held_out : Observations or None
        Those cells.
    best : Trial or None
        The one that was chosen.
    refitted : bool
        False where time ran out, or the user stopped, before the refit on all cells: the factors
        are those of the best trial, which did not see the held-out cells.
    """

    setting: Setting
    preparation: Preparation
    trajectory: Trajectory
    trials: list[Trial] = field(default_factory=list)
    held_out: Observations | None = None
    best: Trial | None = None
    refitted: bool = True


@dataclass(frozen=True, eq=False)
class Task:
    """What one search shares."""

    observations: Observations
    train: Observations
    held_out: Observations
    engine: Engine
    wish: Wish
    deadline: float


def cells_of(factors: Factors, cells: Observations) -> np.ndarray:
    """Return the entries of W_L ... W_1 at some cells."""
    right = factors[0]
    if len(factors) == 1:
        return np.asarray(right[cells.rows, cells.cols])
    for W in factors[1:-1]:
        right = W @ right
    left = factors[-1]
    values = np.empty(cells.n_observed)
    for start in range(0, len(values), _PAIRS):
        part = slice(start, start + _PAIRS)
        values[part] = np.einsum("kd,kd->k", left[cells.rows[part]], right.T[cells.cols[part]])
    return values


def errors(
    held_out: Observations, preparation: Preparation, factors: Factors
) -> tuple[float, float]:
    """Return the held-out error in the user's units, and its square in prepared ones."""
    prepared = preparation.apply(held_out)
    left = cells_of(factors, held_out) - prepared.values
    scaled = left * preparation.scales[held_out.cols]
    return float(np.sqrt(np.mean(scaled**2))), float(np.mean(left**2))


def fitted(trial: Trial) -> bool:
    """Whether the state of the smallest held-out error is (next to) a fitted one."""
    limit = 10 * trial.setting.trial_tol * trial.size**2
    return trial.trajectory.stopped_by == "fitted" and trial.trajectory.observed_mse <= limit
