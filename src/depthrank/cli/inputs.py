"""From the reading options of a command to observations."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from depthrank.cli.options import Duplicates, Header
from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    from depthrank.observations import Observations

_HEADER: dict[Header, bool | Literal["auto"]] = {
    Header.AUTO: "auto",
    Header.YES: True,
    Header.NO: False,
}
_USUAL: dict[str, Any] = {
    **dict.fromkeys(("rows", "cols", "values", "missing", "sep", "encoding", "mask")),
    "decimal": ".",
    "header": Header.AUTO,
    "row_labels": Header.AUTO,
    "duplicates": Duplicates.MEAN,
}
OPTIONS = tuple(_USUAL)
"""Names of the options that say how INPUT is read."""


def read(
    path: Path,
    *,
    rows: str | None = None,
    cols: str | None = None,
    values: str | None = None,
    missing: list[str] | None = None,
    sep: str | None = None,
    decimal: str = ".",
    encoding: str | None = None,
    header: Header = Header.AUTO,
    row_labels: Header = Header.AUTO,
    duplicates: Duplicates = Duplicates.MEAN,
    mask: Path | None = None,
    empty: bool = False,
) -> "Observations":
    """Read INPUT as its options say.

    Raises
    ------
    DepthrankError
        If it cannot be read, or, unless `empty` allows it, holds no observed cell.
    """
    from depthrank.files.reading import read as read_file

    observations = read_file(
        path,
        rows=rows,
        cols=cols,
        values=values,
        missing=missing or (),
        duplicates=cast(Any, duplicates.value),
        sep={"\\t": "\t", "tab": "\t"}.get(sep or "", sep),
        decimal=cast(Any, decimal),
        header=_HEADER[header],
        row_labels=_HEADER[row_labels],
        encoding=encoding,
        mask=mask,
    )
    if observations.n_observed == 0 and not empty:
        raise DepthrankError(f"{str(path)!r}: no cell is observed; there is nothing to go by.")
    return observations


def python(given: Mapping[str, Any]) -> str:
    """Return the Python line that reads the same, from the options of a command."""
    words = [repr(str(given["input"]))]
    for name, usual in _USUAL.items():
        value = given.get(name, usual)
        if value == usual or value is None:
            continue
        if isinstance(value, Header):
            value = _HEADER[value]
        words.append(
            f"{name}={str(value)!r}"
            if isinstance(value, Path | Duplicates)
            else f"{name}={value!r}"
        )
    return f"observations = depthrank.Observations.read({', '.join(words)})"
