"""Initial factor eigenvalues of the start `AlphaM(alpha, m)` on equal diagonal blocks, in logs."""

from numbers import Integral

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError

Array = NDArray[np.float64]

STARTS = ("elementwise", "block", "constant-block")
USE_FLOW = "depthrank.flow simulates this case"


def check_depth(depth: int, least: int = 1) -> int:
    """Return `depth` as an int, or say why it cannot be one."""
    if isinstance(depth, bool) or not isinstance(depth, Integral) or depth < least:
        raise DepthrankError(f"depth is {depth!r}; here it must be an integer >= {least}.")
    return int(depth)


def check_start(alpha: ArrayLike, m: ArrayLike) -> tuple[Array, Array]:
    """Return alpha and m as float arrays inside the theorem's range."""
    a, mm = np.asarray(alpha, dtype=np.float64), np.asarray(m, dtype=np.float64)
    if not np.all(np.isfinite(a) & (a > 0)):
        raise DepthrankError(
            f"alpha is {_worst(a, np.isfinite(a) & (a > 0))}; the exact limits assume a finite "
            f"alpha > 0. At alpha = 0 nothing moves at depth >= 2; for a negative alpha use "
            f"|alpha| and give the end-to-end matrix the sign (-1)^depth."
        )
    if not np.all(mm >= 1):
        raise DepthrankError(
            f"m is {_worst(mm, mm >= 1)}; the exact limits assume 1 <= m <= inf, so that the "
            f"start alpha * ((1 - 1/m) I + J/m) is positive semidefinite, the all-ones vector on "
            f"top. Outside it {USE_FLOW}."
        )
    return a, mm


def _worst(values: Array, good: NDArray[np.bool_]) -> str:
    return f"{values[~good].flat[0]:g}" if values.ndim else f"{float(values):g}"


def start_logs(
    alpha: Array, m: Array, n_blocks: int, block_size: int, init: str
) -> tuple[Array, Array]:
    """Return log e_1(0) (all-ones vector) and log(e_2(0)/e_1(0)) (constant on blocks, mean zero).

    elementwise    : alpha on the diagonal, alpha/m everywhere else (d = n s)
    block          : (alpha I_n + (alpha/m)(J_n - I_n)) kron I_s
    constant-block : constant blocks, alpha on the diagonal blocks and alpha/m elsewhere
    """
    if init not in STARTS:
        raise DepthrankError(f"init is {init!r}; the theorem covers {', '.join(STARTS)}.")
    size = float(n_blocks * block_size if init == "elementwise" else n_blocks)
    scale = float(block_size) if init == "constant-block" else 1.0
    with np.errstate(divide="ignore"):
        log_first = np.log(alpha) + np.log(scale) + np.log1p((size - 1.0) / m)
        part = np.where(np.isinf(m), 0.0, size / (m + size - 1.0))  # 1 - e_2/e_1
        near_one = (np.where(np.isinf(m), 2.0, m) - 1.0) / (
            np.where(np.isinf(m), 2.0, m) + size - 1.0
        )
        # each form keeps full relative accuracy on its own side
        log_ratio = np.where(part > 0.5, np.log(near_one), np.log1p(-np.minimum(part, 0.5)))
    return log_first, log_ratio
