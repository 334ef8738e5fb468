"""Randomness from one integer seed, split into named streams.

Every consumer draws from a stream of its own name ("init", "mask", "holdout", ...), so adding a
consumer never shifts what the others draw.
"""

from zlib import crc32

import numpy as np

from depthrank.errors import DepthrankError


def generator(seed: int, stream: str) -> np.random.Generator:
    """Return the random generator of one named stream.

    Parameters
    ----------
    seed : int
        The root seed, >= 0.
    stream : str
        Name of the stream; equal names give equal draws, different names independent ones.

    Returns
    -------
    numpy.random.Generator
        Freshly seeded: calling twice gives the same draws twice.

    Raises
    ------
    DepthrankError
        If `seed` is negative or not an integer.
    """
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DepthrankError(f"seed is {seed!r}; it must be an integer >= 0.")
    return np.random.default_rng([int(seed), crc32(stream.encode())])
