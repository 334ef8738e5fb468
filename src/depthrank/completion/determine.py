"""Which cells a pattern determines at a given rank: a rank test of the factorisation's Jacobian.

Write W = U V^T of rank r. Moving U and V by a null vector of the Jacobian at the observed cells
leaves those unchanged to first order. A missing cell is determined, locally and for almost every
matrix of that rank, if no null vector moves it; one random null vector tells, with probability
one. It is taken at a random U and V, because the answer depends on the pattern and the rank alone.
"""

import numpy as np
from numpy.typing import NDArray

from depthrank.graph import LABELS as GRAPH_LABELS
from depthrank.graph import WITHIN, Connectivity
from depthrank.observations import Observations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

DETERMINED = len(GRAPH_LABELS)
LABELS = (*GRAPH_LABELS, "determined")
"""Names of the codes: those of the graph, where `within` is now "not determined", and this one."""

_EXACT_UNKNOWNS = 1500  # up to so many the null space is computed, beyond it a vector is projected
_STILL = 1e-6  # a cell that moves less than this, relative to the largest, does not move
_ITERATIONS = 3000


class Determination:
    """A pattern, a rank, and the null vector that tells which cells are determined.

    Parameters
    ----------
    observations : Observations
        Its values play no part.
    graph : Connectivity
        Of the same cells.
    rank : int
        Assumed rank, >= 1.
    seed : int
        Of the random point.

    Notes
    -----
    **Label.** Up to 1500 unknowns (rows plus columns, times the rank) exact with probability one;
    beyond that numerical, since the null vector is projected iteratively.
    **Source.** Singer & Cucuringu, Uniqueness of low-rank matrix completion by rigidity theory,
    SIAM J. Matrix Anal. Appl. 31 (2010).
    """

    def __init__(
        self, observations: Observations, graph: Connectivity, rank: int, seed: int = 0
    ) -> None:
        m, n = observations.shape
        random = np.random.default_rng(seed)
        self.graph, self.rank = graph, rank
        self.u, self.v = random.standard_normal((m, rank)), random.standard_normal((n, rank))
        moves = self._null(observations, random)
        self.du, self.dv = moves[: m * rank].reshape(m, rank), moves[m * rank :].reshape(n, rank)
        self.size = float(np.abs(moves).max(initial=0.0))

    def _null(self, seen: Observations, random: np.random.Generator) -> Floats:
        """Return a random vector of the null space of the Jacobian at the observed cells."""
        from scipy import sparse
        from scipy.sparse.linalg import lsqr

        m, n = seen.shape
        r, k = self.rank, seen.n_observed
        steps = np.arange(r)
        columns = np.hstack(
            (seen.rows[:, None] * r + steps, m * r + seen.cols[:, None] * r + steps)
        )
        entries = np.hstack((self.v[seen.cols], self.u[seen.rows]))
        cells = np.repeat(np.arange(k), 2 * r)
        jacobian = sparse.csr_array((entries.ravel(), (cells, columns.ravel())), (k, (m + n) * r))
        vector = random.standard_normal((m + n) * r)
        if (m + n) * r <= _EXACT_UNKNOWNS:
            _, s, vt = np.linalg.svd(_square(jacobian.toarray()), full_matrices=True)
            rank = int(np.sum(s > 1e-10 * max(s[0], 1.0)))
            null = vt[rank:]
            return np.asarray(null.T @ (null @ vector))
        found = lsqr(
            jacobian, np.asarray(jacobian @ vector), atol=1e-13, btol=1e-13, iter_lim=_ITERATIONS
        )
        return np.asarray(vector - found[0])

    def moves(self, rows: Ints, cols: Ints) -> NDArray[np.bool_]:
        """Tell which cells, broadcast against each other, the null vector moves."""
        change = np.einsum("...d,...d->...", self.du[rows], self.v[cols])
        change = change + np.einsum("...d,...d->...", self.u[rows], self.dv[cols])
        return np.asarray(np.abs(change) > _STILL * max(self.size, np.finfo(float).tiny) ** 1.0)

    def label(self, rows: Ints, cols: Ints) -> NDArray[np.int8]:
        """Return the code of cells by position, broadcast against each other; see `LABELS`."""
        codes = self.graph.label(rows, cols)
        still = ~self.moves(np.asarray(rows), np.asarray(cols))
        codes[(codes == WITHIN) & still] = DETERMINED
        return codes

    def table(self) -> NDArray[np.int8]:
        """Return the code of every cell, [m, n]; memory is checked first."""
        codes = self.graph.determination()
        cols = np.arange(codes.shape[1])
        for row in range(len(codes)):
            still = ~self.moves(np.asarray(row), cols)
            codes[row, (codes[row] == WITHIN) & still] = DETERMINED
        return codes


def _square(jacobian: Floats) -> Floats:
    """Return a matrix with the same null space and no more rows than columns."""
    if len(jacobian) <= jacobian.shape[1]:
        return jacobian
    return np.asarray(np.linalg.qr(jacobian, mode="r"))
