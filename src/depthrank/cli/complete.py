"""`depthrank complete`: fill the missing cells of a table."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from depthrank.cli import console, inputs, options, sentences
from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    import numpy as np

    from depthrank.completion.estimator import DeepMatrixCompletion
    from depthrank.observations import Observations

EXAMPLE = """\b
Examples:
  depthrank complete ratings.csv -o filled.csv --report filled.html
  depthrank complete log.csv --rows person --cols dish --values stars -o filled.csv --holdout 0.1
  depthrank complete photo.png --mask holes.png -o whole.png --max-seconds 60"""


class Offsets(StrEnum):
    """Effects that are taken off first."""

    AUTO = "auto"
    NONE = "none"
    ROWS = "rows"
    COLUMNS = "columns"
    BOTH = "both"


def command(
    ctx: typer.Context,
    input: options.Input,
    out: options.Out = None,
    model: Annotated[
        Path | None, options.option(help="Keep the fitted model (.depthrank).", metavar="FILE")
    ] = None,
    report: options.Report = None,
    depth: Annotated[
        str,
        options.option(help="Number of factors; auto chooses on held-out cells.", metavar="auto|N"),
    ] = "auto",
    width: Annotated[
        int | None, options.option(help="Hidden width, which bounds the rank.", metavar="N")
    ] = None,
    weight_decay: Annotated[
        str, options.option(help="Weight decay for the table scaled to size one.", metavar="auto|X")
    ] = "auto",
    init_scale: Annotated[
        str,
        options.option(
            help="Norm of the end-to-end matrix at the start, scaled.", metavar="auto|X"
        ),
    ] = "auto",
    offsets: Annotated[
        Offsets, options.option(help="Row and column effects taken off first.")
    ] = Offsets.AUTO,
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
    holdout: Annotated[
        float,
        options.option(
            help="Keep this share of the cells out of training altogether and measure the error "
            "there.",
            metavar="F",
        ),
    ] = 0.0,
    seed: options.Seed = None,
    max_seconds: Annotated[
        float | None,
        options.option(help="Take the best state after so many seconds.", metavar="S"),
    ] = None,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Fill the missing cells of a table.

    Observed cells are written as given. Depth, decay, effects and the time to stop are chosen on
    held-out cells and the choice is then fitted to all; cells of --holdout take no part in either,
    so that the error there describes the very model that fills the table.
    """
    given = dict(ctx.params)
    settings = _settings(given)
    _check_outputs(given)
    seed = console.seed_or_draw(seed)
    with console.heard() as warned:
        observations = inputs.read(input, **{name: given[name] for name in inputs.OPTIONS})
        _check_size(observations, out)
        train, held_out = observations, None
        if holdout:
            train, held_out = observations.split(holdout, seed)
            if not held_out.n_observed:
                raise DepthrankError(
                    f"--holdout {holdout:g}: no cell can be spared; every row and column would "
                    "lose its last one."
                )
        estimator = _fit(train, settings, seed, quiet)
        completed = estimator.complete()
        completed[observations.rows, observations.cols] = observations.values
    result = _result(estimator, observations, train, held_out)
    result["warnings"] = list(dict.fromkeys([*result["warnings"], *warned]))
    console.warn([text for text in result["warnings"] if text not in warned])
    _write(given, estimator, observations, completed, result, settings, seed)
    if json:
        console.emit(result)
    elif not quiet:
        sentences.show(str(input), result, None if out is None else str(out))
    if result["stopped_by"] == "interrupted":
        console.say("Interrupted; the best state so far was kept.")
        raise typer.Exit(130)


def _settings(given: dict[str, Any]) -> dict[str, Any]:
    """Return the estimator's arguments, from the options that were given."""
    settings: dict[str, Any] = {
        "depth": _number(given["depth"], "--depth", int),
        "width": given["width"],
        "weight_decay": _number(given["weight_decay"], "--weight-decay", float),
        "init_scale": _number(given["init_scale"], "--init-scale", float),
        "offsets": given["offsets"].value,
        "max_seconds": given["max_seconds"],
    }
    if not 0 <= given["holdout"] < 1:
        raise DepthrankError(f"--holdout is {given['holdout']}; it must lie in [0, 1).")
    return settings


def _number(text: str, option: str, kind: type) -> Any:
    if text == "auto":
        return text
    try:
        return kind(text)
    except ValueError:
        what = "an integer" if kind is int else "a number"
        raise DepthrankError(f"{option} is {text!r}; it must be {what}, or auto.") from None


def _check_outputs(given: dict[str, Any]) -> None:
    from depthrank.files.reading import suffix

    if given["out"] is not None:
        try:
            suffix(given["out"])
        except DepthrankError as error:
            raise DepthrankError(f"--out is {str(given['out'])!r}: {error}") from None
    console.check_output(given["out"], (), "--out")
    console.check_output(given["model"], (".depthrank",), "--model")
    console.check_output(given["report"], (".html", ".htm"), "--report")


def _check_size(observations: "Observations", out: Path | None) -> None:
    """Refuse what would only fail after training: no memory, or no way to write the result."""
    from depthrank import memory
    from depthrank.files.images import SUFFIXES

    m, n = observations.shape
    memory.require(
        8 * 8 * m * n,
        f"completing a {m:,} x {n:,} table",
        "Leave out rows and columns, or see `depthrank diagnose` for what these cells determine.",
    )
    if out is None or out.suffix.lower() not in SUFFIXES:
        return
    image = observations.source is not None and observations.source.kind == "image"
    low, high = observations.values.min(), observations.values.max()
    if not image:
        raise DepthrankError(
            f"--out is the image {str(out)!r}, but the input is a table with values from {low:g} "
            f"to {high:g}; write a table."
        )


def _fit(
    train: "Observations", settings: dict[str, Any], seed: int, quiet: bool
) -> "DeepMatrixCompletion":
    from depthrank.cli.progress import Reporter

    with Reporter("completing", quiet=quiet) as reporter:
        from depthrank.completion.estimator import DeepMatrixCompletion

        estimator = DeepMatrixCompletion(
            **settings, random_state=seed, progress=None if quiet else reporter.callback
        )
        return estimator.fit(train)


def _result(
    estimator: "DeepMatrixCompletion",
    observations: "Observations",
    train: "Observations",
    held_out: "Observations | None",
) -> dict[str, Any]:
    """Return the report of the fit with what only the command knows."""
    result = dict(estimator.report_)
    if any(trial["stopped_by"] == "interrupted" for trial in result.get("tried", ())):
        result["stopped_by"] = "interrupted"
    result["n_observed"] = observations.n_observed
    result["n_missing"] = observations.n_missing
    result["n_trained"] = train.n_observed
    result["n_holdout"] = 0 if held_out is None else held_out.n_observed
    if held_out is not None:
        result["holdout_rmse"] = estimator.evaluate(held_out)["rmse"]
        result["baselines"] = baselines(train, held_out)
    return result


def baselines(train: "Observations", held_out: "Observations") -> dict[str, float]:
    """Return the held-out errors of column means and of row plus column effects."""
    import numpy as np

    from depthrank.completion.offsets import fallback, prepare

    rows, cols = held_out.rows, held_out.cols
    estimates = {
        "column_mean": fallback(train).col_means[cols],
        "row_plus_column": prepare(train, "both").base(rows, cols),
    }
    return {
        name: float(np.sqrt(np.mean((estimate - held_out.values) ** 2)))
        for name, estimate in estimates.items()
    }


def _write(
    given: dict[str, Any],
    estimator: "DeepMatrixCompletion",
    observations: "Observations",
    completed: "np.ndarray",
    result: dict[str, Any],
    settings: dict[str, Any],
    seed: int,
) -> None:
    if given["out"] is not None:
        from depthrank.files.writing import write

        write(given["out"], completed, like=observations)
    if given["model"] is not None:
        estimator.save(given["model"])
    if given["report"] is not None:
        from depthrank.report import page

        text = page.completion_page(
            observations,
            completed,
            result,
            title=f"{given['input'].name}, completed",
            sentences=sentences.about(result),
            course=estimator.trajectory_.data,
            command=console.asked(seed),
            python=_python(given, settings, seed),
        )
        page.write(text, given["report"])


def _python(given: dict[str, Any], settings: dict[str, Any], seed: int) -> str:
    """Return the Python lines that do the same."""
    usual = {"width": None, "weight_decay": "auto", "init_scale": "auto", "offsets": "auto"}
    usual |= {"max_seconds": None}
    words = [
        f"{name}={value!r}" for name, value in settings.items() if value != usual.get(name, "")
    ]
    lines = ["import depthrank", "", inputs.python(given)]
    if given["holdout"]:
        lines.append(f"train, held_out = observations.split({given['holdout']}, {seed})")
    seen = "train" if given["holdout"] else "observations"
    lines += [
        f"model = depthrank.DeepMatrixCompletion({', '.join(words)}, random_state={seed})",
        f"completed = model.fit({seen}).complete()",
    ]
    if given["holdout"]:
        lines.append("model.evaluate(held_out)")
    return "\n".join(lines)
