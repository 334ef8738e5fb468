"""The measurements of `depthrank reproduce networks`: offline data, seeds paired, two CPU cores."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from depthrank.baselines import measures_of
from depthrank.networks import remedies
from depthrank.networks.datasets import digits, masked_task
from depthrank.networks.functions import jacobian_ranks
from depthrank.networks.measures import spectra_of
from depthrank.networks.models import mlp, resnet
from depthrank.networks.protocols import audit, warm_cold
from depthrank.networks.stacked import StackedMLP, train_to_level

__all__ = ["SWEEPS", "depth_sweep", "masked_plasticity", "random_labels", "schedules"]

# (std of the start over 1 / sqrt(inputs) or PyTorch's default, identity control, optimiser)
SWEEPS: dict[str, tuple[float | None, bool, str]] = {
    "small start": (0.3, False, "sgd"),
    "identity start": (0.3, True, "sgd"),
    "default start": (None, False, "sgd"),
    "Adam": (0.3, False, "adam"),
    "RMSprop": (0.3, False, "rmsprop"),
}
_OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.02, momentum=0.9),
    "adam": lambda p: torch.optim.Adam(p, lr=5e-4),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=5e-4),
}


def depth_sweep(
    name: str,
    depths: Sequence[int],
    seeds: Sequence[int],
    *,
    level: float = 0.05,
    steps: int = 4000,
) -> dict[str, np.ndarray]:
    """Train 64-wide ReLU networks on the digits to one loss; ranks by [depth, seed].

    Loss: squared error summed over the ten outputs, averaged over images. Returns `layers` (mean
    effective rank, power 2, of all weights but the last), `update` (the same of W - W_0),
    `product` and `jacobian` (effective rank, power 1), `steps`; NaN where the loss was not reached.
    """
    std, identity, optimizer = SWEEPS[name]
    data = digits(0)
    x, y = torch.tensor(data.x), torch.eye(10)[torch.tensor(data.y)]
    keys = ("layers", "update", "product", "jacobian", "steps")
    result = {key: np.full((len(depths), len(seeds)), np.nan) for key in keys}
    for k, depth in enumerate(depths):
        sizes = (64,) * depth + (10,)
        model = StackedMLP(sizes, seeds, std=std, identity=identity)
        start = [W.detach().clone() for W in model.weights]
        order = torch.Generator().manual_seed(int(seeds[0]))

        def losses(at: Any, model: StackedMLP = model) -> Any:
            inputs, wanted = (x, y) if at is None else (x[at], y[at])
            return (model(inputs) - wanted).square().sum(-1).mean(-1)

        members, _ = train_to_level(
            model,
            _OPTIMIZERS[optimizer](model.parameters()),
            losses,
            level=level,
            steps=steps,
            batch=lambda _, order=order: torch.randint(len(x), (128,), generator=order),  # type: ignore[misc]
            check=5,
        )
        for i, member in enumerate(members):
            if member is not None:
                found = _ranks(member, [W[i] for W in start], sizes, x[:16])
                for key, value in found.items():
                    result[key][k, i] = value
    return result


def _ranks(member: dict[str, Any], start: Any, sizes: Any, probe: Any) -> dict[str, float]:
    weights = member["weights"]
    product = torch.linalg.multi_dot([W.double() for W in reversed(weights)])
    moved = [W - W0 for W, W0 in zip(weights, start, strict=True)]
    stacks = [*weights[:-1], *moved[:-1], product]
    found = [measures_of(s) for s in spectra_of([W[None] for W in stacks])]
    n = len(weights) - 1
    network = mlp(sizes)
    layers = [m for m in network if isinstance(m, nn.Linear)]
    with torch.no_grad():
        for layer, W, b in zip(layers, weights, member["biases"], strict=True):
            layer.weight.copy_(W)
            layer.bias.copy_(b[0])
    return {
        "layers": float(np.mean([one["effective_rank_power2"] for one in found[:n]])),
        "update": float(np.mean([one["effective_rank_power2"] for one in found[n : 2 * n]])),
        "product": found[-1]["effective_rank"],
        "jacobian": jacobian_ranks(network, probe)["effective_rank"],
        "steps": float(member["step"]),
    }


ARMS = (
    "none", "shrink and perturb", "DASH", "L2", "L2 to the start", "re-initialisation",
    "optimiser reset", "spectral regularisation",
)  # fmt: skip


def masked_plasticity(
    depth: int, seeds: Sequence[int], arms: Sequence[str], *, steps: int = 6000
) -> dict[str, Any]:
    """Run the masked task: disconnected labels first, then more; warm with remedies, and cold.

    Linear, bias-free, end-to-end start scale 1e-3, full-batch SGD at 0.5, to an observed mean
    squared error of 1e-4 (looked at every 10 steps) or to `steps`.

    Returns
    -------
    dict
        `first` (effective rank after phase 1), `cold` and each of `arms` as a pair (effective rank,
        RMSE on unseen labels), every one an array over seeds.
    """
    tasks = [masked_task(seed) for seed in seeds]
    target = torch.tensor(np.stack([t["target"] for t in tasks]))
    masks = {p: torch.tensor(np.stack([t[p] for t in tasks])).double() for p in ("first", "second")}

    def fresh(offset: int = 0) -> StackedMLP:
        sizes, own = (20,) * (depth + 1), [seed + offset for seed in seeds]
        std = 1e-3 ** (1 / depth)
        return StackedMLP(sizes, own, std=std, relu=False, bias=False, dtype=torch.float64)

    def train(model: StackedMLP, phase: str, penalty: Callable[[Any], Any] | None = None) -> None:
        mask = masks[phase]

        def losses(training: Any) -> Any:
            error = (model(torch.eye(20, dtype=torch.float64)) - target).square() * mask
            value = error.sum((1, 2)) / mask.sum((1, 2))
            return value if not training or penalty is None else value + penalty(model) / len(value)

        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        members, _ = train_to_level(
            model, optimizer, losses, level=1e-4, steps=steps, batch=lambda _: True, check=10
        )
        with torch.no_grad():  # those that arrived early stay as they were then
            for i, member in enumerate(members):
                for W, kept in zip(
                    model.weights, member["weights"] if member else (), strict=False
                ):
                    W[i] = kept

    def judge(model: StackedMLP) -> tuple[np.ndarray, np.ndarray]:
        with torch.no_grad():
            W = model(torch.eye(20, dtype=torch.float64))
        unseen = 1 - masks["second"]
        error = ((W - target).square() * unseen).sum((1, 2)) / unseen.sum((1, 2))
        found = [measures_of(s)["effective_rank"] for s in spectra_of([one[None] for one in W])]
        return np.array(found), error.sqrt().numpy()

    first, start = fresh(), {n: p.detach().clone() for n, p in fresh().named_parameters()}
    train(first, "first")
    result: dict[str, Any] = {"first": judge(first)[0]}
    cold = fresh()
    train(cold, "second")
    result["cold"] = judge(cold)
    for arm in arms:
        model = fresh()
        model.load_state_dict(first.state_dict())
        penalty = _treat(arm, model, start, fresh, target, masks["second"])
        train(model, "second", penalty)
        result[arm] = judge(model)
    return result


def _treat(
    arm: str, model: StackedMLP, start: Any, fresh: Any, target: Any, mask: Any
) -> Callable[[Any], Any] | None:
    """Apply a remedy between the phases, or return the penalty of the second."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    if arm == "shrink and perturb":
        remedies.shrink_and_perturb(model, optimizer, shrink=0.03)
    elif arm == "DASH":
        error = (model(torch.eye(20, dtype=torch.float64)) - target).square() * mask
        names, parameters = zip(*model.named_parameters(), strict=True)
        slopes = torch.autograd.grad((error.sum((1, 2)) / mask.sum((1, 2))).sum(), parameters)
        remedies.dash(model, optimizer, dict(zip(names, slopes, strict=True)), floor=0.05)
    elif arm == "re-initialisation":
        remedies.reinitialise(model, fresh(10_000), optimizer)
    elif arm == "optimiser reset":
        remedies.reset_optimizer(optimizer)
    elif arm == "L2":
        return lambda m: len(target) * remedies.l2(m, 1e-3)
    elif arm == "L2 to the start":
        return lambda m: len(target) * remedies.l2_to_start(m, start, 1e-3)
    elif arm == "spectral regularisation":
        return lambda m: len(target) * remedies.spectral_penalty(m, 1e-3)
    return None


def schedules(seeds: Sequence[int], *, published: bool, epochs: int = 40) -> dict[str, Any]:
    """Warm against cold on a small ResNet, 150 then 300 digits; gaps in points of test accuracy."""

    def data(seed: int) -> tuple[Any, ...]:
        d = digits(seed)
        x, x_test = (torch.tensor(v.reshape(-1, 1, 8, 8)) for v in (d.x[:300], d.x_test))
        return x, torch.tensor(d.y[:300]), x_test, torch.tensor(d.y_test)

    rows = warm_cold(
        lambda: resnet((1, 1), channels=1, width=16),
        data,
        seeds=seeds,
        epochs=epochs,
        learning_rate=0.01,
        published_schedule=published,
    )
    score = {
        arm: np.array([row["accuracy"] for row in rows if row["arm"] == arm])
        for arm in ("warm", "cold")
    }
    return {"gap": 100 * (score["warm"] - score["cold"]), "ratio": audit(rows)["ratio"]}


LABEL_ARMS = ("none", "shrink and perturb", "ReDo", "optimiser reset", "layer norm")


def random_labels(arm: str, depth: int, seeds: Sequence[int], tasks: int) -> np.ndarray:
    """Fit new random labels again and again (Adam 1e-3, 400 digits, 40 epochs a task).

    Returns
    -------
    ndarray [seeds, tasks]
        Training accuracy at the end of each task.
    """
    x = torch.tensor(digits(0).x[:400])
    result = np.zeros((len(seeds), tasks))
    for i, seed in enumerate(seeds):
        torch.manual_seed(seed)
        model = mlp((64,) * depth + (10,), std=2**0.5, layer_norm=arm == "layer norm")
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        labels = torch.Generator().manual_seed(seed + 1)
        for task in range(tasks):
            y = torch.randint(10, (400,), generator=labels)
            if task and arm == "shrink and perturb":
                remedies.shrink_and_perturb(model, optimizer, shrink=0.8, noise=0.01, seed=task)
            elif task and arm == "ReDo":
                remedies.redo(model, optimizer, x, tau=0.1, seed=task)
            elif task and arm == "optimiser reset":
                remedies.reset_optimizer(optimizer)
            for _ in range(40):
                for at in torch.randperm(400, generator=labels).split(100):
                    optimizer.zero_grad()
                    functional.cross_entropy(model(x[at]), y[at]).backward()
                    optimizer.step()
            with torch.no_grad():
                result[i, task] = float((model(x).argmax(1) == y).float().mean())
    return result
