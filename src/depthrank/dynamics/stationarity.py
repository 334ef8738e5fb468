"""Deciding that a flow stands still.

A small gradient proves nothing: a tiny start has one for a very long time before it escapes. What
tells a resting point from a plateau is the local quadratic model along everything the flow can
reach from here, the Krylov space of the gradient: no direction of negative curvature in it, and
next to nothing left to gain.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from depthrank.dynamics.problem import Factors, Problem, combine, norm

STATIONARY_TOLERANCE = 1e-10
_KRYLOV = 12


def _lanczos(problem: Problem, factors: Factors, slope: Factors) -> tuple[Array, Array]:
    """Return eigenvalues of the Hessian in the Krylov space of the gradient, and weights.

    The weights are the squared components of the normalised gradient along the Ritz vectors.
    """

    def hessian(v: Factors) -> Factors:
        _, image = jax.jvp(lambda f: problem.descent(f)[0], (factors,), (v,))
        return combine((-1.0, image))

    tiny = jnp.finfo(slope[0].dtype).tiny
    first = combine((1 / jnp.maximum(norm(slope), tiny), slope))
    basis = jax.tree.map(lambda f: jnp.zeros((_KRYLOV + 1, *f.shape), f.dtype).at[0].set(f), first)
    zeros = jnp.zeros(_KRYLOV, slope[0].dtype)

    def extend(k: Array, carry: tuple[Factors, Array, Array]) -> tuple[Factors, Array, Array]:
        basis, alphas, betas = carry
        vector = jax.tree.map(lambda b: b[k], basis)
        image = hessian(vector)
        alphas = alphas.at[k].set(_dot(image, vector))
        # Full orthogonalisation, twice: the space is small, ghosts are not welcome.
        image = _orthogonal(_orthogonal(image, basis), basis)
        beta = norm(image)
        # Once the space is exhausted, going on would orthogonalise rounding errors.
        alive = beta > 1e-8 * jnp.max(jnp.abs(alphas))
        scale = jnp.where(alive, 1 / jnp.maximum(beta, tiny), 0.0)
        basis = jax.tree.map(lambda b, f: b.at[k + 1].set(scale * f), basis, image)
        return basis, alphas, betas.at[k].set(jnp.where(alive, beta, 0.0))

    _, diagonal, off = jax.lax.fori_loop(0, _KRYLOV, extend, (basis, zeros, zeros))
    off = off[:-1]
    tridiagonal = jnp.diag(diagonal) + jnp.diag(off, 1) + jnp.diag(off, -1)
    ritz, vectors = jnp.linalg.eigh(tridiagonal)
    return ritz, jnp.square(vectors[0])


def _orthogonal(image: Factors, basis: Factors) -> Factors:
    """Remove what `image` has in common with the orthonormal vectors of `basis`."""
    shares = sum(jnp.tensordot(b, f, f.ndim) for b, f in zip(basis, image, strict=True))
    return jax.tree.map(lambda f, b: f - jnp.tensordot(shares, b, 1), image, basis)


def _dot(a: Factors, b: Factors) -> Array:
    return jnp.asarray(sum(jnp.vdot(x, y) for x, y in zip(a, b, strict=True)))


@eqx.filter_jit
def is_stationary(problem: Problem, factors: Factors, slope: Factors, tolerance: Array) -> Array:
    """Return which members of a batch rest at a stationary point of the loss.

    Parameters
    ----------
    problem, factors, slope
        With the batch axis; `slope` is minus the gradient.
    tolerance : Array, scalar
        Largest relative gain still to be had.

    Returns
    -------
    Array [batch], bool
        True where (i) the curvature is not negative in any direction that the flow can reach,
        (ii) the quadratic model promises a decrease of the loss below `tolerance` times the loss
        and (iii) a movement of the end-to-end matrix, estimated by depth times the relative
        movement of the factors, below the square root of `tolerance` of the size of data and
        matrix.
    """
    return jax.vmap(lambda p, f, s: _member(p, f, s, tolerance))(problem, factors, slope)


def _member(problem: Problem, factors: Factors, slope: Factors, tolerance: Array) -> Array:
    ritz, weights = _lanczos(problem, factors, slope)
    gradient, depth = norm(slope), len(factors)
    top = jnp.max(jnp.abs(ritz))
    # Ritz values with no weight are artefacts of an exhausted Krylov space.
    reached = weights > 1e-20
    bends_up = jnp.all(jnp.where(reached, ritz, top) > -1e-6 * top)
    curvature = jnp.maximum(ritz, 1e-12 * top + jnp.finfo(ritz.dtype).tiny)
    gain = 0.5 * gradient**2 * jnp.sum(jnp.where(reached, weights / curvature, 0.0))
    movement = gradient * jnp.sqrt(jnp.sum(jnp.where(reached, weights / curvature**2, 0.0)))
    data = jnp.sqrt(jnp.sum(jnp.square(problem.target)))
    size = norm(factors) / jnp.sqrt(depth)
    # Where the matrix dies away, ||dW|| ~ L ||W_l||^(L-1) ||dW_l|| is small against the data.
    moved = depth * size ** (depth - 1) * movement / jnp.sqrt(depth)
    rest = moved <= jnp.sqrt(tolerance) * jnp.maximum(data, size**depth)
    little = gain <= tolerance * problem.loss(factors)
    return (gradient == 0) | (bends_up & rest & little)
