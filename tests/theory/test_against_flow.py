"""Reference cases that no closed form reaches: the package's own flow must reproduce them."""

from typing import Any

import numpy as np
import pytest

from depthrank import flow
from depthrank.initialization import AlphaM, Balanced
from depthrank.observations import Observations
from depthrank.theory import certificate, limits, warm_2x2
from tests.theory.cases import assert_close, of_kind

TIGHT: dict[str, Any] = {"tol": 1e-24, "rtol": 1e-10, "record": "ends"}


@pytest.mark.parametrize("case", of_kind("diag_unequal_numeric"))
def test_reference_unequal_diagonals_at_depth_three_and_four(case):
    i, want = case["inputs"], case["expected"]
    obs = Observations.from_mask(np.diag(i["w"]), np.eye(i["d"], dtype=bool))
    run = flow(obs, depth=i["L"], init=AlphaM(i["alpha"], i["m"]), **TIGHT)
    assert run.stopped_by == "fitted"
    assert_close(run.end_to_end, want["X"])
    assert_close(run.singular_values, want["singular_values"])
    assert_close(run.stable_rank, want["stable_rank"])
    assert_close(run.effective_rank, want["effective_rank"])


@pytest.mark.parametrize("case", of_kind("warm_2x2_L2"))
def test_reference_warm_starts(case):
    """Diagonal first, one more entry after: the unobserved entry and the ranks it leaves."""
    i, want = case["inputs"], case["expected"]
    bound = warm_2x2(value=i["w"], new_value=i["v"], m=float(i["m"]))
    fitted = np.array([[i["w"], bound.x21_start], [bound.x21_start, i["w"]]])
    mask = np.zeros((2, 2), dtype=bool)
    mask[tuple(np.transpose(i["observed_phase2"]))] = True
    obs = Observations.from_mask(np.array([[i["w"], i["v"]], [0.0, i["w"]]]), mask)
    run = flow(obs, factors=Balanced(fitted)((2, 2, 2)), **TIGHT)
    assert_close(run.end_to_end[1, 0], want["x21"])
    assert_close(run.singular_values, want["singular_values"])
    assert_close(run.stable_rank, want["stable_rank"])
    assert_close(run.effective_rank, want["effective_rank"])
    assert run.stable_rank >= bound.stable_rank_lower


def test_certificate_bars_hold_for_the_flow_itself():
    """Stop early, certify, go on: the final singular values lie inside the bars."""
    obs = Observations.from_mask(0.9 * np.eye(2), np.eye(2, dtype=bool))
    start = AlphaM(0.5, 8.0)
    early = flow(obs, depth=3, init=start, tol=1e-6, record="ends")
    bound = certificate(early.factors, obs)
    assert bound.certified
    exact = limits(depth=3, alpha=0.5, m=8.0, n_blocks=2, value=0.9)
    slack = 1e-6  # the integration error of the default tolerance
    assert np.all(bound.sigma_lower - slack <= exact.singular_values)
    assert np.all(exact.singular_values <= bound.sigma_upper + slack)
    assert bound.product_move < 0.01
