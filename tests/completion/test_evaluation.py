"""Choosing on held-out cells, early stopping, and errors that say what they are errors of."""

import numpy as np
import pytest

from depthrank import Observations
from depthrank.completion.estimator import DeepMatrixCompletion
from depthrank.completion.offsets import prepare
from depthrank.completion.selection import noise_edge
from tests.completion.reference import NAN, reference


def noisy(m: int, n: int, rank: int, noise: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(m, rank)) @ rng.normal(size=(rank, n))
    return truth, truth + noise * rng.normal(size=truth.shape)


def test_ev03_held_out_means_held_out():
    model = reference().fit([[1, 2], [2, NAN]])
    held_out = Observations.from_mask([[1, 2], [2, 5]], [[0, 0], [0, 1]])
    found = model.evaluate(held_out)
    assert found["rmse"] == pytest.approx(1.0, abs=1e-3)  # the estimate is 4
    assert found["n_scored"] == 1


def test_ev01_unknown_ids_are_counted_apart():
    seen = Observations.from_long(["u1", "u1", "u2"], ["i1", "i2", "i1"], [1, 2, 2])
    model = reference().fit(seen)
    held_out = Observations.from_long(["u2", "u9", "u1"], ["i2", "i1", "i9"], [4, 1, 1])
    found = model.evaluate(held_out)
    assert found["n_scored"] == 1
    assert found["skipped"] == {"rows": 1, "cols": 1, "both": 0}
    assert found["rmse"] == pytest.approx(0, abs=1e-2)


def test_ev05_cells_that_were_in_training_are_left_out_with_a_warning():
    seen = Observations.from_long(["u1", "u1", "u2"], ["i1", "i2", "i1"], [1, 2, 2])
    held_out = Observations.from_long(["u1", "u2"], ["i1", "i2"], [9, 4])
    with pytest.warns(UserWarning, match="1 held-out cells were also in training"):
        found = reference().fit(seen).evaluate(held_out)
    assert (found["n_scored"], found["in_training"]) == (1, 1)
    assert found["rmse"] == pytest.approx(0, abs=1e-2)
    with pytest.warns(UserWarning, match="also in training"):
        assert reference().fit(seen).evaluate(seen)["rmse"] is None


def test_ev04_early_stopping_restores_the_best_state():
    _, X = noisy(8, 8, 1, 0.7, seed=2)
    model = reference(validation_fraction=0.2).fit(X)
    said = model.report_
    assert said["n_validation"] == 13
    (tried,) = said["tried"]
    assert said["validation_rmse"] == tried["validation_rmse"]
    assert said["stopped_by"] == "validation"
    assert said["observed_rmse"] > 0.1  # stopped before it fitted the noise
    assert said["refitted"]


@pytest.fixture(scope="module")
def chosen() -> tuple[np.ndarray, np.ndarray, DeepMatrixCompletion]:
    """Fit ratings-like data: offsets, two factors, and noise larger than the factors."""
    rng = np.random.default_rng(8)
    truth, _ = noisy(60, 25, 2, 0.0, seed=8)
    truth = 3 + 0.4 * truth + rng.normal(size=(60, 1)) + rng.normal(size=25)
    seen = rng.random(truth.shape) < 0.6
    X = np.where(seen, truth + 0.8 * rng.normal(size=truth.shape), NAN)
    return truth, seen, DeepMatrixCompletion(depth="auto", random_state=0).fit(X)


def test_auto_beats_row_and_column_effects_on_noisy_data(chosen):
    truth, seen, model = chosen
    effects = prepare(model._model.observations, "both")
    rows, cols = np.nonzero(~seen)
    error = model.complete()[rows, cols] - truth[rows, cols]
    baseline = effects.base(rows, cols) - truth[rows, cols]
    assert np.mean(error**2) < 0.8 * np.mean(baseline**2)


def test_auto_chooses_offsets_depth_two_and_decay_where_noise_asks_for_them(chosen):
    said = chosen[2].report_
    assert (said["offsets"], said["depth"]) == ("both", 2)
    assert said["weight_decay"] > 0
    assert said["n_validation"] >= 45
    assert said["validation_rmse"] == min(row["validation_rmse"] for row in said["tried"])
    assert len(said["tried"]) >= 3


def test_clean_data_are_polished_without_offsets_and_decay():
    truth, _ = noisy(60, 30, 2, 0.0, seed=9)
    seen = np.random.default_rng(9).random(truth.shape) < 0.6
    model = DeepMatrixCompletion(depth="auto", random_state=0)
    filled = model.fit_transform(np.where(seen, truth, NAN))
    said = model.report_
    assert (said["offsets"], said["weight_decay"]) == ("none", 0.0)
    assert said["stopped_by"] == "fitted"
    assert said["tried"][-1]["finish"] == "polished"
    assert np.linalg.norm(filled - truth) < 1e-9 * np.linalg.norm(truth)


def test_a_fixed_decay_is_the_nuclear_norm_penalty_at_depth_two():
    """Fully observed, singular values lose lambda: soft thresholding."""
    rng = np.random.default_rng(10)
    X = rng.normal(size=(12, 7))
    model = reference(depth=2, weight_decay=1.5, init_scale=1e-3).fit(X)
    u, s, vt = np.linalg.svd(X / np.sqrt(np.mean(X**2)), full_matrices=False)
    W = model.factors_[1] @ model.factors_[0]
    np.testing.assert_allclose(W, (u * np.maximum(s - 1.5, 0)) @ vt, atol=5e-3)


@pytest.mark.parametrize("offsets", ["none", "rows", "columns", "both"])
def test_offsets_are_shrunken_means(offsets):
    X = np.add.outer([0.0, 4, 8], [1.0, 2, 3, 4, 5])
    way = prepare(Observations.from_dense(X), offsets, "none")
    mean = X.mean() if offsets != "none" else 0.0
    rows = 5 / (5 + 5.0) * (X.mean(axis=1) - X.mean()) if offsets in ("rows", "both") else 0.0
    cols = 3 / (3 + 5.0) * (X.mean(axis=0) - X.mean()) if offsets in ("columns", "both") else 0.0
    expected = np.broadcast_to(mean + np.reshape(rows, (-1, 1)) + cols, X.shape)
    i, j = np.indices(X.shape)
    np.testing.assert_allclose(way.base(i, j), expected)


def test_preparation_leaves_a_root_mean_square_of_one():
    rng = np.random.default_rng(0)
    X = rng.normal(0, [1, 20, 300], size=(20, 3))
    for scaling in ("table", "columns"):
        way = prepare(Observations.from_dense(X), "both", scaling)
        assert way.apply(Observations.from_dense(X)).rms == pytest.approx(1)
    assert prepare(Observations.from_dense(X), "none").scaling == "table"
    assert prepare(Observations.from_dense(X * [1, 1, 100]), "none").scaling == "columns"


def test_the_noise_edge_is_the_largest_singular_value_of_noise():
    rng = np.random.default_rng(0)
    mask = rng.random((300, 120)) < 0.4
    seen = Observations.from_mask(rng.normal(size=mask.shape), mask)
    largest = np.linalg.norm(seen.to_dense(fill=0.0), 2)
    assert noise_edge(seen) == pytest.approx(largest, rel=0.05)
