"""Pictures of runs and matrices, drawn without a display and without global plotting state.

Every function returns a `matplotlib.figure.Figure` of its own; `save` writes one whole or not at
all. Numbers that are not finite are left out, and the picture says so.
"""

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from depthrank.errors import DepthrankError
from depthrank.files.atomic import atomic

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "encode",
    "loss_figure",
    "matrix_figure",
    "save",
    "spectrum_figure",
    "trajectory_figure",
]

Array = NDArray[np.float64]

INK, GREY, RULE = "#222f3e", "#66727f", "#d7dde3"
BLUE, ORANGE, GREEN = "#1f5fa8", "#d9731a", "#2e8b57"
MISSING = "#c6cdd4"  # neither the white of a zero nor a colour of a scale
_STYLE = {
    "font.size": 9.0,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 10.0,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": RULE,
    "grid.linewidth": 0.6,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "svg.hashsalt": "depthrank",  # the same picture gives the same bytes
}
_MOST_MODES = 64


def trajectory_figure(data: "xarray.Dataset") -> "Figure":
    """Draw loss, singular values and ranks of a run over time.

    Parameters
    ----------
    data : xarray.Dataset
        Over `time`: `loss`, `singular_values` [time, mode], `stable_rank`, `effective_rank`; over
        `step_time`, if there: `step_loss`, which is drawn instead of the coarser `loss`.

    Returns
    -------
    Figure
        Three panels side by side on one time axis, which is logarithmic where the run moves over
        decades of time.
    """
    with _styled():
        if data.sizes["time"] < 4:  # only the ends were recorded
            figure = _figure(9.0, 3.3)
            left, right = figure.subplots(1, 2)
            _draw_loss(left, data)
            _draw_ends(right, data)
            return figure
        figure = _figure(11.0, 3.3)
        left, middle, right = figure.subplots(1, 3)
        _draw_loss(left, data)
        _draw_modes(middle, data)
        _draw_ranks(right, data)
    return figure


def loss_figure(history: Sequence[float] | Array, label: str = "loss") -> "Figure":
    """Draw a history of losses, step by step, up to the last finite one.

    Parameters
    ----------
    history : sequence of float
        Loss after step 1, 2, ...
    label : str
        Name of the vertical axis.

    Returns
    -------
    Figure
    """
    values = np.asarray(history, dtype=np.float64)
    with _styled():
        figure = _figure(5.0, 3.2)
        axes = figure.subplots()
        _line(axes, np.arange(1, values.size + 1.0), values, color=BLUE, unit="step")
        axes.set(xlabel="step", ylabel=label)
        _log_if_positive(axes, values)
    return figure


def matrix_figure(
    observed: Array, completed: Array, *, held_out: Array | None = None, channels: int = 1
) -> "Figure":
    """Draw the observed and the completed matrix side by side, on one colour scale.

    Parameters
    ----------
    observed : array [m, n]
        NaN where missing; those cells are marked.
    completed : array [m, n]
        NaN where still unknown.
    held_out : bool array [m, n], optional
        Cells kept out of training, marked in the observed matrix.
    channels : int
        3 for a colour image stored as [red | green | blue]: drawn as the picture it is.

    Returns
    -------
    Figure
    """
    observed = np.asarray(observed, dtype=np.float64)
    completed = np.asarray(completed, dtype=np.float64)
    if observed.shape != completed.shape or observed.ndim != 2:
        raise DepthrankError(
            f"observed has shape {observed.shape} and completed {completed.shape}; they must be "
            "matrices of one shape."
        )
    if held_out is not None:
        observed = np.where(held_out, np.nan, observed)
    m, n = observed.shape
    height = min(max(4.6 * m / max(n // channels, 1), 1.6), 5.6)
    with _styled():
        figure = _figure(10.4, height + 0.7)
        pair = figure.subplots(1, 2)
        if channels == 3:
            for axes, matrix in zip(pair, (observed, completed), strict=True):
                axes.imshow(_colours(matrix), interpolation="nearest")
        else:
            _draw_matrices(figure, pair, observed, completed)
        share = 100 * float(np.isfinite(observed).mean())
        pair[0].set_title(f"observed ({share:.3g} % of the cells; grey is missing)")
        pair[1].set_title("completed")
        for axes in pair:
            axes.grid(visible=False)
            if channels == 3:
                axes.set_axis_off()
    return figure


def spectrum_figure(spectra: Mapping[str, Array]) -> "Figure":
    """Draw singular values against their number, each set relative to its largest.

    Parameters
    ----------
    spectra : mapping of str to array [k]
        Descending singular values by name.

    Returns
    -------
    Figure
    """
    with _styled():
        figure = _figure(6.4, 3.8)
        axes = figure.subplots()
        lowest = 1.0
        colours = _colour_map("viridis")(np.linspace(0, 0.85, max(len(spectra), 1)))
        for (name, values), colour in zip(spectra.items(), colours, strict=True):
            s = np.asarray(values, dtype=np.float64)
            top = float(s[0]) if s.size and s[0] > 0 else 1.0
            shown = np.where(s > 0, s / top, np.nan)
            lowest = min(lowest, float(np.nanmin(shown, initial=1.0)))
            label = name if len(spectra) <= 12 else None
            axes.plot(np.arange(1, s.size + 1), shown, color=colour, lw=1.3, label=label)
        axes.set(xlabel="number of the singular value", ylabel="size, relative to the largest")
        if lowest < 1e-2:
            axes.set_yscale("log")
            axes.set_ylim(bottom=max(lowest / 2, 1e-17))
        if 1 < len(spectra) <= 12:
            axes.legend(fontsize=7)
    return figure


def save(figure: "Figure", path: Path) -> None:
    """Write a figure as its ending says (.png, .svg, .pdf), whole or not at all."""
    picture = encode(figure, path.suffix.lower().lstrip("."))
    with atomic(path) as handle:
        handle.write(picture)


def encode(figure: "Figure", form: str) -> bytes:
    """Return a figure as the bytes of a picture in the form "png", "svg" or "pdf"."""
    if form not in ("png", "svg", "pdf"):
        raise DepthrankError(f"a picture has the form {form!r}; it must be png, svg or pdf.")
    buffer = BytesIO()
    with _styled():
        dated = {"png": {}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[form]
        figure.savefig(buffer, format=form, dpi=160, metadata=dated)
    return buffer.getvalue()


# Panels


def _draw_loss(axes: "Axes", data: "xarray.Dataset") -> None:
    fine = "step_loss" in data
    time = data["step_time" if fine else "time"].values
    loss = data["step_loss" if fine else "loss"].values
    if fine:  # the start is no step
        time = np.concatenate((data["time"].values[:1], time))
        loss = np.concatenate((data["loss"].values[:1], loss))
    _line(axes, time, loss, color=BLUE)
    axes.set(title="observed loss")
    _time_axis(axes, data)
    _log_if_positive(axes, loss)


def _draw_modes(axes: "Axes", data: "xarray.Dataset") -> None:
    time, s = data["time"].values, data["singular_values"].values[:, :_MOST_MODES]
    colours = _colour_map("viridis")(np.linspace(0, 0.9, max(s.shape[1], 1)))
    for mode in range(s.shape[1] - 1, -1, -1):  # the largest on top
        _line(axes, time, s[:, mode], color=colours[mode], noted=mode == 0)
    axes.set(title="singular values")
    _time_axis(axes, data)
    finite = s[np.isfinite(s)]
    top = float(finite.max(initial=0.0))
    if top > 0:
        # Modes far below the largest are zero to the eye on a linear axis.
        smallest = float(finite[finite > 0].min())
        if smallest < 1e-2 * top:
            axes.set_yscale("log")
            axes.set_ylim(max(smallest / 2, 1e-16 * top), 2 * top)
    hidden = data["singular_values"].shape[1] - s.shape[1]
    if hidden > 0:
        _note(axes, f"the {s.shape[1]} largest; {hidden} more not drawn")


def _draw_ends(axes: "Axes", data: "xarray.Dataset") -> None:
    """Draw the first and the last spectrum against the number of the singular value."""
    s = data["singular_values"].values[[0, -1]]
    number = np.arange(1, s.shape[1] + 1)
    for values, colour, label in ((s[0], GREY, "start"), (s[1], BLUE, "end")):
        axes.plot(number, np.where(values > 0, values, np.nan), color=colour, lw=1.6, label=label)
    axes.set(title="singular values", xlabel="number")
    _log_if_positive(axes, s)
    axes.legend()


def _draw_ranks(axes: "Axes", data: "xarray.Dataset") -> None:
    time = data["time"].values
    for name, colour in (("stable_rank", BLUE), ("effective_rank", ORANGE)):
        _line(axes, time, data[name].values, color=colour, label=name.replace("_", " "))
    axes.set(title="ranks")
    _time_axis(axes, data)
    axes.set_ylim(bottom=0)
    axes.legend(loc="best")


def _draw_matrices(figure: "Figure", pair: Any, observed: Array, completed: Array) -> None:
    both = np.concatenate((observed.ravel(), completed.ravel()))
    finite = both[np.isfinite(both)]
    # Single wild cells must not take the colours from all others.
    low, high = np.percentile(finite, (0.5, 99.5)) if finite.size else (0.0, 1.0)
    if low < 0 < high:
        high = max(-low, high)
        low, name = -high, "RdBu_r"
    else:
        name = "viridis"
    colours = _colour_map(name).with_extremes(bad=MISSING)
    for axes, matrix in zip(pair, (observed, completed), strict=True):
        masked = np.ma.masked_invalid(matrix)
        image = axes.imshow(
            masked, cmap=colours, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
        )
        axes.set(xlabel="column", ylabel="row")
    bar = figure.colorbar(image, ax=list(pair), shrink=0.9, pad=0.015)
    bar.outline.set_visible(False)


def _colours(matrix: Array) -> Array:
    """Return [red | green | blue] as pixels, missing ones in the grey of missing cells."""
    pixels = np.dstack(np.hsplit(matrix, 3))
    grey = np.array([int(MISSING[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    known = np.isfinite(pixels).all(axis=2, keepdims=True)
    return np.where(known, np.clip(np.nan_to_num(pixels), 0, 1), grey)


# Helpers


def _line(
    axes: "Axes",
    x: Array,
    y: Array,
    *,
    color: Any,
    label: str | None = None,
    noted: bool = True,
    unit: str = "point",
) -> None:
    """Draw a line up to the last finite point before the first that is not, and say so."""
    bad = np.flatnonzero(~(np.isfinite(x) & np.isfinite(y)))
    end = int(bad[0]) if bad.size else len(y)
    marker = "o" if end < 3 else None  # a line through one point cannot be seen
    axes.plot(x[:end], y[:end], color=color, lw=1.6, label=label, marker=marker, ms=3)
    if bad.size and noted:
        _note(axes, f"non-finite after {unit} {end}")


def _note(axes: "Axes", text: str) -> None:
    axes.text(0.98, 0.96, text, transform=axes.transAxes, ha="right", va="top", color=ORANGE)


def _log_if_positive(axes: "Axes", values: Array) -> None:
    """Take a logarithmic axis where the values run over two decades or more."""
    finite = values[np.isfinite(values) & (values > 0)]
    if finite.size and finite.max() > 100 * finite.min():
        axes.set_yscale("log")


def _time_axis(axes: "Axes", data: "xarray.Dataset") -> None:
    """Choose the time axis: linear, or logarithmic where a linear one would hide the course.

    That is where most of the fall of log(loss) happens in the first tenth of the time, as in runs
    with a long algebraic tail.
    """
    axes.set_xlabel("flow time")
    time, loss = data["time"].values, data["loss"].values
    good = np.isfinite(time) & np.isfinite(loss) & (loss > 0)
    time, loss = time[good], loss[good]
    if time.size < 4 or time[-1] <= 0:
        return
    fall = np.log(loss / loss[-1])
    if np.interp(0.1 * time[-1], time, fall) > 0.4 * fall[0]:
        return
    # Nothing is to be seen long before the loss begins to move.
    begins = float(time[np.argmax(fall < 0.99 * fall[0])])
    left = max(begins / 10, float(time[time > 0].min()))
    if time[-1] > 100 * left:
        axes.set_xscale("log")
        axes.set_xlim(left, 1.3 * time[-1])


def _figure(width: float, height: float) -> "Figure":
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _styled() -> Any:
    import matplotlib as mpl

    return mpl.rc_context(_STYLE)  # type: ignore[arg-type]


def _colour_map(name: str) -> Any:
    import matplotlib as mpl

    return mpl.colormaps[name]
