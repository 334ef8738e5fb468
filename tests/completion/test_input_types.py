"""What a table may come as: dense, frames, sparse, long; the answer must not depend on it."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse

from depthrank import DepthrankError, Observations
from depthrank.completion.estimator import DeepMatrixCompletion
from tests.completion.reference import NAN, SP09, reference


def test_dt01_none_is_missing_and_text_is_refused_by_column():
    frame = pd.DataFrame({"a": pd.Series([1, None, 3], dtype=object), "c": [2.0, 4.0, 6.0]})
    assert reference().fit_transform(frame)[1, 0] == pytest.approx(2, rel=0.02)
    frame["b"] = ["2", "x", "6"]
    with pytest.raises(DepthrankError, match=r"(?s)'b'.*'x'"):
        reference().fit(frame)


def test_dt02_labels_and_their_order_survive():
    frame = pd.DataFrame([[1, 2], [2, NAN], [3, 6]], index=["r2", "r1", "r3"], columns=["b", "a"])
    model = reference().set_output(transform="pandas")
    filled = model.fit_transform(frame)
    assert filled.index.tolist() == ["r2", "r1", "r3"]
    assert filled.columns.tolist() == ["b", "a"]
    assert filled.loc["r1", "a"] == pytest.approx(4, rel=0.02)
    assert model.get_feature_names_out().tolist() == ["b", "a"]
    assert model.predict(["r1"], ["a"])[0] == pytest.approx(filled.loc["r1", "a"], rel=1e-9)


def test_polars_in_polars_out():
    frame = pl.DataFrame({"x": [1.0, 2.0, 3.0], "y": [2.0, None, 6.0]})
    filled = reference().set_output(transform="polars").fit_transform(frame)
    assert filled.columns == ["x", "y"]
    assert filled["y"][1] == pytest.approx(4, rel=0.02)


def test_dt03_nullable_integers():
    frame = pd.DataFrame({"a": [1, pd.NA, 3], "b": [2, 4, pd.NA]}, dtype="Int64")
    filled = reference().fit_transform(frame)
    assert filled.dtype == np.float64
    assert np.isfinite(filled).all()
    np.testing.assert_array_equal(filled[0], [1, 2])


def test_dt04_a_text_column_is_named():
    frame = pd.DataFrame({"x": [1.0, 2], "y": [2.0, NAN], "city": ["Ulm", "Graz"]})
    with pytest.raises(DepthrankError, match="city"):
        reference().fit(frame)


def test_dt06_a_marker_for_missing_cells():
    X = np.array([[1, 2], [2, -1]])
    model = reference(missing=-1).fit(X)
    assert model.report_["n_observed"] == 3
    filled = model.transform(X)
    assert filled.dtype == np.float64
    assert filled[1, 1] == pytest.approx(4, rel=0.02)
    assert filled[1, 1] != int(filled[1, 1])
    assert reference().fit(X).report_["n_observed"] == 4


def test_dt08_input_is_not_changed():
    X, copy = SP09.copy(), SP09.copy()
    reference().fit(X).transform(X)
    np.testing.assert_array_equal(X, copy)


def test_dt10_lists_orders_and_read_only_arrays_agree():
    frozen = np.array([[1, 2], [2, 4], [3, NAN]])
    frozen.setflags(write=False)
    forms = [frozen.tolist(), np.ascontiguousarray(frozen), np.asfortranarray(frozen), frozen]
    first, *others = (reference().fit_transform(form) for form in forms)
    for other in others:
        np.testing.assert_allclose(other, first, rtol=1e-12)
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        reference().fit([1, NAN, 3])


def test_masked_arrays():
    masked = reference().fit_transform(np.ma.masked_invalid(SP09))
    np.testing.assert_array_equal(masked, reference().fit_transform(SP09))


def test_sp01_a_stored_zero_is_observed_an_absent_entry_missing():
    csr = sparse.csr_array(([5.0, 0.0, 3.0], [0, 1, 2], [0, 2, 3]), shape=(2, 3))
    model = reference()
    filled = model.fit_transform(csr)
    assert (model.report_["n_observed"], model.report_["n_missing"]) == (3, 3)
    dense = reference().fit_transform([[5, 0, NAN], [NAN, NAN, 3]])
    np.testing.assert_allclose(filled, dense, atol=1e-6)


def test_sp02_duplicates_follow_the_rule_and_are_counted():
    coo = sparse.coo_array(([4.0, 5.0, 2.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    for rule, value in {"mean": 4.5, "first": 4.0, "last": 5.0}.items():
        model = reference(duplicates=rule)
        assert model.fit_transform(coo)[0, 1] == value
        assert model.report_["duplicates"] == 1
    with pytest.raises(DepthrankError, match="row 0, column 1"):
        reference(duplicates="error").fit(coo)


def test_sp04_a_number_does_not_find_a_text_label():
    seen = Observations.from_long(["62", "62", "63", "63"], list("abab"), [1, 2, 2, 4])
    model = reference().fit(seen)
    assert model.predict(["62"], ["b"])[0] == pytest.approx(2, rel=1e-3)
    with pytest.warns(UserWarning, match="1 of 1 cells have an unseen row .* row 62;"):
        model.predict([62], ["b"])
    assert model.cell_labels([62], ["b"]).tolist() == ["unseen row"]
    with pytest.raises(DepthrankError, match="unknown row id 62"):
        model.predict([62], ["b"], strict=True)


def test_sp06_unseen_labels_get_a_flagged_fallback():
    seen = Observations.from_long(["u1", "u1", "u2", "u2"], ["i1", "i2"] * 2, [1, 2, 2, 4])
    model = reference().fit(seen)
    rows, cols = ["u1", "u9", "u9"], ["i9", "i1", "i9"]
    with pytest.warns(UserWarning, match="3 of 3 cells have an unseen row or column"):
        answers = model.predict(rows, cols)
    # row mean, column mean, overall mean
    np.testing.assert_allclose(answers, [1.5, 1.5, 2.25])
    flags = model.cell_labels(rows, cols).tolist()
    assert flags == ["unseen column", "unseen row", "unseen row and column"]
    with pytest.raises(DepthrankError, match="'i9'"):
        model.predict(["u1"], ["i9"], strict=True)
    with pytest.raises(DepthrankError, match="'u9'"):
        model.predict(["u9"], ["i1"], strict=True)


def test_sp09_the_form_of_the_input_does_not_matter():
    rows, cols = np.nonzero(~np.isnan(SP09))
    coo = sparse.coo_array((SP09[rows, cols], (rows, cols)), shape=SP09.shape)
    order = np.random.default_rng(0).permutation(len(rows))
    long = Observations.from_long(rows[order], cols[order], SP09[rows, cols][order])
    first = reference().fit_transform(SP09)
    for form in (coo.tocsr(), coo.tocsc(), coo, long, pd.DataFrame(SP09)):
        np.testing.assert_allclose(reference().fit_transform(form), first, rtol=1e-5)


def test_sp11_a_position_out_of_range_is_named_with_the_shape():
    rng = np.random.default_rng(0)
    model = reference(tol=1e-2).fit(np.outer(rng.random(10), rng.random(50)))
    with pytest.raises(DepthrankError, match=r"row 12 is out of range for 10 rows \(50 columns\)"):
        model.predict([12], [0])


def test_sp13_hidden_cells_do_not_matter():
    truth = np.outer([1.0, 2, 3, 4], [1, 2, 3])
    mask = ~np.isnan(SP09)
    results = []
    for hidden in (0.0, 1e6):
        model = reference().fit(Observations.from_mask(np.where(mask, truth, hidden), mask))
        results.append((model.complete(), model.report_["observed_rmse"]))
    np.testing.assert_array_equal(results[0][0], results[1][0])
    assert results[0][1] == results[1][1]


def test_sp14_duplicates_are_one_cell_everywhere():
    twice = sparse.coo_array(([1.0, 3.0, 4.0, 4.0], ([0, 0, 0, 1], [0, 0, 1, 0])), shape=(2, 2))
    once = sparse.coo_array(([2.0, 4.0, 4.0], ([0, 0, 1], [0, 1, 0])), shape=(2, 2))
    a, b = reference().fit(twice), reference().fit(once)
    np.testing.assert_allclose(a.complete(), b.complete(), atol=1e-8)
    assert a.report_["observed_rmse"] == pytest.approx(b.report_["observed_rmse"], abs=1e-8)
    assert a.predict([1], [1])[0] == pytest.approx(8, rel=0.01)


def test_predict_with_a_table_alone_transforms_it_and_refuses_sparse():
    model = DeepMatrixCompletion(random_state=0).fit(SP09)
    np.testing.assert_array_equal(model.predict(SP09), model.transform(SP09))
    with pytest.raises(DepthrankError, match="to fill a sparse table use transform"):
        model.predict(sparse.csr_array(np.eye(3)))
    with pytest.raises(DepthrankError, match="2 rows and 1 columns"):
        model.predict([0, 1], [0])
