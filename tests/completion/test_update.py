"""More data for a fitted table: what is merged, what grows, what is chosen, what is refused."""

import numpy as np
import pandas as pd
import pytest

import depthrank
from depthrank import DeepMatrixCompletion, DepthrankError, Observations
from depthrank.completion import update
from depthrank.completion.merging import grown, merge
from depthrank.completion.offsets import prepare
from tests.completion.reference import NAN, reference


def long(rows, cols, values) -> Observations:
    return Observations.from_long(list(rows), list(cols), np.asarray(values, float))


USERS, ITEMS = ["u1", "u2", "u3"], ["i1", "i2", "i3"]
FIRST = long(np.repeat(USERS, 3), ITEMS * 3, np.outer([1, 2, 3], [1, 2, 3]).ravel())
MORE = long(["u4", "u4", "u1", "u2"], ["i1", "i3", "i4", "i4"], [4, 12, 4, 8])


@pytest.fixture(scope="module")
def noisy():
    rng = np.random.default_rng(0)
    truth = 3 + rng.normal(size=(80, 3)) @ rng.normal(size=(3, 30))
    values = truth + 0.5 * rng.normal(size=truth.shape)
    when = rng.random(truth.shape)
    first = Observations.from_mask(values, when < 0.4)
    model = DeepMatrixCompletion(depth=2, weight_decay=1.3, offsets="both", random_state=0)
    return truth, values, when, model.fit(first)


def copied(model, tmp_path):
    """Return a fitted estimator of its own: partial_fit changes the one it is called on."""
    model.save(tmp_path / "copy.depthrank")
    return DeepMatrixCompletion.load(tmp_path / "copy.depthrank")


def test_ws04_new_rows_and_columns_are_appended_and_estimated():
    model = reference().fit(FIRST)
    assert model.partial_fit(MORE) is model
    table = model._model.observations
    assert table.row_labels == ("u1", "u2", "u3", "u4")
    assert table.col_labels == ("i1", "i2", "i3", "i4")
    found = model.predict(["u4", "u3", "u4"], ["i2", "i4", "i4"])
    np.testing.assert_allclose(found, [8, 12, 16], rtol=0.05)
    said = model.report_
    assert [said[name] for name in ("new_cells", "new_rows", "new_cols")] == [4, 1, 1]
    assert said["strategy"] == "warm"
    assert said["before"]["shape"] == [3, 3]
    assert model.feature_names_in_.tolist() == ["i1", "i2", "i3", "i4"]


def test_ws05_warm_and_cold_side_by_side():
    eye = Observations.from_mask(np.ones((2, 2)), np.eye(2))
    corner = Observations.from_mask(np.ones((2, 2)), [[0, 1], [0, 0]])
    model = reference(depth=2, init=depthrank.Identity(np.sqrt(2)), tol=1e-12).fit(eye)
    model.partial_fit(corner, strategy="warm")
    assert model.complete()[1, 0] == pytest.approx(-0.0347, abs=2e-3)
    assert model.report_["effective_rank"] == pytest.approx(1.819, abs=5e-3)
    assert model.report_["strategy"] == "warm"
    model.set_params(init=None)
    for seed in range(3):
        model.seed_ = seed
        found = update.compare(model)
        assert found["cold"]["effective_rank"] == pytest.approx(1.0, abs=1e-2)
        assert found["model"].complete()[1, 0] == pytest.approx(1.0, abs=2e-3)
        assert found["differ"]
        assert found["largest_difference"] == pytest.approx(1.0347, abs=4e-3)


def test_ws09_a_loaded_model_goes_on_as_the_one_in_memory(tmp_path):
    model = reference().fit(FIRST)
    loaded = copied(model, tmp_path)
    np.testing.assert_allclose(
        model.partial_fit(MORE).complete(), loaded.partial_fit(MORE).complete(), atol=1e-8
    )
    assert copied(loaded, tmp_path).report_["strategy"] == "warm"


def test_ws12_another_depth_or_a_missing_column_is_named():
    frame = pd.DataFrame(np.outer([1.0, 2, 3], [1, 2, 3]), list("xyz"), list("abc"))
    model = reference(depth=2).fit(frame)
    model.set_params(depth=3)
    with pytest.raises(DepthrankError, match="model has depth 2, depth=3 is asked for"):
        model.partial_fit(frame)
    model.set_params(depth=2)
    with pytest.raises(DepthrankError, match="lacks the column 'c'"):
        model.partial_fit(frame[["a", "b"]])
    later = pd.DataFrame([[4.0, NAN, 12]], ["w"], list("abc"))
    ordered = reference(depth=2).fit(frame).partial_fit(later).complete()
    turned = model.partial_fit(later[["a", "c", "b"]]).complete()
    np.testing.assert_allclose(turned, ordered, atol=1e-8)
    assert turned[3, 1] == pytest.approx(8, rel=0.02)


def test_newest_wins_and_is_counted():
    news = merge(FIRST, long(["u2", "u1", "u1"], ["i2", "i1", "i4"], [5, 1, 4]))
    assert news.counts() == {
        "new_cells": 1,
        "corrected": 1,
        "unchanged": 1,
        "new_rows": 0,
        "new_cols": 1,
    }
    assert news.table.shape == (3, 4)
    assert news.table.to_dense()[1, 1] == 5
    assert news.fresh.values.tolist() == [4, 5]
    assert not news.empty


def test_known_cells_only_are_corrected():
    model = reference().fit(FIRST)
    doubled = long(["u3"] * 3, ITEMS, [6, 12, 18])
    model.partial_fit(doubled)
    assert (model.report_["corrected"], model.report_["new_cells"]) == (3, 0)
    np.testing.assert_allclose(model.predict(["u3"] * 3, ITEMS), [6, 12, 18], rtol=1e-3)


def test_nothing_new_leaves_the_model_as_it_is():
    model = reference().fit(FIRST)
    factors = model.factors_
    for new in (FIRST, FIRST.select([])):
        with pytest.warns(UserWarning, match="the model stays as it is"):
            model.partial_fit(new)
        assert model.factors_ is factors
        assert model.report_["strategy"] == "none"
        assert model.report_["predicted_plasticity_loss"] == 0


def test_arrays_are_further_rows():
    model = reference().partial_fit(np.outer([1.0, 2, 3], [1, 2, 3]))
    model.partial_fit([[4.0, NAN, 12]])
    np.testing.assert_allclose(model.complete()[3], [4, 8, 12], rtol=0.02)
    with pytest.raises(ValueError, match=r"2 features.*expecting 3"):
        model.partial_fit([[1.0, 2]])
    labelled = reference().fit(FIRST)
    with (
        pytest.warns(UserWarning, match="feature names"),
        pytest.raises(DepthrankError, match="rows of the fitted table have labels"),
    ):
        labelled.partial_fit([[4.0, NAN, 12]])
    with pytest.raises(DepthrankError, match="rows of the new data have labels"):
        model.partial_fit(MORE)
    with pytest.raises(DepthrankError, match="strategy is 'hot'; it must be one of auto, warm"):
        model.partial_fit([[4.0, NAN, 12]], strategy="hot")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_grown_factors_keep_the_old_table(depth):
    model = reference(depth=depth, width=2).fit(FIRST)._model
    table = merge(FIRST, MORE).table
    way = prepare(table, "none", "table")
    init = depthrank.Gaussian(1e-6)
    factors = grown(model, table, way, lambda sizes: init(sizes, 0), 3)
    W = depthrank.end_to_end(factors) * way.scales
    np.testing.assert_allclose(W[:3, :3], FIRST.to_dense(), rtol=1e-3)
    if depth > 1:
        np.testing.assert_allclose(W[3], [4, 8, 12, 16], rtol=0.02)
        assert factors[0].shape == (3, 4)


def test_auto_on_noisy_data_is_as_good_as_starting_over(noisy, tmp_path):
    truth, values, when, first = noisy
    model = copied(first, tmp_path)
    model.partial_fit(Observations.from_mask(values, (when >= 0.4) & (when < 0.8)))
    said = model.report_
    assert said["n_validation"] >= 80
    assert said["strategies_tried"].keys() >= {"warm"}
    assert said["validation_rmse"] == min(said["strategies_tried"].values())
    cold = update.compare(model)
    hidden = when >= 0.8
    errors = [np.sqrt(np.mean((x.complete() - truth)[hidden] ** 2)) for x in (model, cold["model"])]
    assert errors[0] < 1.1 * errors[1]


def test_auto_starts_over_where_resuming_is_worse(noisy, tmp_path):
    """The old values were of another table: what is kept of them only harms."""
    _, values, when, first = noisy
    model = copied(first, tmp_path)
    model.partial_fit(Observations.from_mask(-3 * values.T.reshape(80, 30), when >= 0))
    said = model.report_
    assert len(said["strategies_tried"]) == 2
    assert "Error on new cells kept aside" in said["reasons"][-1]


def test_interruption_leaves_the_estimator_as_it_was(noisy, tmp_path, monkeypatch):
    _, values, when, first = noisy
    model = copied(first, tmp_path)
    factors, said = model.factors_, model.report_

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("depthrank.completion.candidates.sweep", stop)
    with pytest.raises(KeyboardInterrupt):
        model.partial_fit(Observations.from_mask(values, when < 0.5))
    assert model.factors_ is factors
    assert model.report_ is said


@pytest.mark.parametrize("strategy", ["shrink", "add-depth", "cold"])
def test_strategies_can_be_asked_for(strategy):
    model = reference(depth=2).fit(FIRST).partial_fit(MORE, strategy=strategy)
    assert model.report_["strategy"] == strategy
    assert model.report_["depth"] == (3 if strategy == "add-depth" else 2)
    assert model.predict(["u4"], ["i2"])[0] == pytest.approx(8, rel=0.05)
