"""A command's condition on Spark: Spark decides which rows are meant, the core is told what every one of them meets.

What the core isn't told is left out there, never approximated. Called by `_delete`, `_update` and `_merge`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from deltaplane import _native, expr
from deltaplane.exceptions import DeltaError
from deltaplane.expr.tree import all_of
from deltaplane.spark._internals import Jvm
from deltaplane.spark._rewriting import Expression, SparkTarget, column, refuse_chance

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["SparkCondition", "bound"]


class SparkCondition:
    """A condition on the rows of a table; None for all rows.

    `tree` is met by every row that is meant, as JSON for the core; `text` is Spark SQL. `is_exact` says that the tree is
    all of the condition.

    Raises:
        InvalidArgumentError: a condition that differs from one evaluation to the next.
    """

    def __init__(self, target: SparkTarget, condition: Expression | None) -> None:
        self._column = None if condition is None else column(condition)
        self.tree: str | None = None
        self.is_exact = condition is None
        self.text = condition if isinstance(condition, str) else None
        if self._column is None:
            return
        frame = target.frame()
        refuse_chance(frame.select(self._column), "the condition")
        if self.text is None:
            self.text = Jvm.of(target.spark).condition_sql(frame.where(self._column))
        try:
            trees, complete = expr.necessary(self.text)
        except DeltaError:
            return
        understood = bound(target, [json.loads(tree) for tree in trees])
        self.tree = json.dumps(all_of(understood)) if understood else None
        self.is_exact = complete and len(understood) == len(trees)

    @property
    def parameters(self) -> dict[str, str]:
        """What the history says of it."""
        return {"predicate": json.dumps([] if self.text is None else [self.text])}

    def met(self, frame: DataFrame) -> DataFrame:
        """The rows for which it is true."""
        return frame if self._column is None else frame.where(self._column)


def bound(target: SparkTarget, parts: list[Any]) -> list[Any]:
    """Those of some trees that the core understands as this session does."""
    return [part for part in parts if not _depends_on_zone(target, part) and _binds(target.snapshot, part)]


def _binds(snapshot: _native.Snapshot, part: Any) -> bool:
    try:
        snapshot.scan([], json.dumps(part))
    except DeltaError:
        return False
    return True


def _depends_on_zone(target: SparkTarget, part: Any) -> bool:
    """Whether instants are compared, whose texts mean another moment in the session's time zone."""
    if target.spark.conf.get("spark.sql.session.timeZone") == "UTC":
        return False
    instants = {
        f["name"].lower() for f in json.loads(target.snapshot.schema_json())["fields"] if "timestamp" in json.dumps(f)
    }

    def mentions(node: Any) -> bool:
        if isinstance(node, list):
            return any(map(mentions, node))
        if not isinstance(node, dict):
            return bool(node == "timestamp")
        if node.get("op") == "column" and node["name"][0].lower() in instants:
            return True
        return any(map(mentions, node.values()))

    return mentions(part)
