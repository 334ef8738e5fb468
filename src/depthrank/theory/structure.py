"""Which entries *can* couple: a verdict from the observation graph and the zeros of the start.

A structural verdict speaks for the whole flow: zeros that the flow may fill are counted as filled.
'Cannot' is a proof. 'Can' means that nothing in the pattern of zeros forbids it; rare starts
without zeros stay decoupled too (a diagonal start seen through rotated hidden layers).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from depthrank.errors import DepthrankError
from depthrank.factors import check_factors
from depthrank.theory._start import check_depth
from depthrank.theory.coupling import cells, entry_components

__all__ = ["CanCouple", "can_couple", "coupled_by_depth"]

Bools = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class CanCouple:
    """The structural verdict of `can_couple`; arrays are in the order of the observations.

    Attributes
    ----------
    components : ndarray of int, shape (k,)
        Connected component of each observed entry in the observation graph.
    groups : ndarray of int, shape (k,)
        Entries in one group can influence each other, directly or through others; entries in
        different groups never do.
    entries : bool
        Whether any two distinct entries can couple.
    across : bool
        Whether entries of different components can couple.
    everything : bool
        Whether all entries (two or more) form one group.
    """

    components: NDArray[np.int64]
    groups: NDArray[np.int64]
    entries: bool
    across: bool
    everything: bool


def can_couple(
    observations: Any, *, depth: int | None = None, factors: Sequence[Any] | None = None
) -> CanCouple:
    """Decide from structure alone which observed entries can couple under the flow.

    With `factors`, the start's zero pattern is closed under the flow: W_l[a, b] may become non-zero
    as soon as some observed (i, j) has a path from column j to unit b and from unit a to row i.
    Entries (i, j), (k, q) can then couple if, in some layer l, one unit above reaches both i and k
    and one unit below is reached from both j and q. With `depth` only, the start is generic (no
    zeros): depth 1 couples nothing, depth 2 the connected components, depth >= 3 everything. A
    diagonal start with diagonal observations splits into disjoint paths and couples nothing at any
    depth.

    Label: exact where it excludes coupling. Source: Shin & Yun (ICLR 2026), Proposition 3.2.

    Parameters
    ----------
    observations : Observations or bool ndarray (m, n)
        Which entries are observed.
    depth : int, optional
        Number of factors, for a generic start.
    factors : sequence of array_like, optional
        The start itself; give this or `depth`.

    Returns
    -------
    CanCouple

    Examples
    --------
    >>> diagonal = np.eye(3, dtype=bool)
    >>> can_couple(diagonal, depth=2).entries, can_couple(diagonal, depth=3).across
    (False, True)
    >>> can_couple(diagonal, factors=(np.eye(3),) * 3).entries
    False
    """
    if (depth is None) == (factors is None):
        raise DepthrankError("give either depth (a generic start) or factors (this start).")
    seen = cells(observations)
    shape, rows, cols = seen
    components = entry_components(seen)
    if factors is None:
        groups = _generic_groups(check_depth(depth or 0), rows.size, components)
    else:
        patterns = [np.asarray(W) != 0 for W in check_factors(factors, shape)]
        groups = _groups(_reach(patterns, rows, cols, shape), rows, cols)
    sizes = np.bincount(groups)
    links = np.unique(np.stack([groups, components]), axis=1).shape[1]
    return CanCouple(
        components=components,
        groups=groups,
        entries=bool(np.any(sizes > 1)),
        across=links > sizes.size,
        everything=rows.size > 1 and sizes.size == 1,
    )


def coupled_by_depth(observations: Any, depths: Iterable[int] = (1, 2, 3, 4)) -> dict[int, bool]:
    """Whether all observed entries train together at each depth, from a generic start.

    True means that every two observed entries influence each other, directly or through a chain of
    coupled entries. Depth 1: never (each entry is its own problem). Depth 2: exactly if the
    observation graph is connected (and there are two entries or more); otherwise each connected
    component is its own problem, coupled inside. Depth >= 3: always, with two entries or more;
    exceptions are starts of measure zero, such as diagonal ones with diagonal observations, for
    which `can_couple(observations, factors=...)` gives the verdict.

    Label: exact. Source: Shin & Yun (ICLR 2026), Proposition 3.2.

    Examples
    --------
    >>> coupled_by_depth(np.eye(3, dtype=bool))
    {1: False, 2: False, 3: True, 4: True}
    """
    return {depth: can_couple(observations, depth=depth).everything for depth in depths}


def _generic_groups(depth: int, k: int, components: NDArray[np.int64]) -> NDArray[np.int64]:
    if depth == 1:
        return np.arange(k, dtype=np.int64)
    return components if depth == 2 else np.zeros(k, dtype=np.int64)


def _times(first: Bools, second: Bools) -> Bools:
    """Boolean matrix product, through float32 for speed (counts up to 2^24 are exact)."""
    return np.asarray(first.astype(np.float32) @ second.astype(np.float32) > 0)


def _reach(
    patterns: list[Bools],
    rows: NDArray[np.int64],
    cols: NDArray[np.int64],
    shape: tuple[int, int],
) -> list[tuple[Bools, Bools]]:
    """For each layer, (above[i, a], below[b, j]) after the flow has filled what it can."""
    seen = np.zeros(shape, dtype=bool)
    seen[rows, cols] = True
    while True:
        above = [np.eye(shape[0], dtype=bool)]
        for W in reversed(patterns[1:]):
            above.append(_times(above[-1], W))
        below = [np.eye(shape[1], dtype=bool)]
        for W in patterns[:-1]:
            below.append(_times(W, below[-1]))
        layers = list(zip(reversed(above), below, strict=True))
        filled = [
            W | _times(_times(A.T, seen), B.T) for W, (A, B) in zip(patterns, layers, strict=True)
        ]
        if all(np.array_equal(new, old) for new, old in zip(filled, patterns, strict=True)):
            return layers
        patterns = filled


def _groups(
    layers: list[tuple[Bools, Bools]], rows: NDArray[np.int64], cols: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return the connected groups of the structural kernel, by breadth-first search."""
    shared = [(_times(A, A.T), _times(B.T, B)) for A, B in layers]
    groups = np.full(rows.size, -1, dtype=np.int64)
    left, label = rows.size, 0
    for seed in range(rows.size):
        if groups[seed] >= 0:
            continue
        groups[seed] = label
        left -= 1
        frontier = [seed]
        while frontier and left:
            entry = frontier.pop()
            linked = np.zeros(rows.size, dtype=bool)
            for up, down in shared:
                linked |= up[rows[entry]][rows] & down[cols[entry]][cols]
            new = np.flatnonzero(linked & (groups < 0))
            groups[new] = label
            left -= new.size
            frontier.extend(new.tolist())
        label += 1
    return groups
