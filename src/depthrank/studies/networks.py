"""Practical networks: which of the paper's trends show, where, and where they do not."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.studies import drawing
from depthrank.studies.claim import Claim, above, below, between, mean_interval
from depthrank.studies.study import Data, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """Seeds of each part; depths of the sweep; tasks of random labels; most steps, and epochs."""

    seeds: int = 5
    masked_seeds: int = 10
    schedule_seeds: int = 6
    depths: tuple[int, ...] = (2, 3, 4, 5)
    tasks: int = 15
    sweep_steps: int = 4000
    masked_steps: int = 6000
    epochs: int = 40


def run(settings: Settings, seed: int) -> Data:
    """Run all parts on offline data; needs PyTorch."""
    try:
        from depthrank.networks import quick
        from depthrank.networks.processor import quick_for_small_networks
    except ModuleNotFoundError as error:
        raise DepthrankError(str(error)) from error

    def draws(n: int) -> list[int]:
        return [1000 * seed + k for k in range(n)]

    with quick_for_small_networks():
        return {
            "depths": np.array(settings.depths),
            "sweeps": {
                name: quick.depth_sweep(
                    name, settings.depths, draws(settings.seeds), steps=settings.sweep_steps
                )
                for name in quick.SWEEPS
            },
            "masked": {
                depth: quick.masked_plasticity(
                    depth,
                    draws(settings.masked_seeds),
                    quick.ARMS if depth == 2 else ("none",),
                    steps=settings.masked_steps,
                )
                for depth in (2, 3, 4)
            },
            "schedules": {
                name: quick.schedules(
                    draws(settings.schedule_seeds),
                    published=name == "published",
                    epochs=settings.epochs,
                )
                for name in ("corrected", "published")
            },
            "labels": {
                arm: quick.random_labels(arm, 5, draws(settings.seeds), settings.tasks)
                for arm in quick.LABEL_ARMS
            },
        }


def figure(data: Data) -> "Figure":
    """Ranks by depth; the masked task; random labels."""
    fig, axes = drawing.panels(3, width=3.9)
    for name, found in data["sweeps"].items():
        axes[0].plot(data["depths"], found["layers"].mean(1), "o-", label=name)
    drawing.title(axes[0], "equal loss: average over layers", "weight matrices", "effective rank")
    axes[0].set_ylim(bottom=0)
    drawing.legend(axes[0])
    for depth, found in data["masked"].items():
        for shift, arm in ((-0.1, "cold"), (0.1, "none")):
            values = found[arm][1]
            mark = "o" if arm == "cold" else "x"
            x = np.full(values.size, depth + shift)
            axes[1].plot(x, values, mark, color=drawing.depth_colour(depth))
    drawing.title(axes[1], "masked task: cold (o), warm (x)", "weight matrices", "unseen RMSE")
    for arm, values in data["labels"].items():
        tasks = np.arange(1, values.shape[1] + 1)
        axes[2].plot(tasks, values.mean(0), label=arm if arm != "none" else "no remedy")
    drawing.title(axes[2], "new random labels, depth 5", "task", "training accuracy")
    drawing.legend(axes[2])
    return fig


def _mean(make: Any, id: str, statement: str, values: Any, *bounds: float) -> Claim:
    """Claim about the mean of paired draws, its whole interval."""
    found = mean_interval(values)
    claim: Claim = make(f"networks/{id}", statement, found.pop("measured"), *bounds, **found)
    return claim


def claims(data: Data) -> list[Claim]:
    """Decide the claims."""
    return [
        *_sweep_claims(data["sweeps"], data["depths"]),
        *_masked_claims(data["masked"]),
        *_schedule_claims(data["schedules"]),
        *_label_claims(data["labels"]),
    ]


def _sweep_claims(sweeps: Any, depths: Any) -> list[Claim]:
    small, identity = sweeps["small start"], sweeps["identity start"]
    span = f"depth {depths[0]} minus depth {depths[-1]}"

    def fall(found: Any, key: str) -> Any:
        return found[key][0] - found[key][-1]

    steps = -np.diff(small["layers"], axis=0).max(axis=0)
    result = [
        _mean(
            above,
            "layer-average",
            "Small-start ReLU networks at equal loss: the layer-average effective rank (power 2) "
            f"falls with depth ({span}).",
            fall(small, "layers"),
            0.0,
        ),
        _mean(above, "every-step", "It falls at every step of depth (smallest).", steps, 0.0),
    ]
    for key, text in (
        ("update", "rank of what was learnt, W - W_0 (power 2)"),
        ("product", "rank of the product of all weights (power 1)"),
        ("jacobian", "rank of the input-output Jacobian (power 1)"),
    ):
        statement = f"In the same networks the {text} falls ({span})."
        result.append(_mean(above, key, statement, fall(small, key), 0.0))
    result += [
        _mean(
            below,
            "identity-control",
            "Control, hidden layers started at the identity: the layer average does not fall "
            f"({span}).",
            fall(identity, "layers"),
            0.0,
        ),
        _mean(
            between,
            "identity-product",
            f"Control: nor does the rank of the product ({span}).",
            fall(identity, "product"),
            -0.5,
            0.5,
        ),
        _mean(
            between,
            "default-start",
            "Where the trend is absent: from PyTorch's default start the layer average is flat "
            f"({span}; it started at 38.5).",
            fall(sweeps["default start"], "layers"),
            -2.0,
            2.0,
        ),
    ]
    for name in ("Adam", "RMSprop"):
        statement = f"{name}, small start: the layer average falls with depth ({span})."
        result.append(_mean(above, name.lower(), statement, fall(sweeps[name], "layers"), 0.0))
    return result


def _masked_claims(masked: Any) -> list[Claim]:
    two, four = masked[2], masked[4]
    gap = {depth: found["none"][1] - found["cold"][1] for depth, found in masked.items()}
    result = [
        _mean(
            above,
            "masked-rank-2",
            "Masked task, rank-one truth, labels in unconnected groups: depth 2 ends phase 1 at "
            "high effective rank.",
            two["first"],
            2.5,
        ),
        _mean(below, "masked-rank-4", "Depth 4 ends it near rank one.", four["first"], 1.5),
        _mean(
            above,
            "masked-gap-2",
            "Connecting labels are added: depth 2 has lost plasticity, error on unseen labels, "
            "warm minus cold.",
            gap[2],
            0.1,
        ),
        _mean(below, "masked-gap-4", "Depth 4 has not: warm minus cold.", gap[4], 0.05),
    ]
    worst = two["none"][1]
    helps = {
        "shrink and perturb": "to 0.03",
        "DASH": "floor 0.05",
        "L2": "1e-3",
        "L2 to the start": "1e-3",
        "re-initialisation": "all weights",
    }
    for arm, how in helps.items():
        statement = f"Remedy, masked task at depth 2: {arm} ({how}) lowers the unseen error by"
        id = "remedy-" + arm.lower().replace(" ", "-")
        result.append(_mean(above, id, f"{statement} ...", worst - two[arm][1], 0.0))
    return [
        *result,
        _mean(
            below,
            "remedy-spectral-regularisation",
            "Spectral regularisation (1e-3), which holds singular values up, does not: it lowers "
            "the unseen error by at most a little.",
            worst - two["spectral regularisation"][1],
            0.05,
        ),
        _mean(
            between,
            "remedy-optimiser-reset",
            "Resetting an optimiser without memory changes nothing.",
            worst - two["optimiser reset"][1],
            -1e-12,
            1e-12,
        ),
    ]


def _schedule_claims(schedules: Any) -> list[Claim]:
    right, wrong = schedules["corrected"], schedules["published"]
    return [
        _mean(
            below,
            "published-schedule",
            "Small ResNet, 150 then 300 digits: under the published learning-rate handling warm "
            "falls behind cold (points of test accuracy, warm minus cold).",
            wrong["gap"],
            -1.0,
        ),
        _mean(
            above,
            "corrected-schedule",
            "With equal learning rates and a fresh optimiser in both arms it does not (same).",
            right["gap"],
            -1.5,
        ),
        below(
            "networks/audit-published",
            "The audit tells: sum of learning rates in phase 2, warm over cold, as published.",
            wrong["ratio"],
            0.5,
        ),
        between(
            "networks/audit-corrected",
            "The same, corrected.",
            right["ratio"],
            0.999999,
            1.000001,
        ),
    ]


def _label_claims(labels: Any) -> list[Claim]:
    none = labels["none"]
    result = [
        _mean(
            below,
            "unrelated-targets",
            "The other axis: on new random labels again and again a depth-5 network loses "
            "trainability (training accuracy, last task minus first).",
            none[:, -1] - none[:, 0],
            -0.05,
        )
    ]
    for arm, values in labels.items():
        if arm != "none":
            statement = f"Remedy, random labels: {arm} raises the accuracy of the last task by ..."
            id = "labels-" + arm.lower().replace(" ", "-")
            result.append(_mean(above, id, statement, values[:, -1] - none[:, -1], 0.0))
    return result


STUDY = Study(
    name="networks",
    title="Practical networks",
    source="Section on experiments with neural networks",
    summary="Layer averages fall with depth from small starts and not from others; ranks of the "
    "product, the Jacobian and the update tell more. New data that share the old structure and new "
    "unrelated targets are two different tests of plasticity, and depth acts in opposite ways.",
    caption="Left: average effective rank at equal training loss. Middle: a linear network whose "
    "labels are first in unconnected groups. Right: remedies on unrelated targets.",
    quick=Settings(),
    full=Settings(seeds=10, masked_seeds=20, schedule_seeds=20, depths=(2, 3, 4, 5, 6), tasks=20),
    run=run,
    figure=figure,
    claims=claims,
    needs="torch",
)
