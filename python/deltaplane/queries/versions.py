"""Parses a version at the end of a table's location: `path@v3`, or `path@20240131120000000` for a
timestamp.

Source: https://docs.delta.io/latest/delta-batch.html#-syntax.
"""

from __future__ import annotations

import datetime as dt
import re

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.storage_options import VersionLike

__all__ = ["version_of_path"]

_VERSION = re.compile(r"(.*)@[vV](\d{1,19})", re.DOTALL)
_MOMENT = re.compile(r"(.*)@(\d{17})", re.DOTALL)


def version_of_path(path: str) -> tuple[str, VersionLike | None]:
    """Splits a location into path and version; timestamps are UTC.

    Raises:
        InvalidArgumentError: the 17 digits aren't a valid timestamp.

    >>> version_of_path("/t@v3"), version_of_path("/t@today")
    (('/t', 3), ('/t@today', None))
    >>> version_of_path("/t@20240131120000500")[1].isoformat()
    '2024-01-31T12:00:00.500000+00:00'
    """
    if match := _VERSION.fullmatch(path):
        return match[1], int(match[2])
    match = _MOMENT.fullmatch(path)
    if match is None:
        return path, None
    digits = match[2]
    try:
        moment = dt.datetime.strptime(digits[:14], "%Y%m%d%H%M%S")
    except ValueError:
        raise InvalidArgumentError(f"{digits} isn't a moment as yyyyMMddHHmmssSSS") from None
    return match[1], moment.replace(microsecond=int(digits[14:]) * 1000, tzinfo=dt.timezone.utc)
