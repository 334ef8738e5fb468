"""Which observed entries train together: gradients' inner products, measured and structural.

Entry (i, j) of W = W_L ... W_1 has the gradient (A_l^T e_i)(B_l e_j)^T with respect to W_l, where
A_l = W_L ... W_{l+1} and B_l = W_{l-1} ... W_1, so two entries' gradients have inner product

    K[(i,j),(k,q)] = sum_l (A_l A_l^T)_{ik} (B_l^T B_l)_{jq}.

Entries are coupled if this is non-zero at some time. At depth 2 entries in different rows and
different columns never couple; at depth >= 3 they do for almost every start.

Source: Shin & Yun (ICLR 2026), definition of coupled dynamics and Proposition 3.2. Label: exact.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from depthrank.errors import DepthrankError
from depthrank.factors import check_factors
from depthrank.graph import connectivity
from depthrank.memory import require

__all__ = [
    "CouplingSummary",
    "coupling",
    "coupling_over",
    "coupling_strength",
    "coupling_summary",
    "tangent_kernel",
]

Array = NDArray[np.float64]

BLOCK_ENTRIES = 2_000_000  # elements of one strip of the kernel


@dataclass(frozen=True, kw_only=True)
class CouplingSummary:
    """Normalised couplings c = K_ab / sqrt(K_aa K_bb), each in [-1, 1], over pairs a != b.

    Attributes
    ----------
    rms, largest : float
        Root mean square and largest magnitude over pairs of distinct entries; 0 without any.
    rms_across, largest_across : float
        The same over pairs that lie in different connected components of the observation graph:
        identically zero at depth 2.
    n_pairs, n_pairs_across : int
        How many pairs each is taken over.
    n_zero_gradients : int
        Observed entries whose gradient vanishes; their couplings count as 0.
    """

    rms: float
    largest: float
    rms_across: float
    largest_across: float
    n_pairs: int
    n_pairs_across: int
    n_zero_gradients: int


def tangent_kernel(factors: Sequence[Any], observations: Any) -> Array:
    """Inner products of the gradients of all observed entries, with respect to all factors.

    Label: exact. Source: Shin & Yun (ICLR 2026), definition of coupled dynamics.

    Parameters
    ----------
    factors : sequence of array_like
        (W_1, ..., W_L), any shapes that chain.
    observations : Observations or bool ndarray (m, n)
        Which entries; values play no role.

    Returns
    -------
    ndarray, shape (k, k)
        In the order of `observations` (sorted by row, then column).

    Raises
    ------
    DepthrankError
        If the factors do not fit the shape, or the whole matrix does not fit in memory.

    Examples
    --------
    >>> tangent_kernel((np.eye(2), np.eye(2)), np.eye(2, dtype=bool))
    array([[2., 0.],
           [0., 2.]])
    """
    kernel = _Kernel(factors, observations, rescale=False)
    _check_full(kernel.size)
    return kernel.strip(0, kernel.size, 0)


def coupling(factors: Sequence[Any], observations: Any) -> Array:
    """Normalised Gram matrix of the observed entries' gradients: cosines of their angles.

    Parameters as for `tangent_kernel`. The factors are rescaled inside, so that starts as small as
    1e-100 do not underflow. An entry with zero gradient gets a zero row and column, diagonal
    included. Label: exact. Source: Shin & Yun (ICLR 2026), definition of coupled dynamics.

    Returns
    -------
    ndarray, shape (k, k)
        Ones on the diagonal; zero where two entries do not couple at these factors.

    Examples
    --------
    >>> W = np.array([[1.0, 0.5], [0.5, 1.0]])
    >>> coupling((W, W), np.eye(2, dtype=bool))[0, 1]
    np.float64(0.0)
    >>> round(coupling((W, W, W), np.eye(2, dtype=bool))[0, 1], 3)
    np.float64(0.15)
    """
    kernel = _Kernel(factors, observations, rescale=True)
    _check_full(kernel.size)
    scale = kernel.inverse_norms()
    normalised = kernel.strip(0, kernel.size, 0) * scale[:, None] * scale
    np.fill_diagonal(normalised, scale > 0)
    return normalised


def coupling_summary(factors: Sequence[Any], observations: Any) -> CouplingSummary:
    """Size of the couplings without ever holding the k x k matrix: strips of a few MB at a time.

    Parameters as for `tangent_kernel`; 10,000 entries take seconds and tens of megabytes, where the
    full matrix would be 800 MB. Label: exact.
    """
    kernel = _Kernel(factors, observations, rescale=True)
    k = kernel.size
    scale = kernel.inverse_norms()
    component = entry_components(kernel.seen)
    one_component = bool(np.all(component == component[:1]))
    squares = squares_across = largest = largest_across = 0.0
    pairs_across = 0
    width = max(1, BLOCK_ENTRIES // max(k, 1))
    for start in range(0, k, width):
        stop = min(start + width, k)
        strip = np.abs(kernel.strip(start, stop, start)) * scale[start:stop, None] * scale[start:]
        # upper triangle only: column c of the strip is entry start + c
        strip[np.tril_indices(stop - start, 0, strip.shape[1])] = 0.0
        squares += float(np.vdot(strip, strip))
        largest = max(largest, float(strip.max(initial=0.0)))
        if one_component:
            continue
        across = component[start:stop, None] != component[None, start:]
        across[np.tril_indices(stop - start, 0, strip.shape[1])] = False
        crossing = strip[across]
        pairs_across += crossing.size
        squares_across += float(crossing @ crossing)
        largest_across = max(largest_across, float(crossing.max(initial=0.0)))
    pairs = k * (k - 1) // 2
    return CouplingSummary(
        rms=float(np.sqrt(squares / pairs)) if pairs else 0.0,
        largest=largest,
        rms_across=float(np.sqrt(squares_across / pairs_across)) if pairs_across else 0.0,
        largest_across=largest_across,
        n_pairs=pairs,
        n_pairs_across=pairs_across,
        n_zero_gradients=int(np.sum(scale == 0)),
    )


def coupling_strength(
    factors: Sequence[Any], observations: Any, *, between: str = "entries"
) -> float:
    """One number for how strongly observed entries couple: the RMS of their normalised couplings.

    It lies in [0, 1] and is 0 exactly if no considered pair couples at these factors.

    Parameters
    ----------
    factors, observations
        As for `tangent_kernel`.
    between : {"entries", "components"}
        All pairs of distinct entries, or only pairs in different connected components of the
        observation graph (the pairs that depth 2 can never couple).

    Returns
    -------
    float
        Label: exact.
    """
    if between not in ("entries", "components"):
        raise DepthrankError(f"between is {between!r}; it must be 'entries' or 'components'.")
    summary = coupling_summary(factors, observations)
    return summary.rms if between == "entries" else summary.rms_across


def coupling_over(snapshots: Iterable[Sequence[Any]], observations: Any) -> dict[str, Array]:
    """Coupling strengths along a trajectory, one value for every tuple of factors in `snapshots`.

    Returns
    -------
    dict of ndarray
        The fields `rms`, `largest`, `rms_across`, `largest_across` of `coupling_summary`.
    """
    summaries = [coupling_summary(factors, observations) for factors in snapshots]
    names = ("rms", "largest", "rms_across", "largest_across")
    return {name: np.array([getattr(s, name) for s in summaries]) for name in names}


class Cells(NamedTuple):
    """Positions of the observed entries, from an Observations or a mask."""

    shape: tuple[int, int]
    rows: NDArray[np.int64]
    cols: NDArray[np.int64]


def cells(observations: Any) -> Cells:
    """Return shape, rows and columns of the observed entries of an Observations or a mask."""
    if isinstance(observations, np.ndarray):
        if observations.ndim != 2 or observations.dtype != np.bool_:
            raise DepthrankError(
                f"observations is an array of shape {observations.shape} and dtype "
                f"{observations.dtype}; give a boolean m x n mask or an Observations."
            )
        rows, cols = np.nonzero(observations)
        return Cells(observations.shape, rows.astype(np.int64), cols.astype(np.int64))
    return Cells(observations.shape, observations.rows, observations.cols)


def entry_components(seen: Cells) -> NDArray[np.int64]:
    """Return the connected component of each observed entry in the bipartite observation graph."""
    return np.asarray(connectivity(seen).row_component[seen.rows], dtype=np.int64)


def _check_full(k: int) -> None:
    require(
        3 * 8 * k * k,
        f"the kernel of {k} observed entries as one matrix",
        "coupling_summary works in strips at any size; or take part of the entries with select().",
    )


class _Kernel:
    """The kernel as strips of rows, from A_l and B_l; never more than one strip in memory."""

    def __init__(self, factors: Sequence[Any], observations: Any, rescale: bool) -> None:
        self.seen = cells(observations)
        _, self.rows, self.cols = self.seen
        chain = [W.astype(np.float64) for W in check_factors(factors, self.seen.shape)]
        self.size = self.rows.size
        # Dividing W_l by c_l divides every term but the l-th by c_l^2; put back relatively.
        largest = [float(np.abs(W).max()) or 1.0 for W in chain]
        norms = np.array(largest) if rescale else np.ones(len(chain))
        self.weights = (norms.min() / norms) ** 2
        chain = [W / c for W, c in zip(chain, norms, strict=True)]
        left, right = list(_prefixes([W.T for W in reversed(chain)])), list(_prefixes(chain))
        # gradient of entry (i, j) in layer l is the outer product of left[l][i] and right[l][j]
        self.left = [None if A is None else A.T for A in reversed(left)]
        self.right = [None if B is None else B.T for B in right]

    def strip(self, start: int, stop: int, first: int) -> Array:
        """Rows start..stop and columns first.. of the kernel."""
        total = np.zeros((stop - start, self.size - first))
        for weight, A, B in zip(self.weights, self.left, self.right, strict=True):
            term = _gram(A, self.rows[start:stop], self.rows[first:])
            term *= _gram(B, self.cols[start:stop], self.cols[first:])
            total += weight * term
        return total

    def inverse_norms(self) -> Array:
        """1/sqrt of the diagonal; 0 where a gradient vanishes."""
        diagonal = np.zeros(self.size)
        for weight, A, B in zip(self.weights, self.left, self.right, strict=True):
            a = 1.0 if A is None else (A**2).sum(axis=1)[self.rows]
            b = 1.0 if B is None else (B**2).sum(axis=1)[self.cols]
            diagonal += weight * a * b
        positive = diagonal > 0
        return np.where(positive, 1.0 / np.sqrt(np.where(positive, diagonal, 1.0)), 0.0)


def _prefixes(chain: Sequence[Array]) -> Iterator[Array | None]:
    """Products of the first 0, 1, ..., L-1 factors; None stands for the identity."""
    product: Array | None = None
    for W in chain:
        yield product
        product = W if product is None else W @ product


def _gram(vectors: Array | None, first: NDArray[np.int64], second: NDArray[np.int64]) -> Array:
    """<v_a, v_b> for index lists a, b; the identity's rows when `vectors` is None."""
    if vectors is None:
        return np.asarray(first[:, None] == second, dtype=np.float64)
    some, where = np.unique(first, return_inverse=True)
    small = vectors[some] @ vectors.T
    return np.asarray(np.take(np.take(small, where, axis=0), second, axis=1))
