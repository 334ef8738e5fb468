"""Matrices to be completed, made by rule: what a made problem holds to be true."""

import numpy as np

from depthrank.errors import check_range
from depthrank.seeds import generator

__all__ = ["low_rank"]


def low_rank(shape: tuple[int, int], rank: int, size: float, seed: int) -> np.ndarray:
    """Return a random matrix of a rank: a product of Gaussian factors.

    Parameters
    ----------
    shape : (int, int)
        Shape (m, n).
    rank : int
        1 to min(m, n).
    size : float
        Root mean square of the entries.
    seed : int
        Root seed; drawn from its stream "truth".

    Returns
    -------
    float64 array [m, n]

    Raises
    ------
    DepthrankError
        If no matrix of this shape has this rank.
    """
    check_range("rank", rank, 1, min(shape))
    rng = generator(seed, "truth")
    product = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    return np.asarray(product * (size / np.sqrt(np.mean(product**2))))
