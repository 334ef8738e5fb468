"""What a fit reports: what was found, chosen and measured, in plain types."""

import os
from typing import Any

import numpy as np

from depthrank import spectra
from depthrank.completion.fitting import Engine
from depthrank.completion.model import CompletionModel
from depthrank.completion.trials import Fit, Wish

_SIZE_RATIO = 1e6
_LISTED = 20
_BEYOND = 0.99  # of the error of effects alone


def report(model: CompletionModel, done: Fit, engine: Engine, wish: Wish) -> dict[str, Any]:
    """Return the report of a fit.

    Parameters
    ----------
    model : CompletionModel
        The fitted model.
    done : Fit
        How it came about.
    engine, wish : Engine, Wish
        What was asked for.

    Returns
    -------
    dict
        Keys of DESIGN's `complete` and more; plain Python types. Errors are root mean squares in
        the units of the data: `observed_rmse` over what was fitted, `validation_rmse` over cells
        held out while choosing (None if none were), `holdout_rmse` is for callers who hold out
        cells themselves. `init_scale` and `weight_decay` are those of the prepared table.
    """
    seen, trajectory = model.observations, done.trajectory
    error = model.cells(seen.rows, seen.cols) - seen.values
    rms, s = seen.rms, trajectory.singular_values
    counts = model.graph.label_counts
    return {
        "shape": list(seen.shape),
        "n_observed": seen.n_observed,
        "n_missing": seen.n_missing,
        "duplicates": seen.n_duplicates,
        "components": model.graph.n_components,
        "empty_rows": _named(seen.empty_rows, seen.row_labels),
        "empty_cols": _named(seen.empty_cols, seen.col_labels),
        "cells": counts,
        "depth": done.setting.depth,
        "width": done.setting.width,
        "weight_decay": done.setting.weight_decay,
        "init_scale": done.setting.init_scale if engine.init is None else None,
        "init": done.setting.start if engine.init is None else repr(engine.init),
        "start": done.setting.start,
        "finish": done.setting.finish,
        "rank": model.rank,
        "offsets": done.setting.offsets,
        "scaling": model.preparation.scaling,
        "stopped_by": _stopped_by(done),
        "converged": bool(trajectory.converged or _chosen_stop(done)),
        "criterion": "mean squared residual relative to the mean square, prepared observed cells",
        "criterion_value": trajectory.observed_mse / (model.preparation.apply(seen).rms ** 2 or 1),
        "tolerance": engine.tol,
        "time": trajectory.time,
        "steps": trajectory.steps,
        "evaluations": trajectory.evaluations,
        "total_evaluations": trajectory.evaluations
        + sum(trial.trajectory.evaluations for trial in done.trials),
        "observed_rmse": float(np.sqrt(np.mean(error**2))),
        "relative_observed_rmse": float(np.sqrt(np.mean(error**2))) / rms if rms else None,
        "validation_rmse": done.best.rmse if done.best else None,
        "n_validation": done.held_out.n_observed if done.held_out else 0,
        "holdout_rmse": None,
        "refitted": done.refitted,
        "tried": [trial.row() for trial in done.trials],
        "stable_rank": float(spectra.stable_rank_of(s)),
        "effective_rank": float(spectra.effective_rank_of(s)),
        "seed": engine.seed,
        "dtype": engine.dtype,
        "threads": _threads(),
        "warnings": _notes(model, done, wish),
        "seconds": trajectory.seconds,
        "compile_seconds": trajectory.compile_seconds
        + sum(trial.trajectory.compile_seconds for trial in done.trials),
    }


def _chosen_stop(done: Fit) -> bool:
    """Whether the flow ended at the time that held-out cells chose."""
    return done.best is not None and done.trajectory.stopped_by in ("time", "validation")


def _stopped_by(done: Fit) -> str:
    return "validation" if _chosen_stop(done) else done.trajectory.stopped_by


def _notes(model: CompletionModel, done: Fit, wish: Wish) -> list[str]:
    """Return what a user should know, a sentence each."""
    seen, graph, counts = model.observations, model.graph, model.graph.label_counts
    notes = []
    if not seen.n_missing:
        notes.append("Nothing to fill: every cell is observed.")
    if seen.n_duplicates:
        notes.append(f"{seen.n_duplicates} cells were given more than once and were merged.")
    for what, mean, positions, labels in (
        ("rows", "column", seen.empty_rows, seen.row_labels),
        ("columns", "row", seen.empty_cols, seen.col_labels),
    ):
        if len(positions):
            named = ", ".join(str(name) for name in _named(positions, labels)[:_LISTED])
            more = ", ..." if len(positions) > _LISTED else ""
            notes.append(
                f"{len(positions)} {what} without an observed cell ({named}{more}) hold {mean} "
                "means, not estimates."
            )
    if counts["across"]:
        notes.append(
            f"The table falls into {graph.n_components} unconnected parts; {counts['across']} "
            "cells across them are not determined by the data."
        )
    scaling = model.preparation.scaling
    if scaling != "columns" and model.preparation.size_ratio > _SIZE_RATIO:
        notes.append(
            f"Column sizes differ by a factor of {model.preparation.size_ratio:.1e}; the small "
            "ones are hardly fitted. Use scaling='columns'."
        )
    notes += _limits(model, done)
    if not done.refitted:
        notes.append("Stopped before the refit: cells held out for choosing were not fitted.")
    return notes


def _limits(model: CompletionModel, done: Fit) -> list[str]:
    """Return sentences on what the data do not say, and what was assumed."""
    notes = []
    if done.setting.start == "positive":
        notes.append(
            "All cells have one sign, so rank one was completed from a positive start, each part "
            "of the table with rows and columns of equal size; the data say nothing about that."
        )
    alone = [t.rmse for t in done.trials if t.setting.finish == "averaged" and not t.setting.width]
    if alone and done.best is not None and done.best.rmse > _BEYOND * alone[0]:
        gain = 100 * max(1 - done.best.rmse / alone[0], 0.0)
        notes.append(
            "There is next to nothing beyond row and column effects in this table: held-out "
            f"error {alone[0]:.4g} with effects alone, {gain:.1f} % less with factors."
        )
    return notes


def _named(positions: np.ndarray, labels: tuple[Any, ...] | None) -> list[Any]:
    """Return labels, or positions, as plain types."""
    if labels is None:
        return [int(position) for position in positions]
    chosen = [labels[position] for position in positions]
    return [x if isinstance(x, str | int | float) else str(x) for x in chosen]


def _threads() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on this system
        return os.cpu_count() or 1
