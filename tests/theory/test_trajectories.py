from typing import Any

import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.initialization import AlphaM
from depthrank.theory import (
    block_tail,
    descent_state,
    limits,
    limits_state,
    mode_state,
    scalar_chain,
    single_mode,
    single_mode_time,
    unbalanced_mode,
)
from tests.theory.cases import CASES, assert_close, assert_expected, of_kind
from tests.theory.oracle import integrate, product

INF = float("inf")
WITH_STATES = [
    pytest.param(c, id=c["id"])
    for c in CASES
    if c["kind"] in ("diag", "block_const") and "trajectory" in c
]


@pytest.mark.parametrize("case", WITH_STATES)
def test_reference_trajectories(case):
    i = case["inputs"]
    for state in case["trajectory"]:
        got = limits_state(
            state["t"],
            depth=i["L"],
            alpha=i["alpha"],
            m=float(i["m"]),
            n_blocks=i["n"],
            block_size=i["s"],
            value=i["w"],
        )
        if state["loss"] > 1e-75:  # below, the table holds the square of its own 40-digit rounding
            assert_close(got.loss, state["loss"])
        # singular values of the tail come unsorted in the table
        assert_close(got.singular_values, sorted(state["singular_values"], reverse=True))
        assert_expected(got, state, skip=("t", "loss", "singular_values"))


@pytest.mark.parametrize("case", of_kind("single_mode"))
def test_reference_single_modes(case):
    i = case["inputs"]
    for state in case["trajectory"]:
        e = single_mode(state["t"], depth=i["L"], start=i["s0"], target=i["tau"])
        assert_close(e, state["s"])
        assert_close(e ** i["L"], state["value"])
        time = single_mode_time(state["s"], depth=i["L"], start=i["s0"], target=i["tau"])
        assert_close(time, state["t"])


@pytest.mark.parametrize("case", of_kind("unbalanced_mode_L2"))
def test_reference_unbalanced_mode(case):
    i = case["inputs"]
    for state in case["trajectory"]:
        a, b = unbalanced_mode(state["t"], a=i["a0"], b=i["b0"], target=i["tau"])
        for got, name in ((a, "a"), (b, "b"), (a * b, "value")):
            assert_close(got, state[name])
        assert_close(a * a - b * b, i["a0"] ** 2 - i["b0"] ** 2)


@pytest.mark.parametrize("case", of_kind("gd_diag"))
def test_reference_descent(case):
    i = case["inputs"]
    d, m = i["d"], float(i["m"])
    start = i["alpha"] * np.array([1 + (d - 1) / m, 1 - 1 / m])
    e = descent_state(
        i["steps"],
        i["step"],
        depth=i["L"],
        eigenvalues=start,
        multiplicities=[1, d - 1],
        target=i["w"],
    )
    assert_close(e, case["expected"]["factor_eigs"])


@pytest.mark.parametrize("depth", [2, 3, 5])
@pytest.mark.parametrize("value", [0.7, 0.0, -0.4])
def test_states_against_the_full_flow(depth, value):
    """Rising, zero and negative targets, with blocks, all factors integrated independently."""
    alpha, m, n, s = 0.8, 3.0, 2, 2
    factors = AlphaM(alpha, m)((4,) * (depth + 1))
    mask = np.kron(np.eye(n), np.ones((s, s))).astype(bool)
    times = [0.2, 1.0, 5.0]
    states = integrate(factors, mask, np.full((4, 4), value), times)
    for t, state in zip(times, states, strict=True):
        got = limits_state(t, depth=depth, alpha=alpha, m=m, n_blocks=n, block_size=s, value=value)
        s_flow = np.linalg.svd(product(state), compute_uv=False)
        np.testing.assert_allclose(s_flow, got.singular_values, rtol=1e-8, atol=1e-11)
        loss = 0.5 * np.sum((product(state) - value)[mask] ** 2)
        assert loss == pytest.approx(got.loss, rel=1e-7, abs=1e-13)


def test_late_states_reach_the_limit_and_half_time_is_half():
    for depth in (2, 3, 4):
        kw: dict[str, Any] = {"depth": depth, "alpha": 0.1, "m": 3.0, "n_blocks": 3, "value": 0.9}
        limit = limits(**kw)
        assert limit.t_half is not None
        late = limits_state(20 * limit.t_half + 40, **kw)
        assert_close(late.factor_eigenvalues, limit.factor_eigenvalues, 1e-12)
        assert limits_state(limit.t_half, **kw).mode_value == pytest.approx(0.45, rel=1e-11)
        # the residual falls at the local rate
        a, b = (limits_state(limit.t_half + t, **kw).mode_value - 0.9 for t in (4.0, 4.5))
        assert np.log(a / b) / 0.5 == pytest.approx(limit.rate, rel=1e-2)


def test_at_rest_and_at_zero():
    e = mode_state(3.0, depth=3, eigenvalues=[1.0, 1.0], multiplicities=[1, 2], target=1.0)
    assert np.all(e == 1)
    e = mode_state(0.0, depth=3, eigenvalues=[0.5, 0.4], multiplicities=[1, 2], target=1.0)
    assert e.tolist() == [0.5, 0.4]
    assert single_mode(2.0, depth=1, start=0.5, target=2.0) == pytest.approx(2 - 1.5 * np.exp(-2))


def test_conserved_along_the_way():
    for depth in (3, 6):
        e0 = np.array([0.9, 0.6, 0.5])
        for t in (0.3, 3.0, 300.0):
            e = mode_state(t, depth=depth, eigenvalues=e0, multiplicities=[1, 2, 2], target=0.8)
            power = e ** -(depth - 2.0) - e0 ** -(depth - 2.0)
            np.testing.assert_allclose(power, power[0], rtol=1e-10)


def test_psi_agrees_with_artanh_at_depth_four():
    tau = 2.0

    def psi(e):
        return -1 / (2 * tau * e**2) + np.arctanh(e**2 / np.sqrt(tau)) / (2 * tau**1.5)

    got = single_mode_time(1.1, depth=4, start=0.2, target=tau)
    assert got == pytest.approx(psi(1.1) - psi(0.2), rel=1e-13)
    shallow = single_mode_time(0.9, depth=2, start=0.1, target=1.0)
    assert single_mode(shallow, depth=2, start=0.1, target=1.0) == pytest.approx(0.9)


def test_tail_is_a_single_mode_with_target_zero():
    for depth in (2, 3, 5):
        tail = block_tail(7.0, depth=depth, start=0.8)
        assert tail == pytest.approx(
            single_mode(7.0, depth=depth, start=0.8, target=0.0), rel=1e-11
        )


@pytest.mark.parametrize(
    ("weights", "target"),
    [([0.5, -0.3, -0.8], 1.5), ([2.0, 1.5], 1.0), ([0.2, 0.3, 0.4, 1.0], 0.7), ([1.0, 1.0], 1.0)],
)
def test_scalar_chain_against_the_flow(weights, target):
    factors = tuple(np.array([[w]]) for w in weights)
    mask = np.array([[True]])
    times = [0.4, 2.0, 9.0]
    for t, state in zip(times, integrate(factors, mask, np.array([[target]]), times), strict=True):
        got = scalar_chain(t, weights=weights, target=target)
        np.testing.assert_allclose(got, np.ravel(state), rtol=1e-9)
    assert np.prod(scalar_chain(INF, weights=weights, target=target)) == pytest.approx(target)
    assert scalar_chain(0.0, weights=weights, target=target) == pytest.approx(np.array(weights))


def test_errors():
    with pytest.raises(DepthrankError, match="they must all be > 0"):
        mode_state(1.0, depth=3, eigenvalues=[0.0], multiplicities=[1], target=1.0)
    with pytest.raises(DepthrankError, match="t is -1"):
        mode_state(-1.0, depth=3, eigenvalues=[1.0], multiplicities=[1], target=1.0)
    with pytest.raises(DepthrankError, match="use mode_state with the one mode"):
        limits_state(1.0, depth=3, alpha=0.1, m=1.0, n_blocks=2)
    with pytest.raises(DepthrankError, match="assumes both in"):
        single_mode_time(2.0, depth=3, start=0.1, target=1.0)
    with pytest.raises(DepthrankError, match="assumes both > 0"):
        scalar_chain(1.0, weights=[1.0, -1.0], target=1.0)
