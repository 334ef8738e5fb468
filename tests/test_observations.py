"""Observations: one matrix, whichever way it comes; what is refused, and what can be made of it."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

from depthrank import memory
from depthrank.coordinates import Skipped
from depthrank.errors import DepthrankError
from depthrank.observations import Observations

NAN = np.nan
TABLE = np.array([[1, 2, NAN], [2, NAN, 6], [NAN, 6, 9], [4, 8, 12.0]])


def identical(a: Observations, b: Observations) -> bool:
    return (
        a.shape == b.shape
        and np.array_equal(a.rows, b.rows)
        and np.array_equal(a.cols, b.cols)
        and np.array_equal(a.values, b.values)
    )


def holding(shape: Any, rows: Any, cols: Any, values: Any) -> Observations:
    """Call the constructor with lists."""
    return Observations(shape, np.array(rows, int), np.array(cols, int), np.array(values, float))


def cells(observations: Observations) -> list[tuple[int, int, float]]:
    return list(
        zip(
            observations.rows.tolist(),
            observations.cols.tolist(),
            observations.values.tolist(),
            strict=True,
        )
    )


# What is held


def test_cells_are_sorted_and_the_arrays_are_read_only():
    seen = holding((3, 2), [2, 0, 0], [0, 1, 0], [5.0, 2.0, 1.0])
    assert cells(seen) == [(0, 0, 1.0), (0, 1, 2.0), (2, 0, 5.0)]
    assert seen.rows.dtype == np.int64
    for array in (seen.rows, seen.cols, seen.values):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_counts_and_empty_rows_and_columns():
    seen = holding((4, 3), [1, 1, 3], [0, 2, 0], [3.0, 0.0, -4.0])
    assert (seen.n_observed, seen.n_missing, seen.density) == (3, 9, 0.25)
    assert seen.empty_rows.tolist() == [0, 2]
    assert seen.empty_cols.tolist() == [1]
    assert repr(seen) == "Observations(4 x 3, 3 observed, 0.25 of all)"


def test_rms_is_the_root_mean_square_at_any_scale():
    for scale in (1.0, 1e200, 1e-200):
        seen = holding((1, 3), [0, 0], [0, 2], [3 * scale, -4 * scale])
        assert seen.rms == pytest.approx(scale * np.sqrt(12.5), rel=1e-14)
    assert holding((2, 3), [], [], []).rms == 0.0


def test_empty_observations_are_an_ordinary_case():
    nothing = Observations.from_dense(np.full((2, 3), NAN))
    assert (nothing.shape, nothing.n_observed) == ((2, 3), 0)
    assert nothing.empty_rows.tolist() == [0, 1]
    assert np.isnan(nothing.to_dense()).all()
    assert not nothing.mask().any()


def test_copies_and_pickles_are_the_same_observations():
    seen = Observations.from_dense(TABLE, row_labels="abcd")
    for twin in (copy.deepcopy(seen), pickle.loads(pickle.dumps(seen))):
        assert identical(seen, twin)
        assert twin.row_labels == ("a", "b", "c", "d")


def test_labels_must_be_as_many_as_rows_and_columns():
    with pytest.raises(DepthrankError, match="there are 2 row labels for 4 rows"):
        Observations.from_dense(TABLE, row_labels=["a", "b"])
    with pytest.raises(DepthrankError, match="there are 4 column labels for 3 columns"):
        Observations.from_dense(TABLE, col_labels="abcd")


@pytest.mark.parametrize("shape", [(0, 3), (3, -1), (2**40, 2**40), (3,), (2.5, 2)])
def test_a_shape_that_is_none_is_refused(shape):
    with pytest.raises(DepthrankError, match=r"the matrix is|shape is"):
        holding(shape, [], [], [])


def test_nan_is_no_observed_value():
    with pytest.raises(DepthrankError, match="the value at row 1, column 0 is NaN"):
        holding((2, 2), [1], [0], [NAN])


# Dense


def test_dt10_any_array_like_gives_the_same_observations():
    rows: list[list[float]] = [[1, 2], [2, 4], [3, NAN]]
    plain = np.array(rows)
    frozen = plain.copy()
    frozen.setflags(write=False)
    first = Observations.from_dense(rows)
    for twin in (tuple(tuple(row) for row in rows), plain, np.asfortranarray(plain), frozen):
        assert identical(first, Observations.from_dense(twin))
    with pytest.raises(DepthrankError, match=r"shape \(3,\); it must be two-dimensional"):
        Observations.from_dense([1, NAN, 3])
    with pytest.raises(DepthrankError, match="the rows differ in length"):
        Observations.from_dense([[1, 2], [3]])


def test_dt08_the_input_is_not_changed():
    given = TABLE.copy()
    seen = Observations.from_dense(given, missing=2)
    np.testing.assert_array_equal(given, TABLE)
    given[0, 0] = 99
    assert seen.values[0] == 1


def test_dt06_a_marker_of_missing_cells():
    X = np.array([[1, 2], [2, -1]])
    assert Observations.from_dense(X, missing=-1).n_observed == 3
    assert Observations.from_dense(X).n_observed == 4
    assert Observations.from_dense(X, missing=(-1, 1)).values.tolist() == [2.0, 2.0]


def test_nu12_integers_are_promoted():
    X = np.arange(24, dtype=np.int32).reshape(6, 4) * 100_000
    seen = Observations.from_dense(X, missing=1_000_000)
    assert seen.values.dtype == np.float64
    assert seen.n_missing == 1
    assert seen.rms == pytest.approx(np.sqrt(np.mean(np.delete(X.ravel(), 10).astype(float) ** 2)))


def test_nu03_infinity_is_named_by_position():
    with pytest.raises(DepthrankError, match="infinite value at row 0, column 0;"):
        Observations.from_dense([[np.inf, 1], [2, NAN]])
    with pytest.raises(DepthrankError, match=r"infinite value at row 1 \('b'\), column 0 \('x'\)"):
        Observations.from_dense([[1], [-np.inf]], row_labels="ab", col_labels="x")


def test_masked_arrays_hide_what_they_mask():
    X = np.ma.masked_array([[1, 2, 3], [4, 5, 6]], mask=np.array([[0, 1, 0], [0, 0, 1]], bool))
    assert cells(Observations.from_dense(X)) == [(0, 0, 1), (0, 2, 3), (1, 0, 4), (1, 1, 5)]
    unmasked = np.ma.masked_array(TABLE)
    assert identical(Observations.from_dense(unmasked), Observations.from_dense(TABLE))


def test_objects_may_be_none_but_not_text():
    seen = Observations.from_dense([[1, None], [True, 2.5]])
    assert seen.values.tolist() == [1.0, 1.0, 2.5]
    with pytest.raises(DepthrankError, match="row 1, column 0: 'x' is not a number"):
        Observations.from_dense([[1, 2], ["x", None]])
    with pytest.raises(DepthrankError, match="type complex128; they must be real"):
        Observations.from_dense([[1, 2j]])


# A truth and a mask


def test_sp13_values_outside_the_mask_do_not_matter():
    mask = ~np.isnan(TABLE)
    for hidden in (0.0, 1e6, np.inf, NAN):
        truth = np.where(mask, TABLE, hidden)
        assert identical(Observations.from_mask(truth, mask), Observations.from_dense(TABLE))
    assert identical(
        Observations.from_mask(np.nan_to_num(TABLE), mask.astype(int)),
        Observations.from_dense(TABLE),
    )


def test_a_mask_must_fit():
    with pytest.raises(DepthrankError, match=r"the mask has shape \(3, 4\), the matrix \(4, 3\)"):
        Observations.from_mask(TABLE, np.ones((3, 4), bool))
    with pytest.raises(DepthrankError, match="only True and False"):
        Observations.from_mask(TABLE, np.full((4, 3), 2))
    with pytest.raises(DepthrankError, match="row 0, column 2 is NaN"):
        Observations.from_mask(TABLE, np.ones((4, 3), bool))


# Sparse


def test_sp01_a_stored_zero_is_observed():
    S = sp.csr_array(([5.0, 0.0, 3.0], ([0, 0, 1], [0, 1, 2])), shape=(2, 3))
    seen = Observations.from_scipy(S)
    assert (seen.n_observed, seen.n_missing) == (3, 3)
    assert identical(seen, Observations.from_dense([[5, 0, NAN], [NAN, NAN, 3]]))


def test_sp02_duplicates_follow_the_rule_and_are_counted():
    S: Any = sp.coo_array(([4.0, 5.0, 2.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 3))
    rules: tuple[tuple[Any, float], ...] = (("mean", 4.5), ("first", 4.0), ("last", 5.0))
    for rule, value in rules:
        seen = Observations.from_scipy(S, duplicates=rule)
        assert cells(seen) == [(0, 1, value), (1, 0, 2.0)]
        assert seen.n_duplicates == 1
    assert identical(Observations.from_scipy(S), Observations.from_scipy(S, duplicates="mean"))
    with pytest.raises(DepthrankError, match=r"row 0, column 1 is given 2 times \(values 4, 5\)"):
        Observations.from_scipy(S, duplicates="error")
    with pytest.raises(DepthrankError, match="duplicates is 'sum'; it must be one of"):
        Observations.from_scipy(S, duplicates="sum")  # type: ignore[arg-type]


def test_sp09_every_form_gives_the_same_observations():
    rows, cols = np.nonzero(~np.isnan(TABLE))
    values = TABLE[rows, cols]
    shuffled = np.random.default_rng(3).permutation(rows.size)
    expected = Observations.from_dense(TABLE)
    coo = sp.coo_array((values, (rows, cols)), shape=TABLE.shape)
    for twin in (
        *(Observations.from_any(S) for S in (coo, coo.tocsr(), coo.tocsc(), coo.todok())),
        Observations.from_coordinates(rows[shuffled], cols[shuffled], values[shuffled]),
        Observations.from_long(rows[shuffled], cols[shuffled], values[shuffled]),
        Observations.from_any(TABLE),
        Observations.from_any(expected),
    ):
        assert identical(twin, expected)


def test_sp14_merged_duplicates_are_one_cell_everywhere():
    merged = Observations.from_coordinates([0, 0, 0, 1], [0, 0, 1, 0], [1, 3, 4, 4])
    assert identical(merged, Observations.from_dense([[2, 4], [4, NAN]]))
    assert merged.n_duplicates == 1


def test_sparse_input_must_be_real_and_two_dimensional():
    with pytest.raises(DepthrankError, match="type complex128"):
        Observations.from_scipy(sp.coo_array(np.array([[1j]])))
    with pytest.raises(DepthrankError, match=r"shape \(3,\)"):
        Observations.from_scipy(sp.coo_array(np.array([1.0, 0, 2])))


# Coordinates and long tables


@pytest.mark.parametrize("row", [-1, 3])
def test_sp12_positions_out_of_range_are_refused(row):
    with pytest.raises(
        DepthrankError, match=rf"entry 0 is at row {row}, column 0, .* a row must be 0 to 2"
    ):
        Observations.from_coordinates([row], [0], [1.0], (3, 3))


def test_coordinates_must_be_positions_of_one_length():
    with pytest.raises(DepthrankError, match=r"shapes \(2,\), \(1,\) and \(1,\)"):
        Observations.from_coordinates([0, 1], [0], [1.0])
    with pytest.raises(DepthrankError, match=r"rows are an array .* float64; they must be"):
        Observations.from_coordinates([0.5], [0], [1.0])
    with pytest.raises(DepthrankError, match="the matrix is 0 x 0"):
        Observations.from_coordinates([], [], [])


def test_a_missing_value_leaves_its_row_and_column_in_place():
    seen = Observations.from_long(["a", "b"], ["x", "y"], [1.0, None])
    assert seen.shape == (2, 2)
    assert seen.n_observed == 1
    assert Observations.from_coordinates([0, 4], [0, 2], [1.0, NAN]).shape == (5, 3)


def test_labels_stand_in_natural_order_however_they_come():
    seen = Observations.from_long(["r10", "r2", "r1"], [3, 20, 100], [1.0, 2.0, 3.0])
    assert seen.row_labels == ("r1", "r2", "r10")
    assert seen.col_labels == (3, 20, 100)
    assert seen.values.tolist() == [3.0, 2.0, 1.0]
    numbered = Observations.from_long(["7", "007", "9" * 5000], ["NA", "nan", ""], [1, 2, 3])
    assert numbered.row_labels == ("007", "7", "9" * 5000)
    assert numbered.col_labels == ("", "NA", "nan")


def test_labels_that_cannot_be_compared_keep_their_order():
    seen = Observations.from_long([("a", 1), 3, "b"], ["x"] * 3, [1, 2, 3])
    assert seen.row_labels == (("a", 1), 3, "b")


@pytest.mark.parametrize("gap", [None, NAN, np.datetime64("NaT")])
def test_a_missing_label_is_refused(gap):
    with pytest.raises(DepthrankError, match="the column label of entry 1 is missing"):
        Observations.from_long(["a", "b"], ["x", gap], [1, 2])


def test_sp07_wide_ids_need_no_wide_table():
    ids = np.linspace(0, 69_999, 10).astype(int)
    long = Observations.from_long(ids, ids[::-1], np.ones(10))
    assert long.shape == (10, 10)
    declared = Observations.from_coordinates(ids, ids[::-1], np.ones(10))
    assert declared.shape == (70_000, 70_000)
    assert declared.n_missing == 4_900_000_000 - 10
    assert declared.empty_rows.size == 69_990


# Dense forms and memory


def test_dense_and_mask_invert_from_dense():
    seen = Observations.from_dense(TABLE)
    np.testing.assert_array_equal(seen.to_dense(), TABLE)
    np.testing.assert_array_equal(seen.to_dense(fill=0), np.nan_to_num(TABLE))
    np.testing.assert_array_equal(seen.mask(), ~np.isnan(TABLE))


def test_me02_a_dense_form_that_cannot_fit_says_how_much_it_needs(monkeypatch):
    monkeypatch.setattr(memory, "available", lambda: 8 * 2**30)
    seen = Observations.from_coordinates([0, 199_999], [5, 49_999], [1, 2])
    with pytest.raises(
        DepthrankError, match=r"a dense 200,000 x 50,000 result needs 74.5 GiB; 8 GiB are available"
    ):
        seen.to_dense()
    with pytest.raises(DepthrankError, match=r"a dense 200,000 x 50,000 mask needs 9\.31 GiB"):
        seen.mask()


# Positions


def test_sp04_ids_of_another_type_are_unknown():
    seen = Observations.from_long(["62", "63"], ["a", "b"], [1, 2])
    assert seen.row_positions(["63", "62"]).tolist() == [1, 0]
    with pytest.raises(DepthrankError, match=r"unknown row id 62 \(ids are text, such as '62'"):
        seen.row_positions([62])
    assert seen.row_positions([62, "63"], strict=False).tolist() == [-1, 1]
    numbered = Observations.from_long([62, 63], ["a", "b"], [1, 2])
    assert numbered.row_positions(np.array([63])).tolist() == [1]


def test_sp06_unseen_ids_are_marked_or_named():
    seen = Observations.from_long(["u1", "u1", "u2", "u2"], ["i1", "i2"] * 2, [1, 2, 2, 4])
    assert seen.row_positions(["u1", "u9"], strict=False).tolist() == [0, -1]
    with pytest.raises(DepthrankError, match="unknown column id 'i9'"):
        seen.col_positions(["i1", "i9"])


def test_sp11_a_position_out_of_range_suggests_a_swap():
    seen = holding((10, 50), [0], [0], [1.0])
    with pytest.raises(
        DepthrankError, match=r"row 12 is out of range for 10 rows \(50 columns\) - swapped\?"
    ):
        seen.row_positions([12])
    with pytest.raises(DepthrankError, match=r"column 99 is out of range for 50 columns") as error:
        seen.col_positions([99])
    assert "swapped" not in str(error.value)
    assert seen.row_positions([-1, 9], strict=False).tolist() == [-1, 9]


def test_a_shared_label_is_ambiguous_only_when_asked_for():
    seen = Observations.from_dense(TABLE, row_labels=["a", "b", "a", "c"])
    assert seen.row_positions(["c"]).tolist() == [3]
    with pytest.raises(DepthrankError, match="2 rows share the label 'a'"):
        seen.row_positions(["a"])


# What can be made of observations


def test_with_values_and_select_keep_shape_and_labels():
    seen = Observations.from_dense(TABLE, row_labels="abcd", col_labels="xyz")
    doubled = seen.with_values(2 * seen.values)
    np.testing.assert_array_equal(doubled.to_dense(), 2 * TABLE)
    indices: tuple[Any, ...] = ([0, 3], np.arange(9) % 3 == 0, [])
    for index in indices:
        part = seen.select(index)
        assert part.shape == seen.shape
        assert part.row_labels == seen.row_labels
        assert part.n_observed == len(seen.values[index] if len(index) else [])
    assert seen.select([0, 3]).values.tolist() == [1.0, 6.0]


def test_split_parts_every_cell_and_empties_no_row_or_column():
    mask = np.random.default_rng(5).random((30, 20)) < 0.3
    seen = Observations.from_mask(np.arange(600).reshape(30, 20), mask)
    train, held = seen.split(0.25, seed=1)
    assert held.n_observed == round(0.25 * seen.n_observed)
    assert train.overlap(held) == 0
    assert identical(train.union(held), seen)
    assert train.empty_rows.tolist() == seen.empty_rows.tolist()
    assert train.empty_cols.tolist() == seen.empty_cols.tolist()
    assert identical(seen.split(0.25, seed=1)[1], held)
    assert not identical(seen.split(0.25, seed=2)[1], held)


def test_split_holds_out_every_cell_equally_often():
    seen = Observations.from_dense(np.ones((6, 5)))
    drawn = sum(seen.split(0.2, seed)[1].mask().astype(int) for seed in range(400))
    # 400 draws of 6 of 30 cells: mean 80, standard deviation 8; five of them
    assert np.abs(drawn - 80).max() < 40


def test_split_spares_what_it_cannot_hold_out():
    diagonal = Observations.from_dense(np.where(np.eye(3), 1.0, NAN))
    train, held = diagonal.split(0.5, seed=0)
    assert (train.n_observed, held.n_observed) == (3, 0)
    full = Observations.from_dense(np.ones((3, 2)))
    assert full.split(0.0, seed=0)[1].n_observed == 0
    assert full.split(1e-9, seed=0)[1].n_observed == 1
    # 3 + 2 - 1 cells can join all rows and columns; 3 already leave none empty
    assert full.split(1.0, seed=0)[0].n_observed in (3, 4)
    with pytest.raises(DepthrankError, match=r"fraction is 1.5; it must be between 0 and 1"):
        full.split(1.5, seed=0)


def test_union_lets_the_other_win_and_counts():
    old = Observations.from_dense([[1, 2, NAN], [NAN, NAN, NAN]])
    new = Observations.from_dense([[NAN, 5, 6], [7, NAN, NAN]])
    both = old.union(new)
    np.testing.assert_array_equal(both.to_dense(), [[1, 5, 6], [7, NAN, NAN]])
    assert both.n_duplicates == 1
    assert cells(old.difference(new)) == [(0, 0, 1.0)]
    assert identical(old.difference(old), old.select([]))
    with pytest.raises(DepthrankError, match=r"shapes \(2, 3\) and \(4, 3\)"):
        old.union(Observations.from_dense(TABLE))
    with pytest.raises(DepthrankError, match="the row labels of the observations differ"):
        old.difference(Observations.from_dense(old.to_dense(), row_labels="ab"))


def test_ev01_cells_of_unknown_rows_and_columns_are_counted():
    train = Observations.from_long(["u1", "u2"], ["i1", "i2"], [1, 2])
    later = Observations.from_long(["u1", "u9", "u1"], ["i1", "i1", "i9"], [3, 4, 5])
    aligned, skipped = later.aligned_to(train)
    assert cells(aligned) == [(0, 0, 3.0)]
    assert aligned.row_labels == train.row_labels
    assert str(skipped) == "skipped: 2 (1 unknown row, 1 unknown column)"
    assert str(Skipped()) == "skipped: 0"
    assert Skipped(0, 0, 2).total == 2


def test_ev05_cells_in_both_sets_are_counted():
    train = Observations.from_long(["u1", "u1", "u2"], ["i1", "i2", "i1"], [1, 2, 3])
    validation = Observations.from_long(["u1", "u2"], ["i1", "i2"], [1, 4])
    assert validation.overlap(train) == 1
    assert cells(validation.difference(train)) == [(1, 1, 4.0)]


def test_alignment_goes_by_label_not_by_position():
    here = Observations.from_dense(TABLE, row_labels="abcd", col_labels="xyz")
    there = Observations.from_dense(TABLE[::-1, [2, 0, 1]], row_labels="dcba", col_labels="zxy")
    aligned, skipped = there.aligned_to(here)
    assert identical(aligned, here)
    assert skipped.total == 0


def test_labelled_puts_the_labels_on_a_matrix():
    seen = Observations.from_dense(TABLE, row_labels=["d", "b", "a", "c"], col_labels=[3, 1, 2])
    frame = seen.labelled(np.zeros((4, 3)))
    assert list(frame.index) == ["d", "b", "a", "c"]
    assert tuple(frame.columns) == seen.col_labels
