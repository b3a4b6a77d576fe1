"""MERGE on the embedded engine: rows of a source, joined to the table's, change, delete and add rows in one commit.

The source is read once. Only the columns that decide are joined; rows that change are read once
more, by their places.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.changed_rows import ChangedRows, rules_of_whole_rows
from deltaplane.commands.condition import PLACE
from deltaplane.commands.duckdb_engine import LocalEngine, Memory
from deltaplane.commands.merge.clauses import Clause, said, several_matches
from deltaplane.commands.merge.metrics import changed_rows, merge_metrics
from deltaplane.commands.merge.plan import BoundClause, Key, MergePlan, Value
from deltaplane.commands.phases import phase
from deltaplane.commands.rewriting import (
    PATCHED_BYTES,
    CommandResult,
    Operation,
    Rewriting,
    Settings,
    Target,
    rewriting,
)
from deltaplane.commands.row_rules import BatchRules, RowRules
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import tree
from deltaplane.expr.arrow_literals import literal_nodes
from deltaplane.expr.storing import in_columns
from deltaplane.expr.types import of_json
from deltaplane.io.arrow import Scan, in_table_types

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Merge", "merge"]

# Up to so many values of a key are looked for one by one; of more only the range.
_LISTED_KEYS = 64
# Types of keys that the core looks up while it reads, and how many values of them it keeps in memory at most.
_LOOKED_UP = ("byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz")
_MOST_MEMBERS = 1 << 21
# The columns before those of changed rows: which clause, and where.
_PLACED = 3
# The source with the number of each row.
_SOURCE = "(SELECT rowid AS sid, * FROM source) s"


@dataclass(frozen=True)
class Merge:
    """A MERGE as the user gives it; `source` is anything that gives record batches of `source_schema`. With `reads_others` it
    was made of the table's own rows, any of which may decide what becomes of another one."""

    source: pa.RecordBatchReader
    predicate: str
    clauses: Sequence[Clause]
    source_alias: str | None = None
    target_alias: str | None = None
    merge_schema: bool = False
    memory: Memory | None = None
    operation: str = "MERGE"
    parameters: Mapping[str, Any] | None = None
    reads_others: bool = False


def merge(target: Target, what: Merge, settings: Settings) -> CommandResult:
    """Merges in one commit."""
    source = in_table_types(what.source)
    # Rows that were cast have lost what their fields say.
    source_json = _native.schema_from_arrow(what.source.schema).to_json()
    configuration = target.snapshot.info.configuration
    plan = MergePlan(
        schema_json=target.snapshot.schema.to_json(),
        source_json=source_json,
        predicate=what.predicate,
        clauses=what.clauses,
        source_alias=what.source_alias,
        target_alias=what.target_alias,
        merge_schema=what.merge_schema,
        widens=configuration.get("delta.enableTypeWidening") == "true",
    )
    incoming = plan.incoming
    with LocalEngine(what.memory) as engine:
        with phase(what.operation, target.location, "source"):
            engine.adopt("source", source, _arrow(source_json))
        matching = _matching(target.snapshot, plan, engine)
        by_source = bool(plan.of_kind("not_matched_by_source"))
        parameters = what.parameters or _said(what)
        reads = None if by_source else matching
        others = what.reads_others
        operation = Operation(
            what.operation, parameters, reads, incoming, condition=what.predicate, reads_others=others
        )
        return rewriting(
            target, operation, settings, lambda job: _Run(job, target, plan, engine, matching).run(settings.free)
        )


def _said(what: Merge) -> dict[str, str]:
    return {
        "predicate": json.dumps([what.predicate]),
        "matchedPredicates": said(what.clauses, "matched"),
        "notMatchedPredicates": said(what.clauses, "not_matched"),
        "notMatchedBySourcePredicates": said(what.clauses, "not_matched_by_source"),
    }


# --- which files can hold matches -------------------------------------------------------------------------------------


def _matching(snapshot: _native.Snapshot, plan: MergePlan, engine: LocalEngine) -> str | None:
    """A tree, as JSON, that every row of the table meets which matches a row of the source; None for all rows."""
    parts = [*plan.reads, *(part for key in plan.keys if (part := _range(key, engine)) is not None)]
    bound = [part for part in parts if _binds(snapshot, part)]
    return json.dumps(tree.all_of(bound)) if bound else None


def _any_of(trees: Sequence[str | None]) -> str | None:
    """A tree, as JSON, that is met by what meets one of these; None for all rows."""
    known = [json.loads(tree_) for tree_ in trees if tree_ is not None]
    return json.dumps(tree.any_of(known)) if len(known) == len(trees) else None


def _binds(snapshot: _native.Snapshot, part: tree.Node) -> bool:
    try:
        snapshot.scan([], json.dumps(part))
    except (InvalidArgumentError, UnsupportedExpressionError):
        return False
    return True


def _range(key: Key, engine: LocalEngine) -> tree.Node | None:
    """What a column must be to equal one of the source's values."""
    column = tree.column(key.column)
    values = f"SELECT DISTINCT {key.source} AS k FROM source s"
    found = engine.values(f"SELECT k FROM ({values}) WHERE k IS NOT NULL LIMIT {_LISTED_KEYS + 1}")
    if len(found) > _LISTED_KEYS:
        bounds = engine.values(f"SELECT unnest([min({key.source}), max({key.source})]) FROM source s")
        low, high = literal_nodes(bounds, key.type)
        part = tree.all_of([tree.compare(">=", column, low), tree.compare("<=", column, high)])
    else:
        # A list without members is met by no row.
        part = tree.is_in(column, literal_nodes(found, key.type) or [tree.literal(None, "void")])
    if key.null_safe:
        return tree.any_of([part, tree.compare("<=>", column, tree.literal(None, "void"))])
    return part


# --- the run ----------------------------------------------------------------------------------------------------------


class _Run:
    """The steps of one MERGE. In DuckDB `matched` holds the places of rows with the source's row and the clause."""

    def __init__(
        self, job: Rewriting, target: Target, plan: MergePlan, engine: LocalEngine, matching: str | None
    ) -> None:
        self._job, self._plan, self._engine, self._matching = job, plan, engine, matching
        self._snapshot = target.snapshot
        clauses = plan.bound(json.loads(job.native.spec)["schema"])
        self._matched = [c for c in clauses if c.clause.kind == "matched"]
        self._by_source = [c for c in clauses if c.clause.kind == "not_matched_by_source"]
        self._inserts = [c for c in clauses if c.clause.action == "insert"]
        # A clause that changes rows has this number in `matched`.
        self._changing = [*self._matched, *self._by_source]
        self._files: dict[str, int] = {}
        self._read: list[str | None] = []
        self._sources = 0
        # How many rows each clause changes.
        self._rows_of: dict[int, int] = {}

    def run(self, patches: bool) -> dict[str, int] | None:
        """The steps, in order; returns the commit's metrics, None where there is nothing to commit. `patches` tells
        whether files may keep columns as they are.
        """
        job, engine = self._job, self._engine
        sources = self._sources = engine.count("SELECT count(*) FROM source")
        engine.run("CREATE TABLE matched (f INTEGER, r BIGINT, sid BIGINT, act SMALLINT)")
        if sources:
            with job.phase("join"):
                self._join()
        if self._by_source:
            with job.phase("unmatched"):
                self._join_unmatched()
        self._check_one_match()
        rows = self._changed_rows()
        changed = rows["numTargetRowsUpdated"] + rows["numTargetRowsDeleted"] > 0
        if changed:
            job.pick_rows(self._places)
            self._rewrite(self._patched_columns() if patches else [])
        inserted = 0
        if sources and self._inserts:
            with job.phase("insert"):
                inserted = sum(self._insert(n, changed) for n in range(len(self._inserts)))
        if not changed and not inserted:
            job.unchanged["numSourceRows"] = sources
            return None
        return job.commit(merge_metrics(job.finish(), rows, sources, inserted))

    # --- which rows -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Finds the pairs of rows that match, with the clause that applies to each."""
        given = self._given_target(sorted(self._plan.joined_columns), self._matching, self._members())
        if not self._matched and not self._by_source:
            # Inserts alone: which rows of the table match doesn't matter.
            found = f"SELECT DISTINCT NULL, NULL, s.sid, NULL FROM {given} JOIN {_SOURCE} ON {self._plan.on}"
        else:
            act = _first(self._matched, 0)
            pairs = f"SELECT t.f, t.r, s.sid, {act} AS act FROM {given} JOIN {_SOURCE} ON {self._plan.on}"
            # Pairs that no clause changes matter only to what is done without a match.
            kept = "" if self._inserts or self._by_source else " WHERE act IS NOT NULL"
            found = f"SELECT * FROM ({pairs}){kept}"
        self._engine.run(f"INSERT INTO matched {found}")

    def _join_unmatched(self) -> None:
        """Finds the rows of the table that match none of the source, where a clause changes them."""
        reads = self._plan.reads_by_source()
        condition = json.dumps(reads) if reads is not None and _binds(self._snapshot, reads) else None
        given = self._given_target(sorted(self._plan.columns_by_source()), condition)
        act = _first(self._by_source, len(self._matched))
        self._engine.run(
            f"CREATE TABLE unmatched AS SELECT t.f, t.r, CAST(NULL AS BIGINT) AS sid, {act} AS act "
            f"FROM {given} ANTI JOIN matched m ON t.f = m.f AND t.r = m.r"
        )
        self._engine.run("INSERT INTO matched SELECT * FROM unmatched WHERE act IS NOT NULL; DROP TABLE unmatched")

    def _members(self) -> tuple[str, pa.RecordBatchReader, bool] | None:
        """A key's column, the source's values of it, and whether nulls equal each other: no other rows can match."""
        keys = [k for k in self._plan.keys if len(k.column) == 1 and k.type.name in _LOOKED_UP]
        if not keys or self._sources > _MOST_MEMBERS:
            return None
        key = keys[0]
        if len(keys) > 1:
            # The one that tells most.
            asked = ", ".join(f"count(DISTINCT {k.source})" for k in keys)
            counts = self._engine.counts(f"SELECT {asked} FROM source s")
            key = keys[counts.index(max(counts))]
        return key.column[0], self._engine.reader(f"SELECT {key.source} AS k FROM source s"), key.null_safe

    def _given_target(
        self,
        columns: Sequence[int],
        condition: str | None,
        members: tuple[str, pa.RecordBatchReader, bool] | None = None,
    ) -> str:
        """Streams columns of the table's rows and where they stand; returns the relation `t`."""
        import pyarrow as pa

        # For a dry run: both joins read files.
        self._read.append(condition)
        self._job.reads(_any_of(self._read))
        wanted = [self._plan.target_columns[n] for n in columns]
        scan = Scan(self._snapshot.scan([*wanted, *PLACE], condition, encoded_files=True, members=members))
        schema = pa.schema([*(scan.schema.field(n) for n in wanted), *_placed()])
        self._engine.stream("given", (self._placed(batch) for batch in scan), schema)
        names = [*(f"c{n}" for n in columns), "f", "r"]
        return f"(SELECT {', '.join(f'c{i} AS {name}' for i, name in enumerate(names))} FROM given) t"

    def _placed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch with numbers of files instead of their names."""
        import pyarrow as pa

        at = batch.schema.get_field_index(PLACE[0])
        files = batch.column(at)
        numbers = [self._files.setdefault(file, len(self._files)) for file in files.dictionary.to_pylist()]
        return batch.set_column(at, "f", pa.array(numbers, pa.int32()).take(files.indices))

    def _check_one_match(self) -> None:
        """Refuses rows that several rows of the source change; several may delete one."""
        deletes = [str(n) for n, c in enumerate(self._changing) if c.clause.action == "delete"]
        all_delete = f"bool_and(act IN ({', '.join(deletes)}))" if deletes else "false"
        twice = f"SELECT {all_delete} AS fine FROM matched WHERE act IS NOT NULL GROUP BY f, r HAVING count(*) > 1"
        fine, rows = self._engine.counts(f"SELECT count(*) FILTER (fine), count(*) FILTER (NOT fine) FROM ({twice})")
        if rows:
            raise several_matches(rows)
        if fine:
            first = "SELECT min(rowid) FROM matched WHERE act IS NOT NULL GROUP BY f, r"
            # The pair stays: its source row has a match.
            self._engine.run(f"UPDATE matched SET act = NULL WHERE act IS NOT NULL AND rowid NOT IN ({first})")

    def _changed_rows(self) -> dict[str, int]:
        """How many rows are changed, in all and of which kind."""
        counts = self._engine.count_rows("SELECT act, count(*) FROM matched WHERE act IS NOT NULL GROUP BY act")
        self._rows_of = {clause: rows for clause, rows, *_ in counts}
        return changed_rows([c.clause for c in self._changing], self._rows_of)

    def _places(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        files = pa.array(list(self._files), pa.string())
        for batch in self._engine.batches("SELECT f, r FROM matched WHERE act IS NOT NULL ORDER BY f, r"):
            named = pa.DictionaryArray.from_arrays(batch.column(0), files)
            yield pa.RecordBatch.from_arrays([named, batch.column(1)], names=list(PLACE))

    # --- what becomes of them -----------------------------------------------------------------------------------------

    def _rewrite(self, columns: list[str]) -> None:
        """Writes changed rows, records all changes, and copies what stands beside them where files are written anew.

        Where it suffices only these columns are written.
        """
        import pyarrow as pa

        native = self._job.native
        recorded = [n for n in self._rows_of if native.records_changes or self._changing[n].clause.action == "update"]
        patched = native.patch_columns(columns, PATCHED_BYTES) if columns else 0
        if patched:
            numbers = pa.record_batch(
                [pa.array([self._files[path] for path in native.patched_paths], pa.int32())], ["f"]
            )
            self._engine.adopt("patched", [numbers], numbers.schema)
        if recorded and patched < native.picked_files:
            with self._job.phase("change"):
                self._change(recorded, apart=bool(patched))
        self._job.copy_others()
        if patched:
            with self._job.phase("change"):
                self._job.patch(lambda: self._patches(columns))

    def _patched_columns(self) -> list[str]:
        """The columns that get new values where files keep their others as they are; none where they can't."""
        changing = [self._changing[n] for n in self._rows_of]
        if any(c.assigned is None for c in changing):
            return []
        found = {name for c in changing if c.assigned is not None for name in c.assigned.columns - c.same}
        types = {
            f.name: of_json(f.data_type)
            for f in _native.TableSchema(json.loads(self._job.native.spec)["schema"]).fields
        }
        # Values of several clauses come as one column: those of simple types are in the table's own.
        simple = all((of := types[name]) is not None and of.atomic for name in found)
        return sorted(found) if len(changing) == 1 or simple else []

    def _old_columns(self, numbers: Sequence[int], wanted: Collection[str]) -> list[str]:
        """The columns whose old values these clauses need to make the wanted ones of new rows."""
        table, needed = self._plan.target_columns, set[str]()
        for clause in (self._changing[n] for n in numbers):
            needed |= {table[n] for n in clause.used} | (set(wanted) - clause.whole)
        return [name for name in table if name in needed]

    def _change(self, numbers: Sequence[int], *, apart: bool) -> None:
        """Writes the new rows of files that aren't patched, and records all changes. `apart` tells whether others are."""
        native, every = self._job.native, self._plan.target_columns
        old = every if native.records_changes else self._old_columns(numbers, every)
        changes = {n: _Change(native, self._changing[n]) for n in numbers}
        where = "AND m.f NOT IN (SELECT c0 FROM patched)" if apart else ""
        for found in self._evaluated(numbers, Scan(native.picked_places(old)), where):
            for number, rows, values, _ in found.by_clause():
                changes[number].take(rows, values, self._job)

    def _patches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The new values of rows in files that keep their other columns, and where the rows stand: in the files' order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        native, numbers = self._job.native, list(self._rows_of)
        rules = rules_of_whole_rows(native.spec)
        wanted = sorted({*columns, *rules.checked_columns})
        scan = Scan(native.patched_places(self._old_columns(numbers, wanted)))
        files = pa.array(list(self._files), pa.string())
        where = "AND m.f IN (SELECT c0 FROM patched)"
        for found in self._evaluated(numbers, scan, where, order="ORDER BY m.f, m.r"):
            parts, order = [], []
            for number, rows, values, at in found.by_clause():
                assigned = self._changing[number].assigned
                assert assigned is not None
                new = rules(assigned.put(rows, values))
                parts.append(new.select([*new.schema.names[1:_PLACED], *wanted]))
                order.append(at)
            whole = parts[0]
            if len(parts) > 1:
                whole = pa.concat_batches(parts).take(pc.sort_indices(pa.concat_arrays(order)))
            file, row, *new_values = whole.columns
            place = [pa.DictionaryArray.from_arrays(file, files), row]
            yield pa.RecordBatch.from_arrays([*new_values, *place], names=[*wanted, *PLACE])

    def _evaluated(self, numbers: Sequence[int], scan: Scan, where: str, order: str = "") -> Iterator[_Found]:
        """Changed rows with the columns of a scan, and the values that each clause gives to its own.

        What needs no column of the table isn't read. Without an order they come about as they stand in the table, so that
        new files have near values together where the old ones had.
        """
        import pyarrow as pa

        table = self._plan.target_columns
        fields = [f for f in scan.schema if f.name not in PLACE]
        names = [f"c{table.index(f.name) if f.name in table else len(table) + i}" for i, f in enumerate(fields)]
        rows = "matched m"
        if fields:
            self._engine.stream("picked", (self._placed(b) for b in scan), pa.schema([*fields, *_placed()]))
            renamed = ", ".join(f"c{i} AS {name}" for i, name in enumerate([*names, "f", "r"]))
            rows = f"(SELECT {renamed} FROM picked) t JOIN matched m ON t.f = m.f AND t.r = m.r"
        if self._matched:
            # The right side is held in memory: places are shorter than what they are given. Rows come in the left one's order.
            all_match = not fields and not self._by_source
            few = order and all_match and sum(self._rows_of.values()) <= self._sources
            rows = f"{_SOURCE} JOIN {rows}" if few else f"{rows} LEFT JOIN {_SOURCE}"
            rows += " ON s.sid = m.sid"
        values = [(n, value) for n in numbers for value in self._changing[n].values]
        new = [f"CASE WHEN m.act = {n} THEN {value.sql} END" for n, value in values]
        selected = ["m.act", "m.f", "m.r", *(f"t.{name}" for name in names), *new]
        asked = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(selected))
        # Longer than any name: none of them is another one's.
        assigned = [c.assigned for n in numbers if (c := self._changing[n]).assigned is not None]
        longest = max([*table, *(name for of in assigned if of is not None for name in of.columns)], key=len)
        place = [pa.field("act", pa.int16()), *_placed()]
        old = pa.schema([*(f.with_name(f"{longest}_{f.name}") for f in place), *fields])
        types = {n: self._arrow_values(self._changing[n]) for n in numbers}
        chosen = f"m.act IN ({_listed(numbers)}) {where}"
        asked = f"SELECT {asked} FROM {rows} WHERE {chosen} {order}"
        for batch in self._batches(asked, [value for _, value in values]):
            at, of_clause = len(old), dict[int, list[pa.Array]]()
            for number, schema in types.items():
                of_clause[number] = batch.columns[at : at + len(schema)]
                at += len(schema)
            yield _Found(_back(batch.columns[: len(old)], old), of_clause, types)

    def _insert(self, number: int, changed: bool) -> int:
        """Writes the rows that one clause inserts; returns how many."""
        import pyarrow as pa

        clause = self._inserts[number]
        types = self._arrow_values(clause)
        named = pa.schema([types.field(i).with_name(name) for i, name in enumerate(clause.columns)])
        rules = BatchRules(RowRules.of_spec(self._job.native.spec, clause.columns))
        act = _first(self._inserts, 0)
        values = ", ".join(f"{value.sql} AS x{i}" for i, value in enumerate(clause.values))
        lacking = "" if clause.clause.kind == "source" else " ANTI JOIN matched m ON s.sid = m.sid"
        chosen = f"SELECT * FROM (SELECT s.* FROM {_SOURCE}{lacking}) s WHERE {act} = {number}"
        inserted = 0
        for batch in self._batches(f"SELECT {values} FROM ({chosen}) s", clause.values):
            rows = rules(_back(batch.columns, named))
            inserted += self._job.insert(rows, "insert" if changed else None)
        return inserted

    def _batches(self, sql: str, values: Sequence[Value]) -> Iterator[pa.RecordBatch]:
        """What a query with new values gives; an error of a value that doesn't fit names the columns that it may be for."""
        try:
            yield from self._engine.batches(sql)
        except InvalidArgumentError as e:
            raise in_columns(e, [column for value in values for column in value.failing]) from e

    def _arrow_values(self, clause: BoundClause) -> pa.Schema:
        """The types in which the values of a clause come."""
        fields = [
            {"name": str(i), "type": v.type, "nullable": True, "metadata": {}} for i, v in enumerate(clause.values)
        ]
        return _arrow(json.dumps({"type": "struct", "fields": fields}))


@dataclass(frozen=True)
class _Found:
    """Changed rows: the number of their clause and their place before their columns, and the values of each clause."""

    rows: pa.RecordBatch
    values: Mapping[int, Sequence[pa.Array]]
    types: Mapping[int, pa.Schema]

    def by_clause(self) -> Iterator[tuple[int, pa.RecordBatch, list[pa.Array], pa.Array | None]]:
        """For each clause its rows and values, and which of the rows these are; None for all of them."""
        import pyarrow.compute as pc

        for number, values in self.values.items():
            typed = zip(values, self.types[number], strict=True)
            if len(self.values) == 1:
                yield number, self.rows, [v.cast(f.type) for v, f in typed], None
                return
            chosen = pc.indices_nonzero(pc.equal(self.rows.column(0), number))
            if len(chosen):
                yield number, self.rows.take(chosen), [v.take(chosen).cast(f.type) for v, f in typed], chosen


class _Change:
    """What a clause does to rows of the table, and how it is recorded."""

    def __init__(self, native: _native.Rewrite, clause: BoundClause) -> None:
        self._assigned = clause.assigned
        self._ruled = ChangedRows(native.spec, self._assigned.columns if self._assigned is not None else ())

    def take(self, found: pa.RecordBatch, values: Sequence[pa.Array], job: Rewriting) -> None:
        """Writes the rows' new values and records the change."""
        old = found.select(found.schema.names[_PLACED:])
        if self._assigned is None:
            job.record(old, "delete")
            return
        new = self._assigned.put(found, values)
        ruled = self._ruled(new.select(new.schema.names[_PLACED:]))
        job.record(old, "update_preimage")
        job.write(lambda: iter([ruled]), "update_postimage")


def _back(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of DuckDB as a table's again, instants among them."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _first(clauses: Sequence[BoundClause], number: int) -> str:
    """DuckDB text for the number of the first clause that applies, counted from `number`; null if none does."""
    if not clauses:
        return "CAST(NULL AS SMALLINT)"
    cases = "".join(f" WHEN {c.condition or 'true'} THEN {number + i}" for i, c in enumerate(clauses))
    return f"CAST(CASE{cases} END AS SMALLINT)"


def _placed() -> list[pa.Field]:
    """The columns that say where a row stands: a number of a file, and the row in it."""
    import pyarrow as pa

    return [pa.field("f", pa.int32()), pa.field("r", pa.int64())]


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def _arrow(schema_json: str) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(_native.schema_to_arrow(schema_json))
