"""The command line: finds the verbs in their folder and runs one of them.

An expected failure is one line on stderr, with `--json` a JSON object, and an exit code of
`exit_codes`.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated

import typer

from deltaplane import DeltaError, __version__
from deltaplane.cli import verbs
from deltaplane.cli.exit_codes import ExitCode
from deltaplane.cli.failures import report_error, report_usage
from deltaplane.names import modules_in

__all__ = ["PANELS", "create_app", "run", "verbs_of"]

# The groups of verbs in the help, in this order: the folders of their files.
PANELS = ("look", "change", "care", "prove")
_LEVELS = ("debug", "info", "warning", "error")


def create_app() -> typer.Typer:
    """Builds the command line from the files in the folder of verbs, one command each."""
    app = typer.Typer(
        name="deltaplane",
        help=(
            "Inspects, changes and maintains Delta tables. Most commands take a table's path or its URL, such as "
            "s3://bucket/table."
        ),
        epilog=f"Exit codes: {', '.join(f'{code.value} {code.name.lower()}' for code in ExitCode)}.",
        pretty_exceptions_enable=False,
    )
    app.callback()(_main)
    for panel in PANELS:
        for module in verbs_of(panel):
            group, title, examples = getattr(module, "app", None), panel.capitalize(), _examples(module)
            if group is None:
                context = getattr(module, "CONTEXT", None)
                command = app.command(rich_help_panel=title, epilog=examples, context_settings=context)
                command(getattr(module, _name(module)))
            else:
                app.add_typer(group, rich_help_panel=title, epilog=examples)
    return app


def verbs_of(panel: str) -> list[ModuleType]:
    """The modules of the verbs of a group, in the order of their names."""
    folder = import_module(f"{verbs.__name__}.{panel}")
    return modules_in(folder.__name__, folder.__path__)


def run(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code."""
    as_json = "--json" in arguments
    try:
        words = list(arguments) or ["--help"]
        # Verbs that run other verbs find this function in their context.
        code = create_app()(args=words, standalone_mode=False, prog_name="deltaplane", obj=run)
    except (typer.Abort, KeyboardInterrupt):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # A closed pipe means that its reader needs no more output.
        return ExitCode.FINE
    except typer.Exit as e:
        return e.exit_code
    except (DeltaError, TypeError, ImportError) as e:
        return report_error(e, as_json=as_json)
    except Exception as e:
        # typer may bundle a private copy of click, so its usage errors are recognised by their
        # methods.
        message = getattr(e, "format_message", None)
        if message is None:
            raise
        return report_usage(message(), as_json=as_json)
    return code if isinstance(code, int) else ExitCode.FINE


def _name(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def _examples(module: ModuleType) -> str | None:
    examples = getattr(module, "EXAMPLES", ())
    # Paragraphs of their own, since the help joins the lines of one.
    return "\n\n".join(["Examples:", *examples]) if examples else None


def _show_version(value: bool) -> None:
    if value:
        print(__version__)
        raise typer.Exit


def _main(
    version: Annotated[
        bool, typer.Option("--version", help="Print deltaplane's version.", callback=_show_version, is_eager=True)
    ] = False,
    log_level: Annotated[
        str | None,
        typer.Option(
            help=f"Print log events of this level and above on stderr: {', '.join(_LEVELS)}.", show_default="none"
        ),
    ] = None,
) -> None:
    """Inspects, changes and maintains Delta tables.

    With DELTAPLANE_OPENTELEMETRY=true verbs are traced by OpenTelemetry."""
    if log_level is None:
        return
    if log_level.lower() not in _LEVELS:
        raise typer.BadParameter(f"{log_level!r} is no level: use one of {', '.join(_LEVELS)}")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    logging.getLogger("deltaplane").setLevel(log_level.upper())
