"""Text of one cell to a number: what counts as missing, what is refused, with which hint."""

import math
import re
from collections.abc import Iterable

from depthrank.errors import DepthrankError

MISSING = frozenset({"", "NA"})
"""Tokens that are missing by default, beside NaN in any case."""

_DECIMAL_COMMA = re.compile(r"[+-]?[0-9]*,[0-9]+([eE][+-]?[0-9]+)?")
_EITHER_SIGN = re.compile(r"[+-]?[0-9]*[.,][0-9]*([eE][+-]?[0-9]+)?")
_LEADING_ZERO = re.compile(r"[+-]?0[0-9]+")
_REMEMBERED = 10_000


def markers(
    missing: str | float | Iterable[str | float],
) -> tuple[frozenset[str], frozenset[float]]:
    """Split further missing markers into texts and numbers; one that is both is in both."""
    given = [missing] if isinstance(missing, str | float | int) else list(missing)
    texts = frozenset(str(marker).strip() for marker in given)
    numbers = set()
    for text in texts:
        try:
            numbers.add(float(text))
        except ValueError:
            continue
    return texts, frozenset(number for number in numbers if not math.isnan(number))


class Numbers(dict[str, float]):
    """Tokens and their numbers, NaN if missing; parses on first sight and remembers.

    A dictionary, because tables repeat their tokens and a look-up is several times faster than
    parsing. A token that is no finite number raises ValueError; `problem` says why.
    """

    def __init__(self, missing: str | float | Iterable[str | float], decimal: str) -> None:
        super().__init__()
        if decimal not in (".", ","):
            raise DepthrankError(f"decimal is {decimal!r}; it must be '.' or ','.")
        texts, self._marked = markers(missing)
        self._missing = MISSING | texts
        self._decimal = decimal

    def __missing__(self, token: str) -> float:
        text = token.strip()
        if text in self._missing:
            number = math.nan
        else:
            number = self._parse(text)
            if not math.isfinite(number):
                if math.isinf(number):
                    raise ValueError
            elif number in self._marked:
                number = math.nan
        if len(self) < _REMEMBERED:
            self[token] = number
        return number

    def _parse(self, text: str) -> float:
        # float() reads "nan" in any case, and would read "1_000".
        if self._decimal == ",":
            if "." in text:
                raise ValueError
            text = text.replace(",", ".")
        if "_" in text:
            raise ValueError
        return float(text)

    def reads(self, token: str) -> bool:
        """Tell whether a token is a finite number or missing."""
        try:
            self[token]
        except ValueError:
            return False
        return True

    def kind(self, token: str) -> str:
        """Tell what a cell looks like: "missing", "number", "text", or "odd" (only signs)."""
        text = token.strip()
        try:
            number = self[token]
        except ValueError:
            if _EITHER_SIGN.fullmatch(text) or self._is_infinite(text):
                return "number"
            return "text" if any(char.isalnum() for char in text) else "odd"
        if math.isnan(number):
            return "missing"
        return "text" if _LEADING_ZERO.fullmatch(text) else "number"

    def problem(self, token: str) -> str:
        """Say why a token is refused and what may help."""
        text = token.strip()
        if self._is_infinite(text):
            return f"infinite value {text!r}; values must be finite."
        said = f"{text!r} is not a number"
        if self._decimal == "." and _DECIMAL_COMMA.fullmatch(text):
            return f"{said}. It looks like a decimal comma: set the option decimal to ','."
        if self._decimal == "," and "." in text:
            return f"{said} with a decimal comma. Set the option decimal to '.'."
        return f"{said}. If it marks a missing cell, add it by the option missing."

    def _is_infinite(self, text: str) -> bool:
        try:
            return math.isinf(self._parse(text))
        except ValueError:
            return False
