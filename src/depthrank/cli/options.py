"""Options that several commands share, each written once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer


def option(*names: str, help: str, metavar: str | None = None) -> Any:
    """Return an option of one command; its name is the parameter's unless others are given."""
    return typer.Option(*names, help=help, metavar=metavar)


class Header(StrEnum):
    """Whether the first line of text holds names."""

    AUTO = "auto"
    YES = "yes"
    NO = "no"


class Duplicates(StrEnum):
    """The value of a cell that is given more than once."""

    MEAN = "mean"
    FIRST = "first"
    LAST = "last"
    ERROR = "error"


Input = Annotated[
    Path,
    typer.Argument(
        metavar="INPUT",
        help="CSV or TSV (also .gz), Parquet, NPY, NPZ, Matrix Market, or a PNG or JPEG image "
        "(holes: transparent pixels, or --mask).",
        show_default=False,
    ),
]
Rows = Annotated[
    str | None,
    typer.Option("--rows", metavar="COL", help="Column of row labels; long tables need all three."),
]
Cols = Annotated[
    str | None,
    typer.Option("--cols", metavar="COL", help="Column of column labels of a long table."),
]
Values = Annotated[
    str | None,
    typer.Option("--values", metavar="COL", help="Column of values of a long table."),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        "--missing",
        metavar="TOKEN",
        help="A further marker of a missing cell, beside empty, NA and NaN. Repeatable.",
    ),
]
Separator = Annotated[
    str | None, typer.Option("--sep", metavar="CHAR", help="Separator of text; found out if left.")
]
Decimal = Annotated[str, typer.Option("--decimal", metavar="CHAR", help="Decimal sign of text.")]
Encoding = Annotated[
    str | None,
    typer.Option("--encoding", metavar="NAME", help="Encoding of text; UTF-8 or found out."),
]
HeaderLine = Annotated[
    Header, typer.Option("--header", help="Whether the first line of text holds names.")
]
RowLabels = Annotated[
    Header,
    typer.Option("--row-labels", help="Whether the first column of a wide table holds labels."),
]
Repeated = Annotated[
    Duplicates, typer.Option("--duplicates", help="Value of a cell that is given more than once.")
]
Mask = Annotated[
    Path | None,
    typer.Option(
        "--mask", metavar="FILE", help="Image or NPY of equal size: zero where a cell is missing."
    ),
]
Depth = Annotated[int, typer.Option("--depth", metavar="L", help="Number of factors, >= 1.")]
Alpha = Annotated[
    float, typer.Option("--alpha", metavar="A", help="Diagonal entries of every factor, > 0.")
]
Ratio = Annotated[
    float,
    typer.Option("--m", metavar="M", help="Off-diagonal entries are alpha/m; 1 to inf (diagonal)."),
]
Dimension = Annotated[
    int | None,
    typer.Option("--dimension", metavar="D", help="The matrix is D x D."),
]
Blocks = Annotated[
    int | None, typer.Option("--blocks", metavar="N", help="Number of observed diagonal blocks.")
]
BlockSize = Annotated[
    int, typer.Option("--block-size", metavar="S", help="Rows and columns of each block.")
]
Value = Annotated[float, typer.Option("--value", metavar="W", help="The observed value.")]
Seed = Annotated[
    int | None,
    typer.Option("--seed", metavar="N", help="Seed of all randomness; drawn and reported if left."),
]
Out = Annotated[
    Path | None,
    option("-o", "--out", help="Where the filled table goes; its ending says the kind."),
]
Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write one self-contained page."),
]
Json = Annotated[
    bool, typer.Option("--json", help="Print one JSON object on standard output, nothing else.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no summary.")]
