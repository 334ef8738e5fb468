"""Each task against the function it stands for."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from depthrank import AlphaM, Gaussian, Observations, patterns
from depthrank.sweeps import sweep
from depthrank.sweeps.config import load
from depthrank.sweeps.problems import make


def test_flows_of_the_paper_stand_beside_their_exact_limit(tmp_path: Path) -> None:
    fixed = {"dimension": 3, "m": 2.0, "depth": 3, "tol": 1e-16}
    ds = sweep({"fixed": fixed, "axes": {"alpha": [0.1, 0.5]}}, tmp_path / "a.zarr")
    assert float(ds.limit_difference.max()) < 1e-4
    np.testing.assert_allclose(ds.stable_rank, ds.limit_stable_rank, rtol=1e-5)


def test_flows_without_that_limit_have_none(tmp_path: Path) -> None:
    fixed = {"dimension": 3, "m": 2.0, "depth": 3, "max_time": 0.5}
    ds = sweep({"fixed": fixed, "axes": {"alpha": [0.1, 0.5]}}, tmp_path / "a.zarr")
    assert np.isnan(ds.limit_stable_rank).all()
    assert (ds.stopped_by == "time").all()


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
def test_descents_take_the_steps_of_descend(tmp_path: Path, optimizer: str) -> None:
    from depthrank.dynamics.descent import descend

    fixed = {"rows": 4, "columns": 3, "pattern": "uniform", "fraction": 0.7, "depth": 2}
    fixed |= {"optimizer": optimizer, "steps": 60, "alpha": 0.5, "m": 2.0, "seed": 3}
    axes = {"learning_rate": [0.01, 0.1, 1e6]}
    ds = sweep({"task": "descent", "fixed": fixed, "axes": axes}, tmp_path / "d.zarr")
    mask = patterns.uniform((4, 3), fraction=0.7, seed=3)
    seen = Observations.from_mask(np.ones((4, 3)), mask)
    with pytest.warns(UserWarning, match="ended as 'steps'"):
        run = descend(
            seen,
            depth=2,
            init=AlphaM(0.5, 2.0),
            optimizer=optimizer,
            learning_rate=0.1,
            steps=60,
        )
    one = ds.sel(learning_rate=0.1)
    np.testing.assert_allclose(one.singular_values, run.singular_values, rtol=1e-10)
    assert (int(one.steps), str(one.stopped_by.item())) == (run.steps, run.stopped_by)
    assert float(one.time) == pytest.approx(run.time)
    if optimizer == "sgd":
        assert str(ds.stopped_by.values[2]) == "diverged"
        assert np.isfinite(ds.loss.values[2])


def test_descents_on_drawn_entries_are_those_of_descend(tmp_path: Path) -> None:
    from depthrank.dynamics.descent import descend

    fixed = {"rows": 4, "columns": 3, "pattern": "uniform", "fraction": 0.7, "depth": 2}
    fixed |= {"steps": 20, "init": "gaussian", "init_scale": 0.5, "batch_size": 2}
    config = {"task": "descent", "fixed": fixed | {"learning_rate": 0.05}, "axes": {"seed": [4]}}
    ds = sweep(config, tmp_path / "d.zarr")
    seen = Observations.from_mask(np.ones((4, 3)), patterns.uniform((4, 3), fraction=0.7, seed=4))
    with pytest.warns(UserWarning, match="ended as 'steps'"):
        run = descend(
            seen,
            depth=2,
            init=Gaussian(0.5),
            learning_rate=0.05,
            steps=20,
            batch_size=2,
            record_every=20,
            seed=4,
        )
    np.testing.assert_allclose(ds.singular_values[0], run.singular_values, rtol=1e-12)


def test_warm_cells_train_in_two_phases(tmp_path: Path) -> None:
    from depthrank.plasticity import Phase, cold, warm_start

    fixed = {"rows": 5, "columns": 4, "rank": 1, "pattern": "uniform", "fraction": 0.8}
    fixed |= {"depth": 2, "init_scale": 0.1, "tol": 1e-6, "seed": 2}
    amounts: list[dict[str, Any]] = [{"label": "usual"}, {"label": "some", "amount": 0.5}]
    axes = {"remedy": ["none", "cold", "rebalance"], "amount": amounts}
    ds = sweep({"task": "warm", "fixed": fixed, "axes": axes}, tmp_path / "w.zarr")
    assert (ds.status.sel(amount="usual") == "done").all()
    assert "takes no amount" in str(ds.reason.sel(remedy="cold", amount="some").item())
    made = make(load({"fixed": fixed}).cells[0])  # type: ignore[arg-type]
    early, _ = made.observations.split(0.5, 2)
    phases = [Phase(observations=early, tol=1e-6)]
    phases.append(Phase(observations=made.observations, tol=1e-6, remedy=cold()))
    run = warm_start(phases, depth=2, init=Gaussian(0.1), seed=2)
    one = ds.sel(remedy="cold", amount="usual")
    np.testing.assert_allclose(one.singular_values, run.singular_values, rtol=1e-9, atol=1e-12)
    assert float(one.first_stable_rank) == pytest.approx(run.trajectories[0].stable_rank)
    warm = ds.sel(remedy="none", amount="usual")
    assert float(warm.first_stable_rank) == float(one.first_stable_rank)
    assert float(warm.effective_rank) != float(one.effective_rank)


def test_completions_are_those_of_the_estimator(tmp_path: Path) -> None:
    from depthrank import DeepMatrixCompletion

    fixed = {"rows": 8, "columns": 6, "rank": 1, "pattern": "uniform", "fraction": 0.7}
    fixed |= {"depth": 2, "holdout": 0.1, "weight_decay": 0.0, "validation_fraction": 0.0}
    config = {"task": "completion", "fixed": fixed, "axes": {"seed": [1]}}
    ds = sweep(config, tmp_path / "c.zarr")
    assert ds.status.values.tolist() == ["done"]
    made = make(load(config).cells[0])  # type: ignore[arg-type]
    model = DeepMatrixCompletion(
        depth=2, weight_decay=0.0, validation_fraction=0.0, random_state=1
    ).fit(made.observations)
    assert made.truth is not None
    gap = np.linalg.norm(model.complete() - made.truth) / np.linalg.norm(made.truth)
    assert float(ds.reconstruction_error[0]) == pytest.approx(gap, rel=1e-9)
    assert made.held_out is not None
    rmse = model.evaluate(made.held_out)["rmse"]
    assert float(ds.holdout_rmse[0]) == pytest.approx(rmse, rel=1e-9)
    assert int(ds.chosen_depth[0]) == 2


def test_limits_at_depth_one_and_at_a_target_of_zero(tmp_path: Path) -> None:
    fixed = {"dimension": 3, "m": 2.0, "alpha": 0.1}
    axes = {"depth": [1, 3], "value": [0.0, 1.0]}
    ds = sweep({"task": "limits", "fixed": fixed, "axes": axes}, tmp_path / "l.zarr")
    assert float(ds.cross_block_entry.sel(depth=1, value=1.0)) == 0.05
    assert float(ds.sigma_1.sel(depth=3, value=0.0)) == 0.0


def test_studies_count_their_claims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a study of two claims in the place of a real one, which takes its time."""
    from dataclasses import replace

    from depthrank import studies
    from depthrank.studies.claim import Claim

    def claims(data: dict[str, float]) -> list[Claim]:
        about: dict[str, Any] = {"statement": "", "expected": ""}
        return [
            Claim(id="limits/a", measured=data["measured"], low=0.5, **about),
            Claim(id="limits/b", measured=data["measured"], low=2.5, **about),
        ]

    stub = replace(
        next(one for one in studies.STUDIES if one.name == "limits"),
        run=lambda settings, seed: {"measured": 1.0 + seed},
        claims=claims,
    )
    monkeypatch.setattr(studies, "STUDIES", (stub,))
    ds = sweep(
        {"task": "study", "axes": {"study": ["limits"], "seed": [0, 2]}}, tmp_path / "s.zarr"
    )
    assert ds.claims.values.tolist() == [[2, 2]]
    assert ds.claims_held.values.tolist() == [[1, 2]]
    assert ds.failed_claims.values.tolist() == [["limits/b", ""]]
