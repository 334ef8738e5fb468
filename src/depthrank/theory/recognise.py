"""From data and a start to the exact limit that applies, or to the assumption that fails."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depthrank.errors import DepthrankError
from depthrank.factors import dims
from depthrank.theory._measures import RankMeasures, check_dense, rank_measures
from depthrank.theory._start import check_depth
from depthrank.theory.blocks import BlockLimits, block_limits
from depthrank.theory.limits import Limits, limits
from depthrank.theory.matching import matching_limit, unequal_diagonal_limit

__all__ = ["DataLimit", "limits_for"]

Array = NDArray[np.float64]
INSTEAD = "depthrank.flow(observations, ...) simulates this case."


@dataclass(frozen=True, eq=False, kw_only=True)
class DataLimit(RankMeasures):
    """The exact limit for given observations and start; see `RankMeasures` for the spectrum.

    Attributes
    ----------
    matrix : ndarray, shape (m, n)
        The limit, in the row and column order of the observations.
    statement : str
        Which theorem applies.
    """

    matrix: Array
    statement: str


def limits_for(observations: Any, *, depth: int, init: Any, seed: int = 0) -> DataLimit:
    """Exact t -> infinity limit for these observations, or the assumption that they miss.

    Recognised are: any data at depth 1; observations without a common row or column at depth 2 (any
    start, rectangular too); from `AlphaM` at any depth, equal diagonal blocks with one value, in
    any simultaneous order of rows and columns; equal blocks that have the all-ones vector as
    eigenvector; an unequal diagonal at m = inf.

    Label: exact. Source: Shin & Yun (ICLR 2026), Theorems 3.1 and 3.3, and the cases derived beside
    them in this package.

    Parameters
    ----------
    observations : Observations
    depth : int
        >= 1.
    init : AlphaM, or for depth 1 and matchings any start
        Called as init(dims, seed).
    seed : int
        For random starts.

    Raises
    ------
    DepthrankError
        Naming the assumption that fails: the pattern, the values or the start.
    """
    depth = check_depth(depth)
    shape, rows, cols = observations.shape, observations.rows, observations.cols
    values = observations.values
    if rows.size == 0:
        raise DepthrankError("nothing is observed: the flow stays at its start.")
    if depth == 1:
        matrix = np.array(init(dims(shape, 1), seed)[0], dtype=np.float64)
        matrix[rows, cols] = values
        return _from_matrix(matrix, "depth 1: observed entries are fitted, others never move")
    if depth == 2 and np.unique(rows).size == rows.size == np.unique(cols).size:
        W1, W2 = matching_limit(init(dims(shape, 2), seed), rows, cols, values)
        return _from_matrix(W2 @ W1, "depth 2, no common row or column: Theorem 3.1 in general")
    alpha, m = getattr(init, "alpha", None), getattr(init, "m", None)
    if alpha is None or m is None:
        raise DepthrankError(
            f"the start is {init!r}; the exact limits assume AlphaM(alpha, m) here. {INSTEAD}"
        )
    groups = _blocks(shape, rows, cols)
    size = len(groups[0])
    dense = np.zeros(shape)
    dense[rows, cols] = values
    blocks = np.array([dense[np.ix_(g, g)] for g in groups])
    spread = float(np.ptp(values))
    scale = 1e-12 * float(np.abs(values).max())
    found: Limits | BlockLimits
    if spread <= scale:
        found = limits(
            depth=depth,
            alpha=alpha,
            m=m,
            n_blocks=len(groups),
            block_size=size,
            value=float(values[0]),
        )
        text = "equal diagonal blocks with one value: Theorem 3.3"
    elif size == 1:
        matrix = unequal_diagonal_limit(np.diag(dense), depth=depth, alpha=alpha, m=m)
        return _from_matrix(matrix, "diagonal data, diagonal start: every entry on its own")
    elif np.ptp(blocks, axis=0).max() <= scale:
        found = block_limits(depth=depth, alpha=alpha, m=m, n_blocks=len(groups), block=blocks[0])
        text = "equal symmetric diagonal blocks: Theorem 3.3, mode by mode"
    else:
        raise DepthrankError(
            f"the values of the {len(groups)} blocks differ (overall from {values.min():g} to "
            f"{values.max():g}); the theorem assumes the same block everywhere. {INSTEAD}"
        )
    matrix = np.empty(shape)
    order = np.concatenate(groups)
    matrix[np.ix_(order, order)] = found.end_to_end()
    shared = {name: getattr(found, name) for name in RankMeasures.__dataclass_fields__}
    return DataLimit(**shared, matrix=matrix, statement=text)


def _from_matrix(matrix: Array, statement: str) -> DataLimit:
    with np.errstate(divide="ignore"):
        logs = np.log(np.linalg.svd(matrix, compute_uv=False))
    fields = rank_measures(logs, np.ones(logs.size, dtype=np.int64))
    return DataLimit(**fields, matrix=matrix, statement=statement)


def _blocks(
    shape: tuple[int, int], rows: NDArray[np.int64], cols: NDArray[np.int64]
) -> list[NDArray[np.int64]]:
    """Index sets of fully observed diagonal blocks of equal size, or an error naming the misfit."""
    if shape[0] != shape[1]:
        raise DepthrankError(
            f"the matrix is {shape[0]} x {shape[1]}; the theorem assumes a square one. {INSTEAD}"
        )
    check_dense(shape[0])
    ends = np.searchsorted(rows, np.arange(shape[0] + 1))
    groups: dict[bytes, list[int]] = {}
    for i in range(shape[0]):
        groups.setdefault(cols[ends[i] : ends[i + 1]].tobytes(), []).append(i)
    found = []
    for members in groups.values():
        first = members[0]
        seen = cols[ends[first] : ends[first + 1]]
        if not np.array_equal(seen, members):
            listed = ", ".join(str(j) for j in seen[:6]) + (", ..." if seen.size > 6 else "")
            raise DepthrankError(
                f"row {first} is observed in columns [{listed}], and {len(members)} row(s) have "
                "that pattern; the theorem assumes fully observed blocks on the diagonal (after "
                f"one permutation of rows and columns). {INSTEAD}"
            )
        found.append(np.asarray(members, dtype=np.int64))
    sizes = sorted({len(g) for g in found})
    if len(sizes) > 1:
        raise DepthrankError(
            f"the observed blocks have sizes {sizes}; the theorem assumes equal ones. {INSTEAD}"
        )
    return found
