"""The 2 x 2 problem: every pattern at depth 2, and the smallest loss of plasticity.

Source: Shin & Yun (ICLR 2026), Theorem 3.1 (depth 2) and the 2 x 2 case of Theorems 4.2, 4.3.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError
from depthrank.theory._start import check_start
from depthrank.theory.matching import matching_limit

__all__ = ["TwoByTwo", "Warm2x2", "singular_values_after", "two_by_two", "warm_2x2"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class TwoByTwo:
    """What is known of one 2 x 2 problem at depth 2.

    Attributes
    ----------
    matrix : ndarray, shape (2, 2)
        The limit; exact, or for label 'asymptotic' and 'rigorous bound' the limit as alpha -> 0
        (observed entries are reached at every alpha).
    sigma_2_bound : float or None
        Bound on the second singular value for all t, where one is proved.
    sigma_2_exponent : float or None
        sigma_2 of the limit falls like alpha to this power, where that is the state of knowledge.
    connected : bool
        Whether the observed entries form a connected graph.
    label : str
        'exact', 'rigorous bound' (one row or column) or 'numerical' (three entries).
    statement : str
    """

    matrix: Array
    sigma_2_bound: float | None
    sigma_2_exponent: float | None
    connected: bool
    label: str
    statement: str


def two_by_two(target: ArrayLike, *, alpha: float, m: float) -> TwoByTwo:
    """Limit of the depth-2 flow from `AlphaM(alpha, m)` on a 2 x 2 matrix, unobserved entries nan.

    - one entry, or two that share no row or column (the diagonal): exact; for the diagonal with
      positive values X_12 = X_21 = 2m/(m^2+1) sqrt(w_1 w_2), rank 2 for every alpha unless m = 1;
    - one full row or column: sigma_2 <= alpha^2 (1 + 1/m^2) for all t;
    - three entries: the limit tends to the rank-one completion as alpha -> 0 (numerical), if there
      is one;
    - all four: the target itself if it is positive semidefinite (exact).

    Source: Shin & Yun (ICLR 2026), Theorem 3.1.

    Raises
    ------
    DepthrankError
        If the shape is not 2 x 2, nothing is observed, or the case is open; the message says which.
    """
    a, mm = check_start(float(alpha), float(m))
    X = np.array(target, dtype=np.float64)
    if X.shape != (2, 2):
        raise DepthrankError(f"target has shape {X.shape}; this function is for 2 x 2 matrices.")
    seen = np.isfinite(X)
    count = int(seen.sum())
    rows, cols = np.nonzero(seen)
    if count == 0:
        raise DepthrankError("no entry of the target is observed (finite); nothing would move.")
    if count == 1 or (count == 2 and seen[0, 0] == seen[1, 1] and seen[0, 1] == seen[1, 0]):
        off = float(a / mm)
        W = np.array([[float(a), off], [off, float(a)]])
        limit = matching_limit((W, W), rows, cols, X[seen])
        matrix = limit[1] @ limit[0]
        text = "no two observed entries share a row or column: each is fitted on its own"
        return TwoByTwo(
            matrix=matrix,
            sigma_2_bound=None,
            sigma_2_exponent=None,
            connected=count == 1,
            label="exact",
            statement=text,
        )
    if count == 2:
        bound = float(a) ** 2 * (1 + 1 / float(mm) ** 2)
        return TwoByTwo(
            matrix=np.where(seen, X, 0.0),
            sigma_2_bound=bound,
            sigma_2_exponent=2.0,
            connected=True,
            label="rigorous bound",
            statement="one row or column: the other never moves away from zero as alpha -> 0",
        )
    return _three_or_four(X, seen, count)


def _three_or_four(X: Array, seen: NDArray[np.bool_], count: int) -> TwoByTwo:
    if count == 4:
        definite = X[0, 1] == X[1, 0] and np.linalg.eigvalsh(X)[0] >= 0
        if not definite:
            raise DepthrankError(
                "all four entries are observed but the target is not symmetric positive "
                "semidefinite; the exact statement assumes that. depthrank.flow simulates it."
            )
        return TwoByTwo(
            matrix=X,
            sigma_2_bound=None,
            sigma_2_exponent=None,
            connected=True,
            label="exact",
            statement="everything is observed: the limit is the target at every alpha",
        )
    i, j = (int(k[0]) for k in np.nonzero(~seen))
    opposite, corner = X[i, 1 - j] * X[1 - i, j], X[1 - i, 1 - j]
    if corner == 0 or (i == j and corner < 0):
        raise DepthrankError(
            f"the observed entry opposite the missing one is {corner:g}; the statement assumes it "
            "positive (non-zero if an off-diagonal entry is missing), else no rank-one completion "
            "is reached. depthrank.flow simulates this case."
        )
    filled = np.where(seen, X, 0.0)
    completed = filled.copy()
    completed[i, j] = opposite / corner
    if i == j and filled[0, 1] == filled[1, 0]:
        low, high = np.linalg.eigvalsh(filled)
        exponent = 2 * (1 - float(low / high))
    else:
        high, low = np.linalg.svd(filled, compute_uv=False)
        exponent = 2 * (1 - float(low / high))
    return TwoByTwo(
        matrix=completed,
        sigma_2_bound=None,
        sigma_2_exponent=exponent,
        connected=True,
        label="numerical",
        statement="three entries: tends to the rank-one completion as alpha -> 0",
    )


@dataclass(frozen=True, kw_only=True)
class Warm2x2:
    """Bounds after diag(w, w) was fitted and entry (1, 2) with value v is observed as well.

    Attributes
    ----------
    x21_start : float
        b, the unobserved off-diagonal entry when training resumes; X_21 only falls from there.
    x21_lower : float
        -v: X_21 stays above it.
    ratio_lower : float
        Bound on sigma_2/sigma_1 of the limit.
    stable_rank_lower : float
        1 + ratio_lower^2.
    label : str
        'rigorous bound'.
    """

    x21_start: float
    x21_lower: float
    ratio_lower: float
    stable_rank_lower: float
    label: str = "rigorous bound"


def warm_2x2(*, value: float, new_value: float, m: float) -> Warm2x2:
    """Smallest loss of plasticity: depth 2, diagonal (w, w) fitted first, then one more entry v.

    The unobserved entry moves away from its rank-one value w^2/v: X_21 never rises above its start
    b = 2 m w/(m^2+1), so the result is at least as far from rank one as [[w, v], [b, w]], however
    small alpha was. Assumes w > 0, v > b and v b < w^2; at m = inf (b = 0) every v != 0, by the
    sign symmetry.

    Label: rigorous bound. Source: 2 x 2 case of Shin & Yun (ICLR 2026), Theorems 4.2 and 4.3,
    derived here with constants.

    Examples
    --------
    >>> round(warm_2x2(value=1.0, new_value=1.0, m=float("inf")).stable_rank_lower, 6)
    1.145898
    """
    check_start(1.0, float(m))
    w, v = float(value), float(new_value)
    b = 0.0 if np.isinf(m) else 2 * m * w / (m**2 + 1)
    sized = abs(v) if b == 0 else v
    if not (w > 0 and sized > b and sized * b < w**2):
        raise DepthrankError(
            f"value w = {w:g}, new value v = {v:g}, off-diagonal start b = {b:g}; the theorem "
            "assumes w > 0, v > b and v b < w^2. depthrank.flow simulates the other cases."
        )
    root = np.sqrt(4 * w**2 + (sized - b) ** 2)
    # (root - (v+b)) / (root + (v+b)), without subtracting nearly equal numbers
    ratio = float(4 * (w**2 - sized * b) / (root + sized + b) ** 2)
    return Warm2x2(
        x21_start=b, x21_lower=-abs(v), ratio_lower=ratio, stable_rank_lower=1 + ratio**2
    )


def singular_values_after(value: float, new_value: float, x21: float) -> Array:
    """Return the singular values of [[w, v], [x21, w]], the limit of `warm_2x2` given its X_21.

    They are sqrt(w^2 + (v - x21)^2/4) +- (v + x21)/2, up to sign. Label: exact.
    """
    w, v = float(value), float(new_value)
    root, total = np.sqrt(4 * w**2 + (v - x21) ** 2), abs(v + x21)
    first = (root + total) / 2
    return np.array([first, abs(w**2 - v * x21) / first])
