"""The one scalar equation behind every limit at depth >= 3, and the times along the way.

With L >= 3, q = L/(L-2) and x = e_1^{-(L-2)} (e_1 the largest factor eigenvalue), every other
eigenvalue has e_j^{-(L-2)} = x + D_j with D_j >= 0 conserved, so the whole state is the number x.
The observed mode is F(x) = (1/n) sum_j m_j (x + D_j)^{-q}, and dx/dt = (L-2)(F(x) - tau).
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
_NODES, _WEIGHTS = 0.5 * (_NODES + 1.0), 0.5 * _WEIGHTS


def log_offsets(depth: int, log_e: Array, log_ratio: Array) -> Array:
    """Log D_j, D_j = e_j^{-(L-2)} - e_1^{-(L-2)}, from log e_j and log_ratio = log(e_j/e_1) <= 0.

    The ratio comes separately because it may be as small as 1e-300 (m near infinity), which the
    difference of two logarithms would lose; equal eigenvalues give -inf, e_j = 0 gives +inf.
    """
    power = depth - 2
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = -power * log_e + np.log(-np.expm1(power * log_ratio))
    return np.where(log_ratio == 0.0, -np.inf, logs)


def solve_log_x(depth: int, log_d: Array, multiplicities: Array, log_total: Array) -> Array:
    """Root z = log x of sum_j m_j (x + D_j)^{-q} = exp(log_total), elementwise over leading axes.

    The left side falls strictly from +inf (x -> 0) to 0 (x -> inf), so there is exactly one root.
    At x = (m_1/total)^{1/q} the first term alone reaches the total; at x = (n/total)^{1/q} the sum
    no longer exceeds it: a bracket of width log(n/m_1)/q that knows neither alpha nor m. Newton
    on the logarithm of the sum, with bisection whenever a step leaves the bracket.

    Parameters
    ----------
    depth : int
        L >= 3.
    log_d : ndarray, shape (..., J)
        log D_j, the largest eigenvalue first (log_d[..., 0] = -inf).
    multiplicities : ndarray, shape (J,)
    log_total : ndarray, shape (...)
        log(n tau).

    Returns
    -------
    ndarray, shape (...)
    """
    q = depth / (depth - 2)
    log_mult = np.log(multiplicities)
    low = (log_mult[0] - log_total) / q
    high = (np.log(multiplicities.sum()) - log_total) / q
    z = np.array(low, dtype=np.float64)
    for _ in range(200):
        logs = log_mult - q * np.logaddexp(z[..., None], log_d)
        top = logs.max(axis=-1, keepdims=True)
        weights = np.exp(logs - top)
        total = weights.sum(axis=-1)
        f = top[..., 0] + np.log(total) - log_total
        share = np.exp(np.minimum(z[..., None] - np.logaddexp(z[..., None], log_d), 0.0))
        slope = -q * (weights * share).sum(axis=-1) / total
        low, high = np.where(f > 0, z, low), np.where(f > 0, high, z)
        step = z - f / slope
        step = np.where((step < low) | (step > high), 0.5 * (low + high), step)
        if np.all(np.abs(step - z) <= 4e-16 * (1.0 + np.abs(z))):
            return np.asarray(step)
        z = step
    return z


def mode_value(depth: int, x: Array, offsets: Array, multiplicities: Array) -> Array:
    """F(x) = (1/n) sum_j m_j (x + D_j)^{-q} for x of any shape."""
    q = depth / (depth - 2)
    terms = multiplicities * (x[..., None] + offsets) ** -q
    return np.asarray(terms.sum(axis=-1) / multiplicities.sum())


def shortfall(
    depth: int, delta: Array, x_star: float, offsets: Array, multiplicities: Array
) -> Array:
    """F(x_star) - F(x_star + delta), without the cancellation of the plain difference."""
    q = depth / (depth - 2)
    base = x_star + offsets
    with np.errstate(invalid="ignore"):
        terms = base**-q * np.expm1(-q * np.log1p(delta[..., None] / base))
    terms = np.where(np.isfinite(base), terms, 0.0)
    return np.asarray(-(multiplicities * terms).sum(axis=-1) / multiplicities.sum())


class PairClock:
    """Time as a function of the state at depth >= 3, and its inverse.

    For tau > 0 the state is written x = x* + (x_0 - x*) e^{-z}, for tau <= 0 (where x grows for
    ever) x = x_0 e^z; in both, t = int_0^z g with g smooth and positive, integrated by
    Gauss-Legendre on unit intervals. All modes at once: D_j offsets, m_j multiplicities.
    """

    def __init__(
        self, depth: int, x0: float, offsets: Array, multiplicities: Array, tau: float
    ) -> None:
        self.depth, self.x0, self.offsets, self.mult, self.tau = (
            depth,
            x0,
            offsets,
            multiplicities,
            tau,
        )
        self.x_star = 0.0
        if tau > 0:
            with np.errstate(divide="ignore"):
                log_d = np.log(offsets)
            total = np.log(multiplicities.sum() * tau)
            self.x_star = float(np.exp(solve_log_x(depth, log_d, multiplicities, np.array(total))))

    def x(self, z: Array) -> Array:
        """State at the inner coordinate z >= 0."""
        if self.tau > 0:
            return np.asarray(self.x_star + (self.x0 - self.x_star) * np.exp(-z))
        return np.asarray(self.x0 * np.exp(z))

    def z(self, x: float) -> float:
        """Inner coordinate of a state between the start and the limit."""
        if self.tau > 0:
            return float(np.log((self.x0 - self.x_star) / (x - self.x_star)))
        return float(np.log(x / self.x0))

    def _integrand(self, z: Array) -> Array:
        power = self.depth - 2
        if self.tau <= 0:
            x = self.x(z)
            excess = mode_value(self.depth, x, self.offsets, self.mult) - self.tau
            return np.asarray(x / (power * excess))
        delta = (self.x0 - self.x_star) * np.exp(-z)
        return np.asarray(
            delta / (power * shortfall(self.depth, delta, self.x_star, self.offsets, self.mult))
        )

    def time(self, z: float) -> float:
        """Time at which the flow passes inner coordinate z."""
        if z <= 0:
            return 0.0
        edges = np.append(np.arange(np.floor(z)), [np.floor(z), z])
        widths = np.diff(edges)
        nodes = edges[:-1, None] + widths[:, None] * _NODES
        return float((self._integrand(nodes) @ _WEIGHTS) @ widths)

    def excess(self, z: float) -> float:
        """F - tau at inner coordinate z, to full relative accuracy."""
        if self.tau <= 0:
            value = mode_value(self.depth, self.x(np.array(z)), self.offsets, self.mult)
            return float(value) - self.tau
        delta = np.array((self.x0 - self.x_star) * np.exp(-z))
        return -float(shortfall(self.depth, delta, self.x_star, self.offsets, self.mult))

    def at(self, t: float) -> float:
        """Inner coordinate z at time t >= 0: unit steps until t is passed, then Newton inside."""
        z, elapsed = 0.0, 0.0
        while True:
            step = float(self._integrand(z + _NODES) @ _WEIGHTS)
            if elapsed + step >= t or (self.tau > 0 and z > 600.0):
                break
            z, elapsed = z + 1.0, elapsed + step
        inner, low, high = 0.5, 0.0, 1.0
        for _ in range(100):
            error = elapsed - t + inner * float(self._integrand(z + inner * _NODES) @ _WEIGHTS)
            low, high = (low, inner) if error > 0 else (inner, high)
            new = inner - error / float(self._integrand(np.array(z + inner)))
            new = new if low <= new <= high else 0.5 * (low + high)
            if abs(new - inner) < 1e-15:
                break
            inner = new
        return z + inner
