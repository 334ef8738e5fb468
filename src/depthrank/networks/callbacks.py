"""A `RankTracker` in other people's training loops, and its numbers in their logs.

None of their packages is imported here: the classes are the hooks alone, to be put in front of the
callback class of the package, which brings the hooks that are not needed. Trackers are made from
the model before training. Where weights are split over processes (FSDP, ZeRO) nothing whole is
there to be measured; where each process holds all of them, each measures.
"""

import math
from typing import Any

from depthrank.errors import DepthrankError
from depthrank.networks.tracker import RankTracker

__all__ = ["HuggingFaceRanks", "LightningRanks", "RankWriter"]


class RankWriter:
    """Writes a tracker's numbers to TensorBoard, Weights & Biases or whatever is used like them.

    Parameters
    ----------
    tracker : RankTracker
    to : object
        With `add_scalar(name, value, step)`, as TensorBoard's `SummaryWriter` has it, or
        `log({name: value}, step=step)`, as a run of Weights & Biases.
    prefix : str
        Begins every name.

    Raises
    ------
    DepthrankError
        If `to` has neither.
    """

    def __init__(self, tracker: RankTracker, to: Any, prefix: str = "ranks/") -> None:
        if not (hasattr(to, "add_scalar") or hasattr(to, "log")):
            raise DepthrankError(
                f"an object of type {type(to).__name__} has neither add_scalar nor log; "
                "give a TensorBoard SummaryWriter, a Weights & Biases run, or one like it."
            )
        self._tracker, self._to, self._prefix = tracker, to, prefix
        self._written = 0

    def write(self) -> None:
        """Write the snapshots since the last call: averages over layers, loss, extras, clock."""
        if len(self._tracker) == self._written:
            return
        data = self._tracker.dataset(since=self._written)
        self._written = len(self._tracker)
        for t, step in enumerate(data.time.values.tolist()):
            values = {
                self._prefix + str(name): float(data[name][t])
                for name in data.data_vars
                if data[name].dims == ("time",) and not math.isnan(data[name][t])
            }
            if hasattr(self._to, "add_scalar"):
                for name, value in values.items():
                    self._to.add_scalar(name, value, step)
            else:
                self._to.log(values, step=step)


class _Hooks:
    """What both kinds share: a tracker, perhaps a writer, the loss that was heard of last."""

    def __init__(self, tracker: RankTracker, writer: RankWriter | None = None) -> None:
        super().__init__()
        self.tracker, self.writer = tracker, writer
        self._loss: Any = None
        self._write()

    def _step(self) -> None:
        self.tracker.step(self._loss)
        self._write()

    def _epoch(self) -> None:
        self.tracker.epoch(self._loss)
        self._write()

    def _write(self) -> None:
        if self.writer is not None:
            self.writer.write()


class LightningRanks(_Hooks):
    """Hooks for a Lightning `Trainer`.

    Parameters
    ----------
    tracker : RankTracker
        Of the module or of a part of it.
    writer : RankWriter, optional
        Told after every step.

    Notes
    -----
    A step is one of the optimiser: batches whose gradients are only accumulated do not count. The
    loss is that of the last batch, as `training_step` returned it.

    Examples
    --------
    >>> import lightning  # doctest: +SKIP
    >>> class Ranks(LightningRanks, lightning.Callback): ...  # doctest: +SKIP
    >>> trainer = lightning.Trainer(callbacks=[Ranks(RankTracker(module))])  # doctest: +SKIP
    """

    _seen = 0

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        """Begin counting where a resumed training begins."""
        self._seen = trainer.global_step

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any) -> None:
        """Tell of a step, if there was one."""
        self._loss = outputs.get("loss") if hasattr(outputs, "get") else outputs
        if trainer.global_step != self._seen:
            self._seen = trainer.global_step
            self._step()

    def on_train_epoch_end(self, *_: Any) -> None:
        """Tell of an epoch."""
        self._epoch()


class HuggingFaceRanks(_Hooks):
    """Hooks for a `Trainer` of Hugging Face Transformers.

    Parameters
    ----------
    tracker : RankTracker
        Of the model that is given to the trainer.
    writer : RankWriter, optional
        Told after every step.

    Notes
    -----
    The trainer tells callbacks no loss but the mean that it logs every `logging_steps`: loss
    levels are judged by the last of these, one step after it was logged at the earliest.

    Examples
    --------
    >>> import transformers  # doctest: +SKIP
    >>> class Ranks(HuggingFaceRanks, transformers.TrainerCallback): ...  # doctest: +SKIP
    >>> trainer.add_callback(Ranks(RankTracker(model)))  # doctest: +SKIP
    """

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Keep the loss."""
        self._loss = (logs or {}).get("loss", self._loss)

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Tell of a step of the optimiser."""
        self._step()

    def on_epoch_end(self, *_: Any, **__: Any) -> None:
        """Tell of an epoch."""
        self._epoch()
