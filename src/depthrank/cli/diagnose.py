"""`depthrank diagnose`: what the observed cells can and cannot determine, before any training."""

from typing import TYPE_CHECKING, Any

import typer

from depthrank.cli import console, inputs, options

if TYPE_CHECKING:
    from depthrank.graph import Connectivity
    from depthrank.observations import Observations

EXAMPLE = """\b
Examples:
  depthrank diagnose ratings.csv
  depthrank diagnose log.csv --rows person --cols dish --values stars --json"""

RANKS = (1, 2, 3)
DEPTHS = (1, 2, 3, 4)
_MOST = 8  # components and labels listed for people; --json has all


def command(
    input: options.Input,
    rows: options.Rows = None,
    cols: options.Cols = None,
    values: options.Values = None,
    missing: options.Missing = None,
    sep: options.Separator = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    header: options.HeaderLine = options.Header.AUTO,
    row_labels: options.RowLabels = options.Header.AUTO,
    duplicates: options.Repeated = options.Duplicates.MEAN,
    mask: options.Mask = None,
    json: options.Json = False,
) -> None:
    """Say what the observed cells tie together, and which depth suits them. Nothing is trained."""
    with console.heard() as warned:
        observations = inputs.read(
            input,
            rows=rows,
            cols=cols,
            values=values,
            missing=missing,
            sep=sep,
            decimal=decimal,
            encoding=encoding,
            header=header,
            row_labels=row_labels,
            duplicates=duplicates,
            mask=mask,
        )
        result = diagnosis(observations)
    result["warnings"] = warned
    if json:
        console.emit(result)
    else:
        _print(str(input), result)


def diagnosis(observations: "Observations") -> dict[str, Any]:
    """Return connectivity, identifiability, coupling and a recommended depth, with reasons."""
    from depthrank.graph import connectivity
    from depthrank.theory import coupled_by_depth

    graph = connectivity(observations)
    coupled = coupled_by_depth(observations, DEPTHS)
    depth, reasons = recommend(observations, graph)
    few = {rank: graph.under_determined(rank) for rank in RANKS}
    sizes = sorted(((len(r), len(c)) for r, c in graph.components), reverse=True)
    return {
        "shape": observations.shape,
        "n_observed": observations.n_observed,
        "n_missing": observations.n_missing,
        "density": observations.density,
        "duplicates": observations.n_duplicates,
        "components": graph.n_components,
        "component_shapes": sizes,
        "bridges": len(graph.bridges),
        "isolated_rows": _named(graph.isolated_rows, observations.row_labels),
        "isolated_cols": _named(graph.isolated_cols, observations.col_labels),
        "cells": graph.label_counts,
        "under_determined": {
            rank: {"rows": len(r), "cols": len(c)} for rank, (r, c) in few.items()
        },
        "coupled": coupled,
        "recommended_depth": depth,
        "reasons": reasons,
    }


def recommend(observations: "Observations", graph: "Connectivity") -> tuple[int, list[str]]:
    """Return the depth to take and the reasons, as sentences."""
    cells = graph.label_counts
    reasons = []
    depth = 3
    if min(observations.shape) == 1:
        depth = 2
        reasons.append("A single row or column has rank one at every depth; depth 2 is enough.")
    elif graph.n_components > 1:
        reasons.append(
            f"The observed cells fall into {graph.n_components:,} components that share no row or "
            "column. At depth 2 they never act on each other, and cells across them only reflect "
            "the start; from depth 3 on they train together, towards a common low rank."
        )
    else:
        reasons.append(
            "All observed cells hang together, so that they train together at every depth from 2 "
            "on; depth 3 leans harder towards low rank than depth 2."
        )
    if cells["across"]:
        reasons.append(
            f"{_cells(cells['across'])} across components: any value fits the data there, and what "
            "comes out is the doing of depth and start alone."
        )
    empty = [
        console.count(len(index), noun)
        for index, noun in ((graph.isolated_rows, "row"), (graph.isolated_cols, "column"))
        if len(index)
    ]
    if empty:
        lie = f"{cells['isolated']:,} missing cells" if cells["isolated"] != 1 else "one cell"
        reasons.append(
            f"{' and '.join(empty)} without any observed cell ({lie}): the data say nothing there."
        )
    for rank in RANKS[1:]:
        few_rows, few_cols = graph.under_determined(rank)
        n_rows = len(few_rows) - len(graph.isolated_rows)
        n_cols = len(few_cols) - len(graph.isolated_cols)
        if n_rows or n_cols:
            reasons.append(
                f"{console.count(n_rows, 'row')} and {console.count(n_cols, 'column')} with data "
                f"hold fewer than {rank} observed cells: too few if the rank is {rank} or more."
            )
            break
    return depth, reasons


def _cells(n: int) -> str:
    return "1 missing cell lies" if n == 1 else f"{n:,} missing cells lie"


def _named(index: Any, labels: Any) -> list[Any]:
    positions = index.tolist()
    return positions if labels is None else [labels[position] for position in positions]


def _listed(names: list[Any]) -> str:
    if not names:
        return "none"
    shown = ", ".join(map(str, names[:_MOST]))
    return shown + (f", and {len(names) - _MOST:,} more" if len(names) > _MOST else "")


def _print(name: str, result: dict[str, Any]) -> None:
    m, n = result["shape"]
    console.heading(f"{name}: {m:,} x {n:,}, {result['n_observed']:,} cells observed")
    shapes = [f"{r:,} x {c:,}" for r, c in result["component_shapes"]]
    cells = result["cells"]
    rows = [
        ("observed share", f"{100 * result['density']:.3g} %"),
        ("components", f"{result['components']:,} ({_listed(shapes)})"),
        ("bridges", f"{result['bridges']:,} cells that alone hold a component together"),
        ("rows without data", _listed(result["isolated_rows"])),
        ("columns without data", _listed(result["isolated_cols"])),
        (
            "missing cells",
            f"{cells['within']:,} within a component, {cells['across']:,} across, "
            f"{cells['isolated']:,} in empty rows or columns",
        ),
    ]
    for rank, few in result["under_determined"].items():
        rows.append(
            (
                f"too few for rank {rank}",
                f"{console.count(few['rows'], 'row')}, {console.count(few['cols'], 'column')}",
            )
        )
    coupled = ", ".join(
        f"{depth} {'yes' if yes else 'no'}" for depth, yes in result["coupled"].items()
    )
    rows.append(("coupled by depth", coupled))
    if result["duplicates"]:
        rows.append(("given twice or more", console.count(result["duplicates"], "cell")))
    console.facts(rows)
    typer.echo(f"\nRecommended depth: {result['recommended_depth']}")
    for reason in result["reasons"]:
        typer.echo(f"  - {reason}")
