"""Resting points against plateaus: curvature decides, not the size of the gradient."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depthrank import Gaussian, Observations
from depthrank.dynamics.setup import make_problem
from depthrank.dynamics.stationarity import is_stationary


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def rests(target, factors, decay=0.0):
    problem = make_problem(Observations.from_dense(target), decay, "float64")
    factors = tuple(jnp.asarray(f, float) for f in factors)
    slope, _ = problem.descent(factors)

    def batch(tree):
        return jax.tree.map(lambda a: a[None], tree)

    answer = is_stationary(batch(problem), batch(factors), batch(slope), jnp.asarray(1e-10))
    return bool(answer[0])


SHAPE = (4, 3)
TRUTH = np.outer([1.0, 2, 3, 4], [1.0, 2, 3])


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("scale", [1e-2, 1e-6, 1e-12])
def test_a_tiny_start_is_a_plateau_not_a_resting_point(depth, scale):
    dims = (3, *(3,) * (depth - 1), 4)
    assert not rests(TRUTH, Gaussian(scale)(dims, 0))


def test_a_saddle_reached_along_its_stable_direction_is_one():
    assert rests([[-1.0]], [np.full((1, 1), 1e-9)] * 2)
    assert not rests([[-1.0]], [np.full((1, 1), 1e-2)] * 2)


def test_zero_factors_rest():
    assert rests(TRUTH, [np.zeros((3, 3)), np.zeros((4, 3))])


def test_the_minimiser_under_decay_rests_and_its_neighbours_do_not():
    u, s, vt = np.linalg.svd(TRUTH, full_matrices=False)
    kept = np.sqrt(np.maximum(s - 0.5, 0))
    w1, w2 = kept[:, None] * vt, u * kept
    assert rests(TRUTH, [w1, w2], decay=0.5)
    assert not rests(TRUTH, [1.01 * w1, w2], decay=0.5)


def test_an_unfitted_narrow_minimum_rests():
    """Width 1 cannot fit rank 2; the best rank-1 approximation is where it ends."""
    target = np.diag([3.0, 1.0])
    assert rests(target, [np.array([[3**0.5, 0.0]]), np.array([[3**0.5], [0.0]])])
    # The smaller mode is a saddle: with a trace of the larger one in it, the flow will leave.
    assert not rests(target, [np.array([[1e-6, 1.0]]), np.array([[1e-6], [1.0]])])
