"""SELECT, WITH, VALUES and TABLE: a query, run by DuckDB, or by Spark if a session is passed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from deltaplane.queries.expressions import FIRST_WORDS
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.results.query_result import QueryResult
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

    takes_memory: ClassVar[bool] = True

    def run(self, session: Session) -> pa.Table | QueryResult:
        """Runs the query; returns its rows."""
        if session.spark is None:
            return prepared(self.query, self.cursor, session.catalog, session.memory).result()
        with on_spark(session.spark, self.cursor, 0, session.catalog) as frame:
            return frame.toArrow()


def read_query(cursor: Grammar) -> Selection:
    """Parses the whole statement as a query."""
    # The keyword that selected this statement belongs to the query.
    cursor.at = 0
    return Selection(cursor.last_query(), cursor)


# WITH is missing here, since another statement may follow it: `with_queries` parses it.
STATEMENTS = tuple(Statement((word,), read_query) for word in (*FIRST_WORDS, "(") if word != "with")
