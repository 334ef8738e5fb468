"""A linear network and a chain of factors are the same thing, and move alike."""

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from torch import nn

from depthrank import DeepMatrixCompletion, Observations, descend, flow
from depthrank.errors import DepthrankError
from depthrank.factors import end_to_end
from depthrank.networks.bridge import observations_of, to_factors, to_module
from depthrank.networks.models import mlp
from depthrank.networks.tracker import RankTracker
from depthrank.spectra import effective_rank, stable_rank

pytestmark = pytest.mark.torch

SIZES = (4, 5, 6, 3)  # n, two hidden widths, m
SAMPLES = 9
ETA, STEPS = 0.02, 300


def start():
    rng = np.random.default_rng(1)
    shapes = zip(SIZES[1:], SIZES[:-1], strict=True)
    return tuple(0.4 * rng.standard_normal(shape) for shape in shapes)


def whitened():
    """Inputs with orthonormal columns, and targets that no linear network fits."""
    rng = np.random.default_rng(2)
    x = np.linalg.qr(rng.standard_normal((SAMPLES, SIZES[0])))[0]
    return torch.tensor(x), torch.tensor(rng.standard_normal((SAMPLES, SIZES[-1])))


def every_label():
    x, y = whitened()
    return x, y, torch.ones_like(y), observations_of(x, y)


def missing_labels():
    """One input for each column of a table with holes."""
    y = whitened()[1][: SIZES[0]]
    seen = torch.ones_like(y)
    seen[0, 1] = seen[2, 0] = seen[3, 2] = 0
    table = Observations.from_mask(y.numpy().T, seen.numpy().T)
    return torch.eye(SIZES[0]).double(), y, seen, table


def half_squares(module, x, y, seen):
    return 0.5 * (seen * (module(x) - y)).square().sum()


def ranks(W):
    return [float(rank(W)) for rank in (effective_rank, stable_rank)]


@pytest.mark.parametrize("problem", [every_label, missing_labels])
def test_descent_of_the_network_is_that_of_the_matrix(problem):
    x, y, seen, table = problem()
    module = to_module(start())
    optimizer = torch.optim.SGD(module.parameters(), lr=ETA)
    tracker = RankTracker(module, every=STEPS // 10, method="svd")
    courses = [to_factors(module)]
    for step in range(STEPS):
        optimizer.zero_grad()
        half_squares(module, x, y, seen).backward()
        optimizer.step()
        tracker.step()
        if (step + 1) % (STEPS // 10) == 0:
            courses.append(to_factors(module))
    with pytest.warns(UserWarning, match="ended as 'steps'"):
        run = descend(
            table,
            factors=start(),
            learning_rate=ETA,
            steps=STEPS,
            record_every=STEPS // 10,
            tol=0.0,
        )
    for W, V in zip(run.factors, courses[-1], strict=True):
        np.testing.assert_allclose(W, V, rtol=0, atol=1e-8)
    products = [end_to_end(factors) for factors in courses]
    assert len(products) == run.data.sizes["time"] == tracker.dataset().sizes["time"] == 11
    s = [np.linalg.svd(W, compute_uv=False) for W in products]
    np.testing.assert_allclose(run.data.singular_values, s, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        np.array([run.data.effective_rank, run.data.stable_rank]).T,
        [ranks(W) for W in products],
        rtol=1e-8,
    )
    moved = np.linalg.norm(products[-1] - products[0])
    assert moved > 1  # they agree on a path, not on standing still
    layers = tracker.dataset().effective_rank.values[-1]
    np.testing.assert_allclose(layers, [ranks(W)[0] for W in run.factors], rtol=1e-8)


def test_flow_of_the_network_is_that_of_the_matrix():
    x, y, seen, table = every_label()
    module = to_module(start())
    parameters = list(module.parameters())

    def slope(_, state):
        nn.utils.vector_to_parameters(torch.tensor(state), parameters)
        gradient = torch.autograd.grad(half_squares(module, x, y, seen), parameters)
        return -nn.utils.parameters_to_vector(gradient).numpy()

    times = np.array([0.0, 0.5, 2.0, 5.0])
    before = nn.utils.parameters_to_vector(parameters).detach().numpy().copy()
    by_autograd = solve_ivp(
        slope, (0.0, 5.0), before, method="DOP853", t_eval=times, rtol=1e-12, atol=1e-13
    )
    run = flow(table, factors=start(), times=times, rtol=1e-12, solver="dopri8", tol=0.0)
    s, found = [], []
    for state in by_autograd.y.T:
        nn.utils.vector_to_parameters(torch.tensor(state), parameters)
        W = end_to_end(to_factors(module))
        s.append(np.linalg.svd(W, compute_uv=False))
        found.append(ranks(W)[0])
    np.testing.assert_allclose(run.data.singular_values, s, rtol=0, atol=1e-8)
    np.testing.assert_allclose(run.data.effective_rank, found, rtol=1e-8)
    assert np.ptp(found) > 0.1


def test_inputs_that_are_not_whitened_move_otherwise():
    x, y = whitened()
    x = x * torch.tensor([1.0, 2.0, 1.0, 1.0]).double()
    module = to_module(start())
    half_squares(module, x, y, torch.ones_like(y)).backward()
    alike = to_module(start())
    half_squares(alike, *every_label()[:3]).backward()
    assert (module[0].weight.grad - alike[0].weight.grad).abs().max() > 0.1
    with pytest.raises(DepthrankError, match=r"differs from the identity by 3\.0e\+00"):
        observations_of(x, y)
    with pytest.raises(DepthrankError, match=r"shapes \(9, 4\) and \(8, 3\)"):
        observations_of(x, y[:-1])
    with pytest.raises(DepthrankError, match="differs from the identity by nan"):
        observations_of(x * np.nan, y)


def test_loss_is_that_of_the_matrix_up_to_a_constant():
    x, y, seen, table = every_label()
    full = table.to_dense()
    constant = 0.5 * (float(y.square().sum()) - np.sum(full**2))
    for factors in (start(), tuple(2 * W for W in start())):
        of_matrix = 0.5 * np.sum((end_to_end(factors) - full) ** 2)
        of_network = float(half_squares(to_module(factors), x, y, seen).detach())
        assert of_network == pytest.approx(of_matrix + constant, rel=1e-12)


def test_fitted_table_goes_over_and_comes_back():
    truth = np.outer([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0])
    truth[0, 2] = truth[3, 0] = np.nan
    fitted = DeepMatrixCompletion(depth=2, random_state=0).fit(truth)
    module = to_module(fitted)
    columns = module(torch.eye(3).double()).detach().numpy()
    np.testing.assert_allclose(columns.T, end_to_end(fitted.factors_), rtol=0, atol=1e-14)
    for W, V in zip(to_factors(module, shape=(4, 3)), fitted.factors_, strict=True):
        np.testing.assert_array_equal(W, V)
    for W, V in zip(to_factors(to_module(fitted.trajectory_)), fitted.factors_, strict=True):
        np.testing.assert_array_equal(W, V)


def test_neither_side_shares_memory_with_the_other():
    given = start()
    module = to_module(given)
    taken = to_factors(module)
    with torch.no_grad():
        for p in module.parameters():
            p.zero_()
    for W, V, exact in zip(given, taken, start(), strict=True):
        np.testing.assert_array_equal(W, exact)
        np.testing.assert_array_equal(V, exact)


def test_nested_shared_and_half_precision_layers_are_read_in_order():
    square = nn.Linear(3, 3, bias=False)
    inner = nn.Sequential(square, nn.Identity(), square)
    module = nn.Sequential(nn.Linear(2, 3, bias=False), inner).bfloat16()
    found = to_factors(module)
    assert [W.shape for W in found] == [(3, 2), (3, 3), (3, 3)]
    assert {W.dtype for W in found} == {np.dtype(np.float64)}
    x = torch.randn(5, 2).double()
    np.testing.assert_allclose(
        module.double()(x).detach(), x.numpy() @ end_to_end(found).T, rtol=1e-12
    )


class Doubling(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: to_factors(mlp((4, 3, 2), activation="linear")), "layer '0' has a bias"),
        (
            lambda: to_factors(nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())),
            "layer '1' is a ReLU; only torch.nn.Linear",
        ),
        (lambda: to_factors(Doubling(2, 2, bias=False)), "the module is a Doubling"),
        (lambda: to_factors(nn.Sequential()), "has no linear layer"),
        (
            lambda: to_factors(nn.Linear(2, 3, bias=False), shape=(2, 3)),
            r"multiply to shape \(3, 2\); the matrix has shape \(2, 3\)",
        ),
        (
            lambda: to_factors(
                nn.Sequential(nn.Linear(2, 3, bias=False), nn.Linear(4, 2, bias=False))
            ),
            "W_1",
        ),
        (lambda: to_module(DeepMatrixCompletion()), "DeepMatrixCompletion that is not fitted"),
        (lambda: to_module(3.0), "is a float, which has no factors"),
        (lambda: to_module([]), "factors is empty"),
        (lambda: to_module([np.full((2, 2), np.nan)]), "W_1 holds nan"),
    ],
)
def test_what_does_not_convert_says_why(call, message):
    with pytest.raises(DepthrankError, match=message):
        call()
