"""Pictures of networks: ranks over training, and histograms of singular values."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.studies import drawing

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

__all__ = ["histogram_figure", "tracker_figure"]


def tracker_figure(data: "xarray.Dataset") -> "Figure":
    """Draw what a `RankTracker` recorded.

    Parameters
    ----------
    data : xarray.Dataset
        As `RankTracker.dataset` returns it.

    Returns
    -------
    Figure
        Effective ranks (power 2) of the layers over their baselines; average rank with its
        baseline and that of the updates; loss, where one was given.
    """
    import matplotlib as mpl

    losses = np.asarray(data["loss"])
    figure, axes = drawing.panels(3 if np.isfinite(losses).any() else 2, width=3.8)
    steps = np.asarray(data["time"])
    ranks = np.asarray(data["effective_rank_power2"])
    flat = np.asarray(data["baseline_effective_rank_power2"])
    colours = mpl.colormaps["viridis"](np.linspace(0, 0.85, ranks.shape[1]))
    for k, name in enumerate(np.asarray(data["layer"])):
        style = "-" if bool(data["counted"][k]) else ":"
        label = str(name) if ranks.shape[1] <= 8 else None
        axes[0].plot(steps, ranks[:, k] / flat[k], style, color=colours[k], label=label)
    drawing.title(axes[0], "layers (dotted: not in averages)", "step", "rank / untrained")
    if ranks.shape[1] <= 8:
        drawing.legend(axes[0])
    counted = np.asarray(data["counted"])
    if counted.any():
        axes[1].plot(steps, ranks[:, counted].mean(1), "o-", color=drawing.INK, label="weights")
        drawing.reference(axes[1], float(flat[counted].mean()), "untrained")
        if "update_effective_rank_power2" in data:
            update = np.asarray(data["update_effective_rank_power2"])[:, counted].mean(1)
            axes[1].plot(steps[1:], update[1:], "s--", color=drawing.RED, label="change")
        axes[1].set_ylim(bottom=0)
        drawing.legend(axes[1])
    drawing.title(axes[1], "average effective rank (power 2)", "step", "effective rank")
    if len(axes) > 2:
        seen = np.isfinite(losses)
        axes[2].plot(steps[seen], losses[seen], "o-", color=drawing.INK)
        if (losses[seen] > 0).all():
            axes[2].set_yscale("log")
        drawing.title(axes[2], "loss", "step", "loss")
    return figure


def histogram_figure(spectra: Mapping[str, Any], flat: Mapping[str, Any]) -> "Figure":
    """Draw histograms of singular values, every layer beside untrained weights of its shape.

    Parameters
    ----------
    spectra : mapping of str to array [k]
        Singular values by layer; at most 12 are drawn.
    flat : mapping of str to array [k]
        The same of a Gaussian matrix of that shape, drawn as a line at equal Frobenius norm.

    Returns
    -------
    Figure
    """
    from matplotlib.figure import Figure

    names = list(spectra)[:12]
    columns = min(4, max(len(names), 1))
    rows = -(-max(len(names), 1) // columns)
    figure = Figure(figsize=(2.9 * columns, 2.3 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    for place, name in zip(axes, names, strict=False):
        s, other = np.asarray(spectra[name]), np.asarray(flat[name])
        size = float(np.linalg.norm(other))
        other = other * (float(np.linalg.norm(s)) / size if size else 1.0)
        top = max(float(s.max()), float(other.max())) or 1.0
        bins = np.linspace(0, top, 33)
        place.hist(s, bins, color=drawing.depth_colour(3), alpha=0.8)
        place.hist(other, bins, histtype="step", color=drawing.RED, lw=1.0)
        drawing.title(place, str(name)[-28:], "singular value", "count")
    for place in axes[len(names) :]:
        place.set_axis_off()
    rest = len(spectra) - len(names)
    note = "filled: measured; line: untrained weights of the same shape and norm"
    figure.suptitle(note + (f"; {rest} more layers not drawn" if rest else ""), fontsize=8)
    return figure
