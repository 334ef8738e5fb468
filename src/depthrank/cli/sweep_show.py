"""`depthrank sweep show`, `plot` and `export`: looking at a store, finished or still written."""

import json as json_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from depthrank.cli import console, options

if TYPE_CHECKING:
    import xarray

SHOW = """\b
Examples:
  depthrank sweep show phase.zarr
  depthrank sweep show phase.zarr --by depth,alpha --of effective_rank"""
PLOT = """\b
Examples:
  depthrank sweep plot phase.zarr --out phase.png
  depthrank sweep plot ranks.zarr --out ranks.svg --of effective_rank --x fraction --lines depth"""

StorePath = Annotated[Path, typer.Argument(metavar="STORE", help="The store of a sweep.")]
Variable = Annotated[
    str | None,
    typer.Option("--of", metavar="VARIABLE", help="What is averaged or drawn; a rank if left."),
]
_USUAL = ("effective_rank", "stable_rank", "claims_held")


def show(
    store: StorePath,
    by: Annotated[
        str | None,
        typer.Option(metavar="AXIS,...", help="One line per position of these axes."),
    ] = None,
    of: Variable = None,
    json: options.Json = False,
) -> None:
    """Say how a sweep stands, with averages over its cells and what failed.

    Every average says over how many cells it is (n) of how many there are (N).
    """
    from depthrank.sweeps import open_sweep
    from depthrank.sweeps.summary import averages, axes_of, counts

    data = open_sweep(store)
    variable = of or _usual(data)
    axes = [name.strip() for name in by.split(",")] if by else axes_of(data)
    tables = [axes] if by else [[axis] for axis in axes if data.sizes[axis] > 1]
    found = {tuple(kept): averages(data, variable, kept) for kept in tables}
    standing, runs = counts(data), json_module.loads(data.attrs["runs"])
    reasons = _reasons(data)
    if json:
        console.emit(
            {
                **standing,
                "seconds": sum(run["seconds"] for run in runs),
                "task": data.attrs["task"],
                "title": data.attrs["title"],
                "variable": variable,
                "averages": [_rows(kept, table) for kept, table in found.items()],
                "reasons": reasons,
                "runs": runs,
            }
        )
        return
    _print(store, data, variable, standing, runs)
    for kept, table in found.items():
        _print_table(list(kept), table, variable)
    for reason, number in list(reasons.items())[:10]:
        typer.echo(f"  failed ({number}): {reason}")


def plot(
    store: StorePath,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="PNG, SVG or PDF to write.")
    ],
    of: Variable = None,
    x: Annotated[str | None, typer.Option(metavar="AXIS", help="The horizontal axis.")] = None,
    y: Annotated[
        str | None, typer.Option(metavar="AXIS", help="The vertical axis of a heat map.")
    ] = None,
    lines: Annotated[
        str | None, typer.Option(metavar="AXIS", help="A line per position, with a band.")
    ] = None,
    panels: Annotated[
        str | None, typer.Option(metavar="AXIS", help="A panel per position.")
    ] = None,
    contour: Annotated[
        str | None,
        typer.Option(metavar="VARIABLE", help="Drawn over a heat map; the exact limit if left."),
    ] = None,
) -> None:
    """Draw a variable over one axis (lines with 95 % bands) or two (heat maps).

    Axes that are not named are averaged over; bands are intervals of that mean.
    """
    console.check_output(out, console.PICTURES, "--out")
    from depthrank.report.figures import save
    from depthrank.report.sweep_figures import sweep_figure
    from depthrank.sweeps import open_sweep

    data = open_sweep(store)
    figure = sweep_figure(
        data, of or _usual(data), x=x, y=y, lines=lines, panels=panels, contour=contour
    )
    save(figure, out)


def export(
    store: StorePath,
    file: Annotated[Path, typer.Argument(metavar="FILE.parquet", help="The table to write.")],
) -> None:
    """Write a sweep as a table: a line per cell, its axes, status, reason and variables."""
    console.check_output(file, (".parquet",), "FILE")
    from depthrank.sweeps import open_sweep
    from depthrank.sweeps.summary import write_parquet

    console.say(f"{console.count(write_parquet(open_sweep(store), file), 'line')}: {file}")


def _usual(data: "xarray.Dataset") -> str:
    from depthrank.sweeps.summary import numeric

    known = numeric(data)
    return next((name for name in _USUAL if name in known), known[0])


def _reasons(data: "xarray.Dataset") -> dict[str, int]:
    from collections import Counter

    failed = data["reason"].values[data["status"].values == "failed"]
    return dict(Counter(str(reason) for reason in failed).most_common())


def _rows(kept: tuple[str, ...], table: "xarray.Dataset") -> list[dict[str, Any]]:
    flat = table.stack(line=list(kept)) if kept else table.expand_dims("line")
    names = ("mean", "low", "high", "n", "N")
    return [
        {axis: flat[axis].values[k] for axis in kept}
        | {name: flat[name].values[k] for name in names}
        for k in range(flat.sizes["line"])
    ]


def _print(
    store: Path,
    data: "xarray.Dataset",
    variable: str,
    standing: dict[str, int],
    runs: list[dict[str, Any]],
) -> None:
    from depthrank.sweeps.lock import owner

    title = data.attrs["title"] or store.name
    console.heading(
        f"{title}: {standing['done']:,} of {console.count(standing['cells'], 'cell')} done"
    )
    axes = [f"{axis} ({data.sizes[axis]})" for axis in data["status"].dims]
    rows = [
        ("task", str(data.attrs["task"])),
        ("axes", ", ".join(axes) or "none"),
        ("failed", f"{standing['failed']:,}"),
        ("pending", f"{standing['pending']:,}"),
        ("runs", f"{len(runs)}, {sum(run['seconds'] for run in runs):.1f} s in all"),
        ("shown", f"{variable}, mean over n of N cells with the 95 % interval of the mean"),
    ]
    who = owner(store)
    if who is not None:
        rows.append(("lock", f"process {who.get('pid')} on {who.get('host')}, {who.get('since')}"))
    console.facts(rows)


def _print_table(kept: list[str], table: "xarray.Dataset", variable: str) -> None:
    rows = _rows(tuple(kept), table)
    shown = rows if len(rows) <= 40 else [*rows[:20], *rows[-19:]]
    lines = [[*kept, variable, "95 % interval", "n of N"]]
    for row in shown:
        labels = [_label(row[axis]) for axis in kept]
        band = f"{console.number(row['low'], 4)} to {console.number(row['high'], 4)}"
        if row["n"] < 2:
            band = "-"
        mean = console.number(float(row["mean"]), 5)
        lines.append([*labels, mean, band, f"{int(row['n']):,} of {int(row['N']):,}"])
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    typer.echo("")
    for position, line in enumerate(lines):
        cells = (word.rjust(width) for word, width in zip(line, widths, strict=True))
        typer.echo("  " + "  ".join(cells))
        if position == 20 and len(shown) < len(rows):
            typer.echo(f"  ... {len(rows) - len(shown)} more lines")


def _label(value: Any) -> str:
    if isinstance(value, str):
        return value
    number = float(value)
    return f"{number:.4g}" if number != int(number) or abs(number) >= 1e6 else str(int(number))
