"""Axes of a sweep: what a config may write for one, and what it comes to.

An axis has positions. At each of them it sets one setting (a list, a range), several that go
together (a zip), or whatever a named case says.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from depthrank.errors import DepthrankError

__all__ = ["Axis", "parse"]

_FORMS = (
    "write a list, {linear = [a, b], points = n}, {log = [a, b], points = n}, "
    "{range = [start, stop]}, a table of lists of one length (a zip), or a list of tables (cases)"
)


@dataclass(frozen=True)
class Axis:
    """One axis.

    Attributes
    ----------
    name : str
        Its name, the dimension of the stored arrays.
    labels : tuple
        What its positions are called: numbers or texts, all different.
    settings : tuple of dict
        What each position sets.
    when : dict
        Settings and the values that they must have for the axis to count; elsewhere only its first
        position is a cell, which then takes nothing from it.
    """

    name: str
    labels: tuple[Any, ...]
    settings: tuple[dict[str, Any], ...]
    when: dict[str, tuple[Any, ...]]

    @property
    def sets(self) -> tuple[str, ...]:
        """Names of all settings that some position sets."""
        return tuple(dict.fromkeys(key for position in self.settings for key in position))

    def __len__(self) -> int:
        return len(self.labels)


def parse(name: str, given: Any, when: dict[str, Any]) -> Axis:
    """Return the axis that a config writes.

    Parameters
    ----------
    name : str
    given : list or dict
        What stands under its name.
    when : dict
        Its condition, empty for none.

    Raises
    ------
    DepthrankError
        If `given` is of no form that an axis has, or has no position or two of one name.
    """
    if isinstance(given, dict) and {"linear", "log", "range"} & given.keys():
        values = _spaced(name, given)
        labels, settings = values, [{name: value} for value in values]
    elif isinstance(given, dict):
        labels, settings = _zipped(name, given)
    elif isinstance(given, list) and given and all(isinstance(item, dict) for item in given):
        labels = [case.get("label", position) for position, case in enumerate(given)]
        settings = [{k: v for k, v in case.items() if k != "label"} for case in given]
    elif isinstance(given, list | tuple | np.ndarray):
        labels = np.asarray(given).tolist() if isinstance(given, np.ndarray) else list(given)
        settings = [{name: value} for value in labels]
    else:
        raise DepthrankError(f"axes.{name} is {given!r}; {_FORMS}.")
    if not labels:
        raise DepthrankError(f"axes.{name} has no position; {_FORMS}.")
    kinds = {str if isinstance(label, str) else float for label in labels}
    if len(kinds) > 1:
        labels = [str(label) for label in labels]
    if len(set(labels)) < len(labels):
        twice = next(label for label in labels if labels.count(label) > 1)
        raise DepthrankError(f"axes.{name} has {twice!r} twice; its positions must differ.")
    accepted = {
        key: tuple(value) if isinstance(value, list | tuple) else (value,)
        for key, value in when.items()
    }
    return Axis(name, tuple(labels), tuple(settings), accepted)


def _spaced(name: str, given: dict[str, Any]) -> list[Any]:
    form = next(key for key in ("linear", "log", "range") if key in given)
    ends, others = given[form], given.keys() - {form, "points"}
    wanted = (2, 3) if form == "range" else (2,)
    numbers = isinstance(ends, list | tuple) and all(
        isinstance(end, int | float) and not isinstance(end, bool) for end in ends
    )
    if others or not numbers or len(ends) not in wanted or ("points" in given) == (form == "range"):
        raise DepthrankError(f"axes.{name} is {given!r}; {_FORMS}.")
    if form == "range":
        if not all(isinstance(end, int) for end in ends) or (len(ends) == 3 and ends[2] == 0):
            raise DepthrankError(
                f"axes.{name}: range is {ends!r}; it takes integers start, stop and a step."
            )
        return list(range(*ends))
    points = given["points"]
    if isinstance(points, bool) or not isinstance(points, int) or points < 1:
        raise DepthrankError(f"axes.{name}: points is {points!r}; it must be an integer >= 1.")
    if form == "linear":
        return [float(value) for value in np.linspace(ends[0], ends[1], points)]
    if min(ends) <= 0:
        raise DepthrankError(f"axes.{name}: log runs over {ends!r}; both ends must be > 0.")
    values = [float(value) for value in np.geomspace(ends[0], ends[1], points)]
    values[0], values[-1] = float(ends[0]), float(ends[-1]) if points > 1 else float(ends[0])
    return values


def _zipped(name: str, given: dict[str, Any]) -> tuple[list[Any], list[dict[str, Any]]]:
    columns = {key: value for key, value in given.items() if key != "label"}
    lists = all(isinstance(value, list) for value in given.values())
    if not columns or not lists or len({len(value) for value in given.values()}) != 1:
        raise DepthrankError(f"axes.{name} is {given!r}; {_FORMS}.")
    settings = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    first = next(iter(columns.values()))
    # The first setting names the positions if it can; otherwise all of them together do.
    labels = given.get("label") or (first if len(set(first)) == len(first) else None)
    if labels is None:
        labels = [", ".join(str(value) for value in row.values()) for row in settings]
    return list(labels), settings
