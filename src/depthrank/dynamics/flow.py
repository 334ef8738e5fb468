"""Exact gradient flow, from a start to the end of training."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from depthrank.dynamics.chebyshev import MAX_STAGES
from depthrank.dynamics.run import Run, one
from depthrank.dynamics.setup import (
    check_choice,
    check_memory,
    make_problem,
    residual_scale,
    starting_factors,
)
from depthrank.dynamics.state import SOLVERS, Control, Method
from depthrank.dynamics.trajectory import Progress, Trajectory
from depthrank.errors import DepthrankError, check_range
from depthrank.factors import Factors, end_to_end, imbalance
from depthrank.initialization import Start
from depthrank.observations import Observations


def flow(
    observations: Observations,
    *,
    depth: int | None = None,
    init: Start | None = None,
    factors: Sequence[np.ndarray] | None = None,
    width: int | None = None,
    weight_decay: float = 0.0,
    tol: float = 1e-14,
    certify: float | None = None,
    rtol: float = 1e-6,
    max_time: float = np.inf,
    max_steps: int = 200_000,
    wall_clock: float = np.inf,
    times: Sequence[float] | np.ndarray | None = None,
    record: str = "auto",
    validation: Observations | None = None,
    loss_drop: float = 0.3,
    solver: str = "auto",
    max_stages: int = MAX_STAGES,
    dtype: str = "float64",
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Trajectory:
    """Follow the gradient flow of deep matrix factorisation to its end.

    dW_l/dt = -dloss/dW_l from the given start, for loss = half the sum of squared residuals on
    observed entries plus half the weight decay; no step size is left in the answer, only an
    integration error that `rtol` bounds.

    Parameters
    ----------
    observations : Observations
        What is seen, [m, n].
    depth : int, optional
        Number of factors L >= 1. Needed unless `factors` is given.
    init : callable, optional
        The start, for example ``AlphaM(alpha=1e-2, m=2.0)``. Default: ``Gaussian(1e-3 * size)``
        with size the Frobenius norm of the observed values.
    factors : sequence of arrays, optional
        Start from these factors (W_1, ..., W_L) instead.
    width : int, optional
        Hidden width; default min(m, n), which restricts nothing.
    weight_decay : float
        The decay lambda >= 0.
    tol : float
        Fitted once the mean squared residual is below `tol` times the mean square of the data.
    certify : float, optional
        End as "certified" as soon as the state proves that the flow converges to zero loss and
        that the end-to-end matrix moves by less than this fraction of its norm from there (see
        `theory.certificate`); the result then carries the proof as `certificate`. It needs a
        balanced start (or a square matrix at depth 2), depth >= 2 and no weight decay, and is
        reached only where the limit has full rank.
    rtol : float
        Local error of a step relative to the norm of each factor.
    max_time, max_steps, wall_clock : float, int, float
        Flow time, accepted steps and seconds to stop at.
    times : sequence of float, optional
        Record exactly at these times (increasing, >= 0); the flow ends at the last of them, or
        before, once fitted; times after that end hold the final state's values.
    record : str
        "auto": spectra densely enough to plot; "ends": first and last only; "entries": as "auto",
        with the end-to-end matrix kept at each recorded time.
    validation : Observations, optional
        Held-out entries. The state of the smallest validation error is returned.
    loss_drop : float
        With `validation`: end once the observed loss has fallen by this fraction since the best
        validation error.
    solver : str
        "auto", "chebyshev", "tsit5", "dopri8" or "kvaerno5".
    max_stages : int
        Largest number of stages of a Chebyshev step.
    dtype : str
        "float64" or "float32" (with `tol` not below 1e-10 in practice).
    seed : int
        Seed of the start.
    progress : callable, optional
        Called with a `Progress` a few times a second.

    Returns
    -------
    Trajectory
        Its `stopped_by` says what ended it; anything but an end of training also warns.

    Raises
    ------
    DepthrankError
        If an argument is out of its range, shapes do not fit, or memory would not suffice.

    Notes
    -----
    **Label.** Numerical, to the tolerance asked for. **Source.** Equation of the flow: Shin & Yun
    (ICLR 2026), section 2. Ctrl-C ends the flow as "interrupted" with the state reached.

    Examples
    --------
    >>> import numpy as np, depthrank
    >>> truth = np.outer([1.0, 2.0, 3.0], [1.0, 2.0])
    >>> seen = np.array([[1, 1], [1, 0], [1, 1]], bool)
    >>> run = depthrank.flow(
    ...     depthrank.Observations.from_mask(truth, seen), depth=3, init=depthrank.Gaussian(1e-4)
    ... )
    >>> run.stopped_by, bool(abs(run.end_to_end[1, 1] - 4.0) < 1e-2)
    ('fitted', True)
    """
    check_range("tol", tol, 0.0, 1.0)
    check_range("rtol", rtol, 1e-14, 0.1)
    if certify is not None:
        check_range("certify", certify, 0.0)
    check_range("max_time", max_time, 0.0)
    check_range("max_steps", max_steps, 1)
    check_range("wall_clock", wall_clock, 0.0)
    check_range("weight_decay", weight_decay, 0.0, float(np.finfo(float).max))
    check_range("loss_drop", loss_drop, 0.0, 1.0)
    check_range("max_stages", max_stages, 2, 10_000)
    check_choice("solver", solver, SOLVERS)
    check_choice("record", record, ("auto", "ends", "entries"))
    check_choice("dtype", dtype, ("float64", "float32"))
    stops = _stops(times, max_time)
    started = starting_factors(observations, depth, init, factors, width, seed)
    check_memory(observations, started, solver)
    if certify is not None:
        _check_certifiable(started, observations, weight_decay, validation)
    method = Method(solver, max_stages, validated=validation is not None)
    with jax.enable_x64(dtype == "float64"):
        problem = make_problem(observations, weight_decay, dtype, validation)
        control = Control(
            rtol=one(rtol, dtype),
            tol=one(tol * residual_scale(observations, started), dtype),
            max_steps=jnp.asarray([max_steps]),
            loss_drop=one(loss_drop, dtype),
            t_stop=one(np.inf, dtype),
        )
        run = Run(problem, control, method, observations, record, certify, progress)
        run.begin(tuple(jnp.asarray(f, dtype)[None] for f in started))
        run.follow(stops, wall_clock, at_stops_only=times is not None)
        return run.trajectory(
            started,
            tol,
            {
                "depth": len(started),
                "seed": seed,
                "rtol": rtol,
                "tol": tol,
                "weight_decay": weight_decay,
                "solver": solver,
                "dtype": dtype,
                "init": "given factors" if factors is not None else repr(init or "default"),
            },
        )


def _check_certifiable(
    started: Factors,
    observations: Observations,
    weight_decay: float,
    validation: Observations | None,
) -> None:
    """Refuse to certify where the theorem does not apply, before anything starts."""
    if weight_decay > 0 or validation is not None or len(started) < 2:
        raise DepthrankError(
            f"certify was given with weight_decay={weight_decay:g}, depth {len(started)} and "
            f"{'a' if validation else 'no'} validation set; convergence is proved for depth >= 2 "
            "without decay and without early stopping. Leave certify out."
        )
    # Balance is conserved: a start that has it not never will.
    balance = imbalance(started)
    allowed = 1e-6 * np.linalg.norm(end_to_end(started), 2) ** (2 / len(started))
    square = len(started) == 2 and observations.shape[0] == observations.shape[1]
    if balance > allowed and not square:
        raise DepthrankError(
            f"certify was given with a start of imbalance {balance:.3g}; the theorem assumes "
            "balanced factors (or a square matrix at depth 2). Start from AlphaM, Balanced, "
            "Identity or Orthogonal, or leave certify out."
        )


def _stops(times: Any, max_time: float) -> np.ndarray:
    """Return the times to land on, increasing."""
    if times is None:
        return np.array([max_time])
    stops = np.asarray(times, float)
    if stops.ndim != 1 or not stops.size or not (np.diff(stops) > 0).all() or not stops[0] >= 0:
        raise DepthrankError(
            f"times is {times!r}; it must be one or more strictly increasing numbers >= 0."
        )
    return stops[stops <= max_time]
