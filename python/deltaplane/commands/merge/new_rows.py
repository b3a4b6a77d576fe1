"""Writes the new rows of a MERGE: computes values in DuckDB, applies the table's rules, and writes
files.

Identifies clauses by number; the matching rows are already known.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.commands.changed_rows import ChangedRows, rules_of_whole_rows
from deltaplane.commands.rewriting import PATCHED_BYTES
from deltaplane.commands.row_rules import BatchRules, RowRules
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.program import one_batch
from deltaplane.expr.storing import in_columns
from deltaplane.expr.types import of_json
from deltaplane.io.arrow import Scan
from deltaplane.io.hidden_columns import PLACE

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.commands.duckdb_engine import LocalEngine
    from deltaplane.commands.merge.plan import BoundClause, Value
    from deltaplane.commands.merge.sql import MergeSql
    from deltaplane.commands.merge.target_rows import TargetRows
    from deltaplane.commands.rewriting import Rewriting

__all__ = ["NewRows"]

# Number of columns before those of changed rows: clause and position.
_PLACED = 3


class NewRows:
    """Writes the rows of one MERGE. `table` are the names of the target's columns."""

    def __init__(self, job: Rewriting, engine: LocalEngine, sql: MergeSql, rows: TargetRows, table: list[str]) -> None:
        self._job, self._engine, self._sql, self._rows, self._table = job, engine, sql, rows, table
        self._changing = sql.changing

    def change(self, numbers: Sequence[int], *, patches: bool, few: bool) -> None:
        """Writes changed rows, records all changes, and copies the other rows of rewritten files.

        Args:
            numbers: the clauses that change rows, by number.
            patches: whether files may keep unchanged columns as bytes.
            few: whether these rows, which all have a match, are no more than the source's rows.
        """
        import pyarrow as pa

        native = self._job.native
        columns = self._patched_columns(numbers) if patches else []
        recorded = self._recorded(numbers)
        patched = native.patch_columns(columns, PATCHED_BYTES) if columns else 0
        if patched:
            files = pa.record_batch([pa.array(self._rows.numbers(native.patched_paths), pa.int32())], ["f"])
            self._engine.adopt("patched", [files], files.schema)
        if recorded and patched < native.picked_files:
            with self._job.phase("change"):
                self._rewrite(recorded, patched=False if patched else None)
        self._job.copy_others()
        if patched:
            with self._job.phase("change"):
                self._job.patch(lambda: self._patches(numbers, columns, few))

    def old_columns(self) -> list[str]:
        """The columns whose old values new rows and recorded changes need, whichever clauses
        apply."""
        numbers = self._recorded(range(len(self._changing)))
        if not numbers:
            return []
        return self._table if self._job.native.records_changes else self._old_columns(numbers, self._table)

    def insert(self, number: int, recorded: bool) -> int:
        """Writes the rows that one clause inserts; returns their number. `recorded` tells whether
        the commit's change files have them."""
        import pyarrow as pa

        clause = self._sql.inserts[number]
        types = _arrow_values(clause)
        named = pa.schema([types.field(i).with_name(name) for i, name in enumerate(clause.columns)])
        rules = BatchRules(RowRules.of_spec(self._job.native.spec, clause.columns))
        inserted = 0
        for batch in self._batches(self._sql.insert(number), clause.values):
            rows = rules(_back(batch.columns, named))
            inserted += self._job.insert(rows, "insert" if recorded else None)
        return inserted

    def _recorded(self, numbers: Sequence[int]) -> list[int]:
        """The clauses among these that write rows: new ones, or those of a change data feed."""
        records = self._job.native.records_changes
        return [n for n in numbers if records or self._changing[n].clause.action == "update"]

    def _patched_columns(self, numbers: Sequence[int]) -> list[str]:
        """The columns with new values if files keep their other columns; empty if files can't be
        patched."""
        changing = [self._changing[n] for n in numbers]
        if any(c.assigned is None for c in changing):
            return []
        names = {name for c in changing if c.assigned is not None for name in c.assigned.columns - c.same}
        schema = self._job.native.spec.schema
        types = {field.name: of_json(field.data_type) for field in schema.fields}
        # Values of several clauses share one column, so simple types must be the table's own.
        simple = all((data_type := types[name]) is not None and data_type.atomic for name in names)
        return sorted(names) if len(changing) == 1 or simple else []

    def _old_columns(self, numbers: Sequence[int], wanted: Collection[str]) -> list[str]:
        """The columns whose old values these clauses need for the wanted columns of new rows."""
        needed = set[str]()
        for clause in (self._changing[n] for n in numbers):
            needed |= {self._table[n] for n in clause.used} | (set(wanted) - clause.whole)
        return [name for name in self._table if name in needed]

    def _rewrite(self, numbers: Sequence[int], *, patched: bool | None) -> None:
        """Writes the new rows of files that aren't patched, and records all changes."""
        native = self._job.native
        old = self._table if native.records_changes else self._old_columns(numbers, self._table)
        changes = {n: _Change(native, self._changing[n]) for n in numbers}
        for evaluated in self._evaluated(numbers, Scan(native.picked_places(old)), patched=patched):
            for number, rows, values, _ in evaluated.by_clause():
                changes[number].take(rows, values, self._job)

    def _patches(self, numbers: Sequence[int], columns: Sequence[str], few: bool) -> Iterator[pa.RecordBatch]:
        """The new values of rows in patched files, with the rows' positions, in the files'
        order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        native = self._job.native
        rules = rules_of_whole_rows(native.spec)
        wanted = sorted({*columns, *rules.checked_columns})
        scan = Scan(native.patched_places(self._old_columns(numbers, wanted)))
        for evaluated in self._evaluated(numbers, scan, patched=True, few=few):
            parts, order = [], []
            for number, rows, values, indices in evaluated.by_clause():
                assigned = self._changing[number].assigned
                assert assigned is not None
                new = rules(assigned.put(rows, values))
                parts.append(new.select([*new.schema.names[1:_PLACED], *wanted]))
                order.append(indices)
            whole = parts[0]
            if len(parts) > 1:
                whole = one_batch(parts).take(pc.sort_indices(pa.concat_arrays(order)))
            file, row, *new_values = whole.columns
            place = self._rows.named(file, row)
            yield pa.RecordBatch.from_arrays([*new_values, *place], names=[*wanted, *PLACE])

    def _evaluated(
        self, numbers: Sequence[int], scan: Scan, *, patched: bool | None, few: bool = False
    ) -> Iterator[_Found]:
        """Changed rows with the columns of a scan, and each clause's values.

        A scan without columns of the table isn't read.
        """
        import pyarrow as pa

        table = self._table
        fields = [f for f in scan.schema if f.name not in PLACE]
        columns = [table.index(f.name) if f.name in table else len(table) + i for i, f in enumerate(fields)]
        if fields:
            self._rows.pick(scan, fields)
        # Longer than any column name, so that it can't collide.
        assigned = [c.assigned.columns for n in numbers if (c := self._changing[n]).assigned is not None]
        longest = max([*table, *(name for names in assigned for name in names)], key=len)
        place = [pa.field("act", pa.int16()), *self._rows.position_fields()]
        old = pa.schema([*(f.with_name(f"{longest}_{f.name}") for f in place), *fields])
        types = {n: _arrow_values(self._changing[n]) for n in numbers}
        values = [value for n in numbers for value in self._changing[n].values]
        for batch in self._batches(self._sql.evaluate(numbers, columns, patched=patched, few=few), values):
            start, of_clause = len(old), dict[int, list[pa.Array]]()
            for number, schema in types.items():
                of_clause[number] = batch.columns[start : start + len(schema)]
                start += len(schema)
            yield _Found(_back(batch.columns[: len(old)], old), of_clause, types)

    def _batches(self, sql: str, values: Sequence[Value]) -> Iterator[pa.RecordBatch]:
        """The batches of a query with new values; an error about a value out of range names the
        columns that it may concern."""
        try:
            yield from self._engine.batches(sql)
        except InvalidArgumentError as e:
            raise in_columns(e, [column for value in values for column in value.failing]) from e


@dataclass(frozen=True)
class _Found:
    """Changed rows: the number of their clause and their position before their columns, and each
    clause's values."""

    rows: pa.RecordBatch
    values: Mapping[int, Sequence[pa.Array]]
    types: Mapping[int, pa.Schema]

    def by_clause(self) -> Iterator[tuple[int, pa.RecordBatch, list[pa.Array], pa.Array | None]]:
        """For each clause its rows and values, and the indexes of these rows; None for all of
        them."""
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
    """A clause's change of table rows, with the way of recording it."""

    def __init__(self, native: _native.Rewrite, clause: BoundClause) -> None:
        self._assigned = clause.assigned
        self._ruled = ChangedRows(native.spec, self._assigned.columns if self._assigned is not None else ())

    def take(self, batch: pa.RecordBatch, values: Sequence[pa.Array], job: Rewriting) -> None:
        """Writes the rows' new values and records the change."""
        old = batch.select(batch.schema.names[_PLACED:])
        if self._assigned is None:
            job.record(old, "delete")
            return
        new = self._assigned.put(batch, values)
        ruled = self._ruled(new.select(new.schema.names[_PLACED:]))
        job.record(old, "update_preimage")
        job.write(lambda: iter([ruled]), "update_postimage")


def _back(columns: Sequence[pa.Array], schema: pa.Schema) -> pa.RecordBatch:
    """Converts DuckDB's columns to the table's types, including instants."""
    import pyarrow as pa

    return pa.RecordBatch.from_arrays([c.cast(f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)


def _arrow_values(clause: BoundClause) -> pa.Schema:
    """The types of a clause's values."""
    import pyarrow as pa

    fields = [{"name": str(i), "type": v.type, "nullable": True, "metadata": {}} for i, v in enumerate(clause.values)]
    return pa.schema(_native.TableSchema(json.dumps({"type": "struct", "fields": fields})))
