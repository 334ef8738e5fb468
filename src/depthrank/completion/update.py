"""More data for a fitted table: resume, treat the factors first, or start over.

`auto` resumes from the grown factors and looks at new cells that it has kept aside: they were never
seen, so their error is honest. If they are met as well as held-out cells were when the model was
chosen, the resumed run is kept; otherwise a second candidate is tried, the one that the plasticity
report recommends or a cold start, and the better of the two goes on.
"""

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.completion.fitting import INIT_SCALE, SMALL, Engine, Setting, run
from depthrank.completion.merging import News, grown, merge, read_new
from depthrank.completion.model import CompletionModel, model_of
from depthrank.completion.offsets import Preparation, prepare
from depthrank.completion.reading import check_parameters, read_table, settings
from depthrank.completion.reporting import report
from depthrank.completion.selection import Fit, Trial, Wish, fit
from depthrank.coordinates import spare_cells
from depthrank.errors import DepthrankError
from depthrank.factors import Factors
from depthrank.initialization import Gaussian
from depthrank.observations import Observations
from depthrank.plasticity import Border, PlasticityReport, add_depth, plasticity_report
from depthrank.plasticity import shrink_perturb as shrinking
from depthrank.seeds import generator

if TYPE_CHECKING:
    from depthrank.completion.estimator import DeepMatrixCompletion

STRATEGIES = ("auto", "warm", "shrink", "add-depth", "cold")
_ADVISED = {"resume": "warm", "shrink": "shrink", "add depth": "add-depth", "start over": "cold"}

KEEP = 0.1  # factor of the shrinking strategy
_SHARE, _FEWEST = 0.1, 10  # new cells kept aside while choosing: this share, if that many can be
_AS_GOOD = 1.05  # held-out error of the resumed run, against that when the model was chosen
_GROWTH = 1.5  # the decay is looked at again once the table has grown by this
_DECAYS = (0.7, 1.4)
_DIFFERS = 0.01  # warm and cold differ if their tables do by this part of the data's size
_TOLD = (
    *("shape", "n_observed", "components", "depth", "weight_decay", "observed_rmse"),
    *("validation_rmse", "stable_rank", "effective_rank", "seconds"),
)
_SMALL_RTOL = 1e-4  # where it costs nothing the way, not only the end, is followed closely


@dataclass(frozen=True, eq=False)
class _Job:
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
        return max(self.deadline - time.perf_counter(), 0.0)


def partial_fit(estimator: "DeepMatrixCompletion", X: Any, strategy: str = "auto") -> None:
    """Take new data into a fitted estimator; see `DeepMatrixCompletion.partial_fit`."""
    if strategy not in STRATEGIES:
        raise DepthrankError(
            f"strategy is {strategy!r}; it must be one of {', '.join(STRATEGIES)}."
        )
    check_parameters(estimator)
    model = estimator._model
    asked, has = estimator.depth, len(model.factors)
    if asked not in ("auto", has) and strategy not in ("cold", "add-depth"):
        raise DepthrankError(
            f"the model has depth {has}, depth={asked} is asked for; set depth={has}, take "
            "strategy='add-depth' or 'cold', or fit anew."
        )
    new = read_new(
        model, X, lambda table: read_table(estimator, table, reset=False), missing=estimator.missing
    )
    update(estimator, merge(model.observations, new), strategy)


def update(estimator: "DeepMatrixCompletion", news: News, strategy: str = "auto") -> None:
    """Fit the merged table, and change the estimator once all is done.

    Parameters
    ----------
    estimator : DeepMatrixCompletion
        Fitted. Unchanged if anything is raised, KeyboardInterrupt included.
    news : News
        From `merge`.
    strategy : str
        One of `STRATEGIES`.
    """
    clock = time.perf_counter()
    before = _summary(estimator)
    if news.empty:
        warnings.warn(
            "the new data hold no new cell, row or column and no other value; the model stays as "
            "it is.",
            stacklevel=3,
        )
        estimator.report_ = estimator.report_ | news.counts() | _nothing(before)
        return
    job = _job(estimator, news, clock)
    forecast = _forecast(job)
    chosen, done, trials = _choose(job, strategy, forecast)
    if done.trajectory.stopped_by == "interrupted" or any(
        trial.trajectory.stopped_by == "interrupted" for trial in done.trials
    ):
        raise KeyboardInterrupt
    model = model_of(news.table, done)
    result = report(model, done, job.engine, job.wish)
    result |= news.counts() | _words(forecast, chosen, strategy, trials)
    tuned = estimator.report_.get("tuned_on", before["n_observed"])
    retuned = chosen == "cold" or done.setting.weight_decay != job.setting.weight_decay
    result["tuned_on"] = news.table.n_observed if retuned else tuned
    result |= {"before": before, "seconds": time.perf_counter() - clock}
    _install(estimator, model, done, result)


def compare(estimator: "DeepMatrixCompletion") -> dict[str, Any]:
    """Fit the same table from scratch and set it beside the estimator.

    Returns
    -------
    dict
        `warm`, `cold`: ranks, errors, depth, seconds of each; `rms_difference` and
        `largest_difference` of the two tables over cells that are not observed, units of the data;
        `differ`, whether the first is above a hundredth of the data's size.
    """
    from sklearn.base import clone

    table = estimator._model.observations
    cold = clone(estimator).set_params(random_state=estimator.seed_).fit(table)
    hidden = ~table.mask()
    gap = (estimator._model.estimate_table() - cold._model.estimate_table())[hidden]
    rms = float(np.sqrt(np.mean(gap**2))) if gap.size else 0.0
    return {
        "warm": _summary(estimator),
        "cold": _summary(cold),
        "rms_difference": rms,
        "largest_difference": float(np.abs(gap).max(initial=0.0)),
        "differ": rms > _DIFFERS * table.rms,
        "model": cold,
    }


def _summary(estimator: "DeepMatrixCompletion") -> dict[str, Any]:
    return {name: estimator.report_.get(name) for name in _TOLD}


def _nothing(before: dict[str, Any]) -> dict[str, Any]:
    return {
        "strategy": "none",
        "reasons": ["Nothing is new; the model stays as it is."],
        "warm_stable_rank_bound": 1.0,
        "predicted_plasticity_loss": 0.0,
        "before": before,
    }


def _words(
    forecast: PlasticityReport, chosen: str, asked: str, trials: dict[str, float]
) -> dict[str, Any]:
    reasons = list(forecast.reasons)
    if asked != "auto":
        reasons.append(f"Strategy {asked} was asked for.")
    elif trials:
        told = ", ".join(f"{name} {error:.4g}" for name, error in trials.items())
        reasons.append(f"Error on new cells kept aside while choosing: {told}. Taken: {chosen}.")
    return {
        "strategy": chosen,
        "recommended": forecast.action,
        "reasons": reasons,
        "warm_stable_rank_bound": forecast.stable_rank_bound,
        "predicted_plasticity_loss": forecast.predicted_loss,
        "lazy": forecast.lazy,
        "commutes": forecast.commutes,
        "strategies_tried": trials,
    }


def _job(estimator: "DeepMatrixCompletion", news: News, clock: float) -> _Job:
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
    )
    train, held_out = _keep_aside(news, engine.seed, estimator.validation_fraction)
    return _Job(
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


def _fresh(job: _Job) -> Callable[[tuple[int, ...]], Factors]:
    init = job.engine.init or Gaussian(job.setting.init_scale)
    return lambda sizes: init(sizes, job.engine.seed)


def _start(job: _Job, table: Observations, way: Preparation, strategy: str) -> Factors | None:
    """Return the factors a strategy goes on from; None for a cold start."""
    if strategy == "cold":
        return None
    factors = grown(job.model, table, way, _fresh(job), job.setting.width)
    init = job.engine.init or Gaussian(job.setting.init_scale)
    border = Border(way.apply(table), init, job.engine.seed)
    if strategy == "shrink":
        return shrinking(KEEP)(factors, border)
    return add_depth()(factors, border) if strategy == "add-depth" else factors


def _forecast(job: _Job) -> PlasticityReport:
    """Ask the report about the grown factors, in prepared units."""
    news, old = job.news, job.model.observations
    way = prepare(news.table, job.setting.offsets, job.wish.scaling)
    factors = grown(job.model, news.table, way, _fresh(job), job.setting.width)
    # Corrected cells as they were: the report compares.
    placed = replace(
        news.table, rows=old.rows, cols=old.cols, values=old.values, n_duplicates=0, source=None
    )
    if not news.fresh.n_observed:
        return plasticity_report(factors, way.apply(placed), way.apply(placed))
    return plasticity_report(factors, way.apply(placed), way.apply(news.fresh))


def _choose(
    job: _Job, strategy: str, forecast: PlasticityReport
) -> tuple[str, Fit, dict[str, float]]:
    """Return the strategy taken, its fit, and held-out errors of what was tried."""
    advised = _ADVISED[forecast.action]
    if strategy == "cold" or (strategy == "auto" and job.held_out is None and advised == "cold"):
        return "cold", fit(job.news.table, job.engine, job.wish), {}
    first = strategy if strategy != "auto" else "warm" if job.held_out is not None else advised
    if job.held_out is None or (strategy != "auto" and _clean(job)):
        return first, _final(job, first, None, []), {}
    best = _try(job, first, job.setting)
    trials, tried = [best], {first: best.rmse}
    as_good = advised == "warm" if job.known is None else best.rmse <= _AS_GOOD * job.known
    if strategy == "auto" and not as_good:
        second = advised if advised != "warm" else "cold"
        other = _try(job, second, job.setting)
        trials.append(other)
        tried[second] = other.rmse
        if other.rmse < best.rmse:
            first, best = second, other
            if second == "cold":
                return "cold", fit(job.news.table, job.engine, job.wish), tried
    best = _retuned(job, first, best, trials)
    return first, _final(job, first, best, trials), tried


def _clean(job: _Job) -> bool:
    """Whether the model was fitted to its end: nothing is left to be chosen."""
    return job.known is None and job.setting.weight_decay == 0


def _try(job: _Job, strategy: str, setting: Setting, start: Factors | None = None) -> Trial:
    """Run a strategy on the training part, watching the cells kept aside."""
    assert job.held_out is not None
    way = prepare(job.train, setting.offsets, job.wish.scaling)
    prepared = way.apply(job.train)
    if start is None:
        start = _start(job, job.train, way, strategy)
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


def _retuned(job: _Job, strategy: str, best: Trial, trials: list[Trial]) -> Trial:
    """Look at weaker and stronger decay where the table has outgrown the one it was chosen for."""
    fixed = job.wish.weight_decay != "auto"
    if fixed or not best.setting.weight_decay or job.grown_since < _GROWTH:
        return best
    middle = best
    for factor in _DECAYS:
        setting = replace(middle.setting, weight_decay=factor * middle.setting.weight_decay)
        trials.append(_try(job, strategy, setting, middle.trajectory.factors))
        if trials[-1].rmse < best.rmse:
            return trials[-1]
    return best


def _final(job: _Job, strategy: str, best: Trial | None, trials: list[Trial]) -> Fit:
    """Fit all cells: from the state of the best trial, to the time that it has chosen."""
    table = job.news.table
    setting = job.setting if best is None else best.setting
    way = prepare(table, setting.offsets, job.wish.scaling)
    start = _start(job, table, way, strategy)
    if best is not None and not _fitted(best):
        # More cells pull harder, in proportion; the same point is reached that much earlier.
        share = job.train.n_observed / table.n_observed
        setting = replace(setting, max_time=best.trajectory.time * share)
    setting = _of_depth(setting, start)
    found = run(way.apply(table), _from(job, start), setting, wall_clock=job.seconds())
    return Fit(setting, way, found, trials, job.held_out if best else None, best)


def _fitted(trial: Trial) -> bool:
    return trial.trajectory.stopped_by == "fitted"


def _from(job: _Job, start: Factors | None) -> Engine:
    return job.engine if start is None else replace(job.engine, init=lambda dims, seed: start)


def _of_depth(setting: Setting, start: Factors | None) -> Setting:
    return setting if start is None else replace(setting, depth=len(start))


def _install(
    estimator: "DeepMatrixCompletion", model: CompletionModel, done: Fit, result: dict[str, Any]
) -> None:
    """Change the estimator, all at once."""
    table = model.observations
    estimator._model = model
    estimator.factors_, estimator.trajectory_ = done.trajectory.factors, done.trajectory
    estimator.report_ = result
    estimator.n_features_in_ = table.shape[1]
    if hasattr(estimator, "feature_names_in_") and table.col_labels is not None:
        estimator.feature_names_in_ = np.array(table.col_labels, dtype=object)
