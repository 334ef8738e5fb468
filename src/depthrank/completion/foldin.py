"""New rows against a fitted model: regularised least squares on the learned column space.

A fit leaves right singular vectors V and singular values s. Its rows are c V^T with coefficients
c of mean square s_k^2 / m in direction k. A new row x, seen on some columns O, gets the
coefficients that are most probable under that spread and the residual size sigma of the fit,

    argmin_c |x_O - c V_O^T|^2 / sigma^2 + sum_k c_k^2 m / s_k^2,

which is least squares where the data are clean (sigma small) and shrinks where they are noisy.
Each row is solved by itself: what else is in the call does not matter.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from depthrank.factors import Factors

Floats = NDArray[np.float64]

_SIGNIFICANT = 1e-12  # directions below this part of the largest take no part
_NOISE_FLOOR = 1e-7  # of the scaled data; keeps the least squares problem well posed


@dataclass(frozen=True, eq=False)
class ColumnSpace:
    """The right singular vectors of a fit, stretched by the spread of the rows along them.

    Attributes
    ----------
    directions : float64 [n, k]
        V diag(s) / sqrt(m): a row is `directions` times coefficients of unit mean square.
    noise : float
        Residual size sigma, in the same (scaled) units.
    """

    directions: Floats
    noise: float

    def fold(self, cols: NDArray[np.int64], values: Floats) -> Floats:
        """Return the whole row that fits best what is seen of it.

        Parameters
        ----------
        cols : int64 [k]
            Columns that are seen, each once.
        values : float64 [k]
            Prepared (centred and scaled) values.

        Returns
        -------
        float64 [n]
        """
        seen = self.directions[cols]
        k = seen.shape[1]
        if not k or not len(cols):
            return np.zeros(len(self.directions))
        # The stacked form of the ridge problem keeps the square root of its condition number.
        stacked = np.vstack((seen, max(self.noise, _NOISE_FLOOR) * np.eye(k)))
        aim = np.concatenate((values, np.zeros(k)))
        coefficients = np.linalg.lstsq(stacked, aim, rcond=None)[0]
        return np.asarray(self.directions @ coefficients)


def column_space(factors: Factors, n_rows: int, noise: float) -> ColumnSpace:
    """Return the column space of W_L ... W_1.

    Parameters
    ----------
    factors : tuple of arrays
        (W_1, ..., W_L).
    n_rows : int
        Rows with an observed cell, over which s^2 is spread; at least 1.
    noise : float
        Root mean square residual of the fit, prepared units.

    Returns
    -------
    ColumnSpace
    """
    right = factors[0]
    for W in factors[1:-1]:
        right = W @ right
    # W = last @ right; QR of both keeps the decomposition at the hidden width.
    triangle = np.linalg.qr(factors[-1], mode="r") if len(factors) > 1 else np.eye(len(right))
    _, s, vt = np.linalg.svd(triangle @ right, full_matrices=False)
    kept = s > _SIGNIFICANT * max(s[0], np.finfo(float).tiny)
    return ColumnSpace((vt[kept].T * s[kept]) / np.sqrt(n_rows), noise)
