"""Batched flows: every member as if alone, whatever its neighbours do."""

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr

from depthrank import AlphaM, DepthrankError, Observations, flow, flow_batch, patterns
from depthrank.dynamics import lanes, stepping
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
            alone.singular_values[0],
            rel=1e-9,  # stages are summed in another order, and steps follow their rounding
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


@pytest.fixture
def quick_and_slow():
    """Members of which the last four take twice the evaluations of the others."""
    quick, slow = (np.full((1, 1), 1.0),) * 2, (np.full((1, 1), 1e-100),) * 2
    return Observations.from_dense([[2.0]]), [quick] * 12 + [slow] * 4


def test_a_free_lane_takes_the_next_member(monkeypatch, quick_and_slow):
    alone = [flow(quick_and_slow[0], factors=quick_and_slow[1][k]) for k in (0, -1)]
    monkeypatch.setattr(lanes, "_FEW", 4)
    monkeypatch.setattr(lanes, "_MANY", 4)
    shapes: list[int] = []
    monkeypatch.setattr(lanes, "advance", spy(shapes))
    counts = []
    run = flow_batch(*quick_and_slow, progress=lambda done, total: counts.append((done, total)))
    assert set(shapes) == {4}
    assert counts == sorted(counts)
    assert counts[-1] == (16, 16)
    np.testing.assert_allclose(run.singular_values[:, 0], 2.0, rtol=1e-6)
    assert set(run.evaluations.values[:12]) == {alone[0].evaluations}
    assert set(run.evaluations.values[12:]) == {alone[1].evaluations}
    np.testing.assert_allclose(run.time[12:], alone[1].time, rtol=1e-8)


def test_the_last_members_move_to_fewer_lanes(monkeypatch, quick_and_slow):
    monkeypatch.setattr(lanes, "_FEW", 4)
    monkeypatch.setattr(lanes, "_MANY", 16)
    monkeypatch.setattr(lanes, "_TAIL", 100)
    shapes: list[int] = []
    monkeypatch.setattr(lanes, "advance", spy(shapes, budget=64))
    run = flow_batch(*quick_and_slow)
    assert (shapes[0], shapes[-1]) == (16, 4)
    np.testing.assert_allclose(run.singular_values[:, 0], 2.0, rtol=1e-6)
    assert (run.evaluations[12:] > 1.5 * run.evaluations[0]).all()


def spy(shapes, budget=None):
    """Return `advance`, noting its number of lanes, with a budget of its own if given."""

    def noted(problem, state, control, method, given, *rest):
        shapes.append(state.t.shape[0])
        return stepping.advance(
            problem, state, control, method, given if budget is None else jnp.asarray(budget), *rest
        )

    return noted


def test_the_speed_of_the_machine_decides_nothing(monkeypatch):
    """Long and short stretches between two looks from Python end alike, at rest too."""
    seen, starts = scalars([1.0, -1.0, 50.0])
    runs = []
    for budget in (1, 100_000):
        monkeypatch.setattr(lanes, "advance", spy([], budget=budget))
        runs.append(flow_batch(seen, starts))
    assert list(runs[0].stopped_by.values) == ["fitted", "stationary", "fitted"]
    xr.testing.assert_identical(runs[0].drop_attrs(), runs[1].drop_attrs())


def test_interrupted_members_are_returned_where_they_stand(monkeypatch, quick_and_slow):
    monkeypatch.setattr(lanes, "_FEW", 4)
    monkeypatch.setattr(lanes, "_MANY", 4)
    monkeypatch.setattr(lanes, "advance", spy([], budget=64))

    def stop(done, total):
        if done >= 4:
            raise KeyboardInterrupt

    run = flow_batch(*quick_and_slow, progress=stop)
    words = list(run.stopped_by.values)
    assert words[:4] == ["fitted"] * 4
    assert words[4:] == ["interrupted"] * 12
    np.testing.assert_allclose(run.singular_values[4:12, 0], 1.0)  # never began
    np.testing.assert_allclose(run.observed_mse[4:12], 1.0)
    assert (run.time[4:] == 0).all()


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
        flow_batch(seen, [(np.ones((1, 1)),) * 5] * 3)  # another depth is: the trap works


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
