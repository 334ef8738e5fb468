"""Everything left to the tool: average, polish or follow the flow, whatever held-out cells favour.

Cheapest first. Effects alone; depth 2 with learned decay, averaged, of growing width while
held-out cells gain; where those say that the table is clean, least squares at the rank that was
found. Small tables that are not clean that way are also given to the flow of depth 3 from a tiny
start. A positive table in unconnected parts starts there, from a positive start, since held-out
cells cannot tell what is across.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from threadpoolctl import threadpool_limits

from depthrank.completion.averaging import SWEEPS, Average, average_table
from depthrank.completion.exact import CLEAN, EXACT, exact, one_signed, positive
from depthrank.completion.finished import trajectory_of
from depthrank.completion.fitting import SMALL, Setting, run
from depthrank.completion.offsets import Preparation, prepare
from depthrank.completion.polish import leading
from depthrank.completion.trials import Fit, Task, Trial, errors, fitted
from depthrank.factors import Factors
from depthrank.observations import Observations

WIDTHS = (5, 10, 20, 40)
_ONE_THREAD = 200_000  # cells of a table
_PLENTY = 0.7  # share of cells above which averages do not get stuck
_BEYOND = 0.995  # of the error of effects alone: above it there is nothing for wider averages
_CLOSE = 1.02  # averages whose held-out error is within this of the best are averaged in turn
_CLEAN_SWEEPS = 150


def automatic(task: Task) -> Fit:
    """Choose by held-out cells among averages, exact fits and the flow, and refit on all cells.

    Parameters
    ----------
    task : Task
        Cells, what is held out of them, and what the user fixed (offsets, scaling, width, time).

    Returns
    -------
    Fit
    """
    m, n = task.observations.shape
    # Threads of the linear algebra cost small products more than they bring.
    with threadpool_limits(1 if m * n <= _ONE_THREAD else None, user_api="blas"):
        return _search(task)


def _search(task: Task) -> Fit:
    if one_signed(task.observations):
        found = positive(task)
        if found is not None:
            return found
    trials: list[Trial] = []
    stopped = ""
    try:
        for width, offsets in _path(task, trials):
            trials.append(_averaged(task, width, offsets))
            if time.perf_counter() > task.deadline:
                stopped = "wall-clock"
                break
        blend = None if stopped else _blend(task, trials)
        if blend is not None:
            trials.append(blend)
        best = min(trials, key=lambda trial: trial.rmse)
        if not stopped and best.rmse < CLEAN * task.held_out.rms:
            found = exact(task, best, trials)
            if found is not None:
                return found
        if not stopped and _stalls(task.train) and best.rmse > EXACT * task.held_out.rms:
            trial = _flow(task)
            trials.append(trial)
            # Where it has not fitted a clean table it has fitted noise, and stopped by luck.
            if fitted(trial) and trial.rmse < min(CLEAN * task.held_out.rms, best.rmse):
                found = exact(task, trial, trials)
                if found is not None:
                    return found
                best = trial
        if not stopped:
            done = _refit(task, best)
            return replace(done, trials=trials, held_out=task.held_out, best=best)
    except KeyboardInterrupt:
        if not trials:
            raise
        stopped = "interrupted"
    best = min(trials, key=lambda trial: trial.rmse)
    trajectory = replace(best.trajectory, stopped_by=stopped, converged=False)
    best = replace(best, trajectory=trajectory)
    return Fit(
        best.setting, best.preparation, trajectory, trials, task.held_out, best, refitted=False
    )


def _stalls(observations: Observations) -> bool:
    """Whether the flow may find what averages miss: few cells, in a table that costs little."""
    return _small(observations) and observations.density < _PLENTY


def _small(observations: Observations) -> bool:
    return observations.shape[0] * observations.shape[1] <= SMALL


def _path(task: Task, trials: list[Trial]) -> Iterator[tuple[int, str]]:
    """Yield widths and offsets to try; `trials` grows between two of them."""
    fixed = None if task.wish.offsets == "auto" else task.wish.offsets
    limit = min(task.wish.width or max(WIDTHS), max(min(task.train.shape) - 1, 1))
    widths = sorted({min(width, limit) for width in WIDTHS})
    both = fixed or "both"
    if both != "none":
        yield 0, both
    # An effect that is not there fades by itself: two kinds are enough.
    offsets = (fixed,) if fixed else ("both", "none")
    for name in offsets:
        yield widths[0], name
        if trials[-1].rmse < EXACT * task.held_out.rms:
            return
    tried = trials[-len(offsets) :]
    kept = min(tried, key=lambda trial: trial.rmse)
    if both != "none" and kept.rmse > _BEYOND * trials[0].rmse:
        return
    for width in widths[1:]:
        yield width, kept.setting.offsets
        if trials[-1].rmse > kept.rmse:
            return
        kept = trials[-1]


def _blend(task: Task, trials: list[Trial]) -> Trial | None:
    """Return the mean of the averages that are about as good as the best, None if it is one."""
    best = min(trials, key=lambda trial: trial.rmse)
    kind = best.setting.offsets
    close = [
        trial
        for trial in trials
        if trial.rmse < _CLOSE * best.rmse and trial.setting.offsets == kind and trial.setting.width
    ]
    if len(close) < 2:
        return None
    parts = [(trial.trajectory.factors, trial.preparation) for trial in close]
    factors, preparation = _mean(parts)
    rmse, mse = errors(task.held_out, preparation, factors)
    prepared = preparation.apply(task.train)
    trajectory = trajectory_of(
        factors,
        prepared,
        sweeps=sum(trial.trajectory.steps for trial in close),
        course=[],
        validation_mse=mse,
        seconds=0.0,
        seed=task.engine.seed,
    )
    widths = tuple(trial.setting.width for trial in close)
    decay = float(np.mean([trial.setting.weight_decay for trial in close]))
    setting = replace(best.setting, widths=widths, width=sum(widths), weight_decay=decay)
    return Trial(setting, preparation, trajectory, rmse, prepared.rms)


def _mean(parts: list[tuple[Factors, Preparation]]) -> tuple[Factors, Preparation]:
    """Return factors and effects of the mean of several averages of one table."""
    share = 1 / len(parts)
    right = np.vstack([factors[0] for factors, _ in parts])
    left = np.hstack([factors[-1] for factors, _ in parts]) * share
    u, s, v = leading(left, right)
    root = np.sqrt(s)
    way = replace(
        parts[0][1],
        row_effects=np.mean([way.row_effects for _, way in parts], axis=0),
        col_effects=np.mean([way.col_effects for _, way in parts], axis=0),
    )
    return (np.ascontiguousarray((v * root).T), u * root), way


def _averaged(task: Task, width: int, offsets: str) -> Trial:
    clock = time.perf_counter()
    found, preparation = _average(task.train, task, width, offsets)
    factors = factors_of(found)
    rmse, mse = errors(task.held_out, preparation, factors)
    setting = Setting(
        depth=2, width=width, weight_decay=_decay(found), offsets=offsets, finish="averaged"
    )
    trajectory = trajectory_of(
        factors,
        preparation.apply(task.train),
        sweeps=found.sweeps,
        course=found.course,
        validation_mse=mse,
        seconds=time.perf_counter() - clock,
        seed=task.engine.seed,
    )
    return Trial(setting, preparation, trajectory, rmse, preparation.apply(task.train).rms)


def _average(
    observations: Observations, task: Task, width: int, offsets: str
) -> tuple[Average, Preparation]:
    """Average a table, longer where that costs little."""
    sweeps = _CLEAN_SWEEPS if _small(observations) else SWEEPS
    return average_table(
        observations, width, offsets, task.wish.scaling, task.engine.seed, sweeps=sweeps
    )


def _decay(found: Average) -> float:
    """Return the weight decay that the average has learned, over directions that are alive."""
    u, v = found.rows.prior[:-1], found.cols.prior[:-1]
    both = np.sqrt(u * v)
    alive = both > 1e-6 * max(float(both.max(initial=0.0)), np.finfo(float).tiny)
    return float(found.sigma**2 / both[alive].mean()) if alive.any() else 0.0


def factors_of(found: Average) -> Factors:
    """Return the means as two balanced factors; at width 0 one hidden unit that does nothing."""
    u, v = found.rows.mean[:, :-1], found.cols.mean[:, :-1]
    if not u.shape[1]:
        return np.zeros((1, len(v))), np.zeros((len(u), 1))
    left, s, right = leading(u, v.T)
    root = np.sqrt(s)
    return np.ascontiguousarray((right * root).T), np.ascontiguousarray(left * root)


def _refit(task: Task, best: Trial) -> Fit:
    if best.setting.finish == "flow":
        preparation = prepare(task.observations, best.setting.offsets, task.wish.scaling)
        left = max(task.deadline - time.perf_counter(), 0.0)
        prepared = preparation.apply(task.observations)
        trajectory = run(prepared, task.engine, best.setting, wall_clock=left)
        return Fit(best.setting, preparation, trajectory)
    clock = time.perf_counter()
    found, parts = [], []
    for width in best.setting.widths or (best.setting.width,):
        one, way = _average(task.observations, task, width, best.setting.offsets)
        found.append(one)
        parts.append((factors_of(one), way))
    factors, preparation = _mean(parts) if len(parts) > 1 else parts[0]
    trajectory = trajectory_of(
        factors,
        preparation.apply(task.observations),
        sweeps=sum(one.sweeps for one in found),
        course=found[-1].course,
        seconds=time.perf_counter() - clock,
        seed=task.engine.seed,
    )
    setting = replace(best.setting, weight_decay=float(np.mean([_decay(one) for one in found])))
    return Fit(setting, preparation, trajectory)


def _flow(task: Task) -> Trial:
    """Try the flow that clean tables want: depth 3, a tiny start, to its end."""
    offsets = "none" if task.wish.offsets == "auto" else task.wish.offsets
    width = task.wish.width or min(*task.train.shape, 128)
    setting = Setting(3, width, offsets=offsets, loss_drop=1.0)
    preparation = prepare(task.train, offsets, task.wish.scaling)
    prepared = preparation.apply(task.train)
    validation = preparation.apply(task.held_out)
    left = max(task.deadline - time.perf_counter(), 0.0)
    trajectory = run(prepared, task.engine, setting, validation=validation, wall_clock=left)
    rmse, _ = errors(task.held_out, preparation, trajectory.factors)
    return Trial(setting, preparation, trajectory, rmse, prepared.rms)
