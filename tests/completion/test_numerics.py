"""Scales, precision, endings, seeds and silence."""

import json
import subprocess
import sys

import numpy as np
import pytest

import depthrank
from depthrank import DepthrankError, Observations
from depthrank.completion.estimator import DeepMatrixCompletion
from tests.completion.reference import NAN, SP09, reference


def test_nu01_skewed_values_stay_finite_and_fit():
    u = np.array([1.0] * 18 + [25, 26])
    i, j = np.indices((20, 20))
    X = np.where((7 * i + 3 * j) % 10 < 3, NAN, np.outer(u, u))
    model = DeepMatrixCompletion(random_state=0)
    filled = model.fit_transform(X)
    assert np.isfinite(filled).all()
    assert model.report_["relative_observed_rmse"] < 1e-2
    assert model.report_["stopped_by"] == "fitted"


@pytest.mark.parametrize("settings", [{}, {"scaling": "columns"}, {"offsets": "rows"}])
def test_nu02_a_multiple_of_a_table_is_filled_with_the_multiple(settings):
    first = reference(**settings).fit_transform(SP09)
    for k in (1e-6, 1e6, 1e150):
        np.testing.assert_allclose(reference(**settings).fit_transform(k * SP09) / k, first, 1e-3)


def test_nu03_infinity_is_refused_by_position():
    with pytest.raises(DepthrankError, match=r"(?i)infinit.*row 0, column 0|row 0, column 0.*inf"):
        reference().fit([[np.inf, 1], [2, NAN]])
    reference().fit([[NAN, 1], [2, NAN]])


def test_nu06_columns_of_very_different_size():
    i = np.arange(1.0, 31)
    X = np.column_stack((0.001 * i, 1e6 * i, i))
    X[[4, 14], 0] = NAN
    for scaling in ("columns", "auto"):
        model = reference(scaling=scaling)
        filled = model.fit_transform(X)
        np.testing.assert_allclose(filled[[4, 14], 0], [0.005, 0.015], rtol=0.05)
        assert model.report_["scaling"] == "columns"
    model = reference(scaling="table").fit(X)
    assert any("sizes differ by a factor of" in note for note in model.report_["warnings"])


def test_nu09_well_posed_data_converge_and_say_so():
    i, j = np.indices((10, 8))
    X = np.where((3 * i + 5 * j) % 10 < 7, i + j, NAN)
    model = DeepMatrixCompletion(random_state=0)
    filled = model.fit_transform(X)
    said = model.report_
    assert said["stopped_by"] == "fitted"
    assert said["converged"]
    assert said["criterion_value"] <= said["tolerance"]
    assert "mean squared residual" in said["criterion"]
    assert said["steps"] > 0
    assert said["seconds"] > 0
    assert said["warnings"] == []
    np.testing.assert_allclose(filled, i + j, atol=0.05)


def test_nu12_integers_are_promoted():
    X = np.arange(24, dtype=np.int32).reshape(6, 4) * 100_000
    model = reference(missing=1_000_000)
    filled = model.fit_transform(X)
    assert filled[2, 2] == pytest.approx(1_000_000, rel=0.05)
    assert model.report_["relative_observed_rmse"] < 1e-2


def test_dv03_single_and_double_precision_agree():
    X = np.outer([1.0, 2, 3, 4], [1, 2, 3])
    X[0, 2] = X[3, 0] = NAN
    double = reference().fit_transform(X)
    single = reference(dtype="float32").fit_transform(X)
    assert single.dtype == np.float64
    np.testing.assert_allclose(single, double, atol=1e-3)


def test_rp01_the_same_seed_gives_the_same_bits():
    code = (
        "import numpy as np, sys; from tests.completion.reference import SP09, reference; "
        "sys.stdout.buffer.write(reference().fit_transform(SP09).tobytes())"
    )
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    first, second = (reference().fit_transform(SP09).tobytes() for _ in range(2))
    assert first == second == fresh.stdout


def test_rp03_silent_unless_asked(capfd):
    reference().fit(SP09)
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")


def test_verbose_writes_plain_lines_to_standard_error(capfd):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 12))
    told: list[object] = []
    reference(progress=told.append, tol=1e-14, max_seconds=2.5).fit(X)
    reference(verbose=1, tol=1e-14, max_seconds=2.5).fit(X)
    out, err = capfd.readouterr()
    assert out == ""
    assert "\r" not in err
    assert bool(err) == bool(told)


def test_rp06_a_drawn_seed_is_reported_and_repeats_the_run():
    first = reference(random_state=None)
    filled = first.fit_transform(SP09)
    again = reference(random_state=first.report_["seed"]).fit_transform(SP09)
    np.testing.assert_array_equal(filled, again)
    state = np.random.RandomState(3)
    assert reference(random_state=state).fit(SP09).seed_ >= 0


def test_sk08_fit_starts_afresh():
    rng = np.random.default_rng(0)
    first, second = rng.random((5, 4)), rng.random((3, 6))
    model = reference(tol=1e-4).fit(Observations.from_dense(first, col_labels="abcd"))
    assert model.feature_names_in_.tolist() == list("abcd")
    model.fit(Observations.from_dense(second))
    np.testing.assert_array_equal(model.complete(), reference(tol=1e-4).fit(second).complete())
    assert model.n_features_in_ == 6
    assert not hasattr(model, "feature_names_in_")


def test_the_report_is_plain_and_has_the_keys_of_the_command():
    said = reference().fit(SP09).report_
    keys = (
        "shape n_observed components depth weight_decay init_scale stopped_by observed_rmse "
        "validation_rmse holdout_rmse stable_rank effective_rank warnings seconds"
    )
    assert set(keys.split()) <= set(said)
    assert json.loads(json.dumps(said)) == said
    assert said["threads"] >= 1
    assert said["stable_rank"] == pytest.approx(1, abs=1e-3)


def test_a_start_of_ones_own_is_used():
    start = depthrank.AlphaM(alpha=1e-3, m=2.0)
    model = reference(init=start).fit(SP09)
    assert model.report_["init"] == repr(start)
    assert model.report_["init_scale"] is None
    assert model.complete()[0, 2] == pytest.approx(3, rel=0.01)


def test_depth_one_leaves_hidden_cells_at_their_start():
    model = reference(depth=1)
    filled = model.fit_transform(SP09)
    np.testing.assert_allclose(filled[np.isnan(SP09)], 0, atol=1e-4)
    assert model.report_["stopped_by"] == "fitted"


def test_a_time_limit_keeps_the_best_state_and_says_so():
    rng = np.random.default_rng(0)
    model = reference(max_seconds=0.0).fit(rng.random((4, 3)))
    assert model.report_["stopped_by"] == "wall-clock"
    assert not model.report_["converged"]
    assert np.isfinite(model.complete()).all()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("depth", 0, "depth is 0; it must be a whole number from 1 to 100 or auto"),
        ("depth", 2.5, "depth is 2.5"),
        ("width", 0, "width is 0; it must be a whole number from 1 to inf"),
        ("init_scale", -1.0, "init_scale is -1.0"),
        ("weight_decay", "much", "weight_decay is 'much'; it must be a number"),
        ("validation_fraction", 0.95, "validation_fraction is 0.95"),
        ("tol", np.nan, "tol is nan"),
        ("max_seconds", -1, "max_seconds is -1"),
        ("verbose", True, "verbose is True"),
        ("offsets", "all", "offsets is 'all'; it must be one of auto, none, rows, columns, both"),
        ("scaling", "rows", "scaling is 'rows'; it must be one of auto, table, columns, none"),
        ("dtype", "float16", "dtype is 'float16'"),
        ("duplicates", "sum", "duplicates is 'sum'"),
        ("init", "gaussian", "init is 'gaussian'; it must be a start"),
        ("random_state", -1, "random_state is -1"),
    ],
)
def test_parameters_out_of_range_are_refused_in_fit(name, value, said):
    with pytest.raises(DepthrankError, match=said):
        reference().set_params(**{name: value}).fit(SP09)
