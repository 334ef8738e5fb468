"""`depthrank spectra`: rank measures of every weight in a file."""

from pathlib import Path
from typing import Annotated, Any

import typer

from depthrank.cli import console, options

EXAMPLE = """\b
Examples:
  depthrank spectra weights.safetensors
  depthrank spectra weights.npz --plot spectra.png --json
  depthrank spectra trained.pt --against start.pt
  depthrank spectra folder-from-hugging-face --histogram histogram.png"""


def command(
    weights: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS",
            help="A .safetensors, .npz, .npy or PyTorch file (weights only), or a folder of "
            "Hugging Face's.",
            show_default=False,
        ),
    ],
    against: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Earlier weights: compare layer by layer, and the change."
        ),
    ] = None,
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
    conv: Annotated[
        str,
        typer.Option(
            help="How kernels become matrices: flatten (out x rest), slices (out x in per tap, "
            "pooled), spatial (out and height x in and width)."
        ),
    ] = "flatten",
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the singular values of all layers (.png, .svg, .pdf)."
        ),
    ] = None,
    histogram: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw histograms beside untrained weights."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Measure the rank of every weight matrix in a file.

    Arrays that cannot be measured keep their row with the reason; the exit status is 1 if there
    are any, 0 otherwise.
    """
    from depthrank.weights import compare_weights, layer_table, read_weights, summary

    console.check_output(plot, console.PICTURES, "--plot")
    console.check_output(histogram, console.PICTURES, "--histogram")
    arrays = read_weights(weights)
    rows = layer_table(arrays, tol=tol, out_axis=out_axis, conv=conv)
    about = summary(rows)
    if plot is not None or histogram is not None:
        _draw(arrays, rows, out_axis, conv, plot, histogram)
    result: dict[str, Any] = {"layers": rows, "summary": about, "conv": conv}
    if against is not None:
        earlier = read_weights(against)
        result["comparison"] = compare_weights(earlier, arrays, out_axis=out_axis, conv=conv)
    if json:
        console.emit(result)
    else:
        _print(weights, rows, about)
        if against is not None:
            _print_comparison(against, result["comparison"])
    if about["failed"]:
        console.say(f"{about['failed']} of {about['layers']} arrays could not be measured.")
        raise typer.Exit(1)


def _draw(
    arrays: Any,
    rows: list[dict[str, Any]],
    out_axis: int,
    conv: str,
    plot: Path | None,
    histogram: Path | None,
) -> None:
    """Draw the pictures that were asked for."""
    import numpy as np

    from depthrank.baselines import gaussian_singular_values
    from depthrank.report.figures import save, spectrum_figure
    from depthrank.report.network_figures import histogram_figure
    from depthrank.seeds import generator
    from depthrank.weights import layer_spectrum

    named, flat = {}, {}
    rng = generator(0, "histogram")
    for row in rows:
        if row["status"] == "measured":
            W = np.asarray(arrays[row["name"]])
            named[row["name"]] = layer_spectrum(
                W, out_axis=out_axis if W.ndim > 2 else 0, conv=conv
            )
            m, n = row["matrix_shape"]
            draws = [gaussian_singular_values(m, n, rng) for _ in range(row["blocks"])]
            flat[row["name"]] = np.concatenate(draws)
    if plot is not None:
        save(spectrum_figure(named), plot)
    if histogram is not None:
        save(histogram_figure(named, flat), histogram)


def _print_comparison(path: Path, rows: list[dict[str, Any]]) -> None:
    """Print effective ranks before and after, and of the change."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title = f"Effective rank against {escape(path.name)}"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("layer", overflow="fold")
    for name in ("before", "after", "of the change", "relative change"):
        table.add_column(name, justify="right")
    for row in rows:
        if row["status"] == "measured":
            cells = [f"{row[key]['effective_rank']:.4g}" for key in ("before", "after", "change")]
            far = row["distance"]
            cells.append("-" if far is None else f"{far:.3g}")
        elif row["status"] == "skipped":
            continue
        else:
            cells = [f"[dim]{escape(row['status'])}[/dim]", "", "", ""]
        table.add_row(escape(row["name"]), *cells)
    out = Console()
    if not out.is_terminal:
        out.width = 120
    out.print(table)
    for row in rows:
        if row["status"] == "unmatched":
            console.say(f"Warning: {row['name']}: {row['reason']}")


def _print(path: Path, rows: list[dict[str, Any]], about: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    title = f"{escape(path.name)}: {about['measured']} of {about['layers']} measured"
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("layer", overflow="fold")
    table.add_column("shape")
    for name in ("largest", "stable", "effective", "untrained", "numerical", "share"):
        table.add_column(name, justify="right")
    for row in rows:
        shape = " x ".join(map(str, row["shape"])) or "scalar"
        if row["status"] == "measured":
            cells = [str(row["max_rank"])]
            cells += [f"{row[key]:.4g}" for key in ("stable_rank", "effective_rank")]
            cells += [f"{row['baseline']['effective_rank']:.4g}", str(row["numerical_rank"])]
            cells += [f"{row['normalised']['effective_rank']:.2f}"]
        else:
            cells = [f"[dim]{escape(row['status'])}[/dim]", "", "", "", "", ""]
        table.add_row(escape(row["name"]), shape, *cells)
    if about["mean"] is not None:
        mean = [f"{about['mean'][key]:.4g}" for key in ("stable_rank", "effective_rank")]
        mean += ["", f"{about['mean']['numerical_rank']:.4g}"]
        mean += [f"{about['mean_normalised']['effective_rank']:.2f}"]
        table.add_section()
        table.add_row("mean", "", "", *mean, style="dim")
    out = Console()
    if not out.is_terminal:
        out.width = 120  # a file has no edge to wrap at
    out.print(table)
    typer.echo(
        "Ranks; untrained: effective rank of random weights of the shape; share: of the largest."
    )
    for row in rows:
        if row["status"] == "failed":
            console.say(f"Warning: {row['name']}: {row['reason']}")
