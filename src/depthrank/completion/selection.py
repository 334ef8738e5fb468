"""Which depth, decay, offsets and stopping time: tried on held-out cells, then refitted on all.

Clean low-rank tables want depth 3 from a tiny start, run to the end; noisy ones want depth 2 with
weight decay, stopped early. The first candidate is therefore the clean one. If it fits and
predicts held-out cells, nothing else is tried. Otherwise offsets are chosen by what they alone
explain of held-out cells, and decay along a short path that is followed while it helps.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from depthrank.completion.automatic import automatic
from depthrank.completion.exact import CLEAN
from depthrank.completion.fitting import INIT_SCALE, SMALL, Engine, Setting, run
from depthrank.completion.offsets import OFFSETS, prepare
from depthrank.completion.trials import Fit, Task, Trial, Wish, cells_of, fitted
from depthrank.observations import Observations

AUTO_FRACTION, SCARCE_FRACTION, ENOUGH = 0.1, 0.05, 50
"""Shares held out: the smaller where cells are few and each is needed, if it makes enough."""

MIN_HELD_OUT = 10
"""Below this many cells nothing is held out automatically."""

_DECAYS = (0.35, 0.18, 0.09)  # of the noise edge: the middle, and the path down
_STRONGER = (0.6, 1.0)  # and up, if going down did not help
# Where cells are few (below so many a row and column), modes overshoot as they grow one after the
# other, and held-out errors of a clean table rise before they fall: it is followed to its end.
_FEW = 30
_QUICK_START = 1e-2  # where they are plentiful, a larger start finds the same in less time
_NEAR = 1.02  # without offsets depth 3 must come as near to the best as this to be tried with them
_OFFSETS_GAIN = 0.98  # offsets must lower the held-out error of the mean-free fit by this factor


def fit(observations: Observations, engine: Engine, wish: Wish) -> Fit:
    """Choose what is left to choose, and fit.

    Parameters
    ----------
    observations : Observations
        At least one cell, user's units.
    engine : Engine
        Start, tolerances, precision, seed.
    wish : Wish
        What is fixed.

    Returns
    -------
    Fit
    """
    deadline = time.perf_counter() + wish.max_seconds
    train, held_out = _hold_out(observations, wish.fraction, engine.seed)
    if held_out is None:
        setting = Setting(
            depth=3 if wish.depth == "auto" else int(wish.depth),
            width=wish.width,
            weight_decay=0.0 if wish.weight_decay == "auto" else float(wish.weight_decay),
            offsets="none" if wish.offsets == "auto" else wish.offsets,
            init_scale=_scale(wish),
        )
        return _final(observations, engine, wish, setting, deadline)
    if _all_open(wish, engine):
        return automatic(Task(observations, train, held_out, engine, wish, deadline))
    trials: list[Trial] = []
    stopped = False
    for setting in _candidates(train, held_out, wish, trials):
        trial = _try(train, held_out, engine, wish, setting, deadline)
        trials.append(trial)
        stopped = trial.trajectory.stopped_by in ("interrupted", "wall-clock")
        if stopped:
            break
    best = min(trials, key=lambda trial: trial.rmse)
    if stopped:
        return Fit(
            best.setting, best.preparation, best.trajectory, trials, held_out, best, refitted=False
        )
    setting = replace(best.setting, init_scale=_scale(wish))
    if not fitted(best):
        # More cells pull harder, in proportion; the same point is reached that much earlier.
        share = train.n_observed / observations.n_observed
        setting = replace(best.setting, max_time=best.trajectory.time * share)
    done = _final(observations, engine, wish, setting, deadline)
    return replace(done, trials=trials, held_out=held_out, best=best)


def _all_open(wish: Wish, engine: Engine) -> bool:
    """Whether nothing about the flow was fixed, so that the answer need not be its end."""
    fixed = (wish.depth, wish.weight_decay, wish.init_scale)
    return fixed == ("auto",) * 3 and engine.init is None


def _hold_out(
    observations: Observations, fraction: float | str, seed: int
) -> tuple[Observations, Observations | None]:
    if fraction == "auto":
        fraction = AUTO_FRACTION
        if _scarce(observations):
            fraction = min(max(ENOUGH / observations.n_observed, SCARCE_FRACTION), AUTO_FRACTION)
        if fraction * observations.n_observed < MIN_HELD_OUT:
            fraction = 0.0
    train, held_out = observations.split(float(fraction), seed)
    return train, held_out if held_out.n_observed else None


def _scarce(observations: Observations) -> bool:
    return observations.n_observed < _FEW * sum(observations.shape)


def _scale(wish: Wish) -> float:
    return INIT_SCALE if isinstance(wish.init_scale, str) else float(wish.init_scale)


def _candidates(
    train: Observations, held_out: Observations, wish: Wish, trials: list[Trial]
) -> Iterator[Setting]:
    """Yield settings to try; `trials` grows between two of them."""
    depths = (3, 2) if wish.depth == "auto" else (int(wish.depth),)
    fixed_decay = None if wish.weight_decay == "auto" else float(wish.weight_decay)
    scarce = _scarce(train)
    quick = wish.init_scale == "auto" and depths[0] > 2 and not scarce
    clean = Setting(
        depths[0],
        wish.width,
        fixed_decay or 0.0,
        init_scale=_QUICK_START if quick else _scale(wish),
        loss_drop=1.0 if scarce else 0.5,
        trial_tol=1e-5 if quick else 1e-7,
    )
    if wish.offsets != "auto":
        clean = replace(clean, offsets=wish.offsets)
    yield clean
    first = trials[-1]
    if fitted(first) and first.rmse < CLEAN * held_out.rms:
        return
    offsets = _offsets(train, held_out) if wish.offsets == "auto" else wish.offsets
    if 2 in depths:
        shallow = replace(
            clean, depth=2, offsets=offsets, init_scale=_scale(wish), loss_drop=0.5, trial_tol=1e-7
        )
        if fixed_decay is None:
            yield from _decay_path(train, shallow, trials)
        elif (shallow.depth, shallow.offsets) != (clean.depth, clean.offsets):
            yield shallow
    deep = replace(clean, offsets=offsets, loss_drop=0.5)
    if (
        deep.depth > 2
        and offsets != clean.offsets
        and first.rmse < _NEAR * min(t.rmse for t in trials)
    ):
        yield deep


def _decay_path(train: Observations, setting: Setting, trials: list[Trial]) -> Iterator[Setting]:
    """Follow decay down from the middle while it helps, and up if that did not."""
    preparation = prepare(train, setting.offsets)
    noise = min(trial.rmse for trial in trials) / float(preparation.scales.mean())
    edge = noise * noise_edge(train)
    middle = np.inf
    for path in (_DECAYS, _STRONGER):
        best = middle
        for part in path:
            yield replace(setting, weight_decay=part * edge)
            rmse = trials[-1].rmse
            middle = min(middle, rmse) if part == _DECAYS[0] else middle
            if rmse >= best:
                break
            best = rmse
        if best < middle:
            return


def noise_edge(observations: Observations) -> float:
    """Return the largest singular value of unit noise on these cells, in expectation.

    Singular values below it drown in noise; depth 2 with weight decay lambda is a nuclear norm
    penalty that takes lambda off each of them.
    """
    m, n = observations.shape
    return float((np.sqrt(m) + np.sqrt(n)) * np.sqrt(observations.density))


def _offsets(train: Observations, held_out: Observations) -> str:
    """Return the offsets that alone predict held-out cells best, "none" unless they help."""
    errors = {}
    for offsets in OFFSETS:
        base = prepare(train, offsets).base(held_out.rows, held_out.cols)
        errors[offsets] = float(np.sqrt(np.mean((held_out.values - base) ** 2)))
    best = min(errors, key=lambda name: errors[name])
    return best if errors[best] < _OFFSETS_GAIN * errors["none"] else "none"


def _try(
    train: Observations,
    held_out: Observations,
    engine: Engine,
    wish: Wish,
    setting: Setting,
    deadline: float,
) -> Trial:
    preparation = prepare(train, setting.offsets, wish.scaling)
    prepared = preparation.apply(train)
    trajectory = run(
        prepared,
        engine,
        setting,
        validation=preparation.apply(held_out),
        wall_clock=max(deadline - time.perf_counter(), 0.0),
        dtype="float32" if _large(train) else None,
    )
    estimate = preparation.base(held_out.rows, held_out.cols) + preparation.scales[
        held_out.cols
    ] * cells_of(trajectory.factors, held_out)
    rmse = float(np.sqrt(np.mean((held_out.values - estimate) ** 2)))
    return Trial(setting, preparation, trajectory, rmse, prepared.rms)


def _large(observations: Observations) -> bool:
    return observations.shape[0] * observations.shape[1] > SMALL


def _final(
    observations: Observations, engine: Engine, wish: Wish, setting: Setting, deadline: float
) -> Fit:
    preparation = prepare(observations, setting.offsets, wish.scaling)
    trajectory = run(
        preparation.apply(observations),
        engine,
        setting,
        wall_clock=max(deadline - time.perf_counter(), 0.0),
    )
    return Fit(setting, preparation, trajectory)
