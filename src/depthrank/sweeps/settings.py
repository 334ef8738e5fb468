"""What one cell of a sweep may be told: one checked model per task.

Every field is a setting that a config may fix or run over. Unknown settings, wrong types and
values out of range are found before anything starts.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

__all__ = [
    "TASKS",
    "Cell",
    "CompletionCell",
    "DescentCell",
    "FlowCell",
    "LimitsCell",
    "StudyCell",
    "WarmCell",
]

Size = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]

Pattern = Literal[
    "diagonal",
    "block-diagonal",
    "uniform",
    "bernoulli",
    "banded",
    "staircase",
    "connected",
    "disconnected",
    "one-row",
    "one-column",
]
Init = Literal["alpha-m", "gaussian", "tied-gaussian", "identity", "orthogonal"]


class Cell(BaseModel):
    """What every task takes: the seed."""

    # strict: TOML has types, and a text "3" where a number belongs is a mistake
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    seed: Seed = 0


class MatrixCell(Cell):
    """What is seen: a pattern on a made matrix, or a data file.

    The ground truth, the mask, the noise and the held-out cells draw from streams of their own, so
    one seed serves all; `truth_seed`, `mask_seed`, `noise_seed` and `holdout_seed` vary one alone.
    """

    pattern: Pattern | None = None
    dimension: Size | None = None
    rows: Size | None = None
    columns: Size | None = None
    blocks: Size | None = None
    block_size: Size = 1
    value: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    rank: Size | None = None
    fraction: Share | None = None
    count: Size | None = None
    components: Size | None = None
    band: Annotated[int, Field(ge=0)] = 1
    noise: NotNegative = 0.0
    input: str | None = None
    row_column: str | None = None
    col_column: str | None = None
    value_column: str | None = None
    holdout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    truth_seed: Seed | None = None
    mask_seed: Seed | None = None
    noise_seed: Seed | None = None
    holdout_seed: Seed | None = None

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        sized = any(x is not None for x in (self.dimension, self.rows, self.columns, self.blocks))
        if (self.input is not None) == sized:
            raise ValueError(
                "give what is seen once: dimension, rows and columns, or blocks and block_size for "
                "a made matrix, or input for a data file"
            )
        if self.input is not None:
            made = ("pattern", "rank", "fraction", "count", "components")
            for name in made:
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} makes a matrix and input reads one; give one of them")
            return self
        in_blocks = self.pattern == "block-diagonal" or (
            self.pattern is None and (self.blocks is not None or self.block_size > 1)
        )
        if in_blocks:
            self._check_blocks()
        elif self.blocks is not None or self.block_size > 1:
            raise ValueError(f"blocks belong to the pattern block-diagonal, not {self.pattern}")
        elif (self.dimension is None) == (self.rows is None or self.columns is None):
            raise ValueError("give the size once: dimension, or rows and columns")
        return self

    def _check_blocks(self) -> None:
        if self.rows is not None or self.columns is not None:
            raise ValueError("blocks are square; give blocks and block_size, or dimension")
        if self.dimension is not None and self.dimension % self.block_size:
            raise ValueError(
                f"dimension {self.dimension} is no multiple of block_size {self.block_size}"
            )
        if None not in (self.dimension, self.blocks):
            raise ValueError("give the size once: blocks, or dimension")

    @property
    def seen_as(self) -> str:
        """The pattern, where it was left to the sizes."""
        if self.pattern is not None:
            return self.pattern
        return "diagonal" if self.blocks is None and self.block_size == 1 else "block-diagonal"


class StartedCell(MatrixCell):
    """What is seen, and factors that start in a stated way; `init_seed` varies the start alone."""

    depth: Size
    width: Size | None = None
    init: Init | None = None
    alpha: Positive | None = None
    m: Annotated[float, Field(ge=1)] | None = None
    init_scale: Positive | None = None
    init_seed: Seed | None = None
    weight_decay: NotNegative = 0.0
    tol: Annotated[float, Field(ge=0, le=1)] = 1e-14

    @model_validator(mode="after")
    def _one_start(self) -> Self:
        if self.start_name == "alpha-m":
            if self.alpha is None or self.m is None or self.init_scale is not None:
                raise ValueError("the start alpha-m needs alpha and m, and no init_scale")
        elif self.alpha is not None or self.m is not None:
            raise ValueError(f"alpha and m belong to init alpha-m; {self.init} has init_scale")
        return self

    @property
    def start_name(self) -> str:
        """The start, where it was left to what it is given."""
        return self.init or ("gaussian" if self.alpha is None else "alpha-m")


class FlowCell(StartedCell):
    """A gradient flow, followed to its end."""

    rtol: Annotated[float, Field(ge=1e-14, le=0.1)] = 1e-6
    max_time: Annotated[float, Field(ge=0)] = float("inf")
    max_steps: Size = 200_000
    solver: Literal["auto", "chebyshev", "tsit5", "dopri8", "kvaerno5"] = "auto"


class WarmCell(StartedCell):
    """Two phases: a share of what is seen, then all of it; `first_seed` varies that share alone.

    With the remedy "none" the second phase resumes as it is, with "cold" it starts anew. `amount`
    is the first parameter of the remedy: what shrink keeps, how many factors are reset.
    """

    first: Share = 0.5
    remedy: Literal[
        "none",
        "cold",
        "shrink",
        "shrink_perturb",
        "dash",
        "rebalance",
        "reset",
        "add_depth",
        "anchor",
    ] = "none"
    amount: NotNegative | None = None
    rtol: Annotated[float, Field(ge=1e-14, le=0.1)] = 1e-6
    max_steps: Size = 200_000
    first_seed: Seed | None = None


class DescentCell(StartedCell):
    """The steps of an optimiser."""

    optimizer: Literal["sgd", "momentum", "nesterov", "adam", "rmsprop", "adagrad"] = "sgd"
    learning_rate: Positive
    steps: Size = 10_000
    batch_size: Size | None = None


class CompletionCell(MatrixCell):
    """A table completed by `DeepMatrixCompletion`; `fit_seed` varies its start alone."""

    depth: Size | Literal["auto"] = 3
    width: Size | None = None
    init_scale: Positive | Literal["auto"] = "auto"
    weight_decay: NotNegative | Literal["auto"] = "auto"
    offsets: Literal["auto", "none", "rows", "columns", "both"] = "auto"
    scaling: Literal["auto", "table", "columns", "none"] = "auto"
    validation_fraction: Annotated[float, Field(ge=0, lt=1)] | Literal["auto"] = "auto"
    tol: Annotated[float, Field(ge=0, le=1)] = 1e-10
    fit_seed: Seed | None = None


class LimitsCell(Cell):
    """The exact limit of the (alpha, m) family; see `depthrank.limits`."""

    depth: Size
    alpha: Positive
    m: Annotated[float, Field(ge=1)]
    dimension: Size | None = None
    blocks: Size | None = None
    block_size: Size = 1
    value: Annotated[float, Field(allow_inf_nan=False)] = 1.0

    @model_validator(mode="after")
    def _one_size(self) -> Self:
        if (self.dimension is None) == (self.blocks is None):
            raise ValueError("give the size once: dimension, or blocks")
        if self.dimension is not None and self.dimension % self.block_size:
            raise ValueError(
                f"dimension {self.dimension} is no multiple of block_size {self.block_size}"
            )
        return self


class StudyCell(Cell):
    """One study of the paper, as `depthrank reproduce` runs it."""

    study: str
    setting: Literal["quick", "full"] = "quick"

    @model_validator(mode="after")
    def _known(self) -> Self:
        from depthrank.studies import STUDIES

        names = [study.name for study in STUDIES]
        if self.study not in names:
            raise ValueError(f"there is no study {self.study!r}; there are {', '.join(names)}")
        return self


TASKS: dict[str, type[Cell]] = {
    "flow": FlowCell,
    "descent": DescentCell,
    "warm": WarmCell,
    "completion": CompletionCell,
    "limits": LimitsCell,
    "study": StudyCell,
}
"""What a sweep can do in a cell, by name."""


def seed_of(cell: Any, stream: str) -> int:
    """Return the seed of one stream: its own where it was given, else the cell's."""
    own = getattr(cell, f"{stream}_seed")
    return int(cell.seed if own is None else own)
