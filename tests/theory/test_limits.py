from decimal import Decimal, getcontext
from typing import Any

import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.theory import limits, limits_grid, ratio_bounds, small_alpha_rate
from tests.theory.cases import assert_close, assert_expected, of_kind

INF = float("inf")


@pytest.mark.parametrize("case", of_kind("diag", "block_const"))
def test_reference_limits(case):
    i = case["inputs"]
    result = limits(
        depth=i["L"],
        alpha=i["alpha"],
        m=float(i["m"]),
        n_blocks=i["n"],
        block_size=i["s"],
        value=i["w"],
    )
    assert_expected(result, case["expected"], skip=("note",))
    assert result.label == "exact"
    assert result.coupled == (i["L"] >= 3 and i["n"] > 1 and i["m"] != "inf")


def decimal_ratio(depth, alpha, m, n, tau):
    """sigma_2/sigma_1 by bisecting the one equation for y = e_2/e_1 in 60-digit decimals."""
    getcontext().prec = 60
    p = Decimal(depth - 2) / Decimal(depth)
    alpha, m, tau = Decimal(alpha), Decimal(m), Decimal(tau)
    a1, a2 = 1 + (n - 1) / m, 1 - 1 / m
    kappa = a2 ** -(depth - 2) - a1 ** -(depth - 2)
    delta = kappa * ((n * tau) ** (1 / Decimal(depth)) / alpha) ** (depth - 2)
    low, high = Decimal(-3000), Decimal(0)  # log10 of y
    for _ in range(200):
        mid = (low + high) / 2
        y = Decimal(10) ** mid
        value = (y**-depth + n - 1) ** p - (1 + (n - 1) * y**depth) ** p
        low, high = (mid, high) if value > delta else (low, mid)
    return depth * low * Decimal(10).ln()


@pytest.mark.parametrize(
    ("depth", "alpha", "m", "n"),
    [
        (3, 1e-2, 2.0, 2),
        (3, 1.0, 1e12, 4),  # nearly diagonal: sigma_1 - sigma_2 lost by plain subtraction
        (4, 1e-30, 1.5, 10),  # alpha^(-2) = 1e60, sigma_2 near 1e-120
        (6, 1e-80, 3.0, 3),  # alpha^(-4) overflows
        (3, 0.5, 1.0000001, 5),  # m near 1
        (5, 1e3, 2.0, 3),  # large start
    ],
)
def test_extremes_against_sixty_digit_bisection(depth, alpha, m, n):
    want = decimal_ratio(depth, alpha, m, n, 0.75)
    result = limits(depth=depth, alpha=alpha, m=m, n_blocks=n, value=0.75)
    assert_close(result.log_ratio, float(want), rtol=1e-12)
    with_decimals = want.exp()
    assert_close(result.stable_rank_minus_1, float((n - 1) * with_decimals**2))
    first = n * Decimal("0.75") / (1 + (n - 1) * with_decimals)
    assert_close(result.cross_block_entry, float(first * (1 - with_decimals) / n))


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("block_size", [1, 3])
def test_grid_agrees_with_scalar(depth, block_size):
    alpha = np.geomspace(1e-40, 10, 7)[:, None]
    m = np.array([1.0, 1.1, 2.0, 50.0, 1e9, INF])
    grid = limits_grid(depth=depth, alpha=alpha, m=m, n_blocks=4, block_size=block_size, value=0.3)
    assert grid.stable_rank.shape == (7, 6)
    for i, a in enumerate(alpha[:, 0]):
        for j, mm in enumerate(m):
            one = limits(depth=depth, alpha=a, m=mm, n_blocks=4, block_size=block_size, value=0.3)
            assert_close(grid.sigma_1[i, j], one.singular_values[0], 1e-14)
            assert_close(grid.sigma_2[i, j], one.singular_values[1], 1e-13)
            assert_close(grid.stable_rank_minus_1[i, j], one.stable_rank_minus_1, 1e-13)
            assert_close(grid.effective_rank[i, j], one.effective_rank, 1e-13)
            assert_close(grid.cross_block_entry[i, j], one.cross_block_entry, 1e-13)


def test_m_one_is_rank_one_and_m_inf_is_diagonal():
    for depth in (2, 3, 4):
        one = limits(depth=depth, alpha=0.3, m=1.0, n_blocks=3, block_size=2, value=0.5)
        np.testing.assert_allclose(one.end_to_end(), np.full((6, 6), 0.5), rtol=1e-14)
        assert one.stable_rank_minus_1 == 0
        assert one.effective_rank == 1
        diagonal = limits(depth=depth, alpha=0.3, m=INF, dimension=4, value=0.5)
        np.testing.assert_allclose(diagonal.end_to_end(), 0.5 * np.eye(4), rtol=1e-14)
        assert diagonal.stable_rank == pytest.approx(4)


@pytest.mark.parametrize("init", ["elementwise", "block", "constant-block"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_end_to_end_has_the_singular_values(depth, init):
    if depth == 1 and init == "block":
        return  # not constant outside the blocks; refused, see test_other_errors
    r = limits(depth=depth, alpha=0.4, m=3.0, n_blocks=2, block_size=3, value=0.7, init=init)
    s = np.linalg.svd(r.end_to_end(), compute_uv=False)
    np.testing.assert_allclose(s, r.singular_values, atol=1e-13)
    assert r.end_to_end()[0, 1] == 0.7


def test_large_m_approaches_infinite_m_and_small_m_one():
    far = limits(depth=4, alpha=1.0, m=1e14, n_blocks=3)
    assert far.stable_rank == pytest.approx(3, abs=1e-12)
    assert 0 < far.cross_block_entry < 1e-13
    near = limits(depth=2, alpha=1.0, m=1 + 1e-12, n_blocks=3)
    assert near.stable_rank_minus_1 == pytest.approx(2 * (1e-12 / 3) ** 4, rel=1e-3)


def test_monotone_in_alpha_m_and_value():
    alpha = np.geomspace(1e-3, 30, 25)
    m = np.array([1.05, 1.5, 3.0, 20.0, 1e4])
    for depth in (3, 4, 7):
        grid = limits_grid(depth=depth, alpha=alpha[:, None], m=m, n_blocks=5)
        for rank in (grid.stable_rank_minus_1, grid.effective_rank_minus_1):
            assert np.all(np.diff(rank, axis=0) > -1e-12)
            assert np.all(np.diff(rank, axis=1) > -1e-12)
        # the ratio is strictly monotone even where the ranks have saturated at 1 or 5
        assert np.all(np.diff(grid.log_ratio, axis=0) > 0)
        assert np.all(np.diff(grid.log_ratio, axis=1) > 0)
        falling = limits_grid(depth=depth, alpha=0.5, m=2.0, value=alpha, n_blocks=5)
        assert np.all(np.diff(falling.stable_rank_minus_1) < 0)


def test_depth_does_not_always_lower_the_rank():
    """Above the threshold alpha (1 - 1/m) = 1 more depth means more rank."""
    want = {
        1.9: [1.0256, 1.0373, 1.0462, 1.0559, 1.0371, 1.0003],
        3.0: [1.0828, 1.2195, 1.3935, 1.7918, 1.9922, 2.0],
    }
    for alpha, ranks in want.items():
        got = [
            limits(depth=d, alpha=alpha, m=2.0, n_blocks=2).stable_rank
            for d in (3, 4, 5, 8, 16, 64)
        ]
        np.testing.assert_allclose(got, ranks, atol=6e-5)


def test_depth_one_keeps_the_start_outside():
    r = limits(depth=1, alpha=0.2, m=4.0, n_blocks=3, value=-1.0)
    np.testing.assert_allclose(r.end_to_end(), np.full((3, 3), 0.05) - 1.05 * np.eye(3))
    assert (r.coupled, r.rate, r.loss, r.t_half) == (False, 1.0, 0.0, None)
    half = limits(depth=1, alpha=0.2, m=4.0, n_blocks=3, value=1.0).t_half
    assert half == pytest.approx(np.log(0.8 / 0.5))


def test_half_time_at_tiny_alpha():
    """Depth 2: log(1/alpha)/tau; depth 4: the plateau, astronomically long but finite."""
    shallow = limits(depth=2, alpha=1e-200, m=INF, n_blocks=2).t_half
    assert shallow == pytest.approx(200 * np.log(10), rel=1e-12)
    deep = limits(depth=4, alpha=1e-20, m=2.0, n_blocks=2).t_half
    assert deep == pytest.approx(1 / (2 * 1.5**2 * 1e-40), rel=1e-12)
    assert limits(depth=6, alpha=1e-80, m=2.0, n_blocks=2).t_half == INF


@pytest.mark.parametrize("depth", [3, 4, 6])
def test_small_alpha_rate(depth):
    """Corollary 3.4: the exponent is 2 L and the relative error falls like alpha^(L-2)."""
    errors = []
    for alpha in (1e-2, 1e-3):
        kw: dict[str, Any] = {"depth": depth, "alpha": alpha, "m": 3.0, "n_blocks": 4, "value": 0.8}
        exact, rate = limits(**kw), small_alpha_rate(**kw)
        leading = rate.coefficient * alpha**rate.exponent
        errors.append(abs(leading / exact.stable_rank_minus_1 - 1))
        assert_close(rate.stable_rank_minus_1, exact.stable_rank_minus_1, rtol=1e-5)
        assert_close(rate.effective_rank_minus_1, exact.effective_rank_minus_1, rtol=1e-3)
    assert rate.exponent == 2 * depth
    assert errors[1] < 2 * errors[0] * 10.0 ** -(depth - 2)


def test_ratio_bounds_enclose():
    rng = np.random.default_rng(0)
    for _ in range(200):
        kw: dict[str, Any] = {
            "depth": int(rng.integers(3, 9)),
            "alpha": float(10 ** rng.uniform(-4, 1)),
            "m": float(1 + 10 ** rng.uniform(-2, 4)),
            "n_blocks": int(rng.integers(2, 12)),
            "value": float(rng.uniform(0.1, 3)),
        }
        low, high = ratio_bounds(**kw)
        exact = limits(**kw).log_ratio
        assert low - 1e-12 <= exact <= high + 1e-12
        assert high <= 0


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"depth": 0}, "depth is 0; here it must be an integer >= 1"),
        ({"depth": 2.5}, "depth is 2.5"),
        ({"depth": "3"}, "depth is '3'"),
        ({"depth": True}, "depth is True"),
        ({"alpha": 0.0}, "assume a finite alpha > 0"),
        ({"alpha": -1.0}, r"give the end-to-end matrix the sign"),
        ({"m": 0.5}, r"m is 0.5; the exact limits assume 1 <= m <= inf.*depthrank.flow"),
        ({"m": float("nan")}, "m is nan"),
        ({"value": INF}, "value is inf; the observed value must be a finite number"),
        ({"init": "gauss"}, "init is 'gauss'; the theorem covers elementwise, block"),
        ({"n_blocks": None}, "neither n_blocks nor dimension"),
        (
            {"n_blocks": None, "dimension": 5, "block_size": 2},
            "blocks of equal size.*depthrank.flow",
        ),
        ({"dimension": 7}, "dimension 7 is not n_blocks"),
        ({"n_blocks": 0}, "n_blocks is 0"),
        ({"block_size": 0}, "block_size is 0"),
    ],
)
def test_errors_name_the_failed_assumption(change, match):
    kw = {"depth": 3, "alpha": 0.1, "m": 2.0, "n_blocks": 2} | change
    with pytest.raises(DepthrankError, match=match):
        limits(**kw)


def test_other_errors():
    with pytest.raises(
        DepthrankError, match=r"a dense 5000000 x 5000000 limit needs .*singular_values"
    ):
        limits(depth=3, alpha=0.1, m=2.0, n_blocks=5_000_000).end_to_end()
    with pytest.raises(DepthrankError, match="needs n_blocks >= 2 and finite values > 0"):
        limits_grid(depth=3, alpha=[0.1], m=2.0, n_blocks=1)
    with pytest.raises(DepthrankError, match="keeps the start outside the blocks"):
        limits(depth=1, alpha=0.1, m=2.0, n_blocks=2, block_size=2, init="block")
    with pytest.raises(DepthrankError, match="limit is free of alpha"):
        small_alpha_rate(depth=2, alpha=0.1, m=2.0, n_blocks=2)
    with pytest.raises(DepthrankError, match="assumes 1 < m < inf"):
        ratio_bounds(depth=3, alpha=0.1, m=INF, n_blocks=2)
