import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from depthrank import patterns
from depthrank.errors import DepthrankError
from depthrank.graph import connectivity
from depthrank.observations import Observations


def graph(mask):
    return connectivity(Observations.from_mask(np.zeros(mask.shape), mask))


def test_every_pattern_returns_a_fresh_bool_mask():
    shape = (7, 5)
    masks = [
        patterns.diagonal(shape),
        patterns.uniform(shape, count=11),
        patterns.bernoulli(shape, probability=0.3),
        patterns.banded(shape, lower=1, upper=2),
        patterns.staircase(shape),
        patterns.one_row(shape),
        patterns.one_column(shape),
        patterns.connected(shape),
        patterns.disconnected(shape, components=3),
    ]
    for mask in masks:
        assert mask.shape == shape
        assert mask.dtype == bool
        assert mask.flags.writeable


@pytest.mark.parametrize("shape", [(4, 4), (7, 5), (5, 7), (1, 1)])
def test_diagonal(shape):
    np.testing.assert_array_equal(patterns.diagonal(shape), np.eye(*shape))


def test_block_diagonal_unequal_blocks():
    expected = [
        [1, 1, 1, 0, 0, 0],
        [1, 1, 1, 0, 0, 0],
        [0, 0, 0, 1, 0, 0],
        [0, 0, 0, 0, 1, 1],
    ]
    np.testing.assert_array_equal(patterns.block_diagonal([(2, 3), (1, 1), (1, 2)]), expected)


def test_block_diagonal_of_single_cells_is_diagonal():
    np.testing.assert_array_equal(patterns.block_diagonal([(1, 1)] * 4), patterns.diagonal((4, 4)))


@pytest.mark.parametrize(
    ("blocks", "message"),
    [
        ([], "blocks is empty"),
        ([(2, 2), 3], r"blocks\[1\] is 3; it must be \(rows, columns\)"),
        ([(2, 0)], r"blocks\[0\] is 0; it must be an integer >= 1"),
    ],
)
def test_block_diagonal_refuses(blocks, message):
    with pytest.raises(DepthrankError, match=message):
        patterns.block_diagonal(blocks)


@pytest.mark.parametrize("count", [0, 1, 11, 35])
def test_uniform_observes_exactly_the_count(count):
    assert patterns.uniform((7, 5), count=count, seed=3).sum() == count


@pytest.mark.parametrize(("fraction", "count"), [(0, 0), (0.2, 7), (0.5, 18), (1, 35)])
def test_uniform_rounds_the_fraction(fraction, count):
    assert patterns.uniform((7, 5), fraction=fraction).sum() == count


def test_uniform_is_uniform_over_cells():
    hits = sum(patterns.uniform((3, 4), count=5, seed=seed).astype(int) for seed in range(1000))
    p, n = 5 / 12, 1000
    assert np.abs(hits / n - p).max() < 4.5 * np.sqrt(p * (1 - p) / n)  # 12 cells, 4.5 errors


@pytest.mark.parametrize("arguments", [{}, {"fraction": 0.2, "count": 3}])
def test_uniform_needs_exactly_one_size(arguments):
    with pytest.raises(DepthrankError, match="give exactly one of them"):
        patterns.uniform((7, 5), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"fraction": 1.5}, r"fraction is 1\.5; it must be a number between 0 and 1"),
        ({"fraction": float("nan")}, "fraction is nan"),
        ({"count": 36}, r"count is 36; .* between 0 and 35, as shape \(7, 5\) has no more"),
        ({"count": 2.0}, r"count is 2\.0; it must be an integer"),
    ],
)
def test_uniform_refuses(arguments, message):
    with pytest.raises(DepthrankError, match=message):
        patterns.uniform((7, 5), **arguments)


def test_bernoulli_share_and_limits():
    mask = patterns.bernoulli((200, 300), probability=0.2, seed=1)
    assert mask.mean() == pytest.approx(0.2, abs=4 * np.sqrt(0.16 / mask.size))
    assert not patterns.bernoulli((7, 5), probability=0).any()
    assert patterns.bernoulli((7, 5), probability=1).all()


def test_bernoulli_grows_with_the_probability():
    small, large = (patterns.bernoulli((30, 20), probability=p, seed=2) for p in (0.2, 0.4))
    assert (large >= small).all()
    assert large.sum() > small.sum()


def test_bernoulli_refuses():
    with pytest.raises(DepthrankError, match=r"probability is -0\.1"):
        patterns.bernoulli((7, 5), probability=-0.1)


def test_banded():
    expected = [[1, 1, 1, 0], [1, 1, 1, 1], [0, 1, 1, 1]]
    np.testing.assert_array_equal(patterns.banded((3, 4), lower=1, upper=2), expected)
    np.testing.assert_array_equal(
        patterns.banded((7, 5), lower=0, upper=0), patterns.diagonal((7, 5))
    )
    assert patterns.banded((7, 5), lower=6, upper=4).all()


def test_banded_refuses():
    with pytest.raises(DepthrankError, match="upper is -1; it must be an integer >= 0"):
        patterns.banded((7, 5), lower=0, upper=-1)


@pytest.mark.parametrize("shape", [(4, 4), (7, 5), (5, 7), (1, 3)])
def test_staircase_descends_and_touches_every_row_and_column(shape):
    mask = patterns.staircase(shape)
    assert mask[0].all()
    assert mask[:, 0].all()
    # monotone: what is seen in a row is seen in the row above, from the left without gaps
    assert (mask[:-1] >= mask[1:]).all()
    assert (mask[:, :-1] >= mask[:, 1:]).all()
    assert graph(mask).n_components == 1


def test_staircase_square_is_the_upper_left_triangle():
    np.testing.assert_array_equal(patterns.staircase((4, 4)), np.tri(4, dtype=bool)[::-1])


def test_one_row_and_one_column():
    row, column = patterns.one_row((7, 5), 2), patterns.one_column((7, 5), 4)
    assert row[2].all()
    assert row.sum() == 5
    assert column[:, 4].all()
    assert column.sum() == 7


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: patterns.one_row((7, 5), 7), "row is 7; it must be an integer between 0 and 6"),
        (lambda: patterns.one_column((7, 5), -1), "column is -1; .* between 0 and 4"),
    ],
)
def test_one_row_and_one_column_refuse(call, message):
    with pytest.raises(DepthrankError, match=message):
        call()


shapes = st.tuples(st.integers(1, 12), st.integers(1, 12))


@given(shapes, st.floats(0, 1), st.integers(0, 10_000))
def test_connected_is_connected_at_every_count(shape, share, seed):
    m, n = shape
    count = m + n - 1 + int(share * (m * n - (m + n - 1)))
    mask = patterns.connected(shape, count=count, seed=seed)
    found = graph(mask)
    assert mask.sum() == count
    assert found.n_components == 1
    assert len(found.isolated_rows) == len(found.isolated_cols) == 0


@given(shapes, st.integers(0, 10_000))
def test_connected_without_extra_entries_is_a_tree(shape, seed):
    mask = patterns.connected(shape, seed=seed)
    assert mask.sum() == sum(shape) - 1
    assert len(graph(mask).bridges) == mask.sum()


def test_connected_tree_is_uniform_over_spanning_trees():
    """K_{2,3} has 2^2 · 3^1 = 12 spanning trees (Scoins' formula m^{n-1} n^{m-1})."""
    draws = 1500
    keys = [patterns.connected((2, 3), seed=seed).tobytes() for seed in range(draws)]
    _, counts = np.unique(keys, return_counts=True)
    assert len(counts) == 12
    p = 1 / 12
    assert np.abs(counts / draws - p).max() < 4.5 * np.sqrt(p * (1 - p) / draws)


def test_connected_grows_with_the_count():
    small, large = (patterns.connected((9, 6), count=count, seed=5) for count in (20, 33))
    assert (large >= small).all()


@given(st.data(), shapes, st.integers(0, 10_000))
def test_disconnected_has_exactly_k_components_and_none_isolated(data, shape, seed):
    k = data.draw(st.integers(1, min(shape)))
    mask = patterns.disconnected(shape, components=k, seed=seed)
    found = graph(mask)
    assert found.n_components == k
    assert len(found.isolated_rows) == len(found.isolated_cols) == 0
    assert mask.sum() == sum(shape) - k


def test_disconnected_filled_up_is_k_full_blocks_of_near_equal_size():
    mask = patterns.disconnected((7, 5), components=2, count=4 * 3 + 3 * 2, seed=1)
    found = graph(mask)
    assert found.n_components == 2
    sizes = sorted((len(rows), len(columns)) for rows, columns in found.components)
    assert sizes == [(3, 2), (4, 3)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"components": 6}, "components is 6; .* between 1 and 5: each needs a row and a column"),
        ({"components": 0}, "components is 0"),
        ({"components": 2, "count": 9}, r"count is 9; .* between 10 and 18, as shape \(7, 5\)"),
        ({"components": 2, "count": 19}, "count is 19"),
    ],
)
def test_disconnected_refuses(arguments, message):
    with pytest.raises(DepthrankError, match=message):
        patterns.disconnected((7, 5), **arguments)


def test_connected_refuses_too_few():
    with pytest.raises(DepthrankError, match=r"count is 10; .* between 11 and 35"):
        patterns.connected((7, 5), count=10)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((7,), r"shape is \(7,\); it must be \(rows, columns\)"),
        (7, "shape is 7"),
        ((7, 0), r"shape\[1\] is 0; it must be an integer >= 1"),
        ((7.0, 5), r"shape\[0\] is 7\.0"),
        ((10**7, 10**7), "a 10,000,000 x 10,000,000 mask needs"),
    ],
)
def test_shape_is_validated(shape, message):
    with pytest.raises(DepthrankError, match=message):
        patterns.diagonal(shape)


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed: patterns.uniform((9, 7), count=20, seed=seed),
        lambda seed: patterns.bernoulli((9, 7), probability=0.4, seed=seed),
        lambda seed: patterns.connected((9, 7), count=25, seed=seed),
        lambda seed: patterns.disconnected((9, 7), components=2, seed=seed),
    ],
)
def test_rp01_random_patterns_depend_on_the_seed_alone(draw):
    np.testing.assert_array_equal(draw(4), draw(4))
    assert not np.array_equal(draw(4), draw(5))
