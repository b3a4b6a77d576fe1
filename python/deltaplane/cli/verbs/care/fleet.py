"""`deltaplane fleet`: runs a verb on many tables.

Uses the public API only.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from typing import Annotated, Any

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, StoreOptions, store_options
from deltaplane.cli.exit_codes import ExitCode
from deltaplane.cli.fleets import FleetTable, fleet_tables

__all__ = ["fleet"]

EXAMPLES = (
    "deltaplane fleet 's3://bucket/*/orders' @others.txt -- maintain --budget 10GB",
    "deltaplane fleet --json sqlite:///lake.db -- check --deep",
)
# What follows the first target belongs to the verb, also options.
CONTEXT = {"allow_interspersed_args": False}


def fleet(
    context: typer.Context,
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="TARGET… -- VERB [ARGUMENT…]",
            help="Locations, patterns with * and ?, @FILE with a target a line, catalogs; then a verb without its location.",
            show_default=False,
        ),
    ],
    option: StoreOptions = None,
    json: AsJson = False,
) -> None:
    """Runs a verb on many tables, one after the other; a failure doesn't stop the others. Exits
    with 0 if all are fine, else with the code that all failures have, or 1."""
    if "--" not in words:
        raise typer.BadParameter("write -- between the tables and the verb")
    at_dashes = words.index("--")
    targets, command = words[:at_dashes], words[at_dashes + 1 :]
    if not targets or not command:
        raise typer.BadParameter("name tables before --, and a verb behind it")
    results = [
        _ran(context.obj, table, command, option or [], json) for table in fleet_tables(targets, store_options(option))
    ]
    if json:
        render.print_json(results)
    else:
        failed = [result["table"] for result in results if result["exit_code"]]
        render.facts({"tables": len(results), "fine": len(results) - len(failed)}, as_json=False)
        render.names("not fine", failed)
    codes = {result["exit_code"] for result in results} - {0}
    if codes:
        raise typer.Exit(codes.pop() if len(codes) == 1 else ExitCode.FINDINGS)


def _ran(
    run: Callable[[list[str]], int], table: FleetTable, command: list[str], options: list[str], as_json: bool
) -> dict[str, Any]:
    """Runs the verb on a table; the output of a run with JSON is kept."""
    own = [f"{key}={value}" for key, value in table.options.items()]
    stores = [part for text in (*options, *own) for part in ("--option", text)]
    arguments = [command[0], table.location, *command[1:], *stores]
    if not as_json:
        print(f"== {table.location}", flush=True)
        return {"table": table.location, "exit_code": int(run(arguments))}
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
        code = int(run([*arguments, "--json"]))
    texts = {"output": output.getvalue(), "error": errors.getvalue()}
    return {"table": table.location, "exit_code": code, **{name: _value(text) for name, text in texts.items()}}


def _value(text: str) -> Any:
    import json as json_values

    try:
        return json_values.loads(text) if text.strip() else None
    except ValueError:
        return text
