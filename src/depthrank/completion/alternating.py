"""Resuming at depth 2 under weight decay, by alternating ridge regressions.

With two factors and decay the loss is half the squared residuals plus decay/2 (|W_1|^2 + |W_2|^2).
Given one factor the best other one is a ridge regression, row by row. Sweeping between the two
from a fitted state comes to rest where the flow does (a stationary point of the same loss), in a
few sweeps and without compiling anything; from a cold start it would be no gradient flow, which is
why only updates use it.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from depthrank.dynamics.trajectory import Recorder, Trajectory
from depthrank.factors import Factors
from depthrank.observations import Observations
from depthrank.seeds import generator

Floats = NDArray[np.float64]

_SIGNIFICANT = 1e-3  # hidden directions below this part of the largest are left behind
_SPARE = 4  # fresh hidden directions, so that the rank may grow
_SPARE_SIZE = 1e-2
_MOST = 12
_SETTLED = 1e-4  # relative change of the loss (or of the held-out error) that ends the sweeps
_BLOCK = 2**21  # entries of the Gram matrices of one block of rows


@dataclass(frozen=True, eq=False)
class Swept:
    """Where sweeps have ended.

    Attributes
    ----------
    factors : (W_1, W_2)
    sweeps : int
        Taken to the state that is returned.
    mse : float
        Mean squared residual on what is seen.
    held_out_mse : float or None
    """

    factors: Factors
    sweeps: int
    mse: float
    held_out_mse: float | None


def sweep(
    seen: Observations,
    right: Floats,
    decay: float,
    *,
    held_out: Observations | None = None,
    sweeps: int = _MOST,
) -> Swept:
    """Alternate ridge regressions from a right factor.

    Parameters
    ----------
    seen, held_out : Observations
        Prepared alike, [m, n].
    right : float64 [k, n]
        W_1 to begin with; columns of zeros are columns that nothing is known of.
    decay : float
        > 0.
    sweeps : int
        At most; with `held_out` the state of the smallest error there is returned.

    Returns
    -------
    Swept
        Label: numerical; every sweep lowers the loss.
    """
    mask, values = seen.mask().astype(np.float64), seen.to_dense(fill=0.0)
    state, best = right, Swept((right, np.zeros((len(mask), len(right)))), 0, np.inf, None)
    last = np.inf
    for number in range(1, sweeps + 1):
        left = _ridge(mask, values, state, decay)
        state = _ridge(mask.T, values.T, left.T, decay).T
        mse = _mse(left, state, seen)
        goal = mse if held_out is None else _mse(left, state, held_out)
        if goal < last or held_out is None:
            best = Swept((state, left), number, mse, None if held_out is None else goal)
        if goal > (1 - _SETTLED) * last:
            break
        last = goal
    return replace(best, factors=_balanced(*best.factors))


def trajectory(
    swept: Swept, seen: Observations, began: float, seed: int, decay: float
) -> Trajectory:
    """Return sweeps in the form of a run: time counts sweeps, ends are recorded."""
    settings = {"depth": 2, "seed": seed, "weight_decay": decay, "solver": "alternating ridge"}
    recorder = Recorder(seen.n_observed)
    recorder.snapshot(float(swept.sweeps), swept.mse, swept.factors, entries=False)
    held_out = np.inf if swept.held_out_mse is None else swept.held_out_mse
    recorder.accepted(np.array([swept.sweeps]), np.array([swept.mse]), np.array([held_out]))
    stopped = "stationary" if swept.held_out_mse is None else "validation"
    return Trajectory(
        factors=swept.factors,
        data=recorder.dataset({**settings, "stopped_by": stopped}),
        time=float(swept.sweeps),
        n_observed=seen.n_observed,
        observed_mse=swept.mse,
        validation_mse=swept.held_out_mse,
        steps=swept.sweeps,
        rejected=0,
        evaluations=swept.sweeps,
        stopped_by=stopped,
        converged=True,
        tol=_SETTLED,
        imbalance_drift=0.0,
        seconds=time.perf_counter() - began,
        compile_seconds=0.0,
        settings=settings,
    )


def _balanced(right: Floats, left: Floats) -> Factors:
    """Return balanced factors of left @ right."""
    Q, T = np.linalg.qr(left)
    U, s, Vt = np.linalg.svd(T @ right, full_matrices=False)
    root = np.sqrt(s)
    return root[:, None] * Vt, (Q @ U) * root


def right_factor(factors: Factors, n: int, seed: int) -> Floats:
    """Return what a fitted pair knows of the columns: significant directions, and a few fresh.

    Parameters
    ----------
    factors : (W_1, W_2)
    n : int
        Columns of the table to come; further ones are zero.
    seed : int

    Returns
    -------
    float64 [k, n]
    """
    W1 = _balanced(*factors)[0]
    sizes = np.linalg.norm(W1, axis=1) ** 2  # the singular values of the product
    kept = W1[: max(int(np.sum(sizes > _SIGNIFICANT * sizes[0])), 1)]
    k = len(kept)
    spare = generator(seed, "spare").standard_normal((_SPARE, W1.shape[1]))
    spare *= _SPARE_SIZE * np.linalg.norm(kept, axis=1).max() / np.sqrt(W1.shape[1])
    right = np.zeros((k + _SPARE, n))
    right[:, : W1.shape[1]] = np.vstack([kept, spare])
    return right


def _ridge(mask: Floats, values: Floats, right: Floats, decay: float) -> Floats:
    """Return the left factor that fits best, [m, k]: one ridge regression a row."""
    k, n = right.shape
    pairs = (right[:, None] * right[None]).reshape(k * k, n).T
    left = np.empty((len(mask), k))
    step = max(_BLOCK // (k * k), 1)
    for first in range(0, len(mask), step):
        block = slice(first, first + step)
        grams = (mask[block] @ pairs).reshape(-1, k, k)
        grams[:, np.arange(k), np.arange(k)] += decay
        left[block] = np.linalg.solve(grams, (values[block] @ right.T)[..., None])[..., 0]
    return left


def _mse(left: Floats, right: Floats, cells: Observations) -> float:
    found = np.einsum("ik,ki->i", left[cells.rows], right[:, cells.cols])
    return float(np.mean((found - cells.values) ** 2)) if cells.n_observed else 0.0
