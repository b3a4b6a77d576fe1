"""Restricts the rows and files of a table that can match a MERGE's source, before the table is
read.

Queries the source's keys in DuckDB, and asks the snapshot whether it can prune by them; reads no
row of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.commands.merge import sql
from deltaplane.expr import tree
from deltaplane.expr.arrow_literals import literal_nodes
from deltaplane.expr.row_filter import understands
from deltaplane.expr.types import quoted
from deltaplane.io.index_properties import has_indexes, indexed_columns, indexed_together

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.commands.duckdb_engine import LocalEngine
    from deltaplane.commands.merge.plan import Key, MergePlan

__all__ = ["Members", "any_of", "index_names_files", "key_members", "rows_that_can_match"]

# Maximum number of key values that are looked up one by one; for more values only their range is
# used.
_LISTED_KEYS = 64
# Types of keys that the core can look up while reading, and the maximum number of values that it
# holds in memory.
_LOOKED_UP = ("byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz")
_MOST_MEMBERS = 1 << 21

# A key's column, the source's values of it and then of further keys, and whether nulls equal each
# other.
Members = tuple[str, "pa.RecordBatchReader", bool]


def rows_that_can_match(snapshot: _native.Snapshot, plan: MergePlan, engine: LocalEngine) -> _native.Predicate | None:
    """A tree that every matching row of the table satisfies; None for all rows."""
    parts = map(_native.Predicate, [*plan.reads, *(_range(key, engine) for key in plan.keys)])
    return _native.Predicate.all_of([part for part in parts if understands(snapshot, part, checked_elsewhere=True)])


def any_of(trees: Sequence[_native.Predicate | None]) -> _native.Predicate | None:
    """The disjunction of some trees; None for all rows."""
    known = [node for node in trees if node is not None]
    return _native.Predicate.any_of(known) if len(known) == len(trees) else None


def key_members(snapshot: _native.Snapshot, plan: MergePlan, engine: LocalEngine, source_rows: int) -> Members | None:
    """The source's values of the most selective key: no other rows can match. None if the core
    can't look it up. With the values of the other keys where the table has an index of several
    columns."""
    keys = [k for k in plan.keys if len(k.column) == 1 and k.type.name in _LOOKED_UP]
    if not keys or source_rows > _MOST_MEMBERS:
        return None
    key = keys[0]
    if len(keys) > 1:
        counts = engine.counts(sql.count_keys(keys))
        key = keys[counts.index(max(counts))]
    named = {"k": key}
    if not key.null_safe and _indexes(snapshot)[1]:
        others = [other for other in keys if other is not key and not other.null_safe]
        named = {quoted(item.column[0]): item for item in (key, *others)}
    return key.column[0], engine.reader(sql.key_values(named)), key.null_safe


def index_names_files(snapshot: _native.Snapshot, plan: MergePlan, members: Members | None, source_rows: int) -> bool:
    """Whether an index of the table tells which files can have the source's keys: an index of the
    columns of `members`, or of a key whose values `rows_that_can_match` lists."""
    single, several = _indexes(snapshot)
    looked_up: set[str] = set()
    if members is not None and not members[2]:
        # The reader's first column has the values of the key itself, whatever its name.
        looked_up = {members[0], *members[1].schema.names[1:]}
    if source_rows <= _LISTED_KEYS:
        looked_up.update(key.column[0] for key in plan.keys if len(key.column) == 1 and not key.null_safe)
    return bool(single & looked_up) or any(looked_up >= set(columns) for columns in several)


def _indexes(snapshot: _native.Snapshot) -> tuple[frozenset[str], list[tuple[str, ...]]]:
    """The columns with an index of their own, and those of each index of several columns."""
    if not has_indexes(snapshot):
        return frozenset(), []
    fields, configuration = snapshot.schema.to_value()["fields"], snapshot.info.configuration
    return indexed_columns(fields, configuration), indexed_together(fields, configuration)


def _range(key: Key, engine: LocalEngine) -> tree.Node:
    """The condition that a column's value equals one of the source's values, or is within their
    range."""
    column = tree.column(key.column)
    values = engine.values(sql.keys_up_to(key, _LISTED_KEYS + 1))
    if len(values) > _LISTED_KEYS:
        low, high = literal_nodes(engine.values(sql.key_bounds(key)), key.type)
        part = tree.all_of([tree.compare(">=", column, low), tree.compare("<=", column, high)])
    else:
        # No row satisfies a list without members.
        part = tree.is_in(column, literal_nodes(values, key.type) or [tree.literal(None, "void")])
    if key.null_safe:
        return tree.any_of([part, tree.compare("<=>", column, tree.literal(None, "void"))])
    return part
