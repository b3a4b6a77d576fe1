"""What a catalog of Hive's kind stores of a Delta table, as Spark and delta-spark write and read
it: parameters, the parts of a long schema, the placeholder column, and where the location is.

Pure: no I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaplane import _native
from deltaplane.exceptions import DeltaError, InvalidArgumentError

__all__ = [
    "INPUT_FORMAT",
    "OUTPUT_FORMAT",
    "PLACEHOLDER_COLUMN",
    "PLACEHOLDER_SUFFIX",
    "PROVIDER",
    "SERDE",
    "TableFacts",
    "hive_columns",
    "is_delta",
    "is_of_data_source",
    "location_of",
    "parameters",
    "same_parameters",
    "stored_location",
    "updated",
    "version_in",
]

PROVIDER = "spark.sql.sources.provider"
SCHEMA = "spark.sql.sources.schema"
VERSION = "delta.lastUpdateVersion"
TIMESTAMP = "delta.lastCommitTimestamp"
# Spark's own threshold for one parameter's value, spark.sql.sources.schemaStringLengthThreshold.
PART_LENGTH = 4000
# Spark writes this column and these classes for formats that Hive doesn't read.
PLACEHOLDER_COLUMN = ("col", "array<string>", "from deserializer")
INPUT_FORMAT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
OUTPUT_FORMAT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"
SERDE = "org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe"
# The suffix of the location of Spark's external tables, whose real location is the parameter `path`
# of the SerDe.
PLACEHOLDER_SUFFIX = "-__PLACEHOLDER__"

# Parameters of the metastore and of Spark, which no property of a table may replace.
_RESERVED = re.compile(r"spark\.sql\..*|EXTERNAL|table_type|comment|numFiles|totalSize|transient_lastDdlTime", re.I)
# Parameters that follow from the log, which a refresh replaces.
_FROM_LOG = re.compile(r"spark\.sql\.sources\.schema($|\.)|delta\.|comment$")
_SCHEMA_PART = re.compile(r"spark\.sql\.sources\.schema\.part\.(\d{1,6})", re.ASCII)
_SCHEMA_KEY = re.compile(r"spark\.sql\.sources\.schema(\.numParts|\.part\.\d{1,6})?", re.ASCII)
# The names of Spark's types in Hive.
_HIVE_TYPES = {
    "long": "bigint",
    "integer": "int",
    "short": "smallint",
    "byte": "tinyint",
    "timestamp_ntz": "timestamp",
    # Hive has no such types: Spark stores the bytes.
    "variant": "struct<metadata:binary,value:binary>",
}


@dataclass(frozen=True)
class TableFacts:
    """A version's metadata, as far as catalogs store it.

    `schema` is the text of `schemaString`; `features` are those that the protocol lists.
    """

    schema: str
    partition_columns: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    description: str | None = None
    reader: int | None = None
    writer: int | None = None
    features: Sequence[str] = ()
    version: int | None = None
    timestamp_ms: int | None = None


def parameters(facts: TableFacts) -> dict[str, str]:
    """The parameters that follow from a version, as delta-spark writes them with
    `spark.databricks.delta.catalog.update.enabled`.

    >>> sorted(parameters(TableFacts('{"type":"struct","fields":[]}', properties={"delta.appendOnly": "true"})))
    ['delta.appendOnly', 'spark.sql.sources.provider', 'spark.sql.sources.schema']
    """
    result = {key: value for key, value in facts.properties.items() if not _RESERVED.fullmatch(key)}
    result |= {f"delta.feature.{name}": "supported" for name in facts.features}
    numbers = {
        "delta.minReaderVersion": facts.reader,
        "delta.minWriterVersion": facts.writer,
        VERSION: facts.version,
        TIMESTAMP: facts.timestamp_ms,
    }
    result |= {key: str(number) for key, number in numbers.items() if number is not None}
    if facts.description:
        result["comment"] = facts.description
    return {**result, PROVIDER: "delta", **_schema_parameters(facts.schema)}


def _schema_parameters(schema: str) -> dict[str, str]:
    if len(schema) <= PART_LENGTH:
        return {SCHEMA: schema}
    parts = [schema[start : start + PART_LENGTH] for start in range(0, len(schema), PART_LENGTH)]
    numbered = {f"{SCHEMA}.part.{number}": part for number, part in enumerate(parts)}
    return {f"{SCHEMA}.numParts": str(len(parts)), **numbered}


def updated(old: Mapping[str, str], facts: TableFacts, known: Mapping[str, str] | None = None) -> dict[str, str]:
    """The entry's parameters for a newer version: what follows from the log is replaced, other
    parameters stay. `known` are the properties of the version that the entry was written for."""
    gone = {key for key in known or () if not _RESERVED.fullmatch(key)}
    others = {key: value for key, value in old.items() if not _FROM_LOG.match(key) and key not in gone}
    return {**others, **parameters(facts)}


def same_parameters(old: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether two entries differ in nothing but the number and time of their version, and the order
    of members in the schema's text."""
    return _comparable(old) == _comparable(new)


def _comparable(entry: Mapping[str, str]) -> tuple[dict[str, str], _native.TableSchema | str]:
    others = {k: v for k, v in entry.items() if k not in (VERSION, TIMESTAMP) and _SCHEMA_KEY.fullmatch(k) is None}
    parts = sorted((int(m[1]), v) for k, v in entry.items() if (m := _SCHEMA_PART.fullmatch(k)))
    schema = entry.get(SCHEMA) or "".join(part for _, part in parts)
    try:
        return others, _native.TableSchema(schema)
    except DeltaError:
        return others, schema


def version_in(entry: Mapping[str, str]) -> int | None:
    """The version that an entry was last updated to, if it says so."""
    text = entry.get(VERSION, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


def is_delta(entry: Mapping[str, str]) -> bool:
    """Whether an entry's parameters say that the table is a Delta table: Spark's provider, which is
    `deltaplane` for tables of `deltaplane.spark`, or the table type that Athena and Glue's crawlers
    write.

    >>> is_delta({"spark.sql.sources.provider": "DELTA"}), is_delta({"table_type": "ICEBERG"}), is_delta({})
    (True, False, False)
    """
    return entry.get("table_type", "").lower() == "delta" or entry.get(PROVIDER, "").lower() in ("delta", "deltaplane")


def is_of_data_source(entry: Mapping[str, str]) -> bool:
    """Whether Spark reads the table by the data source `deltaplane`, whose entries
    `deltaplane.spark` keeps in its own form."""
    return entry.get(PROVIDER, "").lower() == "deltaplane"


def location_of(path: str | None, location: str | None) -> str | None:
    """A table's location from the SerDe's parameter `path` and the entry's location; a local one as
    a path. None if the entry has neither.

    >>> location_of("file:/lake/a%20b", "file:/warehouse/t-__PLACEHOLDER__"), location_of(None, "s3://b/t/")
    ('/lake/a%20b', 's3://b/t')
    """
    text = path or (location or "").removesuffix(PLACEHOLDER_SUFFIX)
    if not text:
        return None
    # Hadoop's notation: nothing is percent-encoded.
    local = re.fullmatch(r"file:(?://(?:localhost)?)?(/.*)", text, re.DOTALL)
    text = text if local is None else local[1]
    return text.rstrip("/") or text


def stored_location(location: str) -> str:
    """A location in Hadoop's notation, in which a catalog stores it.

    Raises:
        InvalidArgumentError: a location that other processes can't open.

    >>> stored_location("/lake/t"), stored_location("s3://bucket/t/")
    ('file:/lake/t', 's3://bucket/t')
    """
    import os

    if location.startswith("memory:"):
        raise InvalidArgumentError(f"{location} exists in this process only: a catalog can't name it", table=location)
    local = location_of(location, None) or location
    text = local if "://" in local else "file:" + os.path.abspath(local)
    return text.rstrip("/") or text


def hive_columns(schema: str, partition_columns: Sequence[str]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The columns and the partition columns with Hive's types, each with `Name`, `Type` and, if it
    has one, `Comment`.

    >>> hive_columns('{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}}]}', [])
    ([{'Name': 'id', 'Type': 'bigint'}], [])
    """
    columns, partitions = [], {}
    for item in _native.TableSchema(schema).to_value()["fields"]:
        column = {"Name": item["name"], "Type": _hive_type(item["type"])}
        comment = item.get("metadata", {}).get("comment")
        if isinstance(comment, str) and comment:
            column["Comment"] = comment[:255]
        if item["name"] in partition_columns:
            partitions[item["name"]] = column
        else:
            columns.append(column)
    return columns, [partitions[name] for name in partition_columns if name in partitions]


def _hive_type(kind: Any) -> str:
    if isinstance(kind, str):
        return _HIVE_TYPES.get(kind, kind)
    if kind["type"] == "struct":
        return "struct<" + ",".join(f"{f['name']}:{_hive_type(f['type'])}" for f in kind["fields"]) + ">"
    if kind["type"] == "array":
        return f"array<{_hive_type(kind['elementType'])}>"
    if kind["type"] == "map":
        return f"map<{_hive_type(kind['keyType'])},{_hive_type(kind['valueType'])}>"
    raise InvalidArgumentError(f"the schema has a column of the unknown type {str(kind['type'])[:60]}")
