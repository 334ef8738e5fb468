import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.initialization import AlphaM
from depthrank.theory import (
    matching_limit,
    matching_state,
    two_by_two,
    unequal_diagonal_limit,
)
from tests.theory.cases import assert_close, of_kind
from tests.theory.oracle import integrate, product

INF = float("inf")


@pytest.mark.parametrize("case", of_kind("matching_L2"))
def test_reference_matchings(case):
    i, want = case["inputs"], case["expected"]
    r, c, w = zip(*i["observed"], strict=True)
    W1, W2 = matching_limit((np.array(i["W1"]), np.array(i["W2"])), r, c, w)
    for got, name in ((W1, "W1"), (W2, "W2"), (W2 @ W1, "X")):
        assert_close(got, want[name])


@pytest.mark.parametrize("case", of_kind("diag_unequal_L2", "diag_unequal_minf"))
def test_reference_unequal_diagonals(case):
    i, want = case["inputs"], case["expected"]
    X = unequal_diagonal_limit(i["w"], depth=i["L"], alpha=i["alpha"], m=float(i["m"]))
    assert_close(np.linalg.svd(X, compute_uv=False), want["singular_values"])
    if "X" in want:
        assert_close(X, want["X"])
        W = AlphaM(i["alpha"], i["m"])((i["d"],) * 3)
        W1, W2 = matching_limit(W, range(i["d"]), range(i["d"]), i["w"])
        assert_close(W2 @ W1, want["X"])


@pytest.mark.parametrize("signs", ["plus", "minus", "mixed"])
def test_states_against_the_flow(signs):
    rng = np.random.default_rng(0)
    W1, W2 = rng.standard_normal((3, 5)), rng.standard_normal((4, 3))
    rows, cols = np.array([0, 1, 3]), np.array([4, 0, 2])
    if signs != "mixed":  # u_0 = v_0 or u_0 = -v_0: one of P, Q vanishes
        for i, j in zip(rows, cols, strict=True):
            W2[i] = W1[:, j] * (1 if signs == "plus" else -1)
    values = np.array([1.5, -0.75, 0.0])
    mask = np.zeros((4, 5), dtype=bool)
    mask[rows, cols] = True
    target = np.zeros((4, 5))
    target[rows, cols] = values
    times = [0.3, 1.0, 4.0]
    for t, state in zip(times, integrate((W1, W2), mask, target, times), strict=True):
        got = matching_state((W1, W2), rows, cols, values, t)
        for a, b in zip(got, state, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    far = matching_state((W1, W2), rows, cols, values, 60.0)
    end = matching_limit((W1, W2), rows, cols, values)
    # decays to zero are algebraic in time for a zero target
    np.testing.assert_allclose(far[1] @ far[0], end[1] @ end[0], atol=0.2)
    start = matching_state((W1, W2), rows, cols, values, 0.0)
    np.testing.assert_allclose(start[1] @ start[0], W2 @ W1, atol=1e-14)


def test_nonpositive_diagonal_values_vanish():
    X = unequal_diagonal_limit([1.0, -2.0, 0.5], depth=2, alpha=0.1, m=3.0)
    assert np.all(X[1] == 0)
    assert np.all(X[:, 1] == 0)
    assert X[0, 0] == pytest.approx(1.0)


def test_two_by_two_disconnected_is_full_rank_at_every_alpha():
    """Theorem 3.1: the disconnected pattern, against the integrated flow."""
    for alpha in (0.02, 0.5):
        got = two_by_two([[1.0, np.nan], [np.nan, 2.0]], alpha=alpha, m=2.0)
        assert (got.label, got.connected) == ("exact", False)
        assert_close(got.matrix[0, 1], 0.8 * np.sqrt(2))
        mask = np.eye(2, dtype=bool)
        end = integrate(AlphaM(alpha, 2.0)((2, 2, 2)), mask, np.diag([1.0, 2.0]), [40.0])[-1]
        np.testing.assert_allclose(product(end), got.matrix, rtol=1e-8)


def test_two_by_two_connected_tends_to_rank_one():
    """Theorem 3.1: connected patterns fall with the stated power of alpha."""
    nan = np.nan
    for target, exponent, time in (
        ([[1.0, 1.0], [nan, nan]], 2.0, 40),
        ([[1.0, 1.0], [1.0, nan]], 2.7639320225, 40),
        ([[1.0, 1.0], [nan, 1.0]], 1.2360679775, 60),
    ):
        X = np.array(target)
        mask = np.isfinite(X)
        seconds = []
        for alpha in (1e-2, 1e-3):
            got = two_by_two(X, alpha=alpha, m=2.0)
            assert got.connected
            assert got.sigma_2_exponent == pytest.approx(exponent)
            end = integrate(AlphaM(alpha, 2.0)((2, 2, 2)), mask, np.nan_to_num(X), [time])[-1]
            seconds.append(np.linalg.svd(product(end), compute_uv=False)[1])
            np.testing.assert_allclose(product(end)[mask], X[mask], rtol=1e-6)
            if got.sigma_2_bound is not None:
                assert seconds[-1] <= got.sigma_2_bound
        assert np.log10(seconds[0] / seconds[1]) == pytest.approx(exponent, abs=0.03)
    filled = two_by_two([[2.0, 3.0], [0.5, nan]], alpha=0.1, m=2.0).matrix
    assert filled[1, 1] == pytest.approx(0.75)
    full = two_by_two([[2.0, 1.0], [1.0, 1.0]], alpha=0.1, m=2.0)
    assert (full.label, full.sigma_2_exponent) == ("exact", None)


def test_errors():
    W = np.eye(2)
    with pytest.raises(DepthrankError, match="share a row or a column"):
        matching_limit((W, W), [0, 0], [0, 1], [1.0, 1.0])
    with pytest.raises(DepthrankError, match="solvable at depth 2 only"):
        matching_limit((W, W, W), [0], [0], [1.0])
    with pytest.raises(DepthrankError, match="t is -1"):
        matching_state((W, W), [0], [0], [1.0], -1)
    with pytest.raises(DepthrankError, match=r"assumes equal values, or depth 2, or m = inf.*flow"):
        unequal_diagonal_limit([1.0, 2.0], depth=3, alpha=0.1, m=2.0)
    with pytest.raises(DepthrankError, match="not symmetric positive semidefinite"):
        two_by_two([[1.0, 2.0], [0.0, 1.0]], alpha=0.1, m=2.0)
    with pytest.raises(DepthrankError, match="no rank-one completion"):
        two_by_two([[0.0, 2.0], [2.0, np.nan]], alpha=0.1, m=2.0)
    with pytest.raises(DepthrankError, match="no entry of the target is observed"):
        two_by_two(np.full((2, 2), np.nan), alpha=0.1, m=2.0)
    with pytest.raises(DepthrankError, match="for 2 x 2 matrices"):
        two_by_two(np.eye(3), alpha=0.1, m=2.0)
