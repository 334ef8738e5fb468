"""The training problem: what the factors are pulled towards, and how hard.

The dense form keeps the observed entries as an m x n mask and target. Its gradient is written out
as products of factors (one sweep up, one sweep down), which is what reverse-mode differentiation
would do, without tracing it again.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

Factors = tuple[Array, ...]


def chain(factors: Factors) -> list[Array]:
    """Return the partial products [W_1, W_2 W_1, ..., W_L ... W_1]."""
    products = [factors[0]]
    for factor in factors[1:]:
        products.append(factor @ products[-1])
    return products


class Problem(eqx.Module):
    """Half the sum of squares on observed entries, plus half the weight decay.

    loss(W_1, ..., W_L) = 1/2 sum over observed (W_ij - X_ij)^2 + 1/2 decay sum_l ||W_l||_F^2,
    with W = W_L ... W_1.

    Parameters
    ----------
    target : Array [m, n]
        Observed values; zero where unobserved.
    mask : Array [m, n]
        One where observed, zero elsewhere, in the dtype of the computation.
    weight_decay : Array, scalar
        The decay, >= 0. At L factors it is Schatten-2/L regularisation of W.
    validation_target, validation_mask : Array [m, n] or None
        Held-out entries; they never enter the gradient.
    """

    target: Array
    mask: Array
    weight_decay: Array
    validation_target: Array | None = None
    validation_mask: Array | None = None

    @staticmethod
    def end_to_end(factors: Factors) -> Array:
        """Return W_L ... W_1, [m, n]."""
        return chain(factors)[-1]

    def residual(self, end_to_end: Array) -> Array:
        """Return the residual on observed entries, zero elsewhere, [m, n]."""
        return self.mask * (end_to_end - self.target)

    def descent(self, factors: Factors) -> tuple[Factors, Array]:
        """Return minus the gradient of the loss, and the end-to-end matrix it was taken at.

        dW_l/dt = -(W_L ... W_{l+1})^T R (W_{l-1} ... W_1)^T - decay W_l   (gradient flow).
        """
        products = chain(factors)
        back = -self.residual(products[-1])
        steps: list[Array] = []
        for index in range(len(factors) - 1, -1, -1):
            step = back if index == 0 else back @ products[index - 1].T
            steps.append(step - self.weight_decay * factors[index])
            if index:
                back = factors[index].T @ back
        return tuple(reversed(steps)), products[-1]

    def squared_error(self, end_to_end: Array) -> Array:
        """Return the sum of squared residuals over observed entries."""
        return jnp.sum(jnp.square(self.residual(end_to_end)))

    def loss(self, factors: Factors) -> Array:
        """Return the whole loss, decay included, in the convention above."""
        decay = sum(jnp.vdot(factor, factor) for factor in factors)
        return 0.5 * (self.squared_error(self.end_to_end(factors)) + self.weight_decay * decay)

    def validation_mse(self, end_to_end: Array) -> Array:
        """Return the mean squared error on held-out entries (infinite when there are none)."""
        if self.validation_mask is None or self.validation_target is None:
            return jnp.asarray(jnp.inf, end_to_end.dtype)
        error = self.validation_mask * (end_to_end - self.validation_target)
        return jnp.sum(jnp.square(error)) / jnp.sum(self.validation_mask)


def norm(factors: Factors) -> Array:
    """Return the Frobenius norm of all factors together."""
    return jnp.sqrt(sum(jnp.vdot(factor, factor) for factor in factors))


def combine(*terms: tuple[Array | float, Factors]) -> Factors:
    """Return a linear combination of factor tuples."""
    coefficients = [coefficient for coefficient, _ in terms]

    def add(*leaves: Array) -> Array:
        return sum(c * leaf for c, leaf in zip(coefficients, leaves, strict=True))  # type: ignore[return-value]

    return jax.tree.map(add, *[factors for _, factors in terms])
