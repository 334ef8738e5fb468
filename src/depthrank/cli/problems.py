"""From the options of `depthrank flow` to a training problem: what is seen, and how it starts."""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from depthrank.errors import DepthrankError, check_range

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
    python : str
        The Python lines that make the same `observations`.
    truth : ndarray or None
        The full matrix, where there is one beyond the observed entries.
    blocks : (int, int) or None
        Number and size of equal observed blocks with one value, where that is the pattern.
    """

    observations: "Observations"
    python: str
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
    from depthrank.truths import low_rank

    if pattern is None:
        in_blocks = blocks is not None or block_size != 1
        pattern = Pattern.BLOCK_DIAGONAL if in_blocks else Pattern.DIAGONAL
    equal = None
    if pattern is Pattern.BLOCK_DIAGONAL:
        n, s = equal = _blocks(dimension, blocks, block_size)
        arguments: tuple[Any, dict[str, Any]] = ([(s, s)] * n, {})
    else:
        if blocks is not None or block_size != 1:
            raise DepthrankError(
                f"--blocks and --block-size belong to the pattern block-diagonal, not {pattern}."
            )
        sizes = _shape(dimension, shape)
        arguments = sizes, _options(pattern, fraction, count, components, band, seed)
        if pattern is Pattern.DIAGONAL and sizes[0] == sizes[1]:
            equal = (sizes[0], 1)
    name = pattern.value.replace("-", "_")
    mask = getattr(patterns, name)(arguments[0], **arguments[1])
    if rank is None:
        truth, known, equation = np.full(mask.shape, value), None, f"np.full(mask.shape, {value})"
    else:
        check_range("--rank", rank, 1, min(mask.shape))
        truth = known = low_rank(mask.shape, rank, value, seed)
        equation = f"low_rank(mask.shape, {rank}, {value}, seed={seed})"
    observations = Observations.from_mask(truth, mask)
    if observations.n_observed == 0:
        raise DepthrankError("the pattern observes no entry; give a larger --fraction or --count.")
    words = ", ".join([repr(arguments[0]), *(f"{k}={v!r}" for k, v in arguments[1].items())])
    python = [
        "import numpy as np" if rank is None else "from depthrank.truths import low_rank",
        f"mask = depthrank.patterns.{name}({words})",
        f"observations = depthrank.Observations.from_mask({equation}, mask)",
    ]
    return Made(observations, "\n".join(python), known, equal if rank is None else None)


def start(
    init: Init | None,
    alpha: float | None,
    m: float | None,
    init_scale: float | None,
    observations: "Observations",
) -> "Start":
    """Return how the factors start; by default alpha-m where alpha is given, else Gaussian."""
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
        init_scale = initialization.default_scale(observations.values)
    return initialization.SCALED[init](init_scale=init_scale)


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


def _options(
    pattern: Pattern,
    fraction: float | None,
    count: int | None,
    components: int | None,
    band: int,
    seed: int,
) -> dict[str, Any]:
    """Return what a pattern needs beside its shape, by the names of `depthrank.patterns`."""
    if pattern is Pattern.UNIFORM:
        return {"fraction": fraction, "count": count, "seed": seed}
    if pattern is Pattern.BERNOULLI:
        if fraction is None:
            raise DepthrankError("the pattern bernoulli needs --fraction F, its probability.")
        return {"probability": fraction, "seed": seed}
    if pattern is Pattern.DISCONNECTED:
        if components is None:
            raise DepthrankError("the pattern disconnected needs --components K.")
        return {"components": components, "count": count, "seed": seed}
    if pattern is Pattern.CONNECTED:
        return {"count": count, "seed": seed}
    if pattern is Pattern.BANDED:
        return {"lower": band, "upper": band}
    return {}
