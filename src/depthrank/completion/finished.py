"""The record of a fit that alternated instead of following a flow."""

from collections.abc import Sequence

import numpy as np

from depthrank.dynamics.trajectory import Recorder, Trajectory
from depthrank.factors import Factors
from depthrank.observations import Observations


def trajectory_of(
    factors: Factors,
    observations: Observations,
    *,
    sweeps: int,
    course: Sequence[float],
    seconds: float,
    seed: int,
    validation_mse: float | None = None,
    stopped_by: str = "stationary",
) -> Trajectory:
    """Return what came out as a `Trajectory`; its time is the number of sweeps.

    Parameters
    ----------
    factors : tuple of arrays
        Two, balanced.
    observations : Observations
        Prepared cells that were fitted.
    sweeps, course : int, sequence of float
        How many sweeps, and the size of the noise after each.
    seconds, seed, validation_mse, stopped_by
        As in `Trajectory`.
    """
    right, left = factors
    fitted = np.einsum("kd,kd->k", left[observations.rows], right.T[observations.cols])
    mse = float(np.mean((fitted - observations.values) ** 2))
    recorder = Recorder(observations.n_observed)
    recorder.snapshot(float(sweeps), mse, factors, False)
    if course:
        levels = np.square(np.asarray(course))
        recorder.accepted(np.arange(1.0, len(levels) + 1), levels, np.full(len(levels), np.inf))
    return Trajectory(
        factors=factors,
        data=recorder.dataset({"solver": "alternating", "time": "sweeps, not flow time"}),
        time=float(sweeps),
        n_observed=observations.n_observed,
        observed_mse=mse,
        validation_mse=validation_mse,
        steps=sweeps,
        rejected=0,
        evaluations=2 * sweeps,
        stopped_by=stopped_by,
        converged=True,
        tol=0.0,
        imbalance_drift=0.0,
        seconds=seconds,
        compile_seconds=0.0,
        settings={"depth": 2, "seed": seed, "solver": "alternating"},
    )
