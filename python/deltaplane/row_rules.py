"""What a table's expressions ask of written rows, applied to a stream: defaults, then generated columns, then checks.

Takes the rules from a write job's spec and evaluates them in DuckDB; Spark does so itself. Called by `deltaplane.write`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

from deltaplane.exceptions import ConstraintViolationError, DeltaError, InvalidArgumentError
from deltaplane.expr.program import Check, Program, compile_boolean, compile_expressions
from deltaplane.expr.types import of_json

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RowRules", "RuledRows", "violation"]

# Rows evaluated at once: bounds what DuckDB holds, large enough that planning doesn't count.
_ROWS_AT_ONCE = 1 << 17


@dataclass(frozen=True)
class RowRules:
    """The rules of one write, as text: `checks` are (what it is, name, condition), the others (column, expression)."""

    checks: Sequence[tuple[str, str, str]]
    generated: Sequence[tuple[str, str]]
    defaults: Sequence[tuple[str, str]]
    schema_json: str

    @classmethod
    def of_spec(cls, spec: str, given: Sequence[str]) -> RowRules:
        """The rules for data with these columns.

        A generated column that the data has becomes a check of its value (P105); a default counts only for a column
        that the data lacks, so an explicit null stays (P107).
        """
        parsed = json.loads(spec)
        rules = parsed["row_rules"]
        there = {name.lower() for name in given}
        generated = [(r["column"], r["sql"]) for r in rules["generated"]]
        computed = {column for column, _ in generated}
        checks = [("CHECK constraint", c["name"], c["sql"]) for c in rules["checks"]]
        checks += [("Generated column", c, f"{_name(c)} <=> ({sql})") for c, sql in generated if c.lower() in there]
        return cls(
            checks=checks,
            generated=[(c, sql) for c, sql in generated if c.lower() not in there],
            defaults=[
                (r["column"], r["sql"])
                for r in rules["defaults"]
                if r["column"].lower() not in there and r["column"] not in computed
            ],
            schema_json=parsed["schema"],
        )

    def __bool__(self) -> bool:
        return bool(self.checks or self.generated or self.defaults)


def _name(column: str) -> str:
    return "`" + column.replace("`", "``") + "`"


def violation(what: str, name: str, sql: str, values: str) -> str:
    """What is said of a row that breaks a check."""
    return f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] {what} {name} ({sql}) violated by row with values:{values}"


class RuledRows:
    """A stream of rows with the rules applied; without rules it is the data's own.

    An Arrow stream carries only the text of an error: after a failure `raise_error` raises what happened.
    """

    def __init__(self, spec: str, data: pa.RecordBatchReader, location: str) -> None:
        import pyarrow as pa

        self._location = location
        self._error: DeltaError | None = None
        rules = RowRules.of_spec(spec, data.schema.names)
        if not rules:
            self.reader = data
            return
        try:
            self._compile(rules)
        except DeltaError as e:
            e.table = location
            raise
        empty = self._ruled(pa.RecordBatch.from_pylist([], schema=data.schema))
        self.reader = pa.RecordBatchReader.from_batches(empty.schema, self._batches(data))

    def raise_error(self) -> None:
        """Raises the error that ended the stream, if one did."""
        if self._error is not None:
            raise self._error

    def _compile(self, rules: RowRules) -> None:
        fields = {f["name"]: f["type"] for f in json.loads(rules.schema_json)["fields"]}

        def converted(column: str, sql: str) -> str:
            to = of_json(fields[column])
            return f"CAST(({sql}) AS {to})" if to is not None and to.atomic else sql

        none = json.dumps({"type": "struct", "fields": []})
        texts = [converted(*rule) for rule in rules.defaults]
        defaults = compile_expressions(texts, none, now_us=time.time_ns() // 1000)
        generated = compile_expressions([converted(*rule) for rule in rules.generated], rules.schema_json)
        self._added: list[tuple[list[str], Program]] = [
            ([c for c, _ in rules.defaults], defaults),
            ([c for c, _ in rules.generated], generated),
        ]
        self._checks: list[tuple[tuple[str, str, str], Check]] = [
            (rule, compile_boolean(rule[2], rules.schema_json)) for rule in rules.checks
        ]

    def _batches(self, data: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            for batch in data:
                for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
                    yield self._ruled(batch.slice(start, _ROWS_AT_ONCE))
        except DeltaError as e:
            e.table = self._location
            self._error = e
            raise

    def _ruled(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for columns, program in self._added:
            if columns:
                batch = self._with(batch, columns, program)
        for rule, check in self._checks:
            broken = check.broken(batch)
            if broken.num_rows:
                self._break(rule, check, broken)
        return batch

    def _with(self, batch: pa.RecordBatch, columns: Sequence[str], program: Program) -> pa.RecordBatch:
        import pyarrow as pa

        try:
            values: list[Any] = program.evaluate(batch)
        except InvalidArgumentError as e:
            raise ConstraintViolationError(
                f"the value of {', '.join(map(_name, columns))} can't be computed: {e}"
            ) from e
        names = [*batch.schema.names, *columns]
        return pa.RecordBatch.from_arrays([*batch.columns, *values], names=names)

    def _break(self, rule: tuple[str, str, str], check: Check, rows: pa.RecordBatch) -> NoReturn:
        raise ConstraintViolationError(violation(*rule, check.shown(rows.slice(0, 1))))
