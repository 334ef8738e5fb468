import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthrank import patterns
from depthrank.errors import DepthrankError
from depthrank.graph import (
    ACROSS,
    ISOLATED,
    LABELS,
    OBSERVED,
    WITHIN,
    Connectivity,
    connectivity,
)
from depthrank.observations import Observations


def of(mask) -> Connectivity:
    mask = np.asarray(mask, dtype=bool)
    return connectivity(Observations.from_mask(np.zeros(mask.shape), mask))


def coordinates(shape, rows, cols) -> Connectivity:
    rows = np.asarray(rows)
    values = np.zeros(len(rows))
    return connectivity(Observations.from_coordinates(rows, cols, values, shape=shape))


@st.composite
def masks(draw):
    m, n = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return rng.random((m, n)) < draw(st.floats(0, 1))


def test_components_are_numbered_by_first_row():
    # rows 0 and 3 share column 4; rows 1 and 2 columns 0 to 2; column 3 and row 4 are empty
    mask = np.zeros((5, 5), bool)
    mask[[0, 3], 4] = True
    mask[1, [0, 2]] = mask[2, [1, 2]] = True
    found = of(mask)
    assert found.n_components == 2
    np.testing.assert_array_equal(found.row_component, [0, 1, 1, 0, -1])
    np.testing.assert_array_equal(found.col_component, [1, 1, 1, -1, 0])
    first, second = found.components
    assert (first[0].tolist(), first[1].tolist()) == ([0, 3], [4])
    assert (second[0].tolist(), second[1].tolist()) == ([1, 2], [0, 1, 2])
    assert found.isolated_rows.tolist() == [4]
    assert found.isolated_cols.tolist() == [3]


def test_nothing_observed():
    found = of(np.zeros((3, 2)))
    assert found.n_components == 0
    assert found.components == []
    assert found.bridges == []
    assert found.isolated_rows.tolist() == [0, 1, 2]
    assert (found.determination() == ISOLATED).all()
    assert found.label_counts == {"observed": 0, "within": 0, "across": 0, "isolated": 6}


def test_everything_observed():
    found = of(np.ones((3, 2)))
    assert found.n_components == 1
    assert found.bridges == []
    assert (found.determination() == OBSERVED).all()


@pytest.mark.parametrize("blocks", [[(1, 1)] * 4, [(2, 3), (1, 1), (3, 2)]])
def test_blocks_are_components(blocks):
    found = of(patterns.block_diagonal(blocks))
    assert found.n_components == len(blocks)
    assert [(len(r), len(c)) for r, c in found.components] == blocks
    assert found.label_counts["within"] == 0
    # only single cells tie a row to a column by one number
    assert len(found.bridges) == sum(block == (1, 1) for block in blocks)


def test_labels_of_a_small_table():
    found = of([[1, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 0]])
    expected = [
        [OBSERVED, OBSERVED, ACROSS, ISOLATED],
        [OBSERVED, WITHIN, ACROSS, ISOLATED],
        [ACROSS, ACROSS, OBSERVED, ISOLATED],
    ]
    table = found.determination()
    np.testing.assert_array_equal(table, expected)
    assert table.dtype == np.int8
    assert LABELS[table[1, 1]] == "within"


def test_id01_diagonal_of_two_by_two():
    found = of(np.eye(2))
    assert found.n_components == 2
    assert found.label([0, 1], [1, 0]).tolist() == [ACROSS, ACROSS]


def test_id03_row_with_fewer_observations_than_the_rank():
    mask = np.ones((6, 5), bool)
    mask[0, 1:] = False
    rows, columns = of(mask).under_determined(2)
    assert rows.tolist() == [0]
    assert columns.tolist() == []


def test_id05_columns_share_no_rows():
    found = of([[1, 0], [1, 0], [0, 1], [0, 1]])
    assert found.n_components == 2
    assert found.label_counts["across"] == 4


def test_under_determined_counts_rows_and_columns():
    found = of([[1, 1, 1], [1, 0, 0], [0, 0, 0]])
    assert [r.tolist() for r in found.under_determined(1)] == [[2], []]
    assert [r.tolist() for r in found.under_determined(2)] == [[1, 2], [1, 2]]


@pytest.mark.parametrize("rank", [0, 1.5, True])
def test_under_determined_refuses(rank):
    with pytest.raises(DepthrankError, match=r"rank is .*; it must be an integer >= 1"):
        of(np.eye(2)).under_determined(rank)


@given(masks())
def test_label_agrees_with_the_dense_table(mask):
    found = of(mask)
    i, j = np.indices(mask.shape)
    table = found.determination()
    np.testing.assert_array_equal(found.label(i, j), table)
    counts = np.bincount(table.ravel(), minlength=4)
    assert list(found.label_counts.values()) == counts.tolist()


@given(masks())
def test_within_means_that_powers_of_the_adjacency_reach(mask):
    m, n = mask.shape
    adjacency = np.eye(m + n, dtype=int)
    adjacency[:m, m:] = mask
    adjacency[m:, :m] = mask.T
    reach = np.linalg.matrix_power(adjacency.astype(float), m + n)[:m, m:] > 0
    table = of(mask).determination()
    np.testing.assert_array_equal(np.isin(table, (OBSERVED, WITHIN)), reach)
    empty = ~mask.any(1)[:, None] | ~mask.any(0)
    np.testing.assert_array_equal(table == ISOLATED, empty)


@given(masks())
def test_bridges_are_the_entries_whose_loss_splits_the_graph(mask):
    def groups(graph):
        return graph.n_components + len(graph.isolated_rows) + len(graph.isolated_cols)

    found = of(mask)
    expected = []
    for i, j in np.argwhere(mask).tolist():
        without = mask.copy()
        without[i, j] = False
        if groups(of(without)) > groups(found):
            expected.append((i, j))
    assert found.bridges == expected


def test_two_blocks_tied_by_one_entry_have_one_bridge():
    mask = patterns.block_diagonal([(3, 2), (2, 4)])
    mask[1, 5] = True
    found = of(mask)
    assert found.n_components == 1
    assert found.bridges == [(1, 5)]


def test_labels_broadcast():
    assert of(np.eye(3)).label(np.arange(3)[:, None], [0, 1]).shape == (3, 2)
    assert of(np.eye(3)).label(0, 0).shape == ()


@pytest.mark.parametrize(
    ("rows", "cols", "message"),
    [
        ([0, 3], [0, 0], "row 3 is outside the matrix; it has 3 rows, 0 to 2"),
        ([0], [-1], "column -1 is outside the matrix"),
        ([0.5], [0], "row positions have dtype float64"),
    ],
)
def test_label_refuses(rows, cols, message):
    with pytest.raises(DepthrankError, match=message):
        of(np.eye(3)).label(rows, cols)


def test_results_are_read_only():
    found = of(np.eye(3))
    for array in (found.row_component, found.col_component, found.row_counts, found.col_counts):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 5


def test_huge_shape_with_few_entries_costs_no_dense_table():
    size = 200_000
    rng = np.random.default_rng(0)
    found = coordinates((size, size), rng.integers(size, size=100), rng.integers(size, size=100))
    assert found.label_counts["isolated"] > 3.9e10
    assert sum(found.label_counts.values()) == size**2
    assert len(found.bridges) == 100


def test_huge_dense_table_is_refused():
    found = coordinates((10**6, 10**6), [0], [0])
    with pytest.raises(DepthrankError, match="1,000,000 x 1,000,000 table of labels needs"):
        found.determination()


def test_bridges_take_linear_time_and_no_recursion():
    """A chain of 40,000 rows is as deep as a graph gets, and must not be quadratic."""
    size = 40_000
    rows = np.r_[np.arange(size), np.arange(size - 1)]
    cols = np.r_[np.arange(size), np.arange(1, size)]
    found = coordinates((size, size), rows, cols)
    started = time.perf_counter()
    assert len(found.bridges) == 2 * size - 1
    assert time.perf_counter() - started < 5  # measured 0.1 s; quadratic would be minutes


def test_many_components_do_not_pay_for_each_other():
    size = 60_000
    found = coordinates((size, size), np.arange(size), np.arange(size))
    started = time.perf_counter()
    assert found.n_components == len(found.components) == len(found.bridges) == size
    assert time.perf_counter() - started < 5  # measured 0.3 s
