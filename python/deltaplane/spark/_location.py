"""Where a table is, said so that the driver and every executor understand the same. Called within `deltaplane.spark`."""

from __future__ import annotations

import os

from deltaplane.options import TableUri, location_text

__all__ = ["absolute_location"]


def absolute_location(path: TableUri) -> str:
    """The location, absolute: workers run in other directories than the driver.

    >>> absolute_location("s3://bucket/table"), absolute_location("/data/../t")
    ('s3://bucket/table', '/t')
    """
    text = location_text(path)
    return text if "://" in text or text.startswith("file:") else os.path.abspath(text)
