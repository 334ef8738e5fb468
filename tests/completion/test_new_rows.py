"""Rows that the fit never saw: folded in one by one, the model left as it is."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from depthrank import DepthrankError, Observations
from depthrank.completion.estimator import DeepMatrixCompletion
from depthrank.completion.foldin import column_space
from tests.completion.reference import NAN, reference


@pytest.fixture(scope="module")
def ws01() -> DeepMatrixCompletion:
    return reference().fit(np.outer(np.arange(1.0, 11), [1, 2, 3]))


def test_ws01_a_new_row_is_filled_and_the_model_unchanged(ws01):
    old = np.array([[2.0, NAN, 6]])
    before, factors = ws01.transform(old), [W.copy() for W in ws01.factors_]
    assert ws01.transform([[11, NAN, 33]])[0, 1] == pytest.approx(22, rel=0.02)
    np.testing.assert_array_equal(ws01.transform(old), before)
    for W, kept in zip(ws01.factors_, factors, strict=True):
        np.testing.assert_array_equal(W, kept)


def test_ws02_an_empty_new_row_gets_column_means(ws01):
    filled = ws01.transform([[NAN, NAN, NAN]])
    np.testing.assert_allclose(filled, [[5.5, 11, 16.5]])


def test_ws03_another_number_of_columns_is_refused_with_both_counts(ws01):
    with pytest.raises(ValueError, match=r"2 features.*expecting 3 features"):
        ws01.transform([[1, 2]])
    with pytest.raises(DepthrankError, match=r"2 columns.*expecting 3 features"):
        ws01.transform(Observations.from_dense([[1.0, 2.0]]))
    frame = pd.DataFrame(np.outer([1.0, 2, 3], [1, 2, 3]), columns=["a", "b", "c"])
    model = reference().fit(frame)
    with pytest.raises(ValueError, match=r"(?s)unseen at fit time.*- d.*missing.*- c"):
        model.transform(frame.rename(columns={"c": "d"}))
    with pytest.raises(ValueError, match="same order"):
        model.transform(frame[["a", "c", "b"]])
    labelled = Observations.from_frame(frame[["a", "c", "b"]])
    with pytest.raises(DepthrankError, match="in another order"):
        model.transform(labelled)
    with pytest.raises(DepthrankError, match="such as 'd'"):
        model.transform(Observations.from_frame(frame.rename(columns={"c": "d"})))


def test_ws10_a_column_that_was_complete_is_estimated_not_averaged():
    model = reference().fit([[1, 2], [3, 6], [4, 8], [10, 20]])
    assert model.transform([[6, NAN]])[0, 1] == pytest.approx(12, rel=0.02)


def test_sk05_rows_are_filled_one_by_one(ws01):
    rng = np.random.default_rng(3)
    X = np.outer(rng.uniform(1, 20, 5), [1, 2, 3]) + rng.normal(size=(5, 3))
    X[np.arange(5), [0, 1, 2, 0, 1]] = NAN
    together = ws01.transform(X)
    apart = np.vstack([ws01.transform(X[[i]]) for i in range(5)])
    np.testing.assert_allclose(apart, together, rtol=1e-6)


def test_training_rows_come_out_as_in_training():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(9, 5))
    X[rng.random(X.shape) < 0.3] = NAN
    model = reference(tol=1e-3)
    np.testing.assert_allclose(model.fit_transform(X), model.transform(X), rtol=1e-12)
    np.testing.assert_allclose(model.transform(X[[4]]), model.transform(X)[[4]], rtol=1e-12)


def test_offsets_of_a_new_row_are_its_own():
    X = np.add.outer(np.arange(12.0), [0.0, 5, 1, 2])
    model = reference(offsets="both").fit(X)
    assert model.transform([[30, NAN, 31, 32]])[0, 1] == pytest.approx(35, rel=0.02)


def test_an_empty_column_gets_the_mean_of_the_new_row():
    X = np.outer([1.0, 2, 3], [1, 2, 3])
    X[:, 1] = NAN
    assert reference().fit(X).transform([[4, NAN, 12]])[0, 1] == pytest.approx(8)


def test_folding_in_is_the_posterior_mean():
    """Ridge in the coordinates of unit spread: the closed form with an explicit inverse."""
    rng = np.random.default_rng(5)
    factors = tuple(rng.normal(size=size) for size in ((4, 6), (3, 4), (8, 3)))
    space = column_space(factors, n_rows=8, noise=0.3)
    W = factors[2] @ factors[1] @ factors[0]
    np.testing.assert_allclose(space.directions @ space.directions.T, W.T @ W / 8, atol=1e-10)
    cols, values = np.array([0, 2, 5]), np.array([1.0, -2.0, 0.5])
    spread = W.T @ W / 8
    weights = np.linalg.solve(spread[np.ix_(cols, cols)] + 0.09 * np.eye(3), values)
    np.testing.assert_allclose(space.fold(cols, values), spread[:, cols] @ weights, atol=1e-9)


def test_folding_in_against_a_single_factor():
    W = np.outer([1.0, 2.0], [1.0, 3.0])
    folded = column_space((W,), n_rows=2, noise=0.0).fold(np.array([0]), np.array([2.0]))
    np.testing.assert_allclose(folded, [2.0, 6.0], rtol=1e-6)


def test_sk03_pipeline_and_grid_search():
    rng = np.random.default_rng(6)
    truth = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 6))
    X = np.where(rng.random(truth.shape) < 0.2, NAN, truth)
    pipeline = make_pipeline(StandardScaler(), DeepMatrixCompletion(random_state=0), Ridge(0.1))
    search = GridSearchCV(pipeline, {"deepmatrixcompletion__width": [2, 4]}, cv=3)
    search.fit(X, truth.sum(axis=1))
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_score_ > 0.8
    assert search.best_params_["deepmatrixcompletion__width"] in (2, 4)


def test_score_is_the_error_on_cells_that_are_hidden_in_turn(ws01):
    new = np.outer([12.0, 15.0], [1, 2, 3])
    assert -0.01 < ws01.score(new) <= 0
    assert ws01.score(new + np.array([0, 0, 3.0])) < -1
    assert np.isnan(ws01.score([[NAN, 1, NAN]]))


def test_score_lets_a_grid_search_over_hidden_cells_find_the_rank():
    rng = np.random.default_rng(7)
    truth = rng.normal(size=(30, 2)) @ rng.normal(size=(2, 8))
    X = np.where(rng.random(truth.shape) < 0.2, NAN, truth)
    search = GridSearchCV(reference(), {"width": [1, 2]}, cv=3).fit(X)
    assert search.best_params_ == {"width": 2}
    scores = dict(zip([1, 2], search.cv_results_["mean_test_score"], strict=True))
    assert scores[2] > 0.2 * scores[1]  # both negative
