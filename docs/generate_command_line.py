"""Writes docs/command-line.md from the command line itself: its verbs, options, examples and exit
codes. `--check` only reports whether the page is up to date.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main
from generate import table, wrapped

from deltaplane.cli.app import PANELS, create_app, verbs_of
from deltaplane.cli.exit_codes import ExitCode

PAGE = Path(__file__).resolve().parent / "command-line.md"
MEANINGS = {
    ExitCode.FINE: "done",
    ExitCode.FINDINGS: "done, and something was found, such as damage by `check`",
    ExitCode.USAGE: "the command or the statement must be changed",
    ExitCode.NOT_FOUND: "no table, or no such version, at the location",
    ExitCode.DENIED: "the store refuses the credentials or the right",
    ExitCode.UNAVAILABLE: "the store doesn't answer: try again",
    ExitCode.CONFLICT: "another commit came first: try again on the newest version",
    ExitCode.CORRUPT: "a file of the log or of the data is missing or damaged",
    ExitCode.REFUSED: "the table or the data doesn't allow it, such as a constraint or a table feature",
    ExitCode.INTERNAL: "a fault of deltaplane",
    ExitCode.INTERRUPTED: "interrupted, or answered with no",
}


def _text(help_text: str | None) -> str:
    return re.sub(r"\s+", " ", help_text or "").replace("|", "\\|").strip()


def _commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The verbs of a command, with their full names: those of a group instead of the group."""
    if getattr(command, "commands", None):
        for inner, verb in sorted(command.commands.items()):
            yield from _commands(verb, f"{name} {inner}")
    else:
        yield name, command


def _arguments(command: Any) -> str:
    rows: list[list[str]] = []
    for parameter in command.params:
        if parameter.name == "help":
            continue
        is_argument = parameter.param_type_name == "argument"
        value = parameter.metavar or parameter.name.upper()
        names = [value] if is_argument else sorted(parameter.opts, key=len)
        value = "" if is_argument or parameter.is_flag else f" {value}"
        rows.append([f"`{', '.join(names)}{value}`", _text(parameter.help)])
    return table(["", ""], rows)


def _verb(name: str, command: Any, examples: tuple[str, ...]) -> str:
    shown = "\n".join(examples)
    block = f"```sh\n{shown}\n```\n\n" if examples else ""
    return f"### `{name}`\n\n{wrapped(_text(inspect.cleandoc(command.help or '')))}\n\n{block}{_arguments(command)}"


def page() -> str:
    top = typer.main.get_command(create_app())
    parts = []
    for panel in PANELS:
        parts.append(f"## {panel.capitalize()}\n")
        for module in verbs_of(panel):
            name = module.__name__.rpartition(".")[2].replace("_", "-")
            for full, command in _commands(top.commands[name], f"deltaplane {name}"):  # type: ignore[attr-defined]
                own = tuple(text for text in module.EXAMPLES if text.startswith(full))
                parts.append(_verb(full, command, own))
    codes = table(["code", "name", "meaning"], [[str(int(c)), f"`{c.name}`", text] for c, text in MEANINGS.items()])
    return f"""# Command line

`pip install 'deltaplane[cli]'` installs the command `deltaplane`. This page is generated from the
command's own help by `docs/generate_command_line.py`: do not edit it.

`deltaplane --install-completion` installs the completion of verbs and options for the shell, and
`deltaplane --log-level debug VERB …` prints log events. What deletes asks first on a terminal,
unless `--yes` is given; without a terminal it doesn't ask.

## Exit codes and errors

{codes}
An error is one line on standard error. With `--json` it is a JSON object there with the keys
`kind`, `message`, `table`, `version`, `path`, `next` (what to do next) and `exit_code`; what isn't
known is null.

{chr(10).join(parts)}"""


def main() -> int:
    text = page()
    if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text:
        return 0
    if "--check" in sys.argv[1:]:
        print("docs/command-line.md is out of date: run docs/generate_command_line.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
