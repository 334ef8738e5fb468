"""Hooks and writers, in stand-ins that call them as the packages do."""

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import xarray

from depthrank.errors import DepthrankError
from depthrank.networks.callbacks import HuggingFaceRanks, LightningRanks, RankWriter
from depthrank.networks.models import mlp
from depthrank.networks.tracker import RankTracker

pytestmark = pytest.mark.torch


class Callback:
    """Base class of a package: every hook is there and does nothing."""

    def __init__(self):
        self.base_was_made = True

    def _nothing(self, *args, **kwargs):
        pass

    on_train_start = on_train_batch_end = on_train_epoch_end = on_fit_end = _nothing
    on_train_begin = on_step_begin = on_step_end = on_log = on_epoch_end = _nothing


class InLightning(LightningRanks, Callback):
    pass


class InHuggingFace(HuggingFaceRanks, Callback):
    pass


class Board:
    def __init__(self):
        self.told = []

    def add_scalar(self, name, value, step):
        self.told.append((name, value, step))


class Run:
    def __init__(self):
        self.told = []

    def log(self, values, step=None):
        self.told += [(name, value, step) for name, value in values.items()]


def fit_lightning(callback, losses, *, accumulate=1, begin=0, outputs=lambda loss: {"loss": loss}):
    trainer = SimpleNamespace(global_step=begin)
    callback.on_train_start(trainer, None)
    for epoch in losses:
        for i, loss in enumerate(epoch):
            trainer.global_step += (i + 1) % accumulate == 0
            callback.on_train_batch_end(trainer, None, outputs(loss), None, i)
        callback.on_train_epoch_end(trainer, None)
    callback.on_fit_end(trainer, None)


def fit_hugging_face(callback, losses, *, logging_steps=1):
    args: tuple[Any, ...] = (SimpleNamespace(), SimpleNamespace(global_step=0), SimpleNamespace())
    model = object()
    callback.on_train_begin(*args, model=model)
    for epoch in losses:
        for i, loss in enumerate(epoch):
            callback.on_step_begin(*args, model=model)
            callback.on_step_end(*args, model=model, optimizer=None)
            if (i + 1) % logging_steps == 0:
                callback.on_log(*args, model=model, logs={"loss": loss, "epoch": 0.1})
        callback.on_epoch_end(*args, model=model)
    callback.on_log(*args, model=model, logs={"train_runtime": 1.0})


def tracked(**settings):
    return RankTracker(mlp((5, 4, 4, 3)), **settings)


LOSSES = [[0.9, 0.7, 0.6, 0.5], [0.4, 0.35, 0.3, 0.2]]


def test_lightning_steps_epochs_and_losses():
    tracker = tracked(every=3)
    callback = InLightning(tracker)
    assert callback.base_was_made
    fit_lightning(callback, LOSSES)
    data = tracker.dataset()
    np.testing.assert_array_equal(data.time, [0, 3, 6])
    np.testing.assert_array_equal(data.loss, [np.nan, 0.6, 0.35])
    np.testing.assert_array_equal(data.epoch, [0, 0, 1])


def test_lightning_levels_and_epochs():
    tracker = tracked(every="epoch", loss_levels=(0.65,))
    fit_lightning(InLightning(tracker), LOSSES, outputs=torch.tensor)
    data = tracker.dataset()
    np.testing.assert_array_equal(data.time, [0, 3, 4, 8])
    np.testing.assert_array_equal(data.epoch, [0, 0, 1, 2])
    np.testing.assert_allclose(data.loss, [np.nan, 0.6, 0.5, 0.2], rtol=1e-6)


def test_lightning_counts_steps_of_the_optimiser_only():
    tracker = tracked(every=1)
    fit_lightning(InLightning(tracker), LOSSES, accumulate=2, begin=100, outputs=lambda _: None)
    np.testing.assert_array_equal(tracker.dataset().time, range(5))
    assert np.isnan(tracker.dataset().loss).all()


def test_hugging_face_steps_epochs_and_logged_losses():
    tracker = tracked(every=2, loss_levels=(0.5,))
    callback = InHuggingFace(tracker)
    assert callback.base_was_made
    fit_hugging_face(callback, LOSSES, logging_steps=2)
    data = tracker.dataset()
    # what was logged last: 0.7 after step 2, 0.5 after step 4, 0.35 after step 6
    np.testing.assert_array_equal(data.time, [0, 2, 4, 4, 6, 8])
    np.testing.assert_array_equal(data.loss, [np.nan, np.nan, 0.7, 0.5, 0.5, 0.35])
    np.testing.assert_array_equal(data.level, [np.nan] * 3 + [0.5] + [np.nan] * 2)


@pytest.mark.parametrize("make", [Board, Run])
@pytest.mark.parametrize(
    ("hooks", "fit"), [(InLightning, fit_lightning), (InHuggingFace, fit_hugging_face)]
)
def test_writers_are_told_every_snapshot_once(make, hooks, fit):
    to = make()
    model = mlp((5, 4, 4, 3))
    tracker = RankTracker(model, every=3, extras={"first": lambda m: m[0].weight.detach()[0, 0]})
    fit(hooks(tracker, RankWriter(tracker, to, prefix="r/")), LOSSES)
    data = tracker.dataset()
    keys = [(name, step) for name, _, step in to.told]
    assert len(set(keys)) == len(keys)
    assert {step for _, step in keys} == {0, 3, 6}
    assert ("r/loss", 0) not in keys  # it was not known then
    assert {"r/loss", "r/clock", "r/first", "r/mean_stable_rank"} <= {name for name, _ in keys}
    for name, value, step in to.told:
        assert type(value) is float
        assert value == float(data[name.removeprefix("r/")].sel(time=step))


def test_part_of_the_snapshots_is_that_part_of_the_whole():
    tracker = tracked(every=1)
    for factor in (0.5, 3.0):
        with torch.no_grad():
            for p in tracker._model.parameters():
                p.mul_(factor)
        tracker.step(loss=factor)
    assert len(tracker) == 3
    for since in (1, 2, -1):
        part = tracker.dataset(since=since)
        xarray.testing.assert_identical(
            part.drop_attrs(), tracker.dataset().isel(time=slice(since, None)).drop_attrs()
        )
    with pytest.raises(DepthrankError, match="since is 3; there are 3 snapshots"):
        tracker.dataset(since=3)


def test_writer_needs_somewhere_to_write():
    with pytest.raises(DepthrankError, match="of type object has neither add_scalar nor log"):
        RankWriter(tracked(), object())


def test_no_package_of_theirs_is_imported():
    names = ("lightning", "pytorch_lightning", "transformers", "tensorboard", "wandb")
    code = (
        "import sys, depthrank.networks.callbacks\n"
        f"print([name for name in {names} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
