"""Stabilised explicit Runge-Kutta-Chebyshev steps, as a diffrax solver.

The Jacobian of a gradient flow is minus a Hessian: symmetric, so its spectrum is real. Explicit
Runge-Kutta-Chebyshev methods spend their stages on a long real stability interval (about 0.54 s^2
for s stages at the damping used here, against about 3 for a classical method), so stiff stretches
cost the square root of the stiffness and no linear systems. This is the second-order method of
Sommeijer, Shampine and Verwer (RKC, J. Comput. Appl. Math. 88, 1998), with a stronger damping than
theirs: after long steps the interior damping, not the length of the interval, decides how fast a
fitted mode settles.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import jax
import jax.numpy as jnp
from diffrax import RESULTS
from jax import Array

from depthrank.dynamics.problem import Factors, combine, norm

DAMPING = 2.0  # |R| <= 0.59 inside the interval; the classical 2/13 gives 0.95 on one 20 % longer
MAX_STAGES = 4000  # rounding grows with their square, to 4e-9 of the state in one step
SAFETY = 1.1  # the power iteration approaches the spectral radius from below


def _derivatives(order: Array | float, w0: Array, theta: Array) -> tuple[Array, Array, Array]:
    """Return T_j, T_j', T_j'' at w0 = cosh(theta) > 1, from closed forms."""
    value = jnp.cosh(order * theta)
    first = order * jnp.sinh(order * theta) / jnp.sinh(theta)
    second = (order**2 * value - w0 * first) / (w0**2 - 1)
    return value, first, second


def _shift(stages: Array) -> tuple[Array, Array]:
    w0 = 1 + DAMPING / stages**2
    # arccosh(1 + x) loses digits for small x; this form does not.
    x = DAMPING / stages**2
    return w0, jnp.log1p(x + jnp.sqrt(x * (x + 2)))


def stability_limit(stages: Array | float) -> Array:
    """Return the length of the real stability interval of the method with s stages.

    Parameters
    ----------
    stages : scalar array, >= 2
        Number of stages s.

    Returns
    -------
    scalar array
        beta(s): steps with h * (spectral radius) <= beta are stable.
    """
    s = jnp.asarray(stages, jnp.result_type(float))
    w0, theta = _shift(s)
    _, first, second = _derivatives(s, w0, theta)
    return (w0 + 1) * second / first


def stages_needed(h_rho: Array, max_stages: int = MAX_STAGES) -> Array:
    """Return the smallest number of stages whose stability interval covers h * rho."""
    per_square = stability_limit(float(max_stages)) / max_stages**2
    # beta(s) / s^2 grows towards its limit from below by at most 25 % at s = 2, hence the + 1.
    guess = jnp.ceil(jnp.sqrt(1 + h_rho / per_square))
    return jnp.clip(guess, 2, max_stages)


def longest_step(rho: Array, max_stages: int = MAX_STAGES) -> Array:
    """Return the longest step that `max_stages` stages keep stable at spectral radius rho."""
    reach = stability_limit(float(max_stages)) * (1 - 1 / max_stages**2)
    return reach / jnp.maximum(rho, jnp.finfo(reach.dtype).tiny)


def chebyshev_step(
    field: Callable[[Factors], Factors], y: Factors, slope: Factors, h: Array, stages: Array
) -> Factors:
    """Take one Runge-Kutta-Chebyshev step of the autonomous flow dy/dt = field(y).

    Parameters
    ----------
    field : callable
        Right-hand side, factors to factors.
    y, slope : factors
        State and field(state).
    h, stages : scalar arrays
        Step and number of stages (an integer-valued float, >= 2).

    Returns
    -------
    factors
        The state after the step, of order h^3 from the flow; `stages` - 1 evaluations.
    """
    w0, theta = _shift(stages)
    _, first, second = _derivatives(stages, w0, theta)
    w1 = first / second

    def b(j: Array | float) -> Array:
        _, p, pp = _derivatives(jnp.maximum(j, 2.0), w0, theta)
        return pp / p**2

    def stage(j: Array, carry: tuple[Factors, Factors]) -> tuple[Factors, Factors]:
        before, last = carry
        j = j.astype(h.dtype)
        mu, nu = 2 * w0 * b(j) / b(j - 1), -b(j) / b(j - 2)
        mu_tilde = 2 * w1 * b(j) / b(j - 1)
        gamma = -(1 - b(j - 1) * jnp.cosh((j - 1) * theta)) * mu_tilde
        new = combine(
            (1 - mu - nu, y),
            (mu, last),
            (nu, before),
            (mu_tilde * h, field(last)),
            (gamma * h, slope),
        )
        return last, new

    start = combine((1.0, y), (w1 * b(1.0) * h, slope))
    _, end = jax.lax.fori_loop(2, stages.astype(jnp.int32) + 1, stage, (y, start))
    return end


def chebyshev_error(
    y0: Factors, y1: Factors, slope0: Factors, slope1: Factors, h: Array
) -> Factors:
    """Return an estimate of the method's local error over a step, of order h^3.

    It needs the two ends of the step only. Over a step that another, more accurate method took it
    is h^3 y'''/15, about the error that this method would have made; over a step of its own it
    reads about twice that, on the safe side.
    """
    return combine((0.8, y0), (-0.8, y1), (0.4 * h, slope0), (0.4 * h, slope1))


def power_step(
    field: Callable[[Factors], Factors], y: Factors, slope: Factors, direction: Factors
) -> tuple[Array, Factors]:
    """Take one step of the power iteration for the spectral radius of the Jacobian at y.

    The Jacobian-vector product is a difference of two fields: one evaluation, and seven digits
    are plenty for a spectral radius.

    Returns
    -------
    (rho, direction)
        Estimate, multiplied by a safety factor, and the direction to start the next one from.
    """
    eps = jnp.finfo(y[0].dtype).eps
    tiny = jnp.finfo(y[0].dtype).tiny
    size = jnp.sqrt(eps) * jnp.maximum(norm(y), jnp.sqrt(tiny))
    scale = size / jnp.maximum(norm(direction), tiny)
    moved = field(combine((1.0, y), (scale, direction)))
    image = combine((1.0, moved), (-1.0, slope))
    length = norm(image)
    rho = SAFETY * length / size
    # A direction in the kernel says nothing; keep it rather than divide by zero.
    keep = length <= tiny
    new = jax.tree.map(
        lambda a, b: jnp.where(keep, b, a / jnp.maximum(length, tiny)), image, direction
    )
    return rho, new


class Chebyshev(diffrax.AbstractAdaptiveSolver):
    """Second-order Runge-Kutta-Chebyshev method for autonomous flows with a symmetric Jacobian.

    Use it wherever a diffrax solver is accepted. `flow` drives the same step function with its own
    step control, which knows the longest stable step; under other controllers a step beyond the
    reach of `max_stages` is answered with an infinite error estimate, so that it is rejected.

    Parameters
    ----------
    max_stages : int
        Largest number of stages in one step.

    Notes
    -----
    **Order.** 2, with an embedded error estimate of order 3.
    **Cost.** s + 1 evaluations for a step of length about 0.54 s^2 over the spectral radius.
    **Source.** Sommeijer, Shampine & Verwer, J. Comput. Appl. Math. 88 (1998) 315.
    """

    max_stages: int = MAX_STAGES

    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar[Callable[..., diffrax.ThirdOrderHermitePolynomialInterpolation]] = (
        diffrax.ThirdOrderHermitePolynomialInterpolation.from_k
    )

    def order(self, terms: Any) -> int:
        """Return the order of convergence."""
        return 2

    def init(self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any) -> Any:
        """Start the power iteration; it settles while the first small steps are taken."""
        field = _field(terms, t0, args)
        slope = field(y0)
        rho, direction = power_step(field, y0, slope, slope)
        for _ in range(4):
            rho, direction = power_step(field, y0, slope, direction)
        return slope, rho, direction

    def step(
        self, terms: Any, t0: Any, t1: Any, y0: Any, args: Any, solver_state: Any, made_jump: Any
    ) -> Any:
        """Take one step from t0 to t1."""
        del made_jump
        field = _field(terms, t0, args)
        slope, rho, direction = solver_state
        h = t1 - t0
        y1 = chebyshev_step(field, y0, slope, h, stages_needed(h * rho, self.max_stages))
        slope1 = field(y1)
        error = chebyshev_error(y0, y1, slope, slope1, h)
        too_long = h > longest_step(rho, self.max_stages)
        error = jax.tree.map(lambda e: jnp.where(too_long, jnp.inf, e), error)
        rho, direction = power_step(field, y1, slope1, direction)
        k = jax.tree.map(lambda a, b: jnp.stack([a, b]) * h, slope, slope1)
        dense_info = {"y0": y0, "y1": y1, "k": k}
        return y1, error, dense_info, (slope1, rho, direction), RESULTS.successful

    def func(self, terms: Any, t0: Any, y0: Any, args: Any) -> Any:
        """Return the right-hand side."""
        return terms.vf(t0, y0, args)


def _field(terms: Any, t: Any, args: Any) -> Callable[[Factors], Factors]:
    """Return the autonomous field behind a diffrax term."""
    return lambda y: terms.vf(t, y, args)
