"""Tables of pandas, polars and pyarrow as numbers and labels.

None of the three is imported to find out whether an object is one of theirs: a frame can only
arrive from a caller who has imported its library already.
"""

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from depthrank.conversion import is_missing, objects_as_numbers
from depthrank.coordinates import Floats, Labels, as_labels
from depthrank.errors import DepthrankError

_CELL_NAMES = (("row", "col", "value"), ("row", "column", "value"), ("user", "item", "rating"))
_LIBRARIES = ("pandas", "polars", "pyarrow")


def is_frame(data: object) -> bool:
    """Tell whether `data` is a table of pandas, polars or pyarrow (not a single column)."""
    kind = type(data)
    return kind.__module__.split(".")[0] in _LIBRARIES and kind.__name__ in ("DataFrame", "Table")


def wide(
    frame: Any, rows: str | int | None = None, *, text_labels: bool = False
) -> tuple[Floats, Labels | None, Labels | None, str | None]:
    """Read a table with one line per matrix row.

    `rows` names the column that holds row labels; with `text_labels` a first column of text is
    taken as that. Returns the values (missing as NaN), the row labels (a pandas index, or that
    column; None where the index only counts), the column labels, and the label column's name.
    """
    names, columns = _columns(frame)
    labels = _index_labels(frame)
    corner = None
    chosen: int | None = None
    if rows is not None:
        chosen = find(names, rows)
    elif text_labels and labels is None and columns and _is_text(columns[0]):
        chosen = 0
    if chosen is not None:
        corner = str(names.pop(chosen))
        labels = tuple(as_labels(columns.pop(chosen)))
        if any(is_missing(label) for label in labels):
            raise DepthrankError(f"column {corner!r} holds row labels, but some are missing.")
    if not columns:
        raise DepthrankError("the table has no columns of numbers; one at least is needed.")
    plain = chosen is None and all(
        isinstance(kind, np.dtype) and kind.kind in "iufb" for kind in getattr(frame, "dtypes", [0])
    )
    if plain:  # one conversion instead of one per column
        values = np.asarray(frame.to_numpy(dtype=np.float64))
    else:
        values = np.empty((len(columns[0]), len(columns)))
        for j, column in enumerate(columns):
            values[:, j] = as_numbers(column, names[j])
    counted = "RangeIndex" in type(getattr(frame, "columns", None)).__name__ and chosen is None
    return values, labels, None if counted else tuple(names), corner


def long(
    frame: Any, rows: str | int | None, cols: str | int | None, values: str | int | None
) -> tuple[list[Any], list[Any], Floats, tuple[int, int, int]]:
    """Read a table with one line per cell; return both labels, the values, and where they stood."""
    if rows is None or cols is None or values is None:
        raise DepthrankError(
            f"a long table needs all of rows=, cols= and values=; given were rows={rows!r}, "
            f"cols={cols!r}, values={values!r}."
        )
    names, columns = _columns(frame)
    r, c, v = find(names, rows), find(names, cols), find(names, values)
    if len({r, c, v}) < 3:
        raise DepthrankError(
            f"rows={rows!r}, cols={cols!r} and values={values!r} must name three different columns."
        )
    numbers = as_numbers(columns[v], names[v])
    return as_labels(columns[r]), as_labels(columns[c]), numbers, (r, c, v)


def names_cells(names: Sequence[Hashable]) -> bool:
    """Tell whether these column names are those of a long table beyond doubt."""
    return tuple(str(name).strip().lower() for name in names) in _CELL_NAMES


def find(names: Sequence[Hashable], asked: str | int) -> int:
    """Return the position of a column given by name or, failing that, by position from 0."""
    hits = [i for i, name in enumerate(names) if name == asked]
    if len(hits) == 1:
        return hits[0]
    if len(hits) > 1:
        raise DepthrankError(f"{len(hits)} columns are named {asked!r}; give a position (from 0).")
    position = int(asked) if isinstance(asked, int) or asked.isdecimal() else -1
    if 0 <= position < len(names):
        return position
    known = ", ".join(repr(name) for name in names[:10]) + (", ..." if len(names) > 10 else "")
    raise DepthrankError(f"there is no column {asked!r}; the columns are {known}.")


def as_numbers(column: Any, name: Hashable) -> Floats:
    """Return a column as float64, missing as NaN; refuse text by name, row and value."""
    library = type(column).__module__.split(".")[0]
    if library == "pandas":
        from pandas.api.types import is_complex_dtype, is_numeric_dtype

        if is_numeric_dtype(column.dtype) and not is_complex_dtype(column.dtype):
            return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    elif library == "polars":
        if column.dtype.is_numeric() or str(column.dtype) == "Boolean":
            return np.asarray(column.cast(float).to_numpy(), dtype=np.float64)
    elif library == "pyarrow":
        import pyarrow as pa

        kind = column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            numbers = column.cast(pa.float64(), safe=False).to_numpy()
            return np.array(numbers, dtype=np.float64)
    return objects_as_numbers(as_labels(column), f"column {name!r}")


def _columns(frame: Any) -> tuple[list[Any], list[Any]]:
    if hasattr(frame, "column_names"):  # pyarrow
        return list(frame.column_names), list(frame.columns)
    if hasattr(frame, "get_columns"):  # polars
        return list(frame.columns), list(frame.get_columns())
    return list(frame.columns), [frame.iloc[:, j] for j in range(frame.shape[1])]


def _index_labels(frame: Any) -> Labels | None:
    index = getattr(frame, "index", None)
    if index is None or not hasattr(index, "to_list"):  # polars and pyarrow have no row labels
        return None
    if type(index).__name__ == "RangeIndex" and index.start == 0 and index.step == 1:
        return None
    return tuple(index.to_list())


def _is_text(column: Any) -> bool:
    items = [x for x in as_labels(column) if not is_missing(x)]
    return bool(items) and all(isinstance(x, str) for x in items)
