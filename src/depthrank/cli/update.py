"""`depthrank update`: take new entries into a saved model."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from depthrank.cli import console, inputs, options, sentences
from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    from depthrank.completion.estimator import DeepMatrixCompletion
    from depthrank.observations import Observations

EXAMPLE = """\b
Examples:
  depthrank update ratings.depthrank march.csv -o filled.csv --report update.html
  depthrank update ratings.depthrank march.csv --strategy cold --model new.depthrank
  depthrank update ratings.depthrank march.csv --holdout 0.1 --compare --json"""


class Strategy(StrEnum):
    """What is done with the model's factors before training goes on."""

    AUTO = "auto"
    WARM = "warm"
    SHRINK = "shrink"
    ADD_DEPTH = "add-depth"
    COLD = "cold"


def command(
    ctx: typer.Context,
    saved: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL",
            help="What `complete --model` wrote. It is replaced once the new one is whole.",
            show_default=False,
        ),
    ],
    input: Annotated[
        Path,
        typer.Argument(
            metavar="NEW", help="New cells, in any form that `complete` reads.", show_default=False
        ),
    ],
    out: options.Out = None,
    strategy: Annotated[
        Strategy, options.option(help="Resume, treat the factors first, or start over.")
    ] = Strategy.AUTO,
    compare: Annotated[
        bool, typer.Option("--compare", help="Also fit from scratch, and set both side by side.")
    ] = False,
    model: Annotated[
        Path | None,
        options.option(help="Keep the new model here, and MODEL as it is.", metavar="FILE"),
    ] = None,
    report: options.Report = None,
    depth: Annotated[
        int | None, options.option(help="Refuse a model of another depth.", metavar="N")
    ] = None,
    rows: options.Rows = None,
    cols: options.Cols = None,
    values: options.Values = None,
    missing: options.Missing = None,
    sep: options.Separator = None,
    decimal: options.Decimal = ".",
    encoding: options.Encoding = None,
    header: options.HeaderLine = options.Header.AUTO,
    row_labels: options.RowLabels = options.Header.AUTO,
    duplicates: options.Repeated = options.Duplicates.LAST,
    mask: options.Mask = None,
    holdout: Annotated[
        float,
        options.option(help="Keep this share of the new cells out, and measure the error there."),
    ] = 0.0,
    max_seconds: Annotated[
        float | None, options.option(help="Take the best state after so many seconds.", metavar="S")
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Take new entries into a saved model, guarding its ability to learn.

    Rows and columns are matched by label: known cells take the newest value, unknown labels become
    new rows and columns. Ctrl-C leaves the model file as it was.
    """
    given = dict(ctx.params)
    if not 0 <= holdout < 1:
        raise DepthrankError(f"--holdout is {holdout}; it must lie in [0, 1).")
    for path, endings, name in (
        (out, (), "--out"),
        (model, (".depthrank",), "--model"),
        (report, (".html", ".htm"), "--report"),
    ):
        console.check_output(path, endings, name)
    if out is not None:
        from depthrank.files.reading import suffix

        suffix(out)
    from depthrank.completion import model_file

    estimator = model_file.load(saved)
    if depth is not None:
        estimator.set_params(depth=depth)
    estimator.set_params(max_seconds=max_seconds)
    with console.heard() as warned:
        new = _read(input, given)
        _check_columns(estimator._model.observations, new)
        train, held_out = _hold_out(estimator, new, holdout)
        before = estimator._model
        _update(estimator, train, strategy.value, quiet)
        result, other = _result(estimator, before, train, held_out, compare)
    result["warnings"] = list(dict.fromkeys([*result["warnings"], *warned]))
    console.warn([text for text in result["warnings"] if text not in warned])
    target = saved if model is None else model
    if result["strategy"] != "none" or model is not None:
        estimator.save(target)
    if out is not None:
        from depthrank.files.writing import write

        write(out, _filled(estimator), like=_like(estimator, new))
    if report is not None:
        _page(report, before, estimator, result, other, given)
    if json:
        console.emit(result)
    elif not quiet:
        _show(str(saved), str(target), result)


def _read(path: Path, given: dict[str, Any]) -> "Observations":
    """Read NEW; unlike elsewhere a table without a value is fine, and brings nothing."""
    return inputs.read(path, empty=True, **{name: given[name] for name in inputs.OPTIONS})


def _check_columns(old: "Observations", new: "Observations") -> None:
    """Refuse a wide table that lacks a column of the fitted one."""
    wide = new.source is not None and new.source.layout == "wide"
    if not wide or old.col_labels is None or new.col_labels is None:
        return
    known = set(new.col_labels)
    missing = [label for label in old.col_labels if label not in known]
    if missing:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise DepthrankError(
            f"the new table lacks the column {missing[0]!r}{more} of the model; give every column "
            "(empty where nothing is new), or a long table of the new cells alone."
        )


def _hold_out(
    estimator: "DeepMatrixCompletion", new: "Observations", share: float
) -> "tuple[Observations, Observations | None]":
    if not share:
        return new, None
    train, held_out = new.split(share, estimator.seed_)
    if not held_out.n_observed:
        raise DepthrankError(
            f"--holdout {share:g}: no new cell can be spared; every row and column would lose its "
            "last one."
        )
    return train, held_out


def _update(
    estimator: "DeepMatrixCompletion", new: "Observations", strategy: str, quiet: bool
) -> None:
    from depthrank.cli.progress import Reporter

    with Reporter("updating", quiet=quiet) as reporter:
        estimator.set_params(progress=None if quiet else reporter.callback)
        try:
            estimator.partial_fit(new, strategy=strategy)
        finally:
            estimator.set_params(progress=None, max_seconds=None)


def _result(
    estimator: "DeepMatrixCompletion",
    before: Any,
    train: "Observations",
    held_out: "Observations | None",
    compare: bool,
) -> "tuple[dict[str, Any], DeepMatrixCompletion | None]":
    """Return the report with what only the command knows, and the model from scratch."""
    from depthrank.completion import update

    result, other = dict(estimator.report_), None
    result |= {"n_trained": train.n_observed, "holdout_rmse": None, "n_holdout": 0}
    if held_out is not None:
        found = estimator.evaluate(held_out)
        result |= {"holdout_rmse": found["rmse"], "n_holdout": found["n_scored"]}
    if compare:
        sides = update.compare(estimator)
        other = sides.pop("model")
        if held_out is not None:
            sides["warm"]["holdout_rmse"] = result["holdout_rmse"]
            sides["cold"]["holdout_rmse"] = other.evaluate(held_out)["rmse"]
        result["compare"] = sides
        if sides["differ"]:
            result["warnings"] = [
                *result["warnings"],
                "The updated model and one fitted from scratch differ by "
                f"{sides['rms_difference']:.3g} (root mean square) on cells that are not observed.",
            ]
    return result, other


def _filled(estimator: "DeepMatrixCompletion") -> Any:
    table = estimator._model.observations
    completed = estimator.complete()
    completed[table.rows, table.cols] = table.values
    return completed


def _like(estimator: "DeepMatrixCompletion", new: "Observations") -> "Observations":
    """Return the whole table, to be written in the form that the new data came in."""
    import dataclasses

    table = estimator._model.observations
    return dataclasses.replace(table, source=new.source)


def _page(
    path: Path,
    before: Any,
    estimator: "DeepMatrixCompletion",
    result: dict[str, Any],
    other: "DeepMatrixCompletion | None",
    given: dict[str, Any],
) -> None:
    from depthrank.report import page
    from depthrank.report.update_page import update_page

    text = update_page(
        before,
        estimator._model,
        result,
        title=f"{given['saved'].name}, updated",
        sentences=about(result),
        cold=None if other is None else other._model,
        course=getattr(estimator, "trajectory_", None),
        command=console.asked(estimator.seed_, seeded=False),
    )
    page.write(text, path)


def _show(saved: str, target: str, result: dict[str, Any]) -> None:
    console.heading(f"{saved} -> {target}" if saved != target else f"{saved}, updated")
    for sentence in about(result):
        typer.echo(f"  {sentence}")


def about(result: dict[str, Any]) -> list[str]:
    """Return what was new, what was done and why, and what came out, in sentences."""
    count = console.count
    news = [
        count(result["new_cells"], "new cell"),
        count(result["corrected"], "corrected value"),
        count(result["new_rows"], "new row"),
        count(result["new_cols"], "new column"),
    ]
    lines = [f"New: {', '.join(news)}; {count(result['unchanged'], 'cell')} as before."]
    if result["strategy"] == "none":
        return [*lines, *result["reasons"]]
    lines += [f"Strategy: {result['strategy']}.", *result["reasons"]]
    if result["holdout_rmse"] is not None:
        lines.insert(
            0,
            f"Error on {count(result['n_holdout'], 'new cell')} never used: "
            f"{result['holdout_rmse']:.4g}.",
        )
    old = result["before"]
    if old["effective_rank"] is not None:
        lines.append(
            f"Effective rank {old['effective_rank']:.3g} before, {result['effective_rank']:.3g} "
            f"now; stable rank {old['stable_rank']:.3g} before, {result['stable_rank']:.3g} now."
        )
    lines += [text for text in (sentences.found(result),) if text]
    both = result.get("compare")
    if both:
        warm, cold = both["warm"], both["cold"]
        lines.append(
            f"From scratch: effective rank {cold['effective_rank']:.3g} (updated "
            f"{warm['effective_rank']:.3g}), {cold['seconds']:.1f} s (updated "
            f"{warm['seconds']:.1f} s); cells that are not observed differ by "
            f"{both['rms_difference']:.3g} (root mean square), at most "
            f"{both['largest_difference']:.3g}."
        )
    return lines
