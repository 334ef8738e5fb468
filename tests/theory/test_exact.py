from typing import Any

import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.initialization import Balanced
from depthrank.theory import (
    amplification_exponent,
    escape_time,
    fully_observed_state,
    limits_state,
    norm_divergence_bounds,
    start_kernel,
)
from tests.theory.cases import assert_close, of_kind
from tests.theory.oracle import integrate, product

INF = float("inf")


@pytest.mark.parametrize("case", of_kind("tangent_kernel"))
def test_reference_start_kernels(case):
    i, want = case["inputs"], case["expected"]
    diagonal, off, top = start_kernel(
        depth=i["L"], alpha=i["alpha"], m=float(i["m"]), dimension=i["d"]
    )
    assert_close(diagonal, want["k_diag"])
    np.testing.assert_allclose(off, want["k_off"], rtol=1e-10, atol=0)
    assert_close(top, want["top_eigenvalue"])


@pytest.mark.parametrize("shape", [(3, 3), (3, 5), (4, 2)])
def test_full_data_against_the_flow(shape):
    rng = np.random.default_rng(shape[1])
    factors = Balanced(0.4 * rng.standard_normal(shape))((shape[1], 5, shape[0]))
    target = rng.standard_normal(shape)
    target[:, 0] = 0.0  # a rank-deficient target is an ordinary case
    times = [0.0, 0.5, 2.0, 6.0]
    mask = np.ones(shape, dtype=bool)
    for t, state in zip(times, integrate(factors, mask, target, times), strict=True):
        got = fully_observed_state(t, factors, target)
        np.testing.assert_allclose(got, product(state), rtol=1e-8, atol=1e-9)


def test_symmetric_start_reaches_the_target_only_if_definite():
    rng = np.random.default_rng(0)
    M = 0.5 * rng.standard_normal((3, 3))
    T = np.diag([2.0, 1.0, -1.0])
    got = fully_observed_state(14.0, (M.T, M), T)
    np.testing.assert_allclose(got, np.diag([2.0, 1.0, 0.0]), atol=1e-6)


@pytest.mark.parametrize("depth", [3, 4])
def test_escape_time_converges_quadratically(depth):
    errors = []
    for alpha in (0.02, 0.01):
        kw: dict[str, Any] = {"depth": depth, "alpha": alpha, "m": 3.0, "n_blocks": 3, "value": 1.2}
        t = escape_time(**kw, level=0.8)
        reached = limits_state(t, **kw).factor_eigenvalues[0]
        # convert the error in e to one in time with the speed of the leading mode
        F = limits_state(t, **kw).mode_value
        errors.append((reached - 0.8) / ((1.2 - F) * 0.8 ** (depth - 1)))
    assert abs(errors[0]) < 0.01
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_escape_time_depth_two_and_overflow():
    t = escape_time(depth=2, alpha=1e-3, m=INF, n_blocks=1, level=0.5)
    assert limits_state(t, depth=2, alpha=1e-3, m=INF, n_blocks=1).factor_eigenvalues[0] == (
        pytest.approx(0.5)
    )
    assert escape_time(depth=6, alpha=1e-80, m=2.0, n_blocks=2, level=0.5) == INF


def test_norm_divergence_bounds_hold_along_the_flow():
    """The 2 x 2 problem whose norm has no bound: losses fall, entries grow, the rank tends to 1."""
    factors = tuple(0.5 * np.eye(2) for _ in range(3))
    mask = np.array([[False, True], [True, True]])
    target = np.array([[0.0, 1.0], [1.0, 0.0]])
    corner = []
    for state in integrate(factors, mask, target, [5.0, 20.0, 60.0], rtol=1e-9):
        X = product(state)
        loss = 0.5 * np.sum((X - target)[mask] ** 2)
        assert np.linalg.det(X) > 0
        lower, upper = norm_divergence_bounds(loss)
        corner.append(abs(X[0, 0]))
        assert corner[-1] >= lower
        assert np.linalg.svd(X, compute_uv=False)[1] <= upper
    assert corner[0] < corner[1] < corner[2]


def test_amplification_exponent():
    """The documented example: w = (1, 0.5), L = 4, alpha = 0.1 leaves the manifold; depth 2 not."""
    kw: dict[str, Any] = {"targets": [1.0, 0.5], "starts": [0.1, 0.1]}
    assert amplification_exponent(depth=4, **kw) == pytest.approx(0.5 * 50.0)
    assert amplification_exponent(depth=2, **kw) == 0
    assert amplification_exponent(depth=4, targets=[1.0, 1.0], starts=[0.1, 0.1]) == 0


def test_errors():
    W = np.eye(2)
    with pytest.raises(DepthrankError, match="the closed form is for depth 2"):
        fully_observed_state(1.0, (W, W, W), W)
    with pytest.raises(DepthrankError, match=r"imbalance.*assumes W_2\^T W_2 = W_1 W_1\^T"):
        fully_observed_state(1.0, (W, 2 * W), W)
    with pytest.raises(DepthrankError, match=r"must lie in \[0, 30\]"):
        fully_observed_state(1e4, (W, W), W)
    with pytest.raises(DepthrankError, match="must lie between 0 and the final"):
        escape_time(depth=3, alpha=0.1, m=2.0, n_blocks=2, level=2.0)
    with pytest.raises(DepthrankError, match="hold for 0 < loss < 1/4"):
        norm_divergence_bounds(0.3)
    with pytest.raises(DepthrankError, match="one positive start for each"):
        amplification_exponent(depth=3, targets=[1.0], starts=[0.0])
