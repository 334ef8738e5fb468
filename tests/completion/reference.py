"""The setting that cases of other people's trouble are run in, and small tables they share."""

from typing import Any

import numpy as np

from depthrank.completion.estimator import DeepMatrixCompletion

NAN = np.nan
SP09 = np.array([[1.0, 2, NAN], [2, NAN, 6], [NAN, 6, 9], [4, 8, 12]])


def reference(**changes: Any) -> DeepMatrixCompletion:
    """Depth 3, Gaussian of size 1e-6 of the cells' root mean square, residual 1e-5."""
    fixed = {
        "depth": 3,
        "init_scale": 1e-6,
        "weight_decay": 0.0,
        "offsets": "none",
        "validation_fraction": 0.0,
        "tol": 1e-10,
        "random_state": 0,
    }
    return DeepMatrixCompletion(**{**fixed, **changes})


def with_holes(table: Any, *holes: tuple[int, int]) -> np.ndarray:
    """Return a float copy with NaN in some cells."""
    holed = np.array(table, float)
    for hole in holes:
        holed[hole] = np.nan
    return holed
