"""The same problem, by the optimisers of optax: discrete steps instead of the flow."""

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from depthrank.dynamics.problem import Factors as JaxFactors
from depthrank.dynamics.problem import Problem
from depthrank.dynamics.setup import (
    check_choice,
    check_memory,
    make_problem,
    residual_scale,
    starting_factors,
)
from depthrank.dynamics.trajectory import Progress, Recorder, Trajectory, imbalance_drift
from depthrank.errors import DepthrankError, check_range
from depthrank.initialization import Start
from depthrank.observations import Observations
from depthrank.seeds import generator

OPTIMIZERS: dict[str, Callable[[float], optax.GradientTransformation]] = {
    "sgd": optax.sgd,
    "momentum": partial(optax.sgd, momentum=0.9),
    "nesterov": partial(optax.sgd, momentum=0.9, nesterov=True),
    "adam": optax.adam,
    "rmsprop": optax.rmsprop,
    "adagrad": optax.adagrad,
}


def descend(
    observations: Observations,
    *,
    optimizer: str | optax.GradientTransformation = "sgd",
    learning_rate: float | None = None,
    steps: int = 10_000,
    depth: int | None = None,
    init: Start | None = None,
    factors: Sequence[np.ndarray] | None = None,
    width: int | None = None,
    weight_decay: float = 0.0,
    batch_size: int | None = None,
    tol: float = 1e-14,
    record_every: int | None = None,
    dtype: str = "float64",
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> Trajectory:
    """Train the factors by discrete steps of an optimiser.

    The loss is that of `flow`: half the sum of squared residuals on observed entries plus half
    the weight decay. A code that trains on the mean over k entries with step eta takes the same
    steps at learning rate 2 eta / k here (for a mean without the factor one half).

    Parameters
    ----------
    observations : Observations
        What is seen, [m, n].
    optimizer : str or optax.GradientTransformation
        "sgd", "momentum" (0.9), "nesterov", "adam", "rmsprop", "adagrad", or any optax optimiser.
    learning_rate : float, optional
        Step size eta; needed with a name, refused with an optax object.
    steps : int
        Number of steps at most.
    depth, init, factors, width, weight_decay, tol, dtype, seed
        As in `flow`.
    batch_size : int, optional
        Observed entries in one step, drawn without replacement in every step; their gradient is
        scaled to the whole. Default: all of them.
    record_every : int, optional
        Steps between two records; default a two-hundredth of `steps`.
    progress : callable, optional
        Called with a `Progress` a few times a second.

    Returns
    -------
    Trajectory
        Time is eta times the step count where `learning_rate` was given, the step count itself
        otherwise; `evaluations` is the step count. Its `stopped_by` is "fitted", "steps",
        "diverged" (the last finite state is returned) or "interrupted".

    Raises
    ------
    DepthrankError
        If an argument is out of its range, shapes do not fit, or memory would not suffice.

    Notes
    -----
    **Label.** Exact descent. The imbalance that a flow conserves drifts; `imbalance_drift` says
    by how much.
    """
    rule = _optimizer(optimizer, learning_rate)
    check_range("steps", steps, 1)
    check_range("tol", tol, 0.0, 1.0)
    check_range("weight_decay", weight_decay, 0.0, float(np.finfo(float).max))
    check_choice("dtype", dtype, ("float64", "float32"))
    if batch_size is not None:
        check_range("batch_size", batch_size, 1, max(observations.n_observed, 1))
    started = starting_factors(observations, depth, init, factors, width, seed)
    check_memory(observations, started, "descent")
    every = max(1, steps // 200) if record_every is None else record_every
    check_range("record_every", every, 1)
    settings = {
        "depth": len(started),
        "seed": seed,
        "optimizer": optimizer if isinstance(optimizer, str) else "optax object",
        "learning_rate": np.nan if learning_rate is None else learning_rate,
        "tol": tol,
        "weight_decay": weight_decay,
        "batch_size": batch_size or observations.n_observed,
        "dtype": dtype,
        "init": "given factors" if factors is not None else repr(init or "default"),
    }
    with jax.enable_x64(dtype == "float64"):
        problem = make_problem(observations, weight_decay, dtype)
        threshold = tol * residual_scale(observations, started)
        cells = (jnp.asarray(observations.rows), jnp.asarray(observations.cols))
        descent = _Descent(problem, cells, rule, batch_size, threshold, learning_rate or 1.0)
        descent.begin(tuple(jnp.asarray(f, dtype) for f in started), seed)
        descent.follow(steps, every, progress)
        return descent.trajectory(started, tol, settings)


def _optimizer(
    optimizer: str | optax.GradientTransformation, learning_rate: float | None
) -> optax.GradientTransformation:
    if not isinstance(optimizer, str):
        if learning_rate is not None:
            raise DepthrankError(
                "learning_rate was given beside an optax optimiser, which has its own; leave it "
                "out, or name the optimiser."
            )
        return optimizer
    check_choice("optimizer", optimizer, tuple(OPTIMIZERS))
    if learning_rate is None:
        raise DepthrankError(f"optimizer {optimizer!r} needs a learning_rate; give one > 0.")
    check_range("learning_rate", learning_rate, np.finfo(float).tiny, 1e300)
    return OPTIMIZERS[optimizer](learning_rate)


class _Descent:
    """One descent seen from Python: compiled stretches of steps between two records."""

    def __init__(
        self,
        problem: Problem,
        cells: tuple[Array, Array],
        rule: optax.GradientTransformation,
        batch_size: int | None,
        threshold: float,
        step_time: float,
    ) -> None:
        self.problem, self.cells, self.rule = problem, cells, rule
        self.batch_size, self.threshold, self.step_time = batch_size, threshold, step_time
        self.recorder = Recorder(int(cells[0].shape[0]))
        self.count, self.stopped_by = 0, "steps"

    def begin(self, factors: JaxFactors, seed: int) -> None:
        """Set the start and compile."""
        clock = time.perf_counter()
        self.factors, self.memory = factors, self.rule.init(factors)
        self.key = jax.random.key(int(generator(seed, "minibatch").integers(2**31)))
        self.mse = self.start_mse = float(self._mse(self.problem.end_to_end(factors)))
        self._stretch(0)
        self.compile_seconds = time.perf_counter() - clock

    def _mse(self, end_to_end: Array) -> Array:
        return self.problem.squared_error(end_to_end) / max(self.recorder.n_observed, 1)

    def _stretch(self, steps: int) -> int:
        carry = (self.factors, self.memory, jnp.asarray(self.mse), jnp.zeros((), jnp.int32))
        self.factors, self.memory, mse, done = _steps(
            self.problem,
            self.cells,
            self.rule,
            self.batch_size,
            carry,
            jnp.asarray(steps, jnp.int32),
            jnp.asarray(self.threshold),
            jax.random.fold_in(self.key, self.count),
        )
        self.mse = float(mse)
        return int(done)

    def follow(self, steps: int, every: int, progress: Callable[[Progress], None] | None) -> None:
        """Take the steps, recording as they go."""
        self.began = shown = time.perf_counter()
        self._record()
        try:
            while self.count < steps:
                if self.mse <= self.threshold:
                    self.stopped_by = "fitted"
                    break
                asked = min(every, steps - self.count)
                done = self._stretch(asked)
                self.count += done
                self._record()
                if done < asked and self.mse > self.threshold:
                    self.stopped_by = "diverged"
                    break
                now = time.perf_counter()
                if progress is not None and now - shown > 0.2:
                    shown = now
                    progress(self._progress(now))
            else:
                self.stopped_by = "fitted" if self.mse <= self.threshold else "steps"
        except KeyboardInterrupt:
            self.stopped_by = "interrupted"
        self.seconds = time.perf_counter() - self.began

    def _record(self) -> None:
        factors = tuple(np.asarray(f, float) for f in self.factors)
        t = self.count * self.step_time
        self.recorder.snapshot(t, self.mse, factors, entries=False)
        self.recorder.accepted(np.array([t]), np.array([self.mse]), np.array([np.inf]))

    def _progress(self, now: float) -> Progress:
        return Progress(
            time=self.count * self.step_time,
            observed_mse=self.mse,
            tol_mse=self.threshold,
            start_mse=self.start_mse,
            validation_mse=np.inf,
            steps=self.count,
            evaluations=self.count,
            seconds=now - self.began,
        )

    def trajectory(self, started: Any, tol: float, settings: dict[str, Any]) -> Trajectory:
        """Gather what happened into the result."""
        if self.stopped_by in ("steps", "diverged"):
            advice = "more steps" if self.stopped_by == "steps" else "a smaller learning_rate"
            warnings.warn(
                f"The descent ended as {self.stopped_by!r} with observed mean squared residual "
                f"{self.mse:.3g} after {self.count} steps; give {advice}.",
                stacklevel=3,
            )
        factors = tuple(np.asarray(f, float) for f in self.factors)
        attrs = {**settings, "stopped_by": self.stopped_by, "evaluations": self.count}
        return Trajectory(
            factors=factors,
            data=self.recorder.dataset(attrs),
            time=self.count * self.step_time,
            n_observed=self.recorder.n_observed,
            observed_mse=self.mse,
            validation_mse=None,
            steps=self.count,
            rejected=0,
            evaluations=self.count,
            stopped_by=self.stopped_by,
            converged=self.stopped_by == "fitted",
            tol=tol,
            imbalance_drift=imbalance_drift(started, factors),
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            settings=settings,
        )


@eqx.filter_jit
def _steps(
    problem: Problem,
    cells: tuple[Array, Array],
    rule: optax.GradientTransformation,
    batch_size: int | None,
    carry: tuple[JaxFactors, Any, Array, Array],
    steps: Array,
    threshold: Array,
    key: Array,
) -> tuple[JaxFactors, Any, Array, Array]:
    """Take at most `steps` steps; end early when fitted, or before a step that is not finite."""

    def unfinished(carry: Any) -> Array:
        (_, _, mse, count), alive = carry
        return alive & (count < steps) & (mse > threshold)

    def step(carry: Any) -> Any:
        (factors, memory, mse, count), _ = carry
        here = problem
        if batch_size is not None:
            draw = jax.random.fold_in(key, count)
            chosen = jax.random.choice(draw, cells[0].shape[0], (batch_size,), replace=False)
            weight = cells[0].shape[0] / batch_size
            part = jnp.zeros_like(problem.mask).at[cells[0][chosen], cells[1][chosen]].set(weight)
            here = eqx.tree_at(lambda p: p.mask, problem, part)
        slope, _ = here.descent(factors)
        gradient = jax.tree.map(jnp.negative, slope)
        update, new_memory = rule.update(gradient, memory, factors)
        new = optax.apply_updates(factors, update)
        new_mse = problem.squared_error(problem.end_to_end(new)) / max(cells[0].shape[0], 1)
        alive = jnp.isfinite(new_mse)

        def keep(a: Any, b: Any) -> Any:
            return jax.tree.map(lambda x, y: jnp.where(alive, x, y), a, b)

        moved = (keep(new, factors), keep(new_memory, memory))
        return (*moved, jnp.where(alive, new_mse, mse), count + alive), alive

    (end, _) = jax.lax.while_loop(unfinished, step, (carry, jnp.asarray(True)))
    return end
