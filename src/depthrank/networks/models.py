"""The published architectures by depth: CIFAR ResNets, and fully connected networks.

Written from the protocol, not from code: ResNets have a 3 x 3 stem without pooling.
"""

import math
from itertools import pairwise

import torch
from torch import nn

from depthrank.errors import DepthrankError

__all__ = ["RESNETS", "mlp", "resnet"]

RESNETS = {
    10: ("basic", (1, 1, 1, 1)),
    18: ("basic", (2, 2, 2, 2)),
    34: ("basic", (3, 4, 6, 3)),
    50: ("bottleneck", (3, 4, 6, 3)),
    101: ("bottleneck", (3, 4, 23, 3)),
}
ACTIVATIONS = {"linear": nn.Identity, "relu": nn.ReLU, "tanh": nn.Tanh}


def mlp(
    sizes: tuple[int, ...],
    *,
    activation: str = "relu",
    std: float | None = None,
    identity: bool = False,
    published: bool = False,
    layer_norm: bool = False,
) -> nn.Sequential:
    """Return a fully connected network; its depth is the number of weight matrices.

    Parameters
    ----------
    sizes : tuple of int
        (inputs, hidden, ..., outputs).
    activation : {"linear", "relu", "tanh"}
    std : float, optional
        Standard deviation of every weight times sqrt(inputs of the layer), biases zero; PyTorch's
        default start if left.
    identity : bool
        Square hidden matrices start as the identity (decoupled control).
    published : bool
        No activation after the first layer, as in the published code.

    layer_norm : bool
        Normalise before every activation.

    Raises
    ------
    DepthrankError
        If the activation is unknown or there is no layer.
    """
    if activation not in ACTIVATIONS or len(sizes) < 2:
        raise DepthrankError(
            f"activation is {activation!r} and sizes {sizes}; give one of "
            f"{', '.join(ACTIVATIONS)}, and at least inputs and outputs."
        )
    parts: list[nn.Module] = []
    last = len(sizes) - 2
    for k, (n, m) in enumerate(pairwise(sizes)):
        layer = nn.Linear(n, m)
        if std is not None:
            nn.init.normal_(layer.weight, std=std / math.sqrt(n))
            nn.init.zeros_(layer.bias)
        if identity and 0 < k < last and m == n:
            nn.init.eye_(layer.weight)
        parts.append(layer)
        if k < last and layer_norm:
            parts.append(nn.LayerNorm(m))
        if k < last and not (published and k == 0):
            parts.append(ACTIVATIONS[activation]())
    return nn.Sequential(*parts)


class _Block(nn.Module):
    """A residual block: two 3 x 3 convolutions, or a 1 x 1, 3 x 3, 1 x 1 bottleneck."""

    def __init__(self, n: int, width: int, stride: int, bottleneck: bool) -> None:
        super().__init__()
        m = 4 * width if bottleneck else width
        plan = [(n, width, 1, 1), (width, width, 3, stride), (width, m, 1, 1)]
        plan = plan if bottleneck else [(n, width, 3, stride), (width, m, 3, 1)]
        parts: list[nn.Module] = []
        for i, o, k, s in plan:
            parts += [nn.Conv2d(i, o, k, s, k // 2, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
        self.body = nn.Sequential(*parts[:-1])
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or n != m:
            project = nn.Conv2d(n, m, 1, stride, bias=False)
            self.shortcut = nn.Sequential(project, nn.BatchNorm2d(m))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet(
    depth: int | tuple[int, ...] = 18,
    *,
    classes: int = 10,
    channels: int = 3,
    width: int = 64,
) -> nn.Sequential:
    """Return a CIFAR ResNet: 10, 18, 34 (basic blocks), 50 or 101 (bottlenecks).

    Parameters
    ----------
    depth : int or tuple of int
        A published depth, or the blocks of each stage (basic blocks).
    classes, channels : int
    width : int
        Channels of the first stage; each stage doubles it.

    Returns
    -------
    torch.nn.Sequential
        Convolutions start as N(0, 2 / (k^2 outputs)).

    Raises
    ------
    DepthrankError
        If the depth is not one of those published.
    """
    if isinstance(depth, int) and depth not in RESNETS:
        raise DepthrankError(f"depth is {depth}; ResNets have {', '.join(map(str, RESNETS))}.")
    kind, stages = RESNETS[depth] if isinstance(depth, int) else ("basic", depth)
    parts: list[nn.Module] = [nn.Conv2d(channels, width, 3, 1, 1, bias=False)]
    parts += [nn.BatchNorm2d(width), nn.ReLU()]
    n = width
    for stage, blocks in enumerate(stages):
        for b in range(blocks):
            stride = 2 if stage and not b else 1
            parts.append(_Block(n, width * 2**stage, stride, kind == "bottleneck"))
            n = width * 2**stage * (4 if kind == "bottleneck" else 1)
    parts += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n, classes)]
    model = nn.Sequential(*parts)
    for m in model.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.normal_(m.weight, std=math.sqrt(2 / (m.kernel_size[0] ** 2 * m.out_channels)))
    return model
