"""The driver: how a batch of flows moves forward, step by step, inside one compiled loop.

Every quantity carries a leading batch axis; a single flow is a batch of one. Members step with
their own step sizes and end on their own. `advance` runs a bounded number of steps and returns to
Python, so that progress, Ctrl-C and a wall-clock budget work between two calls.

Two methods share the work. Where the step is limited by accuracy, a high-order explicit method
(diffrax's Dopri8) takes few, long steps; where it is limited by stability, Runge-Kutta-Chebyshev
steps take over. Each step measures the spectral radius (one evaluation) and the error that the
Chebyshev method would make (no evaluation), and the longer step per evaluation wins.
"""

import dataclasses
from functools import partial

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from depthrank.dynamics.chebyshev import (
    MAX_STAGES,
    chebyshev_error,
    chebyshev_step,
    longest_step,
    power_step,
    stages_needed,
)
from depthrank.dynamics.problem import Factors, Problem, norm

RUNNING, FITTED, STATIONARY, TIME, STEPS, VALIDATION, WALL_CLOCK, DIVERGED, INTERRUPTED = range(9)
STOPPED_BY = (
    "running",
    "fitted",
    "stationary",
    "time",
    "steps",
    "validation",
    "wall-clock",
    "diverged",
    "interrupted",
)

SOLVERS = ("auto", "chebyshev", "tsit5", "dopri8", "kvaerno5")

# Steps longer than this times 1/rho are unstable for the method. Error control alone does not see
# it once the residual is below the tolerance: it rattles at the bound and never fits.
_REACH = {"tsit5": 2.8, "dopri8": 4.5, "auto": 4.5}
# Below this times 1/rho Chebyshev steps no longer pay, above the next number they do.
_TO_SMOOTH = 2.0
_TO_STIFF = 10.0
_MAX_REJECTIONS = 60
_MAX_LANDINGS = 12


@dataclasses.dataclass(frozen=True)
class Method:
    """How steps are taken: static, part of the compiled program.

    Parameters
    ----------
    solver : str
        One of `SOLVERS`.
    max_stages : int
        Largest number of Chebyshev stages.
    validated : bool
        Whether the problem holds held-out entries to watch.
    """

    solver: str = "auto"
    max_stages: int = MAX_STAGES
    validated: bool = False

    @property
    def can_be_smooth(self) -> bool:
        """Whether a diffrax solver takes (some of) the steps."""
        return self.solver != "chebyshev"

    @property
    def can_be_stiff(self) -> bool:
        """Whether Chebyshev steps are taken."""
        return self.solver in ("auto", "chebyshev")

    @property
    def is_explicit(self) -> bool:
        """Whether the spectral radius limits the step, and is measured after each."""
        return self.solver != "kvaerno5"


class Control(eqx.Module):
    """What ends or bounds a flow; every field has the batch axis.

    `rtol` bounds the local error relative to the norm of each factor; `tol` the mean squared
    residual, absolute; `loss_drop` the fraction of the loss at the best validation error under
    which a flow without improvement ends; `t_stop` the next time to land on exactly.
    """

    rtol: Array
    tol: Array
    max_steps: Array
    loss_drop: Array
    t_stop: Array


class State(eqx.Module):
    """Where every member of the batch stands."""

    t: Array
    factors: Factors
    slope: Factors
    h: Array
    stiff: Array
    rho: Array
    direction: Factors
    last_error: Array
    last_h: Array
    mse: Array
    validation: Array
    best_factors: Factors
    best_validation: Array
    best_mse: Array
    best_t: Array
    code: Array
    steps: Array
    rejected: Array
    rejected_in_a_row: Array
    landings: Array
    evaluations: Array


def _smooth_solver(solver: str) -> diffrax.AbstractAdaptiveSolver:
    if solver == "tsit5":
        return diffrax.Tsit5()
    if solver == "kvaerno5":
        return diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol=1e-10, atol=1e-14))
    return diffrax.Dopri8()


_STAGES = {"tsit5": 7, "dopri8": 14, "auto": 14, "kvaerno5": 7, "chebyshev": 0}


def _where(choice: Array, new: Factors, old: Factors) -> Factors:
    return jax.tree.map(lambda a, b: jnp.where(choice, a, b), new, old)


def _field(problem: Problem, factors: Factors) -> Factors:
    return problem.descent(factors)[0]


def _member_start(problem: Problem, factors: Factors, method: Method) -> State:
    slope, end_to_end = problem.descent(factors)
    field = partial(_field, problem)
    rho, direction = power_step(field, factors, slope, slope)
    for _ in range(4):
        rho, direction = power_step(field, factors, slope, direction)
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


def _error_norm(error: Factors, before: Factors, after: Factors) -> Array:
    """Return the root mean square over factors of ||error_l|| relative to ||W_l||."""

    def size(factors: Factors) -> Array:
        return jnp.stack([jnp.sqrt(jnp.vdot(f, f)) for f in factors])

    scale = jnp.maximum(size(before), size(after))
    # A factor at zero has no size of its own; it is measured against its neighbours'.
    scale = jnp.maximum(scale, 1e-3 * jnp.max(scale))
    scale = jnp.maximum(scale, jnp.finfo(scale.dtype).tiny)
    return jnp.sqrt(jnp.mean(jnp.square(size(error) / scale)))


def _smooth_trial(
    problem: Problem, state: State, h: Array, method: Method
) -> tuple[Factors, Array]:
    solver = _smooth_solver(method.solver)
    term = diffrax.ODETerm(lambda t, y, args: _field(args, y))
    zero = jnp.zeros_like(h)
    inner = solver.init(term, zero, h, state.factors, problem)
    y1, error, _, _, result = solver.step(term, zero, h, state.factors, problem, inner, False)
    assert error is not None  # these methods all estimate their error
    size = _error_norm(error, state.factors, y1)
    return y1, jnp.where(result == diffrax.RESULTS.successful, size, jnp.inf)


def _stiff_trial(problem: Problem, state: State, h: Array, method: Method) -> tuple[Factors, Array]:
    stages = stages_needed(h * state.rho, method.max_stages).astype(h.dtype)
    y1 = chebyshev_step(partial(_field, problem), state.factors, state.slope, h, stages)
    return y1, stages


def _propose(state: State, control: Control, method: Method) -> tuple[Array, Array]:
    """Return the step to try, and whether it ends at `t_stop`."""
    h = state.h
    if method.can_be_stiff:
        stiff = longest_step(state.rho, method.max_stages).astype(h.dtype)
        h = jnp.where(state.stiff, jnp.minimum(h, stiff), h)
    if method.solver in _REACH:
        smooth = _REACH[method.solver] / jnp.maximum(state.rho, jnp.finfo(h.dtype).tiny)
        h = jnp.where(state.stiff, h, jnp.minimum(h, smooth))
    lands = state.t + h >= control.t_stop
    return jnp.where(lands, control.t_stop - state.t, h), lands


def _factor(error: Array, order: Array, state: State, h: Array, accepted: Array) -> Array:
    """Return the factor for the next step: error control with a one-step memory."""
    error = jnp.maximum(error, 1e-10)
    plain = 0.8 * error ** (-1 / order)
    memory = plain * (state.last_error / error) ** (1 / order) * h / state.last_h
    predictive = jnp.where(state.last_error > 0, jnp.minimum(plain, memory), plain)
    return jnp.clip(jnp.where(accepted, predictive, jnp.minimum(plain, 0.5)), 0.1, 10.0)


def _past_the_threshold(before: Array, after: Array, tol: Array, h: Array) -> tuple[Array, Array]:
    """Return whether a step ends well below the residual threshold, and the step that meets it.

    Long last steps would otherwise end anywhere beyond the threshold, and the time of fitting
    would mean nothing. The residual falls exponentially: the secant is drawn in its logarithm.
    """
    past = (after < 0.8 * tol) & (before > tol)
    tiny = jnp.finfo(h.dtype).tiny
    aim = jnp.log(before / jnp.maximum(0.9 * tol, tiny))
    share = aim / jnp.log(before / jnp.maximum(after, tiny))
    return past, h * jnp.clip(jnp.where(past, share, 1.0), 0.05, 0.98)


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
    stiff_error = _error_norm(
        chebyshev_error(state.factors, y1, state.slope, slope1, h), state.factors, y1
    )
    order = jnp.where(state.stiff, 3.0, 8.0 if method.solver in ("auto", "dopri8") else 5.0)
    error = jnp.where(state.stiff, stiff_error, smooth_error) / control.rtol
    mse1 = problem.squared_error(end_to_end) / jnp.maximum(jnp.sum(problem.mask), 1)
    finite = jnp.isfinite(error) & jnp.isfinite(mse1) & jnp.isfinite(norm(slope1))
    error = jnp.where(finite, error, 1e6)
    accepted = error <= 1
    past, shorter = _past_the_threshold(state.mse, mse1, control.tol, h)
    landing = accepted & past & (state.landings < _MAX_LANDINGS)
    accepted &= ~landing

    factors = _where(accepted, y1, state.factors)
    slope = _where(accepted, slope1, state.slope)
    t1 = jnp.where(lands, control.t_stop, state.t + h)
    factor = _factor(error, order.astype(h.dtype), state, h, accepted)
    next_h = h * factor
    # A step cut short to land on a given time says nothing about the step after it.
    next_h = jnp.where(accepted & lands, jnp.maximum(next_h, state.h), next_h)
    next_h = jnp.where(landing, shorter, next_h)

    rho, direction, stiff = state.rho, state.direction, state.stiff
    last_error = jnp.where(accepted, error, state.last_error)
    if method.is_explicit:
        rho, direction = power_step(partial(_field, problem), factors, slope, state.direction)
    if method.solver == "auto":
        wanted = 0.8 * jnp.maximum(stiff_error / control.rtol, 1e-6) ** (-1 / 3)
        to_stiff = ~state.stiff & accepted & (wanted * h * rho > _TO_STIFF)
        to_smooth = state.stiff & accepted & (next_h * rho < _TO_SMOOTH)
        stiff = (state.stiff | to_stiff) & ~to_smooth
        next_h = jnp.where(to_stiff, h * jnp.clip(wanted, 1.0, 10.0), next_h)
        last_error = jnp.where(to_stiff | to_smooth, -1.0, last_error)

    in_a_row = jnp.where(accepted | landing, 0, state.rejected_in_a_row + 1)
    steps = state.steps + accepted
    spent = jnp.where(state.stiff, stages.astype(steps.dtype) - 1, _STAGES[method.solver])
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
    code = jnp.select(
        [mse <= control.tol, in_a_row >= _MAX_REJECTIONS, steps >= control.max_steps],
        [jnp.int32(FITTED), jnp.int32(DIVERGED), jnp.int32(STEPS)],
        jnp.int32(RUNNING),
    )
    if method.validated:
        new, code = _watch(problem, new, control, end_to_end, accepted, code)
    return dataclasses.replace(new, code=code)


def _watch(
    problem: Problem,
    state: State,
    control: Control,
    end_to_end: Array,
    accepted: Array,
    code: Array,
) -> tuple[State, Array]:
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
    return state, jnp.where((code == RUNNING) & past, jnp.int32(VALIDATION), code)


class History(eqx.Module):
    """The scalars of every accepted step in one call of `advance`, [batch, capacity]."""

    t: Array
    mse: Array
    validation: Array
    accepted: Array


@eqx.filter_jit(donate="none")
def advance(
    problem: Problem,
    state: State,
    control: Control,
    method: Method,
    budget: Array,
    travel: Array,
    capacity: int,
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
        return room & jnp.any(active(state)) & ~moved(state)

    def body(carry: tuple[State, History, Array]) -> tuple[State, History, Array]:
        state, history, count = carry
        new = _batch_step(problem, state, control, method)
        running = active(state)

        def pick(a: Array, b: Array) -> Array:
            return jnp.where(running.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)

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


def _batch_step(problem: Problem, state: State, control: Control, method: Method) -> State:
    h, lands = jax.vmap(lambda s, c: _propose(s, c, method))(state, control)
    running = (state.code == RUNNING) & (state.t < control.t_stop)
    smooth_error, stages = jnp.full_like(h, jnp.inf), jnp.ones_like(h)
    y1 = state.factors

    # Branches, not masks: a batch that is all smooth (or all stiff) pays for one method only.
    if method.can_be_smooth:
        smooth = running & ~state.stiff
        trial = jax.vmap(lambda p, s, h: _smooth_trial(p, s, h, method))
        new, smooth_error = jax.lax.cond(
            jnp.any(smooth),
            lambda: trial(problem, state, h),
            lambda: (state.factors, smooth_error),
        )
        y1 = _where(smooth[:, None, None], new, y1)
    if method.can_be_stiff:
        stiff = running & state.stiff
        trial = jax.vmap(lambda p, s, h: _stiff_trial(p, s, h, method))
        new, stages = jax.lax.cond(
            jnp.any(stiff),
            lambda: trial(problem, state, jnp.where(stiff, h, 0)),
            lambda: (state.factors, stages),
        )
        y1 = _where(stiff[:, None, None], new, y1)
    settle = jax.vmap(lambda *args: _settle(args[0], args[1], args[2], method, *args[3:]))
    return settle(problem, state, control, h, lands, y1, smooth_error, stages)
