"""From the reading options of a command to observations."""

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
) -> "Observations":
    """Read INPUT as its options say.

    Raises
    ------
    DepthrankError
        If it cannot be read, or holds no observed cell.
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
    if observations.n_observed == 0:
        raise DepthrankError(f"{str(path)!r}: no cell is observed; there is nothing to go by.")
    return observations
