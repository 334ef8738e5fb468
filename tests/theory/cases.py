"""The reference cases: numbers to 17 digits from 40-digit arithmetic, one dict per case."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "reference.json").read_text(encoding="utf-8")
)["cases"]

RENAMED = {"factor_eigs": "factor_eigenvalues", "effective_rank_sq": "effective_rank_power2"}
RANKS = ("stable_rank", "stable_rank_minus_1", "effective_rank", "effective_rank_minus_1")


def of_kind(*kinds: str) -> list[Any]:
    """Pytest parameters for all cases of these kinds."""
    import pytest

    return [pytest.param(c, id=c["id"]) for c in CASES if c["kind"] in kinds]


def assert_close(got: ArrayLike, want: ArrayLike, rtol: float = 1e-10) -> None:
    """Relative agreement of every element; what lies below 1e-290 is compared absolutely."""
    np.testing.assert_allclose(
        np.asarray(got, dtype=float), np.asarray(want, dtype=float), rtol=rtol, atol=1e-290
    )


def assert_expected(result: Any, expected: dict[str, Any], skip: tuple[str, ...] = ()) -> None:
    """Compare every expected field with the attribute of that name."""
    for name, want in expected.items():
        if name in skip:
            continue
        got = getattr(result, RENAMED.get(name, name))
        if want is None:
            assert got is None, name
        else:
            assert_close(got, want)
