"""Normalises locations, versions, options and sizes, so that the driver and every executor
interpret them equally. Internal to `deltaplane.spark`."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.io.hadoop_settings import is_hadoops
from deltaplane.io.log_store import is_registered
from deltaplane.io.storage_options import TableUri, VersionLike, location_text, storage_options_text, version_arguments

__all__ = ["absolute_location", "hadoop_location", "size_of", "split_options", "version_of"]


def absolute_location(path: TableUri) -> str:
    """The absolute location, since workers run in other directories than the driver. The text is
    one of Spark's: no part of it is percent-encoded, not even after `file:`.

    Raises:
        UnsupportedFeatureError: a location of a registered log store, which exists only in this
            process, or a table's name in a metastore.

    >>> absolute_location("s3://bucket/table"), absolute_location("/data/../t"), absolute_location("file:/lake/a%20b")
    ('s3://bucket/table', '/t', '/lake/a%20b')
    """
    text = hadoop_location(location_text(path))
    if is_registered(text):
        raise UnsupportedFeatureError(
            f"Spark can't work on {text}: its log store is registered in this process, and Spark's tasks run in others; "
            "use DeltaTable and write_deltalake without Spark",
            table=text,
        )
    if text.lower().startswith(("hive://", "glue://")):
        raise UnsupportedFeatureError(
            f"deltaplane doesn't open {text} on Spark: use DeltaTable, write_deltalake and sql without Spark",
            table=text,
        )
    return text if "://" in text else os.path.abspath(text)


def hadoop_location(text: str) -> str:
    """A location in Hadoop's notation as the core's: a path of the local disk without its scheme.

    >>> hadoop_location("file:///lake/a%20b"), hadoop_location("s3a://lake/a%20b")
    ('/lake/a%20b', 's3a://lake/a%20b')
    """
    local = re.fullmatch(r"file:(?://(?:localhost)?)?(/.*)", text, re.DOTALL)
    return text if local is None else local[1]


def version_of(version: int | None, timestamp: VersionLike | None) -> tuple[int | None, int | None]:
    """`(version, timestamp_ms)`, of which at most one is set.

    Raises:
        InvalidArgumentError: both are set, or one is invalid.

    >>> version_of(None, "1970-01-01T00:00:01")
    (None, 1000)
    """
    if version is not None and timestamp is not None:
        raise InvalidArgumentError("give a version or a timestamp, not both")
    if isinstance(timestamp, int):
        raise InvalidArgumentError("a timestamp is an ISO 8601 text or a datetime; version= takes numbers")
    return version_arguments(version if timestamp is None else timestamp)


def split_options(options: Mapping[str, str] | None) -> tuple[dict[str, str] | None, dict[str, str]]:
    """The options for deltaplane's stores (None if there are none), and the options for Spark's
    file systems. Settings of object stores are both: the core translates them.

    >>> split_options({"AWS_REGION": "eu-north-1", "fs.s3a.threads.max": "8", "fs.defaultFS": "file:///"})
    ({'AWS_REGION': 'eu-north-1', 'fs.s3a.threads.max': '8'}, {'fs.s3a.threads.max': '8', 'fs.defaultFS': 'file:///'})
    """
    every = storage_options_text(options) or {}
    for_spark = {k: v for k, v in every.items() if k.startswith("fs.")}
    return ({k: v for k, v in every.items() if k not in for_spark or is_hadoops(k)} or None), for_spark


def size_of(text: str) -> int | None:
    """Parses a number of bytes in the notation of Spark's settings; None for other text.

    >>> size_of("4g"), size_of(" 10 mb"), size_of("7"), size_of("many")
    (4294967296, 10485760, 7, None)
    """
    size = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)b?\s*", text, re.ASCII | re.IGNORECASE)
    return None if size is None else int(size[1]) << 10 * " kmgt".index(size[2].lower() or " ")
