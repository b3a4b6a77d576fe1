"""Expressions compiled for a table's columns, and evaluated batch by batch in DuckDB (the extra
`local`).

Only the columns in an expression go to DuckDB, under generated names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from deltaplane import _native
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.arrow_literals import shown_value
from deltaplane.expr.duckdb_values import (
    arrow_type,
    connect,
    disable_optimizers,
    explained,
    returned,
    values_for_duckdb,
    zoneless,
)
from deltaplane.expr.typed import Context, Typed
from deltaplane.expr.types import SparkType, of_json
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Check",
    "Program",
    "arrow_type",
    "compile_boolean",
    "compile_expressions",
    "context_at",
    "one_batch",
    "violations",
]

_OFFSET = re.compile(r"([+-])(\d{1,2})(?::(\d{2}))?")


class SchemaLike(Protocol):
    """A table's schema, as `deltaplane.Schema`."""

    def to_json(self) -> str:
        """Its JSON."""


def context_at(zone: str, now_us: int | None) -> Context:
    """The session facts for translations: time zone, and current time in microseconds since the
    epoch."""
    if zone in ("UTC", "Z", "GMT", "Etc/UTC"):
        return Context(zone, 0, now_us)
    match = _OFFSET.fullmatch(zone)
    if match is None:
        return Context(zone, None, now_us)
    minutes = int(match[2]) * 60 + int(match[3] or 0)
    return Context(zone, (minutes if match[1] == "+" else -minutes) * 60_000_000, now_us)


@dataclass
class Program:
    """Expressions over one schema. `columns` are those that occur; `types` are the expressions'
    types.

    `intervals` tells whether one of them subtracts two dates or times.
    """

    expressions: Sequence[Typed]
    columns: dict[str, str]
    schema_json: str
    intervals: bool = False
    _connection: Any = None

    @cached_property
    def _schema(self) -> _native.TableSchema:
        return _native.TableSchema(self.schema_json)

    @property
    def types(self) -> list[SparkType]:
        """The Spark type of each expression."""
        return [e.type for e in self.expressions]

    def evaluate(self, batch: pa.RecordBatch) -> list[pa.Array]:
        """The value of each expression for each row; columns of the batch are found ignoring case.

        Raises:
            InvalidArgumentError: a row for which Spark fails too (overflow, division by zero, an
                impossible cast).
            UnsupportedExpressionError: a row without a known exact value; or the extra `local` is
                missing.
        """
        import pyarrow as pa

        connection = self._connected()
        connection.register("rows", self._input_table(batch))
        try:
            query = ", ".join(f"{e.sql} AS v{i}" for i, e in enumerate(self.expressions))
            made = connection.sql(f"SELECT {query} FROM rows").to_arrow_table()
        except Exception as e:
            raise explained(e) from e
        finally:
            connection.unregister("rows")
        arrays = [c.combine_chunks() if isinstance(c, pa.ChunkedArray) else c for c in made.columns]
        return [returned(a, e.type) for a, e in zip(arrays, self.expressions, strict=True)]

    def _input_table(self, batch: pa.RecordBatch) -> pa.Table:
        import pyarrow as pa

        wanted = {f.name: f.type for f in pa.schema(self._schema)}
        there = {name.lower(): i for i, name in enumerate(batch.schema.names)}
        arrays, names = [pa.nulls(batch.num_rows, pa.int8())], ["r"]
        for column, name in self.columns.items():
            index = there.get(column.lower())
            array = pa.nulls(batch.num_rows, wanted[column]) if index is None else batch.column(index)
            if pa.types.is_nested(array.type) and array.type != wanted[column]:
                array = self._stored(column, array)
            arrays.append(values_for_duckdb(array, zoneless(wanted[column])))
            names.append(name)
        return pa.Table.from_arrays(arrays, names=names)

    def _stored(self, column: str, values: pa.Array) -> pa.Array:
        """Values in the column's stored form: Arrow's own cast matches a struct's fields by case,
        and makes other fields null."""
        import pyarrow as pa

        rows = pa.RecordBatch.from_arrays([values], names=[column])
        stored = Scan(_native.rows_in_table_types(rows, self._schema)).to_arrow().column(0)
        return stored.chunk(0) if stored.num_chunks == 1 else stored.combine_chunks()

    def _connected(self) -> Any:
        if self._connection is None:
            from deltaplane.expr.functions.core_functions import register

            self._connection = connect(threads=1)
            register(self._connection, " ".join(e.sql for e in self.expressions), set())
            # The rules move repeated expressions out of TRY, and turn `x + 1 > 0` into a test that
            # can't overflow.
            unwanted = ("common_subexpressions", "expression_rewriter", "statistics_propagation")
            disable_optimizers(self._connection, unwanted)
        return self._connection


def compile_expressions(
    texts: Sequence[str], schema: SchemaLike | str, *, zone: str = "UTC", now_us: int | None = None
) -> Program:
    """Compiles Spark SQL expressions over a table's columns.

    Args:
        texts: the expressions.
        schema: the table's schema, or its JSON.
        zone: the session's time zone: UTC or a fixed offset. With another one, expressions that
            depend on it are refused.
        now_us: the current time in microseconds since the epoch, where an expression may ask for
            it.

    Raises:
        InvalidArgumentError: not an expression, an unknown column, or incompatible types.
        UnsupportedExpressionError: a function or conversion without an exact translation, by name.

    >>> import pyarrow as pa
    >>> from deltaplane.schema import Field, Schema
    >>> program = compile_expressions(["upper_limit - 1", "day > '2024-01-31'"], Schema(
    ...     [Field("upper_limit", "integer"), Field("day", "date")]))
    >>> [str(t) for t in program.types]
    ['integer', 'boolean']
    >>> [a.to_pylist() for a in program.evaluate(pa.record_batch({"upper_limit": pa.array([5], pa.int32())}))]
    [[4], [None]]
    """
    from deltaplane.expr.bind import Binder
    from deltaplane.expr.syntax import parse, shown

    schema_json = schema if isinstance(schema, str) else schema.to_json()
    # A source's columns may have types that no table has: the core refuses these, and expressions
    # can't use them.
    columns = {f["name"]: of_json(f["type"]) for f in json.loads(schema_json)["fields"]}
    binder = Binder(columns, context_at(zone, now_us))
    bound = []
    for sql in texts:
        try:
            bound.append(binder.bind(parse(sql)))
        except (InvalidArgumentError, UnsupportedExpressionError) as e:
            raise type(e)(f"{e} (in the expression `{shown(sql)}`)") from e
        except RecursionError as e:
            raise UnsupportedExpressionError(
                f"the expression is nested too deeply for the embedded engine: use the Spark engine for it ({shown(sql)})"
            ) from e
    return Program(bound, binder.used, schema_json, binder.context.intervals)


@dataclass(frozen=True)
class Check:
    """A condition that every row must satisfy: false and null both violate it (P101, P103)."""

    sql: str
    program: Program

    @property
    def columns(self) -> list[str]:
        """The columns in the condition."""
        return list(self.program.columns)

    def met(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that satisfy it.

        Raises:
            InvalidArgumentError: a row for which Spark's evaluation fails as well.
        """
        (met,) = self.program.evaluate(batch)
        # Null doesn't satisfy the condition.
        return _chosen(batch, met)

    def broken(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a batch that violate it.

        Raises:
            ConstraintViolationError: a row for which the condition can't be computed.
        """
        import pyarrow.compute as pc

        try:
            (met,) = self.program.evaluate(batch)
        except InvalidArgumentError as e:
            raise ConstraintViolationError(f"the condition `{self.sql}` can't be computed for a row: {e}") from e
        return _chosen(batch, pc.invert(pc.fill_null(met, False)))

    def shown(self, row: pa.RecordBatch) -> str:
        """The values of the condition's columns in a row, a line for each."""
        there = {name.lower(): i for i, name in enumerate(row.schema.names)}
        lines = []
        for column in self.columns:
            index = there.get(column.lower())
            lines.append(f"\n - {column} : {'null' if index is None else shown_value(row.column(index)[0])}")
        return "".join(lines)


def _chosen(batch: pa.RecordBatch, mask: pa.Array) -> pa.RecordBatch:
    """The rows of a batch for which the mask is true."""
    import pyarrow as pa

    rows = mask.true_count
    if rows in (0, batch.num_rows):
        return batch.slice(0, rows)
    try:
        return batch.filter(mask)
    except pa.ArrowNotImplementedError:
        # Arrow can't filter views and run-end encoded values, but can concatenate their slices.
        wanted = mask.to_pylist()
        slices = [batch.slice(row, 1) for row, is_wanted in enumerate(wanted) if is_wanted]
        return one_batch(slices)


def one_batch(batches: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """The rows of one or more batches of one schema, in their order."""
    import pyarrow as pa

    # `pyarrow.concat_batches` is missing in the oldest supported version.
    columns = [pa.concat_arrays(list(parts)) for parts in zip(*(batch.columns for batch in batches), strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=batches[0].schema)


def compile_boolean(sql: str, schema: SchemaLike | str, *, zone: str = "UTC", now_us: int | None = None) -> Check:
    """Compiles a condition over a table's columns.

    Args:
        sql: the condition, as Spark SQL.
        schema: the table's schema, or its JSON.
        zone: the session's time zone.
        now_us: the current time in microseconds since the epoch, where the condition may ask for
            it.

    Raises:
        InvalidArgumentError: not a condition over these columns.
        UnsupportedExpressionError: an expression that the embedded engine doesn't evaluate as Spark
            does, by name.

    >>> from deltaplane.schema import Field, Schema
    >>> compile_boolean("amount > 0 AND Day IS NOT NULL", Schema([Field("amount", "long"), Field("day", "date")])).columns
    ['amount', 'day']
    """
    program = compile_expressions([sql], schema, zone=zone, now_us=now_us)
    if program.types[0].name != "boolean":
        raise InvalidArgumentError(f"`{sql}` is no condition: its type is {program.types[0]}")
    return Check(sql, program)


def violations(check: Check, stream: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows of a stream that violate a check, batch by batch; batches without one are left out.

    >>> import pyarrow as pa
    >>> from deltaplane.schema import Field, Schema
    >>> check = compile_boolean("x > 0", Schema([Field("x", "long")]))
    >>> [b["x"].to_pylist() for b in violations(check, [pa.record_batch({"x": [1, -1, None]})])]
    [[-1, None]]
    """
    for batch in stream:
        broken = check.broken(batch)
        if broken.num_rows:
            yield broken
