import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthrank import spectra
from depthrank.arrays import is_traced
from depthrank.errors import DepthrankError


def effective_rank_2(X):
    return spectra.effective_rank(X, power=2)


def effective_rank_2_of(s):
    return spectra.effective_rank_of(s, power=2)


def schatten_half(X):
    return spectra.schatten_norm(X, 0.5)


def schatten_half_of(s):
    return spectra.schatten_norm_of(s, 0.5)


RANKS = {
    spectra.stable_rank: spectra.stable_rank_of,
    spectra.nuclear_rank: spectra.nuclear_rank_of,
    spectra.effective_rank: spectra.effective_rank_of,
    effective_rank_2: effective_rank_2_of,
    spectra.participation_ratio: spectra.participation_ratio_of,
}
SCALE_FREE = RANKS | {
    spectra.spectral_gap: spectra.spectral_gap_of,
    spectra.condition_number: spectra.condition_number_of,
}
NORMS = {spectra.nuclear_norm: spectra.nuclear_norm_of, schatten_half: schatten_half_of}
SOFT = SCALE_FREE | NORMS
MEASURES = [*SOFT, spectra.numerical_rank]
ALL = [*MEASURES, spectra.singular_values]


def batch(*shape):
    return np.random.default_rng(11).normal(size=shape)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (spectra.effective_rank, 1.754765),
        (effective_rank_2, 1.384145),
        (spectra.stable_rank, 1.111111),
        (spectra.nuclear_rank, 1.333333),
    ],
)
def test_rk02_each_variant_has_its_own_name(measure, expected):
    assert measure(np.diag([3.0, 1.0])) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (spectra.numerical_rank, 2),
        (spectra.nuclear_norm, 7.0),
        (lambda X: spectra.schatten_norm(X, 2), 5.0),
        (lambda X: spectra.schatten_norm(X, 3), 91 ** (1 / 3)),
        (lambda X: spectra.schatten_norm(X, 0.5), (2 + np.sqrt(3)) ** 2),
        (lambda X: spectra.schatten_norm(X, np.inf), 4.0),
        (spectra.participation_ratio, 25**2 / (81 + 256)),
        (spectra.spectral_gap, 0.25),
        (spectra.condition_number, 4 / 3),
    ],
)
def test_closed_forms_of_a_rotated_spectrum(measure, expected):
    rng = np.random.default_rng(5)
    U, V = (np.linalg.qr(rng.normal(size=(size, 2)))[0] for size in (7, 5))
    for X in (np.diag([-3.0, 4.0]), np.array([[0, 3], [4, 0], [0, 0]])):
        assert measure(X) == pytest.approx(expected, rel=1e-14)
    if measure is not spectra.condition_number:  # of rank 2 in 7 x 5, that one is 1/eps
        assert measure(U @ np.diag([4.0, 3.0]) @ V.T) == pytest.approx(expected, abs=1e-6)


def test_singular_values_descend_in_the_unit_of_the_matrix():
    X = 1e-200 * batch(7, 5)
    s = spectra.singular_values(X)
    np.testing.assert_allclose(s, np.linalg.svd(X * 1e200, compute_uv=False) * 1e-200, rtol=1e-13)
    assert (np.diff(s) < 0).all()


@pytest.mark.parametrize("measure", ALL)
def test_rk01_zero_matrix_gives_zero_without_warning(measure):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not np.any(measure(np.zeros((3, 4))))


@pytest.mark.parametrize("measure", MEASURES)
def test_rk01_zero_matrix_in_a_batch_leaves_the_others_alone(measure):
    X = batch(3, 4, 5)
    X[1] = 0
    result = measure(X)
    assert result[1] == 0
    np.testing.assert_allclose(result[[0, 2]], measure(X[[0, 2]]), rtol=1e-13)


@pytest.mark.parametrize("k", [1e-300, 1e-150, 1e-12, 1e-7, 1, 1e12, 1e150, 1e300])
@pytest.mark.parametrize("measure", [*RANKS, spectra.numerical_rank])
def test_rk03_scale_does_not_matter(measure, k):
    assert measure(k * np.eye(100)) == pytest.approx(100, abs=1e-6)


@pytest.mark.parametrize("k", [1e-300, 1e-150, 1e150, 1e300])
@pytest.mark.parametrize("measure", SCALE_FREE)
def test_rk03_scale_does_not_matter_for_a_general_matrix(measure, k):
    X = batch(7, 5)
    assert measure(k * X) == pytest.approx(measure(X), rel=1e-11)


@pytest.mark.parametrize("k", [1e-290, 1e290])
@pytest.mark.parametrize("measure", NORMS)
def test_rk03_norms_scale_with_the_matrix(measure, k):
    X = batch(7, 5)
    assert measure(k * X) / k == pytest.approx(measure(X), rel=1e-12)


def test_rk05_float32_outer_product_has_numerical_rank_one():
    rng = np.random.default_rng(0)
    X = np.outer(rng.normal(size=20), rng.normal(size=20)).astype(np.float32)
    assert np.count_nonzero(spectra.singular_values(X)) > 1  # a plain count sees rounding
    assert spectra.numerical_rank(X) == 1
    assert spectra.default_tolerance(X) == pytest.approx(20 * np.finfo(np.float32).eps)
    assert spectra.default_tolerance(X.astype(float)) == pytest.approx(20 * np.finfo(float).eps)


def test_rk05_tolerance_is_relative_and_settable():
    X = 1e-9 * np.diag([1.0, 1e-3, 1e-6])
    assert [int(spectra.numerical_rank(X, tol)) for tol in (None, 1e-4, 1e-2, 0)] == [3, 2, 1, 3]


@pytest.mark.parametrize("measure", ALL)
def test_rk07_nu07_nan_is_named_with_its_place(measure):
    with pytest.raises(DepthrankError, match=r"the matrix holds NaN at \(0, 1\) \(1 of 4 entries"):
        measure(np.array([[1, np.nan], [2, 3]]))


@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinity_is_named_with_its_place_in_the_batch(value):
    X = batch(2, 3, 4)
    X[1, 2, 0] = value
    with pytest.raises(DepthrankError, match=rf"holds {value} at \(1, 2, 0\)"):
        spectra.stable_rank(X)


def test_masked_entry_is_not_taken_for_a_number():
    X = np.ma.masked_equal([[1, 2], [3, 9]], 9)
    with pytest.raises(DepthrankError, match=r"holds NaN at \(1, 1\)"):
        spectra.stable_rank(X)


def test_nan_among_singular_values_is_named():
    with pytest.raises(DepthrankError, match="list of singular values holds NaN at 1"):
        spectra.effective_rank_of([1.0, np.nan])


@pytest.mark.parametrize("measure", MEASURES)
def test_rk09_leading_axes_are_batch_axes(measure):
    X = batch(2, 5, 4, 3)
    result = measure(X)
    assert result.shape == (2, 5)
    loop = [[measure(matrix) for matrix in row] for row in X]
    np.testing.assert_allclose(result, loop, rtol=1e-10)


def test_rk09_singular_values_of_a_batch():
    assert spectra.singular_values(batch(2, 5, 4, 3)).shape == (2, 5, 3)


@pytest.mark.parametrize("measure", [*ALL, spectra.default_tolerance])
def test_rk11_vectors_are_refused(measure):
    with pytest.raises(DepthrankError, match=r"has shape \(3,\); it must have (shape|two axes)"):
        measure(np.array([0, 0, 1e-14]))


@pytest.mark.parametrize("measure", [*RANKS, spectra.numerical_rank])
def test_nu11_repeated_spectra(measure):
    assert measure(np.eye(50)) == pytest.approx(50, abs=1e-6)
    assert measure(np.tile(batch(1, 13), (16, 1))) == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("dtype", [bool, np.int8, np.int32, np.uint64])
def test_integers_are_promoted_before_arithmetic(dtype):
    X = np.array([[100, 0, 0], [0, 100, 0]]).astype(dtype)
    assert spectra.stable_rank(X) == pytest.approx(2)
    assert spectra.stable_rank(X).dtype == np.float64


def test_large_integers_do_not_overflow():
    X = np.arange(24, dtype=np.int32).reshape(6, 4) * 80_000_000
    assert spectra.nuclear_norm(X) == pytest.approx(spectra.nuclear_norm(X.astype(float)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_short_floats_are_measured_in_float32(dtype):
    X = batch(7, 5).astype(dtype)
    result = spectra.effective_rank(X)
    assert result.dtype == np.float32
    assert result == pytest.approx(spectra.effective_rank(X.astype(float)), rel=1e-5)


def test_bfloat16_is_measured_in_float32():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    X = batch(7, 5).astype(ml_dtypes.bfloat16)
    assert spectra.stable_rank(X) == pytest.approx(spectra.stable_rank(X.astype(float)), rel=1e-5)


@pytest.mark.parametrize("measure", ALL)
@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones((2, 2), complex), "dtype complex128; it must hold real numbers"),
        ([["a", "b"]], "it must hold real numbers"),
        (np.ones((0, 3)), r"shape \(0, 3\); it must not be empty"),
        (np.ones((4, 3, 0)), r"shape \(4, 3, 0\); it must not be empty"),
    ],
)
def test_other_input_is_refused(measure, X, message):
    with pytest.raises(DepthrankError, match=message):
        measure(X)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: spectra.effective_rank(np.eye(2), power=0), "power is 0; it must be 1, 2"),
        (lambda: spectra.schatten_norm(np.eye(2), 0), "p is 0; it must be a number > 0"),
        (lambda: spectra.schatten_norm(np.eye(2), np.nan), "p is nan"),
        (lambda: spectra.numerical_rank(np.eye(2), 1.0), r"tol is 1\.0; it is relative to s_1"),
        (lambda: spectra.numerical_rank(np.eye(2), -1e-9), "tol is -1e-09"),
    ],
)
def test_options_are_validated(call, message):
    with pytest.raises(DepthrankError, match=message):
        call()


def test_condition_number_of_a_singular_matrix_is_infinite():
    assert spectra.condition_number(np.diag([1.0, 0.0])) == np.inf
    assert spectra.condition_number_of([1.0, 1e-320]) == np.inf


def test_spectral_gap_of_one_row_is_one():
    assert spectra.spectral_gap([[3.0, 4.0]]) == 1


@pytest.mark.parametrize(("measure", "twin"), SOFT.items())
def test_twin_takes_singular_values(measure, twin):
    X = batch(5, 4, 3)
    s = spectra.singular_values(X)
    np.testing.assert_allclose(twin(s), measure(X), rtol=1e-13)


def test_numerical_rank_of_singular_values():
    counts = spectra.numerical_rank_of([[2.0, 1.0, 1e-9], [0.0, 0.0, 0.0]], 1e-6)
    assert counts.tolist() == [2, 0]


spectrum = st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=8)


@given(spectrum)
def test_soft_ranks_are_ordered_and_bounded(values):
    """1 <= stable <= nuclear, and e2 <= e1 <= k: squaring concentrates the spectrum."""
    s = np.sort(values)[::-1]
    stable, nuclear = spectra.stable_rank_of(s), spectra.nuclear_rank_of(s)
    first, second = spectra.effective_rank_of(s), effective_rank_2_of(s)
    slack = 1 + 1e-12
    assert 1 <= stable <= nuclear * slack
    assert nuclear <= len(s) * slack
    assert 1 / slack <= second <= first * slack
    assert first <= len(s) * slack
    # the participation ratio is exp of the order-2 Rényi entropy, which is below Shannon's
    assert spectra.participation_ratio_of(s) <= second * slack


@given(spectrum)
def test_effective_rank_is_the_exponential_of_the_entropy(values):
    p = np.array(values) / sum(values)
    entropy = -sum(float(x) * np.log(x) for x in p)
    assert spectra.effective_rank_of(values) == pytest.approx(np.exp(entropy), rel=1e-12)


@pytest.mark.parametrize("measure", ALL)
def test_jax_arrays_give_jax_arrays_and_work_under_jit(measure):
    import jax

    X = batch(5, 4, 3)
    with jax.enable_x64(True):
        X_jax = jax.numpy.asarray(X)
        for result in (measure(X_jax), jax.jit(measure)(X_jax), jax.vmap(measure)(X_jax)):
            assert isinstance(result, jax.Array)
            np.testing.assert_allclose(np.asarray(result), measure(X), rtol=1e-11)


@pytest.mark.parametrize("measure", ALL)
def test_jax_without_64_bit_types(measure):
    import jax

    X = jax.numpy.asarray(batch(4, 3))
    assert X.dtype == np.float32
    np.testing.assert_allclose(np.asarray(measure(X)), measure(np.asarray(X)), rtol=1e-4)
    assert not np.any(measure(jax.numpy.zeros((3, 4), int)))


def test_jax_nan_is_named_outside_and_passed_on_inside_jit():
    import jax

    X = jax.numpy.asarray([[1, np.nan], [2, 3]])
    with pytest.raises(DepthrankError, match=r"holds NaN at \(0, 1\)"):
        spectra.effective_rank(X)
    for measure in SOFT:
        assert np.isnan(jax.jit(measure)(X)), measure
    assert jax.jit(spectra.numerical_rank)(X) == -1


def test_jax_gradient_of_a_measure_is_finite():
    import jax

    gradient = jax.grad(lambda s: spectra.effective_rank_of(s))(jax.numpy.asarray([2.0, 1.0, 0.0]))
    assert np.isfinite(np.asarray(gradient)[:2]).all()


def test_traced_values_are_told_from_arrays():
    import jax

    def look(x: Any) -> Any:
        assert is_traced(x)
        return x

    jax.jit(look)(1.0)
    assert not is_traced(jax.numpy.ones(2))
    assert not is_traced(np.ones(2))


@pytest.mark.torch
@pytest.mark.parametrize("measure", ALL)
def test_torch_tensors_give_torch_tensors(measure):
    torch = pytest.importorskip("torch")
    X = batch(5, 4, 3)
    result = measure(torch.asarray(X))
    assert isinstance(result, torch.Tensor)
    np.testing.assert_allclose(result.numpy(), measure(X), rtol=1e-11)
    for dtype in (torch.int32, torch.bool, torch.float16, torch.bfloat16):
        assert torch.isfinite(measure(torch.eye(3, 3).to(dtype))).all()
    assert not measure(torch.zeros(3, 4)).any()
    with pytest.raises(DepthrankError, match=r"holds NaN at \(0, 1\)"):
        measure(torch.tensor([[1, float("nan")], [2, 3]]))
    with pytest.raises(DepthrankError, match="it must hold real numbers"):
        measure(torch.ones(2, 2, dtype=torch.complex64))
