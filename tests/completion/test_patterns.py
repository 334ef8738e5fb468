"""Which cells are missing: empty rows and columns, tiny tables, unconnected parts."""

import warnings

import numpy as np
import pytest

from depthrank import DepthrankError, Observations
from depthrank.completion.determine import DETERMINED
from depthrank.completion.estimator import DeepMatrixCompletion
from depthrank.graph import ACROSS, ISOLATED
from tests.completion.reference import NAN, reference, with_holes

OUTER = np.outer([1.0, 2, 3, 4], [1, 2, 3, 4])


def test_mp01_an_empty_column_keeps_its_place_and_is_named():
    X = np.array([[1, NAN, 2], [2, NAN, 4], [3, NAN, 6]])
    model = reference()
    filled = model.fit_transform(X)
    assert filled.shape == (3, 3)
    np.testing.assert_array_equal(filled[:, [0, 2]], X[:, [0, 2]])
    np.testing.assert_allclose(filled[:, 1], [1.5, 3.0, 4.5])  # row means
    assert model.report_["empty_cols"] == [1]
    assert any("columns without an observed cell (1)" in note for note in model.report_["warnings"])
    assert (model.determination_[:, 1] == ISOLATED).all()


def test_mp02_an_empty_column_does_not_touch_the_others():
    X = with_holes(OUTER, (0, 3), (0, 2), (1, 2), (2, 2), (3, 2))
    filled = reference().fit_transform(X)
    without = reference().fit_transform(np.delete(X, 2, axis=1))
    assert np.isfinite(filled).all()
    assert filled[0, 3] == pytest.approx(4, rel=0.02)
    assert filled[0, 3] == pytest.approx(without[0, 2], rel=0.01)


def test_mp03_an_empty_row_holds_marked_column_means():
    model = reference()
    filled = model.fit_transform(with_holes(OUTER, *((3, j) for j in range(4))))
    np.testing.assert_allclose(filled[3], OUTER[:3].mean(axis=0))
    assert model.report_["empty_rows"] == [3]
    assert (model.determination_[3] == ISOLATED).all()


def test_mp05_nothing_to_fill_is_a_normal_outcome():
    model = reference()
    np.testing.assert_array_equal(model.fit_transform([[1, 2], [3, 4]]), [[1, 2], [3, 4]])
    assert any("Nothing to fill" in note for note in model.report_["warnings"])
    assert model.report_["n_missing"] == 0


def test_mp07_one_row_with_gaps_keeps_its_shape():
    model = reference()
    assert model.fit_transform([[1, 2, NAN, 3, 4, NAN]]).shape == (1, 6)
    assert model.determination_[0, [2, 5]].tolist() == [ISOLATED, ISOLATED]


def test_mp08_a_single_observation():
    X = np.full((3, 3), NAN)
    X[1, 1] = 5.0
    model = DeepMatrixCompletion(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        filled = model.fit_transform(X)
    assert filled[1, 1] == 5.0
    assert model.predict([1], [1])[0] == pytest.approx(5, rel=0.01)
    assert model.report_["n_observed"] == 1
    assert model.report_["cells"]["isolated"] == 8
    assert np.isfinite(filled).all()


@pytest.mark.parametrize(("X", "limit"), [([[1, 2], [2, 4], [3, NAN]], 2), ([[1], [2], [NAN]], 1)])
def test_mp10_a_width_beyond_the_table_is_cut_with_a_warning(X, limit):
    model = reference(width=10)
    with pytest.warns(UserWarning, match=f"width 10 is more than .*; {limit} is taken"):
        filled = model.fit_transform(X)
    assert filled.shape == np.shape(X)
    assert model.report_["width"] == limit
    if limit == 2:
        assert filled[2, 1] == pytest.approx(6, rel=0.05)


def test_mp11_one_column_stays_a_column():
    model = reference()
    filled = model.fit_transform([[1], [NAN], [3]])
    assert filled.shape == (3, 1)
    assert model.determination_[1, 0] == ISOLATED
    assert np.isfinite(filled).all()


def test_mp12_a_constant_column_with_column_scaling():
    X = np.array([[5, 1], [5, 2], [5, NAN], [NAN, 4]])
    for offsets in ("none", "columns", "both"):
        model = reference(scaling="columns", offsets=offsets)
        filled = model.fit_transform(X)
        assert np.isfinite(filled).all()
        estimate = model.predict([0, 1, 2, 0, 1, 3], [0, 0, 0, 1, 1, 1])
        np.testing.assert_allclose(estimate, [5, 5, 5, 1, 2, 4], rtol=0.01)


def test_mp14_two_identical_rows():
    filled = reference().fit_transform([[1, 1, NAN], [1, 1, 1], [2, 2, 2]])
    assert filled[0, 2] == pytest.approx(1, rel=0.05)


def test_rows_that_agree_in_every_cell_are_filled_alike():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5, 4))
    X[[1, 3], 2] = NAN
    X[3] = X[1]
    filled = reference(tol=1e-4).fit_transform(X)
    np.testing.assert_array_equal(filled[1], filled[3])


def test_id01_two_parts_are_counted_and_cells_across_them_flagged():
    across = {}
    for depth in (2, 3):
        for seed in range(3):
            model = reference(depth=depth, random_state=seed)
            across[depth, seed] = model.fit_transform([[1, NAN], [NAN, 1]])[0, 1]
            assert model.report_["components"] == 2
            assert model.report_["cells"]["across"] == 2
            assert model.determination_.tolist() == [[0, ACROSS], [ACROSS, 0]]
            assert any("not determined" in note for note in model.report_["warnings"])
    # at depth 3 rank 1 comes out, with a sign that the data leave open
    np.testing.assert_allclose([abs(across[3, seed]) for seed in range(3)], 1, atol=1e-2)
    # at depth 2 the parts never act on each other, and every draw gives another number
    assert np.ptp([across[2, seed] for seed in range(3)]) > 0.05


def test_id03_rows_with_fewer_cells_than_the_rank_are_flagged():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 5))
    X[0, 1:] = NAN
    model = reference().fit(X)
    few_rows, few_cols = model.connectivity_.under_determined(2)
    assert few_rows.tolist() == [0]
    assert few_cols.size == 0


def test_id05_columns_that_share_no_row_are_explained():
    model = reference().fit([[1, NAN], [2, NAN], [NAN, 5], [NAN, 8]])
    assert model.report_["components"] == 2
    assert (model.determination_ == ACROSS).sum() == 4
    assert any("2 unconnected parts; 4 cells" in note for note in model.report_["warnings"])


def test_within_cells_are_told_from_across_cells():
    model = reference().fit([[1, 2, NAN], [2, NAN, NAN], [NAN, NAN, 3]])
    assert model.determination_[1, 1] == DETERMINED
    labels = model.cell_labels([0, 1, 1], [0, 1, 2])
    assert labels.tolist() == ["observed", "determined", "across"]


def test_no_observed_cell_is_refused():
    with pytest.raises(DepthrankError, match="no cell of the 2 x 3 table is observed"):
        reference().fit(np.full((2, 3), NAN))


def test_me02_a_huge_table_is_refused_at_once_with_its_size():
    rng = np.random.default_rng(0)
    rows, cols = rng.integers(0, 200_000, 1000), rng.integers(0, 50_000, 1000)
    seen = Observations.from_coordinates(rows, cols, np.ones(1000), shape=(200_000, 50_000))
    with pytest.raises(DepthrankError, match=r"needs .* GiB"):
        reference().fit(seen)
