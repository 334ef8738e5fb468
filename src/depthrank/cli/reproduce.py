"""`depthrank reproduce`: the paper's results, claim by claim, measured on this machine."""

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from depthrank.cli import console, options
from depthrank.errors import DepthrankError

if TYPE_CHECKING:
    from depthrank.report.reproduce_page import Outcome
    from depthrank.studies import Study

EXAMPLE = """\b
Examples:
  depthrank reproduce --quick
  depthrank reproduce limits coupling --full --out results
  depthrank reproduce --list"""


def command(
    study: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[STUDY]...", help="Which studies; all that need no extra if none is named."
        ),
    ] = None,
    full: Annotated[
        bool,
        typer.Option("--full/--quick", help="Minutes of tighter settings, or a quick run."),
    ] = False,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for figures, page and numbers.")
    ] = Path("reproduce-output"),
    seed: Annotated[int, typer.Option(metavar="N", help="Seed of all randomness.")] = 0,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Studies run at a time.")] = 2,
    show: Annotated[bool, typer.Option("--list", help="List the studies and exit.")] = False,
    json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Measure the results of the paper and decide claim by claim whether they hold.

    Writes a figure a study (PNG and SVG), one HTML page and all claims as JSON. The exit status is
    1 if a claim fails.
    """
    from depthrank.studies import STUDIES

    if show:
        _list(STUDIES, json)
        return
    chosen = _choose(study or [], STUDIES)
    with suppress(FileExistsError):  # a file of that name is refused by what writes into it
        out.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    outcomes: list[Outcome] = []
    interrupted = False
    try:
        for outcome in _outcomes(chosen, "full" if full else "quick", seed, out, jobs, quiet):
            outcomes.append(outcome)
            if not (json or quiet):
                _print(outcome)
    except KeyboardInterrupt:
        interrupted = True
    seconds = time.perf_counter() - began
    result = _write(outcomes, chosen, out, "full" if full else "quick", seed, seconds)
    if json:
        console.emit(result)
    elif not quiet:
        _conclude(result, out)
    if interrupted:
        console.say(f"Interrupted; {len(outcomes)} of {len(chosen)} studies are kept in {out}.")
        raise typer.Exit(130)
    if any(claim["verdict"] == "fails" for claim in result["claims"]):
        raise typer.Exit(1)


def _choose(names: list[str], studies: "tuple[Study, ...]") -> "list[Study]":
    from difflib import get_close_matches

    known = {one.name: one for one in studies}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1, cutoff=0.0)[0]
            raise DepthrankError(
                f"there is no study {name!r}; did you mean {near!r}? "
                f"The studies are {', '.join(known)}."
            )
    # A study brings those that go on from it: plasticity, plasticity-remedies.
    named = [x for name in names for x in known if x == name or x.startswith(f"{name}-")]
    chosen = [known[name] for name in dict.fromkeys(named)]
    return chosen or [one for one in studies if one.needs is None]


def _list(studies: "tuple[Study, ...]", json: bool) -> None:
    if json:
        keys = ("name", "title", "source", "summary")
        console.emit({"studies": [{key: getattr(one, key) for key in keys} for one in studies]})
        return
    console.facts([(one.name, f"{one.title} ({one.source})") for one in studies])


def _outcomes(
    chosen: "list[Study]", mode: str, seed: int, out: Path, jobs: int, quiet: bool
) -> "Iterator[Outcome]":
    """Run the studies, several at a time if asked, and hand them over in order."""
    from depthrank.report.figures import save
    from depthrank.report.reproduce_page import Outcome

    with ExitStack() as stack:
        work: list[Callable[[], tuple[Any, float]]]
        if min(jobs, len(chosen)) > 1:
            # Processes: two threads that compile and integrate at once may wait for each other.
            context = multiprocessing.get_context("spawn")
            pool = stack.enter_context(context.Pool(min(jobs, len(chosen)), _leave_ctrl_c))
            tasks = [pool.apply_async(_measure, (one.name, mode, seed)) for one in chosen]
            work = [task.get for task in tasks]
        else:
            work = [partial(_measure, one.name, mode, seed) for one in chosen]
        for position, (one, get) in enumerate(zip(chosen, work, strict=True), start=1):
            if not quiet:
                console.say(f"[{position}/{len(chosen)}] {one.title} ...")
            data, seconds = get()
            figure = one.figure(data)
            for ending in ("png", "svg"):
                save(figure, out / f"{one.name}.{ending}")
            table = None if one.table is None else one.table(data)
            yield Outcome(one, one.claims(data), figure, seconds, table)


def _measure(name: str, mode: str, seed: int) -> tuple[Any, float]:
    """Run one study, in this process or another."""
    from depthrank import studies

    one = next(study for study in studies.STUDIES if study.name == name)
    began = time.perf_counter()
    return one.run(getattr(one, mode), seed), time.perf_counter() - began


def _leave_ctrl_c() -> None:
    """Let the main process alone act on Ctrl-C; it ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _print(outcome: "Outcome") -> None:
    """Print the claims of one study: a table on a terminal, plain lines elsewhere."""
    from depthrank.report.reproduce_page import measured

    console.heading(f"{outcome.study.title} ({outcome.study.source})")
    if not sys.stdout.isatty():
        for claim in outcome.claims:
            typer.echo(
                f"  {claim.verdict}  {claim.id}: {measured(claim)} (expected {claim.expected})\n"
                f"         {claim.statement}"
            )
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("", "claim", "measured", "expected"):
        table.add_column(name, overflow="fold")
    for claim in outcome.claims:
        colour = "green" if claim.holds else "bold red"
        table.add_row(
            f"[{colour}]{claim.verdict}[/{colour}]",
            escape(claim.statement),
            escape(measured(claim)),
            escape(claim.expected),
        )
    Console().print(table)


def _write(
    outcomes: "list[Outcome]",
    chosen: "list[Study]",
    out: Path,
    mode: str,
    seed: int,
    seconds: float,
) -> dict[str, Any]:
    """Write the page and the claims; return what --json prints."""
    import json

    from depthrank._version import __version__
    from depthrank.files.atomic import atomic
    from depthrank.report.reproduce_page import reproduce_page

    result = {
        "claims": [claim.as_dict() for outcome in outcomes for claim in outcome.claims],
        "seconds": seconds,
        "studies": [{"name": o.study.name, "seconds": o.seconds} for o in outcomes],
        "setting": mode,
        "seed": seed,
        "version": __version__,
    }
    missing = [one.name for one in chosen[len(outcomes) :]]
    page = reproduce_page(outcomes, mode=mode, seed=seed, seconds=seconds, missing=missing)
    with atomic(out / "index.html") as handle:
        handle.write(page.encode())
    with atomic(out / "claims.json") as handle:
        handle.write(json.dumps(console.plain(result), indent=1, allow_nan=False).encode())
    return result


def _conclude(result: dict[str, Any], out: Path) -> None:
    failed = [claim["id"] for claim in result["claims"] if claim["verdict"] == "fails"]
    total = len(result["claims"])
    console.heading(f"{total - len(failed)} of {console.count(total, 'claim')} hold.")
    for name in failed:
        typer.echo(f"  fails: {name}")
    typer.echo(f"Page: {out / 'index.html'} ({result['seconds']:.0f} s)")
