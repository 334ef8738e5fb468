"""Parquet to observations: wide with an index or a column of row labels, or long."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from depthrank import frames
from depthrank.conversion import without_marked
from depthrank.coordinates import Duplicates
from depthrank.errors import DepthrankError
from depthrank.observations import Observations
from depthrank.source import Source

UNNAMED_INDEX = "__index_level_0__"
"""What pandas calls an index without a name in a Parquet file."""


def read_parquet(
    path: Path,
    *,
    rows: str | int | None,
    cols: str | int | None,
    values: str | int | None,
    missing: Any,
    duplicates: Duplicates,
    row_labels: Any,
) -> Observations:
    """Read a Parquet file; see `depthrank.files.read` for the options."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        table = parquet.ParquetFile(path).read()
    except (pa.ArrowException, OSError) as error:
        raise DepthrankError(f"this cannot be read as Parquet: {_first_line(error)}") from None
    if table.num_rows == 0:
        raise DepthrankError("the table has no rows.")
    source = Source(path=str(path), kind="parquet")
    if rows is cols is values is None and frames.names_cells(table.column_names):
        rows, cols, values = 0, 1, 2
    if cols is not None or values is not None:
        r, c, v, order = frames.long(table, rows, cols, values)
        observations = Observations.from_long(
            r, c, without_marked(v, missing), duplicates=duplicates
        )
        names = tuple(table.column_names[i] for i in order)
        return replace(
            observations, source=replace(source, layout="long", columns=names, order=order)
        )

    index = _index_column(table)
    if rows is None and row_labels is not False and index is not None:
        rows, source = index, replace(source, index=True)
    elif rows is None and row_labels is True:
        rows = 0
    dense, row_names, col_names, corner = frames.wide(table, rows, text_labels=row_labels == "auto")
    observations = Observations.from_dense(
        dense, missing=missing, row_labels=row_names, col_labels=col_names
    )
    return replace(observations, source=replace(source, corner=corner))


def _index_column(table: Any) -> str | None:
    """Return the column that was the index of a pandas frame, if one was."""
    metadata = (table.schema.metadata or {}).get(b"pandas")
    stored = json.loads(metadata)["index_columns"] if metadata else []
    columns = [name for name in stored if name in table.column_names]  # a range is a mapping
    if len(columns) > 1:
        raise DepthrankError(
            f"the table has {len(columns)} index columns ({', '.join(columns)}); row labels need "
            "one. Name it by the option rows."
        )
    return columns[0] if columns else None


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
