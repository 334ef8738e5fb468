"""What may be done to the factors when new data arrive, before training goes on.

A remedy is a name, a formula, its source, the value of its parameter that does nothing, and a
function from factors to factors. All act on the factors alone; only `anchor` also changes the flow
of the phase it opens, by a pull towards the start.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from depthrank.errors import DepthrankError, check_range
from depthrank.factors import Factors, check_dims, end_to_end, widths
from depthrank.initialization import Balanced, Start
from depthrank.observations import Observations
from depthrank.seeds import generator

__all__ = [
    "Border",
    "Remedy",
    "add_depth",
    "anchor",
    "cold",
    "dash",
    "none",
    "rebalance",
    "reset",
    "shrink",
    "shrink_perturb",
    "truncate",
]


@dataclass(frozen=True, eq=False)
class Border:
    """What is known at the border between two phases.

    Attributes
    ----------
    observations : Observations
        What is seen from now on.
    init : callable
        The start of the protocol.
    seed : int
        Its seed.
    """

    observations: Observations
    init: Start
    seed: int

    def start(self, factors: Factors) -> Factors:
        """Return the start that a cold run of these sizes would have."""
        return self.init(widths(factors), self.seed)

    def fresh(self, factors: Factors) -> Factors:
        """Return another draw of the start, from the stream "perturb"."""
        seed = int(generator(self.seed, "perturb").integers(2**31))
        return self.init(widths(factors), seed)


@dataclass(frozen=True, eq=False)
class Remedy:
    """One way to treat factors between two phases.

    Attributes
    ----------
    name : str
        Short, with its parameters.
    formula : str
        What becomes of W_l.
    source : str
        Where it comes from.
    idle : str
        The value of its parameter that does nothing.
    change : callable
        (factors, border) -> factors.
    strength : float
        Of the pull towards the start during the phase, 0 but for `anchor`.
    """

    name: str
    formula: str
    source: str
    idle: str
    change: Callable[[Factors, Border], Factors]
    strength: float = 0.0

    def __call__(self, factors: Factors, border: Border) -> Factors:
        """Return the factors to go on from."""
        return self.change(factors, border)


def none() -> Remedy:
    """Resume as it is: the warm start."""
    return Remedy("warm", "W_l", "resuming; Shin & Yun (ICLR 2026)", "always", lambda W, _: W)


def cold() -> Remedy:
    """Forget everything: the start that a run on the final data alone would have."""
    return Remedy(
        "cold", "W_l(0)", "training from scratch", "never", lambda W, border: border.start(W)
    )


def shrink(keep: float = 0.3) -> Remedy:
    """Multiply every factor by `keep`, the end-to-end matrix by keep^L.

    Source: the deterministic half of Ash & Adams (2020).
    """
    check_range("keep", keep, 0, 1)
    return Remedy(
        f"shrink {keep:g}",
        "keep W_l",
        "Ash & Adams (NeurIPS 2020), without the noise",
        "keep = 1",
        lambda W, _: tuple(keep * layer for layer in W),
    )


def shrink_perturb(keep: float = 0.3, noise: float = 1.0) -> Remedy:
    """Shrink, and add `noise` times a fresh draw of the start.

    Source: Ash & Adams (2020), lambda = keep, noise in units of the initialisation.
    """
    check_range("keep", keep, 0, 1)
    _at_least_0("noise", noise)

    def change(factors: Factors, border: Border) -> Factors:
        if noise == 0:
            return tuple(keep * W for W in factors)
        fresh = border.fresh(factors)
        return tuple(keep * W + noise * V for W, V in zip(factors, fresh, strict=True))

    return Remedy(
        f"shrink-perturb {keep:g}",
        "keep W_l + noise V_l, V a fresh start",
        "Ash & Adams (NeurIPS 2020)",
        "keep = 1, noise = 0",
        change,
    )


def dash(floor: float = 0.3) -> Remedy:
    r"""Shrink each hidden direction by how much the new data speak against it.

    DASH multiplies a neuron's incoming weights w by clip(cos(w, -g), floor, 1), g their gradient:
    weights the new data wants longer stay, others shrink. In a product of matrices hidden neurons
    have no meaning of their own, any rotation of a hidden layer leaves flow and product alike.
    Here the neurons of layer l are therefore the left singular directions of W_l ... W_1, the only
    ones that do not depend on that choice; those of the last layer are the rows of the matrix,
    which are given. Rows without a gradient, or zero, stay.

    Source: Shin et al. (NeurIPS 2024), DASH; the choice of the basis is ours.
    """
    check_range("floor", floor, 0, 1)

    def change(factors: Factors, border: Border) -> Factors:
        gradients = _gradients(factors, border.observations)
        product = factors[0]
        changed = []
        for depth, (W, G) in enumerate(zip(factors, gradients, strict=True), start=1):
            if depth > 1:
                product = W @ product
            last = depth == len(factors)
            U = np.eye(len(W)) if last else np.linalg.svd(product)[0]
            rows, pull = U.T @ W, -(U.T @ G)
            sizes = np.linalg.norm(rows, axis=1) * np.linalg.norm(pull, axis=1)
            felt = sizes > 0
            cosine = np.einsum("ij,ij->i", rows, pull) / np.where(felt, sizes, 1.0)
            factor = np.where(felt, np.clip(cosine, floor, 1.0), 1.0)
            changed.append(U @ (factor[:, None] * rows))
        return tuple(changed)

    return Remedy(
        f"dash {floor:g}",
        "each row w of U_l^T W_l times clip(cos(w, -g), floor, 1)",
        "DASH, Shin et al. (NeurIPS 2024); the matrix analogue is defined here",
        "floor = 1",
        change if floor < 1 else lambda W, _: W,
    )


def rebalance() -> Remedy:
    """Balanced factors of the same product.

    Source: balance as in Arora, Cohen & Hazan (2018); the product is unchanged to rounding.
    """
    return Remedy(
        "rebalance",
        "S^(1/L) V^T, S^(1/L), ..., U S^(1/L) for W = U S V^T",
        "balance: Arora, Cohen & Hazan (ICML 2018)",
        "factors that are balanced (up to rotations of the hidden layers)",
        lambda W, _: Balanced(end_to_end(W))(widths(W)) if len(W) > 1 else W,
    )


def truncate(*, rank: int | None = None, energy: float | None = None, noise: float = 1.0) -> Remedy:
    """Keep the leading singular directions, and put a fresh start where the others were.

    Parameters
    ----------
    rank : int, optional
        Number of directions to keep.
    energy : float, optional
        Or the smallest number that holds this share of the squared singular values.
    noise : float
        Times a fresh draw of the start is added: a direction of size zero would stay zero for ever.
    """
    share = 1.0 if energy is None else energy
    if (rank is None) == (energy is None):
        raise DepthrankError(
            f"rank is {rank!r} and energy is {energy!r}; give exactly one of them."
        )
    if energy is not None:
        check_range("energy", energy, 0, 1)
    elif isinstance(rank, bool) or not isinstance(rank, int | np.integer) or rank < 0:
        raise DepthrankError(f"rank is {rank!r}; it must be an integer >= 0.")
    _at_least_0("noise", noise)

    def change(factors: Factors, border: Border) -> Factors:
        U, s, Vt = np.linalg.svd(end_to_end(factors), full_matrices=False)
        if rank is not None:
            kept = int(rank)
        else:
            shares = np.cumsum(s**2) / max(float(np.sum(s**2)), np.finfo(float).tiny)
            kept = int(np.searchsorted(shares, share - 1e-12) + 1)
        if kept >= len(s):
            return factors
        product = (U[:, :kept] * s[:kept]) @ Vt[:kept]
        balanced = Balanced(product)(widths(factors))
        fresh = border.fresh(factors)
        return tuple(W + noise * V for W, V in zip(balanced, fresh, strict=True))

    what = f"rank {rank}" if rank is not None else f"energy {energy:g}"
    return Remedy(
        f"truncate {what}",
        "balanced factors of the truncated product + noise V_l, V a fresh start",
        "spectral truncation (Eckart & Young), with a fresh start in the freed directions",
        "rank = min(m, n), or energy = 1",
        change,
    )


def reset(count: int = 1) -> Remedy:
    """Put the last `count` factors back to a fresh start.

    Source: resetting the last layers, Nikishin et al. (2022).
    """
    _count("count", count)

    def change(factors: Factors, border: Border) -> Factors:
        if count == 0:
            return factors
        kept = max(len(factors) - count, 0)
        return factors[:kept] + border.fresh(factors)[kept:]

    return Remedy(
        f"reset {count}",
        "W_l for l <= L - count, a fresh start above",
        "Nikishin et al. (ICML 2022), the last layers",
        "count = 0",
        change,
    )


def add_depth(count: int = 1, *, variant: str = "balanced") -> Remedy:
    """Insert `count` factors that leave the end-to-end matrix unchanged.

    Parameters
    ----------
    count : int
        How many.
    variant : {"balanced", "identity"}
        "identity": an identity below the last factor, which acts but is not balanced with its
        neighbours. "balanced": balanced factors of the same product at the new depth.
    """
    _count("count", count)
    if variant not in ("balanced", "identity"):
        raise DepthrankError(f"variant is {variant!r}; it must be 'balanced' or 'identity'.")

    def change(factors: Factors, _: Border) -> Factors:
        if count == 0:
            return factors
        sizes = widths(factors)
        inner = sizes[-2] if len(sizes) > 2 else min(sizes)
        if variant == "balanced":
            new = check_dims((*sizes[:-1], *((inner,) * count), sizes[-1]))
            if len(factors) == 1:
                new = (sizes[0], *((inner,) * count), sizes[-1])
            return Balanced(end_to_end(factors))(new)
        if len(factors) == 1:  # nothing is hidden yet: the identity goes to the smaller side
            m, n = factors[0].shape
            sides = (np.eye(n), factors[0]) if n <= m else (factors[0], np.eye(m))
            return (*sides[:1], *((np.eye(inner),) * (count - 1)), *sides[1:])
        return (*factors[:-1], *((np.eye(inner),) * count), factors[-1])

    return Remedy(
        f"add depth ({variant})",
        "W_1, ..., I, W_L" if variant == "identity" else "balanced factors at depth L + count",
        "net morphism: Chen et al. (ICLR 2016); balance as above",
        "count = 0",
        change,
    )


def anchor(strength: float = 1e-2) -> Remedy:
    """Pull the factors towards the start in the phase: ``+ strength/2 |W - W(0)|^2``.

    The pull holds for a flow time of 5 / strength and is then released, so that the phase ends at
    the same loss as any other.

    Source: Kumar et al. (2023), L2 towards the initialisation.
    """
    _at_least_0("strength", strength)
    return Remedy(
        f"anchor {strength:g}",
        "W_l, then the flow of loss + strength/2 sum |W_l - W_l(0)|^2",
        "L2 Init, Kumar, Marklund & Van Roy (2023)",
        "strength = 0",
        lambda W, _: W,
        strength,
    )


def _gradients(factors: Factors, observations: Observations) -> Factors:
    """Return dloss/dW_l on what is seen."""
    from depthrank.dynamics.problem import Problem

    # The problem of the flow, on NumPy arrays: nothing is compiled for one gradient.
    problem: Any = Problem(observations.to_dense(fill=0.0), observations.mask(), 0.0)  # type: ignore[arg-type]
    downhill, _ = problem.descent(factors)
    return tuple(-step for step in downhill)


def _at_least_0(name: str, value: float) -> None:
    if isinstance(value, bool | str) or not 0 <= value < np.inf:
        raise DepthrankError(f"{name} is {value!r}; it must be a finite number >= 0.")


def _count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 0:
        raise DepthrankError(f"{name} is {value!r}; it must be an integer >= 0.")
