import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.initialization import AlphaM, Gaussian
from depthrank.observations import Observations
from depthrank.theory import limits, limits_for
from tests.theory.oracle import integrate, product

INF = float("inf")


def observed(target, mask):
    return Observations.from_mask(np.asarray(target, dtype=float), np.asarray(mask, dtype=bool))


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("depth", [2, 3])
def test_equal_blocks_in_any_order(depth, size):
    order = np.random.default_rng(depth).permutation(6)
    mask = np.kron(np.eye(6 // size), np.ones((size, size)))[np.ix_(order, order)]
    got = limits_for(observed(0.8 * mask, mask), depth=depth, init=AlphaM(0.2, 3.0))
    want = limits(depth=depth, alpha=0.2, m=3.0, dimension=6, block_size=size, value=0.8)
    np.testing.assert_allclose(got.matrix, want.end_to_end()[np.ix_(order, order)], rtol=1e-12)
    np.testing.assert_allclose(got.singular_values, want.singular_values, rtol=1e-9, atol=1e-15)
    assert got.label == "exact"


def test_equal_psd_blocks():
    T = np.array([[1.0, 0.2], [0.2, 1.0]])
    mask = np.kron(np.eye(3), np.ones((2, 2)))
    obs = observed(np.kron(np.eye(3), T), mask)
    got = limits_for(obs, depth=3, init=AlphaM(0.3, 3.0))
    assert got.statement == "equal symmetric diagonal blocks: Theorem 3.3, mode by mode"
    np.testing.assert_allclose(got.matrix[mask > 0], obs.to_dense()[mask > 0], rtol=1e-12)


def test_depth_one_and_matchings_take_any_start_and_shape():
    mask = np.zeros((3, 5), dtype=bool)
    mask[[0, 2], [4, 1]] = True
    target = np.zeros((3, 5))
    target[0, 4], target[2, 1] = 1.5, -0.5
    start = Gaussian(0.5)
    one = limits_for(observed(target, mask), depth=1, init=start, seed=3)
    np.testing.assert_array_equal(one.matrix[~mask], start((5, 3), 3)[0][~mask])
    np.testing.assert_array_equal(one.matrix[mask], target[mask])
    two = limits_for(observed(target, mask), depth=2, init=start, seed=3)
    end = integrate(start((5, 3, 3), 3), mask, target, [60.0])[-1]
    np.testing.assert_allclose(two.matrix, product(end), atol=1e-9)


def test_unequal_diagonals():
    obs = observed(np.diag([1.0, 2.0, 0.5]), np.eye(3))
    got = limits_for(obs, depth=4, init=AlphaM(0.3, INF))
    np.testing.assert_array_equal(got.matrix, np.diag([1.0, 2.0, 0.5]))
    two = limits_for(obs, depth=2, init=AlphaM(0.3, 2.0))
    assert two.matrix[0, 1] == pytest.approx(5 / 6 * np.sqrt(2))


@pytest.mark.parametrize(
    ("mask", "target", "depth", "init", "match"),
    [
        (
            np.ones((2, 3)),
            np.ones((2, 3)),
            3,
            AlphaM(0.1, 2.0),
            "2 x 3; the theorem assumes a square",
        ),
        (
            np.eye(3, k=1) + np.eye(3),
            np.ones((3, 3)),
            3,
            AlphaM(0.1, 2.0),
            r"row 0 is observed in columns \[0, 1\], and 1 row.*fully observed blocks.*flow",
        ),
        (np.diag([1, 1, 0]), np.eye(3), 3, AlphaM(0.1, 2.0), r"row 2 is observed in columns \[\]"),
        (
            np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1]]),
            np.ones((3, 3)),
            3,
            AlphaM(0.1, 2.0),
            r"blocks have sizes \[1, 2\]; the theorem assumes equal ones",
        ),
        (np.eye(2), np.diag([1.0, 2.0]), 3, AlphaM(0.1, 2.0), "assumes equal values, or depth 2"),
        (
            np.kron(np.eye(2), np.ones((2, 2))),
            np.kron(np.diag([1.0, 2.0]), np.ones((2, 2))),
            3,
            AlphaM(0.1, 2.0),
            r"values of the 2 blocks differ \(overall from 1 to 2\)",
        ),
        (np.eye(2), np.eye(2), 3, Gaussian(0.1), r"start is Gaussian.*assume AlphaM\(alpha, m\)"),
        (np.zeros((2, 2)), np.eye(2), 3, AlphaM(0.1, 2.0), "nothing is observed"),
    ],
)
def test_the_failed_assumption_is_named(mask, target, depth, init, match):
    with pytest.raises(DepthrankError, match=match):
        limits_for(observed(target, mask), depth=depth, init=init)
