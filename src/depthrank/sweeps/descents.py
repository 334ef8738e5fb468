"""Many descents of one shape and one optimiser, followed together in one compiled program."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from depthrank.dynamics.descent import OPTIMIZERS, descend
from depthrank.dynamics.problem import Problem
from depthrank.dynamics.setup import make_problem, residual_scale
from depthrank.dynamics.trajectory import Trajectory
from depthrank.factors import Factors
from depthrank.observations import Observations

__all__ = ["descend_batch"]

_STRETCH = 2000  # steps between two looks from Python, where Ctrl-C is heard


def descend_batch(
    observations: Sequence[Observations],
    starts: Sequence[Factors],
    *,
    optimizer: str,
    learning_rates: Sequence[float],
    steps: int,
    weight_decay: float,
    tols: Sequence[float],
    batch_size: int | None,
    seeds: Sequence[int],
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    """Train every member by the steps of one optimiser, each with its own step size.

    Parameters
    ----------
    observations, starts, learning_rates, tols, seeds : sequences, one entry per member
        As `depthrank.descend` takes them, of equal shapes.
    optimizer, steps, weight_decay, batch_size
        As there, for all members.

    Returns
    -------
    factors : list of float64 [member, d_l, d_{l-1}]
    ends : dict
        `steps` taken and `stopped_by` of every member.

    Notes
    -----
    **Label.** Exact descent, the steps of `depthrank.descend`. Descents on drawn entries
    (`batch_size`) are run by it one by one.
    """
    if batch_size is not None:
        return _one_by_one(
            observations,
            starts,
            optimizer,
            learning_rates,
            steps,
            weight_decay,
            tols,
            batch_size,
            seeds,
        )
    with jax.enable_x64(True):
        problems = [make_problem(o, weight_decay, "float64") for o in observations]
        problem = jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)
        factors = tuple(jnp.stack(layer) for layer in zip(*starts, strict=True))
        scales = [residual_scale(o, s) for o, s in zip(observations, starts, strict=True)]
        threshold = jnp.asarray(np.array(tols) * np.array(scales))
        rates = jnp.asarray(np.array(learning_rates, float))
        carry = _begin(problem, factors, rates, optimizer)
        for first in range(0, steps, _STRETCH):
            until = jnp.asarray(min(first + _STRETCH, steps))
            carry = _stretch(problem, carry, rates, threshold, until, optimizer)
            if not bool(jnp.any(carry[4] & (carry[2] > threshold))):
                break
        layers, _, mse, count, alive = carry
        fitted = np.asarray(mse <= threshold)
        words = np.where(fitted, "fitted", np.where(np.asarray(alive), "steps", "diverged"))
        ends = {"steps": np.asarray(count), "stopped_by": words}
        return [np.asarray(layer) for layer in layers], ends


def _rule(optimizer: str, rate: Any) -> optax.GradientTransformation:
    """Return the optimiser for a step size that the compiled program takes as data."""
    return OPTIMIZERS[optimizer](rate)


Carry = tuple[tuple[Array, ...], optax.OptState, Array, Array, Array]


def _mse(problem: Problem, factors: tuple[Array, ...]) -> Array:
    return problem.squared_error(problem.end_to_end(factors)) / jnp.maximum(problem.mask.sum(), 1)


def _begin(problem: Problem, factors: tuple[Array, ...], rates: Array, optimizer: str) -> Carry:
    memory = jax.vmap(lambda f, rate: _rule(optimizer, rate).init(f))(factors, rates)
    count = jnp.zeros(rates.shape, jnp.int64)
    alive = jnp.ones(rates.shape, bool)
    return factors, memory, jax.vmap(_mse)(problem, factors), count, alive


def _member(
    problem: Problem, carry: Carry, rate: Array, threshold: Array, until: Array, optimizer: str
) -> Carry:
    """Step one member until it is fitted, is done, or would take a step that is not finite."""
    rule = _rule(optimizer, rate)

    def goes_on(carry: Carry) -> Array:
        _, _, mse, count, alive = carry
        return alive & (count < until) & (mse > threshold)

    def step(carry: Carry) -> Carry:
        factors, memory, mse, count, _ = carry
        slope, _ = problem.descent(factors)
        update, new_memory = rule.update(jax.tree.map(jnp.negative, slope), memory, factors)
        new = optax.apply_updates(factors, update)
        new_mse = _mse(problem, new)
        alive = jnp.isfinite(new_mse)
        moved, kept = jax.tree.map(
            lambda a, b: jnp.where(alive, a, b), (new, new_memory), (factors, memory)
        )
        return moved, kept, jnp.where(alive, new_mse, mse), count + alive, alive

    return jax.lax.while_loop(goes_on, step, carry)


def _stretch_of_all(
    problem: Problem, carry: Carry, rates: Array, threshold: Array, until: Array, optimizer: str
) -> Carry:
    def member(p: Problem, c: Carry, rate: Array, tolerance: Array) -> Carry:
        return _member(p, c, rate, tolerance, until, optimizer)

    return jax.vmap(member)(problem, carry, rates, threshold)


_stretch = jax.jit(_stretch_of_all, static_argnames="optimizer")


def _one_by_one(
    observations: Sequence[Observations],
    starts: Sequence[Factors],
    optimizer: str,
    learning_rates: Sequence[float],
    steps: int,
    weight_decay: float,
    tols: Sequence[float],
    batch_size: int,
    seeds: Sequence[int],
) -> tuple[list[np.ndarray], dict[str, np.ndarray]]:
    runs: list[Trajectory] = []
    for k, start in enumerate(starts):
        if k and start is starts[k - 1] and observations[k] is observations[k - 1]:
            runs.append(runs[-1])  # a copy that fills the batch up
            continue
        run = descend(
            observations[k],
            optimizer=optimizer,
            learning_rate=learning_rates[k],
            factors=start,
            steps=steps,
            weight_decay=weight_decay,
            tol=tols[k],
            batch_size=batch_size,
            record_every=steps,
            seed=seeds[k],
        )
        runs.append(run)
    layers = [np.stack(layer) for layer in zip(*(run.factors for run in runs), strict=True)]
    words = np.array([run.stopped_by for run in runs])
    return layers, {"steps": np.array([run.steps for run in runs]), "stopped_by": words}
