"""Many flows of one shape, followed together in one compiled program.

Members differ in what they see, how they start and when they end; each is stepped and stopped as
if it were alone.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from depthrank import memory, spectra
from depthrank._version import __version__
from depthrank.dynamics import endings
from depthrank.dynamics.lanes import Outcome, follow, lanes_for
from depthrank.dynamics.problem import Problem
from depthrank.dynamics.setup import make_problem, residual_scale
from depthrank.dynamics.state import Control, Method
from depthrank.dynamics.trajectory import CONVENTIONS
from depthrank.errors import DepthrankError, check_range
from depthrank.factors import Factors
from depthrank.observations import Observations
from depthrank.product_spectrum import product_singular_values

if TYPE_CHECKING:
    import xarray


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
    "interrupted". A batch is spread over all devices that JAX sees
    (several graphics processors; a processor split into simulated devices gains nothing).
    """
    check_range("tol", tol, 0.0, 1.0)
    check_range("rtol", rtol, 1e-14, 0.1)
    seen = _members(observations, starts)
    stacked = tuple(np.stack(layer).astype(float) for layer in zip(*starts, strict=True))
    lanes = lanes_for(len(seen), sum(layer[0].size for layer in stacked))
    _require(seen[0].shape, stacked, lanes)
    started = time.perf_counter()
    with jax.enable_x64(True):
        scales = np.array([residual_scale(o, tuple(s)) for o, s in zip(seen, starts, strict=True)])

        def control_of(members: np.ndarray) -> Control:
            size = len(members)
            return Control(
                rtol=jnp.full(size, rtol),
                tol=jnp.asarray(tol * scales[members]),
                max_steps=jnp.full(size, max_steps),
                loss_drop=jnp.full(size, 0.5),
                t_stop=jnp.full(size, max_time),
            )

        problem_of = _problems(observations, seen, weight_decay)
        method = Method(solver, unrolled=True)
        outcome = follow(problem_of, control_of, stacked, method, lanes, progress)
    return _dataset(outcome, seen, factors, time.perf_counter() - started)


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


def _require(shape: tuple[int, int], stacked: Factors, lanes: int) -> None:
    m, n = shape
    parameters = sum(f[0].size for f in stacked)
    need = 8 * (lanes * (20 * parameters + 8 * m * n) + 2 * len(stacked[0]) * parameters)
    memory.require(
        need, f"A batch of {len(stacked[0])} flows of {m} x {n} matrices", "Give fewer members."
    )


def _problems(
    observations: Observations | Sequence[Observations],
    seen: list[Observations],
    weight_decay: float,
) -> Callable[[np.ndarray], Problem]:
    """Return the map from member indices to their problems, with a batch axis."""
    if isinstance(observations, Observations):
        one = make_problem(observations, weight_decay, "float64")
        return lambda members: jax.tree.map(
            lambda a: jnp.broadcast_to(a, (len(members), *a.shape)), one
        )

    def stack(members: np.ndarray) -> Problem:
        problems = [make_problem(seen[k], weight_decay, "float64") for k in members]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves), *problems)

    return stack


def _dataset(
    outcome: Outcome, seen: list[Observations], keep_factors: bool, seconds: float
) -> "xarray.Dataset":
    import xarray

    s = product_singular_values(outcome.factors)
    counts = np.array([o.n_observed for o in seen])
    variables: dict[str, Any] = {
        "singular_values": (("member", "mode"), s),
        "stable_rank": ("member", spectra.stable_rank_of(s)),
        "effective_rank": ("member", spectra.effective_rank_of(s)),
        "loss": ("member", 0.5 * counts * outcome.mse),
        "observed_mse": ("member", outcome.mse),
        "time": ("member", outcome.t),
        "steps": ("member", outcome.steps),
        "evaluations": ("member", outcome.evaluations),
        "stopped_by": ("member", np.array([endings.STOPPED_BY[c] for c in outcome.code])),
    }
    if keep_factors:
        for index, layer in enumerate(outcome.factors, start=1):
            variables[f"factor_{index}"] = (("member", f"d_{index}", f"d_{index - 1}"), layer)
    attrs: dict[str, Any] = {f"convention_{name}": text for name, text in CONVENTIONS.items()}
    attrs |= {"depthrank_version": __version__, "seconds": seconds}
    coords = {"member": np.arange(len(seen)), "mode": np.arange(s.shape[1])}
    return xarray.Dataset(variables, coords, attrs)
