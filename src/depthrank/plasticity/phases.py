"""Training in phases: what is seen changes, the factors stay, or are treated in between."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.errors import DepthrankError, check_range
from depthrank.factors import Factors, check_factors, dims, end_to_end, widths
from depthrank.initialization import Gaussian, Start, default_scale
from depthrank.observations import Observations
from depthrank.plasticity.remedies import Border, Remedy, none

if TYPE_CHECKING:
    import xarray

    from depthrank.dynamics.trajectory import Trajectory

__all__ = ["Phase", "WarmStart", "warm_start"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Phase:
    """A stretch of training with its own observations.

    Attributes
    ----------
    observations : Observations
        What is seen; with `add`, what is seen in addition to the phase before, newest wins.
    add : bool
    remedy : Remedy
        What happens to the factors when the phase begins.
    tol : float
        The phase ends once the mean squared residual is below this part of the mean square.
    max_time : float
        Or after this flow time. A phase of length 0 is no phase at all: it is left out, together
        with what it would have added.
    weight_decay : float
    """

    observations: Observations
    add: bool = False
    remedy: Remedy = field(default_factory=none)
    tol: float = 1e-14
    max_time: float = np.inf
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        for name, low, high in (("tol", 0, 1), ("max_time", 0, np.inf), ("weight_decay", 0, 1e300)):
            check_range(name, getattr(self, name), low, high)


def seen_by(phases: Sequence[Phase]) -> list[tuple[Phase, Observations]]:
    """Return the phases that have a length, each with all it sees.

    Raises
    ------
    DepthrankError
        If there is none, the first one adds to nothing, or shapes differ.
    """
    result: list[tuple[Phase, Observations]] = []
    for phase in phases:
        if not isinstance(phase, Phase):
            raise DepthrankError(f"a phase is {phase!r}; give Phase(observations=...).")
        if phase.max_time == 0:
            continue
        seen = phase.observations
        if result and seen.shape != result[-1][1].shape:
            raise DepthrankError(
                f"phases have shapes {result[-1][1].shape} and {seen.shape}; all must be equal."
            )
        if phase.add:
            if not result:
                raise DepthrankError("the first phase has add=True, but nothing is seen before it.")
            seen = result[-1][1].union(seen)
        result.append((phase, seen))
    if not result:
        raise DepthrankError("there is no phase of a length above 0; give one or more.")
    return result


@dataclass(frozen=True, eq=False)
class WarmStart:
    """What training in phases led to.

    Attributes
    ----------
    factors : tuple of arrays
        (W_1, ..., W_L) at the end.
    data : xarray.Dataset
        Over the joined `time`: `loss`, `observed_mse` (each of its phase's own observations),
        `singular_values` [time, mode], `stable_rank`, `effective_rank`, with `truth` given
        `reconstruction_error`, and the number of the `phase`. Phases are half-open: at a border the
        record is that of the later phase, after its remedy. Over `phase_number`: `phase_start`,
        `phase_end`, `end_loss`, `end_stable_rank`, `end_effective_rank`, `stopped_by`.
    trajectories : tuple of Trajectory
        One a phase, each with its own time from 0.
    """

    factors: Factors
    data: "xarray.Dataset"
    trajectories: "tuple[Trajectory, ...]"

    @property
    def end_to_end(self) -> np.ndarray:
        """The end-to-end matrix at the end, [m, n]."""
        return np.asarray(end_to_end(self.factors))

    @property
    def singular_values(self) -> np.ndarray:
        """Its singular values, descending."""
        return self.trajectories[-1].singular_values

    @property
    def stable_rank(self) -> float:
        """Its stable rank."""
        return self.trajectories[-1].stable_rank

    @property
    def effective_rank(self) -> float:
        """Its effective rank."""
        return self.trajectories[-1].effective_rank

    @property
    def loss(self) -> float:
        """Observed loss of the last phase at the end."""
        return self.trajectories[-1].loss

    @property
    def converged(self) -> bool:
        """Whether every phase came to its end."""
        return all(one.converged for one in self.trajectories)

    @property
    def stopped_by(self) -> tuple[str, ...]:
        """What ended each phase."""
        return tuple(one.stopped_by for one in self.trajectories)


def warm_start(
    phases: Sequence[Phase],
    *,
    depth: int | None = None,
    init: Start | None = None,
    factors: Sequence[np.ndarray] | None = None,
    width: int | None = None,
    truth: np.ndarray | None = None,
    seed: int = 0,
    **options: Any,
) -> WarmStart:
    """Train in phases: each goes on from the factors that the one before has left.

    Parameters
    ----------
    phases : sequence of Phase
        The protocol; it is data and can be kept and changed.
    depth, init, width
        The start, as in `depthrank.flow`.
    factors : sequence of arrays, optional
        Start from these factors instead. The first phase's remedy then acts on them.
    truth : array, [m, n], optional
        Ground truth, for `reconstruction_error` over time.
    seed : int
        Seed of the start, and of what remedies draw.
    **options
        Further options of `depthrank.flow`: `rtol`, `max_steps`, `wall_clock`, `solver`,
        `progress`.

    Returns
    -------
    WarmStart

    Raises
    ------
    DepthrankError
        If there is no phase, shapes differ, or an argument is out of its range.

    Notes
    -----
    **Label.** Numerical, to the tolerance of the flow. **Source.** Protocol: Shin & Yun (ICLR
    2026), section 4.

    Examples
    --------
    >>> import numpy as np, depthrank
    >>> from depthrank.plasticity import Phase, warm_start
    >>> diagonal = depthrank.Observations.from_mask(np.ones((2, 2)), np.eye(2))
    >>> corner = depthrank.Observations.from_mask(np.ones((2, 2)), [[0, 1], [0, 0]])
    >>> run = warm_start(
    ...     [Phase(observations=diagonal), Phase(observations=corner, add=True)],
    ...     depth=2,
    ...     init=depthrank.AlphaM(0.5),
    ... )
    >>> round(float(run.end_to_end[1, 0]), 4), round(run.stable_rank, 4)
    (-0.0347, 1.1599)
    """
    from depthrank.dynamics.flow import flow
    from depthrank.plasticity.anchored import anchored_flow

    steps = seen_by(phases)
    shape = steps[0][1].shape
    rule = _start(steps[0][1], init)
    if factors is not None:
        if init is None and depth is not None and depth != len(factors):
            raise DepthrankError(
                f"depth is {depth} but {len(factors)} factors were given; leave depth out."
            )
        now = check_factors(factors, shape)
    elif depth is None:
        raise DepthrankError("depth is missing; give the number of factors (>= 1), or factors.")
    else:
        now = rule(dims(shape, depth, width), seed)
    if truth is not None and np.shape(truth) != shape:
        raise DepthrankError(f"truth has shape {np.shape(truth)}; it must be {shape}.")
    found: list[Trajectory] = []
    for phase, seen in steps:
        now = phase.remedy(now, Border(seen, rule, seed))
        limit = phase.max_time
        if phase.remedy.strength > 0:
            now, used = anchored_flow(
                [seen], [now], [rule(widths(now), seed)], phase.remedy.strength, limit
            )[0]
            limit -= used
        one = flow(
            seen,
            factors=now,
            tol=phase.tol,
            max_time=limit,
            weight_decay=phase.weight_decay,
            record="auto" if truth is None else "entries",
            seed=seed,
            **options,
        )
        now = one.factors
        found.append(one)
    return WarmStart(now, _joined(found, truth), tuple(found))


def _start(seen: Observations, init: Start | None) -> Start:
    """Return the rule of the start: that of `flow` if none is given."""
    if init is not None:
        return init
    return Gaussian(default_scale(seen.values))


def _joined(found: "Sequence[Trajectory]", truth: np.ndarray | None) -> "xarray.Dataset":
    """Put the phases' records on one time axis, half-open but for the last."""
    import xarray

    parts, starts, at = [], [], 0.0
    size = 1.0 if truth is None else float(np.linalg.norm(truth))
    for number, one in enumerate(found):
        data = one.data.drop_dims("step_time", errors="ignore")
        if truth is not None:
            error = np.linalg.norm(data["end_to_end"].values - truth, axis=(1, 2)) / size
            data = data.drop_vars("end_to_end").assign(reconstruction_error=("time", error))
        if number < len(found) - 1 and data.sizes["time"] > 1:
            data = data.isel(time=slice(0, -1))
        times = at + data["time"].values
        data = data.assign_coords(time=times)
        parts.append(data.assign(phase=("time", np.full(len(times), number))))
        starts.append(at)
        at += one.time
    joined = xarray.concat(
        parts, "time", data_vars="all", coords="minimal", compat="override", join="outer"
    )
    ends = [*starts[1:], at]
    by_phase: dict[str, Any] = {
        "phase_start": starts,
        "phase_end": ends,
        "end_loss": [one.loss for one in found],
        "end_stable_rank": [one.stable_rank for one in found],
        "end_effective_rank": [one.effective_rank for one in found],
        "stopped_by": [one.stopped_by for one in found],
    }
    joined = joined.assign({name: ("phase_number", np.array(x)) for name, x in by_phase.items()})
    joined.attrs["phases"] = len(found)
    return joined
