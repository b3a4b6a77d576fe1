"""SELECT, WITH, VALUES and TABLE: a query, run by DuckDB, or by Spark where a session is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.queries.expressions import BEGINNINGS
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.running import prepared
from deltaplane.queries.syntax import Query
from deltaplane.statements.common.on_spark import on_spark
from deltaplane.statements.common.statement import Session, Statement

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENTS", "read_query"]


@dataclass(frozen=True)
class Selection:
    """A query."""

    query: Query
    cursor: Grammar

    def run(self, session: Session) -> pa.Table:
        """The query's rows."""
        if session.spark is None:
            return prepared(self.query, self.cursor, session.catalog).run()
        with on_spark(session.spark, self.cursor, 0, session.catalog) as frame:
            return frame.toArrow()


def read_query(cursor: Grammar) -> Selection:
    """The query that is the whole statement."""
    # The word that led here belongs to the query.
    cursor.at = 0
    return Selection(cursor.last_query(), cursor)


# Another statement may follow WITH: `with_queries` reads that.
STATEMENTS = tuple(Statement((word,), read_query) for word in (*BEGINNINGS, "(") if word != "with")
