"""Progress of a count of cells on standard error: a bar on a terminal, plain lines elsewhere."""

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from depthrank.cli import console
from depthrank.cli.progress import LINE_SECONDS

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from depthrank.sweeps.running import Count


class CountReporter:
    """Shows how a sweep stands; hand `callback` to the library.

    Parameters
    ----------
    label : str
        What is going on.
    quiet : bool
        Show nothing.
    """

    def __init__(self, label: str, *, quiet: bool) -> None:
        self.label, self.quiet = label, quiet
        self._bars: Bars | None = None
        self._task: Any = None
        self._spoken = time.monotonic()

    def __enter__(self) -> Self:
        if not self.quiet and sys.stderr.isatty():
            from depthrank.cli.progress import _bars

            self._bars = _bars()
            self._bars.start()
            self._task = self._bars.add_task(self.label, total=None, about="starting")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bars is not None:
            self._bars.stop()

    def callback(self, count: "Count") -> None:
        """Show how the sweep stands."""
        if self.quiet:
            return
        if self._bars is not None:
            ended = count.done + count.failed
            self._bars.update(self._task, total=count.cells, completed=ended, about=about(count))
            return
        now = time.monotonic()
        if now - self._spoken >= LINE_SECONDS:
            self._spoken = now
            console.say(f"{self.label}: {about(count)}")


def about(count: "Count") -> str:
    """Write how a sweep stands as a few words: done, failed, rate, time left."""
    parts = [f"{count.done:,} of {count.cells:,} done"]
    if count.failed:
        parts.append(f"{count.failed:,} failed")
    if count.fresh and count.seconds > 0:
        rate = count.fresh / count.seconds
        left = (count.cells - count.done - count.failed) / rate
        parts += [f"{rate:.3g} cells/s", f"{left:.0f} s left"]
    elif count.running:
        parts.append(f"{count.running:.0%} of the first batch")
    return ", ".join([*parts, f"{count.seconds:.0f} s"])
