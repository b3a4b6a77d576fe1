"""Where a table is, said so that the driver and every executor understand the same. Called within `deltaplane.spark`."""

from __future__ import annotations

import os

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.log_store import is_registered
from deltaplane.options import TableUri, location_text

__all__ = ["absolute_location"]


def absolute_location(path: TableUri) -> str:
    """The location, absolute: workers run in other directories than the driver.

    Raises:
        UnsupportedFeatureError: a location of a registered log store, which other processes don't have.

    >>> absolute_location("s3://bucket/table"), absolute_location("/data/../t")
    ('s3://bucket/table', '/t')
    """
    text = location_text(path)
    if is_registered(text):
        raise UnsupportedFeatureError(
            f"Spark can't work on {text}: its log store is registered in this process, and Spark's tasks run in others; "
            "use DeltaTable and write_deltalake without Spark",
            table=text,
        )
    return text if "://" in text or text.startswith("file:") else os.path.abspath(text)
