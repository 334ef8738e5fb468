"""Remedies: what each does, and the parameter value at which it does nothing."""

import numpy as np
import pytest

from depthrank import DepthrankError, Gaussian, Observations, end_to_end, imbalance
from depthrank import plasticity as p
from depthrank.factors import widths

INIT = Gaussian(1e-2)
SEEN = Observations.from_mask(
    np.outer([1.0, 2, 3, 4, 5], [1.0, 2, 3, 4]), np.indices((5, 4)).sum(axis=0) % 2
)
BORDER = p.Border(SEEN, INIT, 3)


def chain(depth: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    return Gaussian(5.0)((4, *(4,) * (depth - 1), 5), seed)


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(
    "idle",
    [
        p.none(),
        p.shrink(1.0),
        p.shrink_perturb(1.0, 0.0),
        p.dash(1.0),
        p.truncate(rank=4),
        p.truncate(energy=1.0),
        p.reset(0),
        p.add_depth(0),
        p.add_depth(0, variant="identity"),
        p.anchor(0.0),
    ],
    ids=lambda remedy: remedy.name,
)
def test_idle_parameters_do_nothing(idle, depth):
    factors = chain(depth)
    for W, kept in zip(idle(factors, BORDER), factors, strict=True):
        np.testing.assert_array_equal(W, kept)
    assert all((idle.name, idle.formula, idle.source, idle.idle))


@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize(
    "remedy", [p.rebalance(), p.add_depth(), p.add_depth(2, variant="identity"), p.add_depth(2)]
)
def test_the_product_is_kept(remedy, depth):
    factors = chain(depth)
    after = remedy(factors, BORDER)
    np.testing.assert_allclose(end_to_end(after), end_to_end(factors), atol=1e-12)
    if (remedy.name == "rebalance" and depth > 1) or remedy.name == "add depth (balanced)":
        assert imbalance(after) < 1e-12


def test_added_factors_are_counted():
    for depth in (1, 2, 3):
        for variant in ("balanced", "identity"):
            assert len(p.add_depth(2, variant=variant)(chain(depth), BORDER)) == depth + 2


def test_cold_and_full_shrinking_are_starts():
    factors = chain(3)
    for W, V in zip(p.cold()(factors, BORDER), INIT(widths(factors), 3), strict=True):
        np.testing.assert_array_equal(W, V)
    fresh = p.shrink_perturb(0.0, 1.0)(factors, BORDER)
    for W, V in zip(fresh, BORDER.fresh(factors), strict=True):
        np.testing.assert_array_equal(W, V)
    assert not np.array_equal(fresh[0], p.cold()(factors, BORDER)[0])


def test_shrinking_scales_the_product_by_the_power_of_depth():
    factors = chain(3)
    np.testing.assert_allclose(
        end_to_end(p.shrink(0.5)(factors, BORDER)), 0.125 * end_to_end(factors)
    )


def test_dash_is_the_published_rule_where_the_basis_is_given():
    """At depth 1 the neurons are the rows of the matrix: each times clip(cos(w, -g), floor, 1)."""
    (W,) = chain(1)
    mask = SEEN.mask()
    pull = np.where(mask, SEEN.to_dense(fill=0.0) - W, 0.0)
    cosine = (W * pull).sum(1) / np.linalg.norm(W, axis=1) / np.linalg.norm(pull, axis=1)
    (found,) = p.dash(0.2)((W,), BORDER)
    np.testing.assert_allclose(found, np.clip(cosine, 0.2, 1)[:, None] * W)


def test_dash_does_not_depend_on_rotations_of_hidden_layers():
    factors = chain(3)
    Q, P = (np.linalg.qr(np.random.default_rng(k).normal(size=(4, 4)))[0] for k in (1, 2))
    turned = (Q @ factors[0], P @ factors[1] @ Q.T, factors[2] @ P.T)
    one, other = p.dash(0.1)(factors, BORDER), p.dash(0.1)(turned, BORDER)
    np.testing.assert_allclose(end_to_end(one), end_to_end(other), atol=1e-10)
    assert not np.allclose(end_to_end(one), end_to_end(factors))


def test_truncation_keeps_the_leading_directions():
    factors = chain(2)
    X = end_to_end(factors)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    for remedy in (
        p.truncate(rank=2, noise=0.0),
        p.truncate(energy=float(np.sum(s[:2] ** 2) / np.sum(s**2)), noise=0.0),
    ):
        np.testing.assert_allclose(
            end_to_end(remedy(factors, BORDER)), (U[:, :2] * s[:2]) @ Vt[:2], atol=1e-10
        )
    noisy = p.truncate(rank=0)(factors, BORDER)
    for W, V in zip(noisy, BORDER.fresh(factors), strict=True):
        np.testing.assert_array_equal(W, V)


def test_reset_replaces_the_last_factors():
    factors = chain(3)
    found = p.reset(2)(factors, BORDER)
    np.testing.assert_array_equal(found[0], factors[0])
    for W, V in zip(found[1:], BORDER.fresh(factors)[1:], strict=True):
        np.testing.assert_array_equal(W, V)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: p.shrink(1.5), "keep is 1.5; it must lie between 0 and 1"),
        (lambda: p.shrink_perturb(0.5, -1), "noise is -1; it must be a finite number >= 0"),
        (lambda: p.dash(-0.1), "floor is -0.1"),
        (lambda: p.truncate(), "give exactly one of them"),
        (lambda: p.truncate(rank=-1), "rank is -1; it must be an integer >= 0"),
        (lambda: p.reset(-1), "count is -1; it must be an integer >= 0"),
        (lambda: p.add_depth(variant="x"), "variant is 'x'; it must be 'balanced' or 'identity'"),
        (lambda: p.anchor(np.inf), "strength is inf"),
    ],
)
def test_wrong_parameters_are_refused(make, message):
    with pytest.raises(DepthrankError, match=message):
        make()
