"""Writes new data files by Spark's own Parquet writer: rows stay in the JVM, which takes little
more than half the time of passing them to Python workers. Only for frames that are written
unchanged, to stores where renaming a file is atomic.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable
from deltaplane.spark.jvm.schema import quoted
from deltaplane.spark.jvm.spark_versions import has_sized_filters
from deltaplane.write.convert import described, partition_values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltaplane.io import records

__all__ = ["BLOOM_FILTERS", "files_by_spark"]

# Beginning of Spark's options of Bloom filters.
BLOOM_FILTERS = "parquet.bloom.filter."

# VACUUM recognises these folders and examines the files that unfinished tasks left in them.
_FOLDER = "spark-"
_CODECS = {None: "zstd", "zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "uncompressed": "none"}
# The largest Bloom filter of a column that Spark writes, and how many sizes it chooses from, each
# half of the one before.
_FILTER_BYTES, _FILTER_SIZES = 4 << 20, 14
# Types whose values Spark writes as the protocol requires, and types that a directory name
# represents exactly.
_PLAIN = {"boolean", "byte", "short", "integer", "long", "string", "date"}
_SIMPLE = _PLAIN | {"float", "double", "binary", "timestamp", "timestamp_ntz"}


def files_by_spark(
    df: DataFrame,
    location: str,
    options: Mapping[str, str] | None,
    spec: records.WriteSpec,
    max_rows: int | None = None,
) -> _native.AddedFiles | None:
    """Writes the frame's rows to new files with at most `max_rows` rows each and returns them; None
    if the rows need deltaplane's own writer.

    Deltaplane's writer is needed if a row may violate a rule that is checked during the write, gets
    a value or a position during the write, or if files have names, sizes or types that Spark's
    writer doesn't support; and on object stores, where Spark renames a file by copying it.
    """
    columns = spec.schema.to_value()["fields"]
    root = _directory(location)
    if options or root is None or not _is_plain(spec, columns) or not _fits(df, columns):
        return None
    try:
        jvm = Jvm.of(df.sparkSession)
    except NativeScanUnavailable:
        return None
    partition_columns: list[str] = spec.partition_columns
    folder = f"{_FOLDER}{uuid.uuid4()}"
    codec = _CODECS[spec.compression]
    writer = jvm.parquet_writer(df.select(*[quoted(field["name"]) for field in columns]), codec)
    if max_rows is not None:
        writer = writer.option("maxRecordsPerFile", max_rows)
    for key, value in _filter_options(spec):
        writer = writer.option(key, value)
    store = _native.RawStore.open(location, None)
    try:
        writer.partitionBy(jvm.strings(partition_columns)).parquet(f"{root}/{folder}")
        files = sorted(entry[0] for entry in store.list_all(folder))
        if root.startswith("file:"):
            _settle(root.removeprefix("file://"), files)
        described_files = list(described(files, _partitions(files, partition_columns, columns)))
        adds = _native.adopt_files(location, None, spec, described_files)
    except BaseException:
        store.delete_all([entry[0] for entry in store.list_all(folder)])
        raise
    adds, empty = adds.split_empty()
    store.delete_all(empty)
    return adds


def _is_plain(spec: records.WriteSpec, columns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether Spark's writer would produce valid files for these rows."""
    by = set(spec.partition_columns)
    needs_ours = (
        spec.mapping != "none",
        spec.partition_columns_in_files,
        spec.target_file_size_bytes is not None,
        spec.row_group_rows is not None,
        bool(spec.identity),
        bool(spec.clustered_by),
        bool(spec.bloom_filters) and not has_sized_filters(),
        not all(_is_filtered_alike(column.column, columns) for column in spec.bloom_filters),
        # Spark can't write rows without columns.
        len(by) == len(columns),
        spec.compression not in _CODECS,
    )
    return not any(needs_ours) and all(
        _is_simple(column["type"]) and (column["name"] not in by or column["type"] in _PLAIN) for column in columns
    )


def _is_filtered_alike(path: Sequence[str], columns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether Spark's writer makes a valid Bloom filter of a column: its options name a column by a
    dotted path, and its filters tell the two zeros and the bits of NaN apart."""
    fields, data_type = columns, None
    for name in path:
        data_type = next((field["type"] for field in fields if field["name"] == name), None)
        fields = data_type["fields"] if isinstance(data_type, Mapping) else ()
    return not any("." in name for name in path) and data_type not in ("float", "double")


def _filter_options(spec: records.WriteSpec) -> Iterator[tuple[str, str]]:
    """Options of Spark's writer for the Bloom filters of columns.

    Spark writes no filter of a chunk that has a dictionary, so these columns get none. Without a
    number of distinct values it chooses the smallest of some sizes that suffices.
    """
    if spec.bloom_filters:
        yield f"{BLOOM_FILTERS}max.bytes", str(_FILTER_BYTES)
        yield f"{BLOOM_FILTERS}adaptive.enabled", "true"
    for chosen in spec.bloom_filters:
        column = ".".join(chosen.column)
        yield f"parquet.enable.dictionary#{column}", "false"
        yield f"{BLOOM_FILTERS}enabled#{column}", "true"
        yield f"{BLOOM_FILTERS}fpp#{column}", repr(chosen.fpp)
        yield f"{BLOOM_FILTERS}candidates.number#{column}", str(_FILTER_SIZES)
        if chosen.ndv is not None:
            yield f"{BLOOM_FILTERS}expected.ndv#{column}", str(chosen.ndv)


def _is_simple(data_type: Any) -> bool:
    if isinstance(data_type, str):
        return data_type in _SIMPLE or data_type.startswith("decimal")
    match data_type["type"]:
        case "struct":
            return all(_is_simple(field["type"]) for field in data_type["fields"])
        case "array":
            return _is_simple(data_type["elementType"])
        case "map":
            return _is_simple(data_type["keyType"]) and _is_simple(data_type["valueType"])
    return False


def _fits(df: DataFrame, columns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the frame has exactly the table's columns, with nulls only where the table allows
    them, and no text with a limited length.

    Deltaplane's writer converts types and checks values; Spark's writer does neither.
    """
    by_name = {field["name"]: field for field in df.schema.jsonValue()["fields"]}
    return len(by_name) == len(df.columns) == len(columns) and all(
        (field := by_name.get(column["name"])) is not None
        and not _is_measured(column)
        and column["nullable"] >= field["nullable"]
        and _holds(column["type"], field["type"])
        for column in columns
    )


def _holds(wanted: Any, actual: Any) -> bool:
    """Whether two types are equal, except that `wanted` may be nullable where `found` isn't."""
    if isinstance(wanted, str) or isinstance(actual, str):
        return bool(wanted == actual)
    if wanted["type"] != actual["type"]:
        return False
    match wanted["type"]:
        case "struct":
            pairs = list(zip(wanted["fields"], actual["fields"], strict=False))
            return len(wanted["fields"]) == len(actual["fields"]) and all(
                w["name"] == f["name"]
                and not _is_measured(w)
                and w["nullable"] >= f["nullable"]
                and _holds(w["type"], f["type"])
                for w, f in pairs
            )
        case "array":
            return wanted["containsNull"] >= actual["containsNull"] and _holds(
                wanted["elementType"], actual["elementType"]
            )
        case "map":
            return (
                wanted["valueContainsNull"] >= actual["valueContainsNull"]
                and _holds(wanted["keyType"], actual["keyType"])
                and _holds(wanted["valueType"], actual["valueType"])
            )
    return False


def _is_measured(field: Mapping[str, Any]) -> bool:
    return "__CHAR_VARCHAR_TYPE_STRING" in field.get("metadata", {})


def _directory(location: str) -> str | None:
    """The location in Hadoop's notation, if Hadoop renames files there atomically."""
    if location.startswith("/"):
        return f"file://{location.rstrip('/')}"
    return location.rstrip("/") if location.startswith("hdfs://") else None


def _partitions(
    files: Sequence[str], by: Sequence[str], columns: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, str | None]]:
    """The partition values in the directory names below a write's folder."""
    named = {column["name"]: dict(column) for column in columns}
    some = {file.rpartition("/")[0]: file.partition("/")[2] for file in files}
    partitions = [named[name] for name in by]
    return {folder: partition_values_of(path, partitions, hive=True) for folder, path in some.items()}


def _settle(root: str, files: Sequence[str]) -> None:
    """Flushes files to disk: Spark's writer doesn't, and a commit must not name files that a crash
    can lose. Deletes the checksum file that Hadoop writes beside each file on a local disk."""
    folders = {f"{root}/{file.rpartition('/')[0]}" for file in files}
    while above := {folder.rpartition("/")[0] for folder in folders if folder != root} - folders:
        folders |= above
    for file in files:
        folder, _, name = f"{root}/{file}".rpartition("/")
        Path(folder, f".{name}.crc").unlink(missing_ok=True)
        _sync(f"{folder}/{name}")
    for folder in sorted(folders, reverse=True):
        _sync(folder)


def _sync(path: str) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
