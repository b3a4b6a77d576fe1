"""Failures of the command line: exit codes, errors as JSON, and the caller's own words."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane.cli.app import run
from deltaplane.cli.exit_codes import ExitCode, exit_code, next_step
from deltaplane.report.caller_words import WORDS, Door, in_words_of

ROOT = Path(__file__).parents[2]
CODES = {
    "TableNotFoundError": 3,
    "VersionNotFoundError": 3,
    "TableAlreadyExistsError": 8,
    "DeltaProtocolError": 8,
    "CorruptLogError": 7,
    "FileMissingError": 7,
    "CorruptFileError": 7,
    "UnsupportedFeatureError": 8,
    "InvalidArgumentError": 2,
    "InvalidTypeError": 2,
    "SqlSyntaxError": 2,
    "SchemaMismatchError": 8,
    "ConstraintViolationError": 8,
    "UnsupportedExpressionError": 2,
    "StoreUnavailableError": 5,
    "StoreDeniedError": 4,
    "QueryCancelledError": 130,
    "InternalError": 9,
    "DeltaError": 8,
    "CommitFailedError": 6,
}


def _classes() -> list[type[exceptions.DeltaError]]:
    values = [getattr(exceptions, name) for name in exceptions.__all__]
    return [value for value in values if isinstance(value, type) and issubclass(value, exceptions.DeltaError)]


@pytest.mark.parametrize("error", _classes(), ids=lambda e: e.__name__)
def test_every_error_has_an_exit_code_and_a_next_step(error: type[exceptions.DeltaError]) -> None:
    conflict = issubclass(error, exceptions.CommitFailedError)
    made = error.__new__(error)
    assert exit_code(made) == (6 if conflict else CODES[error.__name__])
    assert len(next_step(made)) > 10


@pytest.fixture
def table(tmp_path: Path) -> str:
    where = str(tmp_path / "t")
    for n in range(2):
        write_deltalake(where, pa.table({"x": [n]}), mode="append")
    return where


FAILURES: dict[str, tuple[Callable[[str], list[str]], ExitCode, str]] = {
    "no table": (lambda t: ["info", f"{t}/no"], ExitCode.NOT_FOUND, "TableNotFound"),
    "no version": (lambda t: ["info", t, "-v", "9"], ExitCode.NOT_FOUND, "VersionNotFound"),
    "no verb": (lambda t: ["fly", t], ExitCode.USAGE, "Usage"),
    "no such option": (lambda t: ["info", t, "--loud"], ExitCode.USAGE, "Usage"),
    "no statement": (lambda t: ["sql"], ExitCode.USAGE, "Usage"),
    "syntax": (lambda t: ["sql", "SELEC"], ExitCode.USAGE, "SqlSyntax"),
    "unknown function": (lambda t: ["sql", "SELECT xyz(1)"], ExitCode.USAGE, "UnsupportedExpression"),
    "rule": (lambda t: ["sql", f"INSERT INTO delta.`{t}` SELECT 1, 2"], ExitCode.USAGE, "InvalidArgument"),
    "exists": (lambda t: ["create", t, "x BIGINT"], ExitCode.REFUSED, "TableAlreadyExists"),
    "retention": (lambda t: ["vacuum", t, "--retain-hours", "1"], ExitCode.USAGE, "InvalidArgument"),
    "log level": (lambda t: ["--log-level", "loud", "info", t], ExitCode.USAGE, "Usage"),
}


@pytest.mark.parametrize("case", FAILURES)
def test_failures_have_codes_and_are_json_for_programs(
    case: str, table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, code, kind = FAILURES[case][0](table), *FAILURES[case][1:]
    assert run(arguments) == code
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("deltaplane: ")
    assert said.err.count("\n") == 1
    assert run([*arguments, "--json"]) == code
    said = capsys.readouterr()
    failure = json.loads(said.err)
    assert said.out == ""
    assert list(failure) == ["kind", "message", "table", "version", "path", "next", "exit_code"]
    assert (failure["kind"], failure["exit_code"]) == (kind, code)
    assert failure["message"]
    assert failure["next"]


def test_findings_are_exit_code_1_and_damage_is_7(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", table]) == ExitCode.FINE
    Path(table, DeltaTable(table).files()[0]).unlink()
    assert run(["check", table]) == ExitCode.FINDINGS
    assert run(["sql", f"SELECT sum(x) FROM delta.`{table}`"]) == ExitCode.CORRUPT
    (Path(table) / "_delta_log" / f"{1:020}.json").write_text("{")
    assert run(["info", table, "--json"]) == ExitCode.CORRUPT
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["version"] == 1


def _named_arguments() -> Iterator[tuple[str, str]]:
    """What messages of the core and of the package name as an argument of Python, and where."""
    argument = re.compile(r'\b[a-z]+(?:_[a-z]+)*=(?:True|False)|\bschema_mode=\\?"[a-z]+\\?"')
    for source in sorted(ROOT.glob("rust/*/src/**/*.rs")):
        text = source.read_text(encoding="utf-8").split("#[cfg(test)]")[0]
        if "tests" not in source.parts and source.name != "tests.rs":
            for name in argument.findall("\n".join(line for line in text.splitlines() if "//" not in line)):
                yield name.replace("\\", ""), str(source)
    doors = {"spark", "deltalake", "cli", "advisor"}
    for source in sorted(ROOT.glob("python/deltaplane/**/*.py")):
        if doors & set(source.parts) or source.name == "caller_words.py":
            continue
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Raise) and node.exc is not None:
                texts = [part.value for part in ast.walk(node.exc) if isinstance(part, ast.Constant)]
                for name in argument.findall(" ".join(text for text in texts if isinstance(text, str))):
                    yield name, str(source)


def test_arguments_that_messages_name_have_words_for_each_door() -> None:
    """`dry_run` is named where Python alone has it; `error_on_type_mismatch` is an argument that
    the message refuses."""
    of_python = {"dry_run=False", "dry_run=True", "error_on_type_mismatch=False"}
    named = [(name, where) for name, where in _named_arguments() if name not in of_python]
    assert {name for name, _ in named} > {"ignore_missing_files=True", 'schema_mode="merge"'}
    assert [pair for pair in named if not any(pair[0] in known for known in WORDS)] == []
    for door in Door:
        assert in_words_of(door, f"({next(iter(WORDS))})").startswith("(")


def test_messages_are_in_the_callers_words(table: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["vacuum", table, "--retain-hours", "1"]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert "--no-retention-check" in said
    assert "enforce_retention_duration" not in said
    with pytest.raises(exceptions.InvalidArgumentError, match=r"enforce_retention_duration=False"):
        DeltaTable(table).vacuum(1)
    write_deltalake(table, pa.table({"x": [5]}), mode="overwrite")
    DeltaTable(table).vacuum(0, dry_run=False, enforce_retention_duration=False)
    with pytest.raises(exceptions.FileMissingError, match="vacuum") as caught:
        deltaplane.sql(f"RESTORE TABLE delta.`{table}` TO VERSION AS OF 0")
    assert "(restore(ignore_missing_files=True) in Python)" in str(caught.value)
    assert run(["restore", table, "0"]) == ExitCode.CORRUPT
    assert "(--ignore-missing-files)" in capsys.readouterr().err
    run(["clone", table, table + "2"])
    capsys.readouterr()
    assert run(["clone", table, table + "2"]) != 0
    assert "--replace" in capsys.readouterr().err


def _answered(arguments: list[str], answer: str) -> tuple[int, str]:
    """Runs the command on a terminal that gives the answer to its question."""
    ours, theirs = pty.openpty()
    program = "import sys; from deltaplane.cli import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    seen, sent = b"", False
    # `select.select` takes no descriptors from 1,024 on, which a process of many tests has.
    ready = select.poll()
    ready.register(ours, select.POLLIN)
    try:
        while ready.poll(60_000):
            try:
                part = os.read(ours, 4096)
            except OSError:
                break
            if not part:
                break
            seen += part
            if b"[y/N]" in seen and not sent:
                os.write(ours, answer.encode() + b"\n")
                sent = True
        return child.wait(60), seen.decode()
    finally:
        child.kill()
        os.close(ours)


def test_what_deletes_asks_on_a_terminal(table: str) -> None:
    DeltaTable(table).delete("x = 0")
    before = {path.name for path in Path(table).glob("*.parquet")}
    vacuum = ["vacuum", table, "--retain-hours", "0", "--no-retention-check"]
    code, seen = _answered(vacuum, "n")
    assert code == ExitCode.INTERRUPTED
    assert "delete 1 files" in seen
    assert {path.name for path in Path(table).glob("*.parquet")} == before
    assert _answered([*vacuum, "--dry-run"], "")[0] == ExitCode.FINE
    code, seen = _answered(vacuum, "y")
    assert code == ExitCode.FINE
    assert len(list(Path(table).glob("*.parquet"))) == len(before) - 1
    Path(table, DeltaTable(table).files()[0]).unlink()
    assert _answered(["repair", table], "n")[0] == ExitCode.INTERRUPTED
    assert len(DeltaTable(table).files()) == 1
    code, seen = _answered(["repair", table, "--yes"], "")
    assert code == ExitCode.FINE
    assert "[y/N]" not in seen
    assert DeltaTable(table).files() == []
