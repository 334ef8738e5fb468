"""Optimiser descent: hand-computed steps, the reduced map, the flow as its limit."""

import numpy as np
import optax
import pytest

from depthrank import AlphaM, DepthrankError, Gaussian, Observations, descend, flow, patterns
from depthrank.dynamics.descent import OPTIMIZERS
from depthrank.theory import descent_state

SPARSE = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [0, 1, 1]], bool)
SEEN = Observations.from_mask(np.outer([1.0, 2, 3, 4], [1.0, 2, 3]) / 4, SPARSE)
START = Gaussian(0.5)((3, 2, 4), 0)


def by_hand(rate: float, steps: int, decay: float = 0.0):
    w1, w2 = (f.copy() for f in START)
    target = SEEN.to_dense(fill=0.0)
    for _ in range(steps):
        residual = SPARSE * (w2 @ w1 - target)
        g1, g2 = w2.T @ residual + decay * w1, residual @ w1.T + decay * w2
        w1, w2 = w1 - rate * g1, w2 - rate * g2
    return w1, w2


@pytest.mark.filterwarnings("ignore:The descent ended as 'steps'")
@pytest.mark.parametrize("decay", [0.0, 0.2])
def test_sgd_takes_the_steps_of_a_loop_written_out(decay):
    run = descend(SEEN, factors=START, learning_rate=0.05, steps=25, weight_decay=decay)
    for ours, theirs in zip(run.factors, by_hand(0.05, 25, decay), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)
    assert run.time == pytest.approx(0.05 * 25)
    assert (run.steps, run.evaluations, run.stopped_by) == (25, 25, "steps")


@pytest.mark.filterwarnings("ignore:The descent ended as 'steps'")
@pytest.mark.parametrize("depth", [2, 3])
def test_the_reduced_map_of_the_family_is_exact(depth):
    seen = Observations.from_mask(np.eye(4), patterns.diagonal((4, 4)))
    run = descend(seen, depth=depth, init=AlphaM(0.4, 2.0), learning_rate=0.1, steps=30)
    start = [0.4 * (1 + 3 / 2), 0.4 * (1 - 1 / 2)]
    first, second = descent_state(
        30, 0.1, depth=depth, eigenvalues=start, multiplicities=[1, 3], target=1.0
    )
    eigenvalues = np.linalg.eigvalsh(run.factors[0])
    np.testing.assert_allclose(eigenvalues, [second] * 3 + [first], rtol=1e-12)


@pytest.mark.filterwarnings("ignore:The descent ended as 'steps'")
def test_small_steps_approach_the_flow_at_first_order():
    at = flow(SEEN, factors=START, max_time=2.0, rtol=1e-10).end_to_end
    gaps = [
        np.abs(descend(SEEN, factors=START, learning_rate=2.0 / n, steps=n).end_to_end - at).max()
        for n in (200, 400, 800)
    ]
    order = -np.polyfit(np.log([200, 400, 800]), np.log(gaps), 1)[0]
    assert order == pytest.approx(1.0, abs=0.1)


RATES = {"sgd": 0.2, "momentum": 0.05, "nesterov": 0.05, "adam": 0.02, "rmsprop": 1e-3}


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_every_optimiser_by_name_fits(name):
    rate = RATES.get(name, 0.3)
    run = descend(SEEN, factors=START, optimizer=name, learning_rate=rate, steps=5000, tol=1e-4)
    assert run.stopped_by == "fitted"
    assert run.converged
    assert run.observed_mse <= 1e-4 * SEEN.rms**2


def test_an_optax_object_counts_steps_as_time():
    run = descend(SEEN, factors=START, optimizer=optax.sgd(0.2), steps=5000, tol=1e-6)
    assert run.stopped_by == "fitted"
    assert run.time == run.steps
    named = descend(SEEN, factors=START, learning_rate=0.2, steps=5000, tol=1e-6)
    np.testing.assert_array_equal(run.end_to_end, named.end_to_end)


def test_minibatches_fit_and_depend_on_the_seed_only():
    def run(seed: int):
        return descend(
            SEEN, factors=START, learning_rate=0.05, steps=4000, tol=1e-6, batch_size=3, seed=seed
        )

    one, again, other = run(1), run(1), run(2)
    assert one.stopped_by == other.stopped_by == "fitted"
    np.testing.assert_array_equal(one.end_to_end, again.end_to_end)
    assert np.abs(one.factors[0] - other.factors[0]).max() > 1e-6


def test_divergence_returns_the_last_finite_state():
    with pytest.warns(UserWarning, match=r"'diverged' .* give a smaller learning_rate"):
        run = descend(SEEN, factors=START, learning_rate=50.0, steps=200)
    assert run.stopped_by == "diverged"
    assert all(np.isfinite(f).all() for f in run.factors)


def test_the_course_is_recorded_on_the_time_axis_of_the_flow():
    with pytest.warns(UserWarning, match=r"'steps' .* give more steps"):
        run = descend(SEEN, factors=START, learning_rate=0.1, steps=20, record_every=5)
    np.testing.assert_allclose(run.data.time, [0, 0.5, 1.0, 1.5, 2.0])
    assert run.data.attrs["optimizer"] == "sgd"
    assert run.imbalance_drift > 1e-6  # a flow conserves it, descent does not


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "optimizer 'sgd' needs a learning_rate"),
        ({"optimizer": "muon", "learning_rate": 0.1}, "optimizer is 'muon'; it must be one of sgd"),
        ({"optimizer": optax.sgd(0.1), "learning_rate": 0.1}, "beside an optax optimiser"),
        ({"learning_rate": 0.0}, "learning_rate is 0.0"),
        ({"learning_rate": 0.1, "steps": 0}, "steps is 0"),
        (
            {"learning_rate": 0.1, "batch_size": 99},
            "batch_size is 99; it must lie between 1 and 10",
        ),
        ({"learning_rate": 0.1, "record_every": 0}, "record_every is 0"),
    ],
)
def test_refusals(options, message):
    with pytest.raises(DepthrankError, match=message):
        descend(SEEN, factors=START, **options)
