"""What a cell yields, by task: the variables of the stored arrays."""

from dataclasses import dataclass

from depthrank.dynamics.endings import STOPPED_BY

__all__ = ["ENDINGS", "VARIABLES", "Variable"]

# Endings are stored as numbers; the meaning of each stands in the attributes of the variable.
ENDINGS = STOPPED_BY


@dataclass(frozen=True)
class Variable:
    """One stored array.

    Attributes
    ----------
    name, meaning : str
    kind : {"f8", "i8", "i1", "str"}
        f8 is NaN, integers are -1 and texts empty where there is no value.
    modes : bool
        Whether there is one number per singular value.
    """

    name: str
    meaning: str
    kind: str = "f8"
    modes: bool = False


_SPECTRUM = (
    Variable("singular_values", "of the end-to-end matrix at the end, descending", modes=True),
    Variable("stable_rank", "sum of s^2 over the largest s^2"),
    Variable("effective_rank", "exp of the entropy of s / sum(s)"),
)
_ERRORS = (
    Variable("reconstruction_error", "Frobenius error relative to the known ground truth"),
    Variable("holdout_rmse", "root mean squared error on the entries of holdout"),
)
_TRAINED = (
    *_SPECTRUM,
    Variable("loss", "half the sum of squared residuals on observed entries, without decay"),
    Variable("observed_mse", "mean of squared residuals on observed entries"),
    *_ERRORS,
    Variable("n_observed", "entries that training sees", "i8"),
    Variable("time", "flow time of the loss; a step of size eta advances it by eta"),
    Variable("steps", "accepted steps", "i8"),
    Variable("evaluations", "evaluations of the gradient", "i8"),
    Variable("stopped_by", "what ended the training", "i1"),
)
_LIMIT = (
    Variable("limit_stable_rank", "stable rank of the exact limit (Theorem 3.3), if it applies"),
    Variable("limit_effective_rank", "effective rank of that limit"),
)

VARIABLES: dict[str, tuple[Variable, ...]] = {
    "flow": (
        *_TRAINED,
        *_LIMIT,
        Variable("limit_difference", "largest relative difference of a singular value to it"),
    ),
    "descent": _TRAINED,
    "warm": (
        *_TRAINED,
        Variable("first_stable_rank", "stable rank at the end of the first phase"),
        Variable("first_effective_rank", "effective rank there"),
        Variable("first_stopped_by", "what ended the first phase", "i1"),
    ),
    "completion": (
        *_SPECTRUM,
        Variable("observed_rmse", "root mean squared error on observed entries"),
        *_ERRORS,
        Variable("validation_rmse", "the same on the cells held out while choosing"),
        Variable("n_observed", "entries that training sees", "i8"),
        Variable("chosen_depth", "number of factors that was chosen", "i8"),
        Variable("chosen_weight_decay", "decay that was chosen"),
    ),
    "limits": (
        Variable("stable_rank", "of the exact limit"),
        Variable("effective_rank", "of the exact limit"),
        Variable("sigma_1", "largest singular value, once"),
        Variable("sigma_2", "the other singular values of the blocks"),
        Variable("cross_block_entry", "an unobserved entry of the limit"),
    ),
    "study": (
        Variable("claims", "claims decided", "i8"),
        Variable("claims_held", "claims that hold", "i8"),
        Variable("failed_claims", "ids of those that fail", "str"),
    ),
}
