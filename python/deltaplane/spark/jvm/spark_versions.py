"""The supported versions of Spark, and how names of Spark's internal classes differ between them.

Names are written as the newest version has them; this module translates them for older ones.
Doesn't access sessions.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from collections.abc import Iterator
from typing import Any

from deltaplane.exceptions import UnsupportedFeatureError

__all__ = [
    "SUPPORTED",
    "check_clusters_are_ours",
    "ends_texts_at_quotes",
    "for_version",
    "frame_class",
    "generation",
    "has_sized_filters",
    "has_sources",
    "has_variant",
    "is_supported",
    "refuse_older",
    "refuse_unread",
    "refuse_widened",
]

# Versions of Spark whose internals were tested; other versions use the data source.
SUPPORTED = ("3.5", "4.0", "4.1", "4.2", "4.3")

# The first version that has a name, the name, and what older versions have instead.
_MOVED = (
    ("4.0", "org.apache.spark.sql.classic.", "org.apache.spark.sql."),
    # Scala 2.12, with which PySpark 3.5 comes, has no immutable sequences in its signatures.
    ("4.0", "scala.collection.immutable.Seq;", "scala.collection.Seq;"),
    ("4.0", "(scala.collection.immutable.Seq", "(scala.collection.Seq"),
    ("4.1", "org.apache.spark.sql.execution.streaming.runtime.", "org.apache.spark.sql.execution.streaming."),
)

# Types that widen into each other without another size in Parquet files.
_STORED_ALIKE = frozenset({"short", "integer"})

# A type in a schema's JSON without values of its own.
_VOID = re.compile(r'"(?:type|elementType|keyType|valueType)": ?"void"')


def is_supported(version: str, supported: tuple[str, ...] = SUPPORTED) -> bool:
    """Whether a version such as "4.2.0" belongs to one of the supported ones."""
    return version.startswith(tuple(f"{release}." for release in supported))


def for_version(text: str, version: str) -> str:
    """A class name, or a Java source, with the names that a version of Spark has.

    >>> for_version("org.apache.spark.sql.execution.streaming.runtime.SerializedOffset", "4.0.5")
    'org.apache.spark.sql.execution.streaming.SerializedOffset'
    """
    release = _release(version)
    for since, name, older in _MOVED:
        if release < _release(since):
            text = text.replace(name, older)
    return text


def generation(version: str) -> str:
    """The folder of the Java classes that differ between generations of Spark.

    >>> generation("3.5.9"), generation("4.2.0")
    ('spark3', 'spark4')
    """
    return "spark3" if _release(version) < (4, 0) else "spark4"


def ends_texts_at_quotes(version: str) -> bool:
    """Whether `'it''s'` is the texts `it` and `s` one after the other, without a quote between, as
    it is before Spark 4.1.

    >>> ends_texts_at_quotes("4.0.5"), ends_texts_at_quotes("4.1.0")
    (True, False)
    """
    return _release(version) < (4, 1)


def has_sources() -> bool:
    """Whether the installed PySpark has data sources in Python; 3.5 doesn't."""
    return importlib.util.find_spec("pyspark.sql.datasource") is not None


def has_variant() -> bool:
    """Whether the installed PySpark has the type VARIANT; 3.5 doesn't."""
    import pyspark

    return _release(pyspark.__version__) >= (4, 0)


def has_sized_filters() -> bool:
    """Whether Spark's Parquet library chooses the size of a Bloom filter by the number of values;
    that of 3.5 writes 4 MB for each column of a file whose values nobody counted."""
    import pyspark

    return _release(pyspark.__version__) >= (4, 0)


def check_clusters_are_ours(is_ours: bool) -> None:
    """Refuses `clusterBy` of a writer of PySpark 3.5, which has none, unless the format is delta.

    Raises:
        UnsupportedFeatureError: the writer's format, as far as it is known, isn't delta.
    """
    if not is_ours:
        raise UnsupportedFeatureError(
            'clusterBy of another format than delta needs PySpark 4.0: for a Delta table say format("delta"), or '
            'using("delta") with writeTo, before clusterBy'
        )


def refuse_older() -> None:
    """Refuses a PySpark that is older than the supported ones, which has neither the internals that
    the native scan uses nor a data source in Python that could serve instead.

    Raises:
        UnsupportedFeatureError: such a PySpark.
    """
    import pyspark

    if _release(pyspark.__version__) < _release(SUPPORTED[0]):
        raise UnsupportedFeatureError(
            f"deltaplane.spark doesn't support PySpark {pyspark.__version__}: use PySpark {SUPPORTED[0]} to {SUPPORTED[-1]}, or read "
            "and write the table with DeltaTable, write_deltalake and deltaplane.sql, which need no Spark"
        )


def refuse_unread(schema_json: str, version: str) -> None:
    """Refuses to read Parquet files with columns of a type that a version's reader doesn't have.

    Raises:
        UnsupportedFeatureError: a column of type void before Spark 4.1.
    """
    if _VOID.search(schema_json) and _release(version) < (4, 1):
        raise UnsupportedFeatureError(
            f"the table has a column of type void, which the Parquet reader of Spark {version} doesn't have: write a value "
            "to the column, which gives it a type, drop it, or read the table with Spark 4.1 or newer"
        )


def refuse_widened(schema: Any, version: str) -> None:
    """Refuses to read a table whose files may have narrower types than its columns, where a
    version's Parquet reader doesn't convert them. It reads bytes and shorts as each other and as
    integers, since Parquet stores all three in 32 bits.

    Raises:
        UnsupportedFeatureError: a column that was widened to another type, before Spark 4.0.
    """
    if _release(version) >= (4, 0):
        return
    for change in _type_changes(schema):
        if change["toType"] not in _STORED_ALIKE:
            raise UnsupportedFeatureError(
                f"a column of the table was widened from {change['fromType']} to {change['toType']}, and the Parquet reader "
                f"of Spark {version} doesn't read files of the older type: read the table with Spark 4.0 or newer, or with "
                "DeltaTable and deltaplane.sql, which need no Spark"
            )


def _type_changes(node: Any) -> Iterator[dict[str, str]]:
    """The recorded changes of types within a schema (P153)."""
    if isinstance(node, list):
        for item in node:
            yield from _type_changes(item)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "delta.typeChanges":
                yield from value
            else:
                yield from _type_changes(value)


def frame_class() -> type:
    """The class of a classic session's frames, which is the only one before Spark 4."""
    name = "pyspark.sql.classic.dataframe" if has_sources() else "pyspark.sql"
    frames: type = importlib.import_module(name).DataFrame
    return frames


def _release(version: str) -> tuple[int, int]:
    """The first two numbers of a version, to compare versions by."""
    major, minor, *_ = version.split(".")
    return int(major), int(minor)
