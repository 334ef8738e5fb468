"""The `depthrank` command and what all its commands share."""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from depthrank._version import __version__
from depthrank.cli import (
    cache,
    complete,
    console,
    diagnose,
    flow,
    limits,
    reproduce,
    spectra,
    sweep,
    update,
)
from depthrank.errors import DepthrankError


class Guarded(TyperGroup):
    """The group of commands: wrong input is one message and status 2, Ctrl-C is status 130."""

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Answer --version and --help here.

        Typer takes 0.1 s to prepare any option of a group, which every command and its help would
        pay for.
        """
        first = args[0] if args else "--help"
        if first == "--version":
            typer.echo(f"depthrank {__version__}")
            raise typer.Exit
        if first in ("--help", "-h"):
            typer.echo(ctx.get_help())
            raise typer.Exit(0 if args else 2)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            return super().invoke(ctx)
        except DepthrankError as error:
            console.say(f"Error: {error}")
            raise typer.Exit(2) from None
        except BrokenPipeError:  # the reader of our output has gone
            raise
        except OSError as error:
            where = f"{error.filename}: " if error.filename else ""
            console.say(f"Error: {where}{error.strerror or error}")
            raise typer.Exit(2) from None
        except MemoryError:
            console.say("Error: the memory does not suffice for this input.")
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            console.say("Interrupted; nothing was written.")
            raise typer.Exit(130) from None


app = typer.Typer(
    cls=Guarded,
    name="depthrank",
    add_help_option=False,
    add_completion=False,
    rich_markup_mode=None,  # importing rich for a help text would double its time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

for name, module in {
    "complete": complete,
    "update": update,
    "diagnose": diagnose,
    "limits": limits,
    "flow": flow,
    "spectra": spectra,
    "reproduce": reproduce,
}.items():
    app.command(name, epilog=module.EXAMPLE)(module.command)
app.add_typer(sweep.app, name="sweep", help="Run grids of experiments into a durable store.")


@app.callback(epilog="\b\nExample:\n  depthrank complete ratings.csv -o filled.csv")
def depthrank() -> None:
    """Matrix completion by deep matrix factorisation: depth is the regulariser.

    `depthrank COMMAND --help` explains a command, `depthrank --version` says which version it is.
    """


def main() -> None:
    """Run the command line in a process of its own."""
    try:
        cache.enable()
        app()
    except KeyboardInterrupt:  # before or after the command itself
        sys.exit(130)
