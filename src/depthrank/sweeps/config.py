"""The config of a sweep: what is run over, what is fixed, and every cell checked beforehand."""

import hashlib
import json
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from depthrank.errors import DepthrankError
from depthrank.sweeps.axes import Axis, parse
from depthrank.sweeps.settings import TASKS, Cell

__all__ = ["Config", "difference", "load"]

_KEYS = ("task", "title", "batch", "fixed", "axes", "when")
_MOST_CELLS = 10_000_000


@dataclass(frozen=True)
class Config:
    """A sweep: a task, settings that are fixed and axes that are run over.

    Attributes
    ----------
    task : str
        One of `settings.TASKS`.
    title : str
    batch : int or None
        Cells of one compiled batch at most; None takes the task's own number.
    fixed : dict
        Settings that all cells share.
    axes : tuple of Axis
        The dimensions of the result, in order.
    folder : Path
        Where data files are looked for.
    """

    task: str
    title: str
    batch: int | None
    fixed: dict[str, Any]
    axes: tuple[Axis, ...]
    folder: Path

    @property
    def shape(self) -> tuple[int, ...]:
        """Lengths of the axes."""
        return tuple(len(axis) for axis in self.axes)

    @property
    def size(self) -> int:
        """Number of positions of the grid, absent cells included."""
        return int(np.prod(self.shape, dtype=np.int64))

    def settings(self, index: int) -> dict[str, Any] | None:
        """Return what the cell at a flat position is told; None where there is no cell.

        A conditional axis counts only where its condition holds; elsewhere there is one cell, at
        its first position.
        """
        told = dict(self.fixed)
        position = np.unravel_index(index, self.shape)
        conditional = [axis for axis in self.axes if axis.when]
        for axis, k in zip(self.axes, position, strict=True):
            if not axis.when:
                told |= axis.settings[int(k)]
        for axis in conditional:
            place = int(position[self.axes.index(axis)])
            if all(told.get(key) in accepted for key, accepted in axis.when.items()):
                told |= axis.settings[place]
            elif place:
                return None
        return told

    def place(self, index: int) -> str:
        """Name a cell by its positions, for messages."""
        position = np.unravel_index(index, self.shape)
        parts = (
            f"{axis.name}={_short(axis.labels[int(k)])}"
            for axis, k in zip(self.axes, position, strict=True)
        )
        return ", ".join(parts)

    @cached_property
    def cells(self) -> dict[int, Cell]:
        """Every cell by its flat position, checked.

        Raises
        ------
        DepthrankError
            At the first cell with a value that its task does not take.
        """
        model, found = TASKS[self.task], {}
        for index in range(self.size):
            told = self.settings(index)
            if told is None:
                continue
            if isinstance(told.get("input"), str):
                told["input"] = str((self.folder / told["input"]).absolute())
            try:
                found[index] = model(**told)
            except ValidationError as error:
                raise DepthrankError(_sentence(error, self.place(index), model)) from None
        return found

    @cached_property
    def files(self) -> dict[str, str]:
        """SHA-256 of every data file, by path: a sweep is not resumed over other data."""
        paths = {cell.input for cell in self.cells.values() if getattr(cell, "input", None)}  # type: ignore[attr-defined]
        found = {}
        for path in sorted(paths):
            try:
                found[path] = hashlib.sha256(Path(path).read_bytes()).hexdigest()
            except OSError as error:
                raise DepthrankError(f"cannot read {path!r}: {error.strerror}.") from None
        return found

    def canonical(self) -> dict[str, Any]:
        """Return the config as plain data: equal for two configs exactly if their cells are."""
        axes = {
            axis.name: {"labels": list(axis.labels), "settings": list(axis.settings)}
            | (
                {"when": {key: list(value) for key, value in axis.when.items()}}
                if axis.when
                else {}
            )
            for axis in self.axes
        }
        plain = {"task": self.task, "batch": self.batch, "fixed": self.fixed, "axes": axes}
        return _finite(plain | {"files": {Path(k).name: v for k, v in self.files.items()}})


def load(source: str | Path | Mapping[str, Any]) -> Config:
    """Return the config that a TOML file or a mapping of the same form describes.

    Raises
    ------
    DepthrankError
        If the file cannot be read, or something in it is unknown or out of range.
    """
    if isinstance(source, Mapping):
        given, folder = dict(source), Path.cwd()
    else:
        path = Path(source)
        try:
            given, folder = tomllib.loads(path.read_text(encoding="utf-8")), path.parent
        except OSError as error:
            raise DepthrankError(f"cannot read {str(path)!r}: {error.strerror}.") from None
        except ValueError as error:  # no TOML, or no text
            raise DepthrankError(f"{str(path)!r} is not TOML: {error}.") from None
    for key in given:
        if key not in _KEYS:
            raise DepthrankError(f"the config has {key!r}{_nearest(key, _KEYS)}.")
    task = given.get("task", "flow")
    if task not in TASKS:
        raise DepthrankError(f"task is {task!r}; it must be one of {', '.join(TASKS)}.")
    batch = given.get("batch")
    if batch is not None and (isinstance(batch, bool) or not isinstance(batch, int) or batch < 1):
        raise DepthrankError(f"batch is {batch!r}; it must be an integer >= 1.")
    fixed, axes = _table(given, "fixed"), _table(given, "axes")
    when = _table(given, "when")
    _check_names(task, fixed, axes, when)
    parsed = tuple(parse(name, value, when.get(name, {})) for name, value in axes.items())
    _check_settings(task, fixed, parsed)
    config = Config(task, str(given.get("title", "")), batch, fixed, parsed, folder)
    if config.size > _MOST_CELLS:
        raise DepthrankError(
            f"the axes span {config.size:,} cells; one sweep holds {_MOST_CELLS:,}. Split it."
        )
    return config


def difference(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the lines in which two canonical configs differ, empty if they agree."""
    before, after = dict(_flat(old)), dict(_flat(new))
    lines = []
    for key in dict.fromkeys((*before, *after)):
        a, b = before.get(key, "nothing"), after.get(key, "nothing")
        if a != b:
            lines.append(f"{key}: {_short(a)} in the store, {_short(b)} in the config")
    return lines


def _table(given: Mapping[str, Any], key: str) -> dict[str, Any]:
    value = given.get(key, {})
    if not isinstance(value, Mapping):
        raise DepthrankError(f"{key} is {value!r}; it must be a table.")
    return dict(value)


def _check_names(
    task: str, fixed: dict[str, Any], axes: dict[str, Any], when: dict[str, Any]
) -> None:
    reserved = ("mode", "status", "reason")
    for name in axes:
        if name in reserved or not name.isidentifier():
            raise DepthrankError(
                f"axes.{name}: an axis is called by letters, digits and _, and not "
                f"{' or '.join(reserved)}."
            )
    for name, condition in when.items():
        if name not in axes:
            raise DepthrankError(f"when has {name!r}{_nearest(name, tuple(axes))}.")
        if not isinstance(condition, Mapping) or not condition:
            raise DepthrankError(
                f"when.{name} is {condition!r}; write settings and the values they must have."
            )
        for key in condition:
            if key not in TASKS[task].model_fields:
                raise DepthrankError(
                    f"when.{name} has {key!r}{_nearest(key, TASKS[task].model_fields)}."
                )
    for key in fixed:
        if key not in TASKS[task].model_fields:
            raise DepthrankError(f"fixed has {key!r}{_nearest(key, TASKS[task].model_fields)}.")


def _check_settings(task: str, fixed: dict[str, Any], axes: tuple[Axis, ...]) -> None:
    """Refuse settings that the task does not have, or that are set twice."""
    taken: dict[str, str] = dict.fromkeys(fixed, "fixed")
    for axis in axes:
        for key in axis.sets:
            if key not in TASKS[task].model_fields:
                near = _nearest(key, TASKS[task].model_fields)
                raise DepthrankError(f"axes.{axis.name} sets {key!r}{near}.")
            if key in taken:
                raise DepthrankError(
                    f"{key} is set by axes.{axis.name} and by {taken[key]}; set it once."
                )
            taken[key] = f"axes.{axis.name}"


def _nearest(given: str, known: Any) -> str:
    near = get_close_matches(given, list(known), n=1, cutoff=0.5)
    guess = f"; did you mean {near[0]!r}?" if near else ";"
    return f", which is not known{guess} It may have {', '.join(known)}"


def _sentence(error: ValidationError, place: str, model: type[Cell]) -> str:
    """Write pydantic's first complaint as one sentence."""
    first = error.errors(include_url=False)[0]
    where = f" (cell {place})" if place else ""
    reason = first["msg"].removeprefix("Value error, ")
    reason = reason[0].lower() + reason[1:]
    if first["type"] == "missing":
        return f"{first['loc'][0]} is missing; fix it or give it an axis{where}."
    if not first["loc"]:
        return f"{reason}{where}."
    name = str(first["loc"][0])
    many = [e["msg"] for e in error.errors(include_url=False) if e["loc"][:1] == first["loc"][:1]]
    if len(many) > 1:  # a union: every member complains
        reason = ", or ".join(text[0].lower() + text[1:] for text in dict.fromkeys(many))
    return f"{name} is {first['input']!r}: {reason}{where}."


def _finite(value: Any) -> Any:
    """Return JSON data: infinities become texts, so that any reader can read them."""
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not np.isfinite(value):
        return str(value)
    return value


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, value


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 120 else f"{text[:80]} ... {text[-30:]}"
