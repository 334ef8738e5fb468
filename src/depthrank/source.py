"""What a file looked like when it was read, so that a result can be written in the same form."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["csv", "parquet", "npy", "npz", "mtx", "image"]


@dataclass(frozen=True)
class Source:
    """The form of a file, kept beside the observations read from it.

    Attributes
    ----------
    path : str
        The file, as it was named.
    kind : {"csv", "parquet", "npy", "npz", "mtx", "image"}
        Family of the file; "csv" covers TSV and other separators.
    layout : {"wide", "long"}
        One line per matrix row, or one line per cell.
    header : bool
        Whether the first line held names (CSV).
    corner : str or None
        Name of the column of row labels in a wide table; None if it has none.
    columns : tuple of str
        Names of the row, column and value columns of a long table.
    order : tuple of int
        Their positions in the file.
    separator, decimal, encoding, newline : str
        How text was written (CSV).
    index : bool
        Whether the row labels were the index of a pandas frame (Parquet).
    channels : int
        1 for a greyscale image; 3 for colour, whose channels stand side by side in the matrix.
    bits : int
        Bits per channel of an image, 8 or 16.
    """

    path: str
    kind: Kind
    layout: Literal["wide", "long"] = "wide"
    header: bool = True
    corner: str | None = None
    columns: tuple[str, str, str] = ("row", "column", "value")
    order: tuple[int, int, int] = (0, 1, 2)
    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    newline: str = "\n"
    index: bool = False
    channels: int = 1
    bits: int = 8
