"""Results as deltalake gives them: objects of arro3, with strings and binaries as views."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.io.arrow_views import with_whole_buffers

if TYPE_CHECKING:
    import pyarrow as pa
    from arro3.core import RecordBatchReader, Table

__all__ = ["as_arro3_reader", "as_arro3_table", "declared", "delta_schema", "with_views", "without_infinity"]


def with_views(schema: pa.Schema) -> pa.Schema:
    """The schema with strings and binaries at the top level as views."""
    import pyarrow as pa

    return pa.schema([_viewed(field) for field in schema], metadata=schema.metadata)


def _viewed(field: pa.Field) -> pa.Field:
    import pyarrow as pa

    kinds, kind = pa.types, field.type
    if kinds.is_string(kind) or kinds.is_large_string(kind):
        return field.with_type(pa.string_view())
    if kinds.is_binary(kind) or kinds.is_large_binary(kind):
        return field.with_type(pa.binary_view())
    return field


def as_arro3_reader(reader: pa.RecordBatchReader, schema: pa.Schema | None = None) -> RecordBatchReader:
    """A reader of arro3, whose batches have this schema; by default the reader's own with views."""
    import arro3.core
    import pyarrow as pa

    wanted = with_views(reader.schema) if schema is None else schema

    def batches() -> Iterator[pa.RecordBatch]:
        for batch in reader:
            columns = [cast(column, field) for column, field in zip(batch.columns, wanted, strict=True)]
            yield pa.RecordBatch.from_arrays(columns, schema=wanted)

    return arro3.core.RecordBatchReader.from_arrow(pa.RecordBatchReader.from_batches(wanted, batches()))


def cast(column: Any, field: pa.Field) -> Any:
    """A column in a field's type, which arro3 can import."""
    return with_whole_buffers(column if column.type == field.type else column.cast(field.type))


def as_arro3_table(table: pa.Table) -> Table:
    """A table of arro3, in the same types."""
    import arro3.core

    return arro3.core.Table.from_arrow(table)


def declared(schema: pa.Schema, table: pa.Schema) -> pa.Schema:
    """The schema with the columns that are the table's as the table declares them: NOT NULL at
    every
    depth, and metadata."""
    import pyarrow as pa

    return pa.schema([table.field(field.name) if field.name in table.names else field for field in schema])


def without_infinity(table: pa.Table) -> pa.Table:
    """The table with null for infinite numbers, also in structs: deltalake states no infinite
    bounds."""
    import pyarrow as pa

    columns = [_finite(column.combine_chunks()) for column in table.columns]
    return pa.Table.from_arrays(columns, schema=table.schema)


def _numbers(column: Any) -> Sequence[Any]:
    """The values of an array of floating numbers, with any value for null, without a copy.
    pyarrow's own conversions load pandas, its functions as much memory: some 40 MB. numpy may
    not be installed."""
    import pyarrow as pa

    formats: Any = {pa.float16(): "e", pa.float32(): "f", pa.float64(): "d"}
    values: Any = memoryview(column.buffers()[1] or b"").cast("B").cast(formats[column.type])
    shown: Sequence[Any] = values[column.offset : column.offset + len(column)]
    return shown


def _finite(column: Any) -> Any:
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        if not any(map(math.isinf, _numbers(column))):
            return column
        import pyarrow.compute as pc

        return pc.if_else(pc.is_inf(column), pa.scalar(None, column.type), column)
    if pa.types.is_struct(column.type):
        fields = [column.type.field(index) for index in range(column.type.num_fields)]
        bounds = column.flatten()
        children = [_finite(child) for child in bounds]
        if all(child is bound for child, bound in zip(children, bounds, strict=True)):
            return column
        return pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
    return column


def delta_schema(schema: pa.Schema, existing: pa.Schema | None = None) -> pa.Schema:
    """The schema in the types in which deltalake writes data: signed numbers, microseconds, UTC. A
    column without values has the type of the existing table's column.

    >>> import pyarrow as pa
    >>> delta_schema(pa.schema({"n": pa.uint16(), "at": pa.timestamp("ns", "CET")})).types
    [DataType(int16), TimestampType(timestamp[us, tz=UTC])]
    """
    import pyarrow as pa

    fields = []
    for field in schema:
        kind = field.type
        if existing is not None and field.name in existing.names and pa.types.is_null(kind):
            kind = existing.field(field.name).type
        fields.append(field.with_type(_delta_type(kind)))
    return pa.schema(fields, metadata=schema.metadata)


def _delta_type(kind: Any) -> Any:
    import pyarrow as pa

    kinds = pa.types
    signed = {pa.uint8(): pa.int8(), pa.uint16(): pa.int16(), pa.uint32(): pa.int32(), pa.uint64(): pa.int64()}
    if kind in signed:
        return signed[kind]
    if kinds.is_timestamp(kind):
        return pa.timestamp("us", None if kind.tz is None else "UTC")
    if kinds.is_fixed_size_binary(kind):
        return pa.binary()
    if kinds.is_large_list(kind):
        return pa.large_list(_inner(kind))
    if kinds.is_fixed_size_list(kind):
        inner = _inner(kind)
        return pa.list_(inner.with_name("element") if inner.name == "item" else inner, kind.list_size)
    if kinds.is_list(kind):
        return pa.list_(_inner(kind))
    if kinds.is_struct(kind):
        fields = [kind.field(index) for index in range(kind.num_fields)]
        return pa.struct([field.with_type(_delta_type(field.type)) for field in fields])
    return kind


def _inner(kind: Any) -> pa.Field:
    return kind.value_field.with_type(_delta_type(kind.value_type))
