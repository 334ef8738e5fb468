from typing import Any

import numpy as np
import pytest

from depthrank.errors import DepthrankError
from depthrank.theory import (
    block_limits,
    circulant_limit,
    infinite_depth_limit,
    limits,
    mode_limits,
)
from tests.theory.cases import assert_expected, of_kind
from tests.theory.oracle import integrate, product

INF = float("inf")


def block_with(eigenvalues, rng):
    """Symmetric block with these eigenvalues, the first on the all-ones vector."""
    s = len(eigenvalues)
    Q = np.linalg.qr(np.column_stack([np.ones(s), rng.standard_normal((s, s - 1))]))[0]
    T = (Q * np.asarray(eigenvalues)) @ Q.T
    return (T + T.T) / 2


@pytest.mark.parametrize("case", of_kind("block_psd_elementwise", "block_psd_kronecker"))
def test_reference_blocks(case):
    i = case["inputs"]
    result = block_limits(
        depth=i["L"],
        alpha=i["alpha"],
        m=i["m"],
        n_blocks=i["n"],
        block=block_with(i["block_eigenvalues"], np.random.default_rng(0)),
        init="block" if case["kind"].endswith("kronecker") else "elementwise",
    )
    assert_expected(result, case["expected"])
    np.testing.assert_allclose(
        np.linalg.svd(result.end_to_end(), compute_uv=False), result.singular_values, atol=1e-12
    )


@pytest.mark.parametrize("case", of_kind("circulant_diag"))
def test_reference_circulant_diagonals(case):
    i = case["inputs"]
    result = mode_limits(
        depth=i["L"],
        eigenvalues=i["init_eigenvalues"],
        multiplicities=i["multiplicities"],
        value=i["w"],
    )
    assert_expected(result, case["expected"])


@pytest.mark.parametrize("case", of_kind("circulant_offset1"))
def test_reference_circulant_offsets(case):
    i = case["inputs"]
    result = circulant_limit(depth=i["L"], dimension=i["d"], value=i["w"], offset_value=i["v"])
    assert_expected(result, case["expected"], skip=("eigenvalues_by_frequency",))
    np.testing.assert_allclose(
        result.factor_eigenvalues ** i["L"], case["expected"]["eigenvalues_by_frequency"], 1e-10
    )


@pytest.mark.parametrize("case", of_kind("infinite_depth_diag"))
def test_reference_infinite_depth(case):
    i = case["inputs"]
    result = infinite_depth_limit(
        sigma_1=i["sigma1_0"], sigma_2=i["sigma2_0"], n_blocks=i["n"], value=i["w"]
    )
    assert_expected(result, case["expected"])


def test_finite_depth_tends_to_infinite_depth():
    """Equal initial singular values: depth L differs by O(1/L)."""
    want = infinite_depth_limit(sigma_1=0.5, sigma_2=0.1, n_blocks=2, value=1.0)
    errors = []
    for depth in (50, 100, 200):
        e = np.array([0.5, 0.1]) ** (1 / depth)
        got = mode_limits(depth=depth, eigenvalues=e, multiplicities=[1, 1], value=1.0)
        errors.append(abs(got.singular_values[1] - want.singular_values[1]) * depth)
    assert np.ptp(errors) < 0.05 * errors[0]


def test_constant_blocks_are_a_special_case():
    for init in ("elementwise", "block"):
        for depth in (2, 3):
            kw: dict[str, Any] = {"depth": depth, "alpha": 0.3, "m": 4.0, "n_blocks": 3}
            general = block_limits(**kw, block=np.full((2, 2), 0.7), init=init)
            constant = limits(**kw, block_size=2, value=0.7, init=init)
            np.testing.assert_allclose(general.end_to_end(), constant.end_to_end(), rtol=1e-12)


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("init", ["elementwise", "block"])
def test_blocks_against_the_flow(depth, init):
    """An indefinite block: negative modes decay like 1/sqrt(t) or exponentially, others arrive."""
    T = block_with([1.5, 0.8, -0.4], np.random.default_rng(1))
    alpha, m, n, s = 0.5, 3.0, 2, 3
    pair = alpha * np.eye(n) + alpha / m * (np.ones((n, n)) - np.eye(n))
    W = np.kron(pair, np.eye(s))
    if init == "elementwise":
        W = np.full((6, 6), alpha / m) + alpha * (1 - 1 / m) * np.eye(6)
    mask = np.kron(np.eye(n), np.ones((s, s))).astype(bool)
    target = np.kron(np.eye(n), T)
    got = block_limits(depth=depth, alpha=alpha, m=m, n_blocks=n, block=T, init=init)
    state = integrate((W,) * depth, mask, target, [60.0], rtol=1e-10)[-1]
    # the negative mode decays exponentially at depth 2, like (0.4 t)^{-3} at depth 3
    np.testing.assert_allclose(product(state), got.end_to_end(), atol=1e-7 if depth == 2 else 2e-4)
    assert got.loss == pytest.approx(0.16)


def test_top_multiplicity_decides_the_small_start():
    """alpha -> 0 at depth >= 3: the stable rank tends to the multiplicity of the top eigenvalue."""
    for mult, want in (([2, 3], 2.0), ([1, 4], 1.0), ([4, 1], 4.0)):
        for scale in (1e-3, 1e-5):
            got = mode_limits(
                depth=3, eigenvalues=np.array([1.0, 0.6]) * scale, multiplicities=mult, value=1.0
            )
            assert got.stable_rank == pytest.approx(want, abs=1e-5)


@pytest.mark.parametrize(("depth", "v"), [(2, 0.4), (3, 0.4), (3, -0.3), (4, 0.0), (2, -0.5)])
def test_circulant_satisfies_its_constraints_and_the_flow(depth, v):
    d, w = 5, 1.2
    got = circulant_limit(depth=depth, dimension=d, value=w, offset_value=v)
    eigenvalues = got.factor_eigenvalues**depth
    cosine = np.cos(2 * np.pi * np.arange(d) / d)
    assert eigenvalues.mean() == pytest.approx(w)
    assert (eigenvalues * cosine).mean() == pytest.approx(v, abs=1e-13)
    X = np.array(
        [
            [
                np.mean(eigenvalues * np.cos(2 * np.pi * np.arange(d) * (i - j) / d))
                for j in range(d)
            ]
            for i in range(d)
        ]
    )
    near = np.roll(np.eye(d), 1, axis=1)
    mask = (np.eye(d) + near + near.T) > 0
    target = w * np.eye(d) + v * (near + near.T)
    end = integrate((0.6 * np.eye(d),) * depth, mask, target, [80.0], rtol=1e-10)[-1]
    np.testing.assert_allclose(product(end), X, atol=1e-7)


def test_errors():
    kw: dict[str, Any] = {"depth": 3, "alpha": 0.1, "m": 2.0, "n_blocks": 2}
    with pytest.raises(DepthrankError, match="must be a symmetric matrix"):
        block_limits(**kw, block=[[1.0, 2.0], [0.0, 1.0]])
    with pytest.raises(DepthrankError, match=r"all-ones vector is an eigenvector.*init='block'"):
        block_limits(**kw, block=[[1.0, 0.0], [0.0, 2.0]])
    with pytest.raises(DepthrankError, match="'elementwise' or 'block'"):
        block_limits(**kw, block=np.eye(2), init="constant-block")
    with pytest.raises(DepthrankError, match="assumes positive eigenvalues"):
        mode_limits(depth=3, eigenvalues=[1.0, -0.1], multiplicities=[1, 1], value=1.0)
    with pytest.raises(DepthrankError, match="needs a finite value > 0"):
        mode_limits(depth=3, eigenvalues=[1.0], multiplicities=[1], value=0.0)
    with pytest.raises(DepthrankError, match="offset_value/value < 1"):
        circulant_limit(depth=3, dimension=5, value=1.0, offset_value=1.0)
    with pytest.raises(DepthrankError, match="sigma_1 >= sigma_2 > 0"):
        infinite_depth_limit(sigma_1=0.1, sigma_2=0.5, n_blocks=2, value=1.0)
