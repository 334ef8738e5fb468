"""Progress on standard error: a bar on a terminal, a few plain lines elsewhere."""

import math
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from depthrank.cli import console

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

LINE_SECONDS = 20.0  # between two plain lines: three a minute


class Reporter:
    """Shows where something long stands; hand `callback` to the library.

    Parameters
    ----------
    label : str
        What is going on, one or two words.
    quiet : bool
        Show nothing.
    read : callable
        From what the library tells to (total, completed, words); a flow's state by default.
    begins : str
        What goes on before the library tells anything.
    """

    def __init__(
        self,
        label: str,
        *,
        quiet: bool,
        read: Callable[[Any], tuple[float | None, float, str]] | None = None,
        begins: str = "compiling",
    ) -> None:
        self.label, self.quiet = label, quiet
        self._read, self._begins = read or of_flow, begins
        self._bars: Bars | None = None
        self._task: Any = None
        self._spoken = time.monotonic()

    def __enter__(self) -> Self:
        if not self.quiet and sys.stderr.isatty():
            self._bars = _bars()
            self._bars.start()
            self._task = self._bars.add_task(self.label, total=None, about=self._begins)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def callback(self, state: Any) -> None:
        """Show what the library tells."""
        if self.quiet:
            return
        if self._bars is not None:
            total, completed, words = self._read(state)
            self._bars.update(self._task, total=total, completed=completed, about=words)
            return
        now = time.monotonic()
        if now - self._spoken >= LINE_SECONDS:
            self._spoken = now
            console.say(f"{self.label}: {self._read(state)[2]}")


def of_flow(state: Any) -> tuple[float | None, float, str]:
    """Read a `depthrank.dynamics.trajectory.Progress`.

    The bar runs over the logarithm of the loss, from the start to the tolerance: gradient flow
    loses its residual exponentially, so that is the scale on which it moves evenly.
    """
    share = log_share(state.start_mse, state.observed_mse, state.tol_mse)
    return (None if share is None else 1.0), share or 0.0, about(state)


def log_share(start: float, now: float, tolerance: float) -> float | None:
    """Return the share of the way from `start` to `tolerance`, on a log scale; None if unknown."""
    if not 0 < tolerance < start or not now > 0 or not math.isfinite(start):
        return None
    share = math.log(start / now) / math.log(start / tolerance)
    return min(max(share, 0.0), 1.0)


def about(state: Any) -> str:
    """Write a state of a run as a few words."""
    parts = [f"squared residual {state.observed_mse:.1e}"]
    if state.tol_mse > 0:
        parts[0] += f" (until {state.tol_mse:.0e})"
    if math.isfinite(state.validation_mse):
        parts.append(f"held-out {math.sqrt(state.validation_mse):.4g}")
    parts += [f"{state.steps:,} steps", f"{state.evaluations:,} evaluations"]
    return ", ".join([*parts, f"{state.seconds:.0f} s"])


def _bars() -> "Bars":
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[about]}"),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    )
