"""Singular values of a product: known spectra over many decades, and ordinary matrices."""

import numpy as np
import pytest

from depthrank.product_spectrum import product_singular_values


def rotation(rng, rows, cols):
    return np.linalg.qr(rng.normal(size=(rows, cols)))[0]


def graded_chain(spectra, shape, seed=0):
    """Factors with aligned singular vectors: the product has the product of their spectra."""
    rng = np.random.default_rng(seed)
    k = len(spectra[0])
    sides = [shape[1], *[k] * (len(spectra) - 1), shape[0]]
    frames = [rotation(rng, side, k) for side in sides]
    return tuple((frames[i + 1] * spectrum) @ frames[i].T for i, spectrum in enumerate(spectra))


@pytest.mark.parametrize("shape", [(7, 5), (5, 7), (6, 6)])
def test_small_values_keep_their_precision(shape):
    factor = np.array([2.0, 1.9, 1e-3, 0.9e-3, 1e-4])
    factors = graded_chain([factor] * 4, shape)
    expected = factor**4
    values = product_singular_values(factors)
    np.testing.assert_allclose(values[:5], expected, rtol=1e-9)
    assert (values[5:] < 1e-14 * values[0]).all()
    plain = np.linalg.svd(factors[3] @ factors[2] @ factors[1] @ factors[0], compute_uv=False)
    assert abs(plain[4] / expected[4] - 1) > 1e-3  # which multiplying out has lost


def test_repeated_small_values():
    factor = np.array([2.0] + [5e-3] * 5)
    values = product_singular_values(graded_chain([factor] * 4, (9, 6)))
    np.testing.assert_allclose(values, factor**4, rtol=1e-9)


def test_symmetric_factors_with_exact_zeros_in_the_pattern():
    """Block structure must not leave the triangle ungraded: small block first."""
    small, large = 1e-3 * np.array([[1.0, 0.5], [0.5, 1.0]]), np.array([[2.0, 1.0], [1.0, 3.0]])
    factor = np.block([[small, np.zeros((2, 2))], [np.zeros((2, 2)), large]])
    expected = np.concatenate([np.linalg.eigvalsh(large), np.linalg.eigvalsh(small)]) ** 3
    values = product_singular_values((factor,) * 3)
    np.testing.assert_allclose(values, np.sort(expected)[::-1], rtol=1e-9)


@pytest.mark.parametrize("seed", range(20))
def test_ordinary_products_agree_with_the_plain_decomposition(seed):
    rng = np.random.default_rng(seed)
    m, n, k = rng.integers(1, 9, size=3)
    graded = 10.0 ** rng.uniform(-5, 0, size=k)
    factors = (rng.normal(size=(k, n)), np.diag(graded), rng.normal(size=(m, k)))
    plain = np.linalg.svd(factors[2] @ factors[1] @ factors[0], compute_uv=False)
    values = product_singular_values(factors)
    assert values.shape == plain.shape
    np.testing.assert_allclose(values, plain, rtol=1e-8, atol=1e-13 * plain[0])


def test_zero_and_rank_deficient_products():
    np.testing.assert_array_equal(product_singular_values((np.zeros((3, 4)), np.ones((2, 3)))), 0)
    thin = product_singular_values((np.ones((1, 5)), np.ones((4, 1))))
    assert thin[0] == pytest.approx(np.sqrt(20))
    assert thin[1:].max() < 1e-14
    assert len(thin) == 4
