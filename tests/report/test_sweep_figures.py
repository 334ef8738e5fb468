"""Pictures of sweeps show the cells they are drawn from, and refuse what is not there."""

from typing import Any

import numpy as np
import pytest
import xarray

from depthrank.errors import DepthrankError
from depthrank.report.figures import encode
from depthrank.report.sweep_figures import sweep_figure


@pytest.fixture
def data() -> xarray.Dataset:
    """Three depths, eight alphas, seven m, four seeds; one cell has failed."""
    sizes = {"depth": 3, "alpha": 8, "m": 7, "seed": 4}
    coords: dict[str, Any] = {"depth": [2, 3, 4], "alpha": np.geomspace(0.01, 10, 8)}
    coords |= {"m": np.linspace(2, 5, 7), "seed": np.arange(4)}
    shape = tuple(sizes.values())
    values = np.random.default_rng(0).normal(3.0, 0.1, shape)
    status = np.full(shape, "done", dtype=object)
    status[0, 0, 0, 0] = "failed"
    values[0, 0, 0, 0] = np.nan
    arrays = {"stable_rank": values, "limit_stable_rank": values + 0.01, "status": status}
    return xarray.Dataset({k: (tuple(sizes), v) for k, v in arrays.items()}, coords)


def panels(figure: Any) -> list[Any]:
    return [axes for axes in figure.axes if axes.get_visible() and axes.get_xlabel()]


def test_two_long_axes_make_maps_with_contours(data: xarray.Dataset) -> None:
    figure = sweep_figure(data, "stable_rank")
    drawn = panels(figure)
    assert [axes.get_title(loc="left") for axes in drawn] == [
        "depth 2, 223 of 224 cells",
        "depth 3, 224 of 224 cells",
        "depth 4, 224 of 224 cells",
    ]
    assert drawn[0].get_xscale() == "log"
    assert drawn[0].get_yscale() == "linear"
    shown = drawn[1].collections[0].get_array()
    expected = data.stable_rank.isel(depth=1).mean("seed").transpose("m", "alpha")
    np.testing.assert_allclose(shown, expected.values, rtol=1e-12)
    assert encode(figure, "png")[:4] == b"\x89PNG"


def test_lines_have_bands(data: xarray.Dataset) -> None:
    figure = sweep_figure(data.isel(m=[0]), "stable_rank", x="alpha", lines="depth")
    (axes,) = panels(figure)
    assert len(axes.lines) == 3
    expected = data.stable_rank.isel(m=0, depth=2).mean("seed")
    np.testing.assert_allclose(axes.lines[2].get_ydata(), expected, rtol=1e-12)
    assert axes.get_title(loc="left") == "95 of 96 cells"


def test_texts_are_written_at_their_positions(data: xarray.Dataset) -> None:
    named = data.isel(m=0, alpha=0, drop=True).assign_coords(depth=["two", "three", "four"])
    (axes,) = panels(sweep_figure(named, "stable_rank", x="depth"))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["two", "three", "four"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"x": "alhpa"}, "no axis 'alhpa'; there are depth, alpha, m, seed"),
        ({"x": "alpha", "y": "alpha"}, "one axis was given twice"),
        ({"y": "m", "lines": "depth"}, "give one of them"),
        ({"contour": "nothing"}, "no variable 'nothing'"),
    ],
)
def test_what_is_not_there_is_refused(
    data: xarray.Dataset, given: dict[str, str], message: str
) -> None:
    with pytest.raises(DepthrankError, match=message):
        sweep_figure(data, "stable_rank", **given)


def test_too_many_panels_or_lines_are_refused(data: xarray.Dataset) -> None:
    many = xarray.concat([data.isel(depth=0, drop=True)] * 13, "run").assign_coords(
        run=np.arange(13)
    )
    with pytest.raises(DepthrankError, match="run has 13 positions; at most 12 panels"):
        sweep_figure(many, "stable_rank", x="alpha", y="m", panels="run")
    with pytest.raises(DepthrankError, match="run has 13 positions; at most 12 lines"):
        sweep_figure(many, "stable_rank", x="alpha", lines="run")
    flat = data.isel(depth=0, alpha=0, m=0, seed=0)
    with pytest.raises(DepthrankError, match="the sweep has no axis to draw over"):
        sweep_figure(flat, "stable_rank")
