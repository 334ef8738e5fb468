"""Training in phases: one axis of time, half-open phases, the known warm starts."""

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from depthrank import AlphaM, DepthrankError, Gaussian, Observations, end_to_end, flow
from depthrank.plasticity import Phase, Protocol, compare, none, shrink, warm_start
from depthrank.plasticity.anchored import anchored_flow

TRUTH = np.outer([1.0, 1.5, 0.8, 1.2], [1.0, 0.7, 1.3])
OLD = Observations.from_mask(TRUTH, np.eye(4, 3))
NEW = Observations.from_mask(TRUTH, np.eye(4, 3, 1))
ONES = Observations.from_mask(np.ones((2, 2)), np.eye(2))
CORNER = Observations.from_mask(np.ones((2, 2)), [[0, 1], [0, 0]])
INIT = Gaussian(1e-2)


@pytest.fixture(scope="module")
def run():
    first = Phase(observations=OLD, max_time=4.0)
    return warm_start(
        [first, Phase(observations=NEW, add=True, tol=1e-10)], depth=2, init=INIT, truth=TRUTH
    )


def test_ws05_the_smallest_loss_of_plasticity():
    found = warm_start(
        [Phase(observations=ONES), Phase(observations=CORNER, add=True)],
        factors=(np.eye(2), np.eye(2)),
    )
    assert found.end_to_end[1, 0] == pytest.approx(-0.0347156, abs=1e-6)
    assert found.effective_rank == pytest.approx(1.819, abs=5e-3)
    assert found.loss < 1e-12
    for seed in range(3):
        cold = flow(ONES.union(CORNER), depth=2, init=Gaussian(1e-6), seed=seed)
        assert cold.end_to_end[1, 0] == pytest.approx(1.0, abs=2e-3)
        assert cold.effective_rank == pytest.approx(1.0, abs=1e-2)


def test_a_phase_of_length_zero_is_no_phase(run):
    first, second = (
        Phase(observations=OLD, max_time=4.0),
        Phase(observations=NEW, add=True, tol=1e-10),
    )
    rest = Observations.from_mask(TRUTH, np.eye(4, 3, -1))
    idle = Phase(observations=rest, add=True, max_time=0.0, remedy=shrink(0.0))
    same = warm_start([idle, first, idle, second, idle], depth=2, init=INIT, truth=TRUTH)
    for W, V in zip(same.factors, run.factors, strict=True):
        np.testing.assert_array_equal(W, V)
    assert same.data.identical(run.data)


def test_phases_are_half_open_on_the_joined_axis(run):
    data = run.data
    assert (np.diff(data["time"]) > 0).all()
    assert data["phase_start"].values.tolist() == [0.0, 4.0]
    border = data.sel(time=4.0)
    assert border["phase"] == 1
    assert (data["phase"].values == (data["time"].values >= 4.0)).all()
    # the record of the border sees the new cells, the end of the phase before does not
    X = run.trajectories[0].end_to_end
    both = OLD.union(NEW)
    loss = 0.5 * np.sum((X[both.rows, both.cols] - both.values) ** 2)
    assert float(border["loss"]) == pytest.approx(loss)
    assert float(data["end_loss"][0]) < 0.5 * loss
    assert float(data["time"][-1]) == pytest.approx(float(data["phase_end"][-1]))
    error = np.linalg.norm(run.end_to_end - TRUTH) / np.linalg.norm(TRUTH)
    assert float(data["reconstruction_error"][-1]) == pytest.approx(error)


def test_two_phases_of_the_same_data_are_one():
    half = [Phase(observations=OLD, max_time=t) for t in (3.0, 5.0)]
    found = warm_start(half, depth=2, init=INIT, rtol=1e-10)
    whole = flow(OLD, depth=2, init=INIT, times=[8.0], rtol=1e-10)
    np.testing.assert_allclose(found.end_to_end, whole.end_to_end, atol=1e-7)
    assert found.stopped_by == ("time", "time")


def test_compare_agrees_with_one_run_at_a_time():
    phases = [Phase(observations=OLD, tol=1e-10), Phase(observations=NEW, add=True, tol=1e-10)]
    data = compare(
        Protocol(phases, TRUTH),
        depths=(2,),
        starts=[INIT],
        seeds=(0, 5),
        remedies=[shrink(0.1)],
        rtol=1e-8,
    )
    assert list(data["arm"].values) == ["warm", "cold", "shrink 0.1"]
    one = data.sel(depth=2, seed=5).isel(start=0)
    warm = warm_start(phases, depth=2, init=INIT, seed=5, truth=TRUTH, rtol=1e-8)
    shrunk = [phases[0], Phase(observations=NEW, add=True, tol=1e-10, remedy=shrink(0.1))]
    single: dict[str, Any] = {
        "warm": warm,
        "shrink 0.1": warm_start(shrunk, depth=2, init=INIT, seed=5, rtol=1e-8),
        "cold": flow(OLD.union(NEW), depth=2, init=INIT, seed=5, tol=1e-10, rtol=1e-8),
    }
    for arm, alone in single.items():
        s = one["end_singular_values"].sel(arm=arm)
        np.testing.assert_allclose(s, alone.singular_values, rtol=1e-4)
    assert (data["stopped_by"] == "fitted").all()
    # one axis of time: cold begins where the warm run's last phase does
    border = float(one["phase_start"].sel(arm="warm", phase=1))
    assert border == pytest.approx(float(warm.data["phase_start"][1]), rel=1e-3)
    assert float(one["phase_start"].sel(arm="cold", phase=1)) == border
    cold = one.sel(arm="cold")
    assert np.isnan(cold["loss"].where(cold["record_phase"] == 0)).all()
    time = one["time"].sel(arm="warm").values
    assert (np.diff(time) >= 0).all()
    assert float(one["end_error"].sel(arm="warm")) == pytest.approx(
        float(warm.data["reconstruction_error"][-1]), rel=1e-3
    )


@pytest.mark.parametrize("steps", [10, 20])
def test_the_anchored_flow_is_of_second_order(steps):
    start = Gaussian(1.0)((3, 3, 4), 1)
    home = Gaussian(0.1)((3, 3, 4), 2)
    mask, target = OLD.mask(), OLD.to_dense(fill=0.0)

    def slope(_, y):
        W1, W2 = y[:9].reshape(3, 3), y[9:].reshape(4, 3)
        R = mask * (W2 @ W1 - target)
        parts = (-W2.T @ R - 0.5 * (W1 - home[0]), -R @ W1.T - 0.5 * (W2 - home[1]))
        return np.concatenate([part.ravel() for part in parts])

    y = np.concatenate([W.ravel() for W in start])
    exact = solve_ivp(slope, (0, 1.0), y, rtol=1e-10, atol=1e-12).y[:, -1]
    exact_product = exact[9:].reshape(4, 3) @ exact[:9].reshape(3, 3)
    ((found, used),) = anchored_flow([OLD], [start], [home], 0.5, 1.0, steps=steps, rtol=1e-9)
    assert used == 1.0
    error = np.abs(end_to_end(found) - exact_product).max()
    assert error < 4.5e-2 / steps**2


def test_wrong_protocols_are_refused():
    first = Phase(observations=OLD)
    with pytest.raises(DepthrankError, match="max_time is -1"):
        Phase(observations=OLD, max_time=-1)
    with pytest.raises(DepthrankError, match="no phase of a length above 0"):
        warm_start([Phase(observations=OLD, max_time=0)], depth=2)
    with pytest.raises(DepthrankError, match="nothing is seen before it"):
        warm_start([Phase(observations=OLD, add=True)], depth=2)
    with pytest.raises(DepthrankError, match=r"shapes \(4, 3\) and \(2, 2\)"):
        warm_start([first, Phase(observations=ONES)], depth=2)
    with pytest.raises(DepthrankError, match="depth is missing"):
        warm_start([first])
    with pytest.raises(DepthrankError, match="depth is 3 but 2 factors were given"):
        warm_start([first], depth=3, factors=INIT((3, 3, 4), 0))
    with pytest.raises(DepthrankError, match="truth has shape"):
        warm_start([first], depth=2, truth=np.ones((2, 2)))
    with pytest.raises(DepthrankError, match="a phase is 3"):
        warm_start([3], depth=2)  # type: ignore[list-item]
    with pytest.raises(DepthrankError, match="same number, two or more"):
        compare(Protocol([first]), starts=[AlphaM(0.1)])
    with pytest.raises(DepthrankError, match="2 for 1 seeds"):
        compare([Protocol([first])] * 2, starts=[INIT])
    with pytest.raises(DepthrankError, match="one entry or more"):
        compare(Protocol([first]), starts=[])
    with pytest.raises(DepthrankError, match="names of their own"):
        compare(Protocol([first, first]), starts=[INIT], remedies=[none()])
