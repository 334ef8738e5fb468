"""Many fully connected networks at once: the seeds of an experiment as one stack of weights.

Elementwise optimisers (SGD, Adam, RMSprop, Adagrad) on the sum of the losses train every member as
if it were alone.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from depthrank.errors import DepthrankError

__all__ = ["StackedMLP", "train_to_level"]


class StackedMLP(nn.Module):
    """Networks of equal shape, one a seed; depth is the number of weight matrices.

    Parameters
    ----------
    sizes : sequence of int
        (inputs, hidden, ..., outputs).
    seeds : sequence of int
        One network each, drawn from its own generator.
    std : float or None
        Weights are Gaussian with this over sqrt(inputs of the layer); None is PyTorch's default
        (uniform within 1 / sqrt(inputs), biases too).
    relu, bias : bool
    identity : bool
        Hidden square matrices start as the identity (decoupled control).
    dtype : torch.dtype
    """

    def __init__(
        self,
        sizes: Sequence[int],
        seeds: Sequence[int],
        *,
        std: float | None = None,
        relu: bool = True,
        bias: bool = True,
        identity: bool = False,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        dtype = torch.float32 if dtype is None else dtype
        self.relu, self.weights, self.biases = relu, nn.ParameterList(), nn.ParameterList()
        generators = [torch.Generator().manual_seed(int(seed)) for seed in seeds]
        last = len(sizes) - 2
        for k in range(last + 1):
            n, m = sizes[k], sizes[k + 1]
            drawn, offsets = [], []
            for g in generators:
                if std is None:
                    bound = 1 / math.sqrt(n)
                    drawn.append((2 * torch.rand(m, n, generator=g, dtype=dtype) - 1) * bound)
                    offsets.append((2 * torch.rand(1, m, generator=g, dtype=dtype) - 1) * bound)
                else:
                    drawn.append(torch.randn(m, n, generator=g, dtype=dtype) * std / math.sqrt(n))
                    offsets.append(torch.zeros(1, m, dtype=dtype))
                if identity and 0 < k < last and m == n:
                    drawn[-1] = torch.eye(n, dtype=dtype)
            self.weights.append(nn.Parameter(torch.stack(drawn)))
            if bias:
                self.biases.append(nn.Parameter(torch.stack(offsets)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return outputs [seeds, samples, outputs] of inputs [samples, inputs] or one per seed."""
        h = x.expand(len(self.weights[0]), *x.shape[-2:])
        for k, W in enumerate(self.weights):
            h = torch.baddbmm(self.biases[k], h, W.mT) if self.biases else torch.bmm(h, W.mT)
            if self.relu and k < len(self.weights) - 1:
                h = torch.relu(h)
        return h


def train_to_level(
    model: StackedMLP,
    optimizer: Any,
    losses: Callable[[Any], Any],
    *,
    level: float,
    steps: int,
    batch: Callable[[int], Any] | None = None,
    check: int = 1,
) -> tuple[list[dict[str, Any] | None], Any]:
    """Train until every member has reached a loss; keep each as it was when it did.

    Parameters
    ----------
    model : StackedMLP
    optimizer : torch.optim.Optimizer
        Elementwise.
    losses : callable
        batch -> losses [seeds]; losses(None) is that of the whole training set.
    level : float
        Equal loss at which members are kept, checked every `check` steps.
    steps : int
        At most.
    batch : callable, optional
        step -> batch; the whole set if left.

    Returns
    -------
    members : list of dict or None
        By seed: `weights`, `step`; None where the level was not reached (kept as a failure).
    final : tensor [seeds]
        Losses at the end.

    Raises
    ------
    DepthrankError
        If a loss is not finite.
    """
    kept: list[dict[str, Any] | None] = [None] * len(model.weights[0])
    now = None
    for step in range(steps + 1):
        if step % check == 0:
            with torch.no_grad():
                now = losses(None)
            if not bool(torch.isfinite(now).all()):
                raise DepthrankError(f"a loss is not finite at step {step}; lower the step size.")
            for i in torch.nonzero(now <= level).ravel().tolist():
                if kept[i] is None:
                    weights = [W[i].detach().clone() for W in model.weights]
                    biases = [b[i].detach().clone() for b in model.biases]
                    kept[i] = {"weights": weights, "biases": biases, "step": step}
            if all(one is not None for one in kept):
                break
        optimizer.zero_grad()
        losses(None if batch is None else batch(step)).sum().backward()
        optimizer.step()
    return kept, now
