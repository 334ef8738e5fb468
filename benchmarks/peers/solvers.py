"""The peers behind one face: train in, estimates of the asked cells out, settings in a grid.

Each is tuned on a tenth of the training cells, the same for all, within the same CPU allowance,
and fitted again to all of them. Dense completers get the table less shrunken row and column
effects, or the table as it is: which of the two is part of the grid.
"""

import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np

from depthrank.completion.offsets import prepare
from depthrank.observations import Observations

Floats = np.ndarray
Solver = Callable[[Observations, Observations, dict[str, Any], int], Floats]


def _dense(fill: Callable[[Floats, dict[str, Any], int], Floats]) -> Solver:
    def solve(train: Observations, at: Observations, set_: dict[str, Any], seed: int) -> Floats:
        way = prepare(train, "both" if set_["effects"] else "none", "table")
        table = way.apply(train).to_dense()
        done = fill(table, set_, seed)
        return way.base(at.rows, at.cols) + way.scales[at.cols] * done[at.rows, at.cols]

    return solve


def effects(train: Observations, at: Observations, set_: dict[str, Any], seed: int) -> Floats:
    """Shrunken row and column effects alone."""
    return prepare(train, "both").base(at.rows, at.cols)


def soft_impute(table: Floats, set_: dict[str, Any], seed: int) -> Floats:
    """Soft-impute of Mazumder, Hastie and Tibshirani (2010), exactly: full SVD, warm start."""
    seen = np.isfinite(table)
    known = np.where(seen, table, 0.0)
    now = np.zeros_like(known)
    top = np.linalg.svd(known, compute_uv=False)[0]
    for part in (0.5, 0.25, 0.1, 0.05, 0.02, 0.01, 0.005, 0.001):
        if part < set_["part"]:
            break
        for _ in range(set_["sweeps"]):
            u, s, vt = np.linalg.svd(np.where(seen, known, now), full_matrices=False)
            new = (u * np.maximum(s - part * top, 0)) @ vt
            done = np.linalg.norm(new - now) < 1e-4 * max(np.linalg.norm(now), 1e-12)
            now = new
            if done:
                break
    return now


def iterative_svd(table: Floats, set_: dict[str, Any], seed: int) -> Floats:
    """Fill, take the best approximation of a rank, fill again (hard-impute)."""
    seen = np.isfinite(table)
    now = np.zeros_like(table)
    for _ in range(300):
        u, s, vt = np.linalg.svd(np.where(seen, table, now), full_matrices=False)
        new = (u[:, : set_["rank"]] * s[: set_["rank"]]) @ vt[: set_["rank"]]
        done = np.linalg.norm(new - now) < 1e-5 * np.linalg.norm(new)
        now = new
        if done:
            break
    return now


def knn(table: Floats, set_: dict[str, Any], seed: int) -> Floats:
    """scikit-learn KNNImputer."""
    from sklearn.impute import KNNImputer

    turned = table.T if set_["columns"] else table
    done = KNNImputer(
        n_neighbors=set_["k"], weights="distance", keep_empty_features=True
    ).fit_transform(turned)
    return done.T if set_["columns"] else done


def iterative(table: Floats, set_: dict[str, Any], seed: int) -> Floats:
    """scikit-learn IterativeImputer."""
    from sklearn.experimental import enable_iterative_imputer  # noqa: F401
    from sklearn.impute import IterativeImputer

    return IterativeImputer(
        n_nearest_features=set_["near"],
        max_iter=5,
        random_state=seed,
        keep_empty_features=True,
    ).fit_transform(table)


def cmfrec(train: Observations, at: Observations, set_: dict[str, Any], seed: int) -> Floats:
    """cmfrec CMF (alternating least squares, both biases)."""
    import pandas as pd
    from cmfrec import CMF

    frame = pd.DataFrame({"UserId": train.rows, "ItemId": train.cols, "Rating": train.values})
    model = CMF(**set_, verbose=False, nthreads=1, random_state=seed).fit(frame)
    return np.asarray(model.predict(at.rows, at.cols), float)


def surprise(kind: str) -> Solver:
    """Return scikit-surprise SVD or SVDpp."""

    def solve(train: Observations, at: Observations, set_: dict[str, Any], seed: int) -> Floats:
        import pandas as pd
        import surprise

        frame = pd.DataFrame({"r": train.rows, "c": train.cols, "y": train.values})
        scale = (float(train.values.min()), float(train.values.max()))
        data = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=scale))
        model = getattr(surprise, kind)(**set_, random_state=seed).fit(data.build_full_trainset())
        return np.array([model.predict(r, c).est for r, c in zip(at.rows, at.cols, strict=True)])

    return solve


def missing_package(name: str) -> Solver:
    """Return a solver that only says whether a package can be imported."""

    def solve(train: Observations, at: Observations, set_: dict[str, Any], seed: int) -> Floats:
        __import__(name)
        raise NotImplementedError(f"{name}: no rating regression; listed for its import only")

    return solve


def depthrank(train: Observations, at: Observations, set_: dict[str, Any], seed: int) -> Floats:
    """DeepMatrixCompletion with no options."""
    from depthrank import DeepMatrixCompletion

    return DeepMatrixCompletion(random_state=seed, **set_).fit(train)._model.cells(at.rows, at.cols)


def grid(**choices: list[Any]) -> list[dict[str, Any]]:
    """Return all combinations."""
    return [dict(zip(choices, each, strict=True)) for each in product(*choices.values())]


both = [True, False]
SOLVERS: dict[str, tuple[Solver, list[dict[str, Any]]]] = {
    "depthrank": (depthrank, [{}]),
    "row + column effects": (effects, [{}]),
    "cmfrec CMF": (
        cmfrec,
        grid(
            k=[5, 10, 20],
            lambda_=[1e-2, 0.1, 1.0, 3.0, 10.0],
            niter=[30],
            user_bias=[True],
            item_bias=[True],
        )
        + grid(k=[5], lambda_=[1e-3, 0.1], niter=[200], user_bias=[False], item_bias=[False]),
    ),
    "Surprise SVD": (
        surprise("SVD"),
        grid(reg_all=[0.1, 0.05], n_factors=[100, 20], n_epochs=[40, 80, 20]),
    ),
    "Surprise SVD++": (surprise("SVDpp"), grid(reg_all=[0.1], n_factors=[20], n_epochs=[20, 40])),
    "soft-impute": (
        _dense(soft_impute),
        grid(part=[0.25, 0.1, 0.05, 0.02, 0.005, 0.001], effects=both, sweeps=[50]),
    ),
    "iterative SVD": (_dense(iterative_svd), grid(rank=[5, 2, 1, 3, 10, 20], effects=both)),
    "KNNImputer": (_dense(knn), grid(k=[5, 20, 3, 40], columns=both, effects=both)),
    "IterativeImputer": (_dense(iterative), grid(near=[10, 30], effects=both)),
    "implicit": (missing_package("implicit"), [{}]),
    "csmc": (missing_package("csmc"), [{}]),
    "hyperimpute": (missing_package("hyperimpute"), [{}]),
}


def rmse(found: Floats, cells: Observations) -> float:
    """Return the root mean square error."""
    return float(np.sqrt(np.mean((found - cells.values) ** 2)))


def tuned(name: str, train: Observations, test: Observations, seed: int, allowance: float) -> Any:
    """Tune, fit again, score; a row of the table, failures included."""
    solve, settings = SOLVERS[name]
    warnings.simplefilter("ignore")
    inner, valid = train.split(0.1, seed)
    clock, tried, failed, chosen = time.process_time(), 0, [], settings[0]
    best = np.inf
    for setting in settings if len(settings) > 1 else []:
        if time.process_time() - clock > allowance:
            break
        tried += 1
        try:
            error = rmse(solve(inner, valid, setting, seed), valid)
        except Exception as problem:
            failed.append(f"{type(problem).__name__}: {problem}"[:100])
            continue
        if error < best:
            best, chosen = error, setting
    fit = time.process_time()
    try:
        error = rmse(solve(train, test, chosen, seed), test)
    except Exception as problem:
        error, failed = float("nan"), [f"{type(problem).__name__}: {problem}"[:100]]
    now = time.process_time()
    return {
        "rmse": error,
        "fit_seconds": now - fit,
        "all_seconds": now - clock,
        "tried": tried,
        "chosen": chosen,
        "failed": failed[:2],
    }
