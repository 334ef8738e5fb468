"""The page of an update: the table before and after, what was done and why."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from depthrank.report import figures, html, page

if TYPE_CHECKING:
    from depthrank.completion.model import CompletionModel

_WIDEST = 4_000_000  # cells of a matrix that is still drawn
_HEADS = {
    "shape": "shape",
    "n_observed": "observed cells",
    "components": "components",
    "depth": "depth",
    "weight_decay": "weight decay",
    "observed_rmse": "observed error",
    "validation_rmse": "error on cells kept aside",
    "holdout_rmse": "held-out error",
    "stable_rank": "stable rank",
    "effective_rank": "effective rank",
    "seconds": "seconds",
}


def update_page(
    before: "CompletionModel",
    after: "CompletionModel",
    result: Mapping[str, Any],
    *,
    title: str,
    sentences: list[str],
    cold: "CompletionModel | None" = None,
    course: Any = None,
    command: str = "",
) -> str:
    """Return the page of an update.

    Parameters
    ----------
    before, after : CompletionModel
        The model as it was and as it is.
    result : mapping
        What `depthrank update --json` prints.
    title, sentences : str, list of str
        Head of the page.
    cold : CompletionModel, optional
        The model that was fitted from scratch for comparison.
    course : Trajectory, optional
        The last run.
    command : str
        How to get the same again.

    Returns
    -------
    str
        HTML.
    """
    columns = {"before": result["before"], "now": result}
    if cold is not None:
        columns["from scratch"] = result["compare"]["cold"]
    rows = [
        (name, *(page.short(column.get(key)) for column in columns.values()))
        for key, name in _HEADS.items()
        if any(column.get(key) is not None for column in columns.values())
    ]
    pictures = [_picture(before, "The completed table before."), _picture(after, "Now.")]
    if cold is not None:
        pictures.append(_picture(cold, "Fitted from scratch to the same cells."))
    known = {"before", "compare", "reasons", *_HEADS}
    rest = {name: value for name, value in result.items() if name not in known}
    body = [
        html.header(title, sentences[:3]),
        html.cards(
            [
                ("strategy", str(result["strategy"])),
                ("new cells", f"{result['new_cells']:,}"),
                ("corrected values", f"{result['corrected']:,}"),
                ("new rows", f"{result['new_rows']:,}"),
                ("new columns", f"{result['new_cols']:,}"),
            ]
        ),
        html.warnings(list(result.get("warnings", ()))),
        html.section("Before and after", html.table(rows, ("", *columns)), *pictures),
        html.section("Why", *(html.paragraph(reason) for reason in result["reasons"])),
        html.section("The run", page.course_picture(None if course is None else course.data)),
        html.section("Settings and results", page.settings(rest)),
        page.again(command, ""),
    ]
    return html.document(title, body, page.footer())


def _picture(model: "CompletionModel", caption: str) -> str:
    table = model.observations
    m, n = table.shape
    if m * n > _WIDEST:
        return html.paragraph(f"{caption} A {m:,} × {n:,} matrix is too large to be drawn here.")
    completed = np.asarray(model.completed())
    drawn = figures.matrix_figure(table.to_dense(), completed)
    return html.picture(drawn, f"{caption} Left: what is observed; grey is missing.")
