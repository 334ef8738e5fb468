from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthrank.errors import DepthrankError
from depthrank.factors import check_dims, check_factors, dims, end_to_end, imbalance, widths


@pytest.fixture
def chain() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    sizes = (5, 6, 4, 7)
    return tuple(rng.normal(size=(b, a)) for a, b in pairwise(sizes))


def test_dims_default_width_restricts_no_rank():
    assert dims((7, 5), 4) == (5, 5, 5, 5, 7)
    assert dims((5, 7), 2) == (7, 5, 5)


def test_dims_depth_one_has_no_hidden_width():
    assert dims((7, 5), 1) == dims((7, 5), 1, width=3) == (5, 7)


def test_dims_takes_one_width_or_each():
    assert dims((7, 5), 3, width=9) == (5, 9, 9, 7)
    assert dims((7, 5), 3, width=(6, 4)) == dims((7, 5), 3, width=np.array([6, 4])) == (5, 6, 4, 7)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((7, 5), 0), r"depth is 0; it must be an integer >= 1"),
        (((7, 5), 2.0), r"depth is 2\.0"),
        (((7, 5), True), r"depth is True"),
        (((7, 0), 2), r"shape\[1\] is 0"),
        (((7,), 2), r"must be \(rows, columns\)"),
        (((7, 5), 3, (6,)), r"width has 1 entries; depth 3 has 2 hidden widths"),
        (((7, 5), 3, (6, -1)), r"width\[1\] is -1"),
        (((7, 5), 3, 0), r"width is 0"),
    ],
)
def test_dims_refuses(arguments, message):
    with pytest.raises(DepthrankError, match=message):
        dims(*arguments)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [((5,), r"at least \(n, m\)"), (5, r"dims is 5"), ((5, 0, 7), r"dims\[1\] is 0")],
)
def test_check_dims_refuses(sizes, message):
    with pytest.raises(DepthrankError, match=message):
        check_dims(sizes)


def test_end_to_end_applies_the_first_factor_first(chain):
    x = np.arange(5.0)
    expected = chain[2] @ (chain[1] @ (chain[0] @ x))
    # two orders of the same product: a few units of rounding
    np.testing.assert_allclose(end_to_end(chain) @ x, expected, rtol=1e-13)
    assert end_to_end(chain).shape == (7, 5)
    assert end_to_end(chain[:1]) is chain[0]


def test_end_to_end_treats_leading_axes_as_batch(chain):
    batch = tuple(np.stack([W, 2 * W]) for W in chain)
    np.testing.assert_allclose(
        end_to_end(batch), np.stack([end_to_end(chain), 8 * end_to_end(chain)]), rtol=1e-14
    )


def test_widths_are_the_dims_of_the_chain(chain):
    assert widths(chain) == (5, 6, 4, 7)
    assert widths(chain[:1]) == (5, 6)


@pytest.mark.parametrize("function", [end_to_end, widths, check_factors])
def test_no_factor_is_refused(function):
    with pytest.raises(DepthrankError, match="factors is empty"):
        function(())


def test_imbalance_closed_form():
    # W_2ᵀ W_2 = diag(9, 0) against W_1 W_1ᵀ = diag(4, 1)
    W1, W2 = np.diag([2.0, 1.0]), np.array([[3.0, 0.0]])
    assert imbalance((W1, W2)) == pytest.approx(np.hypot(5, 1), rel=1e-15)


def test_imbalance_is_the_largest_over_layers_and_zero_at_depth_one(chain):
    assert imbalance(chain) == max(imbalance(chain[:2]), imbalance(chain[1:]))
    assert imbalance(chain[:1]) == 0.0


@given(st.integers(0, 10_000), st.floats(1e-3, 1e3))
def test_imbalance_is_quadratic_and_blind_to_gauge(seed, scale):
    rng = np.random.default_rng(seed)
    W1, W2 = rng.normal(size=(4, 3)), rng.normal(size=(5, 4))
    Q = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    turned = (scale * Q @ W1, scale * W2 @ Q.T)
    assert imbalance(turned) == pytest.approx(scale**2 * imbalance((W1, W2)), rel=1e-10)


def test_check_factors_promotes_integers_and_keeps_float32():
    whole = check_factors(([[1, 2]], [[3], [4]]), shape=(2, 2))
    assert [W.dtype for W in whole] == [np.float64, np.float64]
    single = check_factors((np.ones((1, 2), np.float32), np.ones((3, 1), np.float32)))
    assert {W.dtype for W in single} == {np.dtype(np.float32)}


def test_check_factors_gives_all_factors_one_type():
    mixed = check_factors((np.ones((1, 2), np.float32), np.ones((3, 1))))
    assert {W.dtype for W in mixed} == {np.dtype(np.float64)}


@pytest.mark.parametrize(
    ("factors", "shape", "message"),
    [
        (np.eye(3), None, r"factors is one matrix of shape \(3, 3\)"),
        ((np.eye(3), np.ones(3)), None, r"W_2 has shape \(3,\); it must be a non-empty matrix"),
        ((np.ones((0, 3)),), None, r"W_1 has shape \(0, 3\)"),
        ((np.ones((2, 3)), np.ones((2, 3))), None, r"W_2 has shape \(2, 3\) and W_1 has shape"),
        ((np.array([[1.0, np.nan]]),), None, r"W_1 holds nan at row 0, column 1"),
        ((np.array([[1j]]),), None, r"W_1 has dtype complex128"),
        ((np.ones((2, 3)),), (3, 2), r"multiply to shape \(2, 3\); the matrix has shape \(3, 2\)"),
    ],
)
def test_check_factors_refuses(factors, shape, message):
    with pytest.raises(DepthrankError, match=message):
        check_factors(factors, shape)
