"""The bar of `deltaplane sql`: there on a terminal while rows change, and nowhere else."""

from __future__ import annotations

import io
import logging
import re

import pyarrow as pa
import pytest
from rich.console import Console

from deltaplane import sql, write_deltalake
from deltaplane.cli import progress
from deltaplane.cli.app import run

TABLE = "memory://cli-progress/t"


def shown(statement: str, *, terminal: bool) -> str:
    write_deltalake(TABLE, pa.table({"k": [1, 2, 3]}), mode="overwrite")
    text = io.StringIO()
    with progress.shown(Console(file=text, force_terminal=terminal, width=100)):
        sql(statement, tables={"t": TABLE, "s": pa.table({"k": [1]})})
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text.getvalue())


def test_a_terminal_shows_the_last_phase() -> None:
    merge = "MERGE INTO t USING s ON t.k = s.k WHEN MATCHED THEN DELETE"
    assert "MERGE commit" in shown(merge, terminal=True)
    assert "DELETE commit" in shown("DELETE FROM t WHERE k = 2", terminal=True)
    assert "UPDATE commit" in shown("UPDATE t SET k = 5", terminal=True)


def test_nothing_else_shows_anything(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown("DELETE FROM t WHERE k = 2", terminal=False) == ""
    assert "commit" not in shown("SELECT * FROM t", terminal=True)
    log = logging.getLogger("deltaplane.commands")
    assert (log.handlers, log.level) == ([], logging.NOTSET)
    assert run(["sql", "DELETE FROM t WHERE k = 1", "-t", f"t={TABLE}"]) == 0
    assert capsys.readouterr().err == ""


def test_a_statement_that_fails_takes_the_bar_away() -> None:
    with pytest.raises(Exception, match="zero"):
        shown("UPDATE t SET k = k / 0", terminal=True)
    assert logging.getLogger("deltaplane.commands").handlers == []
