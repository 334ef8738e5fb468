import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.factors import imbalance
from depthrank.initialization import AlphaM, Balanced
from depthrank.observations import Observations
from depthrank.theory import (
    certificate,
    limits,
    rigidity,
    rigidity_unbalanced,
    singular_values_after,
    warm_2x2,
)
from tests.theory.cases import assert_close, of_kind
from tests.theory.oracle import integrate, product

INF = float("inf")


@pytest.mark.parametrize("case", of_kind("warm_start_bound"))
def test_reference_constants(case):
    i, want = case["inputs"], case["expected"]
    bound = rigidity(i["x0"] * np.eye(i["d"]), i["rho0"], i["L"])
    assert not bound.vacuous
    assert_close(bound.floor, want["sigma_min_bound"])
    assert_close(bound.loss_rate, want["loss_rate"])
    assert_close(bound.sigma_lower, np.full(i["d"], want["sigma_lower"]))
    assert_close(bound.sigma_upper, np.full(i["d"], want["sigma_upper"]))
    assert_close(bound.stable_rank_lower, want["stable_rank_lower"])
    assert_close(bound.path_length, want["parameter_distance_bound"])


@pytest.mark.parametrize("case", of_kind("warm_2x2_L2"))
def test_reference_warm_2x2(case):
    """The bounds exactly; X_21 itself is numerical and its singular values follow from it."""
    i, want = case["inputs"], case["expected"]
    bound = warm_2x2(value=i["w"], new_value=i["v"], m=float(i["m"]))
    np.testing.assert_allclose(bound.x21_start, want["x21_start"], rtol=1e-12, atol=0)
    assert_close(bound.ratio_lower, want["ratio_lower_bound"])
    assert_close(bound.stable_rank_lower, want["stable_rank_lower_bound"])
    assert bound.x21_lower <= want["x21"] <= bound.x21_start
    s = singular_values_after(i["w"], i["v"], want["x21"])
    assert_close(s, want["singular_values"])
    assert s[1] / s[0] >= bound.ratio_lower


def effective_rank(s):
    p = s / s.sum()
    return float(np.exp(-(p * np.log(p)).sum()))


def check_along(bound, states, times, mask, target):
    """Every statement of the bound, on every state of a trajectory."""
    theta0 = np.concatenate([W.ravel() for W in states[0]])
    X0 = product(states[0])
    tol = 1e-9
    path = 0.0
    previous = theta0
    for t, factors in zip(times, states, strict=True):
        X = product(factors)
        s = np.linalg.svd(X, compute_uv=False)
        rho = np.linalg.norm((X - target)[mask])
        assert s[-1] >= bound.floor - tol
        assert rho <= bound.residual_bound(t) + tol
        assert np.all(s >= bound.sigma_lower - tol)
        assert np.all(s <= bound.sigma_upper + tol)
        stable = float((s**2).sum() / s[0] ** 2)
        assert bound.stable_rank_lower - tol <= stable <= bound.stable_rank_upper + tol
        assert effective_rank(s) >= bound.effective_rank_lower - tol
        assert np.linalg.norm(X - X0) <= bound.product_move + tol
        theta = np.concatenate([W.ravel() for W in factors])
        path += float(np.linalg.norm(theta - previous))
        previous = theta
        assert path <= bound.path_length + tol
    return rho


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (5, 3)])
def test_no_violation_along_the_flow(depth, shape):
    rng = np.random.default_rng(depth * 10 + shape[0])
    X0 = rng.standard_normal(shape) + 2 * np.eye(*shape)
    sizes = (shape[1], *(max(shape),) * (depth - 1), shape[0])
    factors = Balanced(X0)(sizes)
    mask = rng.random(shape) < 0.7
    step = rng.standard_normal(shape)
    s = np.linalg.svd(X0, compute_uv=False)
    per = 1 if shape[0] == shape[1] else depth
    target = X0 + step * (0.6 * s[-1] / per / np.linalg.norm(step[mask]))
    obs = Observations.from_mask(target, mask)
    bound = certificate(factors, obs)
    assert bound.certified
    assert bound.q == pytest.approx(0.6)
    times = np.linspace(0, 8 / bound.residual_rate, 60)
    states = integrate(factors, mask, target, times)
    rho = check_along(bound, states, times, mask, target)
    assert rho < 1e-3 * bound.residual


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_effective_rank_bound_from_equal_singular_values(depth):
    rng = np.random.default_rng(depth)
    d = 6
    factors = AlphaM(1.0)((d,) * (depth + 1))
    mask = np.eye(d, k=1, dtype=bool) | np.eye(d, dtype=bool)
    target = np.eye(d) + np.eye(d, k=1) * 0.15 * rng.choice([-1, 1], d)[:, None]
    bound = certificate(factors, Observations.from_mask(target, mask))
    assert bound.effective_rank_lower > bound.stable_rank_lower
    times = np.linspace(0, 5, 40)
    check_along(bound, integrate(factors, mask, target, times), times, mask, target)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_sharp_on_one_diagonal_entry(depth):
    """From x_0 I with one observed diagonal entry below x_0, floor and path are attained."""
    x0, rho0, d = 1.3, 0.8, 3
    factors = tuple(x0 ** (1 / depth) * np.eye(d) for _ in range(depth))
    mask = np.zeros((d, d), dtype=bool)
    mask[1, 1] = True
    bound = rigidity(product(factors), rho0, depth)
    target = np.full((d, d), x0 - rho0)
    end = integrate(factors, mask, target, [0.0, 60.0])[-1]
    assert np.linalg.svd(product(end), compute_uv=False)[-1] == pytest.approx(bound.floor, rel=1e-9)
    moved = np.sqrt(sum(np.sum((W - V) ** 2) for W, V in zip(end, factors, strict=True)))
    assert moved == pytest.approx(bound.path_length, rel=1e-9)


def test_rectangular_costs_a_factor_of_depth():
    X = np.eye(3, 4)
    assert not rigidity(X, 0.3, 3).vacuous
    bound = rigidity(X, 0.34, 3)
    assert bound.vacuous
    assert "3 * residual = 1.02 is not below sigma_min = 1" in bound.reason


def test_vacuous_says_so():
    bound = rigidity(np.diag([2.0, 1.0]), 1.5, 2)
    assert bound.vacuous
    assert not bound.certified
    assert "q = 1.5 >= 1" in bound.reason
    assert (bound.floor, bound.loss_rate, bound.stable_rank_lower) == (0.0, 0.0, 1.0)
    assert np.all(bound.sigma_lower == 0)
    assert np.all(np.isinf(bound.sigma_upper))
    singular = rigidity(np.ones((2, 2)), 0.0, 2)
    assert singular.vacuous
    assert rigidity(np.zeros((2, 2)), 0.0, 3).q == INF


def test_zero_residual_pins_everything():
    bound = rigidity(np.diag([3.0, 1.0, 0.5]), 0.0, 3)
    np.testing.assert_allclose(bound.sigma_lower, [3, 1, 0.5], rtol=1e-12)
    np.testing.assert_allclose(bound.sigma_upper, [3, 1, 0.5], rtol=1e-12)
    assert bound.stable_rank_lower == pytest.approx(1 + 1 / 9 + 1 / 36)


def test_all_ones_truth_has_q_equal_root_k():
    """Diagonal first, then k entries of the all-ones matrix: q = sqrt(k) for every start."""
    for depth, alpha, m in ((2, 0.1, 3.0), (3, 0.5, 10.0), (4, 0.1, INF)):
        first = limits(depth=depth, alpha=alpha, m=m, dimension=6)
        for k in (1, 3):
            residual = np.sqrt(k) * (1.0 - first.cross_block_entry)
            bound = rigidity(first.end_to_end(), residual, depth)
            assert bound.q == pytest.approx(np.sqrt(k), rel=1e-6)


def test_published_table_of_ten_by_ten():
    for k, v, want in ((9, 0.02, 8.555), (9, 0.1, 4.282), (20, 0.1, 2.683), (45, 0.1, 1.388)):
        bound = rigidity(np.eye(10), np.sqrt(k) * v, 2)
        assert bound.stable_rank_lower == pytest.approx(want, abs=6e-4)


def test_certificate_gives_error_bars_on_the_limit():
    """A bad start proves nothing, a later state of the same run does, and the bars hold."""
    rng = np.random.default_rng(8)
    mask = np.eye(4, dtype=bool) | np.eye(4, k=1, dtype=bool)
    target = np.where(np.eye(4), 1.0, 0.4) + 0.05 * rng.standard_normal((4, 4))
    factors = AlphaM(0.3, 8.0)((4, 4, 4, 4))
    obs = Observations.from_mask(target, mask)
    assert certificate(factors, obs).vacuous
    later, end = integrate(factors, mask, target, [9.0, 400.0])
    bound = certificate(later, obs)
    assert bound.certified
    s = np.linalg.svd(product(end), compute_uv=False)
    assert np.all((bound.sigma_lower <= s) & (s <= bound.sigma_upper))
    assert bound.product_move >= np.linalg.norm(product(end) - product(later))


def test_unbalanced_depth_two():
    rng = np.random.default_rng(9)
    for _ in range(5):
        W1 = rng.standard_normal((4, 4)) * 0.15 + 1.2 * np.eye(4)
        W2 = rng.standard_normal((4, 4)) * 0.15 + 1.3 * np.eye(4)
        mask = rng.random((4, 4)) < 0.7
        step = rng.standard_normal((4, 4))
        target = W2 @ W1 + 0.2 * step / np.linalg.norm(step[mask])
        bound = certificate((W1, W2), Observations.from_mask(target, mask))
        assert bound.certified
        assert "unbalanced by" in bound.reason
        assert bound.imbalance == pytest.approx(imbalance((W1, W2)))
        times = np.linspace(0, 10, 50)
        states = integrate((W1, W2), mask, target, times)
        check_along(bound, states, times, mask, target)
    far = rigidity_unbalanced((W1, W2), 50.0)
    assert far.vacuous
    assert "nothing is proved" in far.reason


def test_unbalanced_tends_to_balanced():
    W = np.diag([1.2, 0.9])
    balanced = rigidity(W @ W, 0.1, 2)
    nearly = rigidity_unbalanced((W, W + 1e-9), 0.1)
    assert nearly.residual_rate == pytest.approx(2 * balanced.floor, rel=1e-6)
    assert nearly.floor == pytest.approx(balanced.floor, rel=1e-6)


def test_warm_2x2_against_the_flow():
    """From the fitted diagonal at depth 2, m = 2, one more entry."""
    bound = warm_2x2(value=1.0, new_value=1.1, m=2.0)
    X0 = np.array([[1.0, bound.x21_start], [bound.x21_start, 1.0]])
    factors = Balanced(X0)((2, 2, 2))
    mask = np.array([[True, True], [False, True]])
    target = np.array([[1.0, 1.1], [0.0, 1.0]])
    times = np.linspace(0, 80, 100)
    x21 = np.array([product(f)[1, 0] for f in integrate(factors, mask, target, times)])
    assert np.all(np.diff(x21) <= 1e-10)
    assert bound.x21_lower <= x21[-1]
    X = product(integrate(factors, mask, target, [80.0])[-1])
    s = np.linalg.svd(X, compute_uv=False)
    np.testing.assert_allclose(s, singular_values_after(1.0, 1.1, X[1, 0]), rtol=1e-8)
    assert (s**2).sum() / s[0] ** 2 >= bound.stable_rank_lower


def test_errors():
    obs = Observations.from_mask(np.eye(3), np.eye(3, dtype=bool))
    rng = np.random.default_rng(10)
    loose = tuple(np.eye(3) + 0.1 * rng.standard_normal((3, 3)) for _ in range(3))
    with pytest.raises(DepthrankError, match="the theorem assumes balanced factors"):
        certificate(loose, obs)
    with pytest.raises(DepthrankError, match="depth is 1; here it must be an integer >= 2"):
        certificate((np.eye(3),), obs)
    with pytest.raises(DepthrankError, match="residual is -1"):
        rigidity(np.eye(2), -1, 2)
    with pytest.raises(DepthrankError, match="it must be a finite matrix"):
        rigidity([[np.nan, 1.0]], 0.1, 2)
    with pytest.raises(DepthrankError, match="assumes depth 2 and a square product"):
        rigidity_unbalanced(loose, 0.1)
    with pytest.raises(DepthrankError, match=r"v > b and v b < w\^2"):
        warm_2x2(value=1.0, new_value=0.1, m=2.0)
