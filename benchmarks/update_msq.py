"""The questionnaire arriving in ten batches: updating one model against refitting ten times.

A tenth of the answers is kept out altogether. The others arrive as batches of persons, or of random
cells. Every batch is taken in twice: by `partial_fit(strategy="auto")`, which is what `depthrank
update` runs, and by a fit from scratch to everything that has arrived. Needs the `demo` extra.

    python -m benchmarks.update_msq [--order persons|cells|both] [--batches N] [--rows N] [--json F]
"""

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from depthrank.completion.estimator import DeepMatrixCompletion
from depthrank.observations import Observations
from depthrank.seeds import generator
from examples.demo_data import load_msq


def batches(table: Observations, order: str, count: int, seed: int) -> list[Observations]:
    """Deal the answers into batches, by person or by cell."""
    rng = generator(seed, f"batches of {order}")
    if order == "persons":
        part = np.empty(table.shape[0], dtype=int)
        part[rng.permutation(table.shape[0])] = np.arange(table.shape[0]) * count // table.shape[0]
        of_cell = part[table.rows]
    else:
        of_cell = rng.permutation(np.arange(table.n_observed) * count // table.n_observed)
    labels, cols = np.array(table.row_labels), np.array(table.col_labels)
    return [
        Observations.from_long(
            labels[table.rows[of_cell == k]].tolist(),
            cols[table.cols[of_cell == k]].tolist(),
            table.values[of_cell == k],
        )
        for k in range(count)
    ]


def error(model: DeepMatrixCompletion, held_out: Observations) -> float:
    """Return the held-out error over all answers; unseen persons get the items' means."""
    labels, cols = np.array(held_out.row_labels), np.array(held_out.col_labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = model.predict(labels[held_out.rows].tolist(), cols[held_out.cols].tolist())
    return float(np.sqrt(np.mean((found - held_out.values) ** 2)))


def measure(order: str, count: int, rows: int | None, seed: int) -> dict[str, Any]:
    """Take in all batches in both ways; CPU seconds of this process, compilation included."""
    frame = load_msq()
    table = Observations.from_frame(frame if rows is None else frame.iloc[:rows])
    train, held_out = table.split(0.1, seed)
    arriving = batches(train, order, count, seed)
    updated = DeepMatrixCompletion(depth="auto", random_state=seed)
    lines = []
    for k, new in enumerate(arriving):
        clock = time.process_time()
        updated.partial_fit(new)
        warm = time.process_time() - clock
        clock = time.process_time()
        known = updated._model.observations  # all that has arrived, in one table
        refitted = DeepMatrixCompletion(depth="auto", random_state=seed).fit(known)
        cold = time.process_time() - clock
        if k == 0:  # the first fit is the same in both ways
            warm = cold = (warm + cold) / 2
        told = updated.report_
        lines.append(
            {
                "batch": k + 1,
                "cells": known.n_observed,
                "strategy": told.get("strategy", "first fit"),
                "update_rmse": error(updated, held_out),
                "refit_rmse": error(refitted, held_out),
                "update_cpu": warm,
                "refit_cpu": cold,
                "weight_decay": [told["weight_decay"], refitted.report_["weight_decay"]],
            }
        )
        print(
            "{batch:>3} {cells:>8,} {strategy:>10} {update_rmse:.4f} {refit_rmse:.4f} "
            "{update_cpu:6.1f} {refit_cpu:6.1f}".format(**lines[-1]),
            flush=True,
        )
    last = lines[-1]
    cpu = {way: sum(line[f"{way}_cpu"] for line in lines) for way in ("update", "refit")}
    return {
        "order": order,
        "batches": lines,
        "final_rmse_ratio": last["update_rmse"] / last["refit_rmse"],
        "cpu": cpu,
        "cpu_ratio": cpu["update"] / cpu["refit"],
    }


def main() -> None:
    """Measure and print."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--order", choices=("persons", "cells", "both"), default="both")
    words.add_argument("--batches", type=int, default=10)
    words.add_argument("--rows", type=int, help="only the first so many persons")
    words.add_argument("--seed", type=int, default=0)
    words.add_argument("--json", type=Path)
    given = words.parse_args()
    results = []
    for order in ("persons", "cells") if given.order == "both" else (given.order,):
        print(f"{order}: batch, cells, strategy, RMSE updated and refitted, CPU s of each")
        found = measure(order, given.batches, given.rows, given.seed)
        results.append(found)
        print(
            f"{order}: final held-out RMSE {found['final_rmse_ratio']:.4f} times the refit's, "
            f"in {found['cpu_ratio']:.3f} of the computing time "
            f"({found['cpu']['update']:.0f} s of {found['cpu']['refit']:.0f} s)\n"
        )
    if given.json:
        given.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
