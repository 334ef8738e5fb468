"""Which entries are seen: observation patterns as boolean masks.

Every function returns a new bool array [m, n], True where the entry is observed. Random patterns
draw from the stream "mask" of `seed` and from nothing else, so that the mask does not change when
the ground truth or the start does. `Observations.from_mask(truth, mask)` turns one into data.
"""

import math
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.memory import require
from depthrank.seeds import generator

__all__ = [
    "banded",
    "bernoulli",
    "block_diagonal",
    "connected",
    "diagonal",
    "disconnected",
    "one_column",
    "one_row",
    "staircase",
    "uniform",
]


def _integer(value: Any, name: str, low: int, high: int | None = None, why: str = "") -> int:
    """Return an integer within bounds, or say what is wrong with it."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if not is_integer or value < low or (high is not None and value > high):
        accepted = f">= {low}" if high is None else f"between {low} and {high}"
        raise DepthrankError(f"{name} is {value!r}; it must be an integer {accepted}{why}.")
    return int(value)


def _share(value: Any, name: str) -> float:
    """Return a number in [0, 1]."""
    if isinstance(value, Real) and not isinstance(value, bool) and 0 <= float(value) <= 1:
        return float(value)
    raise DepthrankError(f"{name} is {value!r}; it must be a number between 0 and 1.")


def _empty(shape: tuple[int, int]) -> np.ndarray:
    """Return the mask that observes nothing."""
    if not isinstance(shape, Sequence | np.ndarray) or len(shape) != 2:
        raise DepthrankError(f"shape is {shape!r}; it must be (rows, columns).")
    m, n = _integer(shape[0], "shape[0]", 1), _integer(shape[1], "shape[1]", 1)
    require(m * n, f"a {m:,} x {n:,} mask", "Build Observations from coordinates instead.")
    return np.zeros((m, n), dtype=bool)


def diagonal(shape: tuple[int, int]) -> np.ndarray:
    """Observe the entries (i, i), i < min(m, n).

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).

    Returns
    -------
    bool array [m, n]
        No two observed entries share a row or a column.
    """
    mask = _empty(shape)
    np.fill_diagonal(mask[: min(shape)], True)
    return mask


def block_diagonal(blocks: Sequence[tuple[int, int]]) -> np.ndarray:
    """Observe full blocks along the diagonal, equal or unequal.

    Parameters
    ----------
    blocks : sequence of (int, int)
        Rows and columns of each block, all >= 1. The sums are the shape of the mask.

    Returns
    -------
    bool array [m, n]
        One component per block.

    Examples
    --------
    >>> block_diagonal([(1, 2), (1, 1)]).astype(int)
    array([[1, 1, 0],
           [0, 0, 1]])
    """
    if len(blocks) == 0:
        raise DepthrankError("blocks is empty; give at least one (rows, columns).")
    sizes = []
    for position, block in enumerate(blocks):
        if not isinstance(block, Sequence | np.ndarray) or len(block) != 2:
            raise DepthrankError(f"blocks[{position}] is {block!r}; it must be (rows, columns).")
        sizes.append(tuple(_integer(size, f"blocks[{position}]", 1) for size in block))
    mask = _empty((sum(r for r, _ in sizes), sum(c for _, c in sizes)))
    row = column = 0
    for r, c in sizes:
        mask[row : row + r, column : column + c] = True
        row, column = row + r, column + c
    return mask


def uniform(
    shape: tuple[int, int],
    *,
    fraction: float | None = None,
    count: int | None = None,
    seed: int = 0,
) -> np.ndarray:
    """Observe a fixed number of entries, drawn uniformly without replacement.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    fraction : float, optional
        Share of the entries, 0 to 1; the number is rounded to the nearest integer.
    count : int, optional
        The number itself, 0 to m·n. Give exactly one of the two.
    seed : int
        Root seed.

    Returns
    -------
    bool array [m, n]
        Rows and columns may stay empty.
    """
    mask = _empty(shape)
    if (fraction is None) == (count is None):
        raise DepthrankError(
            f"fraction is {fraction!r} and count is {count!r}; give exactly one of them."
        )
    if fraction is not None:
        number = round(_share(fraction, "fraction") * mask.size)
    else:
        number = _integer(count, "count", 0, mask.size, f", as shape {mask.shape} has no more")
    chosen = generator(seed, "mask").choice(mask.size, number, replace=False, shuffle=False)
    mask.ravel()[chosen] = True
    return mask


def bernoulli(shape: tuple[int, int], *, probability: float, seed: int = 0) -> np.ndarray:
    """Observe every entry independently with the same probability.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    probability : float
        0 to 1.
    seed : int
        Root seed. With the same seed a higher probability only adds entries.

    Returns
    -------
    bool array [m, n]
        The number of observed entries is random; rows and columns may stay empty.
    """
    mask = _empty(shape)
    return generator(seed, "mask").random(mask.shape) < _share(probability, "probability")


def banded(shape: tuple[int, int], *, lower: int, upper: int) -> np.ndarray:
    """Observe the band −lower <= j − i <= upper around the diagonal.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    lower, upper : int
        Numbers of diagonals below and above the main one, >= 0.

    Returns
    -------
    bool array [m, n]
        lower = upper = 0 is `diagonal`; lower = 0, upper = 1 is a chain: a square one is connected
        by 2n − 1 entries, none of which can be spared.
    """
    mask = _empty(shape)
    lower, upper = _integer(lower, "lower", 0), _integer(upper, "upper", 0)
    offset = np.arange(mask.shape[1]) - np.arange(mask.shape[0])[:, None]
    return (offset >= -lower) & (offset <= upper)


def staircase(shape: tuple[int, int]) -> np.ndarray:
    """Observe a staircase: row i is seen in its first columns, fewer from row to row.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).

    Returns
    -------
    bool array [m, n]
        Entry (i, j) is observed where i/m + j/n < 1: the first row and the first column in full,
        and every row at least once. Monotone missingness, as from drop-out over time.
    """
    mask = _empty(shape)
    m, n = mask.shape
    # in integers, so that no rounding decides on the border
    return np.arange(m)[:, None] * n + np.arange(n) * m < m * n


def one_row(shape: tuple[int, int], row: int = 0) -> np.ndarray:
    """Observe one full row.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    row : int
        Which one, 0 to m − 1.

    Returns
    -------
    bool array [m, n]
        All other rows are empty.
    """
    mask = _empty(shape)
    mask[_integer(row, "row", 0, mask.shape[0] - 1)] = True
    return mask


def one_column(shape: tuple[int, int], column: int = 0) -> np.ndarray:
    """Observe one full column.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    column : int
        Which one, 0 to n − 1.

    Returns
    -------
    bool array [m, n]
        All other columns are empty.
    """
    mask = _empty(shape)
    mask[:, _integer(column, "column", 0, mask.shape[1] - 1)] = True
    return mask


def connected(shape: tuple[int, int], *, count: int | None = None, seed: int = 0) -> np.ndarray:
    """Observe a uniformly random spanning tree and further random entries: always connected.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    count : int, optional
        Number of observed entries in all, m + n − 1 to m·n. By default the tree alone.
    seed : int
        Root seed. With the same seed a higher count only adds entries.

    Returns
    -------
    bool array [m, n]
        One component that holds every row and column.
    """
    return disconnected(shape, components=1, count=count, seed=seed)


def disconnected(
    shape: tuple[int, int], *, components: int, count: int | None = None, seed: int = 0
) -> np.ndarray:
    """Observe exactly k components, each connected, no row or column left out.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    components : int
        k, 1 to min(m, n). Rows and columns are dealt to the components at random, in numbers as
        equal as possible.
    count : int, optional
        Number of observed entries in all, from m + n − k (a uniformly random spanning tree in each
        component) to the number of cells inside the components. By default the trees alone.
    seed : int
        Root seed. With the same seed a higher count only adds entries.

    Returns
    -------
    bool array [m, n]
        Components lie scattered over the matrix, not in blocks along the diagonal.
    """
    mask = _empty(shape)
    m, n = mask.shape
    k = _integer(components, "components", 1, min(m, n), ": each needs a row and a column")
    rng = generator(seed, "mask")
    row_groups = np.array_split(rng.permutation(m), k)
    col_groups = np.array_split(rng.permutation(n), k)
    capacity = sum(len(r) * len(c) for r, c in zip(row_groups, col_groups, strict=True))
    fewest = m + n - k
    number = fewest
    if count is not None:
        why = f", as shape {mask.shape} in {k} connected component(s) needs and has room for"
        number = _integer(count, "count", fewest, capacity, why)
    inside = np.zeros_like(mask)
    for rows, columns in zip(row_groups, col_groups, strict=True):
        i, j = _spanning_tree(len(rows), len(columns), rng)
        mask[rows[i], columns[j]] = True
        inside[np.ix_(rows, columns)] = True
    free = np.flatnonzero(inside & ~mask)
    mask.ravel()[rng.permutation(free)[: number - fewest]] = True
    return mask


def _spanning_tree(m: int, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the m + n − 1 edges of a uniform spanning tree of K_{m,n}.

    Aldous and Broder: walk at random and keep the edge by which each vertex is first entered. On a
    complete bipartite graph the walk is row, column, row, ... with independent uniform draws, so
    the whole walk is two arrays.
    """
    steps = 2 * max(m, n) * (math.ceil(math.log(max(m, n) + 1)) + 1)
    rows, columns = rng.integers(m, size=steps), rng.integers(n, size=steps)
    while len(np.unique(rows)) < m or len(np.unique(columns)) < n:
        rows = np.concatenate((rows, rng.integers(m, size=steps)))
        columns = np.concatenate((columns, rng.integers(n, size=steps)))
    entered_rows, row_time = np.unique(rows, return_index=True)
    entered_cols, col_time = np.unique(columns, return_index=True)
    # the walk is rows[0], columns[0], rows[1], ...: columns[t] is entered from rows[t], rows[t]
    # from columns[t - 1]; rows[0] is the root
    later = row_time > 0
    i = np.concatenate((entered_rows[later], rows[col_time]))
    j = np.concatenate((columns[row_time[later] - 1], entered_cols))
    return i, j
