"""The studies: small runs decide every claim; a formula broken on purpose is noticed."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from depthrank import theory
from depthrank.studies import (
    STUDIES,
    Claim,
    Study,
    certified,
    depth,
    limit,
    plasticity,
    small_start,
    two_by_two,
)

# Small enough for seconds; two sizes and depths, so that few programs are compiled.
SMALL: dict[str, tuple[Study, Any]] = {
    "limits": (
        limit.STUDY,
        limit.Settings(
            depths=(3,), sizes=(10,), alphas=(1.0, 0.1), ms=(2.0, np.inf), times=(1.0, 10.0)
        ),
    ),
    "small-start": (small_start.STUDY, small_start.Settings(depths=(2, 3))),
    "plasticity": (plasticity.STUDY, plasticity.Settings(depths=(2, 3))),
    "certificate": (certified.STUDY, certified.Settings(depths=(2,), asked=(1.0, 0.1), seeds=2)),
    "two-by-two": (two_by_two.STUDY, two_by_two.Settings()),
    "depth": (depth.STUDY, depth.Settings(depths=(2, 3), exact_alphas=4)),
}


def verdicts(name: str) -> dict[str, Claim]:
    study, settings = SMALL[name]
    return {claim.id: claim for claim in study.claims(study.run(settings, 0))}


def test_every_study_is_described_and_quick_is_no_harder_than_full() -> None:
    assert len(STUDIES) == 15
    assert len({study.name for study in STUDIES}) == 15
    for study in STUDIES:
        assert all((study.title, study.source, study.summary, study.caption)), study.name
        assert dataclasses.is_dataclass(study.quick)
        assert type(study.quick) is type(study.full)
        for field in dataclasses.fields(study.quick):
            quick, full = getattr(study.quick, field.name), getattr(study.full, field.name)
            if isinstance(quick, tuple):
                assert len(full) >= len(quick), (study.name, field.name)


@pytest.mark.parametrize("name", SMALL)
def test_small_run_holds_and_draws(name: str) -> None:
    study, settings = SMALL[name]
    data = study.run(settings, 0)
    claims = study.claims(data)
    assert len({claim.id for claim in claims}) == len(claims) >= 4
    assert [claim.id for claim in claims if not claim.holds] == []
    assert all(claim.id.startswith(f"{study.name}/") for claim in claims)
    figure = study.figure(data)
    assert isinstance(figure, Figure)
    assert all(axes.has_data() for axes in figure.axes)


def altered(function: Callable[..., Any], **factors: float) -> Callable[..., Any]:
    """Return a formula with some of its results multiplied."""

    def broken(*args: Any, **options: Any) -> Any:
        right = function(*args, **options)
        wrong = {name: getattr(right, name) * factor for name, factor in factors.items()}
        return dataclasses.replace(right, **wrong)

    return broken


@pytest.mark.parametrize(
    ("name", "formula", "factors", "claim"),
    [
        ("limits", "limits_grid", {"sigma_2": 2.0}, "limits/depth-3"),
        ("small-start", "small_alpha_rate", {"exponent": 0.5}, "small-start/exponent-depth-3"),
        ("plasticity", "rigidity", {"residual_rate": 2.0}, "plasticity/loss-bound"),
        ("two-by-two", "two_by_two", {"sigma_2_bound": 1e-3}, "two-by-two/row-bound"),
    ],
)
def test_broken_formula_fails_the_matching_claim(
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    formula: str,
    factors: dict[str, float],
    claim: str,
) -> None:
    right = getattr(theory, formula)
    if formula == "two_by_two":  # the bound exists for some patterns only

        def broken(*args: Any, **options: Any) -> Any:
            found = right(*args, **options)
            bound = found.sigma_2_bound
            return dataclasses.replace(found, sigma_2_bound=None if bound is None else 1e-3 * bound)

        monkeypatch.setattr(theory, formula, broken)
    else:
        monkeypatch.setattr(theory, formula, altered(right, **factors))
    assert verdicts(name)[claim].verdict == "fails"
