"""A table's files as a dataset of pyarrow: a fragment for each file, with what the log states of
its rows, by which other libraries skip files.

Reads the log; pyarrow reads the data files. Files that pyarrow would read wrongly, those with
deletion vectors or mapped columns, are rendered when pyarrow opens them.
"""

from __future__ import annotations

import functools
import json
import operator
from collections.abc import Iterator
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InternalError, UnsupportedFeatureError
from deltaplane.expr import Predicate
from deltaplane.io.store_files import StoreFiles

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds
    import pyarrow.fs as pa_fs

    from deltaplane import _native
    from deltaplane.table.delta_table import DeltaTable

__all__ = ["arrow_dataset", "fragment_expressions", "has_unreadable_files", "with_large_types"]


def arrow_dataset(
    table: DeltaTable,
    predicate: Predicate | None,
    filesystem: pa_fs.FileSystem | None,
    parquet_read_options: ds.ParquetReadOptions | None,
    schema: pa.Schema | None,
    as_large_types: bool,
) -> ds.FileSystemDataset:
    """The dataset that `DeltaTable.to_pyarrow_dataset` returns."""
    import pyarrow as pa
    import pyarrow.dataset as ds

    if schema is None:
        schema = pa.schema(table.schema())
        schema = with_large_types(schema) if as_large_types else schema
    files = table.plan(predicate).read_all()
    unreadable = _unreadable(table, files)
    if unreadable and filesystem is not None:
        raise UnsupportedFeatureError(
            "pyarrow reads deletion vectors and mapped columns only through this table's own store: leave out "
            "filesystem, or read the table with scan"
        )
    if filesystem is None:
        sizes = dict(zip(files["path"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))
        store = StoreFiles(table.location, table.storage_options, sizes)
        filesystem = _file_system(table, store, unreadable, schema)
    form = ds.ParquetFileFormat(
        read_options=parquet_read_options,
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True),
    )
    fragments = [
        form.make_fragment(path, filesystem=filesystem, partition_expression=expression)
        for path, expression in fragment_expressions(files, schema)
    ]
    return ds.FileSystemDataset(fragments, _with_dictionaries(schema, form), form, filesystem)


def _unreadable(table: DeltaTable, files: pa.Table) -> set[str]:
    """The paths of the files whose bytes aren't the table's rows for a reader of Parquet."""
    if table._snapshot.column_mapping != "none":
        return set(files["path"].to_pylist())
    return set(files.filter(files["deletion_vector"].is_valid())["path"].to_pylist())


def has_unreadable_files(table: DeltaTable) -> bool:
    """Whether readers of Parquet files get other rows than the table's: mapped columns are named
    differently, and rows are there that deletion vectors delete."""
    snapshot = table._snapshot
    if snapshot.column_mapping != "none":
        return True
    return bool(snapshot.may_have_vectors() and table.deletion_vectors().read_all().num_rows)


def _file_system(table: DeltaTable, store: StoreFiles, rendered: set[str], schema: pa.Schema) -> pa_fs.FileSystem:
    """A file system of the table's files, which gives pyarrow the table's rows for some of them."""
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.table.rendered_files import RenderedFiles

    snapshot = table._snapshot
    chosen = {path: split for path, split in _splits(table) if path in rendered} if rendered else {}
    partition = set(table.metadata().partition_columns)
    columns = pa.schema([field for field in schema if field.name not in partition])
    return RenderedFiles(store, _native.SplitScan.of(snapshot), chosen, columns).file_system()


def _splits(table: DeltaTable) -> Iterator[tuple[str, _native.Split]]:
    """Path of each file, and the file with its deletion vector."""
    from deltaplane import _native

    paths = table.plan().read_all()["path"].to_pylist()
    # One file in each, in the order of the plan: no two files fit into a byte.
    for path, split in zip(paths, _native.scan_splits(table._snapshot, None, 1), strict=True):
        if json.dumps(path, ensure_ascii=False).encode() not in split.to_bytes():
            raise InternalError(f"the file {path} isn't where the plan has it; please report this")
        yield path, split


def _with_dictionaries(schema: pa.Schema, form: ds.ParquetFileFormat) -> pa.Schema:
    """The schema with the columns as dictionaries that the read options name."""
    import pyarrow as pa

    named = form.read_options.dictionary_columns or ()
    for index, field in enumerate(schema):
        if field.name in named:
            schema = schema.set(index, field.with_type(pa.dictionary(pa.int32(), field.type)))
    return schema


def fragment_expressions(files: pa.Table, schema: pa.Schema) -> list[tuple[str, ds.Expression | None]]:
    """Path of each file, and an expression that holds for each of its rows.

    Args:
        files: rows of `DeltaTable.plan`.
        schema: the columns as pyarrow reads them.
    """
    paths: list[str] = files["path"].to_pylist()
    outside = [path for path in paths if "://" in path or path.startswith("/")]
    if outside:
        raise UnsupportedFeatureError(f"the file {outside[0]} is outside of the table: read the table with scan")
    facts: list[list[ds.Expression]] = [[] for _ in paths]
    for name, column in _children(files, "partition").items():
        _add_partition_values(facts, column, schema.field(name))
    lowest, highest, nulls = (_children(files, name) for name in ("min", "max", "null_count"))
    rows = files["num_records"].to_pylist()
    for field in schema:
        if field.name not in nulls or not _has_order(field.type):
            continue
        count = nulls[field.name].to_pylist()
        bounds = _bounds(lowest.get(field.name), highest.get(field.name), field)
        for index, (low, high) in enumerate(bounds or [(None, None)] * len(paths)):
            facts[index].extend(_statistics(field.name, low, high, count[index], rows[index]))
    joined = [functools.reduce(operator.and_, held) if held else None for held in facts]
    return list(zip(paths, joined, strict=True))


def _children(files: pa.Table, name: str) -> dict[str, pa.ChunkedArray]:
    """The fields of a struct column; none without that column."""
    import pyarrow as pa

    if name not in files.column_names or not pa.types.is_struct(files.schema.field(name).type):
        return {}
    structs = files[name].combine_chunks()
    children = structs.flatten()
    return {structs.type.field(index).name: child for index, child in enumerate(children)}


def _add_partition_values(facts: list[list[ds.Expression]], column: Any, field: pa.Field) -> None:
    import pyarrow.compute as pc

    for held, value in zip(facts, column.cast(field.type), strict=True):
        name = pc.field(field.name)
        held.append(name == value if value.is_valid else name.is_null())


def _has_order(kind: pa.DataType) -> bool:
    """Whether bounds of the type hold for all values: those of floats leave out NaN."""
    import pyarrow as pa

    kinds = pa.types
    is_plain = kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind) or kinds.is_temporal(kind)
    return bool(is_plain or kinds.is_string(kind) or kinds.is_large_string(kind))


def _bounds(low: Any, high: Any, field: pa.Field) -> list[tuple[Any, Any]] | None:
    """Lowest and highest value of each file, in the column's type."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if low is None or high is None:
        return None
    if pa.types.is_timestamp(field.type):
        # The log states times in milliseconds, cut off.
        high = pc.add(high, pa.scalar(timedelta(milliseconds=1), pa.duration(high.type.unit)))
    return list(zip(low.cast(field.type), high.cast(field.type), strict=True))


def _statistics(name: str, low: Any, high: Any, nulls: int | None, rows: int | None) -> list[ds.Expression]:
    import pyarrow.compute as pc

    column = pc.field(name)
    if nulls is not None and nulls == rows:
        return [column.is_null()]
    known = [value for value in (low, high) if value is not None and value.is_valid]
    within = [column >= low] if low is not None and low.is_valid else []
    if high is not None and high.is_valid:
        within.append(column <= high)
    held = []
    if known:
        between = functools.reduce(operator.and_, within)
        held.append(between if nulls == 0 else between | column.is_null())
    if nulls == 0:
        held.append(column.is_valid())
    return held


def with_large_types(schema: pa.Schema) -> pa.Schema:
    """The schema with strings, binaries and lists that have 64-bit offsets.

    >>> import pyarrow as pa
    >>> with_large_types(pa.schema({"tags": pa.list_(pa.string())})).field("tags").type
    LargeListType(large_list<item: large_string>)
    """
    import pyarrow as pa

    return pa.schema([_large(field) for field in schema], metadata=schema.metadata)


def _large(field: pa.Field) -> pa.Field:
    import pyarrow as pa

    kinds, kind = pa.types, field.type
    if kinds.is_string(kind):
        return field.with_type(pa.large_string())
    if kinds.is_binary(kind):
        return field.with_type(pa.large_binary())
    if kinds.is_list(kind):
        return field.with_type(pa.large_list(_large(kind.value_field)))
    if kinds.is_struct(kind):
        return field.with_type(pa.struct([_large(kind.field(index)) for index in range(kind.num_fields)]))
    if kinds.is_map(kind):
        return field.with_type(pa.map_(_large(kind.key_field), _large(kind.item_field)))
    return field
