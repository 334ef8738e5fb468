"""One step of one member: which length to try, how to take it, how wrong it was.

Where the step is limited by accuracy, a high-order explicit method (diffrax's Dopri8) takes few,
long steps; where it is limited by stability, Runge-Kutta-Chebyshev steps take over. Each step
measures the spectral radius (one evaluation) and the error that the Chebyshev method would make
(no evaluation), and the longer step per evaluation wins.
"""

from functools import partial

import diffrax
import jax.numpy as jnp
import numpy as np
from jax import Array

from depthrank.dynamics.chebyshev import chebyshev_step, longest_step, stages_needed
from depthrank.dynamics.problem import Factors, Problem, combine
from depthrank.dynamics.state import Control, Method, State

# Steps longer than this times 1/rho are unstable for the method. Error control alone does not see
# it once the residual is below the tolerance: it rattles at the bound and never fits.
_REACH = {"tsit5": 2.8, "dopri8": 4.5, "auto": 4.5}
# Below this times 1/rho Chebyshev steps no longer pay, above the next number they do.
_TO_SMOOTH = 2.0
_TO_STIFF = 10.0


def _smooth_solver(solver: str) -> diffrax.AbstractAdaptiveSolver:
    if solver == "tsit5":
        return diffrax.Tsit5()
    if solver == "kvaerno5":
        return diffrax.Kvaerno5(root_finder=diffrax.VeryChord(rtol=1e-10, atol=1e-14))
    return diffrax.Dopri8()


STAGES = {"tsit5": 7, "dopri8": 14, "auto": 14, "kvaerno5": 7, "chebyshev": 0}


def field(problem: Problem, factors: Factors) -> Factors:
    """Return minus the gradient: the right-hand side of the flow."""
    return problem.descent(factors)[0]


def error_norm(error: Factors, before: Factors, after: Factors) -> Array:
    """Return the root mean square over factors of ||error_l|| relative to ||W_l||."""

    def size(factors: Factors) -> Array:
        return jnp.stack([jnp.sqrt(jnp.vdot(f, f)) for f in factors])

    scale = jnp.maximum(size(before), size(after))
    # A factor at zero has no size of its own; it is measured against its neighbours'.
    scale = jnp.maximum(scale, 1e-3 * jnp.max(scale))
    scale = jnp.maximum(scale, jnp.finfo(scale.dtype).tiny)
    return jnp.sqrt(jnp.mean(jnp.square(size(error) / scale)))


def smooth_trial(problem: Problem, state: State, h: Array, method: Method) -> tuple[Factors, Array]:
    """Take a step by the diffrax solver; return the state and the size of its error."""
    solver = _smooth_solver(method.solver)
    if method.unrolled and method.is_explicit:
        return unrolled_trial(problem, state, h, solver)
    term = diffrax.ODETerm(lambda t, y, args: field(args, y))
    zero = jnp.zeros_like(h)
    inner = solver.init(term, zero, h, state.factors, problem)
    y1, error, _, _, result = solver.step(term, zero, h, state.factors, problem, inner, False)
    assert error is not None  # these methods all estimate their error
    size = error_norm(error, state.factors, y1)
    return y1, jnp.where(result == diffrax.RESULTS.successful, size, jnp.inf)


def unrolled_trial(
    problem: Problem, state: State, h: Array, solver: diffrax.AbstractAdaptiveSolver
) -> tuple[Factors, Array]:
    """Take the same step with its stages written out.

    diffrax loops over the stages and reads all of them at each; for a batch of small matrices
    that traffic costs more than the gradients. Written out, the compiler fuses every combination
    into one pass over the stages it needs.
    """

    def add(weights: np.ndarray, *first: tuple[float, Factors]) -> Factors:
        terms = [(h * float(w), k) for w, k in zip(weights, slopes, strict=True) if w != 0]
        return combine(*first, *terms)

    assert isinstance(solver, diffrax.Tsit5 | diffrax.Dopri8)  # one tableau, for the one term
    tableau = solver.tableau
    slopes = [state.slope]
    for row in tableau.a_lower:
        slopes.append(field(problem, add(row, (1.0, state.factors))))
    y1 = add(tableau.b_sol, (1.0, state.factors))
    return y1, error_norm(add(tableau.b_error), state.factors, y1)


def stiff_trial(problem: Problem, state: State, h: Array, method: Method) -> tuple[Factors, Array]:
    """Take a Chebyshev step; return the state and the number of stages."""
    stages = stages_needed(h * state.rho, method.max_stages).astype(h.dtype)
    y1 = chebyshev_step(partial(field, problem), state.factors, state.slope, h, stages)
    return y1, stages


def propose(state: State, control: Control, method: Method) -> tuple[Array, Array]:
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


def step_factor(error: Array, order: Array, state: State, h: Array, accepted: Array) -> Array:
    """Return the factor for the next step: error control with a one-step memory."""
    error = jnp.maximum(error, 1e-10)
    plain = 0.8 * error ** (-1 / order)
    memory = plain * (state.last_error / error) ** (1 / order) * h / state.last_h
    predictive = jnp.where(state.last_error > 0, jnp.minimum(plain, memory), plain)
    return jnp.clip(jnp.where(accepted, predictive, jnp.minimum(plain, 0.5)), 0.1, 10.0)


def past_the_threshold(before: Array, after: Array, tol: Array, h: Array) -> tuple[Array, Array]:
    """Return whether a step ends well below the residual threshold, and the step that meets it.

    Long last steps would otherwise end anywhere beyond the threshold, and the time of fitting
    would mean nothing. The residual falls exponentially: the secant is drawn in its logarithm.
    """
    past = (after < 0.8 * tol) & (before > tol)
    tiny = jnp.finfo(h.dtype).tiny
    aim = jnp.log(before / jnp.maximum(0.9 * tol, tiny))
    share = aim / jnp.log(before / jnp.maximum(after, tiny))
    return past, h * jnp.clip(jnp.where(past, share, 1.0), 0.05, 0.98)


def switch(
    state: State, control: Control, stiff_error: Array, rho: Array, h: Array, next_h: Array
) -> tuple[Array, Array, Array]:
    """Decide which method takes the step after an accepted one.

    Returns
    -------
    (stiff, next_h, switched)
        Whether Chebyshev steps go on, the step to try first, and whether the method changed.
    """
    wanted = 0.8 * jnp.maximum(stiff_error / control.rtol, 1e-6) ** (-1 / 3)
    to_stiff = ~state.stiff & (wanted * h * rho > _TO_STIFF)
    to_smooth = state.stiff & (next_h * rho < _TO_SMOOTH)
    next_h = jnp.where(to_stiff, h * jnp.clip(wanted, 1.0, 10.0), next_h)
    return (state.stiff | to_stiff) & ~to_smooth, next_h, to_stiff | to_smooth
