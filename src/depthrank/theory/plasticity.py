"""How far a warm start can still move: the rigidity of balanced flows, and certificates.

For balanced factors the smallest singular value of the product less the residual never falls
along the flow. A state whose residual is below its smallest singular value is therefore trapped
near where it is: it converges exponentially, its singular values stay in explicit intervals, and
it cannot lose rank. That is loss of plasticity when the data ask for a lower rank, and a proof of
convergence with error bars when they do not.

Source: Shin & Yun (ICLR 2026), Theorems 4.2 and 4.3, here at any depth, pattern and shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from depthrank.errors import DepthrankError
from depthrank.factors import check_factors, end_to_end, imbalance
from depthrank.theory._start import check_depth

__all__ = ["RigidityBound", "certificate", "rigidity", "rigidity_unbalanced"]

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class RigidityBound:
    """What a state's residual and singular values prove about everything that follows.

    All numbers hold for every t >= 0 and at the limit; they do not include rounding. With `vacuous`
    true nothing is proved: the lower bounds are 0 (ranks 1), the upper ones inf.

    Attributes
    ----------
    depth : int
    vacuous : bool
        Whether the condition fails; `reason` says in words what holds or fails.
    reason : str
    sigma_min, residual : float
        x_0 and rho_0 of the given state: smallest singular value of the product, Frobenius norm of
        the error on the observed entries.
    q : float
        Share of sigma_min that can be lost at most; the condition is q < 1. For a square product
        rho_0/x_0, for a rectangular one L rho_0/x_0.
    floor : float
        c: the smallest singular value stays above it.
    residual_rate, loss_rate : float
        residual <= rho_0 exp(-residual_rate t); the loss falls at twice that rate.
    path_length : float
        Bound on the length of the path of all parameters, hence on their distance from here.
    product_move : float
        Bound on ‖W(t) - W(0)‖_F of the end-to-end matrix: its error bar as an estimate of the
        limit.
    singular_values, sigma_lower, sigma_upper : ndarray
        Now, and bounds for ever, descending.
    stable_rank_lower, stable_rank_upper, effective_rank_lower : float
        Bounds on the rank measures (no upper one is known at depth >= 3: inf).
    imbalance : float
        Of the factors the bound was computed from; 0 where balance was assumed.
    label : str
        'rigorous bound'.
    """

    depth: int
    vacuous: bool
    reason: str
    sigma_min: float
    residual: float
    q: float
    floor: float
    residual_rate: float
    loss_rate: float
    path_length: float
    product_move: float
    singular_values: Array
    sigma_lower: Array
    sigma_upper: Array
    stable_rank_lower: float
    stable_rank_upper: float
    effective_rank_lower: float
    imbalance: float = 0.0
    label: str = "rigorous bound"

    @property
    def certified(self) -> bool:
        """Whether convergence to zero loss is proved from this state on."""
        return not self.vacuous

    def residual_bound(self, t: ArrayLike) -> Array:
        """Bound on the residual at times t >= 0 from here."""
        times = np.asarray(t, dtype=np.float64)
        return np.asarray(self.residual * np.exp(-self.residual_rate * times))


def rigidity(X0: ArrayLike, residual: float, depth: int) -> RigidityBound:
    """Bounds for everything after a state with product `X0` and observed residual `residual`.

    Assumes balanced factors (every start with equal symmetric factors, and everything gradient flow
    makes of it); no assumption on the pattern, the targets or the hidden widths. With
    L = depth, k = L for a square and k = 1 for a rectangular product:
    sigma_min(t) - (L/k) rho(t) never falls, so with c = x_0 - (L/k) rho_0 > 0

    - sigma_min(t) >= c, rho(t) <= rho_0 exp(-k c^{2-2/L} t), path <= sqrt(k) (x_0^{1/L} - c^{1/L});
    - depth 2: (1-q) sigma_i <= sigma_i(t) <= sigma_i/(1-q), and stable_rank - 1 changes by at most
      a factor (1-q)^{2 sqrt 2} either way;
    - depth >= 3: abs(sigma_i(t)^{-p} - sigma_i^{-p}) <= E = c^{-p} - x_0^{-p}, p = 1 - 2/L, and the
      stable rank stays above the bound that follows;
    - if all singular values are equal, effective_rank(t) >= min_j exp(H_j), H_j the entropy of j
      weights K and d - j weights 1, K the largest ratio the intervals allow.

    Label: rigorous bound. Source: Shin & Yun (ICLR 2026), Theorems 4.2 and 4.3; any depth, pattern
    and shape derived here.

    Parameters
    ----------
    X0 : array_like, shape (m, n)
        End-to-end matrix when training resumes.
    residual : float
        Frobenius norm of X0 minus the data on the entries observed from now on.
    depth : int
        Number of factors, >= 2.

    Returns
    -------
    RigidityBound

    Examples
    --------
    >>> bound = rigidity(np.eye(10), residual=0.3, depth=2)
    >>> round(bound.stable_rank_lower, 4), bound.floor
    (4.2818, 0.7)
    """
    depth = check_depth(depth, least=2)
    X = np.asarray(X0, dtype=np.float64)
    if X.ndim != 2 or not np.all(np.isfinite(X)):
        raise DepthrankError(f"X0 has shape {X.shape}; it must be a finite matrix.")
    if not (np.isfinite(residual) and residual >= 0):
        raise DepthrankError(f"residual is {residual!r}; it must be finite and >= 0.")
    s = _singular_values(X)
    terms = depth if X.shape[0] == X.shape[1] else 1
    x0, rho0 = float(s[-1]), float(residual)
    floor = x0 - depth / terms * rho0
    q = depth / terms * rho0 / x0 if x0 > 0 else float("inf")
    if floor <= 0:
        return _vacuous(depth, s, rho0, q, terms)
    if depth == 2:
        spread = np.log(x0 / floor)
        lower, upper = s * (floor / x0), s * (x0 / floor)
        move = float(s[0]) * (x0 / floor) * spread
        excess = float(np.sum((s[1:] / s[0]) ** 2))
        factor = float(np.exp(2 * np.sqrt(2) * spread))
        rank_low, rank_high = 1 + excess / factor, min(1 + excess * factor, float(s.size))
        largest_ratio = float(np.exp(np.sqrt(2) * spread))
    else:
        lower, upper, move, rank_low, largest_ratio = _deep_intervals(depth, s, floor)
        rank_high = float("inf")
    rate = terms * floor ** (2 - 2 / depth)
    equal = s[0] - s[-1] <= 1e-12 * s[0]
    effective = _two_level_effective_rank(s.size, largest_ratio) if equal else 1.0
    return RigidityBound(
        depth=depth,
        vacuous=False,
        reason=f"residual {rho0:.3g} against sigma_min {x0:.3g}: q = {q:.3g} < 1, so the flow "
        "converges to zero loss and stays near this state",
        sigma_min=x0,
        residual=rho0,
        q=q,
        floor=floor,
        residual_rate=rate,
        loss_rate=2 * rate,
        path_length=float(np.sqrt(terms) * (x0 ** (1 / depth) - floor ** (1 / depth))),
        product_move=move,
        singular_values=s,
        sigma_lower=lower,
        sigma_upper=upper,
        stable_rank_lower=rank_low,
        stable_rank_upper=rank_high,
        # exp(entropy) >= (sum s)^2 / sum s^2 >= stable rank, for any spectrum
        effective_rank_lower=max(effective, rank_low),
    )


def certificate(
    factors: Sequence[Any], observations: Any, *, tolerance: float = 1e-6
) -> RigidityBound:
    """Prove convergence from a computed state, or say why it cannot be proved yet.

    The a-posteriori form of `rigidity`: the theorem may be restarted at any time, so as soon as the
    residual on the observed entries is below the smallest singular value, convergence to zero loss
    is certain and the limit's singular values have error bars. The balance that the theorem assumes
    is checked on these factors; at depth 2 unbalanced factors get `rigidity_unbalanced`. Costs one
    product and one singular value decomposition.

    Label: rigorous bound (up to rounding, and up to `tolerance` in the balance). Source: Shin & Yun
    (ICLR 2026), Theorems 4.2 and 4.3, restarted.

    Parameters
    ----------
    factors : sequence of array_like
        (W_1, ..., W_L), L >= 2.
    observations : Observations
        What is observed from now on, with values.
    tolerance : float
        Largest imbalance, relative to sigma_min(X)^{2/L}, that counts as rounding.

    Returns
    -------
    RigidityBound
        `certified` is the verdict.

    Raises
    ------
    DepthrankError
        If the factors do not fit, or are unbalanced at depth >= 3.
    """
    chain = check_factors(factors, observations.shape)
    depth = check_depth(len(chain), least=2)
    X = end_to_end(chain)
    residual = float(np.linalg.norm(X[observations.rows, observations.cols] - observations.values))
    bound = rigidity(X, residual, depth)
    found = imbalance(chain)
    if found > tolerance * bound.sigma_min ** (2 / depth):
        if depth == 2 and X.shape[0] == X.shape[1]:
            return rigidity_unbalanced(chain, residual)
        if bound.vacuous:
            return _with_imbalance(bound, found)
        raise DepthrankError(
            f"the factors have imbalance {found:.3g}, sigma_min^(2/L) is "
            f"{bound.sigma_min ** (2 / depth):.3g}; the theorem assumes balanced factors "
            f"(W_(l+1)^T W_(l+1) = W_l W_l^T up to a relative {tolerance:g}). Start from AlphaM, "
            "Balanced, Identity or Orthogonal, or use a square product at depth 2."
        )
    return _with_imbalance(bound, found)


def rigidity_unbalanced(factors: Sequence[Any], residual: float) -> RigidityBound:
    """Bounds at depth 2 without balance, for a square product.

    With delta = ‖W_2^T W_2 - W_1 W_1^T‖_2 (conserved), S = sigma_min(W_2)^2 + sigma_min(W_1)^2
    (the d-th singular values) and phi(S) = S - delta log((S + delta)/delta), phi(S) - 2 rho never
    falls. If phi(S_0) > 2 rho_0, let phi(S_*) = phi(S_0) - 2 rho_0: then S(t) >= S_*,
    rho(t) <= rho_0 exp(-S_* t), the path is at most rho_0/sqrt(S_*) long, and for S_* >= 2 delta
    sigma_min(X)^2 >= (S_*/2)(S_*/2 - delta). The singular value intervals follow from the path.

    Label: rigorous bound. Source: derived here, extending Shin & Yun (ICLR 2026), Theorem 4.2.

    Parameters
    ----------
    factors : (W_1, W_2)
        W_2 W_1 square, hidden width at least its size.
    residual : float
        As for `rigidity`.
    """
    chain = check_factors(factors)
    if len(chain) != 2 or chain[1].shape[0] != chain[0].shape[1]:
        raise DepthrankError(
            f"got {len(chain)} factors with product shape "
            f"{(chain[-1].shape[0], chain[0].shape[1])}; the unbalanced theorem "
            "assumes depth 2 and a square product."
        )
    W1, W2 = (W.astype(np.float64) for W in chain)
    d, rho0 = W1.shape[1], float(residual)
    s = _singular_values(W2 @ W1)
    delta = float(np.linalg.norm(W2.T @ W2 - W1 @ W1.T, 2))
    s1, s2 = (_singular_values(W) for W in (W1, W2))
    start = float(s1[d - 1] ** 2 + s2[d - 1] ** 2) if W1.shape[0] >= d else 0.0
    target = _phi(start, delta) - 2 * rho0
    if target <= 0:
        vacuous = _vacuous(2, s, rho0, rho0 / s[-1] if s[-1] > 0 else float("inf"), 2)
        reason = (
            f"unbalanced by {delta:.3g}: phi(S_0) = {target + 2 * rho0:.3g} is not above "
            f"2 * residual = {2 * rho0:.3g}; nothing is proved"
        )
        return _with_imbalance(vacuous, imbalance(chain), reason)
    least = _phi_inverse(target, delta, start)
    path = rho0 / np.sqrt(least)
    move = float(np.hypot(s1[0], s2[0]) * path + path**2 / 2)
    floor = float(np.sqrt(least / 2 * (least / 2 - delta))) if least >= 2 * delta else 0.0
    lower, upper = np.maximum(s - move, floor), s + move
    rank_low = 1 + float(np.sum((lower[1:] / upper[0]) ** 2))
    return RigidityBound(
        depth=2,
        vacuous=False,
        reason=f"unbalanced by {delta:.3g}, phi(S_0) > 2 * residual: converges to zero loss",
        sigma_min=float(s[-1]),
        residual=rho0,
        q=2 * rho0 / (target + 2 * rho0),
        floor=max(floor, float(lower[-1])),
        residual_rate=least,
        loss_rate=2 * least,
        path_length=float(path),
        product_move=move,
        singular_values=s,
        sigma_lower=lower,
        sigma_upper=upper,
        stable_rank_lower=rank_low,
        stable_rank_upper=float("inf"),
        effective_rank_lower=rank_low,
        imbalance=imbalance(chain),
    )


def _deep_intervals(depth: int, s: Array, floor: float) -> tuple[Array, Array, float, float, float]:
    """Depth >= 3: interval ends, bound on the move, on the stable rank, on the ratio of equals."""
    p = 1 - 2 / depth
    E = floor**-p - float(s[-1]) ** -p
    powers = s**-p
    lower = (powers + E) ** (-1 / p)
    upper = np.full(s.shape, np.inf)
    room = powers - E
    upper[room > 0] = room[room > 0] ** (-1 / p)
    if room[0] <= 0:
        return lower, upper, float("inf"), 1.0, float("inf")
    high = float(upper[0])
    move = depth / (depth - 2) * E * high ** (2 - 2 / depth)
    gaps = powers[1:] - powers[0] + np.sqrt(2) * E
    rank_low = 1 + float(np.sum((1 + high**p * gaps) ** (-2 / p)))
    return lower, upper, move, rank_low, float((1 + high**p * np.sqrt(2) * E) ** (1 / p))


def _two_level_effective_rank(d: int, ratio: float) -> float:
    """Smallest effective rank of d weights whose pairwise ratios are at most `ratio`.

    Entropy is concave, so its minimum over {p_i <= ratio p_j} is at a vertex: two levels only.
    """
    if d == 1 or not np.isfinite(ratio):
        return 1.0
    j = np.arange(1, d)
    total = j * ratio + (d - j)
    entropy = np.log(total) - j * ratio / total * np.log(ratio)
    return float(np.exp(entropy.min()))


def _vacuous(depth: int, s: Array, rho0: float, q: float, terms: int) -> RigidityBound:
    scaled = "residual" if terms == depth else f"{depth} * residual"
    zero, infinite = np.zeros(s.shape), np.full(s.shape, np.inf)
    return RigidityBound(
        depth=depth,
        vacuous=True,
        reason=f"{scaled} = {depth / terms * rho0:.3g} is not below sigma_min = {s[-1]:.3g} "
        f"(q = {q:.3g} >= 1): nothing is proved from this state",
        sigma_min=float(s[-1]),
        residual=rho0,
        q=q,
        floor=0.0,
        residual_rate=0.0,
        loss_rate=0.0,
        path_length=float("inf"),
        product_move=float("inf"),
        singular_values=s,
        sigma_lower=zero,
        sigma_upper=infinite,
        stable_rank_lower=1.0,
        stable_rank_upper=float("inf"),
        effective_rank_lower=1.0,
    )


def _with_imbalance(bound: RigidityBound, found: float, reason: str | None = None) -> RigidityBound:
    return replace(bound, imbalance=found, reason=reason or bound.reason)


def _singular_values(X: Array) -> Array:
    return np.asarray(np.linalg.svd(X, compute_uv=False), dtype=np.float64)


def _phi(S: float, delta: float) -> float:
    return S - delta * float(np.log1p(S / delta)) if delta > 0 else S


def _phi_inverse(target: float, delta: float, start: float) -> float:
    """Solve phi(S) = target below `start`: phi is convex and rising, Newton from above is safe."""
    S = start
    for _ in range(200):
        step = (_phi(S, delta) - target) * (S + delta) / S
        S -= step
        if abs(step) <= 1e-15 * S:
            break
    return S
