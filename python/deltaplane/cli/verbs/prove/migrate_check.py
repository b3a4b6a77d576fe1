"""`deltaplane migrate-check`: lists what scripts for deltalake must change for deltaplane's API.

Uses the public API only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson
from deltaplane.cli.migration import Finding, check_script

__all__ = ["migrate_check"]

EXAMPLES = ("deltaplane migrate-check jobs/load.py",)


def migrate_check(
    scripts: Annotated[
        list[Path] | None, typer.Argument(metavar="SCRIPT…", help="Python files.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """Lists calls, arguments and SQL of scripts for deltalake that mean something else in
    deltaplane's own API. Runs nothing. Exits with 1 if there are any, with 2 for files that can't
    be read."""
    problems = {}
    if not scripts:
        raise _unusable("name at least one Python file")
    for script in scripts:
        try:
            problems[script] = check_script(script.read_text(encoding="utf-8"))
        except (OSError, SyntaxError, ValueError) as e:
            raise _unusable(f"{script}: {e}") from e
    if json:
        rows = [{"script": str(script), **vars(finding)} for script, part in problems.items() for finding in part]
        render.print_json(rows)
    else:
        for script, part in problems.items():
            for finding in part:
                print(_line(script, finding))
    if any(problems.values()):
        raise typer.Exit(1)


def _line(script: Path, finding: Finding) -> str:
    where = f"{script}:{finding.line}:{finding.column}"
    return f"{where}: {finding.rule}: {finding.part}: {finding.meaning}; write: {finding.write}"


def _unusable(problem: str) -> typer.Exit:
    print(f"deltaplane: {problem}", file=sys.stderr)
    return typer.Exit(2)
