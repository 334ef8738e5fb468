"""The report before training: graphs, bounds, commutation, advice."""

import numpy as np
import pytest

from depthrank import DepthrankError, Observations, plasticity_report
from depthrank.initialization import Balanced
from depthrank.plasticity import commutation_defect
from depthrank.theory import rigidity


def seen(truth, mask) -> Observations:
    return Observations.from_mask(truth, mask)


EYE = np.eye(5)


def test_a_lazy_state_gets_its_bound_and_the_constants():
    truth = np.eye(5) + 0.1 * np.eye(5, k=1)
    old, new = seen(truth, EYE), seen(truth, np.eye(5, k=1))
    found = plasticity_report((EYE, EYE), old, new)
    bound = rigidity(EYE, 0.2, 2)
    assert found.lazy
    assert found.bound is not None
    assert found.bound.q == pytest.approx(bound.q)
    assert found.stable_rank_bound == pytest.approx(bound.stable_rank_lower)
    assert (found.components_before, found.components_after, found.connects) == (5, 1, True)
    assert not found.commutes
    assert any("lazy regime" in reason for reason in found.reasons)
    assert found.predicted_loss == pytest.approx(found.new_residual)


def test_the_bound_holds_at_every_depth_and_is_void_for_far_values():
    truth = np.ones((5, 5))
    old, new = seen(truth, EYE), seen(truth, np.eye(5, k=1))
    for depth in (2, 3):
        found = plasticity_report((EYE,) * depth, old, new)
        assert not found.lazy
        assert found.stable_rank_bound == 1.0
        assert found.action == "start over"
        assert "not in the lazy regime" in found.reasons[1]


def test_circulant_observations_commute_and_others_do_not():
    index = np.arange(6)
    gap = (index[:, None] - index) % 6
    ring = seen(np.where(gap == 0, 1.0, 0.5), (gap == 0) | (gap == 1) | (gap == 5))
    assert commutation_defect(np.eye(6), ring) < 1e-12
    chain = seen(np.ones((6, 6)), (gap == 0) | (np.eye(6, k=1) > 0))
    assert commutation_defect(np.eye(6), chain) > 0.1
    # the same residual, but a pattern that leaves the algebra
    part = seen(np.ones((6, 6)), np.triu(np.ones((6, 6))))
    assert commutation_defect(np.ones((6, 6)) + np.eye(6), part) > 0.1
    old = seen(np.ones((6, 6)), gap == 0)
    found = plasticity_report((np.eye(6),) * 3, old, ring)
    assert (found.commutes, found.action, found.predicted_loss) == (True, "resume", 0.0)


def test_advice_follows_what_the_model_foresees():
    truth = np.outer(np.arange(1.0, 6), [1.0, 2, 3, 4, 5])
    mask = np.indices((5, 5)).sum(axis=0) % 3 > 0
    old = seen(truth, mask)
    close = seen(truth * 1.001, ~mask)
    near = seen(truth * 1.2, ~mask)
    far = seen(-truth, ~mask)
    factors = Balanced(truth)((5, 5, 5))
    actions = [plasticity_report(factors, old, new).action for new in (close, near, far)]
    assert actions == ["resume", "shrink", "start over"]
    assert plasticity_report((truth,), old, near).action == "add depth"
    same = plasticity_report(factors, old, old)
    assert (same.n_new, same.action) == (0, "resume")


def test_new_rows_count_as_joined_and_wrong_input_is_refused():
    truth = np.ones((4, 3))
    old = seen(truth, np.r_[np.ones((3, 3)), np.zeros((1, 3))])
    new = seen(truth, np.r_[np.zeros((3, 3)), np.ones((1, 3))])
    assert plasticity_report(Balanced(truth)((3, 3, 4)), old, new).connects
    with pytest.raises(DepthrankError, match="nothing to forecast"):
        plasticity_report((truth,), old, new.select([]))
    with pytest.raises(DepthrankError, match="multiply to shape"):
        plasticity_report((np.eye(2),), old, new)
