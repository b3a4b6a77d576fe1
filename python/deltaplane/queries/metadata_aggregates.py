"""Computes aggregates of whole files from the log, without reading files: numbers of rows, nulls,
minimums and maximums.

Uses only exact facts: integers and dates, of files with complete and tight statistics (P160-P166).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltaplane.expr.syntax import Literal, Syntax
from deltaplane.expr.typed import Typed
from deltaplane.queries.plan import Aggregation, Filter, Node, Output, Project, Ref, Sets, Sort, Source, Value
from deltaplane.queries.scopes import condition_texts
from deltaplane.queries.sources import DeltaSource, SourceRows
from deltaplane.queries.syntax import Aggregate

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FileFacts", "from_log"]

# The log's bounds of other types are rounded, truncated, or incomplete (NaN).
_EXACT = frozenset({"byte", "short", "integer", "long", "date"})
# Functions whose result doesn't change with repeated values.
_ONCE = frozenset({"min", "max", "any", "some", "bool_or", "every", "bool_and"})


@dataclass
class FileFacts:
    """A relation with one row per file of a table: its partition values under their columns' ids,
    the number `n` of its live rows, and for each needed column the number of non-null values
    (`c_`), the minimum (`lo_`) and the maximum (`hi_`).
    """

    name: str
    rows: DeltaSource
    partitions: Mapping[str, str]
    columns: Mapping[str, str]
    conditions: Sequence[str]

    def render(self, needed: Sequence[str]) -> str:
        return f"SELECT {', '.join(needed) or '1 AS r'} FROM {self.name}"

    def narrow(self, conditions: list[Syntax]) -> None:
        pass

    def table(self) -> pa.Table | None:
        """The rows, for all files with rows; None unless the log has all facts exactly."""
        import pyarrow as pa

        batches = []
        for batch in self.rows.files(self.conditions):
            facts = _facts(batch, self.partitions, self.columns)
            if facts is None:
                return None
            batches.append(facts)
        return pa.Table.from_batches(batches) if batches else None


def from_log(node: Node, opened: Mapping[str, SourceRows]) -> tuple[Node, list[tuple[FileFacts, pa.Table]]]:
    """Replaces a plan's aggregations of whole files by aggregations over the log's facts; returns
    the plan, and these facts."""
    facts: list[tuple[FileFacts, pa.Table]] = []

    def replace_aggregation(aggregation: Aggregation) -> Node:
        made = _over_facts(aggregation, opened, f"f{len(facts)}")
        if made is None:
            return aggregation
        node, source = made
        table = source.table()
        if table is None:
            return aggregation
        facts.append((source, table))
        return node

    return _rewritten(node, replace_aggregation), facts


def _rewritten(node: Node, replace_aggregation: Callable[[Aggregation], Node]) -> Node:
    """A plan with its aggregations replaced, if they are above a single relation or in set
    operations."""
    if isinstance(node, Aggregation):
        return replace_aggregation(node)
    if isinstance(node, Project | Filter | Sort):
        return replace(node, child=_rewritten(node.child, replace_aggregation))
    if isinstance(node, Sets):
        return replace(
            node, left=_rewritten(node.left, replace_aggregation), right=_rewritten(node.right, replace_aggregation)
        )
    return node


def _over_facts(
    aggregation: Aggregation, opened: Mapping[str, SourceRows], name: str
) -> tuple[Aggregation, FileFacts] | None:
    """The same aggregation over files; None if the log lacks its facts."""
    if aggregation.sets is not None:
        return None
    source, conditions = _below(aggregation.child)
    rows = opened.get(source.name) if source is not None else None
    if source is None or not isinstance(rows, DeltaSource):
        return None
    keys = {c.lower() for c in rows.table.metadata().partition_columns}
    partitions = {id: c for id, c in source.fields.items() if c.lower() in keys}
    if not all(c.uses <= partitions.keys() for c in [*conditions, *(k.value for k in aggregation.keys)]):
        return None
    fields = rows.table._snapshot.schema.to_value()["fields"]
    exact = {f["name"] for f in fields if isinstance(f["type"], str) and f["type"] in _EXACT}
    columns = {id: c for id, c in source.fields.items() if c in exact and id not in partitions}
    used: dict[str, str] = {}
    values = []
    for output in aggregation.values:
        made = _of_files(output.value, partitions, columns, used)
        if made is None:
            return None
        values.append(Output(output.id, made))
    aggregation.child.narrow([])
    facts = FileFacts(name, rows, partitions, used, condition_texts(source))
    source.conditions.clear()
    return Aggregation(_onto(aggregation.child, facts), aggregation.keys, values), facts


def _below(node: Node) -> tuple[Source | None, list[Value]]:
    """The table that an aggregation reads, through conditions alone."""
    conditions = []
    while isinstance(node, Filter):
        conditions.append(node.condition)
        node = node.child
    return (node if isinstance(node, Source) else None), conditions


def _onto(node: Node, facts: FileFacts) -> Node:
    return Filter(_onto(node.child, facts), node.condition) if isinstance(node, Filter) else facts


def _of_files(
    value: Value, partitions: Mapping[str, str], columns: Mapping[str, str], used: dict[str, str]
) -> Value | None:
    """An aggregate of rows as one of files; records the columns whose facts it needs."""
    call = value.syntax
    if not isinstance(call, Aggregate):
        return None
    if value.uses <= partitions.keys() and (call.distinct or call.name in _ONCE) and call.args:
        return value
    arg = call.args[0] if len(call.args) == 1 and call.where is None and not call.distinct else None
    if call.name == "count" and arg is not None:
        if isinstance(arg, Literal) and arg.value is not None:
            return _over(value, "n", "CAST(coalesce(sum(n), 0) AS BIGINT)")
        if isinstance(arg, Ref) and arg.id in partitions:
            total = f"sum(CASE WHEN {arg.id} IS NOT NULL THEN n END)"
            return _over(value, "n", f"CAST(coalesce({total}, 0) AS BIGINT)", beside=value.uses)
    if not isinstance(arg, Ref) or arg.id not in columns or call.name not in ("count", "min", "max"):
        return None
    used[arg.id] = columns[arg.id]
    if call.name == "count":
        return _over(value, f"c_{arg.id}", f"CAST(coalesce(sum(c_{arg.id}), 0) AS BIGINT)")
    bound = f"{'lo' if call.name == 'min' else 'hi'}_{arg.id}"
    return _over(value, bound, f"{call.name}({bound})")


def _over(value: Value, fact: str, sql: str, *, beside: frozenset[str] = frozenset()) -> Value:
    return Value(Typed(value.typed.type, sql), beside | {fact}, value.syntax)


def _facts(batch: pa.RecordBatch, partitions: Mapping[str, str], columns: Mapping[str, str]) -> pa.RecordBatch | None:
    """The facts in a batch of a plan; None if they are incomplete."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from deltaplane.expr.duckdb_values import values_for_duckdb, zoneless

    records, vectors = batch["num_records"], batch["deletion_vector"]
    marked = vectors.null_count < batch.num_rows
    if records.null_count or (marked and columns):
        return None
    n, none = records, pc.subtract(records, records)
    if marked:
        n = pc.subtract(n, pc.coalesce(pc.struct_field(vectors, "cardinality"), none))
    facts: dict[str, Any] = {"n": n}
    for id, column in partitions.items():
        values = pc.struct_field(batch["partition"], [column])
        facts[id] = values_for_duckdb(values, zoneless(values.type))
    for id, column in columns.items():
        statistics = _column_statistics(batch, column, records)
        if statistics is None:
            return None
        facts |= {f"{what}_{id}": values for what, values in statistics.items()}
    made = pa.RecordBatch.from_arrays(list(facts.values()), list(facts))
    # A file without rows contributes no partition value either.
    return made.filter(pc.greater(made["n"], none))


def _column_statistics(batch: pa.RecordBatch, column: str, records: pa.Array) -> dict[str, pa.Array] | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    sections = dict(_leaf(batch, column))
    nulls, low, high = (sections.get(name) for name in ("null_count", "min", "max"))
    if nulls is None or low is None or high is None or nulls.null_count:
        return None
    some = pc.less(nulls, records)
    sane = pc.and_(pc.greater_equal(nulls, pc.subtract(nulls, nulls)), pc.less_equal(nulls, records))
    known = pc.or_(pc.invert(some), pc.and_(pc.is_valid(low), pc.is_valid(high)))
    if not pc.all(pc.and_(sane, known), min_count=0).as_py():
        return None
    none = pa.nulls(len(low), low.type)
    bounds = {"lo": pc.if_else(some, low, none), "hi": pc.if_else(some, high, none)}
    return {"c": pc.subtract(records, nulls), **bounds}


def _leaf(batch: pa.RecordBatch, column: str) -> Iterator[tuple[str, pa.Array]]:
    """A column's part of each section that has it."""
    import pyarrow.compute as pc

    for section in ("null_count", "min", "max"):
        if section in batch.schema.names:
            section_type = batch.schema.field(section).type
            if section_type.get_field_index(column) >= 0:
                yield section, pc.struct_field(batch[section], [column])
