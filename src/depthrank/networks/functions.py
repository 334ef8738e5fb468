"""Measures of the function a network computes: Jacobian, tangent kernel, gradients, churn.

All run the model in evaluation mode and leave it as it was: no running statistics move, no dropout
draws. Sizes of probe batches are the caller's choice; the kernels grow with samples times outputs.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call, jacrev, vmap

from depthrank.baselines import measures_of
from depthrank.errors import DepthrankError
from depthrank.networks.measures import spectra_of

__all__ = [
    "churn",
    "evaluating",
    "gradient_norm",
    "jacobian_ranks",
    "jacobians",
    "output_coupling",
    "tangent_kernel",
    "tangent_kernel_measures",
]


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module in evaluation mode, and each back afterwards."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def _one(model: nn.Module) -> Callable[[Any, Any], Any]:
    """Return (parameters, one sample) -> outputs, flat."""
    buffers = {name: value.detach() for name, value in model.named_buffers()}

    def outputs(parameters: Any, x: Any) -> Any:
        return functional_call(model, {**parameters, **buffers}, (x[None],)).reshape(-1)

    return outputs


def _parameters(model: nn.Module) -> dict[str, Any]:
    return {name: value.detach() for name, value in model.named_parameters()}


def jacobians(model: nn.Module, inputs: Any) -> Any:
    """Return the input-output Jacobians of a batch, [samples, outputs, inputs], each flat."""
    function, parameters = _one(model), _parameters(model)
    with evaluating(model):
        J = vmap(jacrev(lambda x: function(parameters, x)))(inputs)
    return J.reshape(len(inputs), J.shape[1], -1).detach()


def jacobian_ranks(model: nn.Module, inputs: Any) -> dict[str, float]:
    """Return rank measures of the input-output Jacobian, averaged over a probe batch.

    Keeps its meaning where an average over layers does not: it is the rank of the function, layer
    shapes and starts aside. Exact for the given batch.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : tensor [samples, ...]
        Samples where the Jacobian vanishes (dead networks) count as rank 0.

    Returns
    -------
    dict
        The four measures of `depthrank.baselines.measures_of`.
    """
    found = [measures_of(s) for s in spectra_of([J[None] for J in jacobians(model, inputs)])]
    return {key: float(np.mean([one[key] for one in found])) for key in found[0]}


def tangent_kernel(model: nn.Module, inputs: Any) -> np.ndarray:
    """Return the neural tangent kernel of a small batch, exact.

    K[i, a, j, b] is the inner product, over all trainable parameters, of the gradients of output a
    at sample i and output b at sample j.

    Parameters
    ----------
    model : torch.nn.Module
    inputs : tensor [samples, ...]
        A few dozen samples: the gradients of all samples and outputs are held at once.

    Returns
    -------
    ndarray [samples, outputs, samples, outputs]
        Float64.
    """
    function = _one(model)
    trained = {name for name, value in model.named_parameters() if value.requires_grad}
    everything = _parameters(model)
    fixed = {name: value for name, value in everything.items() if name not in trained}
    moving = {name: value for name, value in everything.items() if name in trained}
    if not moving:
        raise DepthrankError("no parameter of the model is trainable; there is no tangent kernel.")

    def sample(x: Any) -> Any:
        return jacrev(lambda p: function({**p, **fixed}, x))(moving)

    with evaluating(model):
        parts = vmap(sample)(inputs)
    G = torch.cat([part.detach().flatten(2).double() for part in parts.values()], dim=2)
    return torch.einsum("iap,jbp->iajb", G, G).cpu().numpy()


def tangent_kernel_measures(kernel: np.ndarray) -> dict[str, Any]:
    """Return spectrum, rank measures and couplings of a tangent kernel.

    Parameters
    ----------
    kernel : ndarray [samples, outputs, samples, outputs]
        As `tangent_kernel` returns.

    Returns
    -------
    dict
        `eigenvalues`, descending; the four measures of `measures_of` on them; `coupling`, the norm
        of the kernel off its diagonal over the norm on it: 0 where gradients of different outputs
        and samples are all orthogonal, which the paper calls decoupled; `mean_cosine`, the mean
        absolute cosine between gradients; `output_coupling` [outputs, outputs].
    """
    n = kernel.shape[0] * kernel.shape[1]
    K = kernel.reshape(n, n)
    eigenvalues = np.maximum(np.linalg.eigvalsh((K + K.T) / 2)[::-1], 0.0)
    diagonal = np.diag(K)
    off = K - np.diag(diagonal)
    norms = np.sqrt(diagonal)
    pairs = np.outer(norms, norms)
    cosines = np.abs(np.divide(off, pairs, out=np.zeros_like(off), where=pairs > 0))
    size = np.linalg.norm(diagonal)
    return {
        "eigenvalues": eigenvalues,
        **measures_of(eigenvalues),
        "coupling": float(np.linalg.norm(off) / size) if size else 0.0,
        "mean_cosine": float(cosines.sum() / max(n * (n - 1), 1)),
        "output_coupling": output_coupling(kernel),
    }


def output_coupling(kernel: np.ndarray) -> np.ndarray:
    """Return the normalised coupling between outputs, [outputs, outputs].

    ||K_ab||_F / sqrt(||K_aa||_F ||K_bb||_F) over samples: 1 on the diagonal, 0 where training one
    output never moves the other. Block-diagonal up to order means decoupled groups of outputs.
    """
    norms = np.sqrt(np.einsum("iajb,iajb->ab", kernel, kernel))
    own = np.sqrt(np.outer(np.diag(norms), np.diag(norms)))
    return np.divide(norms, own, out=np.zeros_like(norms), where=own > 0)


def gradient_norm(model: nn.Module, loss: Callable[[Any, Any], Any], inputs: Any, y: Any) -> float:
    """Return the norm of the gradient of the loss over all parameters, evaluation mode, exact."""
    trained = [p for p in model.parameters() if p.requires_grad]
    with evaluating(model):
        grads = torch.autograd.grad(loss(model(inputs), y), trained, allow_unused=True)
    return float(sum(float(g.double().square().sum()) for g in grads if g is not None)) ** 0.5


@torch.no_grad()
def churn(before: nn.Module, after: nn.Module, inputs: Any) -> float:
    """Return the mean change of the outputs on a reference batch that was not trained on.

    Mean over samples of ||f_after(x) - f_before(x)||_2 (Tang et al. 2025 call it churn).
    """
    with evaluating(before), evaluating(after):
        change = (after(inputs) - before(inputs)).flatten(1)
    return float(change.double().norm(dim=1).mean())
