"""BEGIN ATOMIC … END, and BEGIN TRANSACTION … COMMIT or ROLLBACK: statements over tables of one
catalog, all of which are committed, or none."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.results.query_result import QueryResult
from deltaplane.statements.common.statement import Command, Session, Statement
from deltaplane.statements.common.table_transaction import TableTransaction

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT", "Block", "isolation_of"]


@dataclass(frozen=True)
class Block:
    """The statements of a transaction, its isolation, and whether it is rolled back at the end."""

    commands: tuple[Command, ...]
    isolation: str
    rolls_back: bool

    def run(self, session: Session) -> pa.Table:
        """Runs the statements in their order. Returns a row for each table that was changed: its
        full name in the catalog, and its new version."""
        from deltaplane.catalogs import Catalog

        names = session.catalog.names
        if not isinstance(names, Catalog):
            raise UnsupportedFeatureError(
                "BEGIN needs a catalog, which commits several tables together: give it as catalog"
            )
        with TableTransaction(names, (), self.isolation) as transaction:
            inside = Session(session.catalog.inside(transaction.catalog), None, session.memory)
            for command in self.commands:
                done = command.run(inside)
                if isinstance(done, QueryResult):
                    # Its rows are read before the next statement changes the tables.
                    done.to_arrow()
            if self.rolls_back:
                transaction.rollback()
        return _changed(transaction.versions or {})


def _changed(versions: dict[str, int]) -> pa.Table:
    import pyarrow as pa

    names = sorted(versions)
    values = [pa.array(names, pa.string()), pa.array([versions[name] for name in names], pa.int64())]
    return pa.Table.from_arrays(values, names=["table", "version"])


def _read(cursor: Grammar) -> Block:
    ends: tuple[str, ...]
    if cursor.take("atomic"):
        isolation, ends = "serializable", ("end",)
    else:
        cursor.expect("transaction")
        isolation, ends = isolation_of(cursor), ("commit", "rollback")
        cursor.take(";")
    commands = []
    while cursor.peek() not in ends:
        if cursor.at >= len(cursor.tokens):
            cursor.expected(" or ".join(word.upper() for word in ends))
        commands.append(_statement(cursor))
    return Block(tuple(commands), isolation, rolls_back=not cursor.take(ends[0]) and cursor.take(ends[-1]))


def isolation_of(cursor: Grammar) -> str:
    """Parses ISOLATION LEVEL …; `serializable` without it."""
    if not cursor.take("isolation"):
        return "serializable"
    cursor.expect("level")
    if cursor.take("serializable"):
        return "serializable"
    if not cursor.take("snapshot"):
        cursor.expected("SERIALIZABLE or SNAPSHOT")
    return "snapshot"


def _statement(cursor: Grammar) -> Command:
    """The next statement, up to its semicolon; errors have their place in the whole text."""
    from deltaplane.statements import command_of

    first = cursor.at
    while cursor.at < len(cursor.tokens) and cursor.tokens[cursor.at].text != ";":
        cursor.at += 1
    if cursor.at >= len(cursor.tokens):
        cursor.expected("`;` after a statement")
    start, end = cursor.tokens[first].start, cursor.tokens[cursor.at].start
    cursor.at += 1
    before = re.sub(r"[^\n]", " ", cursor.sql[:start])
    return command_of(before + cursor.sql[start:end])


STATEMENT = Statement(("begin",), _read)
