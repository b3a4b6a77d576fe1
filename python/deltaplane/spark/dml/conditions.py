"""A command's condition on Spark: Spark decides which rows are meant, the core is told what every
one of them meets.

What the core isn't told is left out there, never approximated.
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

# A type with CHAR, as Spark notes it.
_CHAR = re.compile(r"(?<!var)char\(")
# Stands for literals of instants; no column has this name, as names are compared in lower case.
_INSTANT = "TIMESTAMP"


def clear(spark: SparkSession, given: Any, columns: Columns, *, is_condition: bool = True) -> Any:
    """An expression of the Python API as the session reads it; its double-quoted texts can't be
    meant as columns.

    Where `spark.sql.ansi.doubleQuotedIdentifiers` is on, they are columns. Else they are texts, as
    in Spark SQL, and one that is a column's name, or is compared with no column, is refused:
    DataFrame libraries mean columns by them.

    Raises:
        InvalidArgumentError: such a text; says both ways to write it.
    """
    if not isinstance(given, str) or '"' not in given:
        return given
    text = session_text(spark, given)
    try:
        tree = parse(text)
    except DeltaError:
        # Syntax of Spark's alone.
        return text
    refuse_unclear_tree(tree, columns, text, is_condition=is_condition)
    return text


@dataclass(frozen=True)
class Subqueried:
    """A condition of a statement, which may hold subqueries: `text` is the session's, `said` what
    was written.

    Every row that is meant meets all of `parts`, which hold no subquery; `plain` is the whole
    condition over the table's own columns, where it holds none. With `reads_others` a subquery may
    read rows of the same table.
    """

    text: str
    said: str
    parts: Sequence[str]
    reads_others: bool
    plain: str | None = None


class SparkCondition:
    """A condition on the rows of a table; None for all rows.

    `tree` is met by every row that is meant; `text` is Spark SQL. `is_exact`
    says that the tree is all of the condition, `reads_others` that any row of the table may decide
    whether another one is meant.

    Raises:
        InvalidArgumentError: a condition that differs from one evaluation to the next.
    """

    def __init__(self, target: SparkTarget, condition: Expression | Subqueried | None) -> None:
        given = condition.text if isinstance(condition, Subqueried) else condition
        self._column = None if given is None else column(given)
        self.tree: _native.Predicate | None = None
        self.is_exact = condition is None
        self.text = given if isinstance(given, str) else None
        # The condition over the table's own columns, where its tree is all of it.
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
        # What a subquery reads isn't looked into: it may be this table.
        self.reads_others = target.jvm.has_subquery(met)
        plain = self.text if not isinstance(condition, Subqueried) else condition.plain
        if self.text is None:
            self.text = plain = target.jvm.condition_sql(met)
        named = {part.lower() for part in (target.alias, *target.qualifiers) if part is not None}
        if named & {name.lower() for name in frame.columns}:
            # What looks like a field of that column is a column of the table, for Spark.
            return
        try:
            trees, complete = expr.necessary(plain or self.text)
        except DeltaError:
            return
        self.is_exact = self._take(trees, target) and complete
        self.plain = plain or self.text

    def _take(self, trees: Sequence[_native.Predicate], target: SparkTarget) -> bool:
        """Tells the core what it understands of these; whether that is all."""
        understood = bound(target, trees)
        self.tree = _native.Predicate.all_of(understood)
        return len(understood) == len(trees)

    @property
    def parameters(self) -> dict[str, str]:
        """What the history says of it."""
        return {"predicate": json.dumps([] if self.text is None else [self.text])}

    def met(self, frame: DataFrame) -> DataFrame:
        """The rows for which it is true."""
        return frame if self._column is None else frame.where(self._column)


def bound(target: SparkTarget, parts: Sequence[_native.Predicate]) -> list[_native.Predicate]:
    """Those of some trees that the core understands as this session does."""
    differing = _padded(target) | _of_zone(target)
    alike = [part for part in parts if not _mentions(part.tree, differing)]
    # Spark checks the expressions: what is wrong in one of them is its error.
    return [part for part in alike if understands(target.snapshot, part, checked_elsewhere=True)]


def _padded(target: SparkTarget) -> set[str]:
    """The columns of CHAR, which Spark pads with blanks where it reads and compares them; files may
    have them shorter."""
    fields = target.snapshot.schema.to_value()["fields"]
    return {f["name"].lower() for f in fields if _CHAR.search(str(f.get("metadata", {}).get(LENGTHS, "")))}


def _of_zone(target: SparkTarget) -> set[str]:
    """The columns of instants, and `timestamp` for literals, where texts of these mean another
    moment in the session's time zone."""
    if target.spark.conf.get("spark.sql.session.timeZone") == "UTC":
        return set()
    fields = target.snapshot.schema.to_value()["fields"]
    return {f["name"].lower() for f in fields if "timestamp" in json.dumps(f)} | {_INSTANT}


def _mentions(node: Any, columns: set[str]) -> bool:
    """Whether a tree has one of `columns`; the marker for timestamp literals counts as a column."""
    if isinstance(node, list):
        return any(_mentions(one, columns) for one in node)
    if not isinstance(node, dict):
        return bool(node == "timestamp") and _INSTANT in columns
    if node.get("op") == "column" and node["name"][0].lower() in columns:
        return True
    return any(_mentions(one, columns) for one in node.values())
