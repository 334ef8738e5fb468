"""Models, data, remedies, protocols and the quick study, on small cases with known answers."""

import pickle
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from depthrank.errors import DepthrankError
from depthrank.networks import remedies
from depthrank.networks.clock import decay_clock, matching_decay, remaining_start
from depthrank.networks.datasets import cifar, digits, masked_task
from depthrank.networks.models import mlp, resnet
from depthrank.networks.processor import flushes_denormals, quick_for_small_networks
from depthrank.networks.protocols import audit, warm_cold
from depthrank.networks.quick import masked_plasticity
from depthrank.networks.stacked import StackedMLP, train_to_level
from depthrank.studies.networks import STUDY, Settings

pytestmark = pytest.mark.torch


def write_cifar(folder, form, classes):
    """Write a tiny folder in CIFAR's own format; return images and labels of all files."""
    rng = np.random.default_rng(0)
    names = [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]
    names = names if classes == 10 else ["train", "test"]
    told = []
    for name in names:
        x = rng.integers(0, 256, (3, 3072), dtype=np.uint8)
        y = rng.integers(0, classes, 3)
        told.append((x, y))
        if form == "binary":
            extra = [] if classes == 10 else [np.full((3, 1), 7, np.uint8)]
            records = np.hstack([*extra, y[:, None].astype(np.uint8), x])
            (folder / f"{name}.bin").write_bytes(records.tobytes())
        else:
            key = b"labels" if classes == 10 else b"fine_labels"
            content = {b"data": x, key: y.tolist(), b"batch_label": name.encode()}
            (folder / name).write_bytes(pickle.dumps(content, protocol=2))
    return told


@pytest.mark.parametrize("form", ["binary", "python"])
@pytest.mark.parametrize("classes", [10, 100])
def test_cifar_is_read_from_its_own_formats(tmp_path, form, classes):
    told = write_cifar(tmp_path, form, classes)
    found = cifar(tmp_path, classes)
    assert found.x.shape == (3 * (len(told) - 1), 3, 32, 32)
    np.testing.assert_array_equal(found.x_test.reshape(3, -1), told[-1][0])
    np.testing.assert_array_equal(found.y, np.concatenate([y for _, y in told[:-1]]))


@pytest.mark.parametrize(("form", "name"), [("binary", "test.bin"), ("python", "test")])
def test_missing_truncated_and_wrong_files_are_named(tmp_path, form, name):
    write_cifar(tmp_path, form, 100)
    path = tmp_path / name
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    with pytest.raises(DepthrankError, match=rf"{name} .*truncated"):
        cifar(tmp_path, 100)
    path.write_bytes(b"wrong" if form == "python" else b"")
    with pytest.raises(DepthrankError, match=rf"{name} .*not .*CIFAR-100"):
        cifar(tmp_path, 100)
    path.unlink()
    with pytest.raises(DepthrankError, match=rf"{name} is missing; unpack CIFAR-100"):
        cifar(tmp_path, 100)


class Evil:
    def __reduce__(self):
        return print, ("ran",)


def test_a_malicious_cifar_file_runs_nothing(tmp_path, capsys):
    write_cifar(tmp_path, "python", 100)
    (tmp_path / "train").write_bytes(pickle.dumps({b"data": Evil()}))
    with pytest.raises(DepthrankError, match="nothing in it was run"):
        cifar(tmp_path, 100)
    assert capsys.readouterr().out == ""


def test_wrong_label_is_named(tmp_path):
    write_cifar(tmp_path, "binary", 10)
    (tmp_path / "test_batch.bin").write_bytes(bytes([11]) + bytes(3072))
    with pytest.raises(DepthrankError, match=r"test_batch\.bin holds the label 11"):
        cifar(tmp_path)


def test_digits_and_the_masked_task():
    d = digits(1)
    assert (d.x.shape, d.x_test.shape) == ((1437, 64), (360, 64))
    assert abs(d.x.mean()) < 1e-6
    task = masked_task(3, size=12, groups=3, rank=2)
    assert np.linalg.matrix_rank(task["target"]) == 2
    assert task["first"].sum() == 48
    assert (task["second"] >= task["first"]).all()
    with pytest.raises(DepthrankError, match="must divide into 3 groups"):
        masked_task(0, size=10, groups=3)


def number(x):
    return float(x.detach())


def small():
    model = mlp((3, 4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.randn(5, 3)).square().sum().backward()
    optimizer.step()
    return model, optimizer, {n: p.detach().clone() for n, p in model.named_parameters()}


def same(model, before, factor=1.0):
    return all(torch.equal(p, factor * before[n]) for n, p in model.named_parameters())


def test_remedies_at_their_identity_setting_change_nothing():
    model, optimizer, before = small()
    remedies.shrink_and_perturb(model, optimizer, shrink=1.0)
    remedies.dash(model, optimizer, before, floor=1.0)
    assert remedies.redo(model, optimizer, torch.randn(5, 3), tau=0.0) == 0
    assert same(model, before)
    assert len(optimizer.state) == 4
    assert number(remedies.l2(model, 0.0)) == number(remedies.spectral_penalty(model, 0.0)) == 0
    assert number(remedies.l2_to_start(model, before, 5.0)) == 0


def test_remedies_make_the_step_computed_by_hand():
    model, optimizer, before = small()
    remedies.shrink_and_perturb(model, optimizer, shrink=0.5)
    assert same(model, before, 0.5)
    assert not optimizer.state
    assert number(remedies.l2(model, 2.0)) == pytest.approx(
        0.5 * sum(float(p.square().sum()) for p in before.values()), rel=1e-5
    )
    line = nn.Sequential(nn.Linear(2, 2, bias=False))
    with torch.no_grad():
        line[0].weight.copy_(torch.tensor([[3.0, 0.0], [0.0, 2.0]]))
    assert number(remedies.spectral_penalty(line, 0.5)) == pytest.approx(0.5 * (9 - 1) ** 2)
    start = {"0.weight": torch.zeros(2, 2)}
    assert number(remedies.l2_to_start(line, start, 0.1)) == pytest.approx(1.3)
    # -gradient at 60 degrees to the first row, against the second
    slope = torch.tensor([[-0.5, -(0.75**0.5)], [0.0, 1.0]])
    optimizer = torch.optim.SGD(line.parameters(), lr=0.1)
    remedies.dash(line, optimizer, {"0.weight": slope}, floor=0.3)
    np.testing.assert_allclose(line[0].weight.detach(), [[1.5, 0], [0, 0.6]], rtol=1e-6)


def test_redo_recycles_dead_units_and_their_slots():
    model, optimizer, _ = small()
    with torch.no_grad():
        model[0].weight[1], model[0].bias[1] = 0.0, -1.0
    x = torch.randn(50, 3)
    out = model(x)
    for state in optimizer.state.values():
        state["momentum_buffer"].fill_(1.0)
    assert remedies.redo(model, optimizer, x, tau=1e-3) == 1
    torch.testing.assert_close(model(x), out)  # the unit was silent, and its way out is closed
    assert model[0].weight[1].abs().max() > 0
    slot = optimizer.state[model[0].weight]["momentum_buffer"]
    assert slot[1].abs().max() == 0
    assert slot[0].abs().max() == 1


def test_reinitialise_copies_a_fresh_start():
    model, optimizer, _ = small()
    fresh = mlp((3, 4, 2))
    remedies.reinitialise(model, fresh, optimizer)
    assert same(model, dict(fresh.named_parameters()))
    assert not optimizer.state


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: remedies.shrink_and_perturb(m, None, shrink=2.0), "shrink is 2"),
        (lambda m: remedies.dash(m, None, {}, floor=-1.0), "floor is -1"),
        (lambda m: remedies.redo(m, None, None, tau=-1.0), "tau is -1"),
        (lambda _: mlp((3,)), "give one of linear, relu, tanh"),
        (lambda _: resnet(11), "ResNets have 10, 18, 34, 50, 101"),
        (lambda _: decay_clock([1.0], 1.0, 1.0), "momentum is 1"),
        (lambda _: matching_decay(1.0, [0.0]), "sum to 0"),
    ],
)
def test_settings_are_validated(call, message):
    with pytest.raises(DepthrankError, match=message):
        call(mlp((3, 2)))


def test_decay_clock_is_what_weights_do():
    W = torch.ones(1, requires_grad=True)
    optimizer = torch.optim.SGD([W], lr=0.01, momentum=0.5, weight_decay=0.1)
    for _ in range(500):
        W.grad = torch.zeros(1)
        optimizer.step()
    clock = decay_clock([0.01] * 500, 0.1, 0.5)
    assert number(W) == pytest.approx(remaining_start(clock), rel=0.01)
    assert matching_decay(clock, [0.02] * 100, 0.5) == pytest.approx(0.25)


def test_stacked_networks_train_as_if_alone():
    x, y = torch.randn(20, 5), torch.randn(20, 2)
    settings: dict[str, Any] = {"std": 0.5, "dtype": torch.float64}

    def train(seeds):
        model = StackedMLP((5, 6, 2), seeds, **settings)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def losses(_):
            return (model(x.double()) - y.double()).square().mean((1, 2))

        members, final = train_to_level(model, optimizer, losses, level=0.0, steps=30)
        assert members == [None] * len(seeds)
        return model, final

    both, final = train([3, 4])
    alone, one = train([4])
    torch.testing.assert_close(both.weights[1][1], alone.weights[1][0])
    assert float(final[1]) == pytest.approx(float(one[0]))


def test_warm_and_cold_arms_are_paired_audited_and_resumed(tmp_path):
    x = torch.randn(40, 6)
    y = (x[:, 0] > 0).long()
    settings: dict[str, Any] = {"seeds": (0, 1), "epochs": 3, "learning_rate": 0.1, "batch": 10}
    records = tmp_path / "runs.jsonl"

    def run(**more):
        return warm_cold(lambda: mlp((6, 5, 2)), lambda _: (x, y, x, y), **settings, **more)

    rows = run(records=records)
    assert [row["arm"] for row in rows] == ["cold", "warm"] * 2
    assert audit(rows) == {"ratio": pytest.approx(1.0), "equal": True}
    before = records.read_text()
    assert run(records=records) == rows
    assert records.read_text() == before
    published = run(published_schedule=True)
    assert not audit(published)["equal"]
    # cosine over 12 steps, 6 of them in phase 1; then steps 6 to 17 in phase 2
    exact = sum(0.05 * (1 + np.cos(np.pi * k / 12)) for k in range(6, 18))
    assert published[1]["rate_sum"] == pytest.approx(exact)
    assert published[0]["loss"] == rows[0]["loss"]  # the cold arms are the same run


def test_masked_task_loses_plasticity_at_depth_2_only():
    for depth, low, high in ((2, 0.1, 1.0), (4, -0.05, 0.05)):
        found = masked_plasticity(depth, (0, 1, 2), ("none",))
        gap = (found["none"][1] - found["cold"][1]).mean()
        assert low < gap < high


@pytest.mark.parametrize("before", [False, True])
def test_settings_of_the_process_are_put_back(before):
    torch.set_flush_denormal(before)
    torch.set_num_threads(2)
    halves = np.array([np.finfo(float).tiny])

    def enter_and_fail():
        with quick_for_small_networks():
            assert flushes_denormals()
            assert halves / 2 == 0
            assert torch.get_num_threads() == 1
            raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            enter_and_fail()
        assert flushes_denormals() is before
        assert (halves / 2 == 0) == before
        assert torch.get_num_threads() == 2
    finally:
        torch.set_flush_denormal(False)


def test_study_runs_small_and_draws():
    data = STUDY.run(Settings(2, 2, 2, (2, 3), 2, 600, 30, 1), 0)
    claims = STUDY.claims(data)
    assert len({claim.id for claim in claims}) == len(claims) >= 25
    assert all(axes.has_data() for axes in STUDY.figure(data).axes)
    assert not flushes_denormals()
