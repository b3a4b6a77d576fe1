"""Parses timestamps of Spark users: in the session's time zone unless the text has one."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["moment"]


def moment(spark: SparkSession, text: str) -> datetime:
    """Parses a text to a timestamp as Spark does.

    Raises:
        InvalidArgumentError: not a timestamp; the message is delta-spark's.

    >>> spark.conf.set("spark.sql.session.timeZone", "UTC")
    >>> moment(spark, "2024-01-31 12:00").isoformat()
    '2024-01-31T12:00:00+00:00'
    """
    query = "SELECT unix_micros(try_cast(:moment AS TIMESTAMP)) AS moment"
    (row,) = spark.sql(query, args={"moment": text}).collect()
    if row.moment is None:
        raise InvalidArgumentError(
            f"The provided timestamp ('{text}') cannot be converted to a valid timestamp: give one as yyyy-MM-dd or "
            "yyyy-MM-dd HH:mm:ss"
        )
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=row.moment)
