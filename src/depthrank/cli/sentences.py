"""What came out of a completion, in sentences: seen, limits, choice, result, error."""

from collections.abc import Mapping
from typing import Any

import typer

from depthrank.cli.console import count, heading

_ENDINGS = {
    "fitted": "the observed cells were fitted",
    "validation": "held-out cells stopped improving",
    "stationary": "the flow came to rest",
    "time": "its time was over",
    "steps": "the limit of steps was reached, before the end",
    "wall-clock": "the seconds were over, before the end",
    "interrupted": "it was interrupted, before the end",
    "diverged": "no step was small enough",
}
_OFFSETS = {
    "none": "no effects taken off",
    "rows": "row effects taken off first",
    "columns": "column effects taken off first",
    "both": "row and column effects taken off first",
}


def show(name: str, result: Mapping[str, Any], written: str | None) -> None:
    """Print a completion for people."""
    heading(f"{name} -> {written}" if written else f"{name} (nothing written: no -o OUT)")
    for sentence in about(result):
        typer.echo(f"  {sentence}")
    if result["stopped_by"] not in ("interrupted", "wall-clock"):
        typer.echo(f"  Seed {result['seed']} gives the same again.")


def about(result: Mapping[str, Any]) -> list[str]:
    """Return what a completion was and what it is worth, most important first."""
    return [
        text for text in (_error(result), _seen(result), _chosen(result), found(result)) if text
    ]


def _seen(result: Mapping[str, Any]) -> str:
    m, n = result["shape"]
    share = 100 * result["n_observed"] / (m * n)
    parts = "one component" if result["components"] == 1 else f"{result['components']:,} components"
    text = f"Seen: {result['n_observed']:,} of {m:,} x {n:,} cells ({share:.3g} %), in {parts}."
    cells = result.get("cells") or {}
    undetermined = cells.get("across", 0) + cells.get("isolated", 0)
    if undetermined:
        return text + f" They do not determine {count(undetermined, 'missing cell')}."
    return text + (" Every missing cell is tied to observed ones." if cells.get("within") else "")


def _chosen(result: Mapping[str, Any]) -> str:
    decay = result["weight_decay"]
    with_decay = f"weight decay {decay:.3g}" if decay else "no weight decay"
    offsets = _OFFSETS.get(result.get("offsets", "none"), "")
    ending = _ENDINGS.get(result["stopped_by"], result["stopped_by"])
    work = result.get("total_evaluations", result.get("evaluations", 0))
    tried = len(result.get("tried") or ())
    after = f" after {count(tried, 'trial')} on held-out cells" if tried else ""
    return (
        f"Chosen{after}: depth {result['depth']}, {with_decay}, {offsets}. Stopped because "
        f"{ending}; {work:,} gradient evaluations, {result['seconds']:.1f} s."
    )


def found(result: Mapping[str, Any]) -> str:
    """Return ranks and errors of the fit."""
    text = (
        f"Found: effective rank {result['effective_rank']:.3g}, stable rank "
        f"{result['stable_rank']:.3g}; fitted cells are met to {result['observed_rmse']:.3g} "
        "(root mean square)"
    )
    if result.get("validation_rmse") is not None:
        text += f", cells held out while choosing to {result['validation_rmse']:.3g}"
    return text + "."


def _error(result: Mapping[str, Any]) -> str:
    error = result.get("holdout_rmse")
    if error is None:
        return ""
    known = result.get("baselines") or {}
    text = f"Error on {count(result['n_holdout'], 'cell')} never used: {error:.4g}"
    if not known:
        return text + "."
    text += "; " + ", ".join(
        f"{name.replace('_', ' ')} {value:.4g}" for name, value in known.items()
    )
    name, best = min(known.items(), key=lambda entry: entry[1])
    if best <= 0:
        return text + "."
    gain = 100 * (1 - error / best)
    if gain > 0:
        return text + f". That is {gain:.0f} % below the better of them."
    return text + f". It does not beat {name.replace('_', ' ')}: little low-rank structure here."
