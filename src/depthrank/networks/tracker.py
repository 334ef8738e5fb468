"""Ranks of a model's weights during training: at steps, at epochs, or at levels of the loss."""

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import nn

from depthrank._version import __version__
from depthrank.baselines import MEASURES, baseline, measures_of
from depthrank.errors import DepthrankError
from depthrank.networks.clock import clock_rate
from depthrank.networks.layers import Rules, find_layers
from depthrank.networks.measures import METHODS, spectra_of

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

__all__ = ["RankTracker"]

CONVENTIONS = {
    "time": "number of optimiser steps",
    "effective_rank": "exp of the entropy of s / sum(s); effective_rank_power2 uses s^2",
    "stable_rank": "sum of s^2 over the largest s^2",
    "update": "of W - W_0, W_0 being the weights when the tracker was made",
    "distance": "Frobenius norm of W - W_0 over that of W_0",
    "mean": "over counted layers, not normalised",
    "mean_ratio": "over counted layers, each value over the baseline of its shape",
    "baseline": "mean over untrained weights of the same shape",
    "level": "the loss level that was crossed for the first time, NaN for scheduled snapshots",
    "clock": "sum of learning rate x weight decay / (1 - momentum) so far",
}


def _difference(W: Any, W0: Any) -> Any:
    """Return W - W_0 in float64 where that exists, on the device where W is now."""
    W0 = W0.to(W.device)  # trainers move a model after its tracker was made
    return W - W0 if W.device.type == "mps" else W.double() - W0.double()


class RankTracker:
    """Follows the ranks of a model's weights; a few lines in any training loop.

    Parameters
    ----------
    model : torch.nn.Module
        Measured now (the start), and again as told.
    every : int, "epoch" or None
        Snapshots every so many calls of `step`, at every call of `epoch`, or at neither.
    loss_levels : sequence of float
        A snapshot when the loss given to `step` or `epoch` is first at or below each of these:
        depths compare at equal loss, not at equal time. A noisy loss should be smoothed first.
    optimizer : torch.optim.Optimizer, optional
        Records learning rate and decay clock (`depthrank.networks.clock`) beside.
    rules : Rules, optional
        How kernels become matrices, and what averages are taken over.
    scheme : {"iid", "orthogonal"}
        How the weights started, for the baseline.
    updates : bool
        Measure W - W_0 too; keeps a copy of the start and doubles the cost.
    method : {"auto", "svd", "gram"}
        See `depthrank.networks.measures.spectra_of`.
    extras : mapping of str to callable, optional
        Functions of the model that return one number, recorded at every snapshot: a feature or
        Jacobian rank on a probe batch, a test error.

    Examples
    --------
    >>> import torch
    >>> model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Linear(7, 3))
    >>> tracker = RankTracker(model, every=1)
    >>> for loss in (0.5, 0.4):
    ...     tracker.step(loss=loss)
    >>> tracker.dataset().sizes["time"]
    3
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        every: int | str | None = 100,
        loss_levels: Sequence[float] = (),
        optimizer: Any = None,
        rules: Rules | None = None,
        scheme: str = "iid",
        updates: bool = True,
        method: str = "auto",
        extras: Mapping[str, Callable[[nn.Module], float]] | None = None,
    ) -> None:
        if every is not None and every != "epoch" and not (isinstance(every, int) and every > 0):
            raise DepthrankError(f"every is {every!r}; it must be an integer > 0, 'epoch' or None.")
        if method not in METHODS:
            raise DepthrankError(f"method is {method!r}; it must be one of {', '.join(METHODS)}.")
        self._model, self._every, self._method = model, every, method
        self._optimizer, self._extras = optimizer, dict(extras or {})
        self._rules = Rules() if rules is None else rules
        self._levels = sorted(map(float, loss_levels), reverse=True)
        self._layers, self.skipped = find_layers(model, self._rules)
        self._shapes = [tuple(layer.stack().shape) for layer in self._layers]
        self._flat = [baseline(m, n, blocks=b, scheme=scheme) for b, m, n in self._shapes]
        self._scheme = scheme
        self._start = [layer.weight().clone() for layer in self._layers] if updates else None
        self._steps = self._epochs = 0
        self._clock = 0.0
        self._records: list[dict[str, Any]] = []
        self.seconds, self._began = 0.0, time.perf_counter()
        self.snapshot()

    @property
    def overhead(self) -> float:
        """Share of the time since the tracker was made that went into its snapshots."""
        return self.seconds / max(time.perf_counter() - self._began, 1e-9)

    def step(self, loss: float | None = None, **values: float) -> None:
        """Tell that the optimiser has made a step.

        Parameters
        ----------
        loss : float, optional
            Needed for loss levels. A tensor is read only where a level or a snapshot needs it.
        **values
            Further numbers for the record of a snapshot.
        """
        self._steps += 1
        if self._optimizer is not None:
            self._clock += clock_rate(self._optimizer)
        due = isinstance(self._every, int) and self._steps % self._every == 0
        self._decide(due, loss, values)

    def epoch(self, loss: float | None = None, **values: float) -> None:
        """Tell that an epoch is over; arguments as for `step`."""
        self._epochs += 1
        self._decide(self._every == "epoch", loss, values)

    def _decide(self, due: bool, loss: Any, values: Mapping[str, float]) -> None:
        level = math.nan
        if self._levels and loss is not None:
            while self._levels and float(loss) <= self._levels[0]:
                level = self._levels.pop(0)  # of several crossed at once the lowest is kept
        if due or not math.isnan(level):
            self.snapshot(loss, level=level, **values)

    def snapshot(self, loss: float | None = None, **values: float) -> None:
        """Measure now, whatever the schedule says."""
        began = time.perf_counter()
        weights = [layer.weight() for layer in self._layers]
        stacks = [layer.stack(W) for layer, W in zip(self._layers, weights, strict=True)]
        if self._start is not None:
            stacks += [
                layer.stack(_difference(W, W0))
                for layer, W, W0 in zip(self._layers, weights, self._start, strict=True)
            ]
        spectra = spectra_of(stacks, method=self._method)
        n = len(self._layers)
        broken = [
            layer.name
            for layer, s in zip(self._layers, spectra, strict=False)
            if not np.isfinite(s).all()
        ]
        if broken:
            warnings.warn(
                f"step {self._steps}: {', '.join(broken)} hold NaN or infinity; their measures are "
                "NaN.",
                stacklevel=2,
            )
        record: dict[str, Any] = {"step": self._steps, "epoch": self._epochs}
        record["spectra"], record["updates"] = spectra[:n], spectra[n:]
        record["loss"] = math.nan if loss is None else float(loss)
        record["clock"], record["level"] = self._clock, values.pop("level", math.nan)
        if self._optimizer is not None:
            record["learning_rate"] = float(self._optimizer.param_groups[0]["lr"])
        record["values"] = {key: float(value) for key, value in values.items()}
        record["values"] |= {key: float(f(self._model)) for key, f in self._extras.items()}
        self._records.append(record)
        self.seconds += time.perf_counter() - began

    def __len__(self) -> int:
        """Return the number of snapshots."""
        return len(self._records)

    def dataset(self, since: int = 0) -> "xarray.Dataset":
        """Return all snapshots, or those from number `since` on.

        Parameters
        ----------
        since : int
            Number of the first snapshot that is returned, from 0; -1 is the last.

        Returns
        -------
        xarray.Dataset
            Over `time` (optimiser steps) and `layer`: the four measures of
            `depthrank.baselines.measures_of`, `spectral_norm`, `frobenius_norm`, `distance`, and
            the measures of the update with the prefix `update_`; `singular_values` [time, layer,
            mode], NaN beyond the modes that a layer has. Over `layer`: `baseline_` measures,
            `max_rank`, `counted`, `role`, `kind`. Over `time`: `loss`, `level`, `clock`,
            `mean_` measures over counted layers, `mean_ratio_` to the baseline, and all further
            numbers. Attributes hold conventions, rules, versions and the overhead.

        Raises
        ------
        DepthrankError
            If there are no snapshots from that number on.
        """
        import xarray

        records = self._records[since:]
        if not records:
            raise DepthrankError(
                f"since is {since}; there are {len(self)} snapshots, numbered from 0."
            )
        variables = self._weights(records)
        counted = np.array([layer.counted for layer in self._layers])
        for name in MEASURES:
            values = variables[name][1]
            flat = np.array([one[name] for one in self._flat])
            variables[f"baseline_{name}"] = ("layer", flat)
            if counted.any():
                variables[f"mean_{name}"] = ("time", values[:, counted].mean(1))
                ratio = values[:, counted] / flat[counted]
                variables[f"mean_ratio_{name}"] = ("time", ratio.mean(1))
        for name in ("loss", "level", "clock", "learning_rate"):
            if name in records[0]:
                variables[name] = ("time", np.array([one[name] for one in records]))
        for name in dict.fromkeys(key for one in records for key in one["values"]):
            column = [one["values"].get(name, math.nan) for one in records]
            variables[name] = ("time", np.array(column))
        coords: dict[str, Any] = {
            "time": np.array([one["step"] for one in records]),
            "epoch": ("time", np.array([one["epoch"] for one in records])),
            "layer": [layer.name for layer in self._layers],
            "role": ("layer", [layer.role for layer in self._layers]),
            "kind": ("layer", [layer.kind for layer in self._layers]),
            "counted": ("layer", counted),
            "max_rank": ("layer", np.array([b * min(m, n) for b, m, n in self._shapes])),
        }
        attrs: dict[str, Any] = {f"convention_{name}": text for name, text in CONVENTIONS.items()}
        attrs |= {"rules": self._rules.text(), "baseline_scheme": self._scheme}
        attrs |= {"model": type(self._model).__name__, "depthrank_version": __version__}
        attrs |= {"tracker_seconds": self.seconds, "tracker_overhead": self.overhead}
        return xarray.Dataset(variables, coords, attrs)

    def _weights(self, records: list[dict[str, Any]]) -> dict[str, Any]:
        """Return the variables over time and layer."""
        both = ("time", "layer")
        modes = max(b * min(m, n) for b, m, n in self._shapes)
        s = np.full((len(records), len(self._layers), modes), math.nan)
        for t, record in enumerate(records):
            for k, values in enumerate(record["spectra"]):
                s[t, k, : len(values)] = values
        variables: dict[str, Any] = {"singular_values": (("time", "layer", "mode"), s)}
        groups = {"": "spectra"} | ({"update_": "updates"} if self._start is not None else {})
        for prefix, key in groups.items():
            table = [[measures_of(values) for values in record[key]] for record in records]
            for name in MEASURES:
                column = np.array([[one[name] for one in row] for row in table])
                variables[prefix + name] = (both, column)
        variables["spectral_norm"] = (both, s[:, :, 0])
        norms = [[np.linalg.norm(v) for v in record["spectra"]] for record in records]
        variables["frobenius_norm"] = (both, np.array(norms))
        if self._start is not None:
            moved = [[np.linalg.norm(v) for v in record["updates"]] for record in records]
            first = np.array([np.linalg.norm(v) for v in self._records[0]["spectra"]])
            distance = np.array(moved) / np.where(first > 0, first, np.nan)
            variables["distance"] = (both, distance)
        return variables

    def save(self, path: str | Path) -> None:
        """Write the dataset to a zarr store (a folder) or, for `.nc`, a NetCDF file.

        Neither holds pickles. `depthrank.dynamics.trajectory.read_course` reads both.
        """
        data = self.dataset()
        if str(path).endswith(".nc"):
            data.to_netcdf(path, engine="h5netcdf")
        else:
            data.to_zarr(path, mode="w", consolidated=False)

    def plot(self) -> "Figure":
        """Draw the ranks of all layers, their averages and the loss over time."""
        from depthrank.report.network_figures import tracker_figure

        return tracker_figure(self.dataset())
