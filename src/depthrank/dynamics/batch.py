"""Many flows of one shape, followed together in one compiled program.

Members differ in what they see, how they start and when they end; each is stepped and stopped as
if it were alone. Members that have ended are taken out of the batch once half of it has, so that
the slowest do not hold up the work of all.
"""

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from depthrank import memory, spectra
from depthrank._version import __version__
from depthrank.dynamics import endings
from depthrank.dynamics.problem import Problem
from depthrank.dynamics.run import STATIONARY_TOLERANCE
from depthrank.dynamics.setup import check_range, make_problem, residual_scale
from depthrank.dynamics.state import Control, Method, State
from depthrank.dynamics.stationarity import is_stationary
from depthrank.dynamics.stepping import advance, start
from depthrank.dynamics.trajectory import CONVENTIONS
from depthrank.errors import DepthrankError
from depthrank.factors import Factors
from depthrank.observations import Observations
from depthrank.product_spectrum import product_singular_values

if TYPE_CHECKING:
    import xarray

_SMALLEST = 16  # batches are not compacted below this
_FIRST_BUDGET = 200  # gradient evaluations before the first look from Python


def flow_batch(
    observations: Observations | Sequence[Observations],
    starts: Sequence[Sequence[np.ndarray]],
    *,
    weight_decay: float = 0.0,
    tol: float = 1e-14,
    rtol: float = 1e-6,
    max_time: float = np.inf,
    max_steps: int = 200_000,
    solver: str = "auto",
    factors: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> "xarray.Dataset":
    """Follow many gradient flows of equal shapes at once, in float64.

    Parameters
    ----------
    observations : Observations, or a sequence of them
        What every member sees, or one per member, all of one shape.
    starts : sequence of factors
        (W_1, ..., W_L) of every member, equal in shapes, for example
        ``[AlphaM(a, 2.0)(dims) for a in alphas]``.
    weight_decay, tol, rtol, max_time, max_steps, solver
        As in `flow`, for every member.
    factors : bool
        Whether to keep the final factors, as variables factor_1, ..., factor_L.
    progress : callable, optional
        Called with (members ended, members) a few times a second.

    Returns
    -------
    xarray.Dataset
        Over `member`: `singular_values` [member, mode], `stable_rank`, `effective_rank`, `loss`,
        `observed_mse`, `time`, `steps`, `evaluations`, `stopped_by`; conventions and versions in
        the attributes.

    Raises
    ------
    DepthrankError
        If shapes differ between members, an argument is out of range, or memory would not
        suffice.

    Notes
    -----
    **Label.** Numerical, to the tolerance asked for. Ctrl-C ends the running members as
    "interrupted".
    """
    check_range("tol", tol, 0.0, 1.0)
    check_range("rtol", rtol, 1e-14, 0.1)
    seen = _members(observations, starts)
    stacked = tuple(np.stack(layer) for layer in zip(*starts, strict=True))
    _require(seen[0].shape, stacked)
    started = time.perf_counter()
    with jax.enable_x64(True):
        problem = _stack_problems(observations, seen, weight_decay)
        batch = len(seen)
        scales = np.array([residual_scale(o, tuple(s)) for o, s in zip(seen, starts, strict=True)])
        control = Control(
            rtol=jnp.full(batch, rtol),
            tol=jnp.asarray(tol * scales),
            max_steps=jnp.full(batch, max_steps),
            loss_drop=jnp.full(batch, 0.5),
            t_stop=jnp.full(batch, max_time),
        )
        state = start(problem, tuple(map(jnp.asarray, stacked)), Method(solver))
        code = jnp.where(state.mse <= control.tol, endings.FITTED, state.code)
        state = dataclasses.replace(state, code=code.astype(jnp.int32))
        final = _follow(problem, state, control, Method(solver), progress)
    return _dataset(final, seen, factors, time.perf_counter() - started)


def _members(
    observations: Observations | Sequence[Observations], starts: Sequence[Any]
) -> list[Observations]:
    if not len(starts):
        raise DepthrankError("starts is empty; give the factors of one member or more.")
    if isinstance(observations, Observations):
        seen = [observations] * len(starts)
    else:
        seen = list(observations)
    if len(seen) != len(starts):
        raise DepthrankError(
            f"{len(seen)} observations and {len(starts)} starts were given; give one for all "
            "members, or as many observations as starts."
        )
    shapes = {o.shape for o in seen} | {(s[-1].shape[0], s[0].shape[1]) for s in starts}
    chains = {tuple(f.shape for f in s) for s in starts}
    if len(shapes) != 1 or len(chains) != 1:
        raise DepthrankError(
            f"Members differ in shape: matrices {sorted(shapes)}, factors {sorted(chains)}; a "
            "batch needs one shape. Run one batch per shape."
        )
    return seen


def _require(shape: tuple[int, int], stacked: Factors) -> None:
    m, n = shape
    need = 8 * (14 * sum(f.size for f in stacked) + 6 * len(stacked[0]) * m * n)
    memory.require(
        need, f"A batch of {len(stacked[0])} flows of {m} x {n} matrices", "Give fewer members."
    )


def _stack_problems(observations: Any, seen: list[Observations], weight_decay: float) -> Problem:
    if isinstance(observations, Observations):
        one = make_problem(observations, weight_decay, "float64")
        return jax.tree.map(lambda a: jnp.broadcast_to(a, (len(seen), *a.shape)), one)
    problems = [make_problem(o, weight_decay, "float64") for o in seen]
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)


def _follow(
    problem: Problem,
    state: State,
    control: Control,
    method: Method,
    progress: Callable[[int, int], None] | None,
) -> State:
    """Advance until every member has ended, taking ended ones out as it pays."""
    total = state.t.shape[0]
    final = state
    where = np.arange(total)
    budget = _FIRST_BUDGET
    settled = np.full(total, np.inf)
    try:
        while True:
            clock = time.perf_counter()
            state, _ = advance(
                problem, state, control, method, jnp.asarray(budget), jnp.asarray(jnp.inf), 0
            )
            state = _close(problem, state, control, settled, where)
            running = np.asarray(state.code) == endings.RUNNING
            seconds = time.perf_counter() - clock
            budget = int(np.clip(budget * 0.3 / seconds, 50, 100_000))
            if progress is not None:
                progress(total - int(running.sum()), total)
            if not running.any():
                break
            size = max(_SMALLEST, 1 << int(running.sum() - 1).bit_length())
            if size <= len(where) // 2:
                final = _scatter(final, state, where)
                # The power of two above the running count: few shapes, hence few compilations.
                order = np.argsort(~running, kind="stable")[:size]
                problem, state, control = _take((problem, state, control), order)
                where = where[order]
    except KeyboardInterrupt:
        code = jnp.where(state.code == endings.RUNNING, endings.INTERRUPTED, state.code)
        state = dataclasses.replace(state, code=code.astype(jnp.int32))
    return _scatter(final, state, where)


def _take(batch: Any, order: np.ndarray) -> Any:
    return jax.tree.map(lambda a: a[order], batch)


def _close(
    problem: Problem, state: State, control: Control, settled: np.ndarray, where: np.ndarray
) -> State:
    """End members that have reached their time, or rest without fitting."""
    code = jnp.where(
        (state.code == endings.RUNNING) & (state.t >= control.t_stop), endings.TIME, state.code
    )
    mse = np.asarray(state.mse)
    stalled = (np.asarray(code) == endings.RUNNING) & (mse > 0.999 * settled[where])
    settled[where] = mse
    if stalled.any():
        tolerance = jnp.asarray(STATIONARY_TOLERANCE)
        rests = is_stationary(problem, state.factors, state.slope, tolerance) & stalled
        code = jnp.where(rests, endings.STATIONARY, code)
    return dataclasses.replace(state, code=code.astype(jnp.int32))


def _scatter(final: State, part: State, where: np.ndarray) -> State:
    return jax.tree.map(lambda whole, piece: whole.at[where].set(piece), final, part)


def _dataset(
    state: State, seen: list[Observations], keep_factors: bool, seconds: float
) -> "xarray.Dataset":
    import xarray

    layers = [np.asarray(f) for f in state.factors]
    s = np.stack([product_singular_values(member) for member in zip(*layers, strict=True)])
    mse = np.asarray(state.mse)
    codes = np.asarray(state.code)
    counts = np.array([o.n_observed for o in seen])
    variables: dict[str, Any] = {
        "singular_values": (("member", "mode"), s),
        "stable_rank": ("member", spectra.stable_rank_of(s)),
        "effective_rank": ("member", spectra.effective_rank_of(s)),
        "loss": ("member", 0.5 * counts * mse),
        "observed_mse": ("member", mse),
        "time": ("member", np.asarray(state.t)),
        "steps": ("member", np.asarray(state.steps)),
        "evaluations": ("member", np.asarray(state.evaluations)),
        "stopped_by": ("member", np.array([endings.STOPPED_BY[c] for c in codes])),
    }
    if keep_factors:
        for index, layer in enumerate(layers, start=1):
            variables[f"factor_{index}"] = (("member", f"d_{index}", f"d_{index - 1}"), layer)
    attrs: dict[str, Any] = {f"convention_{name}": text for name, text in CONVENTIONS.items()}
    attrs |= {"depthrank_version": __version__, "seconds": seconds}
    coords = {"member": np.arange(len(seen)), "mode": np.arange(s.shape[1])}
    return xarray.Dataset(variables, coords, attrs)
