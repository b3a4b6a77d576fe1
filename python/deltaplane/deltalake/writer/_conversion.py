"""The types in which deltalake writes data: signed numbers, microseconds, UTC."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa
    from arro3.core import Schema as ArrowSchema


def _convert_arro3_schema_to_delta(schema: ArrowSchema, existing_schema: ArrowSchema | None = None) -> ArrowSchema:
    """The schema of arro3 in the types of tables; a column without values has the type of the
    existing table's column."""
    import arro3.core
    import pyarrow as pa

    existing = None if existing_schema is None else pa.schema(existing_schema)
    return arro3.core.Schema.from_arrow(delta_schema(pa.schema(schema), existing))


def delta_schema(schema: pa.Schema, existing: pa.Schema | None = None) -> pa.Schema:
    """The same of pyarrow's schema.

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
