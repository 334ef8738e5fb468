import math
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthrank.errors import DepthrankError
from depthrank.factors import dims, end_to_end, imbalance, widths
from depthrank.initialization import (
    AlphaM,
    Balanced,
    Gaussian,
    Identity,
    Orthogonal,
    TiedGaussian,
)
from depthrank.seeds import generator

CHAINS = [(5, 7), (5, 6, 7), (5, 6, 4, 7), (7, 5, 5, 6), (4, 4, 4), (1, 3, 1)]
SCALED = [Gaussian, Identity, Orthogonal]


def norm(factors):
    return float(np.linalg.norm(end_to_end(factors)))


@pytest.mark.parametrize("sizes", CHAINS)
@pytest.mark.parametrize("start", [AlphaM(0.1, 2.0), *(family(0.5) for family in SCALED)])
def test_starts_return_a_float64_chain_of_the_asked_sizes(start, sizes):
    factors = start(sizes, 4)
    assert isinstance(factors, tuple)
    assert widths(factors) == sizes
    assert {W.dtype for W in factors} == {np.dtype(np.float64)}
    assert all(W.flags.writeable for W in factors)


@pytest.mark.parametrize("d", [2, 5])
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("m", [1.0, 1.5, 10.0, math.inf])
def test_alpha_m_has_the_end_to_end_spectrum_of_the_paper(d, depth, m):
    factors = AlphaM(0.3, m)(dims((d, d), depth))
    s = np.linalg.svd(end_to_end(factors), compute_uv=False)
    once, rest = (0.3 * (1 + (d - 1) / m)) ** depth, (0.3 * (1 - 1 / m)) ** depth
    np.testing.assert_allclose(s, [once] + [rest] * (d - 1), rtol=1e-12, atol=1e-16)
    assert imbalance(factors) < 1e-15


def test_alpha_m_rectangular_factors_follow_the_entrywise_rule():
    W1, W2 = AlphaM(0.2, 4.0)((3, 2, 4))
    np.testing.assert_array_equal(W1, [[0.2, 0.05, 0.05], [0.05, 0.2, 0.05]])
    np.testing.assert_array_equal(W2, [[0.2, 0.05], [0.05, 0.2], [0.05, 0.05], [0.05, 0.05]])


def test_alpha_m_default_is_diagonal():
    np.testing.assert_array_equal(AlphaM(2.0)((3, 2))[0], [[2, 0, 0], [0, 2, 0]])


@pytest.mark.parametrize("sizes", [(5, 7), (5, 6, 7), (3, 4, 2, 5)])
def test_gaussian_scale_is_exact_in_expectation(sizes):
    rng, draws = np.random.default_rng(0), 100_000
    std = Gaussian(0.7)(sizes, 0)[0] / Gaussian(1.0)((sizes[0], sizes[1]), 0)[0]
    std = std[0, 0] / math.sqrt(sizes[0] * sizes[1])  # of the entries, as depth 1 has a known one
    shapes = [(draws, n_out, n_in) for n_in, n_out in pairwise(sizes)]
    W = end_to_end([std * rng.standard_normal(shape) for shape in shapes])
    squares = np.sum(W**2, axis=(1, 2))
    error = squares.std() / math.sqrt(draws)
    assert abs(squares.mean() - 0.49) < 4 * error  # four standard errors
    assert error < 0.003  # the check has teeth


def test_gaussian_entries_have_one_variance_in_all_factors():
    sizes = (300, 200, 100)
    for W in Gaussian(1.0)(sizes, 1):
        expected = (1 / (300 * 200 * 100)) ** 0.25
        # standard error of a standard deviation over n entries: 1/sqrt(2 n)
        assert W.std() == pytest.approx(expected, rel=4 / np.sqrt(2 * W.size))
        assert abs(W.mean()) < 4 * expected / np.sqrt(W.size)


def test_gaussian_matches_the_common_square_standard_deviation():
    """init_scale = alpha √n is a standard deviation of alpha^{1/L} / √n."""
    n, depth, alpha = 100, 3, 1e-2
    W1 = Gaussian(alpha * math.sqrt(n))(dims((n, n), depth), 5)[0]
    draw = W1 / (alpha ** (1 / depth) / math.sqrt(n))
    unit = Gaussian(math.sqrt(n))(dims((n, n), depth), 5)[0] * math.sqrt(n)
    np.testing.assert_allclose(draw, unit, rtol=1e-12)
    assert draw.std() == pytest.approx(1, rel=0.03)  # four standard errors of 10,000 entries


def test_gaussian_factors_are_independent_draws():
    W1, W2 = Gaussian(1.0)((40, 40, 40), 0)
    assert abs(np.corrcoef(W1.ravel(), W2.ravel())[0, 1]) < 0.1  # four standard errors


def test_gaussian_survives_long_wide_chains_at_tiny_scale():
    factors = Gaussian(1e-200)((50,) * 31, 0)
    assert all(np.isfinite(W).all() and W.any() for W in factors)


def test_tied_gaussian_uses_one_draw_as_separate_arrays():
    factors = TiedGaussian(1.0)((6, 6, 6, 6), 2)
    assert all(np.array_equal(factors[0], W) for W in factors[1:])
    assert not np.shares_memory(factors[0], factors[1])
    np.testing.assert_array_equal(factors[0], Gaussian(1.0)((6, 6, 6, 6), 2)[0])


def test_tied_gaussian_expectation_at_depth_two():
    """E‖W W‖_F² = init_scale² (1 + 2/d²), as the docstring says."""
    d, draws = 3, 40_000
    rng = np.random.default_rng(0)
    W = np.abs(TiedGaussian(1.0)((d, d, d), 0)[0] / generator(0, "init").standard_normal((d, d)))
    W = W[0, 0] * rng.standard_normal((draws, d, d))
    squares = np.sum((W @ W) ** 2, axis=(1, 2))
    error = squares.std() / math.sqrt(draws)
    assert abs(squares.mean() - (1 + 2 / d**2)) < 4 * error
    assert error < 0.05  # well below the 2/9 that tells it from 1


def test_tied_gaussian_refuses_unequal_sizes():
    with pytest.raises(DepthrankError, match=r"dims \(5, 5, 7\); all factors are the same matrix"):
        TiedGaussian(1.0)((5, 5, 7))


@pytest.mark.parametrize("sizes", CHAINS)
@pytest.mark.parametrize("family", [Identity, Orthogonal])
def test_identity_and_orthogonal_scale_is_exact(family, sizes):
    assert norm(family(0.3)(sizes, 8)) == pytest.approx(0.3, rel=1e-13)


@pytest.mark.parametrize("sizes", CHAINS)
def test_identity_has_equal_singular_values(sizes):
    r = min(sizes)
    s = np.linalg.svd(end_to_end(Identity(2.0)(sizes)), compute_uv=False)
    np.testing.assert_allclose(s, [2 / math.sqrt(r)] * r + [0] * (len(s) - r), atol=1e-15)


@pytest.mark.parametrize("sizes", [(5, 7), (5, 4, 7), (7, 5, 5, 6), (4, 4, 4)])
def test_orthogonal_is_a_partial_isometry_when_sizes_fall_then_rise(sizes):
    r = min(sizes)
    s = np.linalg.svd(end_to_end(Orthogonal(2.0)(sizes, 3)), compute_uv=False)
    np.testing.assert_allclose(s, [2 / math.sqrt(r)] * r + [0] * (len(s) - r), atol=1e-14)


@pytest.mark.parametrize("sizes", CHAINS)
def test_orthogonal_factors_are_semi_orthogonal_with_one_factor(sizes):
    values = [np.linalg.svd(W, compute_uv=False) for W in Orthogonal(0.8)(sizes, 3)]
    np.testing.assert_allclose(np.concatenate(values), values[0][0], rtol=1e-13)


def test_orthogonal_draws_are_haar():
    """Under the Haar measure entry (0, 0) of a d × d factor has mean 0 and variance 1/d."""
    d, draws = 3, 1000
    entries = np.array([Orthogonal(math.sqrt(d))((d, d), seed)[0][0, 0] for seed in range(draws)])
    # without the sign fix the mean is far from 0
    assert abs(entries.mean()) < 4 / math.sqrt(d * draws)
    assert entries.var() == pytest.approx(1 / d, rel=4 * math.sqrt(2 / draws))


@pytest.mark.parametrize("family", [Identity, Orthogonal])
@pytest.mark.parametrize("sizes", [(4, 4, 4, 4), (7, 5, 5, 6)])
def test_identity_and_orthogonal_are_balanced_at_full_width(family, sizes):
    if family is Orthogonal and len(set(sizes)) > 1:
        sizes = (5, 5, 5)
    assert imbalance(family(0.5)(sizes, 1)) < 1e-14


@pytest.mark.parametrize("depth", [1, 2, 3, 5])
@pytest.mark.parametrize("width", [None, 9])
def test_balanced_splits_exactly(depth, width):
    X = np.random.default_rng(0).normal(size=(7, 5))
    factors = Balanced(X)(dims((7, 5), depth, width))
    np.testing.assert_allclose(end_to_end(factors), X, atol=1e-14)
    assert imbalance(factors) < 1e-14


def test_balanced_takes_a_width_of_just_the_rank():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(7, 2)) @ rng.normal(size=(2, 5))
    factors = Balanced(X)((5, 2, 2, 7))
    np.testing.assert_allclose(end_to_end(factors), X, atol=1e-13)
    assert imbalance(factors) < 1e-13


def test_balanced_refuses_a_width_below_the_rank():
    X = np.random.default_rng(1).normal(size=(7, 5))
    with pytest.raises(DepthrankError, match="narrowest hidden width is 4; the matrix has rank 5"):
        Balanced(X)((5, 6, 4, 7))


def test_balanced_refuses_another_shape():
    with pytest.raises(DepthrankError, match=r"shape \(5, 7\); the matrix to split has shape"):
        Balanced(np.ones((7, 5)))((7, 5, 5))


def test_balanced_of_zero_is_zero_at_any_width():
    factors = Balanced(np.zeros((3, 2)))((2, 1, 3))
    assert not any(W.any() for W in factors)


def test_balanced_copies_and_freezes_its_matrix():
    X = np.ones((3, 2))
    start = Balanced(X)
    X[:] = 7
    np.testing.assert_array_equal(start.matrix, 1)
    with pytest.raises(ValueError, match="read-only"):
        start.matrix[0, 0] = 2
    assert start((2, 3))[0].flags.writeable


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones(3), r"matrix has shape \(3,\)"),
        (np.ones((0, 3)), r"matrix has shape \(0, 3\)"),
        ([[1.0, np.inf]], r"matrix holds inf at row 0, column 1"),
    ],
)
def test_balanced_refuses(matrix, message):
    with pytest.raises(DepthrankError, match=message):
        Balanced(matrix)


@pytest.mark.parametrize("family", [Gaussian, TiedGaussian, Identity, Orthogonal])
@pytest.mark.parametrize("bad", [0, -1.0, math.inf, math.nan, "1", True])
def test_scale_is_validated(family, bad):
    with pytest.raises(DepthrankError, match=r"init_scale is .*; it must be a finite number > 0"):
        family(bad)


@pytest.mark.parametrize("bad", [0, -0.1, math.inf, math.nan, "x"])
def test_alpha_is_validated(bad):
    with pytest.raises(DepthrankError, match=r"alpha is .*; it must be a finite number > 0"):
        AlphaM(bad, 2.0)


@pytest.mark.parametrize("bad", [0.5, 0, -2, math.nan, "x"])
def test_m_is_validated(bad):
    with pytest.raises(DepthrankError, match=r"m is .*; it must be > 1"):
        AlphaM(0.1, bad)


@pytest.mark.parametrize("start", [AlphaM(0.1), Gaussian(1.0), Identity(1.0), Orthogonal(1.0)])
def test_sizes_are_validated(start):
    with pytest.raises(DepthrankError, match=r"dims\[1\] is 0"):
        start((5, 0, 7))


def test_factors_that_do_not_fit_are_refused_before_they_are_made():
    with pytest.raises(DepthrankError, match=r"factors of sizes .* needs .* GiB; .* are available"):
        Gaussian(1.0)((10**7, 10**7, 10**7))


@given(st.integers(0, 2**40))
def test_rp01_same_seed_same_bits(seed):
    for family in (Gaussian, Orthogonal):
        first, second = family(1.0)((3, 2, 4), seed), family(1.0)((3, 2, 4), seed)
        assert all(np.array_equal(a, b) for a, b in zip(first, second, strict=True))


def test_rp01_same_seed_same_bits_in_a_fresh_process():
    code = (
        "from depthrank.initialization import Gaussian;"
        "print(''.join(W.tobytes().hex() for W in Gaussian(1.0)((3, 2, 4), 0)))"
    )
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert fresh.stdout.strip() == "".join(W.tobytes().hex() for W in Gaussian(1.0)((3, 2, 4), 0))


def test_dv05_starts_are_drawn_by_numpy_whatever_the_device():
    """Recorded at the first version: one stream for every device, so that they start alike."""
    W1, W2 = Gaussian(1.0)((2, 1, 2), 0)
    assert isinstance(W1, np.ndarray)
    draws = np.random.default_rng([0, 0xC674E474]).standard_normal(4)  # crc32 of "init"
    np.testing.assert_allclose(np.r_[W1[0], W2[:, 0]], draws / 4**0.25, rtol=1e-14)


def test_other_seeds_give_other_starts():
    assert not np.array_equal(Gaussian(1.0)((3, 4), 0)[0], Gaussian(1.0)((3, 4), 1)[0])


@pytest.mark.parametrize("start", [AlphaM(0.1, 2.0), Identity(1.0)])
def test_deterministic_starts_ignore_the_seed(start):
    assert all(
        np.array_equal(a, b) for a, b in zip(start((3, 2, 4), 0), start((3, 2, 4), 9), strict=True)
    )


def test_starts_are_values():
    assert AlphaM(0.1, 2.0) == AlphaM(0.1, 2.0) != AlphaM(0.1, 3.0)
    assert repr(Gaussian(0.5)) == "Gaussian(init_scale=0.5)"
