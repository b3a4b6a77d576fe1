"""The command line: finds the verbs in their folder and runs one of them.

An expected failure is one line on stderr and exit code 1.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from deltaplane import DeltaError, __version__
from deltaplane.cli import verbs
from deltaplane.names import modules_in

__all__ = ["create_app", "run"]


def create_app() -> typer.Typer:
    """Builds the command line from the files in the folder of verbs, one command each."""
    app = typer.Typer(
        name="deltaplane",
        help=(
            "Inspects and maintains Delta tables. Every command except cache and demo takes a path or a URL such as "
            "s3://bucket/table."
        ),
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_main)
    for module in modules_in(verbs.__name__, verbs.__path__):
        group = getattr(module, "app", None)
        if group is None:
            app.command()(getattr(module, module.__name__.rpartition(".")[2]))
        else:
            app.add_typer(group)
    return app


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code."""
    try:
        code = create_app()(args=list(arguments) or ["--help"], standalone_mode=False, prog_name="deltaplane")
    except typer.Abort:
        return 130
    except BrokenPipeError:
        # A closed pipe means that its reader needs no more output.
        return 0
    except typer.Exit as e:
        return e.exit_code
    except (DeltaError, TypeError, ImportError) as e:
        return _fail(str(e))
    except Exception as e:
        # typer may bundle a private copy of click, so its usage errors are recognised by their
        # methods.
        message = getattr(e, "format_message", None)
        if message is None:
            raise
        return _fail(f"{message()} (try --help)")
    return code if isinstance(code, int) else 0


def _fail(message: str) -> int:
    print(f"deltaplane: {' '.join(message.split())}", file=sys.stderr)
    return 1


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print deltaplane's version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    """Inspects and maintains Delta tables."""
