"""The flow against closed forms, conservation laws and honest endings."""

import warnings

import numpy as np
import pytest

import depthrank
from depthrank import AlphaM, DepthrankError, Gaussian, Observations, flow, limits, patterns
from depthrank.dynamics.run import Run
from depthrank.dynamics.trajectory import Progress

SPARSE = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [0, 1, 1]], bool)
OUTER = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0])


def scalar(target: float, depth: int, size: float, **options):
    factors = (np.full((1, 1), size ** (1 / depth)),) * depth
    return flow(Observations.from_dense([[target]]), factors=factors, **options)


def rectangular(depth: int, **options):
    seen = Observations.from_mask(OUTER, SPARSE)
    return flow(seen, depth=depth, width=4 if depth > 1 else None, **options)


# --- closed forms ---------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [2, 3, 4])
@pytest.mark.parametrize("m", [2.0, np.inf])
def test_diagonal_limits_match_the_closed_form(depth, m):
    run = flow(
        Observations.from_mask(np.eye(10), patterns.diagonal((10, 10))),
        depth=depth,
        init=AlphaM(0.01, m),
    )
    exact = limits(depth=depth, alpha=0.01, m=m, n_blocks=10)
    assert run.stopped_by == "fitted"
    np.testing.assert_allclose(run.singular_values, exact.singular_values, rtol=1e-6)


@pytest.mark.parametrize("depth", [2, 3])
def test_block_limits_match_the_closed_form(depth):
    blocks = patterns.block_diagonal([(2, 2)] * 5)
    run = flow(
        Observations.from_mask(np.ones((10, 10)), blocks), depth=depth, init=AlphaM(0.1, 2.0)
    )
    exact = limits(depth=depth, alpha=0.1, m=2.0, n_blocks=5, block_size=2)
    assert run.stopped_by == "fitted"
    # The within-block mode of Section 5.3 dies away algebraically and is left out of the limit.
    kept = exact.singular_values > 0
    np.testing.assert_allclose(run.singular_values[kept], exact.singular_values[kept], rtol=1e-6)
    assert run.singular_values[5:].max() < 1e-6


def test_gf01_scalar_depth_two_follows_the_logistic():
    run = scalar(2.0, 2, 0.01, times=[0.5, 1.0, 1.5, 2.0, 3.0], record="entries")
    expected = [0.071603, 0.430588, 1.339341, 1.874841, 1.997558]
    np.testing.assert_allclose(run.data.end_to_end.values.ravel(), expected, atol=1e-6)


def test_gf13_flow_times_to_a_given_loss():
    """GF-13: half-sum loss 1e-10 of target 1, at depth 2 and 3."""
    cases = [(3, 1e-3, 12.96), (3, 1e-6, 102.97), (2, 1e-3, 9.04), (2, 1e-6, 12.49)]
    for depth, size, time in [*cases, (2, 1e-12, 19.40)]:
        run = scalar(1.0, depth, size, tol=2e-10)
        assert run.time == pytest.approx(time, rel=0.01)
        assert run.end_to_end[0, 0] == pytest.approx(1.0, abs=1e-4)


def test_gf04_very_different_time_scales():
    truth = np.diag([0.01, 1.0, 100.0])
    factors = (1e-2 * np.eye(3),) * 3
    seen = Observations.from_mask(truth, np.eye(3, dtype=bool))
    run = flow(seen, factors=factors, tol=1e-14)
    fitted = run.end_to_end
    # The threshold is relative to the largest datum: the smallest one is still on its way.
    assert run.stopped_by == "fitted"
    assert (fitted[~np.eye(3, dtype=bool)] == 0).all()
    tight = flow(seen, factors=factors, tol=1e-28, max_time=1.2e4)
    np.testing.assert_allclose(np.diag(tight.end_to_end), [0.01, 1.0, 100.0], rtol=1e-4)


@pytest.mark.parametrize("depth", [2, 3])
def test_gf11_rectangular_rank_one(depth):
    run = rectangular(depth, init=Gaussian(1e-6))
    assert run.end_to_end[0, 2] == pytest.approx(3.0, abs=1e-2)
    assert run.end_to_end[3, 0] == pytest.approx(4.0, abs=1e-2)
    assert run.effective_rank == pytest.approx(1.0, abs=0.01)


def test_depth_one_fits_and_leaves_hidden_cells_at_their_start():
    run = rectangular(1, init=Gaussian(1e-3), seed=3)
    start = Gaussian(1e-3)((3, 4), 3)[0]
    np.testing.assert_array_equal(run.end_to_end[~SPARSE], start[~SPARSE])
    np.testing.assert_allclose(run.end_to_end[SPARSE], OUTER[SPARSE], atol=1e-6)


def test_weight_decay_at_depth_two_is_nuclear_norm_regularisation():
    truth = np.random.default_rng(0).normal(size=(4, 3))
    decay = 0.4
    run = flow(Observations.from_dense(truth), depth=2, init=Gaussian(0.1), weight_decay=decay)
    u, s, vt = np.linalg.svd(truth, full_matrices=False)
    assert run.stopped_by == "stationary"
    assert run.converged
    np.testing.assert_allclose(run.end_to_end, (u * np.maximum(s - decay, 0)) @ vt, atol=1e-4)


# --- certificates -----------------------------------------------------------------------------


@pytest.mark.parametrize("depth", [2, 3])
def test_a_certified_end_brackets_the_limit(depth):
    seen = Observations.from_mask(np.eye(10), patterns.diagonal((10, 10)))
    early = flow(seen, depth=depth, init=AlphaM(1.0, 3.0), certify=0.1)
    exact = limits(depth=depth, alpha=1.0, m=3.0, n_blocks=10).singular_values
    proof = early.certificate
    assert proof is not None
    assert (early.stopped_by, early.converged) == ("certified", True)
    assert early.observed_mse > 1e-10  # long before the end
    assert proof.product_move <= 0.1 * np.linalg.norm(early.singular_values)
    assert (proof.sigma_lower <= exact).all()
    assert (exact <= proof.sigma_upper).all()
    assert np.linalg.norm(early.singular_values - exact) <= proof.product_move


def test_without_proof_a_certified_flow_goes_on_to_its_end():
    """Rank one of a 4 x 3 matrix: the smallest singular value proves nothing."""
    run = rectangular(2, init=depthrank.Balanced(1e-4 * OUTER), certify=0.1)
    assert run.stopped_by == "fitted"
    assert run.certificate is not None
    assert not run.certificate.certified
    assert rectangular(2).certificate is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 1}, "certify was given with weight_decay=0, depth 1 and no validation set"),
        ({"depth": 2, "weight_decay": 0.1}, "weight_decay=0.1, depth 2"),
        ({"depth": 3, "init": Gaussian(1e-2)}, "certify was given with a start of imbalance"),
        ({"depth": 2, "certify": -1.0}, "certify is -1.0; it must lie between 0 and inf"),
    ],
)
def test_what_cannot_be_certified_is_refused(options, message):
    with pytest.raises(DepthrankError, match=message):
        rectangular(**({"certify": 0.1} | options))


# --- conservation and monotonicity ----------------------------------------------------------


def test_gf09_imbalance_is_conserved():
    factors = (np.array([[0.1, 0.2], [0.0, 0.3]]), np.array([[0.3, 0.0], [0.1, 0.2]]))
    seen = Observations.from_dense([[1.0, 2.0], [3.0, np.nan]])
    run = flow(seen, factors=factors, rtol=1e-10)
    assert run.imbalance_drift < 1e-6
    loose = flow(seen, factors=factors, rtol=1e-3)
    assert run.imbalance_drift < loose.imbalance_drift < 1e-1
    np.testing.assert_allclose(run.end_to_end.ravel()[:3], [1, 2, 3], atol=1e-4)


def test_ev08_observed_loss_never_rises():
    run = rectangular(3, init=Gaussian(1e-3))
    assert (np.diff(run.data.step_loss) <= 1e-10).all()
    assert (np.diff(run.data.loss) <= 1e-10).all()


@pytest.mark.parametrize("solver", ["auto", "chebyshev", "tsit5", "dopri8"])
def test_solvers_agree(solver):
    run = rectangular(2, init=Gaussian(0.5), solver=solver, rtol=1e-8, tol=1e-14)
    reference = rectangular(2, init=Gaussian(0.5), solver="dopri8", rtol=1e-11, tol=1e-14)
    assert run.stopped_by == "fitted"
    np.testing.assert_allclose(run.end_to_end, reference.end_to_end, atol=2e-5)


def test_the_implicit_solver_agrees_on_a_small_problem():
    run = scalar(2.0, 2, 0.01, solver="kvaerno5", max_time=1.5)
    assert run.end_to_end[0, 0] == pytest.approx(1.339341, abs=1e-4)


# --- endings --------------------------------------------------------------------------------


def test_gf02_and_gf17_a_target_out_of_reach_ends_stationary():
    with pytest.warns(UserWarning, match="stationary point that does not fit"):
        run = scalar(-1.0, 2, 0.01)
    assert run.stopped_by == "stationary"
    assert not run.converged
    assert run.end_to_end[0, 0] == pytest.approx(0.0, abs=1e-4)
    assert run.loss == pytest.approx(0.5, abs=1e-4)


def test_gf05_the_step_limit_returns_what_there_is():
    with pytest.warns(UserWarning, match="step limit was reached; raise max_steps"):
        run = scalar(2.0, 2, 0.01, max_steps=5)
    assert (run.stopped_by, run.steps) == ("steps", 5)
    assert np.isfinite(run.data.loss).all()
    assert run.data.time[-1] == run.time > 0


def test_gf16_saved_times_are_the_requested_ones():
    times = np.linspace(0, 5.9, 60)
    run = scalar(2.0, 2, 0.01, times=times)
    np.testing.assert_array_equal(run.data.time, times)
    assert (np.diff(run.data.loss) <= 0).all()


def test_ends_at_the_time_asked_for():
    run = scalar(2.0, 2, 0.01, max_time=1.5)
    assert run.stopped_by == "time"
    assert run.time == 1.5
    assert run.end_to_end[0, 0] == pytest.approx(1.339341, abs=1e-5)


def test_a_zero_start_never_moves():
    with pytest.warns(UserWarning, match="stationary"):
        run = flow(Observations.from_dense([[2.0]]), factors=(np.zeros((1, 1)),) * 2)
    assert (run.stopped_by, run.time) == ("stationary", 0.0)


def test_no_observations_and_zero_targets_are_ordinary():
    nothing = flow(Observations.from_dense(np.full((4, 3), np.nan)), depth=2)
    assert (nothing.stopped_by, nothing.steps) == ("fitted", 0)
    zero = flow(Observations.from_dense(np.zeros((4, 3))), depth=2, init=Gaussian(1.0), tol=1e-6)
    assert zero.stopped_by == "fitted"
    assert zero.observed_mse < 1e-5


def test_the_tiniest_starts_escape():
    """A plateau of flow time 3e23 is not mistaken for a resting point."""
    run = scalar(1.0, 5, 1e-40, tol=1e-12)
    assert run.stopped_by == "fitted"
    assert run.time == pytest.approx(1e24 / 3, rel=1e-3)


@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_data_of_any_scale(scale):
    seen = Observations.from_mask(scale * OUTER, SPARSE)
    run = flow(seen, depth=2, width=4, init=Gaussian(1e-6 * scale))
    assert run.stopped_by == "fitted"
    assert run.end_to_end[0, 2] / scale == pytest.approx(3.0, abs=1e-2)


def test_interruption_returns_the_state_reached(monkeypatch):
    calls = []

    def press(self, now):
        calls.append(now)
        if len(calls) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(Run, "_show", press)
    run = rectangular(3, init=Gaussian(1e-3))
    assert run.stopped_by == "interrupted"
    assert run.time > 0
    assert np.isfinite(run.end_to_end).all()


def test_wall_clock_budget_and_progress():
    told: list[Progress] = []
    slow = Observations.from_mask(np.eye(10), patterns.diagonal((10, 10)))
    run = flow(
        slow,
        depth=2,
        init=AlphaM(0.01, 2.0),
        solver="chebyshev",
        rtol=1e-11,
        wall_clock=1.0,
        progress=told.append,
    )
    assert run.stopped_by == "wall-clock"
    assert 1.0 < run.seconds < 30.0
    assert told
    assert told[0].start_mse > told[-1].observed_mse > told[-1].tol_mse
    assert (np.diff([p.steps for p in told]) > 0).all()


def test_validation_returns_the_best_state_ev04():
    """EV-04: the returned state has the smallest validation error of the history."""
    rng = np.random.default_rng(0)
    truth = np.outer(rng.normal(size=8), rng.normal(size=7))
    noisy = Observations.from_dense(truth + 0.3 * rng.normal(size=truth.shape))
    train, held_out = noisy.split(0.2, seed=0)
    run = flow(train, depth=2, init=Gaussian(1e-3), validation=held_out)
    assert run.stopped_by == "validation"
    history = run.data.step_validation_mse.values
    assert len(history) == len(run.data.step_loss)
    assert run.validation_mse == pytest.approx(history.min(), rel=1e-9)
    error = run.end_to_end[held_out.rows, held_out.cols] - held_out.values
    assert np.mean(error**2) == pytest.approx(run.validation_mse, rel=1e-9)


# --- precision, seeds ------------------------------------------------------------------------


def test_rp01_same_seed_same_bits():
    first = rectangular(3, init=Gaussian(1e-3), seed=5)
    second = rectangular(3, init=Gaussian(1e-3), seed=5)
    other = rectangular(3, init=Gaussian(1e-3), seed=6)
    np.testing.assert_array_equal(first.end_to_end, second.end_to_end)
    assert np.abs(first.factors[0] - other.factors[0]).max() > 1e-3


def test_dv03_single_precision_agrees():
    double = rectangular(3, init=Gaussian(1e-3))
    single = rectangular(3, init=Gaussian(1e-3), dtype="float32", tol=1e-9, rtol=1e-5)
    np.testing.assert_allclose(single.end_to_end, double.end_to_end, atol=1e-3)


def test_single_precision_ends_at_its_own_rounding_of_the_time():
    run = scalar(2.0, 2, 0.01, dtype="float32", max_time=1.3, tol=1e-9, rtol=1e-5)
    assert run.stopped_by == "time"
    assert run.time == float(np.float32(1.3)) < 1.3


def test_importing_leaves_jax_in_its_own_precision():
    import jax

    scalar(2.0, 2, 0.01, max_time=0.1)
    assert not jax.config.read("jax_enable_x64")


def test_gf14_observed_mse_is_the_mean_over_observed_cells():
    """GF-14: 10 x 10, 20 cells observed, every residual 0.1: observed MSE 0.01."""
    seen = patterns.uniform((10, 10), count=20, seed=0)
    factors = (np.eye(10), np.full((10, 10), 0.3))
    run = flow(
        Observations.from_mask(np.full((10, 10), 0.2), seen), factors=factors, max_time=1e-12
    )
    assert run.observed_mse == pytest.approx(0.01, rel=1e-6)
    assert run.loss == pytest.approx(0.5 * 20 * 0.01, rel=1e-6)


# --- what is refused -------------------------------------------------------------------------

SEEN = Observations.from_mask(OUTER, SPARSE)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "depth is missing"),
        ({"depth": 0}, "depth is 0; it must be an integer >= 1"),
        ({"depth": 2, "tol": -1.0}, "tol is -1.0; it must lie between 0 and 1"),
        ({"depth": 2, "rtol": 0.5}, "rtol is 0.5"),
        ({"depth": 2, "max_steps": 0}, "max_steps is 0"),
        ({"depth": 2, "weight_decay": np.nan}, "weight_decay is nan"),
        ({"depth": 2, "solver": "euler"}, "solver is 'euler'; it must be one of auto, chebyshev"),
        ({"depth": 2, "record": "all"}, "record is 'all'"),
        ({"depth": 2, "dtype": "int8"}, "dtype is 'int8'"),
        ({"depth": 2, "times": [1.0, 0.5]}, "strictly increasing"),
        ({"factors": (np.ones((4, 2)), np.ones((4, 4)))}, r"\(4, 3\)"),
        ({"factors": (np.ones((4, 3)),), "width": 2}, "Both factors and init or width"),
        ({"factors": (np.ones((4, 3)),), "depth": 2}, "depth is 2 but 1 factors were given"),
        ({"depth": 2, "validation": Observations.from_dense([[1.0]])}, "validation has shape"),
    ],
)
def test_refusals_say_what_is_wrong(options, message):
    with pytest.raises(DepthrankError, match=message):
        flow(SEEN, **options)


def test_me02_a_dense_flow_that_cannot_fit_says_how_much_it_needs():
    huge = Observations.from_coordinates([0, 199_999], [0, 199_999], [1.0, 2.0])
    with pytest.raises(DepthrankError, match=r"needs .* GiB"):
        flow(huge, depth=2, width=2)


def test_the_implicit_solver_refuses_large_problems_with_advice():
    wide = Observations.from_dense(np.ones((300, 200)))
    with pytest.raises(DepthrankError, match=r"kvaerno5 with .* parameters needs .*solver='auto'"):
        flow(wide, depth=3, solver="kvaerno5")


def test_good_runs_do_not_warn_nu09():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run = rectangular(3, init=Gaussian(1e-3))
    assert run.converged
    assert depthrank.Trajectory is type(run)
