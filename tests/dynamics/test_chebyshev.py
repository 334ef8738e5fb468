"""The Chebyshev solver: measured order, stability to the stated limit, use inside diffrax."""

import diffrax
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from depthrank.dynamics.chebyshev import (
    SAFETY,
    Chebyshev,
    chebyshev_error,
    chebyshev_step,
    longest_step,
    power_step,
    stability_limit,
    stages_needed,
)


@pytest.fixture(autouse=True)
def double():
    with jax.enable_x64(True):
        yield


def logistic(y):
    """Depth-2 flow of one mode: w' = 2 w (1 - w), known in closed form."""
    return (2 * y[0] * (1 - y[0]),)


def exact(t, start):
    return 1 / (1 + (1 / start - 1) * np.exp(-2 * t))


def integrate(stages: float, count: int):
    h = jnp.asarray(1.5 / count)

    def step(_, y):
        return chebyshev_step(logistic, y, logistic(y), h, jnp.asarray(stages))

    return jax.lax.fori_loop(0, count, step, (jnp.full((1, 1), 0.1),))


@pytest.mark.parametrize("stages", [2.0, 3.0, 7.0, 20.0])
def test_order_of_convergence_is_two(stages):
    counts = np.array([20, 40, 80, 160])
    errors = [abs(float(integrate(stages, int(c))[0][0, 0]) - exact(1.5, 0.1)) for c in counts]
    order = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert order == pytest.approx(2.0, abs=0.15)


def test_error_estimate_has_order_three_and_errs_on_the_safe_side():
    y0 = (jnp.full((1, 1), 0.1),)
    estimates, errors = [], []
    for h in (0.02, 0.01):
        step = jnp.asarray(h)
        y1 = chebyshev_step(logistic, y0, logistic(y0), step, jnp.asarray(20.0))
        estimates.append(float(chebyshev_error(y0, y1, logistic(y0), logistic(y1), step)[0][0, 0]))
        errors.append(exact(h, 0.1) - float(y1[0][0, 0]))
    assert np.log2(estimates[0] / estimates[1]) == pytest.approx(3.0, abs=0.1)
    assert estimates[1] / errors[1] == pytest.approx(2.0, abs=0.3)


def test_error_estimate_judges_the_step_of_a_better_method():
    h = jnp.asarray(0.01)
    y0 = (jnp.full((1, 1), 0.1),)
    better = (jnp.full((1, 1), exact(0.01, 0.1)),)
    own = chebyshev_step(logistic, y0, logistic(y0), h, jnp.asarray(20.0))
    estimate = float(chebyshev_error(y0, better, logistic(y0), logistic(better), h)[0][0, 0])
    assert estimate == pytest.approx(exact(0.01, 0.1) - float(own[0][0, 0]), rel=0.25)


@pytest.mark.parametrize("stages", [2, 3, 5, 10, 50, 200])
def test_stable_up_to_the_stated_limit_and_not_far_beyond(stages):
    limit = float(stability_limit(stages))
    s = jnp.asarray(float(stages))

    @jax.jit
    def step(z):
        y = (jnp.ones((1, 1)),)
        return chebyshev_step(lambda y: (-y[0],), y, (-y[0],), z, s)[0][0, 0]

    def growth(z):
        return abs(float(step(jnp.asarray(z))))

    inside = [growth(z) for z in np.linspace(0.02, 0.999, 60) * limit]
    assert max(inside) <= 1.0
    assert max(inside[30:]) < 0.75 or stages < 5  # well damped in the stiff half
    assert growth((1.15 if stages >= 5 else 2.0) * limit) > 1.0  # few stages reach further


def test_limit_grows_with_the_square_of_the_stages():
    assert float(stability_limit(200)) / 200**2 == pytest.approx(0.54, abs=0.01)


@pytest.mark.parametrize("h_rho", [0.1, 1.0, 2.1, 10.0, 123.0, 2000.0, 21_000.0])
def test_stages_needed_cover_the_step(h_rho):
    stages = float(stages_needed(jnp.asarray(h_rho)))
    assert float(stability_limit(stages)) >= h_rho
    if stages > 3:
        assert float(stability_limit(stages - 2)) < h_rho


def test_longest_step_is_covered_by_the_largest_stage_count():
    rho = jnp.asarray(37.0)
    h = longest_step(rho, 50)
    assert float(stages_needed(h * rho, 50)) == 50
    assert float(h * rho) <= float(stability_limit(50))


def test_power_iteration_finds_the_spectral_radius():
    spectrum = jnp.array([[0.3, 1.0, 7.5, 20.0]])

    def field(y):
        return (-spectrum * y[0],)

    y = (jnp.ones((1, 4)),)
    rho, direction = power_step(field, y, field(y), field(y))
    for _ in range(8):
        rho, direction = power_step(field, y, field(y), direction)
    assert float(rho) == pytest.approx(SAFETY * 20.0, rel=1e-3)


def test_power_iteration_survives_a_zero_field():
    y = (jnp.zeros((2, 3)),)
    rho, direction = power_step(lambda y: (0 * y[0],), y, y, y)
    assert float(rho) == 0.0
    assert np.isfinite(np.asarray(direction[0])).all()


def test_runs_as_a_diffrax_solver_on_a_stiff_problem():
    rates = jnp.geomspace(1.0, 1e4, 9).reshape(3, 3)
    term = diffrax.ODETerm(lambda t, y, args: (-rates * (y[0] - 1.0),))
    solution = diffrax.diffeqsolve(
        term,
        Chebyshev(),
        t0=0.0,
        t1=2.0,
        dt0=1e-5,
        y0=(jnp.zeros((3, 3)),),
        stepsize_controller=diffrax.PIDController(rtol=1e-5, atol=1e-7),
        saveat=diffrax.SaveAt(ts=jnp.array([0.5, 2.0])),
        max_steps=2000,
    )
    expected = 1 - np.exp(-np.asarray(rates)[None] * np.array([0.5, 2.0])[:, None, None])
    np.testing.assert_allclose(solution.ys[0], expected, atol=2e-4)
    assert int(solution.stats["num_steps"]) < 400  # an explicit classical method needs 6,000
