"""More data for a fitted table: resume, treat the factors first, or start over.

`auto` resumes from the grown factors and looks at new cells that it has kept aside: they were never
seen, so their error is honest. If they are met as well as held-out cells were when the model was
chosen, the resumed run is kept; otherwise a second candidate is tried, the one that the plasticity
report recommends or a cold start, and the better of the two goes on.
"""

import time
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.completion.alternating import sweep
from depthrank.completion.candidates import (
    Job,
    can_average,
    can_sweep,
    cold_error,
    final_average,
    final_flow,
    final_sweeps,
    fresh,
    is_clean,
    make_job,
    retuned,
    right_of,
    try_average,
    try_flow,
    try_sweeps,
)
from depthrank.completion.merging import News, grown, merge, read_new
from depthrank.completion.model import CompletionModel, model_of
from depthrank.completion.offsets import prepare
from depthrank.completion.reading import check_parameters, read_table
from depthrank.completion.reporting import report
from depthrank.completion.selection import fit
from depthrank.completion.trials import Fit
from depthrank.errors import DepthrankError
from depthrank.factors import Factors
from depthrank.plasticity import PlasticityReport, plasticity_report

if TYPE_CHECKING:
    from depthrank.completion.estimator import DeepMatrixCompletion

STRATEGIES = ("auto", "warm", "shrink", "add-depth", "cold")
_ADVISED = {"resume": "warm", "shrink": "shrink", "add depth": "add-depth", "start over": "cold"}

_AS_GOOD = 1.05  # held-out error of the resumed run, against that when the model was chosen
_DIFFERS = 0.01  # warm and cold differ if their tables do by this part of the data's size
_TOLD = (
    *("shape", "n_observed", "components", "depth", "weight_decay", "observed_rmse"),
    *("validation_rmse", "stable_rank", "effective_rank", "seconds"),
)


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
    job = make_job(estimator, news, clock)
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


def _forecast(job: Job) -> PlasticityReport:
    """Ask the report about the grown factors, in prepared units."""
    news, old = job.news, job.model.observations
    way = prepare(news.table, job.setting.offsets, job.wish.scaling)
    if len(job.model.factors) == 2 and job.setting.weight_decay > 0:
        one = sweep(way.apply(news.table), right_of(job, way), job.setting.weight_decay, sweeps=1)
        state: Factors = one.factors
    else:
        state = grown(job.model, news.table, way, fresh(job), job.setting.width)
    # Corrected cells as they were: the report compares.
    placed = replace(
        news.table, rows=old.rows, cols=old.cols, values=old.values, n_duplicates=0, source=None
    )
    if not news.fresh.n_observed:
        return plasticity_report(state, way.apply(placed), way.apply(placed))
    return plasticity_report(state, way.apply(placed), way.apply(news.fresh))


def _choose(
    job: Job, strategy: str, forecast: PlasticityReport
) -> tuple[str, Fit, dict[str, float]]:
    """Return the strategy taken, its fit, and held-out errors of what was tried."""
    advised = _ADVISED[forecast.action]
    if strategy == "cold" or (strategy == "auto" and job.held_out is None and advised == "cold"):
        return "cold", fit(job.news.table, job.engine, job.wish), {}
    first = strategy if strategy != "auto" else "warm" if job.held_out is not None else advised
    if job.held_out is None or (strategy != "auto" and is_clean(job)):
        if first == "warm" and can_average(job):
            return first, final_average(job, None, []), {}
        return first, final_flow(job, first, None, []), {}
    averaging = first == "warm" and can_average(job)
    sweeping = first == "warm" and can_sweep(job)
    if averaging:
        trials = [try_average(job)]
    else:
        trials = try_sweeps(job) if sweeping else [try_flow(job, first, job.setting)]
    best = min(trials, key=lambda trial: trial.rmse)
    tried = {first: best.rmse}
    as_good = advised == "warm" if job.known is None else best.rmse <= _AS_GOOD * job.known
    if strategy == "auto" and not as_good:
        second = advised if advised != "warm" else "cold"
        if second == "cold":
            tried[second] = cold_error(job)
            if tried[second] < best.rmse:
                return "cold", fit(job.news.table, job.engine, job.wish), tried
        else:
            trials.append(try_flow(job, second, job.setting))
            tried[second] = trials[-1].rmse
            if tried[second] < best.rmse:
                first, best, averaging, sweeping = second, trials[-1], False, False
    if averaging:
        return first, final_average(job, best, trials), tried
    if sweeping:
        return first, final_sweeps(job, best, trials), tried
    best = retuned(job, first, best, trials)
    return first, final_flow(job, first, best, trials), tried


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
