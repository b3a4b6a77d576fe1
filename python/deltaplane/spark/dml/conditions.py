"""A command's condition on Spark: Spark selects the rows, and the core gets a condition that all of
them satisfy.

Conditions that the core can't evaluate are left out, never approximated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native, expr
from deltaplane.exceptions import DeltaError
from deltaplane.expr import Columns
from deltaplane.expr.quoting import refuse_unclear_tree
from deltaplane.expr.row_filter import understands
from deltaplane.expr.syntax import parse
from deltaplane.spark.datasource.session import session_text
from deltaplane.spark.dml.rewriting import Expression, SparkTarget, column, refuse_chance
from deltaplane.spark.jvm.schema import LENGTHS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkCondition", "Subqueried", "bound", "clear"]

# Matches a type with CHAR in Spark's notation.
_CHAR = re.compile(r"(?<!var)char\(")
# Represents timestamp literals; no column has this name, since names are compared in lower case.
_INSTANT = "TIMESTAMP"


def clear(spark: SparkSession, expression: Any, columns: Columns, *, is_condition: bool = True) -> Any:
    """An expression of the Python API in the session's form; refuses double-quoted texts that could
    be meant as columns.

    If `spark.sql.ansi.doubleQuotedIdentifiers` is true, double-quoted texts are columns. Otherwise
    they are strings, as in Spark SQL, and one that equals a column's name, or is compared with no
    column, is refused, because data frame libraries mean columns by them.

    Raises:
        InvalidArgumentError: an ambiguous double-quoted text; the message shows both spellings.
    """
    if not isinstance(expression, str):
        return expression
    text = session_text(spark, expression)
    if '"' not in expression:
        return text
    try:
        tree = parse(text)
    except DeltaError:
        # Spark's own syntax, which this parser doesn't know.
        return text
    refuse_unclear_tree(tree, columns, text, is_condition=is_condition)
    return text


@dataclass(frozen=True)
class Subqueried:
    """A condition of a statement, which may contain subqueries: `text` is in the session's form,
    `said` is the original.

    Every selected row satisfies all of `parts`, which contain no subquery; `plain` is the whole
    condition over the table's own columns if it has no subquery. With `reads_others` a subquery may
    read rows of the same table.
    """

    text: str
    said: str
    parts: Sequence[str]
    reads_others: bool
    plain: str | None = None


class SparkCondition:
    """A condition on the rows of a table; None for all rows.

    Every selected row satisfies `tree`; `text` is Spark SQL. `is_exact` means
    that the tree is equivalent to the condition; `reads_others` means that any row of the table may
    influence the selection.

    Raises:
        InvalidArgumentError: a nondeterministic condition.
    """

    def __init__(self, target: SparkTarget, condition: Expression | Subqueried | None) -> None:
        expression = condition.text if isinstance(condition, Subqueried) else condition
        self._column = None if expression is None else column(expression)
        self.tree: _native.Predicate | None = None
        self.is_exact = condition is None
        self.text = expression if isinstance(expression, str) else None
        # The condition over the table's own columns, if its tree is equivalent to it.
        self.plain: str | None = None
        self.reads_others = False
        if self._column is None:
            return
        frame = target.frame()
        met = frame.where(self._column)
        refuse_chance(met, "the condition")
        if isinstance(condition, Subqueried):
            self.text, self.reads_others = condition.said, condition.reads_others
            if condition.plain is None:
                self._take([tree for part in condition.parts for tree in expr.necessary(part)[0]], target)
                return
        # Subqueries aren't inspected, so they may read this table.
        self.reads_others = target.jvm.has_subquery(met)
        plain = self.text if not isinstance(condition, Subqueried) else condition.plain
        if self.text is None:
            self.text = plain = target.jvm.condition_sql(met)
        named = {part.lower() for part in (target.alias, *target.qualifiers) if part is not None}
        if named & {name.lower() for name in frame.columns}:
            # Spark resolves a name that looks like a field of that column to a column of the table.
            return
        try:
            trees, complete = expr.necessary(plain or self.text)
        except DeltaError:
            return
        self.is_exact = self._take(trees, target) and complete
        self.plain = plain or self.text

    def _take(self, trees: Sequence[_native.Predicate], target: SparkTarget) -> bool:
        """Takes over the trees that the core understands; returns whether these are all."""
        understood = bound(target, trees)
        self.tree = _native.Predicate.all_of(understood)
        return len(understood) == len(trees)

    @property
    def parameters(self) -> dict[str, str]:
        """The condition's text for the history."""
        return {"predicate": json.dumps([] if self.text is None else [self.text])}

    def met(self, frame: DataFrame) -> DataFrame:
        """The rows that satisfy the condition."""
        return frame if self._column is None else frame.where(self._column)


def bound(target: SparkTarget, parts: Sequence[_native.Predicate]) -> list[_native.Predicate]:
    """The trees that the core evaluates as this session does."""
    differing = _padded(target) | _of_zone(target)
    alike = [part for part in parts if not _mentions(part.to_dict(), differing)]
    # Spark checks the expressions, so an invalid one raises Spark's error.
    return [part for part in alike if understands(target.snapshot, part, checked_elsewhere=True)]


def _padded(target: SparkTarget) -> set[str]:
    """The CHAR columns, which Spark pads with blanks when it reads and compares them; files may
    contain shorter values."""
    fields = target.snapshot.schema.to_value()["fields"]
    return {f["name"].lower() for f in fields if _CHAR.search(str(f.get("metadata", {}).get(LENGTHS, "")))}


def _of_zone(target: SparkTarget) -> set[str]:
    """The timestamp columns, and `timestamp` for literals, if the session's time zone isn't UTC:
    texts then denote other instants."""
    if target.spark.conf.get("spark.sql.session.timeZone") == "UTC":
        return set()
    fields = target.snapshot.schema.to_value()["fields"]
    return {f["name"].lower() for f in fields if "timestamp" in json.dumps(f)} | {_INSTANT}


def _mentions(node: Any, columns: set[str]) -> bool:
    """Whether a tree has one of `columns`; the marker for timestamp literals counts as a column."""
    if isinstance(node, list):
        return any(_mentions(part, columns) for part in node)
    if not isinstance(node, dict):
        return bool(node == "timestamp") and _INSTANT in columns
    if node.get("op") == "column" and node["name"][0].lower() in columns:
        return True
    return any(_mentions(part, columns) for part in node.values())
