"""What rank measures read on weights that have learnt nothing.

A matrix of independent entries has a rank profile of its own, which depends on its shape: the
average over a deeper network moves although nothing was trained. A measured value means something
beside this baseline only, as a ratio or as a difference.

The singular values of a Gaussian matrix are drawn exactly, without the matrix: they are those of a
bidiagonal one with independent chi entries (Dumitriu and Edelman 2002, at beta = 1), which takes
time m squared however long the rows are. Uniform entries, as PyTorch draws by default, have the
same law to leading order in the size.
"""

import math
from functools import lru_cache

import numpy as np
from scipy.linalg import eigvalsh_tridiagonal

from depthrank import spectra
from depthrank.errors import DepthrankError
from depthrank.seeds import generator

__all__ = ["SCHEMES", "baseline", "gaussian_singular_values", "measures_of"]

SCHEMES = ("iid", "orthogonal")
MEASURES = ("stable_rank", "effective_rank", "effective_rank_power2", "participation_ratio")
_MOST_DRAWS = 64


def measures_of(s: np.ndarray) -> dict[str, float]:
    """Return the four soft rank measures of singular values [k], in any order, by name.

    `stable_rank`; `effective_rank` (p = s / sum s); `effective_rank_power2` (p = s^2 / sum s^2);
    `participation_ratio`. All of them NaN if a singular value is not finite.
    """
    if not np.isfinite(s).all():
        return dict.fromkeys(MEASURES, math.nan)
    values = (
        spectra.stable_rank_of(s),
        spectra.effective_rank_of(s),
        spectra.effective_rank_of(s, power=2),
        spectra.participation_ratio_of(s),
    )
    return {name: float(value) for name, value in zip(MEASURES, values, strict=True)}


def gaussian_singular_values(m: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw the singular values of an m x n matrix of independent standard normals, descending.

    Exact in law. Computed from the Gram matrix of the bidiagonal form, so that values below about
    1e-8 of the largest are rounding.
    """
    m, n = min(m, n), max(m, n)
    if m == 1:
        return np.sqrt(rng.chisquare(n, 1))
    diagonal = np.sqrt(rng.chisquare(np.arange(n, n - m, -1)))
    below = np.sqrt(rng.chisquare(np.arange(m - 1, 0, -1)))
    d = diagonal**2
    d[1:] += below**2
    squares = eigvalsh_tridiagonal(d, diagonal[:-1] * below)
    return np.sqrt(np.maximum(squares, 0.0))[::-1]


def baseline(m: int, n: int, *, blocks: int = 1, scheme: str = "iid") -> dict[str, float]:
    """Return the mean of every rank measure over untrained weights of a shape.

    Parameters
    ----------
    m, n : int
        Shape of one block.
    blocks : int
        Number of blocks whose spectra are pooled (see `depthrank.reshaping`).
    scheme : {"iid", "orthogonal"}
        Independent entries of equal variance (Gaussian, and to leading order uniform: the usual
        schemes, whatever their scale), or orthogonal rows, identity included, where every measure
        is the largest possible rank.

    Returns
    -------
    dict
        As `measures_of`: means over a fixed number of draws from a fixed seed, numerical. Their
        standard error is below 1 % from 4 x 4 on.

    Raises
    ------
    DepthrankError
        If the scheme is unknown or a size is not positive.
    """
    if scheme not in SCHEMES:
        raise DepthrankError(f"scheme is {scheme!r}; it must be one of {', '.join(SCHEMES)}.")
    if min(m, n, blocks) < 1:
        raise DepthrankError(f"the shape is {m} x {n} in {blocks} blocks; all must be >= 1.")
    k = blocks * min(m, n)
    if scheme == "orthogonal":
        return dict.fromkeys(MEASURES, float(k))
    return dict(_iid(min(m, n), max(m, n), blocks))


@lru_cache(maxsize=4096)
def _iid(m: int, n: int, blocks: int) -> tuple[tuple[str, float], ...]:
    rng = generator(0, f"baseline {m} {n} {blocks}")
    # the measures average themselves over m modes: large matrices need few draws
    draws = max(3, min(_MOST_DRAWS, math.ceil(2000 / (blocks * m))))
    found = [
        measures_of(
            np.sort(
                np.sqrt(rng.chisquare(n, blocks))
                if m == 1
                else np.concatenate([gaussian_singular_values(m, n, rng) for _ in range(blocks)])
            )[::-1]
        )
        for _ in range(draws)
    ]
    return tuple((name, math.fsum(f[name] for f in found) / draws) for name in MEASURES)
