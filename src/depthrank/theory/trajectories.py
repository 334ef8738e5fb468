"""States at finite times where the flow is solvable: modes, pairs, blocks, chains, full data.

All times are flow times for half the sum of squared errors on the observed entries.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError
from depthrank.theory._measures import RankMeasures, rank_measures
from depthrank.theory._roots import PairClock
from depthrank.theory._start import check_depth, check_start, start_logs
from depthrank.theory.matching import growth

__all__ = [
    "ModeState",
    "block_tail",
    "descent_state",
    "limits_state",
    "mode_state",
    "scalar_chain",
    "single_mode",
    "single_mode_time",
    "unbalanced_mode",
]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class ModeState(RankMeasures):
    """State of the problem of `limits` at one time; see `RankMeasures` for the spectrum.

    Attributes
    ----------
    time : float
    factor_eigenvalues : ndarray
        e_1, e_2 (if there are two blocks or more) and e_3 (if blocks are larger than 1).
    mode_value : float
        F = (e_1^L + (n-1) e_2^L)/n, which the flow drives to block_size * value.
    loss : float
    """

    time: float
    factor_eigenvalues: Array
    mode_value: float
    loss: float


def mode_state(
    t: float, *, depth: int, eigenvalues: ArrayLike, multiplicities: ArrayLike, target: float
) -> Array:
    """Factor eigenvalues at time t of modes that share one observation.

    de_j/dt = -(F - target) e_j^{L-1}, F = sum_j m_j e_j^L / sum_j m_j: the diagonal problem and
    every problem of `mode_limits`. Logistic in closed form at depth 2, one quadrature at depth
    >= 3. Any real target; eigenvalues > 0.

    Label: exact (to quadrature). Source: Shin & Yun (ICLR 2026), proof of Theorem 3.3, integrated
    here.
    """
    depth = check_depth(depth, least=2)
    e0 = np.asarray(eigenvalues, dtype=np.float64)
    mult = np.asarray(multiplicities, dtype=np.float64)
    if not np.all(e0 > 0) or e0.shape != mult.shape:
        raise DepthrankError(f"eigenvalues are {e0.tolist()}; they must all be > 0.")
    if not t >= 0:
        raise DepthrankError(f"t is {t!r}; it must be a time >= 0.")
    return _evolve(float(t), depth, e0, mult, float(target))[0]


def _evolve(t: float, depth: int, e0: Array, mult: Array, target: float) -> tuple[Array, float]:
    """Eigenvalues at time t and F - target, the latter without cancellation."""
    F0 = float(mult @ e0**depth / mult.sum())
    if t == 0 or target == F0:
        return e0, F0 - target
    if depth == 2:
        # F/F_0 = target / (F_0 + (target - F_0) exp(-2 target t)), written without 0/0 at target 0
        u = 2 * target * t
        if u >= 0:
            grown = -np.expm1(-u) / u if u else 1.0
            ratio = 1.0 / (np.exp(-u) + 2 * F0 * t * grown)
        else:
            ratio = np.exp(u) / (1.0 + 2 * F0 * t * np.expm1(u) / u)
        return np.asarray(e0 * np.sqrt(ratio)), float((F0 - target) * np.exp(-u) * ratio)
    powers = e0 ** -(depth - 2.0)
    x0 = float(powers.min())
    clock = PairClock(depth, x0, powers - x0, mult, target)
    z = clock.at(t)
    x = float(clock.x(np.array(z)))
    return np.asarray((x + (powers - x0)) ** (-1.0 / (depth - 2))), clock.excess(z)


def block_tail(t: ArrayLike, *, depth: int, start: float) -> Array:
    """Decay of a mode with target 0: e(t) = (e(0)^{-(2L-2)} + (2L-2) t)^{-1/(2L-2)}.

    The modes inside constant blocks, whose singular values fall only like ((2L-2) t)^{-L/(2L-2)}.
    Any rank measured on blocks at finite time contains them. Label: exact. Source: derived here.
    """
    k = 2 * check_depth(depth, least=2) - 2
    return np.asarray((start**-k + k * np.asarray(t, dtype=np.float64)) ** (-1.0 / k))


def limits_state(
    t: float,
    *,
    depth: int,
    alpha: float,
    m: float,
    n_blocks: int,
    block_size: int = 1,
    value: float = 1.0,
    init: str = "elementwise",
) -> ModeState:
    """State at time t >= 0 on the way to `limits`, the algebraic tail of blocks included.

    Label: exact (to quadrature). Source: Shin & Yun (ICLR 2026), proof of Theorem 3.3, integrated
    here. Parameters are those of `limits`, with depth >= 2 and m > 1.
    """
    depth = check_depth(depth, least=2)
    a, mm = check_start(float(alpha), float(m))
    if m == 1:
        raise DepthrankError("m is 1: e_2 is 0 for ever; use mode_state with the one mode e_1.")
    n, s, tau = int(n_blocks), int(block_size), block_size * float(value)
    log_e1, log_r = start_logs(a, mm, n, s, init)
    e0 = np.exp(np.array([log_e1, log_e1 + log_r]))[: min(n, 2)]
    mult = np.array([1, n - 1])[: e0.size]
    if not t >= 0:
        raise DepthrankError(f"t is {t!r}; it must be a time >= 0.")
    e, excess = _evolve(float(t), depth, e0, mult.astype(np.float64), tau)
    F = float(mult @ e**depth / n)
    loss = 0.5 * n * excess**2
    if s > 1:
        inner = 0.0 if init == "constant-block" else float(a * (1.0 - 1.0 / mm))
        third = float(block_tail(t, depth=depth, start=inner)) if inner else 0.0
        e, mult = np.append(e, third), np.append(mult, n * (s - 1))
        loss += 0.5 * n * (s - 1) * third ** (2 * depth)
    with np.errstate(divide="ignore"):
        fields = rank_measures(depth * np.log(e), mult)
    return ModeState(**fields, time=float(t), factor_eigenvalues=e, mode_value=F, loss=loss)


def single_mode(t: float, *, depth: int, start: float, target: float) -> float:
    """Factor eigenvalue e(t) of de/dt = (target - e^L) e^{L-1}, e(0) = start > 0.

    One singular mode of a fully observed target from a spectral start (all factors share the
    target's singular vectors), rectangular and wide hidden layers included; the singular value is
    e(t)^L. Label: exact (to quadrature). Source: derived here.
    """
    if check_depth(depth) == 1:
        return float(target + (start - target) * np.exp(-t))
    return float(
        mode_state(t, depth=depth, eigenvalues=[start], multiplicities=[1], target=target)[0]
    )


def single_mode_time(e: float, *, depth: int, start: float, target: float) -> float:
    """Time at which `single_mode` passes e, in closed form: Psi(e) - Psi(start).

    Psi(e) = -e^{-(L-2)}/((L-2) tau) + e^2/(2 tau^2) 2F1(1, 2/L; 1 + 2/L; e^L/tau) for depth
    L >= 3, and log(s/(tau - s))/(2 tau) at depth 2. Needs target > 0 and start^L, e^L < target.

    Label: exact. Source: derived here.
    """
    from scipy.special import hyp2f1

    depth = check_depth(depth, least=2)
    tau = float(target)
    if not (0 < start**depth < tau and 0 < e**depth < tau):
        raise DepthrankError(
            f"start^L is {start**depth:g} and e^L is {e**depth:g}; the closed form assumes both in "
            f"(0, target = {tau:g}). mode_state covers the other cases."
        )

    def psi(u: float) -> float:
        if depth == 2:
            return float(np.log(u * u / (tau - u * u)) / (2 * tau))
        a = 2.0 / depth
        rise = u * u / (2 * tau**2) * hyp2f1(1.0, a, 1.0 + a, u**depth / tau)
        return float(rise - u ** -(depth - 2) / ((depth - 2) * tau))

    return psi(float(e)) - psi(float(start))


def unbalanced_mode(t: float, *, a: float, b: float, target: float) -> tuple[float, float]:
    """State (a, b) at time t of da/dt = -(a b - tau) b, db/dt = -(a b - tau) a (depth 2).

    a^2 - b^2 is conserved. Label: exact. Source: derived here, as the 1 x 1 case of
    `matching_limit`.
    """
    y = growth((a + b) ** 2, (a - b) ** 2, float(target), float(t))
    plus, minus = (a + b) * np.sqrt(y), (a - b) / np.sqrt(y)
    return float((plus + minus) / 2), float((plus - minus) / 2)


def scalar_chain(t: float, *, weights: Sequence[float], target: float) -> Array:
    """Weights at time t of a chain of scalars, f = prod w_l, fitted to one observed value.

    All w_l^2 grow by one common q(t), dq/dt = -2 (f - target) f. t = inf gives the limit. Assumes
    f(0) > 0 and target > 0 (then no weight ever changes sign).

    Label: exact (to quadrature). Source: derived here; conserved differences of squares are the
    balance of the flow.
    """
    w = np.asarray(weights, dtype=np.float64)
    if not (np.prod(w) > 0 and target > 0 and t >= 0):
        raise DepthrankError(
            f"the product of the weights is {np.prod(w):g} and the target {target:g}; the closed "
            "form assumes both > 0 (and t >= 0)."
        )
    squares, wanted = w**2, float(np.log(target))
    low, high = -float(squares.min()), float(np.exp(2 * wanted / w.size))
    for _ in range(200):  # f(q) rises from 0 to at least the target: one root
        middle = 0.5 * (low + high)
        below = 0.5 * float(np.sum(np.log(np.maximum(squares + middle, 1e-300)))) < wanted
        low, high = (middle, high) if below else (low, middle)
    end = 0.5 * (low + high)
    if np.isfinite(t) and end != 0.0:
        end = _chain_growth(float(t), squares, end, float(target))
    return np.asarray(np.sign(w) * np.sqrt(squares + end))


def _chain_growth(t: float, squares: Array, end: float, target: float) -> float:
    """q(t), with q = end (1 - e^{-z}) and t = int dz g(z), g smooth: Gauss on unit steps of z."""
    nodes, weights = np.polynomial.legendre.leggauss(24)
    nodes, weights = 0.5 * (nodes + 1), 0.5 * weights

    def g(z: Array) -> Array:
        back = -end * np.exp(-z)  # q - end
        logs = 0.5 * np.log1p(back[..., None] / (squares + end)).sum(axis=-1)
        f = target * np.exp(logs)
        return np.asarray(back / (2 * target * np.expm1(logs) * f))

    z, elapsed = 0.0, 0.0
    while z < 36:
        step = float(g(z + nodes) @ weights)
        if elapsed + step >= t:
            break
        z, elapsed = z + 1.0, elapsed + step
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        over = elapsed + middle * float(g(z + middle * nodes) @ weights) > t
        low, high = (low, middle) if over else (middle, high)
    return float(-end * np.expm1(-(z + 0.5 * (low + high))))


def descent_state(
    steps: int,
    step_size: float,
    *,
    depth: int,
    eigenvalues: ArrayLike,
    multiplicities: ArrayLike,
    target: float,
) -> Array:
    """Factor eigenvalues after plain gradient descent: e_j <- e_j - step (F - target) e_j^{L-1}.

    Gradient descent with simultaneous updates keeps the symmetric manifold exactly; at depth 2 it
    even conserves the ratios of the eigenvalues. Label: exact. Source: derived here.
    """
    depth = check_depth(depth)
    e = np.asarray(eigenvalues, dtype=np.float64).copy()
    mult = np.asarray(multiplicities, dtype=np.float64)
    for _ in range(int(steps)):
        F = mult @ e**depth / mult.sum()
        e = e - step_size * (F - target) * e ** (depth - 1)
    return e
