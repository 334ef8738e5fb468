"""Figures of the documentation, drawn at every build from the package itself."""

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

from depthrank.theory import limits_grid

HERE = Path(__file__).parent


def limits_by_depth() -> None:
    """Draw the stable rank of the exact limit against the scale of the start, depth by depth."""
    alpha = np.logspace(-3, 0.5, 200)
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for depth in (2, 3, 4, 6):
        grid = limits_grid(depth=depth, alpha=alpha, m=100.0, n_blocks=10)
        axes.semilogx(alpha, grid.stable_rank, label=f"depth {depth}")
    axes.set_xlabel("alpha, the scale of the start")
    axes.set_ylabel("stable rank of the limit")
    axes.set_ylim(0, 10.5)
    axes.legend(loc="center left")
    folder = HERE / "_build" / "figures"
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context({"svg.hashsalt": "depthrank"}):
        figure.savefig(folder / "limits-by-depth.svg", metadata={"Date": None})


if __name__ == "__main__":
    limits_by_depth()
