"""Warm against cold with growing data: paired arms, and an audit of their learning rates.

The published script steps one cosine schedule, sized for the full data, through both phases of the
warm arm, while the cold arm's second phase runs at the constant start rate. `published_schedule`
repeats that; otherwise both arms see one constant rate and a fresh optimiser in each phase.
"""

import json
import math
from collections.abc import Callable, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

__all__ = ["audit", "warm_cold"]


def warm_cold(
    make: Callable[[], nn.Module],
    data: Callable[[int], tuple[Any, ...]],
    *,
    seeds: Sequence[int],
    epochs: int,
    learning_rate: float,
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    batch: int = 64,
    published_schedule: bool = False,
    keep_optimizer: bool = False,
    remedy: Callable[[nn.Module, Any], None] | None = None,
    records: Path | None = None,
) -> list[dict[str, Any]]:
    """Train on half the data, then on all, against training on all afresh.

    Parameters
    ----------
    make : callable
        Builds the network; the seed of PyTorch is set before, so that both arms start alike.
    data : callable
        seed -> (x, y, x_test, y_test); the first half of x is phase 1.
    seeds : sequence of int
        Both arms share start, data and order of batches in phase 2.
    epochs, learning_rate, momentum, weight_decay, batch
        Of SGD with Nesterov momentum, per phase.
    published_schedule : bool
        The published handling (see above); the optimiser is then kept too.
    keep_optimizer : bool
        Keep the momenta of phase 1.
    remedy : callable, optional
        (model, optimizer) -> None between the phases of the warm arm.
    records : path, optional
        JSON lines; runs that are in there are not repeated.

    Returns
    -------
    list of dict
        Per seed and arm: `seed`, `arm`, `status` ("done" or "diverged"), `loss` (training, at the
        end), `accuracy` (test), `rate_sum` (sum of the optimiser's learning rates in phase 2).
    """
    done = {}
    if records is not None and records.exists():
        for line in records.read_text().splitlines():
            old = json.loads(line)
            done[(old["seed"], old["arm"])] = old
    rows = []
    for seed in seeds:
        x, y, x_test, y_test = data(seed)
        half = len(x) // 2
        length = math.ceil(len(x) / batch) * epochs if published_schedule else 0
        for arm in ("cold", "warm"):
            if (seed, arm) in done:
                rows.append(done[(seed, arm)])
                continue
            torch.manual_seed(seed)
            model = make()
            schedule = _Schedule(learning_rate, length if arm == "warm" else 0)
            settings = {"momentum": momentum, "weight_decay": weight_decay, "nesterov": True}
            if momentum == 0:
                settings["nesterov"] = False
            optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, **settings)
            if arm == "warm":
                _phase(model, optimizer, schedule, x[:half], y[:half], epochs, batch, seed)
                if not (published_schedule or keep_optimizer):
                    optimizer.state.clear()
                if remedy is not None:
                    remedy(model, optimizer)
            used = _phase(model, optimizer, schedule, x, y, epochs, batch, seed + 1)
            row = {"seed": seed, "arm": arm, **_score(model, x, y, x_test, y_test)}
            row |= {"rate_sum": used, "published_schedule": published_schedule}
            rows.append(row)
            if records is not None:
                with records.open("a") as stream:
                    stream.write(json.dumps(row) + "\n")
    return rows


class _Schedule:
    """The learning rate step by step: constant, or PyTorch's cosine, which climbs again past T."""

    def __init__(self, rate: float, length: int) -> None:
        self.rate, self.length, self.step = rate, length, 0

    def next(self) -> float:
        k, self.step = self.step, self.step + 1
        if not self.length:
            return self.rate
        return self.rate * (1 + math.cos(math.pi * k / self.length)) / 2


def _phase(
    model: nn.Module,
    optimizer: Any,
    schedule: _Schedule,
    x: Any,
    y: Any,
    epochs: int,
    batch: int,
    seed: int,
) -> float:
    """Train; return the sum of the learning rates that the optimiser used."""
    order = torch.Generator().manual_seed(seed)
    model.train()
    used = []
    for _ in range(epochs):
        for at in torch.randperm(len(x), generator=order).split(batch):
            for group in optimizer.param_groups:
                group["lr"] = schedule.next()
            used.append(optimizer.param_groups[0]["lr"])
            optimizer.zero_grad()
            functional.cross_entropy(model(x[at]), y[at]).backward()
            optimizer.step()
    return math.fsum(used)


@torch.no_grad()
def _score(model: nn.Module, x: Any, y: Any, x_test: Any, y_test: Any) -> dict[str, Any]:
    judged = deepcopy(model).eval()
    loss = float(functional.cross_entropy(judged(x), y))
    accuracy = float((judged(x_test).argmax(1) == y_test).float().mean())
    status = "done" if math.isfinite(loss) else "diverged"
    return {"status": status, "loss": loss, "accuracy": accuracy}


def audit(rows: Sequence[dict[str, Any]], tolerance: float = 0.01) -> dict[str, Any]:
    """Compare the learning rates that the arms saw in phase 2.

    Returns
    -------
    dict
        `ratio`, warm over cold, mean of the seeds; `equal`, whether it is 1 within the tolerance.
        A gap between arms of unequal rates says nothing about plasticity.
    """
    sums = {arm: [row["rate_sum"] for row in rows if row["arm"] == arm] for arm in ("warm", "cold")}
    ratio = math.fsum(sums["warm"]) / math.fsum(sums["cold"])
    return {"ratio": ratio, "equal": abs(ratio - 1) <= tolerance}
