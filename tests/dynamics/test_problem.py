"""The training problem: gradient against autodiff and finite differences, loss conventions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depthrank import patterns
from depthrank.dynamics.problem import chain, combine, norm
from depthrank.dynamics.setup import make_problem
from depthrank.factors import dims
from depthrank.initialization import Gaussian
from depthrank.observations import Observations

SHAPE = (7, 5)


def rectangular(decay: float = 0.0):
    truth = np.random.default_rng(0).normal(size=SHAPE)
    seen = patterns.uniform(SHAPE, count=11, seed=0)
    return make_problem(Observations.from_mask(truth, seen), decay, "float64")


def random_factors(depth: int):
    start = Gaussian(init_scale=3.0)(dims(SHAPE, depth, width=None if depth != 3 else (6, 4)), 1)
    return tuple(jnp.asarray(f) for f in start)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
@pytest.mark.parametrize("decay", [0.0, 0.3])
def test_descent_is_minus_the_gradient_of_the_loss(depth, decay):
    with jax.enable_x64(True):
        problem, factors = rectangular(decay), random_factors(depth)
        slope, product = problem.descent(factors)
        gradient = jax.grad(problem.loss)(factors)
        for ours, theirs in zip(slope, gradient, strict=True):
            np.testing.assert_allclose(ours, -theirs, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(product, chain(factors)[-1], rtol=1e-14)


def test_loss_is_half_the_sum_over_observed_entries_plus_half_the_decay():
    with jax.enable_x64(True):
        problem, factors = rectangular(0.3), random_factors(3)
        product = np.asarray(factors[2] @ factors[1] @ factors[0])
        mask, target = np.asarray(problem.mask), np.asarray(problem.target)
        expected = 0.5 * ((product - target)[mask == 1] ** 2).sum()
        expected += 0.15 * sum(float((f**2).sum()) for f in factors)
        assert float(problem.loss(factors)) == pytest.approx(expected, rel=1e-13)


def test_hidden_cells_do_not_enter_sp13():
    """SP-13: whatever stands in hidden cells, loss and gradient are the same."""
    seen = patterns.uniform(SHAPE, count=11, seed=0)
    truth = np.random.default_rng(0).normal(size=SHAPE)
    slopes = []
    with jax.enable_x64(True):
        for filler in (0.0, 1e6):
            hidden = np.where(seen, truth, filler)
            problem = make_problem(Observations.from_mask(hidden, seen), 0.0, "float64")
            slopes.append(problem.descent(random_factors(2))[0])
    for a, b in zip(*slopes, strict=True):
        np.testing.assert_array_equal(a, b)


def test_combine_and_norm_treat_factors_as_one_vector():
    with jax.enable_x64(True):
        factors = random_factors(3)
        flat = np.concatenate([np.ravel(f) for f in factors])
        assert float(norm(factors)) == pytest.approx(np.linalg.norm(flat), rel=1e-14)
        mixed = combine((2.0, factors), (-0.5, factors))
        np.testing.assert_allclose(
            np.concatenate([np.ravel(f) for f in mixed]), 1.5 * flat, rtol=1e-14
        )
