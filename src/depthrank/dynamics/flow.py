"""Exact gradient flow, from a start to the end of training."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from depthrank import memory
from depthrank.dynamics import stepping
from depthrank.dynamics.chebyshev import MAX_STAGES
from depthrank.dynamics.problem import Problem
from depthrank.dynamics.stationarity import is_stationary
from depthrank.dynamics.stepping import Control, Method, State, advance
from depthrank.dynamics.trajectory import Recorder, Trajectory
from depthrank.errors import DepthrankError
from depthrank.factors import Factors, check_factors, dims
from depthrank.initialization import Gaussian, Start
from depthrank.observations import Observations

STATIONARY_TOLERANCE = 1e-10
_CAPACITY = 64  # steps between two looks from Python
_TRAVEL = 0.05  # relative movement of the factors between two recorded spectra
_SPECTRA_SECONDS = 0.25  # share of the running time that recording may take


class Progress(NamedTuple):
    """What a progress callback is told, a few times a second."""

    time: float
    observed_mse: float
    tol_mse: float
    start_mse: float
    validation_mse: float
    steps: int
    evaluations: int
    seconds: float


def flow(
    observations: Observations,
    *,
    depth: int | None = None,
    init: Start | None = None,
    factors: Sequence[np.ndarray] | None = None,
    width: int | None = None,
    weight_decay: float = 0.0,
    tol: float = 1e-16,
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
    _check(tol, rtol, max_time, max_steps, wall_clock, weight_decay, solver, record, dtype)
    started = starting_factors(observations, depth, init, factors, width, seed)
    stops = _check_times(times, max_time)
    _check_memory(observations, started, solver)
    method = Method(solver, max_stages, validated=validation is not None)
    with jax.enable_x64(dtype == "float64"):
        problem = make_problem(observations, weight_decay, dtype, validation)
        scale = _residual_scale(observations, started)
        control = Control(
            rtol=_one(rtol, dtype),
            tol=_one(tol * scale, dtype),
            max_steps=jnp.asarray([max_steps]),
            loss_drop=_one(loss_drop, dtype),
            t_stop=_one(np.inf, dtype),
        )
        run = _Run(problem, control, method, observations.n_observed, record, progress)
        run.begin(tuple(jnp.asarray(f, dtype)[None] for f in started))
        run.follow(stops, wall_clock)
    settings = {
        "depth": len(started),
        "seed": seed,
        "rtol": rtol,
        "tol": tol,
        "weight_decay": weight_decay,
        "solver": solver,
        "dtype": dtype,
        "init": "given factors" if factors is not None else repr(init or "default"),
    }
    return run.trajectory(started, tol, settings)


class _Run:
    """One flow seen from Python: compiled stretches, and what happens between them."""

    def __init__(
        self,
        problem: Problem,
        control: Control,
        method: Method,
        n_observed: int,
        record: str,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.problem = jax.tree.map(lambda a: a[None], problem)
        self.control, self.method = control, method
        self.record, self.progress = record, progress
        self.recorder = Recorder(n_observed)
        self.compile_seconds = 0.0
        self.recording_seconds = 0.0
        self.travel = np.inf if record == "ends" else _TRAVEL

    def begin(self, factors: Factors) -> None:
        """Set the start, compile, and decide whether there is anything to do."""
        clock = time.perf_counter()
        self.state = stepping.start(self.problem, factors, self.method)
        self._advance(0)
        jax.block_until_ready(self.state)
        self.compile_seconds = time.perf_counter() - clock
        self.began = self.shown = time.perf_counter()
        self.start_mse = float(self.state.mse[0])
        if self.start_mse <= float(self.control.tol[0]):
            self._end(stepping.FITTED)

    def follow(self, stops: np.ndarray, wall_clock: float) -> None:
        """Go on until every stop is passed or the flow has ended."""
        self._snapshot()
        try:
            for stop in stops:
                self._until(float(stop), wall_clock)
                if int(self.state.code[0]) != stepping.RUNNING:
                    break
                self._snapshot()
            else:
                self._end(stepping.TIME)
        except KeyboardInterrupt:
            self._end(stepping.INTERRUPTED)
        self._fill_after_the_end(stops)

    def _until(self, stop: float, wall_clock: float) -> None:
        self.control = _replace(self.control, t_stop=_one(stop, self.state.t.dtype))
        budget, settled, last_mse = 8, 0, np.inf
        while int(self.state.code[0]) == stepping.RUNNING and float(self.state.t[0]) < stop:
            clock = time.perf_counter()
            before = int(self.state.steps[0] + self.state.rejected[0])
            self._advance(budget)
            now = time.perf_counter()
            taken = int(self.state.steps[0] + self.state.rejected[0]) - before
            if taken == budget:  # look back from Python a few times a second
                budget = int(np.clip(budget * 0.2 / max(now - clock, 1e-6), 1, _CAPACITY))
            settled += taken
            if settled >= 32 and int(self.state.code[0]) == stepping.RUNNING:
                mse = float(self.state.mse[0])
                if mse > 0.999 * last_mse and self._rests():
                    self._end(stepping.STATIONARY)
                settled, last_mse = 0, mse
            if now - self.began > wall_clock and int(self.state.code[0]) == stepping.RUNNING:
                self._end(stepping.WALL_CLOCK)
            if self.travel < np.inf and not np.isfinite(stop):
                self._snapshot()
            self._show(now)

    def _rests(self) -> bool:
        tolerance = jnp.asarray(STATIONARY_TOLERANCE, self.state.t.dtype)
        state = self.state
        return bool(is_stationary(self.problem, state.factors, state.slope, tolerance)[0])

    def _advance(self, budget: int) -> None:
        travel = jnp.asarray(self.travel, self.state.t.dtype)
        self.state, history = advance(
            self.problem,
            self.state,
            self.control,
            self.method,
            jnp.asarray(budget, jnp.int32),
            travel,
            _CAPACITY,
        )
        kept = np.asarray(history.accepted[0])
        parts = (history.t, history.mse, history.validation)
        self.recorder.accepted(*(np.asarray(part[0])[kept] for part in parts))  # type: ignore[arg-type]

    def _end(self, code: int) -> None:
        self.state = _replace(self.state, code=jnp.asarray([code], jnp.int32))

    def _numpy(self, factors: Any) -> Factors:
        return tuple(np.asarray(f[0], float) for f in factors)

    def _snapshot(self) -> None:
        clock = time.perf_counter()
        t, mse = float(self.state.t[0]), float(self.state.mse[0])
        self.recorder.snapshot(t, mse, self._numpy(self.state.factors), self.record == "entries")
        now = time.perf_counter()
        self.recording_seconds += now - clock
        # Spectra of large matrices cost more than the flow itself: record them less densely.
        if self.recording_seconds > _SPECTRA_SECONDS * (now - getattr(self, "began", now)) + 0.5:
            self.travel *= 1.5

    def _fill_after_the_end(self, stops: np.ndarray) -> None:
        if np.isfinite(stops).all() and int(self.state.code[0]) in (
            stepping.FITTED,
            stepping.STATIONARY,
        ):
            factors, mse = self._numpy(self.state.factors), float(self.state.mse[0])
            entries = self.record == "entries"
            for stop in stops[stops > float(self.state.t[0])]:
                self.recorder.snapshot(float(stop), mse, factors, entries)
        else:
            self._snapshot()

    def _show(self, now: float) -> None:
        if self.progress is None or now - self.shown < 0.2:
            return
        self.shown = now
        state = self.state
        self.progress(
            Progress(
                time=float(state.t[0]),
                observed_mse=float(state.mse[0]),
                tol_mse=float(self.control.tol[0]),
                start_mse=self.start_mse,
                validation_mse=float(state.validation[0]),
                steps=int(state.steps[0]),
                evaluations=int(state.evaluations[0]),
                seconds=now - self.began,
            )
        )

    def trajectory(self, started: Factors, tol: float, settings: dict[str, Any]) -> Trajectory:
        """Gather what happened into the result."""
        state, code = self.state, int(self.state.code[0])
        best = self.method.validated
        factors = self._numpy(state.best_factors if best else state.factors)
        stopped_by = stepping.STOPPED_BY[code]
        decayed = settings["weight_decay"] > 0
        converged = code in (stepping.FITTED, stepping.VALIDATION) or (
            code == stepping.STATIONARY and decayed
        )
        if code in (stepping.STATIONARY, stepping.STEPS, stepping.DIVERGED) and not converged:
            warnings.warn(_warning(stopped_by, float(state.mse[0]), state), stacklevel=3)
        attrs = {**settings, "stopped_by": stopped_by, "evaluations": int(state.evaluations[0])}
        return Trajectory(
            factors=factors,
            data=self.recorder.dataset(attrs),
            time=float((state.best_t if best else state.t)[0]),
            n_observed=self.recorder.n_observed,
            observed_mse=float((state.best_mse if best else state.mse)[0]),
            validation_mse=float(state.best_validation[0]) if best else None,
            steps=int(state.steps[0]),
            rejected=int(state.rejected[0]),
            evaluations=int(state.evaluations[0]),
            stopped_by=stopped_by,
            converged=converged,
            tol=tol,
            imbalance_drift=_drift(started, factors),
            seconds=time.perf_counter() - self.began,
            compile_seconds=self.compile_seconds,
            settings=settings,
        )


def starting_factors(
    observations: Observations,
    depth: int | None,
    init: Start | None,
    factors: Sequence[np.ndarray] | None,
    width: int | None,
    seed: int,
) -> Factors:
    """Return the factors a run starts from, checked against the shape of the observations."""
    if factors is not None:
        if init is not None or width is not None:
            raise DepthrankError(
                "Both factors and init or width were given; factors already are a start: give one."
            )
        checked = check_factors(factors, observations.shape)
        if depth is not None and depth != len(checked):
            raise DepthrankError(
                f"depth is {depth} but {len(checked)} factors were given; leave depth out."
            )
        return checked
    if depth is None:
        raise DepthrankError("depth is missing; give the number of factors (>= 1), or factors.")
    if init is None:
        size = float(np.linalg.norm(observations.values)) or 1.0
        init = Gaussian(init_scale=1e-3 * size)
    return init(dims(observations.shape, depth, width), seed)


def make_problem(
    observations: Observations,
    weight_decay: float,
    dtype: str,
    validation: Observations | None = None,
) -> Problem:
    """Return the dense training problem of some observations, in the given precision."""
    extra: dict[str, Any] = {}
    if validation is not None:
        if validation.shape != observations.shape or validation.n_observed == 0:
            raise DepthrankError(
                f"validation has shape {validation.shape} and {validation.n_observed} entries; it "
                f"needs the shape {observations.shape} of the observations and an entry or more."
            )
        extra["validation_target"] = jnp.asarray(validation.to_dense(fill=0.0), dtype)
        extra["validation_mask"] = jnp.asarray(validation.mask(), dtype)
    return Problem(
        target=jnp.asarray(observations.to_dense(fill=0.0), dtype),
        mask=jnp.asarray(observations.mask(), dtype),
        weight_decay=jnp.asarray(weight_decay, dtype),
        **extra,
    )


def _residual_scale(observations: Observations, factors: Factors) -> float:
    """Return the mean square that residuals are measured against.

    It is that of the data; where the data are all zero, that of the start on the same entries.
    """
    if observations.n_observed == 0:
        return 1.0
    if observations.rms > 0:
        return float(observations.rms) ** 2
    product = factors[0]
    for factor in factors[1:]:
        product = factor @ product
    return float(np.mean(product[observations.rows, observations.cols] ** 2))


def _drift(before: Factors, after: Factors) -> float:
    def grams(factors: Factors) -> list[np.ndarray]:
        return [b.T @ b - a @ a.T for a, b in zip(factors[:-1], factors[1:], strict=True)]

    gaps = [float(np.linalg.norm(x - y)) for x, y in zip(grams(before), grams(after), strict=True)]
    return max(gaps, default=0.0)


def _one(value: float, dtype: Any) -> jax.Array:
    return jnp.asarray([value], dtype)


def _replace(module: Any, **changes: Any) -> Any:
    import dataclasses

    return dataclasses.replace(module, **changes)


def _warning(stopped_by: str, mse: float, state: State) -> str:
    reason = {
        "stationary": "It rests at a stationary point that does not fit the data.",
        "steps": "The step limit was reached; raise max_steps, or rtol for longer steps.",
        "diverged": "No step was small enough; the last finite state is returned.",
    }[stopped_by]
    return (
        f"The flow ended as {stopped_by!r} with observed mean squared residual {mse:.3g} after "
        f"{int(state.steps[0])} steps at t = {float(state.t[0]):.4g}. {reason}"
    )


def _check(
    tol: float,
    rtol: float,
    max_time: float,
    max_steps: int,
    wall_clock: float,
    weight_decay: float,
    solver: str,
    record: str,
    dtype: str,
) -> None:
    ranges = {
        "tol": (tol, 0.0, 1.0),
        "rtol": (rtol, 1e-14, 0.1),
        "max_time": (max_time, 0.0, np.inf),
        "max_steps": (max_steps, 1, np.inf),
        "wall_clock": (wall_clock, 0.0, np.inf),
        "weight_decay": (weight_decay, 0.0, np.finfo(float).max),
    }
    for name, (value, low, high) in ranges.items():
        if not low <= value <= high:
            raise DepthrankError(f"{name} is {value!r}; it must lie between {low:g} and {high:g}.")
    choices = {
        "solver": (solver, stepping.SOLVERS),
        "record": (record, ("auto", "ends", "entries")),
        "dtype": (dtype, ("float64", "float32")),
    }
    for name, (given, accepted) in choices.items():
        if given not in accepted:
            raise DepthrankError(f"{name} is {given!r}; it must be one of {', '.join(accepted)}.")


def _check_times(times: Any, max_time: float) -> np.ndarray:
    if times is None:
        return np.array([max_time])
    stops = np.asarray(times, float)
    if stops.ndim != 1 or not stops.size or not (np.diff(stops) > 0).all() or not stops[0] >= 0:
        raise DepthrankError("times must be one or more strictly increasing numbers >= 0.")
    return stops[stops <= max_time]


def _check_memory(observations: Observations, factors: Factors, solver: str) -> None:
    parameters = sum(f.size for f in factors)
    m, n = observations.shape
    # Factors, slopes, stages, error and best state; mask, target, product and residual.
    memory.require(8 * (14 * parameters + 8 * m * n), f"The flow of a {m} x {n} matrix")
    if solver == "kvaerno5":
        memory.require(
            24 * parameters**2,
            f"The implicit solver kvaerno5 with {parameters} parameters",
            "Take solver='auto', which needs no linear systems.",
        )
