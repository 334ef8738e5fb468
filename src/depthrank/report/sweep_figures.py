"""Pictures of sweeps: lines with bands over one axis, heat maps over two."""

from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.errors import DepthrankError
from depthrank.report.figures import INK, MISSING, _colour_map, _figure, _styled
from depthrank.sweeps.summary import averages, axes_of, is_seed, numeric

if TYPE_CHECKING:
    import xarray
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["sweep_figure"]

_MOST_PANELS, _MOST_LINES = 12, 12


def sweep_figure(
    data: "xarray.Dataset",
    variable: str,
    *,
    x: str | None = None,
    y: str | None = None,
    lines: str | None = None,
    panels: str | None = None,
    contour: str | None = None,
) -> "Figure":
    """Draw a variable of a sweep over one axis, or two.

    Parameters
    ----------
    data : xarray.Dataset
        From `open_sweep`.
    variable : str
        A numeric variable.
    x : str, optional
        The horizontal axis; the longest if left.
    y : str, optional
        The vertical axis: a heat map. If neither it nor `lines` is given, the second longest axis
        becomes one where it is long enough for a map, and lines otherwise.
    lines : str, optional
        A line with a 95 % band per position of this axis.
    panels : str, optional
        A panel per position of this axis.
    contour : str, optional
        A variable whose level lines are drawn over a heat map; by default that of the exact limit
        where the sweep has one.

    Returns
    -------
    Figure
        Axes that are not named are averaged over. The title says over how many cells.

    Raises
    ------
    DepthrankError
        If there is no such variable or axis, or one axis is given twice.
    """
    x, y, lines, panels = _roles(data, x, y, lines, panels)
    kept = [axis for axis in (panels, y or lines, x) if axis is not None]
    table = averages(data, variable, kept)
    count = int(table.sizes[panels]) if panels is not None else 1
    if count > _MOST_PANELS:
        raise DepthrankError(f"{panels} has {count} positions; at most {_MOST_PANELS} panels.")
    over = _contour(data, variable, contour, kept) if y is not None else None
    with _styled():
        columns = min(count, 4)
        rows = -(-count // columns)
        figure = _figure(max(5.2, 3.4 * columns), 3.5 * rows)
        grid = figure.subplots(rows, columns, squeeze=False, sharex=True, sharey=True)
        for axes in grid.ravel()[count:]:
            axes.set_visible(False)
        image: Any = None
        low, high = _limits(table["mean"].values)
        for k, axes in zip(range(count), grid.ravel(), strict=False):
            one = table if panels is None else table.isel({panels: k})
            if y is not None:
                level = None if over is None else over if panels is None else over.isel({panels: k})
                image = _map(axes, one, x, y, (low, high), level)
            else:
                _lines(axes, one, x, lines)
            title = "" if panels is None else f"{panels} {_text(table[panels].values[k])}, "
            axes.set_title(f"{title}{_cells(one)}")
        _name(grid, x, y or variable)
        if image is not None:
            bar = figure.colorbar(image, ax=list(grid.ravel()[:count]), pad=0.015)
            bar.set_label(variable.replace("_", " "))
            bar.outline.set_visible(False)
        if y is None and (table["n"] > 1).any():
            figure.supxlabel("bands: 95 % intervals of the mean", fontsize=8, color=INK)
        if over is not None:
            figure.supxlabel(f"white lines: {over.name}".replace("_", " "), fontsize=8, color=INK)
    return figure


def _roles(
    data: "xarray.Dataset", x: str | None, y: str | None, lines: str | None, panels: str | None
) -> tuple[str, str | None, str | None, str | None]:
    """Say which axis plays which part, where it was not said."""
    axes = axes_of(data)
    given = [name for name in (x, y, lines, panels) if name is not None]
    for name in given:
        if name not in axes:
            raise DepthrankError(f"there is no axis {name!r}; there are {', '.join(axes)}.")
    if len(set(given)) < len(given):
        raise DepthrankError(f"one axis was given twice: {', '.join(given)}.")
    if y is not None and lines is not None:
        raise DepthrankError("y makes a heat map and lines make lines; give one of them.")
    free = [name for name in axes if name not in given and data.sizes[name] > 1]
    free = [name for name in free if not is_seed(name)]

    def longest(least: int = 2) -> str | None:
        numbers = [name for name in free if data[name].dtype.kind in "fiu"] or free
        found = max(numbers, key=lambda name: data.sizes[name], default=None)
        if found is None or data.sizes[found] < least:
            return None
        free.remove(found)
        return found

    if x is None:
        x = longest() or next((name for name in axes if name not in given), None)
    if x is None:
        raise DepthrankError("the sweep has no axis to draw over.")
    if y is None and lines is None:
        y = longest(6)
        if y is None:
            lines = next((n for n in free if data.sizes[n] <= _MOST_LINES), None)
            free = [name for name in free if name != lines]
    if panels is None:
        panels = next((n for n in free if data.sizes[n] <= _MOST_PANELS), None)
    return x, y, lines, panels


def _contour(
    data: "xarray.Dataset", variable: str, asked: str | None, kept: list[str]
) -> "xarray.DataArray | None":
    name = asked or f"limit_{variable}"
    if asked is None and name not in numeric(data):
        return None
    mean = averages(data, name, kept)["mean"].rename(name)
    return mean if np.isfinite(mean.values).any() else None


def _map(
    axes: "Axes",
    table: "xarray.Dataset",
    x: str,
    y: str,
    limits: tuple[float, float],
    over: "xarray.DataArray | None",
) -> Any:
    a, b = _positions(table, x), _positions(table, y)
    shown = np.ma.masked_invalid(table["mean"].transpose(y, x).values)
    colours = _colour_map("viridis").with_extremes(bad=MISSING)
    image = axes.pcolormesh(
        a, b, shown, cmap=colours, vmin=limits[0], vmax=limits[1], rasterized=True
    )
    axes.grid(visible=False)
    _scale(axes, table, x, y)
    if over is not None and shown.shape[0] > 1 and shown.shape[1] > 1:
        levels = _levels(*limits)
        lines = axes.contour(
            a, b, over.transpose(y, x).values, levels=levels, colors="white", linewidths=1.1
        )
        axes.clabel(lines, fmt=lambda level: f"{level:.3g}", fontsize=7)
    return image


def _levels(low: float, high: float) -> list[float]:
    """Return a few round levels inside a range."""
    from matplotlib.ticker import MaxNLocator

    return [level for level in MaxNLocator(5).tick_values(low, high) if low < level < high]


def _lines(axes: "Axes", table: "xarray.Dataset", x: str, lines: str | None) -> None:
    a = _positions(table, x)
    count = table.sizes[lines] if lines is not None else 1
    if count > _MOST_LINES:
        raise DepthrankError(f"{lines} has {count} positions; at most {_MOST_LINES} lines.")
    colours = _colour_map("viridis")(np.linspace(0, 0.85, count))
    for k, colour in enumerate(colours):
        one = table if lines is None else table.isel({lines: k})
        label = None if lines is None else f"{lines} {_text(table[lines].values[k])}"
        axes.plot(a, one["mean"].values, color=colour, lw=1.5, marker="o", ms=3, label=label)
        low, high = one["low"].values, one["high"].values
        if np.isfinite(low).any():
            axes.fill_between(a, low, high, color=colour, alpha=0.2, lw=0)
    if lines is not None:
        axes.legend(fontsize=7)
    _scale(axes, table, x, None)


def _scale(axes: "Axes", table: "xarray.Dataset", x: str, y: str | None) -> None:
    """Take a logarithmic axis where positions are spaced so; write texts where they are texts."""
    for name, set_scale, set_ticks in (
        (x, axes.set_xscale, axes.set_xticks),
        (y, axes.set_yscale, axes.set_yticks),
    ):
        if name is None:
            continue
        values = table[name].values
        if values.dtype.kind not in "fiu":
            set_ticks(np.arange(len(values)), [str(value) for value in values])
        elif _is_log(values):
            set_scale("log")


def _is_log(values: np.ndarray) -> bool:
    if len(values) < 3 or values.min() <= 0 or not np.isfinite(values).all():
        return False
    return bool(values.max() >= 20 * values.min())


def _positions(table: "xarray.Dataset", axis: str) -> np.ndarray:
    values = table[axis].values
    return np.asarray(values, float) if values.dtype.kind in "fiu" else np.arange(len(values))


def _limits(values: np.ndarray) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    return (low, high) if high > low else (low - 0.5, high + 0.5)


def _cells(table: "xarray.Dataset") -> str:
    n, N = int(table["n"].sum()), int(table["N"].sum())
    return f"{n:,} of {N:,} cells"


def _name(grid: np.ndarray, x: str, y: str) -> None:
    for axes in grid[-1]:
        axes.set_xlabel(x.replace("_", " "))
    for axes in grid[:, 0]:
        axes.set_ylabel(y.replace("_", " "))


def _text(value: Any) -> str:
    return str(value) if isinstance(value, str) else f"{float(value):g}"
