"""Pictures: what is drawn, what is left out and said so."""

import numpy as np
import pytest
import xarray
from matplotlib.figure import Figure

from depthrank.errors import DepthrankError
from depthrank.report import figures


def course(loss, time=None, modes=3):
    n = len(loss)
    s = np.linspace(1, 0.1, modes) * np.ones((n, 1))
    variables = {
        "loss": ("time", np.asarray(loss, float)),
        "singular_values": (("time", "mode"), s),
        "stable_rank": ("time", np.ones(n)),
        "effective_rank": ("time", np.full(n, 2.0)),
    }
    coords = {"time": np.arange(n) if time is None else time, "mode": np.arange(modes)}
    return xarray.Dataset(variables, coords)


def texts(figure: Figure) -> str:
    return " ".join(text.get_text() for axes in figure.axes for text in axes.texts)


def test_pl03_history_is_drawn_up_to_the_last_finite_point():
    figure = figures.loss_figure([1.0, 0.5, np.inf, np.nan])
    (line,) = figure.axes[0].lines
    assert line.get_xydata().tolist() == [[1.0, 1.0], [2.0, 0.5]]  # type: ignore[union-attr]
    assert texts(figure) == "non-finite after step 2"


def test_pl03_in_a_run_over_time():
    figure = figures.trajectory_figure(course([1, 0.5, 0.2, 0.1, np.inf, np.nan]))
    assert len(figure.axes[0].lines[0].get_xdata()) == 4  # type: ignore[arg-type]
    assert texts(figure) == "non-finite after point 4"


def test_panels_of_a_run():
    figure = figures.trajectory_figure(course([1, 0.5, 0.2, 0.1, 0.05]))
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "observed loss",
        "singular values",
        "ranks",
    ]
    assert [len(axes.lines) for axes in figure.axes] == [1, 3, 2]
    assert {axes.get_xscale() for axes in figure.axes} == {"linear"}


def test_time_is_logarithmic_where_a_tail_is_long():
    time = np.concatenate(([0.0], np.logspace(-2, 5, 40)))
    slow = 1 / (1 + time) ** 2
    axes = figures.trajectory_figure(course(slow, time)).axes
    assert {a.get_xscale() for a in axes} == {"log"}
    even = np.linspace(0, 40, 41)
    axes = figures.trajectory_figure(course(np.exp(-even), even)).axes
    assert {a.get_xscale() for a in axes} == {"linear"}
    assert axes[0].get_yscale() == "log"


def test_where_only_the_ends_were_recorded_the_spectra_are_drawn():
    figure = figures.trajectory_figure(course([1, 0.1]))
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles == ["observed loss", "singular values"]
    assert figure.axes[1].get_xlabel() == "number"


def test_many_modes_are_cut_and_it_is_said():
    figure = figures.trajectory_figure(course([1, 0.5, 0.2, 0.1], modes=100))
    assert len(figure.axes[1].lines) == 64
    assert "36 more not drawn" in texts(figure)


def test_matrices_share_one_scale_and_missing_cells_are_masked():
    completed = np.arange(6.0).reshape(2, 3) + 1
    observed = np.where(completed == 5, np.nan, completed)
    left, right = (a.images[0] for a in figures.matrix_figure(observed, completed).axes[:2])
    assert left.get_clim() == right.get_clim()
    mask = np.ma.getmaskarray(np.ma.asarray(left.get_array()))
    assert np.argwhere(mask).tolist() == [[1, 1]]
    assert not np.ma.getmaskarray(np.ma.asarray(right.get_array())).any()


def test_signed_values_have_white_at_zero():
    matrix = np.array([[-1.0, 3.0]])
    low, high = figures.matrix_figure(matrix, matrix).axes[0].images[0].get_clim()
    assert low == -high


def test_colour_images_are_drawn_as_pictures():
    matrix = np.hstack([np.full((4, 5), c) for c in (1.0, 0.5, 0.0)])
    holes = matrix.copy()
    holes[0, [0, 5, 10]] = np.nan
    left, right = figures.matrix_figure(holes, matrix, channels=3).axes
    pixels = np.asarray(right.images[0].get_array())
    assert pixels.shape == (4, 5, 3)
    assert pixels[1, 1].tolist() == [1.0, 0.5, 0.0]
    grey = np.asarray(left.images[0].get_array())[0, 0]
    assert grey == pytest.approx([0xC6 / 255, 0xCD / 255, 0xD4 / 255])


def test_unequal_shapes_are_refused():
    with pytest.raises(DepthrankError, match=r"observed has shape \(2, 3\) and completed \(3, 2\)"):
        figures.matrix_figure(np.ones((2, 3)), np.ones((3, 2)))


def test_spectra_are_relative_and_zeros_left_out():
    figure = figures.spectrum_figure({"a": np.array([4.0, 1e-3, 0.0]), "zero": np.zeros(2)})
    axes = figure.axes[0]
    drawn = axes.lines[0].get_ydata()
    assert drawn[1] == 2.5e-4  # type: ignore[index]
    assert np.isnan(drawn[2])  # type: ignore[index]
    assert axes.get_yscale() == "log"


@pytest.mark.parametrize("form", ["png", "svg", "pdf"])
def test_pl01_saved_without_a_display_and_twice_the_same(tmp_path, monkeypatch, form):
    monkeypatch.delenv("DISPLAY", raising=False)
    paths = [tmp_path / f"{name}.{form}" for name in "ab"]
    for path in paths:
        figures.save(figures.loss_figure([1, 0.1, 0.01]), path)
    assert paths[0].stat().st_size > 1000
    assert paths[0].read_bytes() == paths[1].read_bytes()


def test_pictures_leave_no_global_state_behind():
    import matplotlib as mpl
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    figures.trajectory_figure(course([1, 0.5, 0.2, 0.1]))
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == []


def test_unknown_forms_are_refused():
    with pytest.raises(DepthrankError, match="'gif'; it must be png, svg or pdf"):
        figures.encode(figures.loss_figure([1]), "gif")
