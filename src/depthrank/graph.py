"""The bipartite graph of what is seen, and what the data can and cannot determine.

Rows and columns are the vertices; every observed entry (i, j) joins row i and column j. Entries
inside one connected component may be determined by the data, if the rank is low enough. An entry
that joins two components, or lies in an empty row or column, is not: any value fits, and what
comes out there is the doing of depth and start alone. Sizes are those of the list of observed
entries, never m·n, unless a dense table is asked for.
"""

from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, Protocol

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.memory import require

__all__ = ["ACROSS", "ISOLATED", "LABELS", "OBSERVED", "WITHIN", "Connectivity", "connectivity"]

OBSERVED, WITHIN, ACROSS, ISOLATED = 0, 1, 2, 3
LABELS = ("observed", "within", "across", "isolated")
"""Names of the codes 0 to 3 that label every entry."""


class Seen(Protocol):
    """What `connectivity` reads of `Observations`."""

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (m, n)."""

    @property
    def rows(self) -> np.ndarray:
        """Row of each observed entry."""

    @property
    def cols(self) -> np.ndarray:
        """Column of each observed entry."""


@dataclass(frozen=True, eq=False)
class Connectivity:
    """Components of the observation graph and the label of every entry.

    Attributes
    ----------
    shape : (int, int)
        Shape (m, n) of the matrix.
    n_components : int
        Connected components that hold at least one observed entry, numbered by first row.
    row_component, col_component : int64 array [m], [n]
        Number of the component of each row and column; -1 where it has no observed entry.
    row_counts, col_counts : int64 array [m], [n]
        Observed entries per row and column.

    Notes
    -----
    Labels of entries: `observed`; `within` a component (determined only if the rank is low enough
    for what is observed there, see `under_determined`); `across` two components (at depth 2 such
    components never act on each other); `isolated`, in a row or column without observed entries.
    """

    shape: tuple[int, int]
    n_components: int
    row_component: np.ndarray
    col_component: np.ndarray
    row_counts: np.ndarray
    col_counts: np.ndarray
    _keys: np.ndarray = field(repr=False)  # row·n + column of the observed entries, sorted

    @cached_property
    def components(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Rows and columns of each component, ascending: a list of (rows, columns)."""
        rows = _members(self.row_component, self.n_components)
        columns = _members(self.col_component, self.n_components)
        return list(zip(rows, columns, strict=True))

    @property
    def isolated_rows(self) -> np.ndarray:
        """Rows without an observed entry."""
        return np.flatnonzero(self.row_component < 0)

    @property
    def isolated_cols(self) -> np.ndarray:
        """Columns without an observed entry."""
        return np.flatnonzero(self.col_component < 0)

    @cached_property
    def bridges(self) -> list[tuple[int, int]]:
        """Observed entries without which a component would fall apart, sorted (row, column).

        What lies on the two sides of a bridge is tied together by that single number. Found on
        first use, in time linear in rows + columns + observed entries.
        """
        m, n = self.shape
        rows, cols = np.divmod(self._keys, n)
        cut = _bridges(m, n, rows, cols, self.row_component)
        return list(zip(rows[cut].tolist(), cols[cut].tolist(), strict=True))

    def under_determined(self, rank: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows and columns with fewer observed entries than an assumed rank.

        Parameters
        ----------
        rank : int
            Assumed rank r of the ground truth, >= 1.

        Returns
        -------
        rows, columns : int arrays
            Each of them has r coefficients and fewer equations, so that it stays undetermined even
            if everything else is known. Empty ones are among them. Not to be among them is
            necessary, not sufficient, for being determined.

        Raises
        ------
        DepthrankError
            If `rank` is not an integer >= 1.
        """
        if isinstance(rank, bool) or not isinstance(rank, Integral) or rank < 1:
            raise DepthrankError(f"rank is {rank!r}; it must be an integer >= 1.")
        few_rows, few_cols = self.row_counts < rank, self.col_counts < rank
        return np.flatnonzero(few_rows), np.flatnonzero(few_cols)

    def label(self, rows: Any, cols: Any) -> np.ndarray:
        """Return the code of each given entry, without a dense table.

        Parameters
        ----------
        rows, cols : array_like of int
            Positions, broadcast against each other; 0 <= row < m, 0 <= column < n.

        Returns
        -------
        int8 array
            OBSERVED = 0, WITHIN = 1, ACROSS = 2, ISOLATED = 3; `LABELS[code]` is the name.

        Raises
        ------
        DepthrankError
            If a position is not an integer or lies outside the matrix.
        """
        i = _positions(rows, self.shape[0], "row")
        j = _positions(cols, self.shape[1], "column")
        i, j = np.broadcast_arrays(i, j)
        of_row, of_col = self.row_component[i], self.col_component[j]
        codes = np.where(of_row == of_col, WITHIN, ACROSS)
        codes = np.where((of_row < 0) | (of_col < 0), ISOLATED, codes)
        if len(self._keys):
            keys = i * self.shape[1] + j
            nearest = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
            codes = np.where(self._keys[nearest] == keys, OBSERVED, codes)
        return codes.astype(np.int8)

    def determination(self) -> np.ndarray:
        """Return the code of every entry as a dense table.

        Returns
        -------
        int8 array [m, n]
            As `label`.

        Raises
        ------
        DepthrankError
            If the table does not fit in memory; `label` and `label_counts` need none.
        """
        m, n = self.shape
        # the table, and at most as much again twice for comparisons
        require(3 * m * n, f"the {m:,} x {n:,} table of labels", "Label chosen entries instead.")
        of_row, of_col = self.row_component[:, None], self.col_component
        table = np.where(of_row == of_col, np.int8(WITHIN), np.int8(ACROSS))
        table[self.isolated_rows] = ISOLATED
        table[:, self.isolated_cols] = ISOLATED
        table.ravel()[self._keys] = OBSERVED
        return table

    @property
    def label_counts(self) -> dict[str, int]:
        """Number of entries under each label, by name, without a dense table."""
        m, n = self.shape
        live_rows = np.bincount(self.row_component + 1, minlength=self.n_components + 1)[1:]
        live_cols = np.bincount(self.col_component + 1, minlength=self.n_components + 1)[1:]
        observed = len(self._keys)
        inside = int(np.sum(live_rows * live_cols))
        live = int(live_rows.sum()) * int(live_cols.sum())
        counts = (observed, inside - observed, live - inside, m * n - live)
        return dict(zip(LABELS, counts, strict=True))


def connectivity(observations: Seen) -> Connectivity:
    """Analyse which rows and columns the observed entries tie together.

    Parameters
    ----------
    observations : Observations
        Anything with `shape`, `rows` and `cols`; values are not looked at.

    Returns
    -------
    Connectivity
        Time and memory linear in rows + columns + observed entries.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> seen = SimpleNamespace(shape=(4, 2), rows=np.arange(4), cols=np.array([0, 0, 1, 1]))
    >>> found = connectivity(seen)
    >>> found.n_components, found.label_counts["across"]
    (2, 4)
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    m, n = (int(size) for size in observations.shape)
    rows = np.asarray(observations.rows, dtype=np.int64)
    cols = np.asarray(observations.cols, dtype=np.int64)
    graph = sparse.coo_array((np.ones(len(rows), dtype=np.int8), (rows, m + cols)), (m + n, m + n))
    _, group = csgraph.connected_components(graph, directed=False)
    # an empty row or column is a group of its own in the graph, but not a component here
    numbers = np.unique(group[rows])
    row_counts, col_counts = np.bincount(rows, minlength=m), np.bincount(cols, minlength=n)
    component = np.searchsorted(numbers, group)
    return Connectivity(
        shape=(m, n),
        n_components=len(numbers),
        row_component=_frozen(np.where(row_counts > 0, component[:m], -1)),
        col_component=_frozen(np.where(col_counts > 0, component[m:], -1)),
        row_counts=_frozen(row_counts),
        col_counts=_frozen(col_counts),
        _keys=_frozen(np.sort(rows * n + cols)),
    )


def _frozen(array: np.ndarray) -> np.ndarray:
    """Return the array read-only, as the results of a frozen class should be."""
    array.flags.writeable = False
    return array


def _members(component: np.ndarray, n_components: int) -> list[np.ndarray]:
    """Return the positions that carry each component number."""
    order = np.argsort(component, kind="stable")
    return np.split(order, np.searchsorted(component[order], np.arange(n_components + 1)))[1:-1]


def _positions(values: Any, size: int, name: str) -> np.ndarray:
    """Return integer positions within 0 .. size - 1."""
    array = np.asarray(values)
    if array.dtype.kind not in "iu" and array.size:
        raise DepthrankError(f"{name} positions have dtype {array.dtype}; they must be integers.")
    bad = (array < 0) | (array >= size)
    if bad.any():
        raise DepthrankError(
            f"{name} {array[bad].ravel()[0]} is outside the matrix; it has {size} {name}s, "
            f"0 to {size - 1}."
        )
    return array.astype(np.int64)


def _bridges(
    m: int, n: int, rows: np.ndarray, cols: np.ndarray, row_component: np.ndarray
) -> np.ndarray:
    """Tell for every edge whether it is a bridge.

    Tarjan's second algorithm (1974), which works on any spanning tree: with vertices numbered in
    preorder, the subtree of v is the range pre(v) .. pre(v) + size(v) - 1, and the edge above v is
    a bridge if no edge outside the tree leads from that range out of it. Edges are handled by
    array operations; only loops over vertices run in Python.
    """
    order, parent = _spanning_forest(m, n, rows, cols, row_component)
    pre, size = _preorder(order, parent)
    u, w = rows, m + cols
    above_u, above_w = parent[w] == u, parent[u] == w  # tree edges: u above w, w above u
    extra = ~(above_u | above_w)
    low, high = pre.copy(), pre.copy()
    for here, there in ((u[extra], w[extra]), (w[extra], u[extra])):
        np.minimum.at(low, here, pre[there])
        np.maximum.at(high, here, pre[there])
    lows, highs, parents = low.tolist(), high.tolist(), parent.tolist()
    for v in reversed(order[1:].tolist()):
        p = parents[v]
        lows[p] = min(lows[p], lows[v])
        highs[p] = max(highs[p], highs[v])
    closed = (np.array(lows) >= pre) & (np.array(highs) < pre + size)
    return np.where(above_u, closed[w], above_w & closed[u])


def _spanning_forest(
    m: int, n: int, rows: np.ndarray, cols: np.ndarray, row_component: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return a breadth-first order of the vertices, root first, and the parent of each.

    An extra vertex m + n is tied to one row of every component, so that one search covers them
    all: a search per component would pay for the whole vertex list each time.
    """
    from scipy import sparse
    from scipy.sparse import csgraph

    root = m + n
    _, first = np.unique(row_component, return_index=True)
    first = first[row_component[first] >= 0]
    start = np.concatenate((rows, np.full(len(first), root)))
    stop = np.concatenate((m + cols, first))
    data = np.ones(len(start), dtype=np.int8)
    graph = sparse.coo_array((data, (start, stop)), (root + 1, root + 1)).tocsr()
    order, parent = csgraph.breadth_first_order(graph, root, directed=False)
    return order.astype(np.int64), parent.astype(np.int64)


def _preorder(order: np.ndarray, parent: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return preorder numbers and subtree sizes; vertices outside the tree count as leaves at 0."""
    size, parents, vertices = [1] * len(parent), parent.tolist(), order.tolist()
    for v in reversed(vertices[1:]):
        size[parents[v]] += size[v]
    pre = [0] * len(parent)
    free = [1] * len(parent)  # next number to hand out below each vertex
    for v in vertices[1:]:
        p = parents[v]
        pre[v] = free[p]
        free[p] += size[v]
        free[v] = pre[v] + 1
    return np.array(pre), np.array(size)
