"""What a training run was: its course over time, its end, and what ended it."""

import dataclasses
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from depthrank import spectra
from depthrank._version import __version__
from depthrank.errors import DepthrankError
from depthrank.factors import Factors, end_to_end, imbalance
from depthrank.product_spectrum import product_singular_values

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

    from depthrank.theory.plasticity import RigidityBound

CONVENTIONS = {
    "loss": "half the sum of squared residuals on observed entries, without weight decay",
    "time": "flow time of that loss; a descent step of size eta advances it by eta",
    "observed_mse": "mean of squared residuals over observed entries",
    "effective_rank": "exp of the entropy of s / sum(s); effective_rank_power2 uses s^2",
    "stable_rank": "sum of s^2 over the largest s^2",
}


class Progress(NamedTuple):
    """What a progress callback is told, a few times a second."""

    time: float
    observed_mse: float
    tol_mse: float
    start_mse: float
    validation_mse: float
    steps: int
    evaluations: int
    seconds: float


@dataclasses.dataclass(frozen=True, eq=False)
class Trajectory:
    """The course and the end of one training run.

    Parameters
    ----------
    factors : tuple of float arrays
        (W_1, ..., W_L) at the end; W_1 acts first.
    data : xarray.Dataset
        Over `time` (at recorded times): `loss`, `observed_mse`, `singular_values` [time, mode],
        `stable_rank`, `effective_rank`, `effective_rank_power2`; over `step_time` (every accepted
        step): `step_loss`, and `step_validation_mse` where held-out entries were watched.
    time : float
        Flow time of the returned factors.
    n_observed : int
        Number of observed entries.
    observed_mse : float
        Mean squared residual on observed entries, at the end.
    validation_mse : float or None
        The same on held-out entries.
    steps, rejected, evaluations : int
        Accepted steps, rejected ones, evaluations of the gradient.
    stopped_by : str
        "fitted" (residual tolerance reached), "stationary" (a resting point that does not fit),
        "certified" (convergence is proved, see `certificate`), "time", "steps", "wall-clock",
        "validation", "diverged" or "interrupted".
    converged : bool
        Whether the end is one: fitted, the best validation error passed, or stationary under
        weight decay (where resting without fitting is the aim).
    tol : float
        Threshold on the mean squared residual relative to the mean square of the data.
    imbalance_drift : float
        Change of `imbalance` matrices from start to end (largest Frobenius norm); a flow
        conserves them.
    seconds, compile_seconds : float
        Time spent integrating, and before that in compiling.
    settings : dict
        What was asked for: depth, seed, tolerances, solver.
    certificate : theory.RigidityBound or None
        With `certify`: what the final state proves about the limit; `sigma_lower` and
        `sigma_upper` bracket every singular value of it.
    """

    factors: tuple[np.ndarray, ...]
    data: "xarray.Dataset"
    time: float
    n_observed: int
    observed_mse: float
    validation_mse: float | None
    steps: int
    rejected: int
    evaluations: int
    stopped_by: str
    converged: bool
    tol: float
    imbalance_drift: float
    seconds: float
    compile_seconds: float
    settings: dict[str, Any]
    certificate: "RigidityBound | None" = None

    @property
    def depth(self) -> int:
        """Number of factors L."""
        return len(self.factors)

    @property
    def end_to_end(self) -> np.ndarray:
        """The end-to-end matrix W_L ... W_1 at the end, [m, n]."""
        return end_to_end(self.factors)

    @property
    def loss(self) -> float:
        """Half the sum of squared residuals on observed entries, at the end."""
        return 0.5 * self.n_observed * self.observed_mse

    @property
    def imbalance(self) -> float:
        """Largest Frobenius norm of W_{l+1}^T W_{l+1} - W_l W_l^T at the end."""
        return imbalance(self.factors)

    @property
    def singular_values(self) -> np.ndarray:
        """Singular values of the end-to-end matrix at the end, descending, [min(m, n)]."""
        return product_singular_values(self.factors)

    @property
    def stable_rank(self) -> float:
        """Stable rank of the end-to-end matrix at the end."""
        return float(spectra.stable_rank_of(self.singular_values))

    @property
    def effective_rank(self) -> float:
        """Effective rank (entropy of the singular values) at the end."""
        return float(spectra.effective_rank_of(self.singular_values))

    def save(self, path: str | Path) -> None:
        """Write the recorded course to a zarr store (a folder) or, for `.nc`, a NetCDF file.

        Factors are not part of it; keep them with `numpy.savez` or a model file.
        """
        if str(path).endswith(".nc"):
            self.data.to_netcdf(path, engine="h5netcdf")
        else:
            self.data.to_zarr(path, mode="w", consolidated=False)

    def plot(self) -> "Figure":
        """Draw loss, singular values and ranks over time."""
        from depthrank.report.figures import trajectory_figure

        return trajectory_figure(self.data)


def read_course(path: str | Path) -> "xarray.Dataset":
    """Read back what `Trajectory.save` wrote.

    Raises
    ------
    DepthrankError
        If there is nothing at `path`.
    """
    import xarray

    if not Path(path).exists():
        raise DepthrankError(f"There is no saved trajectory at {path}.")
    if str(path).endswith(".nc"):
        return xarray.load_dataset(path, engine="h5netcdf")
    return xarray.load_dataset(path, engine="zarr", consolidated=False)


class Recorder:
    """Collects what happens during a run and turns it into a Dataset."""

    def __init__(self, n_observed: int) -> None:
        self.n_observed = n_observed
        self.times: list[float] = []
        self.mses: list[float] = []
        self.spectra: list[np.ndarray] = []
        self.entries: list[np.ndarray] = []
        self.step_parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def snapshot(
        self, time: float, mse: float, factors: tuple[np.ndarray, ...], entries: bool
    ) -> None:
        """Keep the spectrum (and, if asked, all entries) of the end-to-end matrix at a time."""
        if self.times and time == self.times[-1]:
            return
        self.times.append(time)
        self.mses.append(mse)
        self.spectra.append(product_singular_values(factors))
        if entries:
            self.entries.append(end_to_end(factors))

    def accepted(self, t: np.ndarray, mse: np.ndarray, validation: np.ndarray) -> None:
        """Keep the scalars of accepted steps."""
        self.step_parts.append((t, mse, validation))

    def dataset(self, attrs: dict[str, Any]) -> "xarray.Dataset":
        """Return the course over time, with conventions and provenance in the attributes."""
        import xarray

        s = np.stack(self.spectra)
        mse = np.asarray(self.mses)
        steps = [np.concatenate(parts) for parts in zip(*self.step_parts, strict=True)]
        half = 0.5 * self.n_observed
        variables: dict[str, Any] = {
            "loss": ("time", half * mse),
            "observed_mse": ("time", mse),
            "singular_values": (("time", "mode"), s),
            "stable_rank": ("time", spectra.stable_rank_of(s)),
            "effective_rank": ("time", spectra.effective_rank_of(s)),
            "effective_rank_power2": ("time", spectra.effective_rank_of(s, power=2)),
        }
        if self.entries:
            variables["end_to_end"] = (("time", "row", "col"), np.stack(self.entries))
        if steps:
            variables["step_loss"] = ("step_time", half * steps[1])
            if np.isfinite(steps[2]).any():
                variables["step_validation_mse"] = ("step_time", steps[2])
        coords: dict[str, Any] = {"time": np.asarray(self.times), "mode": np.arange(s.shape[1])}
        if steps:
            coords["step_time"] = steps[0]
        conventions = {f"convention_{name}": text for name, text in CONVENTIONS.items()}
        attrs = {**conventions, "depthrank_version": __version__, **attrs}
        return xarray.Dataset(variables, coords, attrs)


def imbalance_drift(before: Factors, after: Factors) -> float:
    """Return the largest change (Frobenius) of W_{l+1}^T W_{l+1} - W_l W_l^T between two states."""

    def grams(factors: Factors) -> list[np.ndarray]:
        return [b.T @ b - a @ a.T for a, b in pairwise(factors)]

    gaps = [float(np.linalg.norm(x - y)) for x, y in zip(grams(before), grams(after), strict=True)]
    return max(gaps, default=0.0)
