"""New data files by Spark's own Parquet writer: rows stay in the JVM, which costs little more than
half of what it takes to hand them to Python's workers. For frames that are written as they are,
where renaming a file is one step.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable
from deltaplane.spark.jvm.schema import quoted
from deltaplane.write.convert import described, partition_values_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from deltaplane.io import records

__all__ = ["files_by_spark"]

# VACUUM knows these folders: it looks at what tasks that weren't done left in them.
_FOLDER = "spark-"
_CODECS = {None: "zstd", "zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "uncompressed": "none"}
# Types whose values Spark writes as the protocol wants them, and those that a directory's name
# tells exactly.
_PLAIN = {"boolean", "byte", "short", "integer", "long", "string", "date"}
_SIMPLE = _PLAIN | {"float", "double", "binary", "timestamp", "timestamp_ntz"}


def files_by_spark(
    df: DataFrame,
    location: str,
    options: Mapping[str, str] | None,
    spec: records.WriteSpec,
    max_rows: int | None = None,
) -> list[str] | None:
    """The adds of new files with the frame's rows, of which each has at most `max_rows`; None where
    the rows need our own writer.

    That is where a row may break a rule that is judged while it is written, gets a value or a place
    on the way, or where files have names, sizes or types that Spark's writer doesn't give them; and
    on object stores, where Spark moves a file by copying it.
    """
    columns = _native.TableSchema(spec.schema).to_value()["fields"]
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
    store = _native.RawStore.open(location, None)
    try:
        writer.partitionBy(jvm.strings(partition_columns)).parquet(f"{root}/{folder}")
        files = sorted(found[0] for found in store.list_all(folder))
        if root.startswith("file:"):
            _settle(root.removeprefix("file://"), files)
        described_files = list(described(files, _partitions(files, partition_columns, columns)))
        adds = _native.adopt_files(location, None, spec, described_files)
    except BaseException:
        store.delete_all([found[0] for found in store.list_all(folder)])
        raise
    empty = {file for file, add in zip(files, adds, strict=True) if _rows(add) == 0}
    store.delete_all(sorted(empty))
    return [add for file, add in zip(files, adds, strict=True) if file not in empty]


def _is_plain(spec: records.WriteSpec, columns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether files are what Spark would write of such rows."""
    by = set(spec.partition_columns)
    needs_ours = (
        spec.mapping != "none",
        spec.partition_columns_in_files,
        spec.target_file_size_bytes is not None,
        spec.row_group_rows is not None,
        bool(spec.identity),
        bool(spec.clustered_by),
        # Spark writes no rows without columns.
        len(by) == len(columns),
        spec.compression not in _CODECS,
    )
    return not any(needs_ours) and all(
        _is_simple(column["type"]) and (column["name"] not in by or column["type"] in _PLAIN) for column in columns
    )


def _is_simple(of: Any) -> bool:
    if isinstance(of, str):
        return of in _SIMPLE or of.startswith("decimal")
    match of["type"]:
        case "struct":
            return all(_is_simple(field["type"]) for field in of["fields"])
        case "array":
            return _is_simple(of["elementType"])
        case "map":
            return _is_simple(of["keyType"]) and _is_simple(of["valueType"])
    return False


def _fits(df: DataFrame, columns: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the frame has just the table's columns, with nulls only where they may be, and no
    text of a given length.

    Our own writer converts types and looks at values; Spark's does neither.
    """
    given = {field["name"]: field for field in df.schema.jsonValue()["fields"]}
    return len(given) == len(df.columns) == len(columns) and all(
        (field := given.get(column["name"])) is not None
        and not _is_measured(column)
        and column["nullable"] >= field["nullable"]
        and _holds(column["type"], field["type"])
        for column in columns
    )


def _holds(wanted: Any, found: Any) -> bool:
    """Whether two types are equal but for nulls that `wanted` may have and `found` hasn't."""
    if isinstance(wanted, str) or isinstance(found, str):
        return bool(wanted == found)
    if wanted["type"] != found["type"]:
        return False
    match wanted["type"]:
        case "struct":
            pairs = list(zip(wanted["fields"], found["fields"], strict=False))
            return len(wanted["fields"]) == len(found["fields"]) and all(
                w["name"] == f["name"]
                and not _is_measured(w)
                and w["nullable"] >= f["nullable"]
                and _holds(w["type"], f["type"])
                for w, f in pairs
            )
        case "array":
            return wanted["containsNull"] >= found["containsNull"] and _holds(
                wanted["elementType"], found["elementType"]
            )
        case "map":
            return (
                wanted["valueContainsNull"] >= found["valueContainsNull"]
                and _holds(wanted["keyType"], found["keyType"])
                and _holds(wanted["valueType"], found["valueType"])
            )
    return False


def _is_measured(field: Mapping[str, Any]) -> bool:
    return "__CHAR_VARCHAR_TYPE_STRING" in field.get("metadata", {})


def _directory(location: str) -> str | None:
    """The location as Hadoop names it, if it renames files there in one step."""
    if location.startswith("/"):
        return f"file://{location.rstrip('/')}"
    return location.rstrip("/") if location.startswith("hdfs://") else None


def _partitions(
    files: Sequence[str], by: Sequence[str], columns: Sequence[Mapping[str, Any]]
) -> dict[str, dict[str, str | None]]:
    """The partition values that directories below a write's folder tell."""
    named = {column["name"]: dict(column) for column in columns}
    some = {file.rpartition("/")[0]: file.partition("/")[2] for file in files}
    partitions = [named[name] for name in by]
    return {folder: partition_values_of(path, partitions, hive=True) for folder, path in some.items()}


def _settle(root: str, files: Sequence[str]) -> None:
    """Makes files durable: Spark's writer leaves that to the system, and a commit may not name what
    a crash can take away. Hadoop leaves a sum beside each file on a local disk, which nobody
    reads."""
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


def _rows(add: str) -> int | None:
    stats = json.loads(add).get("stats")
    rows: int | None = None if stats is None else json.loads(stats)["numRecords"]
    return rows
