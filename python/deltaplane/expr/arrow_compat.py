"""Converts arrays to layouts that DuckDB reads: views of lists and run-end encoded values become
plain ones.

pyarrow's own cast of a list view returns an invalid array, with which DuckDB reads foreign memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["integers", "plain"]


def integers(values: Iterable[int]) -> pa.Array:
    """An array of 64-bit integers without nulls. `pa.array` and `pa.scalar` load pandas, which
    takes 45 MB.

    >>> integers(range(3)).to_pylist()
    [0, 1, 2]
    """
    import pyarrow as pa

    numbers = array("q", values)
    return pa.Array.from_buffers(pa.int64(), len(numbers), [None, pa.py_buffer(numbers)])


def plain(values: pa.Array) -> pa.Array:
    """The same values; an array without such parts is returned unchanged.

    >>> import pyarrow as pa
    >>> views = pa.array([[1], None, [2, 3]], pa.list_view(pa.int64()))
    >>> str(plain(views).type), plain(views.slice(1)).to_pylist()
    ('large_list<item: int64>', [None, [2, 3]])
    """
    import pyarrow as pa

    data_type = values.type
    if not _has_views(data_type):
        return values
    if pa.types.is_run_end_encoded(data_type):
        import pyarrow.compute as pc

        return plain(pc.run_end_decode(values))
    if pa.types.is_struct(data_type):
        parts = [plain(values.field(i)) for i in range(data_type.num_fields)]
        fields = [pa.field(f.name, p.type) for f, p in zip(data_type, parts, strict=True)]
        return pa.StructArray.from_arrays(parts, fields=fields, mask=values.is_null())
    if pa.types.is_map(data_type):
        # A conversion to a list of entries would lose values behind a null or before the first row.
        entries = values.view(pa.list_(pa.struct([data_type.key_field, data_type.item_field])))
        keys, items = (plain(part) for part in entries.flatten().flatten())
        return pa.MapArray.from_arrays(_offsets(entries).cast(pa.int32()), keys, items, mask=values.is_null())
    return pa.LargeListArray.from_arrays(_offsets(values), plain(values.flatten()), mask=values.is_null())


def _has_views(data_type: pa.DataType) -> bool:
    import pyarrow as pa

    is_one = (
        pa.types.is_list_view(data_type)
        or pa.types.is_large_list_view(data_type)
        or pa.types.is_run_end_encoded(data_type)
    )
    inner = (
        (data_type.key_type, data_type.item_type)
        if pa.types.is_map(data_type)
        else (data_type.field(i).type for i in range(data_type.num_fields))
    )
    return is_one or (not pa.types.is_dictionary(data_type) and any(map(_has_views, inner)))


def _offsets(lists: pa.Array) -> pa.Array:
    """The offset of each list among all values, and the end of the last one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.fill_null(pc.list_value_length(lists), 0).cast(pa.int64())
    return pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(lengths)])
