"""What a batch does: from the settings of its cells to values by variable."""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.factors import Factors, dims, end_to_end
from depthrank.sweeps.batches import Batch
from depthrank.sweeps.problems import Made, blocks_of, make, start_of
from depthrank.sweeps.settings import (
    CompletionCell,
    DescentCell,
    FlowCell,
    LimitsCell,
    StartedCell,
    StudyCell,
    WarmCell,
    seed_of,
)
from depthrank.sweeps.variables import ENDINGS, VARIABLES

if TYPE_CHECKING:
    from depthrank.theory import LimitsGrid

__all__ = ["Results", "run"]

Told = Callable[[int, int], None]


@dataclass(frozen=True)
class Results:
    """What came out of a batch.

    Attributes
    ----------
    values : dict of arrays
        One array [cell, ...] per variable; meaningless where a reason is given.
    reasons : list of str
        Why a cell failed; empty where it did not.
    """

    values: dict[str, np.ndarray]
    reasons: list[str]


def run(batch: Batch, progress: Told | None = None) -> Results:
    """Run a batch in this process.

    Parameters
    ----------
    batch : Batch
    progress : callable, optional
        Called with (cells ended, cells) now and then.

    Returns
    -------
    Results

    Raises
    ------
    KeyboardInterrupt
        Also where the engine keeps Ctrl-C to itself.
    """
    from threadpoolctl import threadpool_limits

    # One thread for BLAS: how many share a product decides its last bits.
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # how each cell ended is stored
        return _RUNS[batch.task](batch, progress)


def _trained(batch: Batch, progress: Told | None) -> Results:
    """Run flows or descents."""
    results = _empty(batch)
    built: list[tuple[int, StartedCell, Made, Factors]] = []
    for k, cell in enumerate(cast(Sequence[StartedCell], batch.settings)):
        try:
            made = make(cell)
            sizes = dims(made.observations.shape, cell.depth, cell.width)
            start = start_of(cell, made.observations)(sizes, seed_of(cell, "init"))
        except DepthrankError as error:
            results.reasons[k] = str(error)
        else:
            built.append((k, cell, made, start))
    if not built:
        return results
    # Copies of the last member fill the batch, so that all batches of a group share one program.
    size = max(batch.size, len(built)) if batch.size > 1 else len(built)
    filled = built + built[-1:] * (size - len(built))
    train = _descents if batch.task == "descent" else _flows
    ends = train(filled, progress)
    if ENDINGS.index("interrupted") in ends["stopped_by"]:
        raise KeyboardInterrupt
    for name, values in ends.items():
        if name in results.values:
            results.values[name][[k for k, *_ in built]] = values[: len(built)]
    for row, (k, _, made, _) in enumerate(built):
        _measure(results, k, made, ends["end_to_end"][row])
    if batch.task == "flow":
        _compare(results, built)
    return results


def _flows(members: list[Any], progress: Told | None) -> dict[str, np.ndarray]:
    from depthrank.dynamics.batch import flow_batch
    from depthrank.dynamics.members import products

    seen = [made.observations for _, _, made, _ in members]
    first: FlowCell = members[0][1]
    data = flow_batch(
        seen[0] if all(one is seen[0] for one in seen) else seen,
        [start for *_, start in members],
        weight_decay=first.weight_decay,
        tol=first.tol,
        rtol=first.rtol,
        max_time=first.max_time,
        max_steps=first.max_steps,
        solver=first.solver,
        factors=True,
        progress=progress,
    )
    kept = ("singular_values", "stable_rank", "effective_rank", "time", "steps", "evaluations")
    ends = {name: data[name].values for name in kept}
    codes = {word: code for code, word in enumerate(ENDINGS)}
    ends["stopped_by"] = np.array([codes[str(word)] for word in data["stopped_by"].values])
    ends["end_to_end"] = products(data)
    return ends


def _descents(members: list[Any], progress: Told | None) -> dict[str, np.ndarray]:
    from depthrank import spectra
    from depthrank.product_spectrum import product_singular_values
    from depthrank.sweeps.descents import descend_batch

    cells: list[DescentCell] = [cell for _, cell, _, _ in members]
    factors, ends = descend_batch(
        [made.observations for _, _, made, _ in members],
        [start for *_, start in members],
        optimizer=cells[0].optimizer,
        learning_rates=[cell.learning_rate for cell in cells],
        steps=cells[0].steps,
        weight_decay=cells[0].weight_decay,
        tols=[cell.tol for cell in cells],
        batch_size=cells[0].batch_size,
        seeds=[cell.seed for cell in cells],
    )
    s = product_singular_values(factors)
    codes = {word: code for code, word in enumerate(ENDINGS)}
    steps = ends["steps"]
    return {
        "singular_values": s,
        "stable_rank": spectra.stable_rank_of(s),
        "effective_rank": spectra.effective_rank_of(s),
        "time": steps * np.array([cell.learning_rate for cell in cells]),
        "steps": steps,
        "evaluations": steps,
        "stopped_by": np.array([codes[word] for word in ends["stopped_by"]]),
        "end_to_end": end_to_end(factors),
    }


def _measure(results: Results, k: int, made: Made, end_to_end: np.ndarray) -> None:
    """Compare an end-to-end matrix with what was seen, what is true and what was held out.

    Residuals are taken here and not from the batch: there the order of a sum, hence its last bit,
    depends on how many members are left running.
    """
    seen, values = made.observations, results.values
    error = end_to_end[seen.rows, seen.cols] - seen.values
    values["observed_mse"][k] = np.mean(error**2)
    values["loss"][k] = 0.5 * np.sum(error**2)
    values["n_observed"][k] = seen.n_observed
    if made.truth is not None:
        gap = np.linalg.norm(end_to_end - made.truth)
        values["reconstruction_error"][k] = gap / np.linalg.norm(made.truth)
    if made.held_out is not None and made.held_out.n_observed:
        out = made.held_out
        missed = end_to_end[out.rows, out.cols] - out.values
        values["holdout_rmse"][k] = np.sqrt(np.mean(missed**2))


def _compare(results: Results, built: list[Any]) -> None:
    """Put the exact limit beside the flows that Theorem 3.3 covers."""
    for k, cell, made, _ in built:
        if not _covered(cell, made):
            continue
        n, size = blocks_of(cell)
        grid = _limits(cell.depth, n, size, [cell.alpha], [cell.m], [cell.value])
        if grid is None:
            continue
        values = results.values
        values["limit_stable_rank"][k] = grid.stable_rank[0]
        values["limit_effective_rank"][k] = grid.effective_rank[0]
        exact = np.array([grid.sigma_1[0], grid.sigma_2[0]])
        found = values["singular_values"][k, [0, 1]]
        live = exact > 1e-12 * exact[0]
        values["limit_difference"][k] = np.max(np.abs(found - exact)[live] / exact[live])


def _covered(cell: FlowCell, made: Made) -> bool:
    """Whether a flow runs to the limit of equal, constant, fully observed blocks."""
    square = cell.width is None or cell.width == made.observations.shape[0]
    blocks = cell.seen_as == "block-diagonal" or (
        cell.seen_as == "diagonal" and cell.dimension is not None
    )
    plain = cell.rank is None and cell.noise == 0 and cell.holdout == 0 and cell.input is None
    to_the_end = cell.weight_decay == 0 and cell.max_time == np.inf
    return square and blocks and plain and to_the_end and cell.start_name == "alpha-m"


def _limits(depth: int, n: int, size: int, alpha: Any, m: Any, value: Any) -> "LimitsGrid | None":
    """Return exact limits, None where they have no grid form."""
    from depthrank.theory import limits_grid

    if depth < 2 or n < 2 or np.min(value) <= 0:
        return None
    return limits_grid(depth=depth, alpha=alpha, m=m, n_blocks=n, block_size=size, value=value)


def _exact(batch: Batch, progress: Told | None) -> Results:
    """Evaluate exact limits, all at once where they form a grid."""
    from depthrank.theory import limits

    results, cells = _empty(batch), cast(Sequence[LimitsCell], batch.settings)
    n, size = blocks_of(cells[0])
    alpha, m = [cell.alpha for cell in cells], [cell.m for cell in cells]
    grid = _limits(cells[0].depth, n, size, alpha, m, [cell.value for cell in cells])
    if grid is not None:
        for name in results.values:
            results.values[name][:] = getattr(grid, name)
        return results
    for k, cell in enumerate(cells):
        try:
            one = limits(
                depth=cell.depth,
                alpha=cell.alpha,
                m=cell.m,
                n_blocks=n,
                block_size=size,
                value=cell.value,
            )
        except DepthrankError as error:
            results.reasons[k] = str(error)
            continue
        s = one.singular_values
        found = (one.stable_rank, one.effective_rank, s[0], s[1] if n > 1 else np.nan)
        for name, value in zip(results.values, (*found, one.cross_block_entry), strict=True):
            results.values[name][k] = value
    return results


def _warmed(batch: Batch, progress: Told | None) -> Results:
    """Train every cell in two phases."""
    from depthrank.sweeps.warm import train

    results = _empty(batch)
    for k, cell in enumerate(cast(Sequence[WarmCell], batch.settings)):
        try:
            made, run = train(cell)
        except DepthrankError as error:
            results.reasons[k] = str(error)
            continue
        if "interrupted" in run.stopped_by:
            raise KeyboardInterrupt
        values, (first, last) = results.values, (run.trajectories[0], run.trajectories[-1])
        s = run.singular_values
        values["singular_values"][k, : s.size] = s
        for name in ("stable_rank", "effective_rank"):
            values[name][k] = getattr(run, name)
            values[f"first_{name}"][k] = getattr(first, name)
        for name in ("time", "steps", "evaluations"):
            values[name][k] = getattr(first, name) + getattr(last, name)
        values["stopped_by"][k] = ENDINGS.index(last.stopped_by)
        values["first_stopped_by"][k] = ENDINGS.index(first.stopped_by)
        _measure(results, k, made, run.end_to_end)
    return results


def _completed(batch: Batch, progress: Told | None) -> Results:
    """Complete the table of every cell."""
    from depthrank.completion.estimator import DeepMatrixCompletion

    results = _empty(batch)
    for k, cell in enumerate(cast(Sequence[CompletionCell], batch.settings)):
        try:
            made = make(cell)
            names = ("depth", "width", "init_scale", "weight_decay", "offsets", "scaling")
            options = {name: getattr(cell, name) for name in (*names, "validation_fraction", "tol")}
            model = DeepMatrixCompletion(**options, random_state=seed_of(cell, "fit"))
            model.fit(made.observations)
        except DepthrankError as error:
            results.reasons[k] = str(error)
            continue
        found = model.report_
        if found["stopped_by"] == "interrupted":
            raise KeyboardInterrupt
        values, whole = results.values, model.complete()
        s = model.trajectory_.singular_values  # of the prepared table, as the ranks are
        values["singular_values"][k, : s.size] = s
        ranks, errors = ("stable_rank", "effective_rank"), ("observed_rmse", "validation_rmse")
        for name in (*ranks, *errors, "n_observed"):
            values[name][k] = np.nan if found[name] is None else found[name]
        values["chosen_depth"][k] = found["depth"]
        values["chosen_weight_decay"][k] = found["weight_decay"]
        if made.truth is not None:
            gap = np.linalg.norm(whole - made.truth)
            values["reconstruction_error"][k] = gap / np.linalg.norm(made.truth)
        if made.held_out is not None and made.held_out.n_observed:
            values["holdout_rmse"][k] = model.evaluate(made.held_out)["rmse"]
    return results


def _studied(batch: Batch, progress: Told | None) -> Results:
    """Run the study of every cell and count its claims."""
    from depthrank.studies import STUDIES

    results = _empty(batch)
    for k, cell in enumerate(cast(Sequence[StudyCell], batch.settings)):
        study = next(one for one in STUDIES if one.name == cell.study)
        claims = study.claims(study.run(getattr(study, cell.setting), cell.seed))
        failed = [claim.id for claim in claims if not claim.holds]
        results.values["claims"][k] = len(claims)
        results.values["claims_held"][k] = len(claims) - len(failed)
        results.values["failed_claims"][k] = ", ".join(failed)
    return results


def _empty(batch: Batch) -> Results:
    """Return arrays without a value for a batch."""
    from depthrank.sweeps.batches import modes_of

    n = len(batch.cells)
    modes = modes_of(dict(zip(batch.cells, batch.settings, strict=True)))
    values: dict[str, np.ndarray] = {}
    for variable in VARIABLES[batch.task]:
        shape = (n, modes) if variable.modes else (n,)
        if variable.kind == "str":
            values[variable.name] = np.full(shape, "", dtype=object)
        else:
            missing = np.nan if variable.kind == "f8" else -1
            values[variable.name] = np.full(shape, missing, dtype=variable.kind)
    return Results(values, [""] * n)


_RUNS: dict[str, Callable[[Batch, Told | None], Results]] = {
    "flow": _trained,
    "descent": _trained,
    "limits": _exact,
    "warm": _warmed,
    "completion": _completed,
    "study": _studied,
}
