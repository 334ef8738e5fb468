"""The driver: how a batch of flows moves forward, step by step, inside one compiled loop.

Every quantity carries a leading batch axis; a single flow is a batch of one. Members step with
their own step sizes and end on their own. `advance` runs a bounded number of steps and returns to
Python, so that progress, Ctrl-C and a wall-clock budget work between two calls.
"""

import dataclasses
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from depthrank.dynamics.chebyshev import chebyshev_error, power_step
from depthrank.dynamics.endings import DIVERGED, FITTED, RUNNING, STALLED, STEPS, VALIDATION
from depthrank.dynamics.problem import Factors, Problem, norm
from depthrank.dynamics.state import Control, History, Method, State
from depthrank.dynamics.stationarity import STATIONARY_TOLERANCE
from depthrank.dynamics.trial import (
    STAGES,
    error_norm,
    field,
    past_the_threshold,
    propose,
    smooth_trial,
    step_factor,
    stiff_trial,
    switch,
)

_MAX_REJECTIONS = 60
_MAX_LANDINGS = 12
_WATCH = 32  # trial steps between two looks for a flow that stands still


def _where(choice: Array, new: Factors, old: Factors) -> Factors:
    return jax.tree.map(lambda a, b: jnp.where(choice, a, b), new, old)


def _member_start(problem: Problem, factors: Factors, method: Method) -> State:
    slope, end_to_end = problem.descent(factors)
    downhill = partial(field, problem)
    rho, direction = power_step(downhill, factors, slope, slope)
    for _ in range(4):
        rho, direction = power_step(downhill, factors, slope, direction)
    dtype = factors[0].dtype
    tiny = jnp.finfo(dtype).tiny
    # The natural time of a tiny start is size over speed; the spectral radius bounds it below.
    h = 0.01 * jnp.minimum(
        norm(factors) / jnp.maximum(norm(slope), tiny), 1 / jnp.maximum(rho, tiny)
    )
    mse = problem.squared_error(end_to_end) / jnp.maximum(jnp.sum(problem.mask), 1)
    validation = problem.validation_mse(end_to_end)
    zero, one = jnp.zeros((), dtype), jnp.ones((), dtype)
    count = jnp.zeros((), jnp.int64 if dtype == jnp.float64 else jnp.int32)
    return State(
        t=zero,
        factors=factors,
        slope=slope,
        h=h,
        stiff=jnp.asarray(not method.can_be_smooth),
        rho=rho,
        direction=direction,
        last_error=-one,
        last_h=one,
        mse=mse,
        watched_mse=jnp.full((), jnp.inf, dtype),
        validation=validation,
        best_factors=factors,
        best_validation=validation,
        best_mse=mse,
        best_t=zero,
        code=jnp.asarray(RUNNING, jnp.int32),
        steps=count,
        rejected=count,
        rejected_in_a_row=count,
        landings=count,
        evaluations=count + 7,
    )


@eqx.filter_jit
def start(problem: Problem, factors: Factors, method: Method) -> State:
    """Return the state at t = 0 of a batch; `problem` and `factors` carry the batch axis."""
    return jax.vmap(lambda p, f: _member_start(p, f, method))(problem, factors)


def _settle(
    problem: Problem,
    state: State,
    control: Control,
    method: Method,
    h: Array,
    lands: Array,
    y1: Factors,
    smooth_error: Array,
    stages: Array,
) -> State:
    """Accept or reject one trial step of one member, and decide how to go on."""
    slope1, end_to_end = problem.descent(y1)
    stiff_error = error_norm(
        chebyshev_error(state.factors, y1, state.slope, slope1, h), state.factors, y1
    )
    order = jnp.where(state.stiff, 3.0, 8.0 if method.solver in ("auto", "dopri8") else 5.0)
    error = jnp.where(state.stiff, stiff_error, smooth_error) / control.rtol
    mse1 = problem.squared_error(end_to_end) / jnp.maximum(jnp.sum(problem.mask), 1)
    finite = jnp.isfinite(error) & jnp.isfinite(mse1) & jnp.isfinite(norm(slope1))
    error = jnp.where(finite, error, 1e6)
    accepted = error <= 1
    past, shorter = past_the_threshold(state.mse, mse1, control.tol, h)
    landing = accepted & past & (state.landings < _MAX_LANDINGS)
    accepted &= ~landing

    factors = _where(accepted, y1, state.factors)
    slope = _where(accepted, slope1, state.slope)
    t1 = jnp.where(lands, control.t_stop, state.t + h)
    factor = step_factor(error, order.astype(h.dtype), state, h, accepted)
    next_h = h * factor
    # A step cut short to land on a given time says nothing about the step after it.
    next_h = jnp.where(accepted & lands, jnp.maximum(next_h, state.h), next_h)
    next_h = jnp.where(landing, shorter, next_h)

    rho, direction, stiff = state.rho, state.direction, state.stiff
    last_error = jnp.where(accepted, error, state.last_error)
    if method.is_explicit:
        rho, direction = power_step(partial(field, problem), factors, slope, state.direction)
    if method.solver == "auto":
        choice, length, switched = switch(state, control, stiff_error, rho, h, next_h)
        stiff = jnp.where(accepted, choice, stiff)
        next_h = jnp.where(accepted, length, next_h)
        last_error = jnp.where(accepted & switched, -1.0, last_error)

    in_a_row = jnp.where(accepted | landing, 0, state.rejected_in_a_row + 1)
    steps = state.steps + accepted
    spent = jnp.where(state.stiff, stages.astype(steps.dtype) - 1, STAGES[method.solver])
    mse = jnp.where(accepted, mse1, state.mse)
    new = dataclasses.replace(
        state,
        t=jnp.where(accepted, t1, state.t),
        factors=factors,
        slope=slope,
        h=next_h,
        stiff=stiff,
        rho=rho,
        direction=direction,
        last_error=last_error,
        last_h=jnp.where(accepted, h, state.last_h),
        mse=mse,
        steps=steps,
        rejected=state.rejected + ~(accepted | landing),
        rejected_in_a_row=in_a_row,
        landings=state.landings + landing,
        evaluations=state.evaluations + spent + 1 + method.is_explicit,
    )
    stalled = _stalls(problem, state, new, method)
    watched = jnp.where(_watched(state, new), new.mse, state.watched_mse)
    new = dataclasses.replace(new, watched_mse=watched, code=_code(new, control, stalled))
    return _validate(problem, new, control, end_to_end, accepted) if method.validated else new


def _code(state: State, control: Control, stalled: Array) -> Array:
    return jnp.select(
        [
            state.mse <= control.tol,
            state.rejected_in_a_row >= _MAX_REJECTIONS,
            state.steps >= control.max_steps,
            stalled,
        ],
        [jnp.int32(FITTED), jnp.int32(DIVERGED), jnp.int32(STEPS), jnp.int32(STALLED)],
        jnp.int32(RUNNING),
    )


def _watched(state: State, new: State) -> Array:
    """Return whether a trial step is one of those at which the member is watched.

    Their numbers depend on nothing but the member, so that neither the speed of the machine nor
    the company in a batch decides when a flow is found to rest.
    """
    trials, before = new.steps + new.rejected, state.steps + state.rejected
    return (trials % _WATCH == 0) & (trials > before)


def _stalls(problem: Problem, state: State, new: State, method: Method) -> Array:
    """Return whether a watched member may be at rest: a cheap question before the exact one.

    A step along the gradient gains g^2 / (2 rho) or more of the loss, so where that is much, the
    flow does not rest. The spectral radius is an estimate from below, hence the margin.
    """
    still = _watched(state, new) & (new.mse > 0.999 * state.watched_mse)
    if not method.is_explicit:
        return still  # nobody measures the spectral radius
    tiny = jnp.finfo(new.mse.dtype).tiny
    gain = 0.5 * jnp.square(norm(new.slope)) / jnp.maximum(new.rho, tiny)
    flat = gain <= 1e2 * STATIONARY_TOLERANCE * problem.loss(new.factors)
    return still & flat


def _validate(
    problem: Problem,
    state: State,
    control: Control,
    end_to_end: Array,
    accepted: Array,
) -> State:
    """Keep the state of the smallest validation error, and end when it is long past."""
    validation = jnp.where(accepted, problem.validation_mse(end_to_end), state.validation)
    better = accepted & (validation < state.best_validation)

    state = dataclasses.replace(
        state,
        validation=validation,
        best_validation=jnp.where(better, validation, state.best_validation),
        best_mse=jnp.where(better, state.mse, state.best_mse),
        best_t=jnp.where(better, state.t, state.best_t),
        best_factors=_where(better, state.factors, state.best_factors),
    )
    past = state.mse < (1 - control.loss_drop) * state.best_mse
    ends = (state.code == RUNNING) & past
    return dataclasses.replace(state, code=jnp.where(ends, jnp.int32(VALIDATION), state.code))


@eqx.filter_jit(donate="none")
def advance(
    problem: Problem,
    state: State,
    control: Control,
    method: Method,
    budget: Array,
    travel: Array,
    capacity: int,
    least: int | Array = 1,
) -> tuple[State, History]:
    """Move every running member forward, for about `budget` gradient evaluations.

    Parameters
    ----------
    problem, state, control
        With the batch axis.
    method : Method
        Static.
    budget : Array, scalar int
        Begin no further step once the busiest member has spent as many gradient evaluations.
    travel : Array, scalar
        The call also ends when the factors of any member have moved by this distance relative to
        their norm (for recording); infinite to ignore it.
    capacity : int
        Length of the history that is kept, and of the call in trial steps; 0 for no history and
        no such limit.
    least : int
        The call also ends when fewer members than this are running.

    Returns
    -------
    (State, History)
        The state after the steps, and the scalars of accepted steps.
    """
    origin, spent = state.factors, state.evaluations

    def active(state: State) -> Array:
        return (state.code == RUNNING) & (state.t < control.t_stop)

    def moved(state: State) -> Array:
        def distance(now: Factors, then: Factors) -> Array:
            gap = jax.tree.map(jnp.subtract, now, then)
            return norm(gap) / jnp.maximum(norm(now), jnp.finfo(now[0].dtype).tiny)

        return jnp.any(jax.vmap(distance)(state.factors, origin) >= travel)

    def condition(carry: tuple[State, History, Array]) -> Array:
        state, _, count = carry
        room = jnp.max(state.evaluations - spent) < budget
        if capacity:
            room &= count < capacity
        running, stalled = jnp.sum(active(state)), jnp.sum(state.code == STALLED)
        # Members on a plateau wait for Python; a quarter of all that are left is worth the call.
        return room & (running >= least) & (4 * stalled < running + stalled) & ~moved(state)

    def body(carry: tuple[State, History, Array]) -> tuple[State, History, Array]:
        state, history, count = carry
        new, stepped = _batch_step(problem, state, control, method, active(state))

        def pick(a: Array, b: Array) -> Array:
            return jnp.where(stepped.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

        new = jax.tree.map(pick, new, state)
        if capacity:
            history = History(
                t=history.t.at[:, count].set(new.t),
                mse=history.mse.at[:, count].set(new.mse),
                validation=history.validation.at[:, count].set(new.validation),
                accepted=history.accepted.at[:, count].set(new.steps > state.steps),
            )
        return new, history, count + 1

    shape = (state.t.shape[0], capacity)
    empty = jnp.zeros(shape, state.t.dtype)
    history = History(t=empty, mse=empty, validation=empty, accepted=jnp.zeros(shape, bool))
    state, history, _ = jax.lax.while_loop(
        condition, body, (state, history, jnp.zeros((), jnp.int32))
    )
    return state, history


def _batch_step(
    problem: Problem, state: State, control: Control, method: Method, active: Array
) -> tuple[State, Array]:
    """Try one step of the members of one kind; return the new state and who they were.

    Smooth and stiff members take turns, the more numerous kind first: both at once would cost
    every member both methods, however few need the second.
    """
    h, lands = jax.vmap(lambda s, c: propose(s, c, method))(state, control)

    def smooth() -> tuple[Factors, Array, Array]:
        trial = jax.vmap(lambda p, s, h: smooth_trial(p, s, h, method))
        return *trial(problem, state, h), jnp.ones_like(h)

    def stiff() -> tuple[Factors, Array, Array]:
        trial = jax.vmap(lambda p, s, h: stiff_trial(p, s, h, method))
        y1, stages = trial(problem, state, jnp.where(stepped, h, 0))
        return y1, jnp.full_like(h, jnp.inf), stages

    if method.can_be_smooth and method.can_be_stiff:
        turn_of_the_stiff = 2 * jnp.sum(active & state.stiff) > jnp.sum(active)
        stepped = active & (state.stiff == turn_of_the_stiff)
        y1, smooth_error, stages = jax.lax.cond(turn_of_the_stiff, stiff, smooth)
    else:
        stepped = active
        y1, smooth_error, stages = smooth() if method.can_be_smooth else stiff()
    settle = jax.vmap(lambda *args: _settle(args[0], args[1], args[2], method, *args[3:]))
    return settle(problem, state, control, h, lands, y1, smooth_error, stages), stepped
