"""Separated text (CSV, TSV, ...) to observations: wide with labels, or long."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from depthrank import frames
from depthrank.coordinates import Duplicates
from depthrank.errors import DepthrankError
from depthrank.files import text as texts
from depthrank.files.tokens import Numbers
from depthrank.observations import Observations
from depthrank.source import Source

Auto = bool | Literal["auto"]

_LABEL_NAMES = frozenset({"id", "ids", "row", "rows", "index", "name", "label", "labels", "key"})
_LONG_HINT = " If this is a long table, name its columns by the options rows, cols and values."
_INTEGER = re.compile(r"-?[0-9]+")


def read_table(
    path: Path,
    raw: bytes,
    *,
    rows: str | int | None,
    cols: str | int | None,
    values: str | int | None,
    missing: str | float | Iterable[str | float],
    duplicates: Duplicates,
    sep: str | None,
    decimal: str,
    header: Auto,
    row_labels: Auto,
    encoding: str | None,
) -> Observations:
    """Read separated text; see `depthrank.files.read` for the options."""
    text, encoding = texts.decode(raw, encoding)
    if sep is None:
        sep = texts.sniff(
            text, "\t" if Path(path.name.removesuffix(".gz")).suffix == ".tsv" else None
        )
    elif len(sep) != 1:
        raise DepthrankError(f"sep is {sep!r}; it must be one character.")
    numbers = Numbers(missing, decimal)
    survey = texts.survey(text, sep)
    source = Source(
        path=str(path),
        kind="csv",
        separator=sep,
        decimal=decimal,
        encoding=encoding,
        newline="\r\n" if "\r\n" in text[:65_536] else "\n",
    )
    if rows is cols is values is None and header is not False and frames.names_cells(survey.first):
        rows, cols, values, header = 0, 1, 2, True
    if cols is None and values is None:
        return _wide(text, survey, numbers, source, rows, header, row_labels)
    if rows is None or cols is None or values is None:
        raise DepthrankError(
            f"a long table needs all of rows=, cols= and values=; given were rows={rows!r}, "
            f"cols={cols!r}, values={values!r}."
        )
    return _long(text, survey, numbers, source, (rows, cols, values), header, duplicates)


def _wide(
    text: str,
    survey: texts.Survey,
    numbers: Numbers,
    source: Source,
    rows: str | int | None,
    header: Auto,
    row_labels: Auto,
) -> Observations:
    has_header = _wide_header(survey, numbers) if header == "auto" else header
    names = survey.first if has_header else [str(j) for j in range(survey.width)]
    if rows is not None:
        at: int | None = frames.find(names, rows)
    else:
        labelled = _labelled(survey, numbers, has_header) if row_labels == "auto" else row_labels
        at = 0 if labelled else None
    n_rows = len(survey.column) + (not has_header)
    n_cols = survey.width - (at is not None)
    if n_rows == 0:
        raise DepthrankError("the file has a header line and nothing else; it has no cells.")
    if n_cols == 0:
        raise DepthrankError("the only column holds row labels; there are no cells.")

    dense = np.empty((n_rows, n_cols))
    labels: list[str] = []
    keep = [j for j in range(survey.width) if j != at]
    row = -has_header
    for line, fields in texts.records(text, source.separator):
        if row >= 0:
            if at is not None:
                labels.append(fields.pop(at))
            try:
                dense[row] = [numbers[token] for token in fields]
            except ValueError:
                hint = " Is this line a header?" if line == 1 and not has_header else ""
                j, token = next(
                    x for x in zip(keep, fields, strict=True) if not numbers.reads(x[1])
                )
                if survey.width == 3 and numbers.kind(token) == "text":
                    hint += _LONG_HINT
                where = _where(line, j, survey, has_header)
                raise DepthrankError(f"{where}: {numbers.problem(token)}{hint}") from None
        row += 1
    observations = Observations.from_dense(
        dense,
        row_labels=labels if at is not None else None,
        col_labels=[names[j] for j in keep] if has_header else None,
    )
    corner = None if at is None else names[at] if has_header else ""
    return _with_source(observations, source, layout="wide", header=has_header, corner=corner)


def _where(line: int, column: int, survey: texts.Survey, has_header: bool) -> str:
    name = repr(survey.first[column]) if has_header else f"{column + 1} of {survey.width}"
    return f"line {line}, column {name}"


def _wide_header(survey: texts.Survey, numbers: Numbers) -> bool:
    """Decide whether the first record of a wide table holds column labels."""
    corner = survey.first[0].strip()
    rest = [kind for kind in map(numbers.kind, survey.first[1:]) if kind != "missing"]
    if rest and 2 * rest.count("text") >= len(rest):
        return True
    below_is_text = _mostly_text(survey.column, numbers)
    if numbers.kind(survey.first[0]) == "text":
        return not below_is_text or corner.lower() in _LABEL_NAMES
    if corner or len(survey.first) == 1:
        return False
    if below_is_text:
        return True
    # ",0,1,2": what pandas writes above unnamed columns, or a row whose first cell is missing.
    labels = [token.strip() for token in survey.first[1:]]
    if not all(map(_INTEGER.fullmatch, labels)) or not _distinct(labels):
        return False
    if not survey.column or not _distinct(survey.column) or _any_missing(survey.column, numbers):
        return False
    if [int(label) for label in labels] in (
        list(range(len(labels))),
        list(range(1, len(labels) + 1)),
    ):
        return True
    raise DepthrankError(
        f"line 1 ({', '.join(survey.first[:4])}, ...) may be column labels or data. Set the option "
        "header to true or false."
    )


def _labelled(survey: texts.Survey, numbers: Numbers, has_header: bool) -> bool:
    """Decide whether the first column of a wide table holds row labels."""
    if survey.width == 1:
        return False
    column = survey.column if has_header else [survey.first[0], *survey.column]
    if _mostly_text(column, numbers):
        return True
    if not has_header:
        return False
    name = survey.first[0].strip().lower()
    return name == "" or (
        name in _LABEL_NAMES and _distinct(column) and not any(not x.strip() for x in column)
    )


def _mostly_text(column: Sequence[str], numbers: Numbers) -> bool:
    kinds = [kind for kind in map(numbers.kind, column) if kind != "missing"]
    return bool(kinds) and 2 * kinds.count("text") >= len(kinds)


def _distinct(tokens: Sequence[str]) -> bool:
    return len(set(tokens)) == len(tokens)


def _any_missing(tokens: Sequence[str], numbers: Numbers) -> bool:
    return any(numbers.kind(token) == "missing" for token in tokens)


def _long(
    text: str,
    survey: texts.Survey,
    numbers: Numbers,
    source: Source,
    asked: tuple[str | int, str | int, str | int],
    header: Auto,
    duplicates: Duplicates,
) -> Observations:
    names = survey.first if header is not False else [str(j) for j in range(survey.width)]
    r, c, v = order = tuple(frames.find(names, column) for column in asked)
    if len(set(order)) < 3:
        raise DepthrankError(
            f"rows, cols and values must be three different columns; given were {asked!r}."
        )
    named = any(isinstance(x, str) and x in survey.first for x in asked)
    has_header = (named or numbers.kind(names[v]) == "text") if header == "auto" else header

    row_labels: list[str] = []
    col_labels: list[str] = []
    cells: list[float] = []
    skip = has_header
    for line, fields in texts.records(text, source.separator):
        if skip:
            skip = False
            continue
        row, col, token = fields[r], fields[c], fields[v]
        if not row or not col:
            raise DepthrankError(f"line {line}: the {'column' if row else 'row'} label is empty.")
        try:
            cells.append(numbers[token])
        except ValueError:
            hint = " Is this line a header?" if line == 1 else ""
            where = _where(line, v, survey, has_header)
            raise DepthrankError(f"{where}: {numbers.problem(token)}{hint}") from None
        row_labels.append(row)
        col_labels.append(col)
    if not cells:
        raise DepthrankError("the file has a header line and nothing else; it has no cells.")
    observations = Observations.from_long(row_labels, col_labels, cells, duplicates=duplicates)
    columns = (names[r], names[c], names[v]) if has_header else Source.columns
    return _with_source(
        observations, source, layout="long", header=has_header, columns=columns, order=(r, c, v)
    )


def _with_source(observations: Observations, source: Source, **changes: Any) -> Observations:
    return replace(observations, source=replace(source, **changes))
