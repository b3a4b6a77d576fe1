"""Reports a failed command on stderr: one line for people, one JSON object for programs."""

from __future__ import annotations

import json
import sys

from deltaplane.cli.exit_codes import ExitCode, exit_code, next_step
from deltaplane.report.caller_words import Door, in_words_of

__all__ = ["report_error", "report_usage"]


def report_error(error: BaseException, *, as_json: bool) -> ExitCode:
    """Prints an error and returns the command's exit code.

    The keys of the JSON object are `kind`, `message`, `table`, `version`, `path`, `next` and
    `exit_code`; what isn't known is null.
    """
    code = exit_code(error)
    message = in_words_of(Door.CLI, _one_line(str(error)))
    if as_json:
        facts = {name: getattr(error, name, None) for name in ("table", "version", "path")}
        kind = getattr(error, "kind", None) or type(error).__name__
        _print({"kind": kind, "message": message, **facts, "next": next_step(error), "exit_code": int(code)})
    else:
        _print(message)
    return code


def report_usage(message: str, *, as_json: bool) -> ExitCode:
    """Prints an error in the command line itself and returns the exit code."""
    shown = _one_line(message)
    if as_json:
        facts = {"table": None, "version": None, "path": None, "next": "--help explains each argument"}
        _print({"kind": "Usage", "message": shown, **facts, "exit_code": int(ExitCode.USAGE)})
    else:
        _print(f"{shown} (try --help)")
    return ExitCode.USAGE


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _print(what: str | dict[str, object]) -> None:
    text = f"deltaplane: {what}" if isinstance(what, str) else json.dumps(what, ensure_ascii=False, default=str)
    print(text, file=sys.stderr)
