"""From the options of `depthrank flow` to a training problem: what is seen, and how it starts."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    import numpy as np

    from depthrank.initialization import Start
    from depthrank.observations import Observations


class Pattern(StrEnum):
    """Which entries are seen."""

    DIAGONAL = "diagonal"
    BLOCK_DIAGONAL = "block-diagonal"
    UNIFORM = "uniform"
    BERNOULLI = "bernoulli"
    BANDED = "banded"
    STAIRCASE = "staircase"
    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    ONE_ROW = "one-row"
    ONE_COLUMN = "one-column"


class Init(StrEnum):
    """How factors start."""

    ALPHA_M = "alpha-m"
    GAUSSIAN = "gaussian"
    TIED_GAUSSIAN = "tied-gaussian"
    IDENTITY = "identity"
    ORTHOGONAL = "orthogonal"


@dataclass(frozen=True)
class Made:
    """A problem made to measure.

    Attributes
    ----------
    observations : Observations
    truth : ndarray or None
        The full matrix, where there is one beyond the observed entries.
    blocks : (int, int) or None
        Number and size of equal observed blocks with one value, where that is the pattern.
    """

    observations: "Observations"
    truth: "np.ndarray | None" = None
    blocks: tuple[int, int] | None = None


def make(
    pattern: Pattern | None,
    *,
    dimension: int | None,
    shape: str | None,
    blocks: int | None,
    block_size: int,
    value: float,
    rank: int | None,
    fraction: float | None,
    count: int | None,
    components: int | None,
    band: int,
    seed: int,
) -> Made:
    """Return the problem that a pattern and its sizes describe."""
    import numpy as np

    from depthrank import patterns
    from depthrank.observations import Observations

    if pattern is None:
        in_blocks = blocks is not None or block_size != 1
        pattern = Pattern.BLOCK_DIAGONAL if in_blocks else Pattern.DIAGONAL
    if pattern is Pattern.BLOCK_DIAGONAL:
        n, s = _blocks(dimension, blocks, block_size)
        mask = patterns.block_diagonal([(s, s)] * n)
    else:
        if blocks is not None or block_size != 1:
            raise DepthrankError(
                f"--blocks and --block-size belong to the pattern block-diagonal, not {pattern}."
            )
        sizes = _shape(dimension, shape)
        n, s = (sizes[0], 1) if pattern is Pattern.DIAGONAL and sizes[0] == sizes[1] else (0, 0)
        mask = _mask(pattern, sizes, fraction, count, components, band, seed)
    if rank is None:
        truth, known = np.full(mask.shape, value), None
    else:
        truth = known = low_rank(mask.shape, rank, value, seed)
    observations = Observations.from_mask(truth, mask)
    if observations.n_observed == 0:
        raise DepthrankError("the pattern observes no entry; give a larger --fraction or --count.")
    return Made(observations, known, (n, s) if n and rank is None else None)


def low_rank(shape: tuple[int, int], rank: int, size: float, seed: int) -> "np.ndarray":
    """Return a random matrix of a rank: a product of Gaussian factors, entries of RMS `size`."""
    import numpy as np

    from depthrank.seeds import generator

    if not 1 <= rank <= min(shape):
        raise DepthrankError(f"--rank is {rank}; it must lie between 1 and {min(shape)}.")
    rng = generator(seed, "truth")
    product = rng.standard_normal((shape[0], rank)) @ rng.standard_normal((rank, shape[1]))
    return product * (size / np.sqrt(np.mean(product**2)))


def start(
    init: Init | None,
    alpha: float | None,
    m: float | None,
    init_scale: float | None,
    observations: "Observations",
) -> "Start":
    """Return how the factors start; by default alpha-m where alpha is given, else Gaussian."""
    import numpy as np

    from depthrank import initialization

    if init is None:
        init = Init.GAUSSIAN if alpha is None else Init.ALPHA_M
    if init is Init.ALPHA_M:
        if alpha is None or m is None or init_scale is not None:
            raise DepthrankError(
                "--init alpha-m needs --alpha A and --m M (inf for diagonal factors), and no "
                "--init-scale."
            )
        return initialization.AlphaM(alpha=alpha, m=m)
    if alpha is not None or m is not None:
        raise DepthrankError(f"--alpha and --m belong to --init alpha-m; {init} has --init-scale.")
    if init_scale is None:
        init_scale = 1e-3 * (float(np.linalg.norm(observations.values)) or 1.0)
    named: dict[Init, Any] = {
        Init.GAUSSIAN: initialization.Gaussian,
        Init.TIED_GAUSSIAN: initialization.TiedGaussian,
        Init.IDENTITY: initialization.Identity,
        Init.ORTHOGONAL: initialization.Orthogonal,
    }
    return named[init](init_scale=init_scale)


def _shape(dimension: int | None, shape: str | None) -> tuple[int, int]:
    if (dimension is None) == (shape is None):
        raise DepthrankError("the size is missing or given twice; give --dimension D or --shape.")
    if dimension is not None:
        return dimension, dimension
    found = re.fullmatch(r"\s*(\d+)\s*[x,×]\s*(\d+)\s*", shape or "")
    if found is None:
        raise DepthrankError(f"--shape is {shape!r}; write rows and columns as in 20x30.")
    return int(found[1]), int(found[2])


def _blocks(dimension: int | None, blocks: int | None, size: int) -> tuple[int, int]:
    if size < 1:
        raise DepthrankError(f"--block-size is {size}; it must be >= 1.")
    if blocks is None:
        if dimension is None:
            raise DepthrankError("the size is missing; give --blocks N, or --dimension D.")
        if dimension % size:
            raise DepthrankError(f"--dimension {dimension} is no multiple of --block-size {size}.")
        blocks = dimension // size
    elif dimension is not None and dimension != blocks * size:
        raise DepthrankError(f"--dimension {dimension} is not --blocks {blocks} times {size}.")
    if blocks < 1:
        raise DepthrankError(f"--blocks is {blocks}; it must be >= 1.")
    return blocks, size


def _mask(
    pattern: Pattern,
    shape: tuple[int, int],
    fraction: float | None,
    count: int | None,
    components: int | None,
    band: int,
    seed: int,
) -> "np.ndarray":
    from depthrank import patterns

    if pattern is Pattern.UNIFORM:
        return patterns.uniform(shape, fraction=fraction, count=count, seed=seed)
    if pattern is Pattern.BERNOULLI:
        if fraction is None:
            raise DepthrankError("the pattern bernoulli needs --fraction F, its probability.")
        return patterns.bernoulli(shape, probability=fraction, seed=seed)
    if pattern is Pattern.DISCONNECTED:
        if components is None:
            raise DepthrankError("the pattern disconnected needs --components K.")
        return patterns.disconnected(shape, components=components, count=count, seed=seed)
    if pattern is Pattern.CONNECTED:
        return patterns.connected(shape, count=count, seed=seed)
    if pattern is Pattern.BANDED:
        return patterns.banded(shape, lower=band, upper=band)
    simple = {
        Pattern.DIAGONAL: patterns.diagonal,
        Pattern.STAIRCASE: patterns.staircase,
        Pattern.ONE_ROW: patterns.one_row,
        Pattern.ONE_COLUMN: patterns.one_column,
    }
    return simple[pattern](shape)
