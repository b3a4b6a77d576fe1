"""MERGE on the embedded engine: rows of a source, joined to the table's, change, delete and add rows in one commit.

The source is read once. Only the columns that decide are joined; rows that change are read once more, by their places.
Called by `deltaplane.merging`; what the clauses mean is `merge_plan`'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.arrow_io import Scan
from deltaplane.commands.changed_rows import ChangedRows
from deltaplane.commands.condition import PLACE
from deltaplane.commands.merge_clauses import Clause, said, several_matches
from deltaplane.commands.merge_metrics import changed_rows, merge_metrics
from deltaplane.commands.merge_plan import BoundClause, Key, MergePlan
from deltaplane.commands.phases import phase
from deltaplane.commands.rewriting import Done, Operation, Rewriting, Settings, Target, rewriting
from deltaplane.engine.local import LocalEngine, Memory
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import tree
from deltaplane.expr.tuples import value_node
from deltaplane.row_rules import BatchRules, RowRules

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Merge", "merge"]

# Up to so many values of a key are looked for one by one; of more only the range.
_LISTED_KEYS = 64
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
    parameters: Mapping[str, str] | None = None
    reads_others: bool = False


def merge(target: Target, what: Merge, settings: Settings) -> Done:
    """Merges in one commit."""
    source_json = _native.schema_from_arrow(what.source.schema)
    configuration = json.loads(target.snapshot.metadata_json()).get("configuration", {})
    plan = MergePlan(
        schema_json=target.snapshot.schema_json(),
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
            engine.adopt("source", what.source, _arrow(source_json))
        matching = _matching(target.snapshot, plan, engine)
        by_source = bool(plan.of_kind("not_matched_by_source"))
        parameters = what.parameters or _said(what)
        reads = None if by_source else matching
        others = what.reads_others
        operation = Operation(
            what.operation, parameters, reads, incoming, condition=what.predicate, reads_others=others
        )
        return rewriting(target, operation, settings, lambda job: _Run(job, target, plan, engine, matching).run())


def _said(what: Merge) -> dict[str, str]:
    return {
        "predicate": what.predicate,
        "matchedPredicates": json.dumps(said(what.clauses, "matched")),
        "notMatchedPredicates": json.dumps(said(what.clauses, "not_matched")),
        "notMatchedBySourcePredicates": json.dumps(said(what.clauses, "not_matched_by_source")),
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
    found = engine.column(f"SELECT k FROM ({values}) WHERE k IS NOT NULL LIMIT {_LISTED_KEYS + 1}")
    if len(found) > _LISTED_KEYS:
        low, high = engine.row(f"SELECT min(k), max(k) FROM ({values})")
        bounds = [tree.compare(">=", column, _literal(low, key)), tree.compare("<=", column, _literal(high, key))]
        part = tree.all_of(bounds)
    else:
        # A list without members is met by no row.
        part = tree.is_in(column, [_literal(value, key) for value in found] or [tree.literal(None, "void")])
    if key.null_safe:
        return tree.any_of([part, tree.compare("<=>", column, tree.literal(None, "void"))])
    return part


def _literal(value: Any, key: Key) -> tree.Node:
    if key.type.name == "string":
        return tree.literal(value, "string")
    if key.type.name == "timestamp":
        import datetime

        value = value.replace(tzinfo=datetime.timezone.utc)
    return value_node(value, ".".join(key.column))


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
        # How many rows each clause changes.
        self._rows_of: dict[int, int] = {}

    def run(self) -> dict[str, int] | None:
        """The steps, in order; returns the commit's metrics, None where there is nothing to commit."""
        job, engine = self._job, self._engine
        sources = engine.value("SELECT count(*) FROM source")
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
            self._rewrite()
        inserted = 0
        if sources and self._inserts:
            with job.phase("insert"):
                inserted = sum(self._insert(n, changed) for n in range(len(self._inserts)))
        if not changed and not inserted:
            return None
        return job.commit(merge_metrics(job.finish(), rows, sources, inserted))

    # --- which rows -------------------------------------------------------------------------------------------------

    def _join(self) -> None:
        """Finds the pairs of rows that match, with the clause that applies to each."""
        given = self._given_target(sorted(self._plan.joined_columns), self._matching)
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

    def _given_target(self, columns: Sequence[int], condition: str | None) -> str:
        """Streams columns of the table's rows and where they stand; returns the relation `t`."""
        import pyarrow as pa

        # For a dry run: both joins read files.
        self._read.append(condition)
        self._job.reads(_any_of(self._read))
        wanted = [self._plan.target_columns[n] for n in columns]
        scan = Scan(self._snapshot.scan([*wanted, *PLACE], condition, encoded_files=True))
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
        fine, rows = self._engine.row(f"SELECT count(*) FILTER (fine), count(*) FILTER (NOT fine) FROM ({twice})")
        if rows:
            raise several_matches(rows)
        if fine:
            first = "SELECT min(rowid) FROM matched WHERE act IS NOT NULL GROUP BY f, r"
            # The pair stays: its source row has a match.
            self._engine.run(f"UPDATE matched SET act = NULL WHERE act IS NOT NULL AND rowid NOT IN ({first})")

    def _changed_rows(self) -> dict[str, int]:
        """How many rows are changed, in all and of which kind."""
        counts = self._engine.rows("SELECT act, count(*) FROM matched WHERE act IS NOT NULL GROUP BY act")
        self._rows_of = dict(counts)
        return changed_rows([c.clause for c in self._changing], self._rows_of)

    def _places(self) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        files = pa.array(list(self._files), pa.string())
        for batch in self._engine.batches("SELECT f, r FROM matched WHERE act IS NOT NULL ORDER BY f, r"):
            named = pa.DictionaryArray.from_arrays(batch.column(0), files)
            yield pa.RecordBatch.from_arrays([named, batch.column(1)], names=list(PLACE))

    # --- what becomes of them -----------------------------------------------------------------------------------------

    def _rewrite(self) -> None:
        """Writes changed rows, records all changes, and copies what stands beside them where files are written anew."""
        native = self._job.native
        updates = [n for n, c in enumerate(self._changing) if c.clause.action == "update"]
        recorded = list(range(len(self._changing))) if native.records_changes else updates
        if any(number in self._rows_of for number in recorded):
            with self._job.phase("change"):
                self._change(recorded)
        self._job.copy_others()

    def _change(self, numbers: Sequence[int]) -> None:
        import pyarrow as pa

        native = self._job.native
        scan = Scan(native.picked_places())
        fields = [f for f in scan.schema if f.name not in PLACE]
        self._engine.stream("picked", (self._placed(b) for b in scan), pa.schema([*fields, *_placed()]))
        old = [f"t.c{i}" for i in range(len(fields))]
        place = f"SELECT *, c{len(fields)} AS f, c{len(fields) + 1} AS r FROM picked"
        new = [f"CASE WHEN m.act = {n} THEN {value.sql} END" for n in numbers for value in self._changing[n].values]
        joined = f"FROM ({place}) t JOIN matched m ON t.f = m.f AND t.r = m.r"
        if self._matched:
            joined += f" LEFT JOIN {_SOURCE} ON s.sid = m.sid"
        selected = ", ".join(f"{sql} AS x{i}" for i, sql in enumerate(["m.act", *old, *new]))
        changes = {n: _Change(native, self._changing[n], self._arrow_values(self._changing[n])) for n in numbers}
        for batch in self._engine.batches(f"SELECT {selected} {joined} WHERE m.act IN ({_listed(numbers)})"):
            self._put(batch, fields, changes)

    def _put(self, batch: pa.RecordBatch, fields: Sequence[pa.Field], changes: Mapping[int, _Change]) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        at = 1 + len(fields)
        acts, old = batch.column(0), _back(batch.columns[1:at], pa.schema(fields))
        for number, change in changes.items():
            values = batch.columns[at : at + len(change.types)]
            at += len(change.types)
            chosen = pc.equal(acts, number)
            rows = old.filter(chosen)
            if rows.num_rows:
                change.take(rows, [v.filter(chosen) for v in values], self._job)

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
        for batch in self._engine.batches(f"SELECT {values} FROM ({chosen}) s"):
            rows = rules(_back(batch.columns, named))
            inserted += self._job.insert(rows, "insert" if changed else None)
        return inserted

    def _arrow_values(self, clause: BoundClause) -> pa.Schema:
        """The types in which the values of a clause come."""
        fields = [
            {"name": str(i), "type": v.type, "nullable": True, "metadata": {}} for i, v in enumerate(clause.values)
        ]
        return _arrow(json.dumps({"type": "struct", "fields": fields}))


class _Change:
    """What a clause does to rows of the table, and how it is recorded."""

    def __init__(self, native: _native.Rewrite, clause: BoundClause, types: pa.Schema) -> None:
        self._assigned, self.types = clause.assigned, types
        self._ruled = ChangedRows(native.spec, self._assigned.columns if self._assigned is not None else ())

    def take(self, old: pa.RecordBatch, values: Sequence[pa.Array], job: Rewriting) -> None:
        """Writes the rows' new values and records the change."""
        if self._assigned is None:
            job.record(old, "delete")
            return
        new = self._assigned.put(old, [v.cast(f.type) for v, f in zip(values, self.types, strict=True)])
        ruled = self._ruled(new)
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
