import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from depthrank.cli.main import app


@dataclass(frozen=True)
class Said:
    """What a command said and how it ended."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        """The one JSON object on standard output; nothing else may stand there."""

        def refuse(constant: str) -> None:
            pytest.fail(f"{constant} is not JSON")

        found = json.loads(self.out, parse_constant=refuse)
        assert isinstance(found, dict)
        return found


Run = Callable[..., Said]


@pytest.fixture
def run() -> Run:
    """Run the command line in this process."""

    def call(*words: object) -> Said:
        done = CliRunner().invoke(app, [str(word) for word in words])
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Said(done.exit_code, done.stdout, done.stderr)

    return call


@pytest.fixture
def ratings(tmp_path: Path) -> Path:
    """A wide table of rank one with labels and holes: row i, column j is (i + 1) (j + 1)."""
    path = tmp_path / "ratings.csv"
    path.write_text(",soup,bread,figs\nAna,1,,3\nBo,2,4,6\nCem,3,6,\nDee,,8,12\n")
    return path


@pytest.fixture
def low_rank_table(tmp_path: Path) -> Path:
    """A 30 x 12 table of rank 2, 70 % observed."""
    rng = np.random.default_rng(3)
    table = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 12))
    table[rng.random(table.shape) < 0.3] = np.nan
    path = tmp_path / "table.npy"
    np.save(path, table)
    return path
