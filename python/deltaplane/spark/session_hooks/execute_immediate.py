"""EXECUTE IMMEDIATE of a statement that changes a Delta table: builds the statement's text with the
values of USING.

Spark computes the text and the values, which may be session variables.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.queries.grammar import Grammar
from deltaplane.spark.jvm.internals import Jvm
from deltaplane.spark.jvm.parameters import Bound, bound

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Immediate"]


@dataclass(frozen=True)
class Immediate:
    """An EXECUTE IMMEDIATE with USING: the expression of the statement's text, its values, and
    whether INTO receives the result."""

    statement: str
    values: str
    takes_result: bool

    @classmethod
    def of(cls, text: str) -> Immediate | None:
        """Parses a text; None for other statements, and without USING."""
        cursor = Grammar(text, own_queries=False)
        if not cursor.take("execute", "immediate"):
            return None
        depth, marks, tokens = 0, dict[str, int](), cursor.tokens
        while tokens and tokens[-1].text == ";":
            tokens = tokens[:-1]
        for index in range(cursor.at, len(tokens)):
            word = tokens[index].text.lower()
            depth += {"(": 1, ")": -1}.get(word, 0) if tokens[index].kind == "op" else 0
            if depth == 0 and tokens[index].kind == "name" and word in ("into", "using"):
                marks.setdefault(word, index)
        using = marks.get("using")
        if using is None or using + 1 >= len(tokens):
            return None
        end = min(marks.values())
        begin, last = using + 1, len(tokens) - 1
        if tokens[begin].text == "(" and _closing(cursor, begin) == last:
            begin, last = begin + 1, last - 1
        statement = text[tokens[cursor.at].start : tokens[end - 1].end]
        return cls(statement, text[tokens[begin].start : tokens[last].end], "into" in marks)

    @staticmethod
    def text_of(text: str, run: Callable[[str], DataFrame]) -> str | None:
        """The text of the statement that an EXECUTE IMMEDIATE without USING and INTO runs, which
        Spark computes by `run`; None for other statements."""
        cursor = Grammar(text, own_queries=False)
        if not cursor.take("execute", "immediate"):
            return None
        begin, tokens = cursor.at, cursor.tokens
        while tokens and tokens[-1].text == ";":
            tokens = tokens[:-1]
        if begin >= len(tokens) or any(
            token.kind == "name" and token.text.lower() in ("into", "using") for token in tokens[begin:]
        ):
            return None
        statement = text[tokens[begin].start : tokens[-1].end]
        ((said,),) = run(f"SELECT {statement}").collect()
        return None if said is None else str(said)

    def said(self, run: Callable[[str], DataFrame]) -> str:
        """The text of the statement, which Spark computes; `run` runs a query."""
        ((text,),) = run(f"SELECT {self.statement}").collect()
        return str(text)

    def bound(self, said: str, run: Callable[[str], DataFrame], jvm: Jvm) -> str:
        """The statement with its parameters replaced by values.

        Raises:
            InvalidArgumentError: the values don't match the statement's parameters, or depend on
                rows.
            PySparkException: Spark can't compute a value.
        """
        if self.takes_result:
            raise InvalidArgumentError(
                "INTO takes the result of a query, and the statement changes a table: leave INTO out "
                "(INVALID_STATEMENT_FOR_EXECUTE_INTO)"
            )
        frame = run(f"SELECT {self.values}")
        values = jvm.constants(frame)
        if values is None:
            raise InvalidArgumentError(
                "a value of USING isn't a constant: give literals, session variables or functions of these "
                "(UNSUPPORTED_EXPR_FOR_PARAMETER)"
            )
        return bound(said, Bound(tuple(values), tuple(frame.columns)))


def _closing(cursor: Grammar, index: int) -> int:
    """The index of the token that closes a parenthesis."""
    depth = 0
    for place in range(index, len(cursor.tokens)):
        depth += {"(": 1, ")": -1}.get(cursor.tokens[place].text, 0)
        if depth == 0:
            return place
    return -1
