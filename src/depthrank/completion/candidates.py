"""The runs that an update may consist of: flows and sweeps, tried on cells kept aside, or final."""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.completion.alternating import right_factor, sweep, trajectory
from depthrank.completion.automatic import factors_of
from depthrank.completion.averaging import average_table
from depthrank.completion.finished import trajectory_of
from depthrank.completion.fitting import INIT_SCALE, SMALL, Engine, Setting, run
from depthrank.completion.merging import News, grown
from depthrank.completion.model import CompletionModel
from depthrank.completion.offsets import Preparation, prepare
from depthrank.completion.reading import settings
from depthrank.completion.selection import fit
from depthrank.completion.trials import Fit, Trial, Wish, errors
from depthrank.coordinates import spare_cells
from depthrank.factors import Factors
from depthrank.initialization import Gaussian
from depthrank.observations import Observations
from depthrank.plasticity import Border, add_depth
from depthrank.plasticity import shrink_perturb as shrinking
from depthrank.seeds import generator

if TYPE_CHECKING:
    from depthrank.completion.estimator import DeepMatrixCompletion

KEEP = 0.1  # factor of the shrinking strategy
_SHARE, _FEWEST = 0.1, 10  # new cells kept aside while choosing: this share, if that many can be
_GROWTH = 1.5  # the decay of flows is looked at again once the table has grown by this
_DECAYS = (0.7, 1.4)
_MOST_DECAYS = 3
_WIDEST = 40  # directions of an average
_SPARE = 0.03
_SWEEPS_ON, _SWEEPS_LEFT = 10, 5  # of an average that goes on, and after a trial
_SMALL_RTOL = 1e-4  # where it costs nothing the way, not only the end, is followed closely


@dataclass(frozen=True, eq=False)
class Job:
    """What all candidates of one update share."""

    model: CompletionModel
    news: News
    train: Observations  # user's units, as held_out
    held_out: Observations | None
    engine: Engine
    wish: Wish
    setting: Setting
    known: float | None  # held-out error when the model was chosen
    grown_since: float  # size of the table over that when its decay was chosen
    deadline: float

    def seconds(self) -> float:
        """Return the time that is left."""
        return max(self.deadline - time.perf_counter(), 0.0)


def make_job(estimator: "DeepMatrixCompletion", news: News, clock: float) -> Job:
    """Gather what is known before anything is tried."""
    model, told, table = estimator._model, estimator.report_, news.table
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="width .* is more than")
        wish, engine = settings(estimator, table.shape)
    if table.shape[0] * table.shape[1] <= SMALL:
        engine = replace(engine, rtol=min(engine.rtol, _SMALL_RTOL))
    decay = float(told["weight_decay"])
    if wish.weight_decay == "auto":
        decay *= _edge(table) / _edge(model.observations)
    setting = Setting(
        depth=len(model.factors),
        width=wish.width,
        weight_decay=decay,
        offsets=told["offsets"],
        init_scale=told.get("init_scale") or INIT_SCALE,
        finish="averaged" if told.get("finish") == "averaged" else "flow",
    )
    if setting.finish == "averaged":
        setting = replace(setting, width=int(told["width"]))
    train, held_out = _keep_aside(news, engine.seed, estimator.validation_fraction)
    return Job(
        model,
        news,
        train,
        held_out,
        engine,
        wish,
        setting,
        known=told["validation_rmse"],
        grown_since=table.n_observed / told.get("tuned_on", model.observations.n_observed),
        deadline=clock + wish.max_seconds,
    )


def _edge(table: Observations) -> float:
    """Return how the noise's largest singular value grows with the table: decay goes along."""
    m, n = table.shape
    return float((np.sqrt(m) + np.sqrt(n)) * np.sqrt(table.density))


def _keep_aside(
    news: News, seed: int, fraction: float | str
) -> tuple[Observations, Observations | None]:
    """Hold out new cells only: what the model was fitted to is no test of it."""
    table, n = news.table, news.table.shape[1]
    share = _SHARE if isinstance(fraction, str) else float(fraction)
    wanted = round(share * news.fresh.n_observed)
    if wanted < _FEWEST:
        return table, None
    at = np.searchsorted(table.rows * n + table.cols, news.fresh.rows * n + news.fresh.cols)
    order = generator(seed, "update").permutation(at)
    held = spare_cells(table.rows, table.cols, table.shape, order, wanted)
    if held.sum() < _FEWEST:
        return table, None
    return table.select(~held), table.select(held)


def fresh(job: Job) -> Callable[[tuple[int, ...]], Factors]:
    """Return the rule of a fresh start, from sizes to factors."""
    init = job.engine.init or Gaussian(job.setting.init_scale)
    return lambda sizes: init(sizes, job.engine.seed)


def start_of(job: Job, table: Observations, way: Preparation, strategy: str) -> Factors | None:
    """Return the factors a strategy goes on from; None for a cold start."""
    if strategy == "cold":
        return None
    factors = grown(job.model, table, way, fresh(job), job.setting.width)
    init = job.engine.init or Gaussian(job.setting.init_scale)
    border = Border(way.apply(table), init, job.engine.seed)
    if strategy == "shrink":
        return shrinking(KEEP)(factors, border)
    return add_depth()(factors, border) if strategy == "add-depth" else factors


def is_clean(job: Job) -> bool:
    """Whether the model was fitted to its end: nothing is left to be chosen."""
    return job.known is None and job.setting.weight_decay == 0


def try_flow(job: Job, strategy: str, setting: Setting, start: Factors | None = None) -> Trial:
    """Run a strategy on the training part, watching the cells kept aside."""
    assert job.held_out is not None
    way = prepare(job.train, setting.offsets, job.wish.scaling)
    prepared = way.apply(job.train)
    if start is None and strategy != "cold":
        start = start_of(job, job.train, way, strategy)
    large = job.train.shape[0] * job.train.shape[1] > SMALL
    trajectory = run(
        prepared,
        _from(job, start),
        _of_depth(setting, start),
        validation=way.apply(job.held_out),
        wall_clock=job.seconds(),
        dtype="float32" if large else None,
    )
    rows, cols = job.held_out.rows, job.held_out.cols
    cells = trajectory.end_to_end[rows, cols] * way.scales[cols] + way.base(rows, cols)
    rmse = float(np.sqrt(np.mean((job.held_out.values - cells) ** 2)))
    return Trial(setting, way, trajectory, rmse, prepared.rms)


def cold_error(job: Job) -> float:
    """Return the error of a fit from scratch to the training part, on the cells kept aside."""
    assert job.held_out is not None
    done = fit(job.train, job.engine, replace(job.wish, max_seconds=job.seconds()))
    return errors(job.held_out, done.preparation, done.trajectory.factors)[0]


def retuned(job: Job, strategy: str, best: Trial, trials: list[Trial]) -> Trial:
    """Look at weaker and stronger decay where the table has outgrown the one it was chosen for."""
    fixed = job.wish.weight_decay != "auto"
    if fixed or not best.setting.weight_decay or job.grown_since < _GROWTH:
        return best
    middle = best
    for factor in _DECAYS:
        setting = replace(middle.setting, weight_decay=factor * middle.setting.weight_decay)
        trials.append(try_flow(job, strategy, setting, middle.trajectory.factors))
        if trials[-1].rmse < best.rmse:
            return trials[-1]
    return best


def final_flow(job: Job, strategy: str, best: Trial | None, trials: list[Trial]) -> Fit:
    """Fit all cells: from the state of the best trial, to the time that it has chosen."""
    table = job.news.table
    setting = job.setting if best is None else best.setting
    way = prepare(table, setting.offsets, job.wish.scaling)
    start = start_of(job, table, way, strategy)
    if best is not None and not _fitted(best):
        # More cells pull harder, in proportion; the same point is reached that much earlier.
        share = job.train.n_observed / table.n_observed
        setting = replace(setting, max_time=best.trajectory.time * share)
    setting = _of_depth(setting, start)
    found = run(way.apply(table), _from(job, start), setting, wall_clock=job.seconds())
    return Fit(setting, way, found, trials, job.held_out if best else None, best)


def can_sweep(job: Job) -> bool:
    """Whether resuming may go by sweeps: two factors that were fitted under decay."""
    return not can_average(job) and len(job.model.factors) == 2 and job.setting.weight_decay > 0


def try_sweeps(job: Job) -> list[Trial]:
    """Resume by sweeps on the training part; decay up while it helps, else down."""
    assert job.held_out is not None
    way = prepare(job.train, job.setting.offsets, job.wish.scaling)
    prepared, held_out = way.apply(job.train), way.apply(job.held_out)
    right = right_of(job, way)
    scales, rows, cols = way.scales[held_out.cols], held_out.rows, held_out.cols
    trials: list[Trial] = []

    def tried(setting: Setting) -> float:
        began = time.perf_counter()
        swept = sweep(prepared, right, setting.weight_decay, held_out=held_out)
        found = trajectory(swept, prepared, began, job.engine.seed, setting.weight_decay)
        W1, W2 = swept.factors
        cells = np.einsum("ik,ki->i", W2[rows], W1[:, cols])
        error = (cells - held_out.values) * scales
        rmse = float(np.sqrt(np.mean(error**2)))
        trials.append(Trial(setting, way, found, rmse, prepared.rms))
        return rmse

    middle = tried(job.setting)
    if job.wish.weight_decay != "auto":
        return trials
    for factor in reversed(_DECAYS):
        setting, best = job.setting, middle
        for _ in range(_MOST_DECAYS):
            setting = replace(setting, weight_decay=factor * setting.weight_decay)
            rmse = tried(setting)
            if rmse >= best:
                break
            best = rmse
        if best < middle:
            break
    return trials


def final_sweeps(job: Job, best: Trial, trials: list[Trial]) -> Fit:
    """Fit all cells by as many sweeps as the best trial took."""
    table, decay = job.news.table, best.setting.weight_decay
    way = prepare(table, best.setting.offsets, job.wish.scaling)
    prepared, began = way.apply(table), time.perf_counter()
    swept = sweep(prepared, right_of(job, way), decay, sweeps=best.trajectory.steps)
    found = trajectory(swept, prepared, began, job.engine.seed, decay)
    found = replace(found, stopped_by="validation")
    return Fit(best.setting, way, found, trials, job.held_out, best)


def right_of(job: Job, way: Preparation) -> Any:
    """Return the model's right factor in the units of a new preparation."""
    model, n = job.model, job.news.table.shape[1]
    ratio = model.preparation.scales / way.scales[: len(model.preparation.scales)]
    pair = (model.factors[0] * ratio, model.factors[1])
    return right_factor(pair, n, job.engine.seed)


def can_average(job: Job) -> bool:
    """Whether the model is an average over what data leave open, and resuming averages on."""
    return job.setting.finish == "averaged" and len(job.model.factors) == 2


def try_average(job: Job) -> Trial:
    """Resume averaging on the training part."""
    assert job.held_out is not None
    found, way, factors, took = _averaged(job, job.train, job.model.factors[0])
    rmse, mse = errors(job.held_out, way, factors)
    prepared = way.apply(job.train)
    run_ = trajectory_of(
        factors,
        prepared,
        sweeps=found.sweeps,
        course=found.course,
        seconds=took,
        seed=job.engine.seed,
        validation_mse=mse,
    )
    return Trial(job.setting, way, run_, rmse, prepared.rms)


def final_average(job: Job, best: Trial | None, trials: list[Trial]) -> Fit:
    """Average on over all cells, from the trial's columns where there was one."""
    right = job.model.factors[0] if best is None else best.trajectory.factors[0]
    table = job.news.table
    found, way, factors, took = _averaged(job, table, right, best)
    run_ = trajectory_of(
        factors,
        way.apply(table),
        sweeps=found.sweeps,
        course=found.course,
        seconds=took,
        seed=job.engine.seed,
    )
    return Fit(job.setting, way, run_, trials, job.held_out if best else None, best)


def _averaged(
    job: Job, table: Observations, right: Any, before: Trial | None = None
) -> tuple[Any, Preparation, Factors, float]:
    """Average from a right factor; rows follow from it in the first half sweep."""
    clock = time.perf_counter()
    old = before.preparation if before else job.model.preparation
    (m, n), known = table.shape, right.shape[1]
    width = min(job.setting.width, max(min(m, n) - 1, 1), _WIDEST)

    def start(way: Preparation) -> tuple[np.ndarray, np.ndarray]:
        v = _SPARE * generator(job.engine.seed, "spare").standard_normal((n, width))
        kept = right[:width] * (old.scales / way.scales[:known])
        v[:known, : len(kept)] += kept.T
        return np.zeros((m, width)), v

    found, way = average_table(
        table,
        width,
        job.setting.offsets,
        job.wish.scaling,
        job.engine.seed,
        start=start,
        sweeps=_SWEEPS_ON if before is None else _SWEEPS_LEFT,
    )
    return found, way, factors_of(found), time.perf_counter() - clock


def _fitted(trial: Trial) -> bool:
    return trial.trajectory.stopped_by == "fitted"


def _from(job: Job, start: Factors | None) -> Engine:
    return job.engine if start is None else replace(job.engine, init=lambda dims, seed: start)


def _of_depth(setting: Setting, start: Factors | None) -> Setting:
    return setting if start is None else replace(setting, depth=len(start))
