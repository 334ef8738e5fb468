"""The look of the studies' figures: fit for a paper, drawn without global plotting state."""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["DEPTH_COLOURS", "GREY", "INK", "RED", "depth_colour", "panels", "reference", "title"]

INK, GREY, RULE, RED = "#222f3e", "#66727f", "#d7dde3", "#b3261e"
# One colour a depth, in every figure; distinguishable without colour vision by their lightness.
DEPTH_COLOURS = {1: "#999999", 2: "#d9731a", 3: "#1f5fa8", 4: "#2e8b57", 5: "#8e44ad", 6: "#5d4037"}
STYLE = {
    "font.size": 8.5,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.titlesize": 9.0,
    "axes.titlelocation": "left",
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.5,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "legend.frameon": False,
    "legend.fontsize": 7.5,
    "lines.markersize": 4.0,
    "lines.linewidth": 1.4,
}


def depth_colour(depth: int) -> str:
    """Return the colour of a depth."""
    return DEPTH_COLOURS.get(depth, INK)


def panels(columns: int, *, width: float = 3.3, height: float = 2.9) -> tuple["Figure", list[Any]]:
    """Return a figure with a row of panels, and its axes."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):  # type: ignore[arg-type]
        figure = Figure(figsize=(width * columns, height), layout="constrained")
        axes = figure.subplots(1, columns, squeeze=False)[0]
    return figure, list(axes)


def title(axes: "Axes", text: str, x: str, y: str) -> None:
    """Name a panel and its axes."""
    axes.set_title(text, loc="left", fontsize=9.0, color=INK)
    axes.set(xlabel=x, ylabel=y)


def reference(axes: "Axes", value: float, text: str) -> None:
    """Draw a horizontal line with its meaning on it."""
    axes.axhline(value, color=GREY, lw=0.9, ls=":")
    axes.annotate(
        text,
        (0.99, value),
        xycoords=("axes fraction", "data"),
        xytext=(0, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=7,
        color=GREY,
    )


def legend(axes: "Axes", **options: Any) -> None:
    """Add a small legend without a frame."""
    axes.legend(frameon=False, fontsize=7.5, **options)


def ends(values: np.ndarray) -> np.ndarray:
    """Replace what a logarithmic axis cannot show (zeros) by nan."""
    return np.where(values > 0, values, np.nan)
