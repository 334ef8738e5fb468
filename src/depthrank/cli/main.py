"""The `depthrank` command and what all its commands share."""

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from depthrank._version import __version__
from depthrank.cli import cache, complete, console, diagnose, flow, limits, reproduce, spectra
from depthrank.errors import DepthrankError


class Guarded(TyperGroup):
    """The group of commands: wrong input is one message and status 2, Ctrl-C is status 130."""

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
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,  # importing rich for a help text would double its time
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

for name, module in {
    "complete": complete,
    "diagnose": diagnose,
    "limits": limits,
    "flow": flow,
    "spectra": spectra,
    "reproduce": reproduce,
}.items():
    app.command(name, epilog=module.EXAMPLE)(module.command)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"depthrank {__version__}")
        raise typer.Exit


@app.callback(epilog="\b\nExample:\n  depthrank complete ratings.csv -o filled.csv")
def depthrank(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Matrix completion by deep matrix factorisation: depth is the regulariser."""


def main() -> None:
    """Run the command line in a process of its own."""
    try:
        cache.enable()
        app()
    except KeyboardInterrupt:  # before or after the command itself
        sys.exit(130)
