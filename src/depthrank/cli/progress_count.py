"""How a sweep stands, for the progress on standard error."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from depthrank.sweeps.running import Count


def of_sweep(count: "Count") -> tuple[float, float, str]:
    """Read a count of cells as (total, completed, words)."""
    return count.cells, count.done + count.failed, about(count)


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
