"""Claims: verdicts follow from the numbers alone."""

import math

import numpy as np
import pytest

from depthrank.studies.claim import Claim, about, above, below, between, mean_interval


@pytest.mark.parametrize(
    ("claim", "verdict"),
    [
        (about("a", "s", 1.0, 1.05, 0.1), "holds"),
        (about("a", "s", 1.2, 1.05, 0.1), "fails"),
        (below("a", "s", 2.0, 2.0), "holds"),
        (below("a", "s", 2.1, 2.0), "fails"),
        (above("a", "s", -0.1, 0.0), "fails"),
        (above("a", "s", math.inf, 0.0), "holds"),
        (between("a", "s", 0.5, 0.0, 1.0), "holds"),
        (between("a", "s", 1.5, 0.0, 1.0), "fails"),
        (above("a", "s", math.nan, 0.0), "fails"),
        (below("a", "s", math.nan, 0.0), "fails"),
    ],
)
def test_verdict_is_computed(claim: Claim, verdict: str) -> None:
    assert claim.verdict == verdict
    assert claim.as_dict()["verdict"] == verdict


def test_whole_interval_must_lie_where_expected() -> None:
    inside = above("a", "s", 1.0, 0.0, n_seeds=4, interval=(0.2, 1.8))
    partly = above("a", "s", 1.0, 0.0, n_seeds=4, interval=(-0.2, 2.2))
    assert inside.holds
    assert not partly.holds


def test_interval_is_students() -> None:
    # mean 2, standard deviation 1, three draws: t = 4.302653 at two degrees of freedom
    found = mean_interval([1.0, 2.0, 3.0])
    assert found["measured"] == 2.0
    assert found["n_seeds"] == 3
    np.testing.assert_allclose(found["interval"][1] - 2.0, 4.302653 / math.sqrt(3), rtol=1e-6)


def test_one_draw_proves_nothing() -> None:
    found = mean_interval([5.0])
    assert not above("a", "s", found.pop("measured"), 0.0, **found).holds
