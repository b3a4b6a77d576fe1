"""Whether Spark's own scan can read a location's files. Reads no table."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from deltaplane.io.hadoop_settings import is_hadoops, store_of
from deltaplane.spark.jvm.internals import NativeScanUnavailable
from deltaplane.spark.jvm.store_settings import SessionOptions, file_system_class

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

__all__ = ["check_file_system", "warn_of_shared_settings"]

_log = logging.getLogger(__name__)

# The jars that give Spark a file system, by a location's scheme; `{}` is the version of Hadoop.
_S3 = "org.apache.hadoop:hadoop-aws:{} and software.amazon.awssdk:bundle (or its parts in docs/spark.md)"
_AZURE = "org.apache.hadoop:hadoop-azure:{} and com.microsoft.azure:azure-storage"
_GOOGLE = "com.google.cloud.bigdataoss:gcs-connector and com.google.cloud.bigdataoss:util-hadoop"
_JARS = {"s3a": _S3, "s3": _S3, "s3n": _S3, "abfs": _AZURE, "abfss": _AZURE, "gs": _GOOGLE}
# The schemes that were warned of.
_warned: set[str] = set()


def check_file_system(spark: SparkSession, location: str) -> None:
    """Checks that Spark has a file system for a location; the first time that one is missing, a
    warning names its jars.

    Raises:
        NativeScanUnavailable: it has none.
    """
    scheme, separator, _ = location.partition("://")
    if not separator or scheme.lower() not in _JARS or file_system_class(spark, scheme) is not None:
        return
    reason = f"Spark has no file system for {scheme}://"
    if scheme not in _warned:
        _warned.add(scheme)
        version = str(spark._jvm.org.apache.hadoop.util.VersionInfo.getVersion())
        _log.warning(
            "%s, so tables there are read through the data source, which is slower and pushes no filters: for Spark's own "
            "scan start the session with the jars %s",
            reason,
            _JARS[scheme.lower()].format(version),
        )
    raise NativeScanUnavailable(reason)


def warn_of_shared_settings(spark: SparkSession, location: str, options: Mapping[str, str]) -> None:
    """Warns if a call's settings of Hadoop differ from the session's: Hadoop opens a bucket once in
    a process, so Spark's scan may go on with the settings of the first use."""
    changed = {key: value for key, value in options.items() if is_hadoops(key)}
    store = store_of(location) if changed else None
    if store is None:
        return
    held = SessionOptions(spark).settings(store)
    differing = sorted(key for key, value in changed.items() if held.get(key) != value)
    if differing:
        _log.warning(
            "the options %s differ from the session's settings for %s: deltaplane uses them, but Spark's own scan goes on with "
            "those by which this process opened it first; set them with spark.hadoop. before the first use",
            ", ".join(differing),
            f"{location.partition('://')[0]}://{store.bucket}",
        )
