"""What the estimator is given: parameters checked, tables read, seeds drawn."""

import secrets
import sys
import time
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_feature_names, _check_n_features, validate_data

from depthrank import frames
from depthrank.completion.fitting import WIDTH_LIMIT, Engine
from depthrank.completion.offsets import OFFSETS, SCALINGS
from depthrank.completion.trials import Wish
from depthrank.coordinates import Duplicates
from depthrank.errors import DepthrankError
from depthrank.observations import Observations

if TYPE_CHECKING:
    from depthrank.completion.estimator import DeepMatrixCompletion


def check_parameters(estimator: "DeepMatrixCompletion") -> None:
    """Refuse parameters out of their range, before anything long starts."""
    numbers: dict[str, tuple[float, float, bool, bool]] = {
        # lowest, highest, whole, or "auto"
        "depth": (1, 100, True, True),
        "width": (1, np.inf, True, False),
        "init_scale": (np.finfo(float).tiny, np.inf, False, True),
        "weight_decay": (0, np.finfo(float).max, False, True),
        "validation_fraction": (0, 0.9, False, True),
        "tol": (0, 1, False, False),
        "max_seconds": (0, np.inf, False, False),
        "verbose": (0, np.inf, True, False),
    }
    for name, (low, high, whole, auto) in numbers.items():
        value = getattr(estimator, name)
        if (auto and isinstance(value, str) and value == "auto") or (
            value is None and name in ("width", "max_seconds")
        ):
            continue
        kind = Integral if whole else Real
        if (
            isinstance(value, bool)
            or not isinstance(value, kind)
            or not low <= float(value) <= high
        ):
            allowed = f"{'a whole number' if whole else 'a number'} from {low:g} to {high:g}"
            raise DepthrankError(
                f"{name} is {value!r}; it must be {allowed}{' or auto' if auto else ''}."
            )
    choices = {
        "offsets": ("auto", *OFFSETS),
        "scaling": ("auto", *SCALINGS),
        "dtype": ("float64", "float32"),
        "duplicates": ("mean", "error", "first", "last"),
    }
    for name, accepted in choices.items():
        value = getattr(estimator, name)
        if value not in accepted:
            raise DepthrankError(f"{name} is {value!r}; it must be one of {', '.join(accepted)}.")
    bounds = estimator.bounds
    if bounds is not None and (np.shape(bounds) != (2,) or not bounds[0] < bounds[1]):
        raise DepthrankError(
            f"bounds is {bounds!r}; it must be two numbers, the lower first, such as (1, 5)."
        )
    if not isinstance(estimator.integers, bool | np.bool_):
        raise DepthrankError(f"integers is {estimator.integers!r}; it must be True or False.")
    if estimator.init is not None and not callable(estimator.init):
        raise DepthrankError(
            f"init is {estimator.init!r}; it must be a start such as depthrank.Gaussian(1e-6)."
        )


def settings(estimator: "DeepMatrixCompletion", shape: tuple[int, int]) -> tuple[Wish, Engine]:
    """Return what is fixed and what is to be chosen, and how flows are run."""
    smaller = min(shape)
    width = min(smaller, WIDTH_LIMIT) if estimator.width is None else int(estimator.width)
    if width > smaller:
        warnings.warn(
            f"width {width} is more than the {shape[0]} x {shape[1]} table can use; {smaller} is "
            "taken.",
            stacklevel=3,
        )
        width = smaller
    wish = Wish(
        depth=estimator.depth,
        weight_decay=estimator.weight_decay,
        offsets=estimator.offsets,
        width=width,
        scaling=estimator.scaling,
        fraction=estimator.validation_fraction,
        init_scale=estimator.init_scale,
        max_seconds=np.inf if estimator.max_seconds is None else float(estimator.max_seconds),
    )
    engine = Engine(
        init=estimator.init,
        tol=float(estimator.tol),
        dtype=estimator.dtype,
        seed=estimator.seed_,
        progress=estimator.progress or (_printer() if estimator.verbose else None),
    )
    return wish, engine


def draw_seed(random_state: Any) -> int:
    """Return the root seed: the integer itself, or one drawn."""
    if random_state is None:
        return secrets.randbelow(2**31)
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        if random_state < 0:
            raise DepthrankError(f"random_state is {random_state}; a seed is at least 0.")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))


def read_table(estimator: "DeepMatrixCompletion", X: Any, *, reset: bool) -> Observations:
    """Return a table as observations, and check (or set, in fit) its columns.

    Frames keep their labels; what is neither a frame, sparse nor Observations goes through
    scikit-learn's validation, so that its messages and rules hold.
    """
    if isinstance(X, Observations):
        _check_labels(estimator, X, reset)
        return X
    if frames.is_frame(X):
        _check_feature_names(estimator, X, reset=reset)
        _check_n_features(estimator, X, reset=reset)
        return Observations.from_frame(X, missing=estimator.missing)
    if isinstance(X, np.ma.MaskedArray):
        X = np.ma.filled(X.astype(np.float64), np.nan)
    checked = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse=["csr", "csc", "coo"],
        ensure_all_finite=False,  # infinity is refused by our reader, which names the cell
        dtype="numeric",
    )
    if type(checked).__module__.startswith("scipy.sparse"):
        return Observations.from_scipy(checked, duplicates=cast(Duplicates, estimator.duplicates))
    return Observations.from_dense(checked, missing=estimator.missing)


def _check_labels(estimator: "DeepMatrixCompletion", X: Observations, reset: bool) -> None:
    """Do for Observations what scikit-learn's checks do for frames and arrays."""
    n = X.shape[1]
    labels = X.col_labels
    named = labels is not None and all(isinstance(label, str) for label in labels)
    if reset:
        estimator.n_features_in_ = n
        if named:
            estimator.feature_names_in_ = np.array(labels, dtype=object)
        elif hasattr(estimator, "feature_names_in_"):
            del estimator.feature_names_in_
        return
    if n != estimator.n_features_in_:
        raise DepthrankError(
            f"X has {n} columns, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )
    fitted = getattr(estimator, "feature_names_in_", None)
    if named and fitted is not None and tuple(fitted) != labels:
        odd = [label for label in labels or () if label not in set(fitted)]
        what = f"such as {odd[0]!r}" if odd else "in another order"
        raise DepthrankError(f"the columns differ from those of the fit, {what}.")


def _printer() -> Callable[[Any], None]:
    """Return a progress callback that writes a plain line every few seconds."""
    last = 0.0

    def show(progress: Any) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= 2.0:
            last = now
            sys.stderr.write(
                f"observed mean square {progress.observed_mse:.3g} "
                f"(fitted below {progress.tol_mse:.3g}), {progress.seconds:.0f} s\n"
            )

    return show
