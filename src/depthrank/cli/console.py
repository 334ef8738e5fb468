"""What commands say, and where: results on standard output, everything else on standard error."""

import json
import math
import secrets
import shlex
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from depthrank.errors import DepthrankError

PICTURES = (".png", ".svg", ".pdf")


def say(text: str) -> None:
    """Print a line on standard error."""
    typer.echo(text, err=True)


def emit(result: dict[str, Any]) -> None:
    """Print a result as one JSON object on standard output."""
    typer.echo(json.dumps(plain(result), allow_nan=False, ensure_ascii=False))


def plain(value: Any) -> Any:
    """Return a value made of what JSON has: NaN becomes null, infinities "inf" and "-inf"."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if math.isnan(value):
            return None
        return value if math.isfinite(value) else str(value)
    if hasattr(value, "tolist"):  # NumPy arrays and scalars
        return plain(value.tolist())
    return str(value)


def facts(rows: Sequence[tuple[str, str]]) -> None:
    """Print names and values in two columns on standard output."""
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        typer.echo(f"  {name:<{width}}  {value}")


def heading(text: str) -> None:
    """Print the first line of a result, bold on a terminal."""
    typer.secho(text, bold=True)


def number(value: float | None, digits: int = 6) -> str:
    """Write a number for people; "-" if there is none."""
    if value is None or math.isnan(value):
        return "-"
    return f"{value:.{digits}g}"


def spectrum(values: Sequence[float], most: int = 8) -> str:
    """Write singular values for people, runs of equal ones together."""
    runs: list[list[Any]] = []
    for value in map(float, values):
        if runs and math.isclose(value, runs[-1][0], rel_tol=1e-6):
            runs[-1][1] += 1
        else:
            runs.append([value, 1])
    shown = [f"{value:.6g}" + (f" ({n} times)" if n > 1 else "") for value, n in runs[:most]]
    rest = sum(n for _, n in runs[most:])
    return ", ".join(shown) + (f", and {rest} smaller" if rest else "")


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Write a number with its noun."""
    return f"{n:,} {singular if n == 1 else plural or singular + 's'}"


def seed_or_draw(seed: int | None) -> int:
    """Return the seed asked for, or a fresh one."""
    return secrets.randbelow(2**31) if seed is None else seed


@contextmanager
def heard() -> Iterator[list[str]]:
    """Collect what the library warns of, as sentences, and show it on standard error at the end."""
    sentences: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", UserWarning)
        try:
            yield sentences
        finally:
            sentences += dict.fromkeys(str(warning.message) for warning in caught)
            warn(sentences)


def warn(sentences: Sequence[str]) -> None:
    """Show warnings on standard error."""
    for sentence in sentences:
        say(f"Warning: {sentence}")


def check_output(path: Path | None, endings: Sequence[str], option: str) -> None:
    """Refuse an output file that could not be written, before anything long starts."""
    if path is None:
        return
    if endings and path.suffix.lower() not in endings:
        raise DepthrankError(
            f"{option} is {str(path)!r}; its name must end in {' or '.join(endings)}."
        )
    if not path.absolute().parent.is_dir():
        raise DepthrankError(
            f"{option} is {str(path)!r}; the folder {str(path.absolute().parent)!r} does not exist."
        )
    if path.is_dir() and path.suffix != ".zarr":
        raise DepthrankError(f"{option} is {str(path)!r}, which is a folder.")


def asked(seed: int, *, seeded: bool = True) -> str:
    """Return the command that was given, with the seed that was drawn, to be run again."""
    words = ["depthrank", *sys.argv[1:]]
    if seeded and "--seed" not in words and not any(word.startswith("--seed=") for word in words):
        words += ["--seed", str(seed)]
    return shlex.join(words)
