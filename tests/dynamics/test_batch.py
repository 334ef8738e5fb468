"""Batched flows: every member as if alone, whatever its neighbours do."""

import jax.numpy as jnp
import numpy as np
import pytest

from depthrank import AlphaM, DepthrankError, Observations, flow, flow_batch, patterns
from depthrank.dynamics import batch, stepping
from depthrank.theory import limits_grid


def scalars(targets, size=0.1):
    seen = [Observations.from_dense([[t]]) for t in targets]
    return seen, [(np.full((1, 1), size),) * 2] * len(targets)


def test_gf07_every_member_stops_as_if_alone():
    seen, starts = scalars([1.0, 10.0, 100.0])
    together = flow_batch(seen, starts, tol=1e-12)
    np.testing.assert_allclose(together.time, [9.2053, 1.0361, 0.11513], rtol=0.01)
    assert set(together.stopped_by.values) == {"fitted"}
    for member, (o, start) in enumerate(zip(seen, starts, strict=True)):
        alone = flow(o, factors=start, tol=1e-12)
        assert float(together.singular_values[member, 0]) == pytest.approx(
            alone.singular_values[0], rel=1e-12
        )
        assert int(together.evaluations[member]) == alone.evaluations


def test_endings_differ_within_a_batch():
    seen, starts = scalars([1.0, -1.0, 50.0])
    mixed = flow_batch(seen, starts)
    assert list(mixed.stopped_by.values) == ["fitted", "stationary", "fitted"]
    timed = flow_batch(seen, starts, max_time=0.5)
    assert list(timed.stopped_by.values) == ["time", "time", "fitted"]
    assert float(timed.time[0]) == 0.5
    short = flow_batch(seen, starts, max_steps=3)
    assert list(short.stopped_by.values) == ["steps"] * 3


def test_a_grid_of_starts_agrees_with_the_closed_form():
    alphas, ms = np.geomspace(1e-2, 0.5, 6), np.array([1.2, 2.0, 20.0, np.inf])
    alpha, m = (a.ravel() for a in np.meshgrid(alphas, ms, indexing="ij"))
    seen = Observations.from_mask(np.eye(5), patterns.diagonal((5, 5)))
    starts = [AlphaM(float(a), float(b))((5, 5, 5, 5)) for a, b in zip(alpha, m, strict=True)]
    run = flow_batch(seen, starts, rtol=1e-7)
    exact = limits_grid(depth=3, alpha=alpha, m=m, n_blocks=5)
    np.testing.assert_allclose(run.singular_values[:, 0], exact.sigma_1, rtol=1e-6)
    np.testing.assert_allclose(run.singular_values[:, 4], exact.sigma_2, rtol=1e-6)


def test_members_that_have_ended_are_taken_out(monkeypatch):
    sizes = []
    advance = batch.advance

    def short_stretches(problem, state, control, method, budget, *rest):
        sizes.append(state.t.shape[0])
        return advance(problem, state, control, method, jnp.asarray(64), *rest)

    monkeypatch.setattr(batch, "advance", short_stretches)
    monkeypatch.setattr(batch, "_SMALLEST", 4)
    quick, slow = (np.full((1, 1), 1.0),) * 2, (np.full((1, 1), 1e-100),) * 2
    run = flow_batch(Observations.from_dense([[2.0]]), [quick] * 28 + [slow] * 4)
    assert sizes[0] == 32
    assert sizes[-1] == 4
    np.testing.assert_allclose(run.singular_values[:, 0], 2.0, rtol=1e-6)
    assert (run.evaluations[28:] > 1.5 * run.evaluations[0]).all()


def test_one_trace_for_one_shape(monkeypatch):
    """A second batch of the same shape traces nothing again."""
    seen, starts = scalars([2.0, 3.0, 5.0])
    flow_batch(seen, starts)

    def traced(*_):
        raise AssertionError("traced again")

    monkeypatch.setattr(stepping, "_settle", traced)
    for scale in (1.5, 7.0):
        run = flow_batch(*scalars([2.0 * scale, 3.0, 4.0], size=0.1 / scale), tol=1e-10, rtol=1e-5)
        assert set(run.stopped_by.values) == {"fitted"}
    with pytest.raises(AssertionError, match="traced again"):
        flow_batch(*scalars([1.0, 2.0]))  # another shape is: the trap works


def test_factors_are_kept_when_asked():
    seen, starts = scalars([2.0, 3.0])
    run = flow_batch(seen, starts, factors=True)
    product = run.factor_2.values @ run.factor_1.values
    np.testing.assert_allclose(product.ravel(), [2.0, 3.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "starts is empty"),
        ((*scalars([1.0, 2.0])[:1], [(np.ones((1, 1)),) * 2]), "2 observations and 1 starts"),
        (
            ([Observations.from_dense([[1.0, 2.0]])], [(np.ones((1, 1)),) * 2]),
            "Members differ in shape",
        ),
        (
            (
                Observations.from_dense([[1.0]]),
                [(np.ones((1, 1)),) * 2, (np.ones((1, 1)),) * 3],
            ),
            "Members differ in shape",
        ),
    ],
)
def test_refusals(arguments, message):
    with pytest.raises(DepthrankError, match=message):
        flow_batch(*arguments)
