"""A claim: a sentence, the number measured for it, what was expected, and the verdict of the two.

A claim never holds by assertion. Its verdict follows from the measured number and an accepted
interval that was fixed before the run; a statistical claim holds only if the whole confidence
interval lies in there.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Claim", "about", "above", "below", "between", "mean_interval"]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One statement of a study with its measurement.

    Attributes
    ----------
    id : str
        Study and a short name, as in "limits/depth-3".
    statement : str
        What is claimed, one sentence, with its setting.
    measured : float
        The number of this run; nan (nothing could be measured) fails.
    expected : str
        What was expected, in words.
    low, high : float
        The accepted interval, ends included.
    n_seeds : int or None
        Number of random draws behind a statistical claim.
    interval : (float, float) or None
        Its 95 % confidence interval.
    """

    id: str
    statement: str
    measured: float
    expected: str
    low: float = -math.inf
    high: float = math.inf
    n_seeds: int | None = None
    interval: tuple[float, float] | None = None

    @property
    def holds(self) -> bool:
        """Whether the measurement, with its whole confidence interval, lies where expected."""
        ends = (self.measured, *(self.interval or ()))
        return all(self.low <= end <= self.high for end in ends)

    @property
    def verdict(self) -> str:
        """Return "holds" or "fails"."""
        return "holds" if self.holds else "fails"

    def as_dict(self) -> dict[str, Any]:
        """Return the claim as plain values, verdict included."""
        return {
            "id": self.id,
            "statement": self.statement,
            "measured": self.measured,
            "expected": self.expected,
            "verdict": self.verdict,
            "low": self.low,
            "high": self.high,
            "n_seeds": self.n_seeds,
            "interval": None if self.interval is None else list(self.interval),
        }


def about(
    id: str, statement: str, measured: float, expected: float, tolerance: float, **more: Any
) -> Claim:
    """Claim that a number equals `expected` to within `tolerance` (absolute)."""
    return Claim(
        id=id,
        statement=statement,
        measured=float(measured),
        expected=f"{expected:.7g} ± {tolerance:.2g}",
        low=float(expected - tolerance),
        high=float(expected + tolerance),
        **more,
    )


def below(id: str, statement: str, measured: float, bound: float, **more: Any) -> Claim:
    """Claim that a number is at most `bound`."""
    text = f"at most {bound:.6g}"
    return Claim(
        id=id, statement=statement, measured=float(measured), expected=text, high=bound, **more
    )


def above(id: str, statement: str, measured: float, bound: float, **more: Any) -> Claim:
    """Claim that a number is at least `bound`."""
    text = f"at least {bound:.6g}"
    return Claim(
        id=id, statement=statement, measured=float(measured), expected=text, low=bound, **more
    )


def between(
    id: str, statement: str, measured: float, low: float, high: float, **more: Any
) -> Claim:
    """Claim that a number lies in an interval."""
    return Claim(
        id=id,
        statement=statement,
        measured=float(measured),
        expected=f"{low:.6g} to {high:.6g}",
        low=low,
        high=high,
        **more,
    )


def mean_interval(values: Sequence[float] | np.ndarray) -> dict[str, Any]:
    """Mean of independent draws with its 95 % interval (Student's t), as fields of a claim.

    Returns
    -------
    dict
        `measured`, `n_seeds`, `interval`.
    """
    from scipy.special import stdtrit

    x = np.asarray(values, dtype=np.float64)
    mean = float(x.mean())
    if x.size < 2:
        return {"measured": mean, "n_seeds": x.size, "interval": (-math.inf, math.inf)}
    half = float(stdtrit(x.size - 1, 0.975) * x.std(ddof=1) / math.sqrt(x.size))
    return {"measured": mean, "n_seeds": x.size, "interval": (mean - half, mean + half)}
