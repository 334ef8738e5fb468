"""What a run leaves behind: labelled, with conventions, and readable again."""

import numpy as np
import pytest

from depthrank import DepthrankError, Gaussian, Observations, flow
from depthrank.dynamics.trajectory import read_course


@pytest.fixture(scope="module")
def run():
    mask = np.array([[1, 1, 0], [1, 1, 1], [1, 1, 1], [0, 1, 1]], bool)
    truth = np.outer([1.0, 2, 3, 4], [1.0, 2, 3])
    return flow(
        Observations.from_mask(truth, mask), depth=2, width=4, init=Gaussian(0.01), record="entries"
    )


def test_the_course_starts_at_zero_and_ends_at_the_end(run):
    assert run.data.time[0] == 0
    assert run.data.time[-1] == run.time
    assert len(run.data.time) > 10
    assert (np.diff(run.data.time) > 0).all()
    last = run.data.isel(time=-1)
    np.testing.assert_allclose(last.end_to_end, run.end_to_end, rtol=1e-13)
    np.testing.assert_allclose(last.singular_values, run.singular_values, rtol=1e-12)
    assert float(last.stable_rank) == pytest.approx(run.stable_rank)
    assert float(last.effective_rank) == pytest.approx(run.effective_rank)
    assert float(last.loss) == pytest.approx(run.loss)


def test_every_accepted_step_is_in_the_step_series(run):
    assert len(run.data.step_time) == run.steps
    assert "step_validation_mse" not in run.data


def test_ranks_follow_from_the_recorded_singular_values(run):
    s = run.data.singular_values.values
    np.testing.assert_allclose(run.data.stable_rank, (s**2).sum(1) / s[:, 0] ** 2)


def test_conventions_and_provenance_are_stored(run):
    attrs = run.data.attrs
    assert "half the sum of squared residuals" in attrs["convention_loss"]
    assert attrs["stopped_by"] == "fitted"
    assert (attrs["depth"], attrs["seed"], attrs["solver"]) == (2, 0, "auto")
    assert attrs["init"] == "Gaussian(init_scale=0.01)"
    assert attrs["depthrank_version"]


@pytest.mark.parametrize("name", ["course.zarr", "course.nc"])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
def test_saving_and_reading_back(run, tmp_path, name):
    run.save(tmp_path / name)
    back = read_course(tmp_path / name)
    for variable in run.data.variables:
        np.testing.assert_array_equal(back[variable], run.data[variable])
    assert back.attrs["convention_time"] == run.data.attrs["convention_time"]


def test_reading_nothing_says_so(tmp_path):
    with pytest.raises(DepthrankError, match=r"no saved trajectory at .*absent\.nc"):
        read_course(tmp_path / "absent.nc")
