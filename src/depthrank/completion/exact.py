"""Exact fits: least squares at a rank that was found, and the positive completion of parts."""

import time
from dataclasses import replace

import numpy as np

from depthrank.completion.finished import trajectory_of
from depthrank.completion.fitting import Setting, run
from depthrank.completion.offsets import Floats, Preparation, prepare
from depthrank.completion.polish import balance, clear_ranks, leading, polish
from depthrank.completion.trials import Fit, Task, Trial, errors
from depthrank.factors import Factors
from depthrank.graph import connectivity
from depthrank.initialization import AlphaM
from depthrank.observations import Observations

CLEAN = 0.05
"""Held-out error below this part of the cells' size: worth an exact fit of low rank."""

EXACT = 1e-4
"""A polished fit is accepted below this residual, relative to the cells' size."""

_POSITIVE = 2.0  # ratio m of the positive start: no special direction is needed
_START = 1e-3


def one_signed(observations: Observations) -> bool:
    """Whether all cells are of one sign in a table that falls into several parts."""
    values = observations.values
    if not (values.min() > 0 or values.max() < 0):
        return False
    return connectivity(observations).n_components > 1


def exact(task: Task, best: Trial, trials: list[Trial]) -> Fit | None:
    """Polish within the rank of the best trial, if its gap is clear and held-out cells agree."""
    clock = time.perf_counter()
    way = prepare(task.train, "none", task.wish.scaling)
    left, right = _joined(best, way)
    whole_u, s, whole_v = leading(left, right)
    for rank in clear_ranks(s):
        u, v, residual = polish(way.apply(task.train), whole_u[:, :rank], whole_v[:, :rank])
        rmse, mse = errors(task.held_out, way, (v.T, u))
        if residual <= EXACT and rmse <= best.rmse:
            break
    else:
        return None
    trial = _polished(task, way, (u, v), rank, (rmse, mse), clock)
    trials.append(trial)
    way = prepare(task.observations, "none", task.wish.scaling)
    u, v, residual = polish(way.apply(task.observations), u, v)
    if residual > EXACT:
        return None
    done = _polished(task, way, (u, v), rank, None, clock)
    return Fit(done.setting, way, done.trajectory, trials, task.held_out, trial)


def _joined(best: Trial, way: Preparation) -> tuple[Floats, Floats]:
    """Return the trial's estimate, offsets included, as left times right in the scales of `way`."""
    old = best.preparation
    right, left = best.trajectory.factors[0], best.trajectory.factors[-1]
    for W in best.trajectory.factors[1:-1]:
        right = W @ right
    ones = np.ones((len(left), 1))
    left = np.hstack((left, (old.mean + old.row_effects)[:, None], ones))
    right = np.vstack((right * old.scales, np.ones(right.shape[1]), old.col_effects))
    return left, right / way.scales


def _polished(
    task: Task,
    way: Preparation,
    halves: tuple[Floats, Floats],
    rank: int,
    held_out: tuple[float, float] | None,
    clock: float,
) -> Trial:
    u, v = halves
    seen = task.train if held_out else task.observations
    trajectory = trajectory_of(
        (np.ascontiguousarray(v.T), u),
        way.apply(seen),
        sweeps=0,
        course=[],
        validation_mse=held_out[1] if held_out else None,
        seconds=time.perf_counter() - clock,
        seed=task.engine.seed,
        stopped_by="fitted",
    )
    setting = Setting(2, rank, finish="polished")
    return Trial(setting, way, trajectory, held_out[0] if held_out else np.nan, 1.0)


def positive(task: Task) -> Fit | None:
    """Follow depth 3 from a positive start, and polish what it finds if that has rank one."""
    seen, engine = task.observations, task.engine
    sign = float(np.sign(seen.values[0]))
    way = prepare(task.train, "none", "table")
    width = min(*seen.shape, 128)

    def start(dims: tuple[int, ...], seed: int = 0) -> Factors:
        raw = AlphaM(1.0, _POSITIVE)(dims, seed)
        product = raw[0]
        for W in raw[1:]:
            product = W @ product
        part = (_START / float(np.linalg.norm(product))) ** (1 / len(raw))
        return tuple(part * W for W in raw)

    setting = Setting(3, width, init_scale=_START, loss_drop=1.0, finish="polished")
    prepared = way.apply(task.train)
    flipped = prepared.with_values(sign * prepared.values)
    aside = way.apply(task.held_out)
    left = max(task.deadline - time.perf_counter(), 0.0)
    trajectory = run(
        flipped,
        replace(engine, init=start),
        setting,
        validation=aside.with_values(sign * aside.values),
        wall_clock=left,
    )
    factors = (*trajectory.factors[:-1], sign * trajectory.factors[-1])
    trajectory = replace(trajectory, factors=factors)
    rmse, mse = errors(task.held_out, way, factors)
    trial = Trial(setting, way, replace(trajectory, validation_mse=mse), rmse, prepared.rms)
    _, s, v = leading(factors[-1], factors[1] @ factors[0])
    if trajectory.stopped_by not in ("fitted", "validation") or clear_ranks(s)[:1] != [1]:
        return None
    if rmse > CLEAN * task.held_out.rms:
        return None
    way = prepare(seen, "none", "table")
    clock = time.perf_counter()
    u, v, residual = polish(way.apply(seen), factors[-1][:, :1], v[:, :1])
    if residual > EXACT:
        return None
    u, v = balance(u, v, connectivity(seen))
    done = _polished(task, way, (sign * u, v), 1, None, clock)
    setting = replace(done.setting, start="positive")
    return Fit(setting, way, done.trajectory, [trial], task.held_out, trial)
