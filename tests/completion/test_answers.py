"""Questions to a fitted table: why, what next, within which bounds."""

import numpy as np
import pandas as pd
import pytest

from depthrank import DeepMatrixCompletion, DepthrankError, Observations
from tests.completion.reference import NAN


@pytest.fixture(scope="module")
def table():
    g = np.random.default_rng(0)
    X = 3 + g.normal(size=(60, 2)) @ g.normal(size=(2, 25)) + 0.3 * g.normal(size=(60, 25))
    X[g.random(X.shape) < 0.2] = NAN
    return pd.DataFrame(X, index=[f"r{i}" for i in range(60)], columns=[f"c{j}" for j in range(25)])


@pytest.fixture(scope="module")
def model(table):
    return DeepMatrixCompletion(random_state=0).fit(table)


def test_explain_predicts_how_the_estimate_moves(table, model):
    i, j = map(int, np.argwhere(table.isna().to_numpy())[0])
    reasons = model.explain(table.index[i], table.columns[j], n=100)
    assert all(why["row"] == table.index[i] or why["col"] == table.columns[j] for why in reasons)
    weights = [abs(why["weight"]) for why in reasons]
    assert weights == sorted(weights, reverse=True)
    first = reasons[0]
    assert table.loc[first["row"], first["col"]] == first["value"]
    # The model fitted to the moved cell moves the same way, and by about as much.
    moved = table.copy()
    moved.loc[first["row"], first["col"]] += 1.0
    again = DeepMatrixCompletion(random_state=0).fit(moved)
    args = ([table.index[i]], [table.columns[j]])
    change = float(again.predict(*args)[0] - model.predict(*args)[0])
    assert np.sign(change) == np.sign(first["weight"])
    assert change == pytest.approx(first["weight"], abs=0.6 * abs(first["weight"]) + 0.05)


def test_top_missing_are_the_largest_estimates_of_missing_cells(table, model):
    row = table.index[3]
    found = model.top_missing(row, n=4)
    missing = table.columns[table.loc[row].isna()]
    estimates = dict(zip(missing, model.predict([row] * len(missing), missing), strict=True))
    expected = sorted(estimates.items(), key=lambda pair: -pair[1])[:4]
    assert [name for name, _ in found] == [name for name, _ in expected]
    np.testing.assert_allclose([x for _, x in found], [x for _, x in expected])


def test_ev07_bounds_and_whole_numbers_with_both_errors(table):
    model = DeepMatrixCompletion(random_state=0, bounds=(2.5, 4), integers=True).fit(table)
    filled = model.complete()
    holes = table.isna().to_numpy()
    assert set(np.unique(filled[holes])) <= {2.5, 3.0, 4.0}
    np.testing.assert_array_equal(filled[~holes], table.to_numpy()[~holes])
    plain = DeepMatrixCompletion(random_state=0).fit(table)
    assert plain.complete()[holes].max() > 4
    aside = Observations.from_frame(pd.DataFrame(np.full(table.shape, 3.0), *table.axes))
    with pytest.warns(UserWarning, match="also in training"):
        errors = model.evaluate(aside)
    assert 0 < errors["rmse_limited"] < errors["rmse"]


@pytest.mark.parametrize("bounds", [(5, 1), (1,), 3])
def test_bounds_the_wrong_way_round_are_refused(bounds):
    with pytest.raises(DepthrankError, match=r"bounds is .*two numbers, the lower first"):
        DeepMatrixCompletion(bounds=bounds).fit(np.eye(3))


def test_set_output_keeps_labels(table):
    model = DeepMatrixCompletion(random_state=0).set_output(transform="pandas")
    filled = model.fit_transform(table)
    assert list(filled.index) == list(table.index)
    assert list(filled.columns) == list(model.get_feature_names_out()) == list(table.columns)


def test_intervals_are_kept_in_the_model_file(table, model, tmp_path):
    model.save(tmp_path / "m.depthrank")
    again = DeepMatrixCompletion.load(tmp_path / "m.depthrank")
    args = (list(table.index[:5]), list(table.columns[:5]))
    np.testing.assert_allclose(again.predict_interval(*args), model.predict_interval(*args))


def test_a_grid_search_over_hidden_cells_finds_the_effects():
    from examples.grid_search import main

    search = main()
    assert search.best_params_["offsets"] != "none"
    assert -search.best_score_ < 0.6
