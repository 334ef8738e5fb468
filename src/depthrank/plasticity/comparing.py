"""Warm against cold: the same final data, reached in phases or seen at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank._version import __version__
from depthrank.dynamics.members import factors_of, follow
from depthrank.errors import DepthrankError
from depthrank.factors import Factors, dims, end_to_end, widths
from depthrank.initialization import Start
from depthrank.observations import Observations
from depthrank.plasticity.anchored import anchored_flow
from depthrank.plasticity.phases import Phase, seen_by
from depthrank.plasticity.remedies import Border, Remedy
from depthrank.spectra import stable_rank

if TYPE_CHECKING:
    import xarray

__all__ = ["Protocol", "compare"]

_MEASURES = ("loss", "singular_values", "stable_rank", "effective_rank")
_ENDS = {
    "end_loss": "loss",
    "end_error": "reconstruction_error",
    "end_stable_rank": "stable_rank",
    "end_effective_rank": "effective_rank",
}
_FIRST_RECORD = 0.1  # flow time of the first record of a phase
_MOST_RECORDS = 200
CONVENTIONS = {
    "convention_loss": "half the sum of squared residuals on what the phase observes",
    "convention_reconstruction_error": "relative Frobenius error against the truth, all entries",
    "convention_time": "flow time, joined; the record of a border belongs to the later phase",
    "convention_time_to_fit": "flow time of the last phase until fitted; nan if it was not",
}


@dataclass(frozen=True, eq=False)
class Protocol:
    """Phases, and the truth they are about.

    Attributes
    ----------
    phases : sequence of Phase
    truth : array, [m, n], optional
    """

    phases: Sequence[Phase]
    truth: np.ndarray | None = None


@dataclass(frozen=True, eq=False)
class _Stage:
    """One phase of one run: how it began, what was recorded, how it ended."""

    number: int
    begin: dict[str, float]
    records: dict[float, dict[str, Any]]  # by time since the border
    end: dict[str, Any]


@dataclass(frozen=True, eq=False)
class _Path:
    """One run on its way: where it belongs in the result, its state, the phases behind it."""

    place: tuple[int, int, int, int]  # arm, depth, start, seed
    init: Start
    seed: int
    truth: np.ndarray | None
    factors: Factors
    stages: tuple[_Stage, ...] = ()
    seen: Observations | None = None  # in the phase it is in
    pull: float = 0.0

    def as_arm(self, arm: int) -> "_Path":
        return replace(self, place=(arm, *self.place[1:]))

    def error(self, factors: Factors) -> float:
        if self.truth is None:
            return float("nan")
        gap = np.linalg.norm(end_to_end(factors) - self.truth)
        return float(gap / np.linalg.norm(self.truth))


def compare(
    protocols: Protocol | Sequence[Protocol] | Callable[[int], Protocol],
    *,
    depths: Sequence[int] = (2, 3),
    starts: Sequence[Start],
    seeds: Sequence[int] = (0,),
    remedies: Sequence[Remedy] = (),
    width: int | None = None,
    per_decade: int = 3,
    rtol: float = 1e-6,
    max_steps: int = 200_000,
    progress: Callable[[int, int], None] | None = None,
) -> "xarray.Dataset":
    """Run phases one after the other, and a cold start on the last one's data, side by side.

    Parameters
    ----------
    protocols : Protocol, one a seed, or a function of the seed
        What is seen when; two phases or more, the same number and shape for all seeds. Stopping
        rules are those of the first protocol.
    depths, starts, seeds : sequences
        Every combination is run; all of one depth go through a phase as one batch.
    remedies : sequence of Remedy
        Further arms: the same protocol with this remedy at every border.
    width : int, optional
        Hidden width, as in `depthrank.flow`.
    per_decade : int
        Records per factor of ten of flow time; 0 keeps the ends only.
    rtol, max_steps
        As in `depthrank.flow_batch`.
    progress : callable, optional
        Called with (phases done, phases) for every depth.

    Returns
    -------
    xarray.Dataset
        Over arm ("warm", "cold", then the remedies' names), depth, start, seed:
        `end_loss`, `end_error`, `end_stable_rank`, `end_effective_rank`, `end_singular_values`,
        `time_to_fit`, `evaluations` and `stopped_by` of the last phase; over `phase` too
        `phase_start` and `before_stable_rank`, `before_error` (as the phase begins, after the
        remedy); over `record`, the joined time axis with its `phase`: `time`, `loss`,
        `reconstruction_error`, `singular_values`, `stable_rank`, `effective_rank`. The cold arm has
        NaN before the last phase. Errors are NaN without a truth.

    Raises
    ------
    DepthrankError
        If there are not two phases at least, shapes differ, or an argument is out of range.

    Notes
    -----
    **Label.** Numerical. **Source.** Shin & Yun (ICLR 2026), section 4.
    """
    if not (len(depths) and len(starts) and len(seeds)):
        raise DepthrankError("depths, starts and seeds must each hold one entry or more.")
    per_seed = _protocols(protocols, seeds)
    steps = [seen_by(one.phases) for one in per_seed]
    counts = {len(one) for one in steps}
    shapes = {one[0][1].shape for one in steps}
    if len(counts) != 1 or len(shapes) != 1 or counts == {1}:
        raise DepthrankError(
            f"the protocols have {sorted(counts)} phases and shapes {sorted(shapes)}; all need the "
            "same number, two or more, and one shape."
        )
    arms = ["warm", "cold", *(remedy.name for remedy in remedies)]
    if len(set(arms)) != len(arms):
        raise DepthrankError(f"the arms are {arms}; remedies need names of their own.")
    options = {"rtol": rtol, "max_steps": max_steps}
    shape, last = next(iter(shapes)), len(steps[0]) - 1
    paths: list[_Path] = []
    for d, depth in enumerate(depths):
        fresh = [
            _Path(
                (0, d, a, k), init, seed, per_seed[k].truth, init(dims(shape, depth, width), seed)
            )
            for a, init in enumerate(starts)
            for k, seed in enumerate(seeds)
        ]
        warm = fresh
        for number in range(last + 1):
            if number == 1:  # until here all warm arms are one
                warm = [one.as_arm(arm) for arm in (0, *range(2, len(arms))) for one in warm]
            running = warm + ([one.as_arm(1) for one in fresh] if number == last else [])
            ready = [
                _treated(path, remedies, *steps[path.place[3]][number], number) for path in running
            ]
            done: list[_Path] = []
            for group in _alike(ready):
                done += _through(group, steps[0][number][0], per_decade, options)
            warm = [path for path in done if path.place[0] != 1]
            paths += [path for path in done if path.place[0] == 1]
            if progress is not None:
                progress(number + 1, last + 1)
        paths += warm
    coords: dict[str, list[Any]] = {
        "arm": arms,
        "depth": list(depths),
        "start": [repr(one) for one in starts],
    }
    return _dataset(paths, {**coords, "seed": list(seeds)}, last + 1, min(shape))


def _protocols(given: Any, seeds: Sequence[int]) -> list[Protocol]:
    if isinstance(given, Protocol):
        found = [given] * len(seeds)
    elif callable(given):
        found = [given(seed) for seed in seeds]
    else:
        found = list(given)
    if len(found) != len(seeds) or not all(isinstance(one, Protocol) for one in found):
        raise DepthrankError(
            f"protocols gave {len(found)} for {len(seeds)} seeds; give one Protocol for all, one a "
            "seed, or a function from a seed to a Protocol."
        )
    return found


def _treated(
    path: _Path, remedies: Sequence[Remedy], phase: Phase, seen: Observations, number: int
) -> _Path:
    """Apply the remedy that the run's arm has at this border; a cold run has none."""
    arm = path.place[0]
    remedy = phase.remedy if arm == 0 else remedies[arm - 2] if arm > 1 else None
    if remedy is None:
        return replace(path, seen=seen, pull=0.0)
    factors = remedy(path.factors, Border(seen, path.init, path.seed))
    return replace(path, factors=factors, seen=seen, pull=remedy.strength)


def _alike(paths: Sequence[_Path]) -> list[list[_Path]]:
    """Group runs whose factors have equal shapes and that are pulled alike."""
    groups: dict[Any, list[_Path]] = {}
    for path in paths:
        groups.setdefault((widths(path.factors), path.pull), []).append(path)
    return list(groups.values())


def _through(
    group: Sequence[_Path], phase: Phase, per_decade: int, options: dict[str, Any]
) -> list[_Path]:
    """Take runs of one shape through a phase, from record to record."""
    seen = [path.seen for path in group if path.seen is not None]
    now = [path.factors for path in group]
    begins = [_begin(path) for path in group]
    pull, used = group[0].pull, 0.0
    if pull > 0:
        anchors = [path.init(widths(path.factors), path.seed) for path in group]
        pulled = anchored_flow(seen, now, anchors, pull, phase.max_time, rtol=options["rtol"])
        now, used = [one[0] for one in pulled], pulled[0][1]
    times, work = np.full(len(group), used), np.zeros(len(group))
    records: list[dict[float, dict[str, Any]]] = [{} for _ in group]
    for stop in _stops(phase.max_time, per_decade):
        if stop <= used:
            continue
        data = follow(
            seen,
            now,
            max_time=stop - used,
            tol=phase.tol,
            weight_decay=phase.weight_decay,
            **options,
        )
        now, used = factors_of(data), stop
        times = times + data["time"].values
        work = work + data["evaluations"].values
        for k, path in enumerate(group):
            numbers = {name: data[name].values[k] for name in _MEASURES}
            error = path.error(now[k])
            records[k][stop] = numbers | {"reconstruction_error": error, "time": times[k]}
        if not (data["stopped_by"] == "time").any():
            break
    done = []
    for k, path in enumerate(group):
        stopped = str(data["stopped_by"].values[k])
        end = {"time": times[k], "evaluations": work[k], "stopped_by": stopped}
        stage = _Stage(len(path.stages), begins[k], records[k], end)
        done.append(replace(path, factors=now[k], stages=(*path.stages, stage)))
    return done


def _begin(path: _Path) -> dict[str, float]:
    rank = float(stable_rank(end_to_end(path.factors)))
    return {"before_stable_rank": rank, "before_error": path.error(path.factors)}


def _stops(max_time: float, per_decade: int) -> list[float]:
    """Return the times of the records since the border; the last one is the end of the phase."""
    if per_decade == 0:
        return [max_time]
    grid = _FIRST_RECORD * 10 ** (np.arange(_MOST_RECORDS) / per_decade)
    return [*grid[grid < max_time].tolist(), max_time]


def _dataset(
    paths: Sequence[_Path], coords: dict[str, list[Any]], phases: int, modes: int
) -> "xarray.Dataset":
    """Lay the runs out on their axes; a run that ended early keeps its last record's numbers."""
    import xarray

    axes, shape = tuple(coords), tuple(len(x) for x in coords.values())
    slots = sorted(
        {(_phase_of(p, s, phases), t) for p in paths for s in p.stages for t in s.records}
    )
    ends = {name: np.full(shape, np.nan) for name in (*_ENDS, "time_to_fit", "evaluations")}
    spectra, stopped = np.full((*shape, modes), np.nan), np.full(shape, "", dtype="U12")
    borders = ("phase_start", "before_stable_rank", "before_error")
    begins = {name: np.full((*shape, phases), np.nan) for name in borders}
    course = {name: np.full((*shape, len(slots)), np.nan) for name in (*_ENDS.values(), "time")}
    course_spectra = np.full((*shape, len(slots), modes), np.nan)
    # A cold run begins when the last data arrive: at the border of the warm run beside it.
    border = {
        p.place[1:]: sum(s.end["time"] for s in p.stages[:-1]) for p in paths if not p.place[0]
    }
    for path in paths:
        place, start = path.place, 0.0 if path.place[0] != 1 else border[path.place[1:]]
        for stage in path.stages:
            number = _phase_of(path, stage, phases)
            for name, array in begins.items():
                array[(*place, number)] = stage.begin.get(name, start)
            kept: dict[str, Any] | None = None
            for r, (phase, time) in enumerate(slots):
                if phase == number:
                    kept = stage.records.get(time, kept)
                    if kept is None:  # under the pull of an anchor
                        continue
                    for name in _ENDS.values():
                        course[name][(*place, r)] = kept[name]
                    course["time"][(*place, r)] = start + kept["time"]
                    course_spectra[(*place, r)] = kept["singular_values"]
            start += stage.end["time"]
        assert kept is not None
        for name, source in _ENDS.items():
            ends[name][place] = kept[source]
        spectra[place], stopped[place] = kept["singular_values"], stage.end["stopped_by"]
        fitted = stage.end["stopped_by"] == "fitted"
        ends["time_to_fit"][place] = stage.end["time"] if fitted else np.nan
        ends["evaluations"][place] = stage.end["evaluations"]
    variables: dict[str, Any] = {name: (axes, x) for name, x in ends.items()}
    variables |= {"stopped_by": (axes, stopped), "end_singular_values": ((*axes, "mode"), spectra)}
    variables |= {name: ((*axes, "phase"), x) for name, x in begins.items()}
    variables |= {name: ((*axes, "record"), x) for name, x in course.items()}
    variables["singular_values"] = ((*axes, "record", "mode"), course_spectra)
    whole: dict[str, Any] = {**coords, "mode": np.arange(modes), "phase": np.arange(phases)}
    whole["record_phase"] = ("record", np.array([phase for phase, _ in slots]))
    return xarray.Dataset(variables, whole, {**CONVENTIONS, "depthrank_version": __version__})


def _phase_of(path: _Path, stage: _Stage, phases: int) -> int:
    return phases - 1 if path.place[0] == 1 else stage.number
