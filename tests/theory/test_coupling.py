import sys
import tracemalloc
from itertools import pairwise

import numpy as np
import pytest

from depthrank import memory
from depthrank.errors import DepthrankError
from depthrank.initialization import AlphaM
from depthrank.observations import Observations
from depthrank.theory import (
    can_couple,
    coupled_by_depth,
    coupling,
    coupling_over,
    coupling_strength,
    coupling_summary,
    tangent_kernel,
)
from tests.theory.cases import assert_close, of_kind

INF = float("inf")


def chain(rng, sizes):
    """Random factors W_l of shape sizes[l] x sizes[l-1]."""
    return tuple(rng.standard_normal((b, a)) for a, b in pairwise(sizes))


def product(factors):
    W = factors[0]
    for V in factors[1:]:
        W = V @ W
    return W


def complex_step_jacobian(factors, rows, cols):
    """d W_ij / d parameter for the observed entries: exact derivatives, no formula shared."""
    columns = []
    for layer, W in enumerate(factors):
        for index in np.ndindex(W.shape):
            moved = [V.astype(complex) for V in factors]
            moved[layer][index] += 1e-30j
            columns.append(product(moved)[rows, cols].imag / 1e-30)
    return np.array(columns).T


@pytest.mark.parametrize("sizes", [(4, 3), (4, 5, 3), (3, 2, 4, 5), (3, 4, 2, 3, 6)])
def test_kernel_is_the_gram_matrix_of_complex_step_gradients(sizes):
    rng = np.random.default_rng(len(sizes))
    factors = chain(rng, sizes)
    mask = rng.random((sizes[-1], sizes[0])) < 0.6
    rows, cols = np.nonzero(mask)
    J = complex_step_jacobian(factors, rows, cols)
    np.testing.assert_allclose(tangent_kernel(factors, mask), J @ J.T, rtol=1e-12, atol=1e-12)
    norms = np.linalg.norm(J, axis=1)
    want = (J / norms[:, None]) @ (J / norms[:, None]).T
    np.testing.assert_allclose(coupling(factors, mask), want, atol=1e-12)


@pytest.mark.parametrize("case", of_kind("tangent_kernel"))
def test_reference_kernels(case):
    i, want = case["inputs"], case["expected"]
    d = i["d"]
    factors = AlphaM(i["alpha"], float(i["m"]))((d,) * (i["L"] + 1))
    K = tangent_kernel(factors, np.eye(d, dtype=bool))
    assert_close(K[0, 0], want["k_diag"])
    np.testing.assert_allclose(K[0, 1], want["k_off"], rtol=1e-10, atol=0)
    assert_close(np.linalg.eigvalsh(K)[-1], want["top_eigenvalue"])


def test_observations_and_mask_agree():
    rng = np.random.default_rng(1)
    mask = rng.random((5, 7)) < 0.5
    factors = chain(rng, (7, 4, 5))
    obs = Observations.from_mask(rng.standard_normal((5, 7)), mask)
    assert np.array_equal(coupling(factors, obs), coupling(factors, mask))


def test_prop_depth_two_couples_only_rows_and_columns():
    """Proposition 3.2 at depth 2: exact zeros between components, whatever the factors."""
    rng = np.random.default_rng(2)
    mask = np.zeros((6, 5), dtype=bool)
    mask[:3, :2] = mask[3:, 2:] = True
    factors = chain(rng, (5, 8, 6))
    summary = coupling_summary(factors, mask)
    assert summary.largest_across == 0
    assert summary.rms > 0.05
    C = coupling(factors, mask)
    rows, cols = np.nonzero(mask)
    apart = (rows[:, None] != rows) & (cols[:, None] != cols)
    assert np.all(C[apart] == 0)
    assert np.all(C[~apart] != 0)


@pytest.mark.parametrize("depth", [3, 4, 5])
def test_prop_depth_three_couples_except_from_diagonal_starts(depth):
    """Proposition 3.2 at depth >= 3."""
    diagonal = np.eye(5, dtype=bool)
    for m, coupled in ((2.0, True), (1e6, True), (INF, False)):
        factors = AlphaM(0.3, m)((5,) * (depth + 1))
        summary = coupling_summary(factors, diagonal)
        assert (summary.rms_across > 0) == coupled
        assert (can_couple(diagonal, factors=factors).entries) == coupled
    rng = np.random.default_rng(depth)
    unequal = tuple(np.diag(rng.uniform(0.5, 2, 5)) for _ in range(depth))
    assert coupling_strength(unequal, diagonal) == 0
    assert not can_couple(diagonal, factors=unequal).entries


def test_summary_matches_the_full_matrix(monkeypatch):
    rng = np.random.default_rng(3)
    mask = np.zeros((12, 10), dtype=bool)
    mask[:6, :4] = rng.random((6, 4)) < 0.7
    mask[6:, 4:] = rng.random((6, 6)) < 0.7
    factors = chain(rng, (10, 6, 7, 12))
    module = sys.modules["depthrank.theory.coupling"]  # the package name is the function
    monkeypatch.setattr(module, "BLOCK_ENTRIES", 5 * mask.sum())
    got = coupling_summary(factors, mask)
    C = np.abs(coupling(factors, mask))
    rows, _ = np.nonzero(mask)
    upper = np.triu(np.ones_like(C, dtype=bool), 1)
    across = upper & ((rows < 6)[:, None] != (rows < 6))
    for name, pairs in (("", upper), ("_across", across)):
        assert getattr(got, "rms" + name) == pytest.approx(np.sqrt(np.mean(C[pairs] ** 2)))
        assert getattr(got, "largest" + name) == pytest.approx(C[pairs].max())
        assert getattr(got, "n_pairs" + name) == pairs.sum()
    assert coupling_strength(factors, mask, between="components") == got.rms_across


def test_ten_thousand_entries_stay_small():
    """The full kernel would be 800 MB; the strips stay under 150 MB."""
    rng = np.random.default_rng(4)
    mask = np.zeros(250 * 250, dtype=bool)
    mask[rng.choice(mask.size, 10_000, replace=False)] = True
    factors = chain(rng, (250, 20, 250))
    tracemalloc.start()
    summary = coupling_summary(factors, mask.reshape(250, 250))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert summary.n_pairs == 10_000 * 9_999 // 2
    assert peak < 150e6


def test_tiny_starts_do_not_underflow():
    factors = AlphaM(1e-120, 2.0)((4,) * 6)
    same = AlphaM(1.0, 2.0)((4,) * 6)
    diagonal = np.eye(4, dtype=bool)
    np.testing.assert_allclose(coupling(factors, diagonal), coupling(same, diagonal), rtol=1e-12)
    mixed = (factors[0] * 1e110, *factors[1:])
    weighted = (same[0] * 1e-10, *(1e-120 * W for W in same[1:]))
    np.testing.assert_allclose(coupling(mixed, diagonal), coupling(weighted, diagonal), rtol=1e-9)


def test_zero_gradients_count_as_uncoupled():
    factors = (np.zeros((3, 3)), np.eye(3), np.eye(3))
    mask = np.eye(3, dtype=bool)
    summary = coupling_summary(factors, mask)
    assert (summary.n_zero_gradients, summary.rms) == (0, 0.0)
    dead = (np.zeros((3, 3)), np.zeros((3, 3)), np.eye(3))
    assert coupling_summary(dead, mask).n_zero_gradients == 3
    assert np.all(coupling(dead, mask) == 0)


def test_depth_one_and_few_entries():
    factors = (np.ones((2, 3)),)
    mask = np.ones((2, 3), dtype=bool)
    assert np.array_equal(coupling(factors, mask), np.eye(6))
    empty = coupling_summary(factors, np.zeros((2, 3), dtype=bool))
    assert (empty.n_pairs, empty.rms, empty.rms_across) == (0, 0.0, 0.0)
    assert coupled_by_depth(np.zeros((2, 3), dtype=bool)) == dict.fromkeys((1, 2, 3, 4), False)


def test_vanishing_now_is_not_decoupled():
    """W_2 full between identities: no coupling at t = 0, but the flow makes some."""
    rng = np.random.default_rng(5)
    W = 0.5 * np.eye(3) + 0.1 * rng.random((3, 3))
    factors = [np.eye(3), W, np.eye(3)]
    diagonal = np.eye(3, dtype=bool)
    assert coupling_strength(factors, diagonal) == 0
    assert can_couple(diagonal, factors=factors).everything
    snapshots = [factors]
    for _ in range(20):
        W1, W2, W3 = snapshots[-1]
        R = np.diag(np.diag(W3 @ W2 @ W1) - 1.0)
        steps = (W2.T @ W3.T @ R, W3.T @ R @ W1.T, R @ W1.T @ W2.T)
        snapshots.append([V - 0.05 * S for V, S in zip(snapshots[-1], steps, strict=True)])
    along = coupling_over(snapshots, diagonal)["rms"]
    assert along[0] == 0
    assert np.all(along[2:] > 1e-6)


def test_structure_of_disjoint_paths():
    """Two groups of hidden units for two blocks: decoupled at any depth, coupled inside."""

    def two_paths(n_out, n_in, cut_out, cut_in):
        W = np.zeros((n_out, n_in))
        W[:cut_out, :cut_in] = W[cut_out:, cut_in:] = 1.0
        return W

    factors = (two_paths(5, 4, 2, 2), two_paths(6, 5, 3, 2), two_paths(5, 6, 2, 3))
    mask = two_paths(5, 4, 2, 2).astype(bool)
    verdict = can_couple(mask, factors=factors)
    assert verdict.entries
    assert not verdict.across
    assert np.array_equal(verdict.groups, verdict.components)
    assert coupling_summary(factors, mask).largest_across == 0
    mask[0, 3] = True  # one entry joins the components, and the flow grows the missing paths
    assert can_couple(mask, factors=factors).everything


def test_structure_is_never_refuted_by_random_values():
    """What the structure excludes has kernel exactly 0; what it allows at t = 0 does occur."""
    rng = np.random.default_rng(6)
    for depth in (2, 3, 4):
        for _ in range(20):
            sizes = tuple(int(k) for k in rng.integers(2, 5, depth + 1))
            factors = [W * (rng.random(W.shape) < 0.4) for W in chain(rng, sizes)]
            mask = rng.random((sizes[-1], sizes[0])) < 0.5
            groups = can_couple(mask, factors=factors).groups
            C = tangent_kernel(factors, mask)
            assert np.all(C[groups[:, None] != groups] == 0)


def test_coupled_by_depth():
    connected = np.array([[1, 1, 0], [0, 1, 1]], dtype=bool)
    assert coupled_by_depth(connected) == {1: False, 2: True, 3: True, 4: True}
    assert coupled_by_depth(np.eye(2, 3, dtype=bool), depths=(2, 3)) == {2: False, 3: True}
    blocks = can_couple(np.kron(np.eye(2), np.ones((2, 2))).astype(bool), depth=2)
    assert (blocks.entries, blocks.across, blocks.everything) == (True, False, False)
    one = np.array([[True, False]])
    assert coupled_by_depth(one) == dict.fromkeys((1, 2, 3, 4), False)


def test_errors(monkeypatch):
    mask = np.eye(2, dtype=bool)
    with pytest.raises(DepthrankError, match="the factors multiply to shape"):
        coupling((np.eye(3),), mask)
    with pytest.raises(DepthrankError, match="give a boolean m x n mask or an Observations"):
        coupling((np.eye(2),), np.eye(2))
    with pytest.raises(DepthrankError, match="between is 'rows'"):
        coupling_strength((np.eye(2),), mask, between="rows")
    with pytest.raises(DepthrankError, match="give either depth"):
        can_couple(mask)
    monkeypatch.setattr(memory, "available", lambda: 10)
    with pytest.raises(DepthrankError, match=r"kernel of 2 observed entries.*works in strips"):
        tangent_kernel((np.eye(2),), mask)
