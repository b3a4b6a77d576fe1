"""A statement is one file in the folder of statements: parser, errors and `deltaplane.sql` then
include it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deltaplane import statements
from deltaplane.exceptions import SqlSyntaxError, UnsupportedFeatureError
from deltaplane.statements import sql

STATEMENT = '''
"""PONDER [TWICE]: thinks."""

from dataclasses import dataclass

from deltaplane.statements.common.statement import Statement, listed


@dataclass(frozen=True)
class Ponder:
    """How often."""

    times: int

    def run(self, session):
        return listed("thought", ["hm"] * self.times)


def _read(cursor):
    return Ponder(2 if cursor.take("twice") else 1)


STATEMENTS = (Statement(("ponder",), _read), Statement(("show", "ponderings"), _read))
'''


@pytest.fixture
def new_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file `ponder.py` beside the files of the other statements."""
    (tmp_path / "ponder.py").write_text(STATEMENT)
    monkeypatch.setattr(statements, "__path__", [*statements.__path__, str(tmp_path)])
    monkeypatch.setattr(statements, "STATEMENTS", statements.find_statements())
    yield
    sys.modules.pop(f"{statements.__name__}.ponder", None)


@pytest.mark.usefixtures("new_statement")
def test_a_new_statement_is_one_file() -> None:
    assert sql("ponder twice;").to_pylist() == [{"thought": "hm"}] * 2
    assert sql("SHOW PONDERINGS").num_rows == 1
    with pytest.raises(SqlSyntaxError, match=r"one of ALTER, .*OPTIMIZE, PONDER, REORG"):
        sql("NOTHING")
    with pytest.raises(SqlSyntaxError, match=r"line 1, column 8.*THRICE"):
        sql("PONDER THRICE")
    with pytest.raises(UnsupportedFeatureError, match="SHOW PONDERINGS"):
        sql("SHOW TABLES")
    with pytest.raises(UnsupportedFeatureError, match="rehearsed"):
        sql("PONDER", dry_run=True)


def test_without_its_file_there_is_no_such_statement() -> None:
    with pytest.raises(SqlSyntaxError, match="expected one of ALTER"):
        sql("PONDER")


def test_every_file_has_a_statement_or_is_a_part_of_one() -> None:
    """A file whose list has another name would never be registered."""
    folder = Path(statements.__file__).parent
    texts = {path.stem: path.read_text() for path in folder.glob("*.py") if path.stem != "__init__"}
    assert {name for name, text in texts.items() if "\nSTATEMENT" not in text} == {"clone", "like"}
