"""Applies a table's expressions to a stream of written rows: defaults, then generated columns, then
checks.

Reads the rules from a write job's spec and evaluates them in DuckDB; for Spark frames, Spark
evaluates them.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.column_defaults import default_text
from deltaplane.exceptions import ConstraintViolationError, DeltaError, InvalidArgumentError
from deltaplane.expr.program import Check, Program, compile_boolean, compile_expressions, context_at
from deltaplane.expr.storing import stored_value
from deltaplane.expr.typed import Typed
from deltaplane.expr.types import of_json
from deltaplane.io.arrow import KeptErrors, in_table_types

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.io import records

__all__ = ["BatchRules", "RowRules", "RuledRows", "not_selected", "violation"]

# Number of rows per evaluation: bounds DuckDB's memory, and is large enough to make planning time
# negligible.
_ROWS_AT_ONCE = 1 << 17
# The name of the check by which an overwrite's condition applies to a new table's rows.
_FIRST_ROWS = "replaceWhere"
_NO_COLUMNS = json.dumps({"type": "struct", "fields": []})


@dataclass(frozen=True)
class RowRules:
    """The rules of one write, as text: `checks` are (kind, name, condition), the others (column,
    expression)."""

    checks: Sequence[tuple[str, str, str]]
    generated: Sequence[tuple[str, str]]
    defaults: Sequence[tuple[str, str]]
    schema: _native.TableSchema

    @classmethod
    def of_spec(cls, spec: records.WriteSpec, present: Sequence[str]) -> RowRules:
        """The rules for data with these columns.

        A generated column that the data contains becomes a check of its value (P105); a default
        applies only to a column that the data lacks, so an explicit null stays (P107).
        """
        rules = spec.row_rules
        there = {name.lower() for name in present}
        generated = [(r.column, r.sql) for r in rules.generated]
        computed = {column for column, _ in generated}
        checks = [("CHECK constraint", c.name, c.sql) for c in rules.checks]
        if rules.only is not None:
            checks.append((_FIRST_ROWS, "", rules.only))
        checks += [("Generated column", c, f"{_name(c)} <=> ({sql})") for c, sql in generated if c.lower() in there]
        return cls(
            checks=checks,
            generated=[(c, sql) for c, sql in generated if c.lower() not in there],
            defaults=[
                (r.column, r.sql) for r in rules.defaults if r.column.lower() not in there and r.column not in computed
            ],
            schema=spec.schema,
        )

    def __bool__(self) -> bool:
        return bool(self.checks or self.generated or self.defaults)


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def not_selected(sql: str) -> str:
    """The message for new rows outside of their overwrite's condition; the first row's values
    follow it."""
    return (
        f"the data has rows that `{sql}` doesn't select: nothing was committed; filter the data, or widen the predicate. The "
        "first one:"
    )


def violation(what: str, name: str, sql: str, values: str) -> str:
    """The message for a row that violates a check."""
    if what == _FIRST_ROWS:
        return not_selected(sql) + values
    return f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] {what} {name} ({sql}) violated by row with values:{values}"


class BatchRules:
    """Compiled rules for batches of one schema.

    Raises:
        UnsupportedExpressionError: deltaplane can't evaluate the named rule with Spark's result.
    """

    def __init__(self, rules: RowRules, *, zone: str = "UTC", now_us: int | None = None) -> None:
        now_us = time.time_ns() // 1000 if now_us is None else now_us
        fields = {f.name: f.data_type for f in rules.schema.fields}

        def converted(column: str, sql: str) -> str:
            to = of_json(fields[column])
            return f"CAST(({sql}) AS {to})" if to is not None and to.atomic else sql

        defaults = _defaults(rules, fields, zone, now_us)
        texts = [converted(*rule) for rule in rules.generated]
        generated = compile_expressions(texts, rules.schema, zone=zone)
        self._added: list[tuple[list[str], Program]] = [
            ([c for c, _ in rules.defaults], defaults),
            ([c for c, _ in rules.generated], generated),
        ]
        self._checks: list[tuple[tuple[str, str, str], Check]] = [
            (rule, compile_boolean(rule[2], rules.schema, zone=zone)) for rule in rules.checks
        ]

    @property
    def checked_columns(self) -> set[str]:
        """The columns in the checks."""
        return {column for _, check in self._checks for column in check.columns}

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with all columns that the rules compute.

        Raises:
            ConstraintViolationError: a row violates a check, or its value can't be computed.
        """
        for columns, program in self._added:
            if columns:
                batch = _with(batch, columns, program)
        for rule, check in self._checks:
            broken = check.broken(batch)
            if broken.num_rows:
                said = violation(*rule, check.shown(broken.slice(0, 1)))
                error = InvalidArgumentError(said) if rule[0] == _FIRST_ROWS else ConstraintViolationError(said)
                error.violating_rows = broken.num_rows
                raise error
        return batch


def _defaults(rules: RowRules, types: Mapping[str, Any], zone: str, now_us: int) -> Program:
    """The defaults as values of their columns' types."""
    texts = [default_text(sql, types[column]) for column, sql in rules.defaults]
    program = compile_expressions(texts, _NO_COLUMNS, zone=zone, now_us=now_us)
    context, values = context_at(zone, now_us), list[Typed]()
    for (column, _), value in zip(rules.defaults, program.expressions, strict=True):
        to = of_json(types[column])
        if to is not None and value.type.parts:
            value = stored_value(context, column, value, to, "by_position", [])
        values.append(value)
    return replace(program, expressions=values)


def _with(batch: pa.RecordBatch, columns: Sequence[str], program: Program) -> pa.RecordBatch:
    import pyarrow as pa

    try:
        values: list[Any] = program.evaluate(batch)
    except InvalidArgumentError as e:
        raise ConstraintViolationError(f"the value of {', '.join(map(_name, columns))} can't be computed: {e}") from e
    names = [*batch.schema.names, *columns]
    return pa.RecordBatch.from_arrays([*batch.columns, *values], names=names)


class RuledRows:
    """A stream of rows with the rules applied; without rules, the data's own stream.

    An Arrow stream transports only the text of an error: after a failure `raise_error` raises the
    original exception. `zone` and `now_us` are those of the writing session.
    """

    def __init__(
        self,
        spec: records.WriteSpec,
        data: pa.RecordBatchReader,
        location: str,
        *,
        zone: str = "UTC",
        now_us: int | None = None,
    ) -> None:
        import pyarrow as pa

        rules, schema, rows = RowRules.of_spec(spec, data.schema.names), data.schema, iter(data)
        if rules:
            try:
                data = in_table_types(data)
                schema = data.schema
                ruled = BatchRules(rules, zone=zone, now_us=now_us)
            except DeltaError as e:
                e.table = location
                raise
            schema = ruled(pa.RecordBatch.from_pylist([], schema=schema)).schema
            rows = _ruled(data, ruled)
        self._kept = KeptErrors(rows, location)
        self.reader = pa.RecordBatchReader.from_batches(schema, iter(self._kept))

    def raise_error(self) -> None:
        """Raises the error that ended the stream, if any."""
        self._kept.raise_error()


def _ruled(data: pa.RecordBatchReader, ruled: BatchRules) -> Iterator[pa.RecordBatch]:
    for batch in data:
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            yield ruled(batch.slice(start, _ROWS_AT_ONCE))
