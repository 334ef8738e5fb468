"""`depthrank sweep`: grids of experiments into a durable store."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from depthrank.cli import console, options, sweep_show
from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    from depthrank.sweeps.config import Config

EXAMPLE = """\b
Examples:
  depthrank sweep phase.toml --out phase.zarr --dry-run
  depthrank sweep phase.toml --out phase.zarr --workers 2
  depthrank sweep phase.toml --out phase.zarr --resume
  depthrank sweep show phase.zarr --by depth
  depthrank sweep plot phase.zarr --out phase.png
  depthrank sweep export phase.zarr cells.parquet"""


class Group(TyperGroup):
    """`sweep CONFIG` runs, `sweep show STORE`, `plot` and `export` look at what was run."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Take anything but the name of another command for what is to be run."""
        if not args or args[0] not in self.commands:
            args = ["run", *_with_address(args)]
        return super().parse_args(ctx, args)


def _with_address(args: list[str]) -> list[str]:
    """Write `--ray` with its address in one word: "local" where none follows."""
    found: list[str] = []
    for position, word in enumerate(args):
        if word == "--ray":
            after = args[position + 1] if position + 1 < len(args) else ""
            is_address = after == "auto" or (":" in after and not after.startswith("-"))
            found.append("--ray" if is_address else "--ray=local")
        else:
            found.append(word)
    return found


app = typer.Typer(
    cls=Group,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
app.command("show", epilog=sweep_show.SHOW)(sweep_show.show)
app.command("plot", epilog=sweep_show.PLOT)(sweep_show.plot)
app.command("export")(sweep_show.export)


@app.command("run", epilog=EXAMPLE, hidden=True)
def command(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="Task, settings and axes.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="STORE", help="The zarr group to write.")
    ],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a store that is there.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="With --resume, run failed cells again.")
    ] = False,
    workers: Annotated[
        int, typer.Option(metavar="N", min=1, help="Processes on this machine.")
    ] = 1,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="[ADDRESS]", help="Run on Ray: a cluster of its own, or the one at ADDRESS."
        ),
    ] = None,
    gpus: Annotated[float, typer.Option(metavar="X", min=0, help="GPUs of a batch on Ray.")] = 0.0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would cost and write nothing.")
    ] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Run every cell of a grid and keep the results in a store that survives any interruption.

    `depthrank sweep show STORE` looks at it, while it runs too; `sweep plot` draws it and
    `sweep export` writes it as a table.
    """
    from depthrank.sweeps.config import load

    if retry_failed and not resume:
        raise DepthrankError("--retry-failed goes with --resume; give both.")
    read = load(config)
    if dry_run:
        _estimate(read, workers, json)
        return
    _check(out, resume)
    from depthrank.cli.progress import Reporter
    from depthrank.cli.progress_count import of_sweep
    from depthrank.sweeps.running import run_sweep

    try:
        with Reporter("sweep", quiet=quiet, read=of_sweep, begins="starting") as reporter:
            count = run_sweep(
                read,
                out,
                resume=resume,
                retry_failed=retry_failed,
                workers=workers,
                ray=ray,
                gpus=gpus,
                progress=reporter.callback,
            )
    except KeyboardInterrupt:
        console.say(f"Interrupted; every batch that ended is kept. Go on with --resume ({out}).")
        raise typer.Exit(130) from None
    result = {
        "cells": count.cells,
        "done": count.done,
        "failed": count.failed,
        "seconds": count.seconds,
        "fresh": count.fresh,
        "store": str(out),
    }
    if json:
        console.emit(result)
    elif not quiet:
        _print(result)


def _check(out: Path, resume: bool) -> None:
    """Refuse what would only fail after the imports."""
    if out.exists() and not resume:
        raise DepthrankError(
            f"{str(out)!r} exists; give --resume to go on with it, or another --out."
        )


def _estimate(config: "Config", workers: int, json: bool) -> None:
    from depthrank import memory
    from depthrank.sweeps.batches import batches_of
    from depthrank.sweeps.estimate import estimate

    found = estimate(config, batches_of(config))
    seconds = found.seconds / workers
    if json:
        console.emit(
            {
                "cells": found.cells,
                "batches": found.batches,
                "programs": found.programs,
                "done": 0,
                "failed": 0,
                "seconds": 0.0,
                "estimated_seconds": seconds,
                "memory_bytes": found.memory,
                "disk_bytes": found.disk,
            }
        )
        return
    console.heading(f"{config.task}: {console.count(found.cells, 'cell')}")
    rows = [(axis.name, f"{len(axis)}: {_ends(axis.labels)}") for axis in config.axes]
    rows += [
        ("batches", f"{found.batches:,}, for {console.count(found.programs, 'program')}"),
        ("time", f"about {_time(seconds)} on {console.count(workers, 'process', 'processes')}"),
        ("memory", f"about {memory.gib(found.memory)} a process"),
        ("disk", f"at most {memory.gib(found.disk)}"),
    ]
    console.facts(rows)
    console.say("Time is a rough guess: a grid may take several times more or less.")


def _ends(labels: tuple[Any, ...]) -> str:
    words = [f"{label:g}" if isinstance(label, float) else str(label) for label in labels]
    return ", ".join(words) if len(words) <= 6 else f"{words[0]}, {words[1]}, ... {words[-1]}"


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{max(seconds, 1):.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _print(result: dict[str, Any]) -> None:
    done, cells = result["done"], result["cells"]
    console.heading(f"{done:,} of {console.count(cells, 'cell')} done in {result['seconds']:.1f} s")
    if result["failed"]:
        failed = console.count(result["failed"], "cell")
        typer.echo(f"  {failed} failed; `depthrank sweep show {result['store']}` says why.")
    typer.echo(f"Store: {result['store']}")
