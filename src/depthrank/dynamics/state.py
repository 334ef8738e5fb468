"""Where a batch of flows stands, how it steps and what bounds it."""

import dataclasses

import equinox as eqx
from jax import Array

from depthrank.dynamics.chebyshev import MAX_STAGES
from depthrank.dynamics.problem import Factors

SOLVERS = ("auto", "chebyshev", "tsit5", "dopri8", "kvaerno5")


@dataclasses.dataclass(frozen=True)
class Method:
    """How steps are taken: static, part of the compiled program.

    Parameters
    ----------
    solver : str
        One of `SOLVERS`.
    max_stages : int
        Largest number of Chebyshev stages.
    validated : bool
        Whether the problem holds held-out entries to watch.
    unrolled : bool
        Whether the stages of an explicit step are written out one by one. A batch of small
        matrices steps two to five times faster so, a large matrix no faster; compiling takes
        longer.
    """

    solver: str = "auto"
    max_stages: int = MAX_STAGES
    validated: bool = False
    unrolled: bool = False

    @property
    def can_be_smooth(self) -> bool:
        """Whether a diffrax solver takes (some of) the steps."""
        return self.solver != "chebyshev"

    @property
    def can_be_stiff(self) -> bool:
        """Whether Chebyshev steps are taken."""
        return self.solver in ("auto", "chebyshev")

    @property
    def is_explicit(self) -> bool:
        """Whether the spectral radius limits the step, and is measured after each."""
        return self.solver != "kvaerno5"


class Control(eqx.Module):
    """What ends or bounds a flow; every field has the batch axis.

    `rtol` bounds the local error relative to the norm of each factor; `tol` the mean squared
    residual, absolute; `loss_drop` the fraction of the loss at the best validation error under
    which a flow without improvement ends; `t_stop` the next time to land on exactly.
    """

    rtol: Array
    tol: Array
    max_steps: Array
    loss_drop: Array
    t_stop: Array


class State(eqx.Module):
    """Where every member of the batch stands; `watched_mse` is the residual at its last watch."""

    t: Array
    factors: Factors
    slope: Factors
    h: Array
    stiff: Array
    rho: Array
    direction: Factors
    last_error: Array
    last_h: Array
    mse: Array
    watched_mse: Array
    validation: Array
    best_factors: Factors
    best_validation: Array
    best_mse: Array
    best_t: Array
    code: Array
    steps: Array
    rejected: Array
    rejected_in_a_row: Array
    landings: Array
    evaluations: Array


class History(eqx.Module):
    """The scalars of every accepted step in one call of `advance`, [batch, capacity]."""

    t: Array
    mse: Array
    validation: Array
    accepted: Array
