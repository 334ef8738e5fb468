"""Lanes: a fixed number of flows in one compiled program, refilled from a queue.

The program is compiled for the number of lanes, not of members. A lane whose member has ended
takes the next one, so that neither the slowest member nor the length of the queue decides what a
step costs. Their number is a power of two, so that few programs are compiled; when the queue is
empty and no more than half of the lanes run on for long, those move to half as many.
"""

import dataclasses
import time
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
from depthrank.factors import Factors

Loaded = tuple[Problem, Control, State]

_FEW, _MANY = 32, 256  # on a processor more gain nothing: the stages of a step leave its caches
_PARAMETERS = 2**18  # in all lanes together, for the same reason
_ON_A_GPU = 64  # times as many of the last two
_TAIL = 5_000  # gradient evaluations with an empty queue that pay for compiling fewer lanes
_FIRST_BUDGET = 200  # gradient evaluations before the first look from Python


def lanes_for(members: int, parameters: int) -> int:
    """Return the number of lanes for so many members of so many parameters each."""
    more = _ON_A_GPU if jax.default_backend() == "gpu" else 1
    fit = max(4, more * _PARAMETERS // parameters)
    if fit < _FEW:  # large matrices: an idle lane costs more than compiling
        return min(members, fit)
    return min(
        max(_FEW, 1 << (members - 1).bit_length()), more * _MANY, 1 << (fit.bit_length() - 1)
    )


@dataclasses.dataclass
class Outcome:
    """Where every member ended, in the order they were given; the first axis is the member."""

    factors: Factors
    t: np.ndarray
    mse: np.ndarray
    steps: np.ndarray
    evaluations: np.ndarray
    code: np.ndarray

    @classmethod
    def of(cls, starts: Factors) -> "Outcome":
        """Make room for as many members as there are starts."""
        total = len(starts[0])
        counts = [np.zeros(total, np.int64) for _ in range(3)]
        return cls(tuple(map(np.array, starts)), np.zeros(total), np.full(total, np.nan), *counts)

    def put(self, members: np.ndarray, lanes: np.ndarray, state: State) -> None:
        """Write down the members in some lanes."""
        for name in ("t", "mse", "steps", "evaluations", "code"):
            getattr(self, name)[members] = np.asarray(getattr(state, name))[lanes]
        for whole, piece in zip(self.factors, state.factors, strict=True):
            whole[members] = np.asarray(piece)[lanes]


def follow(
    problem_of: Callable[[np.ndarray], Problem],
    control_of: Callable[[np.ndarray], Control],
    starts: Factors,
    method: Method,
    lanes: int,
    progress: Callable[[int, int], None] | None,
) -> Outcome:
    """Advance until every member has ended.

    Parameters
    ----------
    problem_of, control_of : callable
        From member indices to problem and control with that batch axis.
    starts : factors with a leading member axis
    method : Method
    lanes : int
        Number of lanes.
    progress : callable or None
        Called with (members ended, members) after every stretch.

    Returns
    -------
    Outcome
        Members that Ctrl-C found running or waiting are "interrupted".
    """
    total = len(starts[0])
    outcome = Outcome.of(starts)

    def load(members: np.ndarray) -> Loaded:
        factors = tuple(jnp.asarray(layer[members]) for layer in starts)
        problem, control, factors = _spread((problem_of(members), control_of(members), factors))
        state = start(problem, factors, method)
        code = jnp.where(state.mse <= control.tol, endings.FITTED, state.code)
        return problem, control, dataclasses.replace(state, code=code.astype(jnp.int32))

    waiting = min(lanes, total)  # the next member in the queue
    members = np.where(np.arange(lanes) < waiting, np.arange(lanes), -1)  # in each lane; -1: none
    problem, control, state = load(np.maximum(members, 0))
    state = _rest(state, members)
    budget, tail = _FIRST_BUDGET, 0
    try:
        while True:
            clock, spent = time.perf_counter(), np.asarray(state.evaluations)
            least = 1 if waiting == total else lanes - lanes // 8
            state = _stretch(problem, state, control, method, budget, least)
            code = np.asarray(state.code)
            seconds = time.perf_counter() - clock
            budget = int(np.clip(budget * 0.3 / max(seconds, 1e-3), 50, 100_000))
            ended = (code != endings.RUNNING) & (members >= 0)
            outcome.put(members[ended], ended, state)
            members = np.where(ended, -1, members)
            if progress is not None:
                progress(int((outcome.code != endings.RUNNING).sum()), total)
            if waiting < total:
                free = np.flatnonzero(members < 0)[: total - waiting]
                members[free] = np.arange(waiting, waiting + len(free))
                waiting += len(free)
                fresh = np.isin(np.arange(lanes), free)
                # Lanes that keep their member load member 0 for nothing.
                new = load(np.where(fresh, members, 0))
                problem, control, state = _pick(fresh, new, (problem, control, state))
                continue
            if (members < 0).all():
                return outcome
            tail += int(np.max(np.asarray(state.evaluations) - spent))
            half = lanes // 2
            if half >= max(_FEW, (members >= 0).sum()) and tail > _TAIL:
                kept, lanes, tail = np.argsort(members < 0, kind="stable")[:half], half, 0
                members = members[kept]
                problem, control, state = _take(kept, (problem, control, state))
    except KeyboardInterrupt:
        _interrupt(outcome, members, waiting, state, load)
        return outcome


def _stretch(
    problem: Problem, state: State, control: Control, method: Method, budget: int, least: int
) -> State:
    """Advance for about `budget` evaluations, and end what has reached its time or rests."""
    forever = jnp.asarray(jnp.inf, state.t.dtype)
    state, _ = advance(
        problem, state, control, method, jnp.asarray(budget), forever, 0, jnp.asarray(least)
    )
    stalled = state.code == endings.STALLED
    over = (state.code == endings.RUNNING) & (state.t >= control.t_stop)
    code = jnp.where(over, endings.TIME, state.code)
    if stalled.any():
        tolerance = jnp.asarray(STATIONARY_TOLERANCE, state.t.dtype)
        rests = is_stationary(problem, state.factors, state.slope, tolerance)
        verdict = jnp.where(rests, endings.STATIONARY, endings.RUNNING)
        code = jnp.where(stalled, verdict, code)
    return dataclasses.replace(state, code=code.astype(jnp.int32))


def _spread(batch: Any) -> Any:
    """Lay lanes out over all devices, in equal shares if that is possible."""
    devices, lanes = jax.local_devices(), jax.tree.leaves(batch)[0].shape[0]
    if len(devices) == 1 or lanes % len(devices):
        return batch
    mesh = jax.sharding.Mesh(np.array(devices), ("lane",))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("lane"))
    return jax.device_put(batch, spread)


def _rest(state: State, members: np.ndarray) -> State:
    """Leave lanes without a member at rest."""
    code = jnp.where(members < 0, endings.FITTED, state.code)
    return dataclasses.replace(state, code=code.astype(jnp.int32))


def _take(kept: np.ndarray, old: Loaded) -> Loaded:
    return jax.tree.map(lambda a: a[kept], old)


def _pick(choice: np.ndarray, new: Loaded, old: Loaded) -> Loaded:
    def pick(a: jax.Array, b: jax.Array) -> jax.Array:
        return jnp.where(choice.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

    return jax.tree.map(pick, new, old)


def _interrupt(
    outcome: Outcome,
    members: np.ndarray,
    waiting: int,
    state: State,
    load: Callable[[np.ndarray], Loaded],
) -> None:
    """Write down members as Ctrl-C found them: under way, or at their start."""
    running = members >= 0
    outcome.put(members[running], running, state)
    total, lanes = len(outcome.code), len(members)
    for first in range(waiting, total, lanes):
        chunk = np.minimum(np.arange(first, first + lanes), total - 1)
        outcome.put(chunk, np.arange(lanes), load(chunk)[2])
    unfinished = (outcome.code == endings.RUNNING) | (outcome.code == endings.STALLED)
    outcome.code[unfinished] = endings.INTERRUPTED
