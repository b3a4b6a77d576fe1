"""WITH RECURSIVE: the rows of a first query, then those that a second one computes from the rows
that it gave last, until it gives none.

Source: `UnionLoopExec` of Apache Spark, and its limits of levels and rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from deltaplane.expr.syntax import Syntax
from deltaplane.expr.typed import failing, refuse
from deltaplane.expr.types import BOOLEAN, SparkType
from deltaplane.queries.named import uses_of
from deltaplane.queries.plan import Node
from deltaplane.queries.scopes import aggregates, windows
from deltaplane.queries.syntax import Body, Item, Join, Query, Relation, Select, SetOperation, TableName

__all__ = ["Recursion", "recursive_parts"]

# Spark's spark.sql.cteRecursionRowLimit, by default.
_ROWS = 1_000_000
# For each kind of join, the sides on which a query may read its own rows.
_SIDES = {"inner": "lr", "cross": "lr", "left": "l", "semi": "l", "anti": "l", "right": "r"}


@dataclass
class Recursion:
    """The rows of a recursive query, by its name in DuckDB; `ids` are its columns with their types.

    `first` and `step` have the columns `first_ids` and `step_ids`. Each row has its level, and the
    number of rows of the levels before it.
    """

    name: str
    first: Node
    first_ids: Sequence[str]
    step: Node
    step_ids: Sequence[str]
    ids: Sequence[str]
    types: Sequence[SparkType]
    levels: int
    needed: list[str] = field(default_factory=list)
    uses: list[list[Syntax]] = field(default_factory=list)
    recursive: ClassVar[bool] = True

    def definition(self) -> str:
        """The text in WITH, once all of its uses are rendered."""
        self.first.narrow([])
        self.step.narrow([])
        first, step = self.first.render(self.first_ids), self.step.render(self.step_ids)
        deep = failing("RECURSION_LEVEL_LIMIT_EXCEEDED", f"the recursion has more than {self.levels} levels", BOOLEAN)
        many = failing("RECURSION_ROW_LIMIT_EXCEEDED", f"the recursion gives more than {_ROWS} rows", BOOLEAN)
        # A condition on a volatile column is evaluated for rows of the step, and never left out.
        checked = f"WHEN l.level >= {self.levels} THEN {deep} WHEN l.before > {_ROWS} THEN {many} ELSE true END"
        met = f"CASE WHEN random() >= 0 THEN CASE {checked} END AS met"
        last = f"SELECT max(level) AS level, max(before) + count(*) AS before FROM {self.name}"
        rows = (
            f"SELECT {', '.join([*self.step_ids, 'l.level', 'l.before', met])} FROM ({step}) CROSS JOIN ({last}) AS l"
        )
        return (
            f"{self.name} AS (SELECT {self._columns(self.first_ids)}, 1 AS level, CAST(0 AS HUGEINT) AS before "
            f"FROM ({first}) UNION ALL SELECT {self._columns(self.step_ids)}, level + 1, before FROM ({rows}) WHERE met)"
        )

    def _columns(self, source_ids: Sequence[str]) -> str:
        columns = zip(source_ids, self.types, self.ids, strict=True)
        return ", ".join(f"CAST({id} AS {data_type.duck}) AS {own}" for id, data_type, own in columns)


def recursive_parts(name: str, query: Query) -> tuple[Body, Select]:
    """The first query and the step of a recursive one, which reads its own rows by a name.

    Raises:
        UnsupportedExpressionError: a form of recursion that isn't computed as Spark does.
    """
    body = query.body
    if query.named or query.order or query.limit is not None or query.offset:
        refuse("a recursive query with WITH, ORDER BY or LIMIT of its own")
    if not isinstance(body, SetOperation) or body.kind != "union" or not body.every:
        refuse("a recursive query that isn't two queries with UNION ALL between them")
    if uses_of(name, body.left) or uses_of(name, body.right) != 1 or not isinstance(body.right, Select):
        refuse("a recursive query that doesn't read its own rows once, after UNION ALL")
    step = body.right
    if step.source is None or not _is_read(name, step.source):
        refuse("a recursive query that reads its own rows in a subquery, or where an outer join adds rows")
    trees = [item.value for item in step.items if isinstance(item, Item)]
    computes = any(aggregates(tree) or windows(tree) for tree in trees)
    if step.distinct or step.group_by or step.sets or step.having is not None or step.qualify is not None or computes:
        refuse("a recursive query with groups, DISTINCT or window functions")
    return body.left, step


def _is_read(name: str, relation: Relation) -> bool:
    """Whether a relation is the one with a name, or joins it where each row comes from one of its
    rows."""
    if isinstance(relation, TableName):
        return [part.lower() for part in relation.parts] == [name]
    if not isinstance(relation, Join) or relation.lateral:
        return False
    sides = _SIDES.get(relation.kind, "")
    return ("l" in sides and _is_read(name, relation.left)) or ("r" in sides and _is_read(name, relation.right))
