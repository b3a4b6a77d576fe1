"""Strings and binaries as views, in versions of pyarrow that crash where they export some of them.

Before pyarrow 25 a cast to a view type leaves a data buffer out, as None, if no value is longer
than 12 bytes; the export to Arrow's C interface reads the size of every data buffer and ends the
process (https://github.com/apache/arrow/issues/49740). An array that has an empty buffer there
instead, or another type, is exported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["with_whole_buffers", "without_views"]

# The validity and the views themselves come before the data buffers.
_DATA = 2


def with_whole_buffers(column: pa.Array) -> pa.Array:
    """The column, if it is of views with an empty buffer for each that is missing.

    >>> import pyarrow as pa
    >>> views = pa.array(["a"]).cast(pa.string_view())
    >>> None in [buffer and buffer.size for buffer in with_whole_buffers(views).buffers()[2:]]
    False
    """
    import pyarrow as pa

    if not _is_view(column.type):
        return column
    buffers = column.buffers()
    if all(buffer is not None for buffer in buffers[_DATA:]):
        return column
    data = [pa.py_buffer(b"") if buffer is None else buffer for buffer in buffers[_DATA:]]
    return pa.Array.from_buffers(column.type, len(column), [*buffers[:_DATA], *data], column.null_count, column.offset)


def without_views(schema: pa.Schema) -> pa.Schema:
    """The schema with large strings and binaries, which hold as much, in place of views at every
    depth; the same schema if there are none, or if this pyarrow exports them all.

    >>> import pyarrow as pa
    >>> schema = pa.schema({"s": pa.string_view(), "l": pa.list_(pa.binary_view())})
    >>> views = int(pa.__version__.partition(".")[0]) >= 25
    >>> without_views(schema).types == (schema.types if views else [pa.large_string(), pa.list_(pa.large_binary())])
    True
    """
    import pyarrow as pa

    if int(pa.__version__.partition(".")[0]) >= 25:
        return schema
    fields = [_plain(field) for field in schema]
    return schema if fields == list(schema) else pa.schema(fields, metadata=schema.metadata)


def _is_view(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string_view(kind) or pa.types.is_binary_view(kind))


def _plain(field: pa.Field) -> pa.Field:
    return field.with_type(_plain_type(field.type))


def _plain_type(kind: Any) -> Any:
    import pyarrow as pa

    if _is_view(kind):
        return pa.large_string() if pa.types.is_string_view(kind) else pa.large_binary()
    if pa.types.is_struct(kind):
        return pa.struct([_plain(kind.field(index)) for index in range(kind.num_fields)])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_field), _plain(kind.item_field), kind.keys_sorted)
    if pa.types.is_large_list(kind):
        return pa.large_list(_plain(kind.value_field))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_field), kind.list_size)
    return pa.list_(_plain(kind.value_field)) if pa.types.is_list(kind) else kind
