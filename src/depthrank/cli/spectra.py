"""`depthrank spectra`: rank measures of every weight in a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from depthrank.cli import console, options

EXAMPLE = """\b
Examples:
  depthrank spectra weights.safetensors
  depthrank spectra weights.npz --plot spectra.png --json"""


def command(
    weights: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS", help="A .safetensors, .npz or .npy file.", show_default=False
        ),
    ],
    tol: Annotated[
        float | None,
        typer.Option(help="Numerical rank counts values above TOL times the largest."),
    ] = None,
    out_axis: Annotated[
        int,
        typer.Option(
            help="Axis kept when an array of more than two axes becomes a matrix: "
            "0 for PyTorch convolutions, -1 for Flax and Keras kernels."
        ),
    ] = 0,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the singular values of all layers (.png, .svg, .pdf)."
        ),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure the rank of every weight matrix in a file.

    Arrays that cannot be measured keep their row with the reason; the exit status is 1 if there
    are any, 0 otherwise.
    """
    from depthrank.weights import layer_table, read_weights, summary

    console.check_output(plot, console.PICTURES, "--plot")
    arrays = read_weights(weights)
    rows = layer_table(arrays, tol=tol, out_axis=out_axis)
    about = summary(rows)
    if plot is not None:
        _plot(arrays, rows, out_axis, plot)
    if json:
        console.emit({"layers": rows, "summary": about})
    else:
        _print(weights, rows, about)
    if about["failed"]:
        console.say(f"{about['failed']} of {about['layers']} arrays could not be measured.")
        raise typer.Exit(1)


def _plot(arrays: Any, rows: list[dict[str, Any]], out_axis: int, path: Path) -> None:
    import numpy as np

    from depthrank import spectra
    from depthrank.report.figures import save, spectrum_figure

    named = {}
    for row in rows:
        if row["status"] == "measured":
            W = np.asarray(arrays[row["name"]])
            if W.ndim > 2:
                W = np.moveaxis(W, out_axis, 0).reshape(W.shape[out_axis], -1)
            named[row["name"]] = spectra.singular_values(W)
    save(spectrum_figure(named), path)


def _print(path: Path, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title = f"{escape(path.name)}: {about['measured']} of {about['layers']} measured"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("layer", overflow="fold")
    table.add_column("shape")
    for name in ("largest", "stable", "effective", "numerical", "share"):
        table.add_column(name, justify="right")
    for row in rows:
        shape = " x ".join(map(str, row["shape"])) or "scalar"
        if row["status"] == "measured":
            cells = [str(row["max_rank"])]
            cells += [f"{row[key]:.4g}" for key in ("stable_rank", "effective_rank")]
            cells += [str(row["numerical_rank"]), f"{row['normalised']['effective_rank']:.2f}"]
        else:
            cells = [f"[dim]{escape(row['status'])}[/dim]", "", "", "", ""]
        table.add_row(escape(row["name"]), shape, *cells)
    if about["mean"] is not None:
        mean = [f"{about['mean'][key]:.4g}" for key in ("stable_rank", "effective_rank")]
        mean += [f"{about['mean']['numerical_rank']:.4g}"]
        mean += [f"{about['mean_normalised']['effective_rank']:.2f}"]
        table.add_section()
        table.add_row("mean", "", "", *mean, style="dim")
    out = Console()
    if not out.is_terminal:
        out.width = 120  # a file has no edge to wrap at
    out.print(table)
    typer.echo("Ranks; share is the effective rank over the largest possible.")
    for row in rows:
        if row["status"] == "failed":
            console.say(f"Warning: {row['name']}: {row['reason']}")
