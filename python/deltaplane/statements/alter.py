"""ALTER TABLE: columns, properties, constraints, features and clustering, each by the method of
`DeltaTable.alter`, and indexes by those of `DeltaTable.index`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError, UnsupportedFeatureError
from deltaplane.queries.cursor import quoted
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.syntax import TableName
from deltaplane.schema import PrimitiveType, Schema, StructType
from deltaplane.statements.common.columns import (
    Declaration,
    check,
    declaration,
    properties,
    property_key,
    refuse_reserved,
)
from deltaplane.statements.common.statement import Clause, Session, Statement, altered
from deltaplane.statements.common.types import column_type
from deltaplane.table.alter import TableAlterer, committing_always
from deltaplane.table.alter_plan import AlterPlan
from deltaplane.table.delta_table import DeltaTable
from deltaplane.table.key_indexes import KeyIndexes

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["STATEMENT"]

Change = Callable[[TableAlterer], AlterPlan]
_ACTIONS = (
    "ADD, DROP, RENAME COLUMN, REPLACE COLUMNS, ALTER COLUMN, SET TBLPROPERTIES, UNSET TBLPROPERTIES or CLUSTER BY"
)


# The name of a property that no table has.
_NO_PROPERTY = "deltaplane.none"
# The property under which Spark's catalog shows a table's clustering columns.
_CLUSTERING = "clusteringColumns"


@dataclass(frozen=True)
class DropFeature:
    """DROP FEATURE with a list of features: Spark's SQL allows fewer than the embedded API."""

    feature: str
    truncate_history: bool

    def __call__(self, alter: TableAlterer) -> AlterPlan:
        return alter.drop_feature(self.feature, self.truncate_history)


@dataclass(frozen=True)
class SetProperties:
    """SET TBLPROPERTIES: on Spark delta-spark's checks of properties apply, too."""

    properties: dict[str, str]

    def __call__(self, alter: TableAlterer) -> AlterPlan:
        return alter.set_table_properties(_in_history(_without_clustering(self.properties)))


@dataclass(frozen=True)
class AddConstraint:
    """ADD CONSTRAINT … CHECK: on Spark, its analysis names what is wrong with a condition."""

    name: str
    condition: str

    def __call__(self, alter: TableAlterer) -> AlterPlan:
        return alter.add_constraint({self.name: self.condition})


@dataclass(frozen=True)
class AddIndex:
    """ADD INDEX ON: the commit, and building the index, on Spark by its tasks."""

    columns: list[str]
    spark: Any = None

    def __call__(self, alter: TableAlterer) -> AlterPlan:
        build = None
        if self.spark is not None:
            from deltaplane.spark.dml.indexes import build_by_tasks
            from deltaplane.spark.jvm.location import absolute_location

            place = absolute_location(alter._table.location), alter._table.storage_options
            build = partial(build_by_tasks, self.spark, place)
        indexes = KeyIndexes(alter._table, build)
        plan = indexes.add(self.columns)
        indexes.build()
        return plan


@dataclass(frozen=True)
class DropIndex:
    """DROP INDEX ON."""

    columns: list[str]

    def __call__(self, alter: TableAlterer) -> AlterPlan:
        return KeyIndexes(alter._table).drop(self.columns)


@dataclass(frozen=True)
class Alter:
    """The table and one change of it."""

    table: TableName
    change: Change
    cursor: Grammar
    token: int

    def run(self, session: Session) -> pa.Table:
        """Commits the change."""
        table, change = session.catalog.target(self.table), self.change
        if isinstance(change, AddIndex):
            change = replace(change, spark=session.spark)
        with self.cursor.located(self.token):
            if session.spark is not None and isinstance(self.change, DropFeature):
                from deltaplane.spark.delta_api.drop_feature import refuse_fixed

                refuse_fixed(table, self.change.feature)
            if session.spark is not None and isinstance(self.change, SetProperties):
                from deltaplane.spark.delta_api.property_rules import refuse_changed_properties

                refuse_changed_properties(table, self.change.properties)
            try:
                return altered(change(table.alter if session.spark is None else committing_always(table.alter)))
            except (InvalidArgumentError, UnsupportedExpressionError):
                if session.spark is not None and isinstance(self.change, AddConstraint):
                    from deltaplane.spark.delta_api.constraint_analysis import refuse_as_spark

                    refuse_as_spark(session.spark, table, self.change.name, self.change.condition)
                raise


def _read(cursor: Grammar) -> Alter:
    cursor.expect("table")
    table = cursor.table(alias=False, version=False)
    token = cursor.at
    return Alter(table, _change(cursor), cursor, token)


def _change(cursor: Grammar) -> Change:
    if cursor.take("add"):
        return _add(cursor)
    if cursor.take("drop"):
        return _drop(cursor)
    if cursor.take("rename"):
        return _rename(cursor)
    if cursor.peek() in ("alter", "change"):
        changes = cursor.take("change")
        if not changes:
            cursor.at += 1
        cursor.take("column")
        return _column(cursor) if changes else _columns(cursor)
    if cursor.take("set"):
        if cursor.peek() != "tblproperties":
            cursor.expected("TBLPROPERTIES")
        cursor.at += 1
        token, settings = cursor.at, properties(cursor)
        refuse_reserved(cursor, token, settings)
        return SetProperties(settings)
    if cursor.take("unset"):
        cursor.expect("tblproperties")
        # Spark ignores unknown properties with IF EXISTS and without.
        cursor.take("if", "exists")
        token, keys = cursor.at, cursor.listed(lambda: property_key(cursor))
        refuse_reserved(cursor, token, keys)
        return lambda alter: alter.unset_table_properties(list(_in_history(dict.fromkeys(keys, ""))), if_exists=True)
    if cursor.take("cluster"):
        cursor.expect("by")
        columns = [] if cursor.take("none") else cursor.listed(lambda: cursor.dotted("a column's name"))
        return lambda alter: alter.cluster_by(columns)
    if cursor.take("replace"):
        cursor.expect("columns")
        fields = [d.field for d in cursor.listed(lambda: declaration(cursor))]
        return lambda alter: alter.replace_columns(fields)
    cursor.expected(_ACTIONS)


def _in_history(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties with the names that the history of delta-spark's statements has: names of table
    features in lower case."""
    return {
        key.lower() if key.lower().startswith("delta.feature.") else key: value for key, value in properties.items()
    }


def _without_clustering(properties: dict[str, str]) -> dict[str, str]:
    """Checks that properties don't include the one under which Spark's catalog shows clustering
    columns.

    Raises:
        InvalidArgumentError: the properties include it.
    """
    if _CLUSTERING in properties:
        raise InvalidArgumentError(
            f"the table property `{_CLUSTERING}` is kept by writers and can't be set by hand: ALTER TABLE … CLUSTER BY "
            "changes the columns"
        )
    return properties


# --- ADD --------------------------------------------------------------------------------------------------------------


def _add(cursor: Grammar) -> Change:
    if cursor.take("constraint"):
        return AddConstraint(*check(cursor))
    if cursor.take("index"):
        return AddIndex(_indexed(cursor))
    if not (cursor.take("columns") or cursor.take("column")):
        cursor.expected("COLUMN, COLUMNS, CONSTRAINT or INDEX")

    def read_declaration() -> Declaration:
        return declaration(cursor, places=True)

    made = cursor.listed(read_declaration) if cursor.peek() == "(" else [read_declaration()]
    if cursor.peek() == "," and len(made) == 1:
        cursor.expected("the end: several columns stand in parentheses")
    declared = [(".".join(map(quoted, d.path[:-1])), d.field, d.first, d.after) for d in made]
    return lambda alter: alter._add_declared(declared)


def _indexed(cursor: Grammar) -> list[str]:
    """The columns of an index."""
    cursor.expect("on")
    if cursor.peek() != "(":
        cursor.expected("a column in parentheses")
    return cursor.listed(lambda: cursor.name("a column's name"))


# --- DROP -------------------------------------------------------------------------------------------------------------


def _drop(cursor: Grammar) -> Change:
    if cursor.take("constraint"):
        if_exists = cursor.take("if", "exists")
        name = cursor.name("the constraint's name")
        return lambda alter: alter.drop_constraint(name, raise_if_not_exists=not if_exists)
    if cursor.take("feature"):
        feature = cursor.text("a feature") if cursor.kind() in ("string", "raw") else cursor.name("a feature's name")
        truncate = cursor.take("truncate", "history")
        return DropFeature(feature, truncate)
    if cursor.take("index"):
        return DropIndex(_indexed(cursor))
    if not (cursor.take("columns") or cursor.take("column")):
        cursor.expected("COLUMN, COLUMNS, CONSTRAINT, FEATURE or INDEX")
    if_exists = cursor.take("if", "exists")
    if cursor.peek() == "(":
        named = cursor.listed(lambda: cursor.names("a column's name"))
    else:
        named = [cursor.names("a column's name")]
        while cursor.take(","):
            named.append(cursor.names("a column's name"))

    def change(alter: TableAlterer) -> AlterPlan:
        newest = DeltaTable(alter._table.location, storage_options=alter._table.storage_options)
        there = [path for path in named if not if_exists or _is_there(newest.schema(), path)]
        columns = [".".join(map(quoted, path)) for path in there]
        if columns:
            return alter.drop_columns(columns)
        # An empty change, without a commit in delta-spark too: no table has the property.
        return TableAlterer(alter._table).unset_table_properties([_NO_PROPERTY], if_exists=True)

    return change


def _is_there(schema: Schema, path: tuple[str, ...]) -> bool:
    """Whether a schema has the column, or struct field, at this path."""
    fields = schema.fields
    for name in path:
        match = next((field for field in fields if field.name.lower() == name.lower()), None)
        if match is None:
            return False
        fields = match.type.fields if isinstance(match.type, StructType) else []
    return True


# --- columns that are there ---------------------------------------------------------------------------------------


def _rename(cursor: Grammar) -> Change:
    if cursor.peek() == "to":
        cursor.expected("COLUMN: a table at a location is renamed by moving it")
    cursor.expect("column")
    column = cursor.dotted("a column's name")
    cursor.expect("to")
    to = cursor.name("the new name")
    return lambda alter: alter.rename_column(column, to)


def _column(cursor: Grammar) -> Change:
    parts = cursor.names("a column's name")
    column = ".".join(map(quoted, parts))
    if _is_declared(cursor, parts[-1]):
        return _declared(cursor, column, parts[-1])
    return _column_change(cursor, column)


def _columns(cursor: Grammar) -> Change:
    """Parses one column and its change, or several that become one commit."""
    named: dict[tuple[str, ...], str] = {}
    changes: list[Change] = []
    while True:
        token, parts = cursor.at, cursor.names("a column's name")
        key = tuple(part.lower() for part in parts)
        for other, shown in named.items():
            shorter = min(len(key), len(other))
            if key[:shorter] == other[:shorter]:
                cursor.wrong(
                    f"expected another column: one statement changes `{shown}` once, with all of its fields "
                    "(NOT_SUPPORTED_CHANGE_SAME_COLUMN)",
                    cursor.tokens[token].start,
                )
        named[key] = ".".join(map(quoted, parts))
        changes.append(_column_change(cursor, named[key]))
        if not cursor.take(","):
            break
    if len(changes) == 1:
        return changes[0]
    return lambda alter: alter._several(changes)


def _column_change(cursor: Grammar, column: str) -> Change:
    if cursor.take("comment"):
        comment = cursor.text("a comment")
        return lambda alter: alter.set_comment(column, comment)
    if cursor.take("type"):
        return _typed(cursor, column)
    if cursor.take("sync", "identity"):
        return lambda alter: alter.sync_identity(column)
    if cursor.take("first"):
        return lambda alter: alter.reorder(column, first=True)
    if cursor.take("after"):
        after = cursor.name("a column's name")
        return lambda alter: alter.reorder(column, after=after)
    if cursor.take("set"):
        if cursor.take("not", "null"):
            return lambda alter: alter.set_nullable(column, False)
        cursor.expect("default")
        default = Clause.read(cursor).text
        return lambda alter: alter.set_default(column, default)
    if cursor.take("drop"):
        if cursor.take("not", "null"):
            return lambda alter: alter.drop_column_not_null(column)
        if not cursor.take("default"):
            cursor.expected("NOT NULL or DEFAULT")
        return lambda alter: alter.drop_default(column)
    cursor.expected(
        "TYPE, COMMENT, FIRST, AFTER, SET DEFAULT, SET NOT NULL, SYNC IDENTITY, DROP DEFAULT or DROP NOT NULL"
    )


def _is_declared(cursor: Grammar, name: str) -> bool:
    """Whether a name and a type follow (Hive's syntax) instead of the kind of change."""
    if cursor.kind() not in ("name", "quoted") or cursor.kind(1) != "name":
        return False
    word = cursor.peek()
    same = word == name.lower() or cursor.kind() == "quoted"
    return same if word in ("type", "comment", "sync") else word not in ("first", "after", "set", "drop")


def _declared(cursor: Grammar, column: str, name: str) -> Change:
    """Parses a column in Hive's syntax: name and type, then its comment and its place, which change
    in one commit."""
    token = cursor.at
    if cursor.name("the column's name").lower() != name.lower():
        cursor.wrong("expected the same name again: ALTER TABLE … RENAME COLUMN renames", cursor.tokens[token].start)
    typed = _typed(cursor, column)
    if cursor.peek() == "not":
        cursor.expected("COMMENT, FIRST or AFTER: ALTER COLUMN … SET NOT NULL says that there are no nulls")
    others: dict[str, Change] = {}
    while (word := cursor.peek()) in ("comment", "first", "after"):
        kind = "comment" if word == "comment" else "place"
        if kind in others:
            cursor.expected(f"the end: the statement gives the column's {kind} twice")
        others[kind] = _column_change(cursor, column)
    if not others:
        return typed

    def change(alter: TableAlterer) -> AlterPlan:
        changes = list(others.values())
        if typed(alter, dry_run=True).changed:
            changes.insert(0, typed)
        return changes[0](alter) if len(changes) == 1 else alter._several(changes)

    return change


def _typed(cursor: Grammar, column: str) -> Callable[..., AlterPlan]:
    sql_type = column_type(cursor)
    to = sql_type.type
    if not isinstance(to, PrimitiveType):
        raise UnsupportedFeatureError(
            f"{column} can't become {sql_type.text}: change the type of a field, of `element`, `key` or `value` below it"
        )
    return lambda alter, dry_run=False: alter._change_type(column, to, sql_type.lengths, dry_run=dry_run)


STATEMENT = Statement(("alter",), _read)
