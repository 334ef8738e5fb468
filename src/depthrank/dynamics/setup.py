"""What a run needs before it starts: factors, the problem, and checks of what was asked."""

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from depthrank import memory
from depthrank.dynamics.problem import Problem
from depthrank.errors import DepthrankError
from depthrank.factors import Factors, check_factors, dims, end_to_end
from depthrank.initialization import Gaussian, Start, default_scale
from depthrank.observations import Observations


def starting_factors(
    observations: Observations,
    depth: int | None,
    init: Start | None,
    factors: Sequence[np.ndarray] | None,
    width: int | None,
    seed: int,
) -> Factors:
    """Return the factors a run starts from, checked against the shape of the observations."""
    if factors is not None:
        if init is not None or width is not None:
            raise DepthrankError(
                "Both factors and init or width were given; factors already are a start: give one."
            )
        checked = check_factors(factors, observations.shape)
        if depth is not None and depth != len(checked):
            raise DepthrankError(
                f"depth is {depth} but {len(checked)} factors were given; leave depth out."
            )
        return checked
    if depth is None:
        raise DepthrankError("depth is missing; give the number of factors (>= 1), or factors.")
    if init is None:
        init = Gaussian(default_scale(observations.values))
    return init(dims(observations.shape, depth, width), seed)


def make_problem(
    observations: Observations,
    weight_decay: float,
    dtype: str,
    validation: Observations | None = None,
) -> Problem:
    """Return the dense training problem of some observations, in the given precision."""
    extra: dict[str, Any] = {}
    if validation is not None:
        if validation.shape != observations.shape or validation.n_observed == 0:
            raise DepthrankError(
                f"validation has shape {validation.shape} and {validation.n_observed} entries; it "
                f"needs the shape {observations.shape} of the observations and an entry or more."
            )
        extra["validation_target"] = jnp.asarray(validation.to_dense(fill=0.0), dtype)
        extra["validation_mask"] = jnp.asarray(validation.mask(), dtype)
    return Problem(
        target=jnp.asarray(observations.to_dense(fill=0.0), dtype),
        mask=jnp.asarray(observations.mask(), dtype),
        weight_decay=jnp.asarray(weight_decay, dtype),
        **extra,
    )


def residual_scale(observations: Observations, factors: Factors) -> float:
    """Return the mean square that residuals are measured against.

    It is that of the data; where the data are all zero, that of the start on the same entries.
    """
    if observations.n_observed == 0:
        return 1.0
    if observations.rms > 0:
        return float(observations.rms) ** 2
    product = end_to_end(factors)
    return float(np.mean(product[observations.rows, observations.cols] ** 2))


def check_choice(name: str, given: str, accepted: Sequence[str]) -> None:
    """Refuse a name that is not among those accepted."""
    if given not in accepted:
        raise DepthrankError(f"{name} is {given!r}; it must be one of {', '.join(accepted)}.")


def check_memory(observations: Observations, factors: Factors, solver: str) -> None:
    """Refuse a run that would not fit in memory, before anything is allocated."""
    parameters = sum(f.size for f in factors)
    m, n = observations.shape
    # Factors, slopes, stages, error and best state; mask, target, product and residual.
    memory.require(8 * (14 * parameters + 8 * m * n), f"The flow of a {m} x {n} matrix")
    if solver == "kvaerno5":
        memory.require(
            24 * parameters**2,
            f"The implicit solver kvaerno5 with {parameters} parameters",
            "Take solver='auto', which needs no linear systems.",
        )
