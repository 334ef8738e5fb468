"""Between the two halves: factors as a linear network, a linear network as factors.

A chain of factors W_L ··· W_1 is a linear network without biases. With inputs X, targets Y and one
column a sample its squared loss is that of a matrix with every cell observed as soon as the inputs
are whitened, X Xᵀ = I:

    1/2 ‖W X − Y‖² = 1/2 ‖W − Y Xᵀ‖² + 1/2 (‖Y‖² − ‖Y Xᵀ‖²).

The last term is a constant, so gradients, and with them flows and steps of any optimiser, agree.
One input for each column (X = I) with labels missing is the completion problem itself.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from depthrank.errors import DepthrankError
from depthrank.factors import Factors, check_factors
from depthrank.observations import Observations

__all__ = ["observations_of", "to_factors", "to_module"]

_WHITE = 1e-10  # largest entry of X Xᵀ − I; rounding in float64 is far below


def to_module(model: Any) -> nn.Sequential:
    """Return factors as a linear network without biases, in float64.

    Parameters
    ----------
    model : DeepMatrixCompletion, Trajectory or sequence of array_like
        Something fitted, or factors (W_1, ..., W_L). W_1 acts first.

    Returns
    -------
    torch.nn.Sequential
        L layers `torch.nn.Linear`, whose weights are copies. A batch [samples, n] becomes
        [samples, m]; the rows of the batch `torch.eye(n)` become the columns of W. A fitted
        table's factors are those of the prepared table: without its offsets, in its units.

    Raises
    ------
    DepthrankError
        If the model is not fitted, or the factors do not multiply.

    Examples
    --------
    >>> to_module((np.ones((2, 3)), np.ones((4, 2))))(torch.ones(1, 3).double()).tolist()
    [[6.0, 6.0, 6.0, 6.0]]
    """
    layers = []
    for W in check_factors(_factors_in(model)):
        m, n = W.shape
        layer = nn.Linear(n, m, bias=False, dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.tensor(W, dtype=torch.float64))
        layers.append(layer)
    return nn.Sequential(*layers)


def _factors_in(model: Any) -> Sequence[Any]:
    if isinstance(model, Sequence):
        return model
    for name in ("factors_", "factors"):
        found = getattr(model, name, None)
        if found is not None:
            return tuple(found)
    fitted = " that is not fitted; call its fit first" if hasattr(model, "fit") else ""
    raise DepthrankError(
        f"the model is a {type(model).__name__}{fitted or ', which has no factors'}. Give a fitted "
        "DeepMatrixCompletion, a Trajectory, or factors (W_1, ..., W_L)."
    )


def to_factors(module: nn.Module, shape: tuple[int, int] | None = None) -> Factors:
    """Return the weights of a linear network as factors.

    Parameters
    ----------
    module : torch.nn.Module
        `torch.nn.Linear` layers without biases, in `torch.nn.Sequential`, nested or not; layers
        `torch.nn.Identity` do not count.
    shape : (int, int), optional
        Shape (m, n) that the product must have: that of the table the factors are for.

    Returns
    -------
    tuple of ndarray
        (W_1, ..., W_L), float64 copies. W_1 acts first.

    Raises
    ------
    DepthrankError
        If a layer is not linear or has a bias, sizes do not fit, or a weight is not finite.
    """
    factors = []
    for name, layer in _chain(module, ""):
        if layer.bias is not None:
            raise DepthrankError(
                f"layer {name!r} has a bias; a product of factors has none. Make it with "
                "bias=False, or append a constant input."
            )
        factors.append(layer.weight.detach().to("cpu", torch.float64).numpy().copy())
    if not factors:
        raise DepthrankError("the module has no linear layer; it must have at least one.")
    return check_factors(factors, shape)


def _chain(module: nn.Module, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the linear layers in the order in which they act, one used twice twice."""
    # A subclass with a forward of its own computes something else.
    forward = type(module).forward
    if forward is nn.Sequential.forward:
        for key, layer in module._modules.items():
            if layer is not None:
                yield from _chain(layer, f"{name}.{key}" if name else key)
    elif forward is nn.Linear.forward:
        yield name, module
    elif forward is not nn.Identity.forward:
        place = f"layer {name!r}" if name else "the module"
        raise DepthrankError(
            f"{place} is a {type(module).__name__}; only torch.nn.Linear without bias, "
            "torch.nn.Identity and torch.nn.Sequential of these are a product of factors."
        )


def observations_of(inputs: Any, targets: Any) -> Observations:
    """Return the table that a linear network on whitened inputs fits: Y Xᵀ, every cell observed.

    Parameters
    ----------
    inputs : tensor or array_like [samples, n]
        Whitened: inputsᵀ inputs = I to 1e-10. One row a sample, as PyTorch has it.
    targets : tensor or array_like [samples, m]

    Returns
    -------
    Observations
        Shape (m, n). `flow` and `descend` on it move as the network does on half the sum of its
        squared errors, from the same factors. For a mean over samples and outputs (`MSELoss`)
        a step of eta there is one of 2 eta / (samples m) here.

    Raises
    ------
    DepthrankError
        If shapes do not fit or the inputs are not whitened.

    Notes
    -----
    **Label.** Exact. **Source.** The identity at the head of this module.
    """
    X, Y = (_array(values) for values in (inputs, targets))
    if X.ndim != 2 or Y.ndim != 2 or len(X) != len(Y):
        raise DepthrankError(
            f"inputs and targets have shapes {X.shape} and {Y.shape}; they must be "
            "[samples, n] and [samples, m]."
        )
    excess = float(np.abs(X.T @ X - np.eye(X.shape[1])).max())
    if not excess <= _WHITE:
        raise DepthrankError(
            f"inputs.T @ inputs differs from the identity by {excess:.1e}; only for whitened "
            "inputs is the loss that of a matrix. Whiten them, for instance by numpy.linalg.qr."
        )
    W = Y.T @ X
    return Observations.from_mask(W, np.ones(W.shape, bool))


def _array(values: Any) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        values = values.detach().to("cpu", torch.float64).numpy()
    return np.asarray(values, dtype=np.float64)
