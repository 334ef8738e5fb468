"""One flow seen from Python: compiled stretches, and what happens between them."""

import dataclasses
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from depthrank.dynamics import endings
from depthrank.dynamics.problem import Problem
from depthrank.dynamics.state import Control, Method, State
from depthrank.dynamics.stationarity import STATIONARY_TOLERANCE, is_stationary
from depthrank.dynamics.stepping import advance, start
from depthrank.dynamics.trajectory import Progress, Recorder, Trajectory, imbalance_drift
from depthrank.factors import Factors
from depthrank.observations import Observations
from depthrank.theory.plasticity import RigidityBound, certificate

_CAPACITY = 64  # steps between two looks from Python
_BETWEEN_PROOFS = 1  # trial steps between two looks whether convergence is proved
_TRAVEL = 0.05  # relative movement of the factors between two recorded spectra
_RECORDING_SHARE = 0.25  # of the running time


class Run:
    """A single flow: begin, follow to its stops, gather the trajectory."""

    def __init__(
        self,
        problem: Problem,
        control: Control,
        method: Method,
        observations: Observations,
        record: str,
        certify: float | None,
        progress: Callable[[Progress], None] | None,
    ) -> None:
        self.problem = jax.tree.map(lambda a: a[None], problem)
        self.control, self.method = control, method
        self.record, self.progress = record, progress
        self.recorder = Recorder(observations.n_observed)
        self.observations, self.certify = observations, certify
        self.asked_at = np.inf
        self.compile_seconds = 0.0
        self.recording_seconds = 0.0
        # A number of its own where the end must not depend on the speed of the machine.
        self.budget = (
            64 if certify is None else 1_000_000
        )  # evaluations of the gradient in one compiled stretch
        self.travel = np.inf if record == "ends" else _TRAVEL

    def begin(self, factors: tuple[jax.Array, ...]) -> None:
        """Set the start, compile, and decide whether there is anything to do."""
        clock = time.perf_counter()
        self.state = start(self.problem, factors, self.method)
        self._advance(0)
        jax.block_until_ready(self.state)
        self.compile_seconds = time.perf_counter() - clock
        self.began = self.shown = time.perf_counter()
        self.start_mse = float(self.state.mse[0])
        if self.start_mse <= float(self.control.tol[0]):
            self._end(endings.FITTED)

    def follow(self, stops: np.ndarray, wall_clock: float, *, at_stops_only: bool) -> None:
        """Go on until every stop is passed or the flow has ended."""
        if at_stops_only:
            self.travel = np.inf
        if not at_stops_only or stops[:1] == 0:
            self._snapshot()
        try:
            for stop in stops:
                self._until(float(stop), wall_clock)
                if not self._running():
                    break
                self._snapshot()
            else:
                self._end(endings.TIME)
        except KeyboardInterrupt:
            self._end(endings.INTERRUPTED)
        self.seconds = time.perf_counter() - self.began
        if at_stops_only:
            self._fill_after_the_end(stops)
        else:
            self._snapshot()

    def _until(self, stop: float, wall_clock: float) -> None:
        self.control = dataclasses.replace(self.control, t_stop=one(stop, self.state.t.dtype))
        stop = float(self.control.t_stop[0])  # as rounded: single precision reaches no other
        while self._running() and float(self.state.t[0]) < stop:
            spent = int(self.state.evaluations[0])
            clock = time.perf_counter()
            self._advance(self.budget)
            now = time.perf_counter()
            if self.certify is not None:
                self._ask_for_proof()
            elif int(self.state.evaluations[0]) - spent >= self.budget:
                # Look back from Python a few times a second, whatever a gradient costs.
                self.budget = int(np.clip(self.budget * 0.2 / (now - clock), 16, 1_000_000))
            if int(self.state.code[0]) == endings.STALLED:
                self._end(endings.STATIONARY if self._rests() else endings.RUNNING)
            if now - self.began > wall_clock and self._running():
                self._end(endings.WALL_CLOCK)
            if self.travel < np.inf:
                self._snapshot()
            self._show(now)

    def _ask_for_proof(self) -> None:
        """End where the limit is known as well as asked for; a fall by half is worth the look."""
        mse = float(self.state.mse[0])
        if self.certify is None or mse > 0.5 * self.asked_at or not self._running():
            return
        self.asked_at = mse
        factors = self._numpy(self.state.factors)
        found = certificate(factors, self.observations)
        size = float(np.linalg.norm(found.singular_values))
        if found.certified and found.product_move <= self.certify * size:
            self._end(endings.CERTIFIED)

    def _running(self) -> bool:
        return int(self.state.code[0]) == endings.RUNNING

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
            _CAPACITY if self.certify is None else _BETWEEN_PROOFS,
        )
        kept = np.asarray(history.accepted[0])
        parts = (history.t, history.mse, history.validation)
        self.recorder.accepted(*(np.asarray(part[0])[kept] for part in parts))

    def _end(self, code: int) -> None:
        self.state = dataclasses.replace(self.state, code=jnp.asarray([code], jnp.int32))

    def _numpy(self, factors: Any) -> Factors:
        return tuple(np.asarray(f[0], float) for f in factors)

    def _snapshot(self) -> None:
        clock = time.perf_counter()
        t, mse = float(self.state.t[0]), float(self.state.mse[0])
        self.recorder.snapshot(t, mse, self._numpy(self.state.factors), self.record == "entries")
        now = time.perf_counter()
        self.recording_seconds += now - clock
        # Spectra of large matrices cost more than the flow itself: record them less densely.
        if self.recording_seconds > _RECORDING_SHARE * (now - self.began) + 0.5:
            self.travel *= 1.5

    def _fill_after_the_end(self, stops: np.ndarray) -> None:
        """Record the final state at later times: a flow at rest stays where it is."""
        if int(self.state.code[0]) in (endings.FITTED, endings.STATIONARY):
            factors, mse = self._numpy(self.state.factors), float(self.state.mse[0])
            for stop in stops[stops > max(self.recorder.times, default=-1.0)]:
                self.recorder.snapshot(float(stop), mse, factors, self.record == "entries")
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
        stopped_by = endings.STOPPED_BY[code]
        decayed = settings["weight_decay"] > 0
        converged = code in (endings.FITTED, endings.VALIDATION, endings.CERTIFIED) or (
            code == endings.STATIONARY and decayed
        )
        if code in (endings.STATIONARY, endings.STEPS, endings.DIVERGED) and not converged:
            warnings.warn(_warning(stopped_by, float(state.mse[0]), state), stacklevel=3)
        attrs = {**settings, "stopped_by": stopped_by, "evaluations": int(state.evaluations[0])}
        proof: RigidityBound | None = None
        if self.certify is not None:
            proof = certificate(factors, self.observations)
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
            imbalance_drift=imbalance_drift(started, factors),
            seconds=self.seconds,
            compile_seconds=self.compile_seconds,
            certificate=proof,
            settings=settings,
        )


def one(value: float, dtype: Any) -> jax.Array:
    """Return a number with a batch axis of length one."""
    return jnp.asarray([value], dtype)


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
