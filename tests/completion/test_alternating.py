"""Sweeps of ridge regressions: they come to rest where the flow under decay does."""

import numpy as np
import pytest

from depthrank import Observations, imbalance
from depthrank.completion.alternating import right_factor, sweep
from depthrank.initialization import Balanced

RNG = np.random.default_rng(10)
X = RNG.normal(size=(12, 7))


def factors(noise: float) -> tuple[np.ndarray, ...]:
    return Balanced(X + noise * RNG.normal(size=X.shape))((7, 7, 12))


def test_fully_observed_the_end_is_soft_thresholding():
    seen = Observations.from_dense(X)
    found = sweep(seen, right_factor(factors(0.1), 7, 0), 1.5, sweeps=2000)
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    W1, W2 = found.factors
    np.testing.assert_allclose(W2 @ W1, (U * np.maximum(s - 1.5, 0)) @ Vt, atol=0.05)
    assert imbalance(found.factors) < 1e-10
    assert found.mse == pytest.approx(np.mean((W2 @ W1 - X) ** 2))


def test_every_sweep_lowers_the_loss_and_ends_near_a_stationary_point():
    seen = Observations.from_mask(X, RNG.random(X.shape) < 0.7)
    mask, goal = seen.mask(), seen.to_dense(fill=0.0)
    losses = []
    for count in (1, 2, 4, 100):
        W1, W2 = sweep(seen, right_factor(factors(0.3), 7, 0), 0.5, sweeps=count).factors
        R = mask * (W2 @ W1 - goal)
        losses.append(0.5 * np.sum(R**2) + 0.25 * (np.sum(W1**2) + np.sum(W2**2)))
        slope = max(np.abs(W2.T @ R + 0.5 * W1).max(), np.abs(R @ W1.T + 0.5 * W2).max())
    assert losses == sorted(losses, reverse=True)
    assert slope < 0.05


def test_the_state_of_the_smallest_held_out_error_is_kept():
    seen = RNG.random(X.shape) < 0.7
    train, rest = Observations.from_mask(X, seen), Observations.from_mask(X, ~seen)
    right = right_factor(factors(0.3), 7, 0)
    best = sweep(train, right, 0.1, held_out=rest, sweeps=20)
    every = [sweep(train, right, 0.1, sweeps=k) for k in range(1, best.sweeps + 2)]
    errors = [np.mean(((s.factors[1] @ s.factors[0]) - X)[~seen] ** 2) for s in every]
    assert int(np.argmin(errors)) + 1 == best.sweeps
    assert best.held_out_mse == pytest.approx(min(errors))


def test_what_is_known_of_the_columns():
    low = np.outer(np.arange(1.0, 13), np.arange(1.0, 8))
    right = right_factor(Balanced(low)((7, 7, 12)), 9, 0)
    assert right.shape == (5, 9)
    assert not right[:, 7:].any()
    cosine = right[0, :7] @ np.arange(1.0, 8) / np.linalg.norm(right[0]) / np.sqrt(140)
    assert abs(cosine) == pytest.approx(1)
