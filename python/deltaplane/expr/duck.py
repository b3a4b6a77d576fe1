"""DuckDB's side of an evaluation: a connection, values on their way in and out, its errors as Spark's.

Knows no expression and no table. Called by `program`, by queries and by the embedded engine.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.types import SparkType

if TYPE_CHECKING:
    import pyarrow as pa

_RAISED = re.compile(r"!([A-Z_]+)! (.*?)(?:' to |\" to |'|$)", re.DOTALL)


def connect(**config: str | bool | int | float | list[str]) -> Any:
    """A database in memory.

    Raises:
        UnsupportedExpressionError: DuckDB isn't installed.
    """
    try:
        import duckdb
    except ImportError as e:
        raise UnsupportedExpressionError(
            "evaluating expressions needs DuckDB: pip install 'deltaplane[local]', or write with Spark"
        ) from e
    return duckdb.connect(":memory:", config=config)


def disable_optimizers(connection: Any, names: Collection[str]) -> None:
    """Switches rules of DuckDB's optimizer off."""
    connection.execute(f"SET disabled_optimizers = '{','.join(names)}'")


def zoneless(of: pa.DataType) -> pa.DataType:
    """A type with instants as zone-less timestamps, as DuckDB is given them."""
    import pyarrow as pa

    if pa.types.is_timestamp(of):
        return pa.timestamp("us")
    if pa.types.is_struct(of):
        return pa.struct([pa.field(f.name, zoneless(f.type)) for f in of])
    if pa.types.is_map(of):
        return pa.map_(zoneless(of.key_type), zoneless(of.item_type))
    if pa.types.is_list(of):
        return pa.list_(zoneless(of.value_type))
    return of


def given(values: pa.Array, to: pa.DataType) -> pa.Array:
    """Users' values in a type that DuckDB is given.

    Raises:
        InvalidArgumentError: a value that the type doesn't hold.
    """
    import pyarrow as pa

    if pa.types.is_timestamp(values.type) and values.type.tz is not None:
        # The same instant whatever zone the data shows it in.
        values = values.cast(pa.timestamp(values.type.unit, "UTC"))
        values = values.view(pa.timestamp(values.type.unit))
    if values.type == to:
        return values
    try:
        return values.cast(to)
    except pa.ArrowException as e:
        raise InvalidArgumentError(f"values of {values.type} can't be taken as {to}: {e}") from e


def arrow_type(of: SparkType) -> pa.DataType:
    """The Arrow type of an expression's values."""
    import pyarrow as pa

    if of.name == "array":
        return pa.list_(arrow_type(of.parts[0]))
    if of.name == "map":
        return pa.map_(arrow_type(of.parts[0]), arrow_type(of.parts[1]))
    if of.name == "struct":
        return pa.struct([pa.field(n, arrow_type(t)) for n, t in zip(of.fields, of.parts, strict=True)])
    if of.interval:
        raise UnsupportedExpressionError(
            f"a result of type {of} has no form here: add it to a date or timestamp, or use the Spark engine for it"
        )
    if of.name == "decimal":
        return pa.decimal128(of.precision, of.scale)
    return {
        "byte": pa.int8(),
        "short": pa.int16(),
        "integer": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"),
        "timestamp_ntz": pa.timestamp("us"),
        "void": pa.null(),
    }[of.name]


def returned(values: pa.Array, of: SparkType) -> pa.Array:
    """DuckDB's values in the Arrow type of an expression."""
    import pyarrow as pa

    to = arrow_type(of)
    if of.name == "void":
        return pa.nulls(len(values))
    return values if values.type == to else values.cast(to)


def explained(e: Exception) -> Exception:
    """DuckDB's error as the one that Spark would raise."""
    raised = _RAISED.search(str(e))
    if raised and raised[1] == "UNSUPPORTED_VALUE":
        return UnsupportedExpressionError(f"a row has {raised[2]}, which only the Spark engine evaluates")
    if raised:
        return InvalidArgumentError(f"[{raised[1]}] {raised[2]}")
    # The names of columns there are our own.
    first = str(e).splitlines()[0].split(" when casting from source column")[0]
    if any(word in first for word in ("Out of Range", "Conversion Error", "Invalid Input")):
        return InvalidArgumentError(first)
    return UnsupportedExpressionError(f"the embedded engine can't run the expression: {first}")
