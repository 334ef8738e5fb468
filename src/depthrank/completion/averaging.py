"""Depth 2 with decay, averaged over what the data leave open instead of taken at its peak.

Half the squared error over sigma^2 plus decay on two factors is minus the logarithm of a density:
Gaussian noise of size sigma, Gaussian factors. The flow under decay ends at its peak. On noisy
tables the mean is the better answer, since a factor that is known badly is then trusted less than
one that is known well, row by row and column by column. The mean is found here under the
assumption that rows and columns vary independently (variational Bayes); noise and the decay of
each direction, which a peak cannot tell, are learned with it, and directions that the data do not
support fade away.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from depthrank.completion.offsets import Preparation, prepare
from depthrank.observations import Observations

Floats = NDArray[np.float64]

SWEEPS = 40
_SETTLED = 1e-4  # relative change of sigma between two sweeps
_SPARSE = 0.15  # density below which products with the pattern run over its cells alone
_CACHED = 400_000  # numbers
_NOISE_FLOOR = 1e-6  # of the prepared table
_LEAST_SWEEPS = 10


@dataclass(frozen=True, eq=False)
class Side:
    """Means and covariances of the coefficients of rows, or of columns.

    Attributes
    ----------
    mean : float64 [size, q]
        Factor, and in the last column the additive effect.
    cov : float64 [size, q, q]
        Covariance of each.
    prior : float64 [q]
        Variance over rows (columns) of each coefficient.
    """

    mean: Floats
    cov: Floats
    prior: Floats


@dataclass(frozen=True, eq=False)
class Average:
    """Posterior means of a prepared table; the entry (i, j) is u_i . v_j + a_i + b_j.

    Attributes
    ----------
    rows, cols : Side
        (u, a) and (v, b).
    sigma : float
        Size of the noise.
    sweeps : int
        How many it took.
    course : list of float
        sigma after each.
    """

    rows: Side
    cols: Side
    sigma: float
    sweeps: int
    course: list[float]

    def mean(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> Floats:
        """Return the mean of cells."""
        u, v = self.rows.mean[i], self.cols.mean[j]
        return np.asarray(
            np.einsum("kd,kd->k", u[:, :-1], v[:, :-1]) + u[:, -1] + v[:, -1], dtype=float
        )

    def variance(self, i: NDArray[np.int64], j: NDArray[np.int64]) -> Floats:
        """Return the variance of cells, without the noise.

        Memory is some q^2 numbers a cell; ask for no more than some ten thousand at a time.
        """
        u, v = opened(self.rows.mean)[i], opened(self.cols.mean)[j]
        of_u, of_v = self.rows.cov[i], self.cols.cov[j]
        both = np.einsum("kab,kab->k", of_u[:, :-1, :-1], of_v[:, :-1, :-1])
        first = np.einsum("ka,kab,kb->k", v, of_u, v, optimize=True)
        second = np.einsum("ka,kab,kb->k", u, of_v, u, optimize=True)
        return np.asarray(first + second + both)


class Pattern:
    """The observed cells, for sums over the columns of each row and the other way round."""

    def __init__(self, observations: Observations) -> None:
        m, n = observations.shape
        seen = (observations.rows, observations.cols)
        mask = sparse.coo_array((np.ones(observations.n_observed), seen), (m, n)).tocsr()
        table = sparse.coo_array((observations.values, seen), (m, n)).tocsr()
        thin = observations.density < _SPARSE
        self.mask: Any = mask if thin else mask.toarray()
        self.table: Any = table if thin else table.toarray()
        self.mask_t: Any = mask.T.tocsr() if thin else np.ascontiguousarray(self.mask.T)
        self.table_t: Any = table.T.tocsr() if thin else np.ascontiguousarray(self.table.T)
        self.observations = observations


def average_table(
    observations: Observations,
    width: int,
    offsets: str,
    scaling: str,
    seed: int,
    *,
    start: Callable[[Preparation], tuple[Floats, Floats]] | None = None,
    sweeps: int = SWEEPS,
) -> tuple[Average, Preparation]:
    """Prepare a table and average it, its effects together with the factors.

    Parameters
    ----------
    observations : Observations
        In the units of the table.
    width, seed, sweeps
        As `average` takes them.
    offsets, scaling : str
        As `prepare` takes them. Where columns have scales of their own, effects are taken off
        first: they would not be additive afterwards.
    start : callable, optional
        From the preparation to factors to start from.

    Returns
    -------
    (Average, Preparation)
        The effects that were found are part of the preparation.
    """
    way = prepare(observations, offsets, scaling)
    together = way.scaling != "columns"
    if together:
        way = replace(way, row_effects=0 * way.row_effects, col_effects=0 * way.col_effects)
    found = average(
        way.apply(observations),
        width,
        offsets if together else "none",
        seed,
        start=None if start is None else start(way),
        sweeps=sweeps,
    )
    if together:
        scale = float(way.scales[0])
        way = replace(
            way,
            row_effects=scale * found.rows.mean[:, -1],
            col_effects=scale * found.cols.mean[:, -1],
        )
    return found, way


def average(
    observations: Observations,
    width: int,
    effects: str,
    seed: int,
    *,
    start: tuple[Floats, Floats] | None = None,
    sweeps: int = SWEEPS,
) -> Average:
    """Return the posterior mean of two factors and additive effects.

    Parameters
    ----------
    observations : Observations
        Prepared: centred if effects are wanted, of root mean square one.
    width : int
        Number of directions to begin with, >= 0.
    effects : str
        "none", "rows", "columns" or "both".
    seed : int
        Of the start, where none is given.
    start : (float64 [m, width], float64 [n, width]), optional
        Factors to start from.
    sweeps : int
        At most.

    Returns
    -------
    Average

    Notes
    -----
    **Label.** Numerical; the independence of rows and columns is an assumption.
    **Source.** Lim & Teh, Variational Bayesian approach to movie rating prediction (2007), with
    additive effects and a prior variance for every direction.
    """
    m, n = observations.shape
    pattern = Pattern(observations)
    u, v = _start(pattern, width, seed) if start is None else start
    size = max(observations.rms**2, _NOISE_FLOOR**2)
    with_a = float(effects in ("rows", "both"))
    with_b = float(effects in ("columns", "both"))
    q = u.shape[1] + 1
    effect = 0.2 * size
    rows = Side(np.pad(u, ((0, 0), (0, 1))), np.zeros((m, q, q)), _prior(u, effect * with_a))
    cols = Side(np.pad(v, ((0, 0), (0, 1))), np.zeros((n, q, q)), _prior(v, effect * with_b))
    now = Average(rows, cols, float(np.sqrt(size)), 0, [])
    for sweep in range(1, sweeps + 1):
        before = now.sigma
        now = _sweep(pattern, now, sweep > 1)
        now.course.append(now.sigma)
        if sweep > _LEAST_SWEEPS and abs(now.sigma - before) < _SETTLED * before:
            break
    return now


def covariances(
    observations: Observations, u: Floats, v: Floats, sigma: float, sweeps: int = 3
) -> Average:
    """Return how well the given means are known; the means stay as they are.

    Parameters
    ----------
    observations : Observations
        What they were fitted to; its values play no part.
    u, v : float64 [m, q], [n, q]
        Coefficients, the additive effects last.
    sigma : float
        Noise.
    sweeps : int
        Of the two covariances, which depend on each other.
    """
    m, q = u.shape
    pattern = Pattern(observations)
    sigma = max(sigma, _NOISE_FLOOR)
    rows = Side(u, np.zeros((m, q, q)), np.mean(u**2, axis=0))
    cols = Side(v, np.zeros((len(v), q, q)), np.mean(v**2, axis=0))
    for _ in range(sweeps):
        cov = _inverse(_gram(pattern.mask, cols), rows.prior, sigma)
        rows = replace(rows, cov=cov)
        cov = _inverse(_gram(pattern.mask_t, rows), cols.prior, sigma)
        cols = replace(cols, cov=cov)
    return Average(rows, cols, sigma, 0, [])


def _start(pattern: Pattern, width: int, seed: int) -> tuple[Floats, Floats]:
    """Return the leading singular vectors of the table filled with zeros, and a little noise."""
    from scipy.sparse.linalg import svds

    m, n = pattern.mask.shape
    random = np.random.default_rng(seed)
    k = min(width, min(m, n) - 1)
    u, v = (0.03 * random.standard_normal((size, width)) for size in (m, n))
    if k > 0:
        left, s, right = svds(pattern.table, k=k, rng=random)
        s = np.sqrt(s / max(pattern.observations.density, 1e-3))[::-1]
        u[:, :k] += left[:, ::-1] * s * 0.5
        v[:, :k] += right[::-1].T * s * 0.5
    return u, v


def _prior(factor: Floats, effect: float) -> Floats:
    return np.append(np.full(factor.shape[1], 1.0), effect)


def _sweep(pattern: Pattern, now: Average, learn: bool) -> Average:
    rows = _half(pattern.mask, pattern.table, now.cols, now.rows, now.sigma, learn)[0]
    cols, error = _half(pattern.mask_t, pattern.table_t, rows, now.cols, now.sigma, learn)
    sigma = float(np.sqrt(max(error / pattern.observations.n_observed, _NOISE_FLOOR**2)))
    return Average(rows, cols, sigma, now.sweeps + 1, now.course)


def opened(mean: Floats) -> Floats:
    """Return the coefficients that the other side's meet: factor, and one for its effect."""
    return np.concatenate((mean[:, :-1], np.ones((len(mean), 1))), axis=1)


def _half(
    mask: Any, table: Any, fixed: Side, free: Side, sigma: float, learn: bool
) -> tuple[Side, float]:
    """Return one side given the other, and the expected sum of squared residuals after it."""
    design, effect = opened(fixed.mean), fixed.mean[:, -1]
    q = design.shape[1]
    upper = np.triu_indices(q)
    outer = design[:, upper[0]] * design[:, upper[1]]
    spread = fixed.cov[:, upper[0], upper[1]]
    aims = table @ design - mask @ (effect[:, None] * design)
    mean, cov = np.empty((len(aims), q)), np.empty((len(aims), q, q))
    # E(y - b - u.v - a)^2, summed: squares of y - b, what the means take off, what they vary by
    error = _squares(table, mask, effect)
    for part in _parts(len(aims), q):
        varied = _unpacked(mask[part] @ spread, upper)
        full = _unpacked(mask[part] @ outer, upper)
        full[:, :-1, :-1] += varied[:, :-1, :-1]
        aim = aims[part]
        aim[:, :-1] -= varied[:, :-1, -1]  # the effects of the other side vary with its factor
        known = _inverse(full, free.prior, sigma)
        found = np.einsum("iab,ib->ia", known, aim) / sigma**2
        taken = np.einsum("iab,ib->ia", full, found) - 2 * aim
        error += float(varied[:, -1, -1].sum() + np.einsum("ia,ia->", found, taken))
        error += float(np.einsum("iab,iab->", known, full))
        mean[part], cov[part] = found, known
    prior = free.prior
    if learn:
        prior = np.mean(mean**2, axis=0) + np.mean(np.einsum("iaa->ia", cov), axis=0)
        prior = np.where(free.prior > 0, prior, 0.0)
    return Side(mean, cov, prior), error


def _parts(size: int, q: int) -> list[slice]:
    """Return slices whose q x q matrices stay in the processor's cache."""
    step = max(_CACHED // (q * q), 16)
    return [slice(start, start + step) for start in range(0, size, step)]


def _unpacked(half: Floats, upper: tuple[Any, Any]) -> Floats:
    """Return symmetric matrices from their upper triangles."""
    q = int(upper[0][-1]) + 1
    whole = np.empty((len(half), q, q))
    whole[:, upper[0], upper[1]] = half
    whole[:, upper[1], upper[0]] = half
    return whole


def _squares(table: Any, mask: Any, effect: Floats) -> float:
    """Return the sum over observed cells of (y - effect)^2."""
    if isinstance(table, np.ndarray) and isinstance(mask, np.ndarray):
        return float(np.einsum("ij,ij->", table, table - 2 * effect) + (mask @ effect**2).sum())
    both = table.multiply(table).sum()
    cross = (table @ effect).sum()
    return float(both - 2 * cross + (mask @ effect**2).sum())


def summed(mask: Any, each: Floats) -> Floats:
    """Sum symmetric matrices [n, q, q] over what each row sees, [m, q, q]."""
    upper = np.triu_indices(each.shape[1])
    return _unpacked(mask @ np.ascontiguousarray(each[:, upper[0], upper[1]]), upper)


def _gram(mask: Any, fixed: Side) -> Floats:
    design = opened(fixed.mean)
    each = design[:, :, None] * design[:, None, :]
    each[:, :-1, :-1] += fixed.cov[:, :-1, :-1]
    return summed(mask, each)


def _inverse(gram: Floats, prior: Floats, sigma: float) -> Floats:
    """Return (gram / sigma^2 + diag(1 / prior))^-1, with zeros where the prior is zero."""
    root = np.sqrt(np.maximum(prior, 0.0))
    q = len(prior)
    # Scaled by the prior from both sides: no division by a direction that has faded away.
    inner = gram * (root[:, None] * root / sigma**2) + np.eye(q)
    return np.asarray(np.linalg.inv(inner) * (root[:, None] * root))
