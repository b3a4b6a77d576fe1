"""EXPLAIN: which files of each table a query reads and why, and the plan of DuckDB; on a Spark
session Spark's own text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.queries.expressions import FIRST_WORDS
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.running import prepared
from deltaplane.queries.syntax import Query
from deltaplane.statements.common.on_spark import on_spark
from deltaplane.statements.common.statement import Session, Statement, one_row

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT", "Explanation"]

# Spark's forms: the first two show the same here, and EXTENDED adds DuckDB's statement.
_FORMS = ("", "formatted", "extended")
_FORMS_OF_SPARK = ("codegen", "cost", "logical")


@dataclass(frozen=True)
class Explanation:
    """A query to explain."""

    query: Query
    cursor: Grammar
    form: str

    def run(self, session: Session) -> pa.Table:
        """Explains the query without running it; returns one row with the column `plan`."""
        if session.spark is None:
            query = prepared(self.query, self.cursor, session.catalog)
            return one_row(plan=query.explain(statement=self.form == "extended"))
        # Spark parses the word EXPLAIN, too.
        with on_spark(session.spark, self.cursor, 0, session.catalog) as frame:
            return frame.toArrow()


def _read(cursor: Grammar) -> Explanation:
    form = cursor.peek() if cursor.peek() in (*_FORMS, *_FORMS_OF_SPARK) else ""
    if form in _FORMS_OF_SPARK and cursor.own_queries:
        cursor.refuse(f"EXPLAIN {form.upper()}")
    cursor.at += bool(form)
    if cursor.peek() not in (*FIRST_WORDS, "("):
        cursor.expected("a query")
    return Explanation(cursor.last_query(), cursor, form)


STATEMENT = Statement(("explain",), _read)
