"""One flow of a prepared table, with the settings that completion uses.

JAX compiles a program for every shape. Tables are therefore padded with empty rows, columns and
hidden units to rounded sizes: zeros stay zeros under the flow, so the result is that of the table
itself, and the folds of a cross-validation share one program.
"""

import dataclasses
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from depthrank import memory
from depthrank.dynamics.chebyshev import MAX_STAGES
from depthrank.dynamics.flow import flow
from depthrank.dynamics.trajectory import Trajectory
from depthrank.factors import Factors, dims
from depthrank.initialization import Gaussian, Start
from depthrank.observations import Observations

RTOL = 1e-2
"""Local error of a step: the end-to-end matrix moves by less than a thousandth for it."""

SOLVER = "chebyshev"

INIT_SCALE = 1e-6
"""Default end-to-end size of the start, relative to the root mean square of the cells. Smaller
than needed for plentiful cells; where they are few, larger ones miss the low-rank answer."""

WIDTH_LIMIT = 128
"""Largest hidden width that is taken without being asked for."""

_DECAY_TIMES = 10.0  # after so many times 1/decay a flow under decay moves on by less than noise
_MAX_STEPS = 20_000
SMALL = 10_000  # cells of a table below which compiling costs more than running
_MAX_TRIAL_STEPS = 300  # clean tables are fitted in 70 to 200
_MAX_TRIAL_STAGES = 100  # a bound on what noise can cost that is followed to its end


@dataclasses.dataclass(frozen=True)
class Setting:
    """What one fit is run with.

    Attributes
    ----------
    depth, width : int
        Number of factors and hidden width.
    weight_decay : float
        For the scaled table.
    offsets : str
        Offsets that are taken off first.
    max_time : float
        Flow time to stop at.
    init_scale : float
        End-to-end size of the start, where the engine has no start of its own: relative to the
        root mean square of the prepared cells.
    loss_drop : float
        With held-out cells: the fraction of the loss that may be lost after the best of them; at
        1 it is followed until it is fitted.
    trial_tol : float
        With held-out cells: fitted below this, if it is above the engine's `tol`.
    finish : str
        "flow" for its end, "averaged" (see `averaging`) or "polished" (see `polish`).
    widths : tuple of int
        Of several averages of which the mean is taken; empty for one.
    start : str
        "Gaussian", or "positive" for one-signed tables in unconnected parts.
    """

    depth: int
    width: int
    weight_decay: float = 0.0
    offsets: str = "none"
    max_time: float = np.inf
    init_scale: float = INIT_SCALE
    loss_drop: float = 0.5
    trial_tol: float = 1e-7
    finish: str = "flow"
    widths: tuple[int, ...] = ()
    start: str = "Gaussian"


@dataclasses.dataclass(frozen=True)
class Engine:
    """What all fits of one estimator share: start, tolerances, precision, seed.

    Attributes
    ----------
    init : callable or None
        The start; None is Gaussian of the setting's size.
    tol, rtol : float
        As for `depthrank.flow`.
    dtype : str
        "float64" or "float32".
    seed : int
        Root seed.
    progress : callable or None
        Told of the progress of each flow.
    """

    init: Start | None = None
    tol: float = 1e-10
    rtol: float = RTOL
    dtype: str = "float64"
    seed: int = 0
    progress: Callable[[Any], None] | None = None

    def start(self, shape: tuple[int, int], setting: Setting) -> Factors:
        """Return the factors that a fit of this setting starts from."""
        init = Gaussian(setting.init_scale) if self.init is None else self.init
        return init(dims(shape, setting.depth, setting.width), self.seed)


def run(
    observations: Observations,
    engine: Engine,
    setting: Setting,
    *,
    validation: Observations | None = None,
    wall_clock: float = np.inf,
    dtype: str | None = None,
) -> Trajectory:
    """Follow the flow of a prepared (centred and scaled) table to its end.

    Parameters
    ----------
    observations, validation : Observations
        Prepared alike.
    engine, setting : Engine, Setting
        How; `setting.offsets` is the caller's business.
    wall_clock : float
        Seconds at most.
    dtype : str, optional
        Instead of the engine's.

    Returns
    -------
    Trajectory
        Of the table's own shape. What ended it is in `stopped_by`; no warning is given here.
    """
    m, n = observations.shape
    memory.require(
        8 * (8 * m * n + 14 * setting.width * (m + n)),
        f"Fitting a {m:,} x {n:,} table",
        "Take fewer rows or columns.",
    )
    factors = engine.start((m, n), setting)
    sizes = (factors[0].shape[1], *(factor.shape[0] for factor in factors))
    rounded = tuple(_rounded(size, min(m, n)) for size in sizes)
    padded = tuple(
        np.pad(W, ((0, rounded[i + 1] - W.shape[0]), (0, rounded[i] - W.shape[1])))
        for i, W in enumerate(factors)
    )
    shape = (rounded[-1], rounded[0])
    max_time = setting.max_time
    if setting.weight_decay > 0 and validation is not None:
        max_time = min(max_time, _DECAY_TIMES / setting.weight_decay)
    watched = validation
    if validation is None and m * n <= SMALL and setting.weight_decay == 0:
        # Watching the observed cells themselves changes nothing (their error never rises) and
        # spares small tables a second compiled program.
        watched = observations
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The flow ended as")
        trajectory = flow(
            _reshaped(observations, shape),
            factors=padded,
            weight_decay=setting.weight_decay,
            tol=engine.tol if validation is None else max(engine.tol, setting.trial_tol),
            rtol=engine.rtol,
            max_time=max_time,
            max_steps=_MAX_STEPS if validation is None else _MAX_TRIAL_STEPS,
            wall_clock=wall_clock,
            record="ends",
            loss_drop=1.0 if validation is None else setting.loss_drop,
            validation=None if watched is None else _reshaped(watched, shape),
            solver=SOLVER,
            max_stages=MAX_STAGES if watched is None else _MAX_TRIAL_STAGES,
            dtype=dtype or engine.dtype,
            seed=engine.seed,
            progress=engine.progress,
        )
    own = tuple(W[: sizes[i + 1], : sizes[i]] for i, W in enumerate(trajectory.factors))
    modes = min(observations.shape)
    return dataclasses.replace(
        trajectory,
        factors=tuple(np.ascontiguousarray(W) for W in own),
        data=trajectory.data.isel(mode=slice(0, modes)),
        validation_mse=None if validation is None else trajectory.validation_mse,
    )


def _rounded(size: int, smaller: int) -> int:
    """Round a size up; coarsely where the smaller side is small and compiling costs more."""
    for step in (32, 128) if smaller <= 32 else (64,):
        if size <= step:
            return step
    return -(-size // 16) * 16


def _reshaped(observations: Observations, shape: tuple[int, int]) -> Observations:
    return Observations(shape, observations.rows, observations.cols, observations.values)
