"""COMMENT ON TABLE table IS 'text' | NULL."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.statements.common.statement import Session, Statement, altered
from deltaplane.table.alter import committing_always

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]


@dataclass(frozen=True)
class Comment:
    """The table and its new description."""

    table: TableName
    text: str | None

    def run(self, session: Session) -> pa.Table:
        """Commits the description."""
        # Spark sets the description as a property, and the history records that.
        alter = session.catalog.target(self.table).alter
        alter = alter if session.spark is None else committing_always(alter)
        return altered(alter.set_table_properties({"comment": self.text or ""}))


def _read(cursor: Grammar) -> Comment:
    cursor.expect("on", "table")
    table = cursor.table(alias=False, version=False)
    cursor.expect("is")
    return Comment(table, None if cursor.take("null") else cursor.text("a comment or NULL"))


STATEMENT = Statement(("comment",), _read)
