"""Weights, trackers, activations and functions, against second computations."""

import pathlib
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from depthrank.baselines import baseline
from depthrank.checkpoints import read_weights
from depthrank.dynamics.trajectory import read_course
from depthrank.errors import DepthrankError
from depthrank.networks.activations import activation_table
from depthrank.networks.clock import clock_rate
from depthrank.networks.functions import churn, jacobian_ranks, jacobians, tangent_kernel
from depthrank.networks.functions import tangent_kernel_measures as kernel_measures
from depthrank.networks.layers import Rules, find_layers
from depthrank.networks.measures import end_to_end_matrix, spectra_of, weight_table
from depthrank.networks.models import RESNETS, mlp, resnet
from depthrank.networks.tracker import RankTracker

pytestmark = pytest.mark.torch


def by_numpy(W):
    """Effective ranks of out x rest, from NumPy's SVD alone."""
    s = np.linalg.svd(W.detach().double().numpy().reshape(len(W), -1), compute_uv=False)
    result = []
    for power in (1, 2):
        p = s**power / np.sum(s**power)
        result.append(np.exp(-np.sum(p[p > 0] * np.log(p[p > 0]))))
    return [np.sum(s**2) / s[0] ** 2, *result]


def small_transformer():
    layer = nn.TransformerEncoderLayer(24, 4, 40, batch_first=True, dropout=0.0)
    return nn.Sequential(nn.Embedding(11, 24), nn.TransformerEncoder(layer, 2), nn.Linear(24, 11))


@pytest.mark.parametrize("make", [lambda: resnet(18), small_transformer])
def test_tracker_agrees_with_numpy_on_every_weight(make):
    model = make()
    data = RankTracker(model, updates=False).dataset()
    found = data.isel(time=0)
    parameters = dict(model.named_parameters())
    for k, name in enumerate(found.layer.values):
        W = parameters[name.split("[")[0]]
        if "[" in name:
            W = W.chunk(3)["qkv".index(name[-2])]
        values = [
            float(found[m][k]) for m in ("stable_rank", "effective_rank", "effective_rank_power2")
        ]
        np.testing.assert_allclose(values, by_numpy(W), rtol=1e-5)


def test_published_counts_of_convolutions():
    convs = {}
    for depth in (10, 18, 34, 50, 101):
        with torch.device("meta"):
            model = resnet(depth, width=8)
        convs[depth] = sum(isinstance(m, nn.Conv2d) for m in model.modules())
    assert convs == {10: 12, 18: 20, 34: 36, 50: 53, 101: 104}
    assert set(convs) == set(RESNETS)


def test_every_method_agrees_and_a_low_rank_stack_is_not_rounded():
    a, b = torch.randn(2, 5, 9), torch.randn(1, 9, 2) @ torch.randn(1, 2, 5)
    for s, X in zip(spectra_of([a, b]), (a, b), strict=True):
        exact = np.linalg.svd(X.double().numpy(), compute_uv=False)
        np.testing.assert_allclose(s, np.sort(exact.ravel())[::-1], rtol=1e-7, atol=1e-9)
    svd, gram = (spectra_of([a], method=m)[0] for m in ("svd", "gram"))
    np.testing.assert_allclose(svd, gram, rtol=1e-7)
    with pytest.raises(DepthrankError, match="method is 'qr'"):
        spectra_of([a], method="qr")
    half = spectra_of([(6e4 * torch.eye(3)).half()[None]])[0]
    np.testing.assert_allclose(half, 6e4, rtol=1e-3)


def test_grouped_and_transposed_convolutions_are_their_operators():
    grouped, back = nn.Conv2d(4, 6, 1, groups=2), nn.ConvTranspose2d(3, 5, 1)
    layers, _ = find_layers(nn.Sequential(grouped, back))
    for layer, channels in zip(layers, (4, 3), strict=True):
        module = layer.module
        eye = torch.eye(channels)[:, :, None, None]
        operator = (module(eye) - module.bias[:, None, None])[:, :, 0, 0]
        exact = np.linalg.svd(operator.detach().double().numpy(), compute_uv=False)
        np.testing.assert_allclose(spectra_of([layer.stack()])[0], exact, rtol=1e-5)


def test_what_is_not_measured_has_a_reason():
    model = small_transformer()
    model[2].weight = model[0].weight
    layers, skipped = find_layers(model)
    reasons = {one.name: one.reason for one in skipped}
    assert "tied: the parameter 0.weight" in reasons["2.weight"]
    assert "vector" in reasons["2.bias"]
    assert {one.name for one in layers if one.kind == "attention"} == {
        f"1.layers.{i}.self_attn.in_proj_weight[{p}]" for i in (0, 1) for p in "qkv"
    }
    with pytest.raises(DepthrankError, match="no weight that can be measured"):
        find_layers(nn.BatchNorm1d(3))
    with pytest.raises(DepthrankError, match="give roles to none"):
        find_layers(model, Rules(roles={"none": "body"}))
    roles = {one.name: one.role for one in find_layers(resnet(10, width=2))[0]}
    assert [roles["0.weight"], roles["4.shortcut.0.weight"], roles["9.weight"]] == [
        "stem",
        "shortcut",
        "head",
    ]


def test_table_stands_beside_the_untrained_baseline():
    rows = weight_table(mlp((90, 60, 4)))
    assert rows[0]["ratio"]["effective_rank_power2"] == pytest.approx(1, abs=0.02)
    assert rows[0]["baseline"] == baseline(60, 90)
    assert rows[-1]["status"] == "skipped"


def test_tracker_snapshots_updates_levels_and_files(tmp_path):
    model = mlp((7, 6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, weight_decay=0.01)
    tracker = RankTracker(model, every=3, loss_levels=(1.0, 0.5), optimizer=optimizer)
    u, v = torch.randn(6, 1), torch.randn(1, 7)
    for k in range(4):
        with torch.no_grad():
            model[0].weight += u @ v
        tracker.step(loss=[2.0, 0.4, 0.3, 0.2][k], accuracy=k)
    data = tracker.dataset()
    assert list(data.time.values) == [0, 2, 3]
    np.testing.assert_equal(data.level.values, [np.nan, 0.5, np.nan])
    np.testing.assert_allclose(data.update_effective_rank[1:, 0], 1, rtol=1e-5)
    np.testing.assert_allclose(data.clock, [0, 0.004, 0.006])
    assert clock_rate(optimizer) == pytest.approx(0.002)
    assert len(tracker.plot().axes) == 3
    tracker.save(tmp_path / "run.nc")
    assert read_course(tmp_path / "run.nc").drop_attrs().equals(data.drop_attrs())
    assert 0 <= tracker.overhead < 1
    with torch.no_grad():
        model[0].weight[0, 0] = torch.nan
    with pytest.warns(UserWarning, match=r"step 4: 0\.weight hold NaN or infinity"):
        tracker.snapshot()
    with pytest.raises(DepthrankError, match="every is 0"):
        RankTracker(model, every=0)


class Functional(nn.Module):
    """One module, three activations, none of them a module."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(5, 8), nn.Linear(8, 8)

    def forward(self, x):
        h = functional.relu(self.a(x)).clamp(min=0)
        return torch.tanh(100 * self.b(h))


def test_functional_activations_are_seen_and_dead_units_counted():
    model = Functional()
    with torch.no_grad():
        model.a.weight[:3], model.a.bias[:3] = 0.0, -1.0
    rows = activation_table(model, torch.randn(50, 5))
    assert [row["function"] for row in rows] == ["relu", "relu", "tanh"]
    assert rows[0]["dead"] == rows[0]["dormant"] == 3 / 8
    assert rows[2]["saturated"] is not None
    assert rows[0]["saturated"] is None
    with torch.no_grad():
        model.a.bias[:] = -100.0
    dead = activation_table(model, torch.randn(50, 5))[0]
    assert (dead["dead"], dead["dormant"], dead["effective_rank"]) == (1, 1, 0)


def test_transformers_fast_path_hides_nothing_and_no_activation_is_an_error():
    model = small_transformer()
    rows = activation_table(model, torch.zeros(2, 7, dtype=torch.long))
    assert [row["units"] for row in rows] == [40, 40]
    with pytest.raises(DepthrankError, match="no activation was seen in Sequential"):
        activation_table(mlp((4, 3, 2), activation="linear"), torch.randn(5, 4))


def test_jacobian_of_a_linear_network_is_its_product():
    model = mlp((6, 5, 4), activation="linear")
    J = jacobians(model, torch.randn(3, 6))
    product = end_to_end_matrix(model)
    np.testing.assert_allclose(J[2], product.float(), rtol=1e-5, atol=1e-7)
    found = jacobian_ranks(model, torch.randn(3, 6))["effective_rank"]
    assert found == pytest.approx(by_numpy(product)[1], rel=1e-4)
    with pytest.raises(DepthrankError, match="needs linear layers alone"):
        end_to_end_matrix(resnet(10, width=2))


def test_tangent_kernel_of_depth_one_is_known_and_decoupled():
    model, x = nn.Linear(4, 3, bias=False), torch.randn(5, 4)
    K = tangent_kernel(model, x)
    exact = np.einsum("ij,ab->iajb", (x @ x.T).double().numpy(), np.eye(3))
    np.testing.assert_allclose(K, exact, atol=1e-6)
    found = kernel_measures(K)
    np.testing.assert_allclose(found["output_coupling"], np.eye(3), atol=1e-7)
    deep = kernel_measures(tangent_kernel(mlp((4, 6, 3)), x))
    assert deep["output_coupling"][0, 1] > 0.01
    assert churn(model, model, x) == 0


class Evil:
    target = ""

    def __reduce__(self):
        return pathlib.Path.touch, (pathlib.Path(self.target),)


def test_untrusted_file_runs_no_code_and_the_refusal_says_so(tmp_path):
    target = tmp_path / "ran"
    evil = Evil()
    evil.target = str(target)
    torch.save({"W": torch.eye(2), "hook": evil}, tmp_path / "evil.pt")
    (tmp_path / "raw.pt").write_bytes(pickle.dumps(evil))
    for name in ("evil.pt", "raw.pt"):
        with pytest.raises(
            DepthrankError, match=r"was refused: it holds Python objects .* run code"
        ):
            read_weights(tmp_path / name)
    assert not target.exists()
    pickle.loads((tmp_path / "raw.pt").read_bytes())
    assert target.exists()  # it would have run


def test_checkpoints_give_the_models_weights(tmp_path):
    model = mlp((4, 3, 2))
    optimizer = torch.optim.Adam(model.parameters())
    saved = {"state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}
    torch.save(saved, tmp_path / "c.pt")
    found = read_weights(tmp_path / "c.pt")
    assert list(found) == list(model.state_dict())
    torch.save({"W": torch.eye(2).bfloat16()}, tmp_path / "b.bin")
    np.testing.assert_array_equal(read_weights(tmp_path / "b.bin")["W"], np.eye(2))
    (tmp_path / "d.pt").write_bytes(b"PK\x03\x04 damaged")
    with pytest.raises(DepthrankError, match="cannot be read as weights of PyTorch"):
        read_weights(tmp_path / "d.pt")
