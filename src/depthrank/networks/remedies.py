"""Remedies against loss of plasticity, each a plain function that composes with the others.

Those at the start of a phase change weights in place and clear what the optimiser remembers of
them; penalties are added to a loss. All leave a model exactly as it was at their identity setting.
Layer norm is a choice of architecture: `mlp(..., layer_norm=True)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from depthrank.errors import DepthrankError
from depthrank.networks.functions import evaluating

__all__ = [
    "dash",
    "l2",
    "l2_to_start",
    "redo",
    "reinitialise",
    "reset_optimizer",
    "shrink_and_perturb",
    "spectral_penalty",
]


def reset_optimizer(optimizer: Any, parameters: Sequence[Any] | None = None) -> None:
    """Forget momenta and scales: of all parameters, or of those given."""
    if parameters is None:
        optimizer.state.clear()
    for p in parameters or ():
        optimizer.state.pop(p, None)


@torch.no_grad()
def shrink_and_perturb(
    model: nn.Module, optimizer: Any, *, shrink: float, noise: float = 0.0, seed: int = 0
) -> None:
    """W <- shrink W + noise xi, xi standard normal (Ash and Adams); shrink 1, noise 0: none."""
    if not 0 <= shrink <= 1 or noise < 0:
        raise DepthrankError(f"shrink is {shrink}, noise {noise}; give 0 to 1, and >= 0.")
    if shrink == 1 and noise == 0:
        return
    g = torch.Generator().manual_seed(seed)
    for p in model.parameters():
        p.mul_(shrink).add_(torch.randn(p.shape, generator=g).to(p), alpha=noise)
    reset_optimizer(optimizer)


@torch.no_grad()
def dash(model: nn.Module, optimizer: Any, gradients: Mapping[str, Any], *, floor: float) -> None:
    """Shrink each row by clip(cos(-gradient, row), floor, 1) (Shin et al. 2024); floor 1: none.

    Rows run over the last axis of a matrix and over the kernel of a convolution. `gradients` holds
    that of the new loss by parameter name; vectors are left alone.
    """
    if not 0 <= floor <= 1:
        raise DepthrankError(f"floor is {floor}; it must be in [0, 1].")
    if floor == 1:
        return
    for name, p in model.named_parameters():
        if p.ndim < 2 or name.startswith("biases"):
            continue
        axes = (-1,) if p.ndim < 4 else (-2, -1)
        inner = -(p * gradients[name]).sum(axes, keepdim=True)
        size = p.square().sum(axes, keepdim=True) * gradients[name].square().sum(axes, keepdim=True)
        cosine = inner / size.sqrt().clamp_min(torch.finfo(p.dtype).tiny)
        p.mul_(cosine.clamp(floor, 1.0))
    reset_optimizer(optimizer)


def l2(model: nn.Module, strength: float) -> Any:
    """Return strength times the sum of squared parameters."""
    return strength * sum(p.square().sum() for p in model.parameters())


def l2_to_start(model: nn.Module, start: Mapping[str, Any], strength: float) -> Any:
    """Return strength times the squared distance to the start (Kumar et al. 2023)."""
    parts = ((p - start[name]).square().sum() for name, p in model.named_parameters())
    return strength * sum(parts)


def spectral_penalty(model: nn.Module, strength: float, power: int = 2) -> Any:
    """Return strength times sum (sigma_1^power - 1)^2 over matrices (Lewandowski et al. 2025)."""
    total: Any = 0.0
    for name, p in model.named_parameters():
        if p.ndim >= 2 and not name.startswith("biases"):
            W = p if p.ndim < 4 else p.flatten(1)
            top = torch.linalg.matrix_norm(W, 2)
            total = total + (top**power - 1).square().sum()
    return strength * total


@torch.no_grad()
def reinitialise(model: nn.Module, fresh: nn.Module, optimizer: Any, *, keep: str = "") -> None:
    """Copy a fresh start over the model, except for parameters whose name begins with `keep`."""
    new = dict(fresh.named_parameters())
    for name, p in model.named_parameters():
        if not keep or not name.startswith(keep):
            p.copy_(new[name])
            reset_optimizer(optimizer, [p])


@torch.no_grad()
def redo(model: nn.Sequential, optimizer: Any, inputs: Any, *, tau: float, seed: int = 0) -> int:
    """Recycle tau-dormant units of a fully connected network (Sokar et al. 2023).

    A unit whose mean absolute activation is below tau times the mean of its layer gets fresh
    incoming weights (PyTorch's default law), a zero bias and zero outgoing weights; the optimiser
    forgets their slots. Nothing happens at tau 0. Returns the number of units.
    """
    if tau < 0:
        raise DepthrankError(f"tau is {tau}; it must be >= 0.")
    g = torch.Generator().manual_seed(seed)
    pending: Any = None
    plan = []
    with evaluating(model):
        h = inputs
        for part in model:
            if isinstance(part, nn.Linear) and pending is not None:
                size = h.abs().mean(0)
                plan.append((pending, part, size < tau * size.mean()))
            h = part(h)
            pending = part if isinstance(part, nn.Linear) else pending
    for before, after, dormant in plan:
        bound = before.in_features**-0.5
        rows = (2 * torch.rand(before.weight.shape, generator=g) - 1) * bound
        for p, where, value in (
            (before.weight, (dormant,), rows.to(before.weight)[dormant]),
            (before.bias, (dormant,), 0.0),
            (after.weight, (slice(None), dormant), 0.0),
        ):
            p[where] = value
            for slot in optimizer.state.get(p, {}).values():
                if isinstance(slot, torch.Tensor) and slot.shape == p.shape:
                    slot[where] = 0.0
    return int(sum(int(dormant.sum()) for _, _, dormant in plan))
