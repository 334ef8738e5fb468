"""One self-contained HTML page about a run: no script, no network, nothing beside the file."""

import platform
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from depthrank._version import __version__
from depthrank.files.atomic import atomic
from depthrank.graph import ACROSS, ISOLATED, OBSERVED, connectivity
from depthrank.report import figures, html

if TYPE_CHECKING:
    import xarray

    from depthrank.dynamics.trajectory import Trajectory
    from depthrank.graph import Connectivity
    from depthrank.observations import Observations

__all__ = ["completion_page", "trajectory_page", "write"]

Array = NDArray[np.float64]

_EXCERPT = (10, 8)  # rows and columns of the table shown
_MOST_LABELS = 12
_ELSEWHERE = {"warnings", "tried", "limit", "baselines", "shape", "cells", "regime"}
_WIDEST = 4_000_000  # cells of the largest matrix that is drawn


def completion_page(
    observations: "Observations",
    completed: Array,
    result: Mapping[str, Any],
    *,
    title: str,
    sentences: list[str],
    course: "xarray.Dataset | None" = None,
    command: str = "",
    python: str = "",
) -> str:
    """Return the page of a completed table.

    Parameters
    ----------
    observations : Observations
        What was seen.
    completed : array [m, n]
        What came out.
    result : mapping
        What `depthrank complete --json` prints.
    title, sentences : str, list of str
        Head of the page: whose table, and what came out.
    course : xarray.Dataset, optional
        The run over time, as `Trajectory.data`.
    command, python : str
        How to get the same again.

    Returns
    -------
    str
        HTML.
    """
    graph = connectivity(observations)
    image = observations.source is not None and observations.source.kind == "image"
    body = [
        html.header(title, sentences),
        html.cards(_completion_cards(result), best="held-out error"),
        html.warnings(list(result.get("warnings", ()))),
        html.section("Before and after", _matrices(observations, completed)),
        ""
        if image
        else html.section("The filled table", *_excerpt(observations, completed, graph)),
        html.section("What the data determine", *_determined(observations, graph)),
        html.section("The run", course_picture(course), _tries(result)),
        html.section("Settings and results", settings(result)),
        again(command, python),
    ]
    return html.document(title, body, footer())


def trajectory_page(
    trajectory: "Trajectory",
    observations: "Observations",
    result: Mapping[str, Any],
    *,
    command: str = "",
    python: str = "",
) -> str:
    """Return the page of a flow or descent.

    Parameters
    ----------
    trajectory : Trajectory
        The run.
    observations : Observations
        What was seen.
    result : mapping
        What `depthrank flow --json` prints.
    command, python : str
        How to get the same again.

    Returns
    -------
    str
        HTML.
    """
    m, n = observations.shape
    title = f"Depth {trajectory.depth} on {m:,} × {n:,}"
    sentences = [
        f"{observations.n_observed:,} of {m * n:,} entries were observed. The run ended as "
        f"“{trajectory.stopped_by}” at time {trajectory.time:.4g} with an observed loss of "
        f"{trajectory.loss:.2e}.",
        f"Regime: {result.get('regime', '')}.",
    ]
    graph = connectivity(observations)
    entries = [
        ("stable rank", f"{trajectory.stable_rank:.4g}"),
        ("effective rank", f"{trajectory.effective_rank:.4g}"),
        ("gradient evaluations", f"{trajectory.evaluations:,}"),
        ("seconds", f"{trajectory.seconds:.2f}"),
        ("ended", trajectory.stopped_by),
    ]
    limit = result.get("limit")
    compared = ""
    if limit is not None:
        compared = html.paragraph(
            "The exact limit for t → ∞ is known here: every singular value agrees with it to a "
            f"relative difference of {limit['largest_relative_difference']:.1e}."
        )
    body = [
        html.header(title, sentences),
        html.cards(entries),
        html.warnings(list(result.get("warnings", ()))),
        html.section("The run", course_picture(trajectory.data), compared),
        html.section("Observed and end-to-end", _matrices(observations, trajectory.end_to_end)),
        html.section("What the data determine", *_determined(observations, graph)),
        html.section("Settings and results", settings(result)),
        again(command, python),
    ]
    return html.document(title, body, footer())


def write(page: str, path: Path) -> None:
    """Write a page, whole or not at all."""
    with atomic(path) as handle:
        handle.write(page.encode("utf-8"))


# Sections


def _completion_cards(result: Mapping[str, Any]) -> list[tuple[str, str]]:
    def shown(key: str) -> str:
        value = result.get(key)
        return "–" if value is None else f"{value:.4g}"

    entries = []
    if result.get("holdout_rmse") is not None:
        entries.append(("held-out error", shown("holdout_rmse")))
        for name, value in (result.get("baselines") or {}).items():
            entries.append((f"{name.replace('_', ' ')} baseline", f"{value:.4g}"))
    elif result.get("validation_rmse") is not None:
        entries.append(("validation error", shown("validation_rmse")))
    entries.append(("observed error", shown("observed_rmse")))
    entries.append(("depth", str(result.get("depth"))))
    entries.append(("effective rank", shown("effective_rank")))
    return entries


def _matrices(observations: "Observations", completed: Array) -> str:
    m, n = observations.shape
    if m * n > _WIDEST:
        return html.paragraph(f"A {m:,} × {n:,} matrix is too large to be drawn here.")
    source = observations.source
    channels = 1 if source is None else source.channels
    image = source is not None and source.kind == "image"
    picture = figures.matrix_figure(observations.to_dense(), completed, channels=channels)
    right = "picture." if image else "matrix, on the same colours."
    caption = f"Left: what was observed; grey is missing. Right: the completed {right}"
    return html.picture(picture, caption)


def _excerpt(
    observations: "Observations", completed: Array, graph: "Connectivity"
) -> tuple[str, ...]:
    m, n = (min(a, b) for a, b in zip(observations.shape, _EXCERPT, strict=True))
    names = [
        [str(k) for k in range(size)] if labels is None else [str(x) for x in labels[:size]]
        for labels, size in ((observations.row_labels, m), (observations.col_labels, n))
    ]
    codes = graph.label(np.arange(m)[:, None], np.arange(n))
    lines = []
    for i in range(m):
        cells = []
        for j in range(n):
            kind = {OBSERVED: "", ACROSS: "unsure", ISOLATED: "unsure"}.get(
                int(codes[i, j]), "filled"
            )
            value = completed[i, j]
            number = f"{value:.4g}" if np.isfinite(value) else "–"
            cells.append(f'<td class="{kind}">{html.text(number)}</td>')
        lines.append(f"<tr><th>{html.text(names[0][i])}</th>{''.join(cells)}</tr>")
    top = "".join(f"<th>{html.text(name)}</th>" for name in names[1])
    grid = (
        f'<div class="wide"><table class="grid"><thead><tr><th></th>{top}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )
    key = (
        '<p>Observed cells are as given; <span class="key filled">filled</span> ones lie among '
        'observed rows and columns; <span class="key unsure">unsure</span> ones are not determined '
        "by the data.</p>"
    )
    more = ""
    if (m, n) != observations.shape:
        rows, cols = observations.shape
        more = html.paragraph(f"The first {m} rows and {n} columns of {rows:,} × {cols:,}.")
    return key, grid, more


def _determined(observations: "Observations", graph: "Connectivity") -> tuple[str, ...]:
    cells = graph.label_counts
    total = observations.shape[0] * observations.shape[1]
    meaning = {
        "observed": "given",
        "within": "inside a component: determined if the rank is low enough",
        "across": "between components: any value fits the data",
        "isolated": "in a row or column without any observed cell: the data say nothing",
    }
    rows = [
        (name, f"{cells[name]:,}", f"{100 * cells[name] / total:.3g} %", meaning[name])
        for name in meaning
    ]
    sizes = sorted(((len(r), len(c)) for r, c in graph.components), reverse=True)
    listed = ", ".join(f"{r:,} × {c:,}" for r, c in sizes[:_MOST_LABELS])
    if len(sizes) > _MOST_LABELS:
        listed += f" and {len(sizes) - _MOST_LABELS:,} smaller"
    facts = [("components", f"{graph.n_components:,} ({listed})")]
    for name, index, labels in (
        ("rows without data", graph.isolated_rows, observations.row_labels),
        ("columns without data", graph.isolated_cols, observations.col_labels),
    ):
        if len(index):
            shown = [str(k if labels is None else labels[k]) for k in index[:_MOST_LABELS].tolist()]
            rest = len(index) - len(shown)
            facts.append((name, ", ".join(shown) + (f" and {rest:,} more" if rest else "")))
    if observations.n_duplicates:
        facts.append(("cells given twice or more", f"{observations.n_duplicates:,}"))
    return html.table(rows, ("cells", "number", "share", "meaning")), html.facts(facts)


def course_picture(course: "xarray.Dataset | None") -> str:
    """Return the picture of a run over time, if there is one."""
    if course is None:
        return ""
    caption = "Loss on observed cells, singular values of the end-to-end matrix, and its ranks."
    if course.sizes["time"] < 4:
        caption = "Loss on observed cells, and singular values at the start and at the end."
    return html.picture(
        figures.trajectory_figure(course),
        caption,
        "svg" if course.sizes["time"] * course.sizes["mode"] < 20_000 else "png",
    )


def _tries(result: Mapping[str, Any]) -> str:
    tries = result.get("tried") or []
    if not tries:
        return ""
    head = list(tries[0])
    rows = [[short(entry.get(name)) for name in head] for entry in tries]
    return html.paragraph("Tried on held-out cells before the final fit:") + html.table(
        rows, [name.replace("_", " ") for name in head]
    )


def settings(result: Mapping[str, Any]) -> str:
    """Return results as names and values, without what stands elsewhere on the page."""
    flat = []
    for key, value in result.items():
        if key in _ELSEWHERE:
            continue
        if isinstance(value, Mapping):
            flat += [
                (f"{key}: {name}".replace("_", " "), short(entry)) for name, entry in value.items()
            ]
        else:
            flat.append((key.replace("_", " "), short(value)))
    return html.facts(flat)


def short(value: Any) -> str:
    """Write a value for people."""
    if value is None:
        return "–"
    if isinstance(value, bool | np.bool_):
        return "yes" if value else "no"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, int | np.integer):
        return str(value)
    if isinstance(value, list | tuple | np.ndarray):
        if not len(value):
            return "none"
        shown = ", ".join(short(entry) for entry in value[:_MOST_LABELS])
        return shown + (f", … ({len(value):,} in all)" if len(value) > _MOST_LABELS else "")
    return str(value)


def again(command: str, python: str) -> str:
    """Return the section on how to get the same again."""
    parts = []
    if command:
        parts += [html.paragraph("On the command line:"), html.code(command)]
    if python:
        parts += [html.paragraph("In Python:"), html.code(python)]
    return html.section("The same again", *parts) if parts else ""


def footer() -> str:
    """Return what made the page."""
    used = ", ".join(f"{name} {version(name)}" for name in ("numpy", "jax", "diffrax"))
    return (
        f"depthrank {__version__}; {used}; Python {platform.python_version()} on "
        f"{platform.system()} {platform.machine()}."
    )
