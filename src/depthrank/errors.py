"""The one exception base of the package, and the check that raises it most often."""

import math


class DepthrankError(ValueError):
    """Wrong input, found before anything long starts.

    The message says what was given, what is accepted and what to do about it.
    """


def check_range(name: str, value: float, low: float, high: float = math.inf) -> None:
    """Refuse a number outside [low, high]."""
    if isinstance(value, bool | str) or not low <= value <= high:
        raise DepthrankError(f"{name} is {value!r}; it must lie between {low:g} and {high:g}.")
