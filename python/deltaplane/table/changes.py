"""Resolves a range of the change data feed to versions.

Reads neither rows nor Spark objects.
"""

from __future__ import annotations

from typing import NamedTuple

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError, VersionNotFoundError
from deltaplane.io.storage_options import VersionLike, version_arguments

__all__ = ["ChangeRange", "change_range"]


class ChangeRange(NamedTuple):
    """The first version of a range and the snapshot of its last version; `first` is greater than
    the last version if the range is empty."""

    first: int
    last: _native.Snapshot


def change_range(
    snapshot: _native.Snapshot,
    starting_version: int | None,
    ending_version: int | None = None,
    starting_timestamp: VersionLike | None = None,
    ending_timestamp: VersionLike | None = None,
    *,
    allow_out_of_range: bool = False,
) -> ChangeRange:
    """Resolves two inclusive bounds, each a version or a timestamp, to versions.

    A starting timestamp means the first version at or after it, an ending timestamp the last
    version at or before it; a version takes precedence over a timestamp. The end defaults to the
    snapshot's version and is limited to the newest version.

    Raises:
        VersionNotFoundError: the range contains no version and `allow_out_of_range` is False.
        InvalidArgumentError: no start, an end before the start, or a bound of another type.
    """
    for version in (starting_version, ending_version):
        if version is not None and version < 0:
            raise InvalidArgumentError(f"versions count from 0: {version} isn't one")
    if starting_version is None and starting_timestamp is None:
        raise InvalidArgumentError("say where the changes begin: with a version or a timestamp")
    if starting_version is not None and ending_version is not None and starting_version > ending_version:
        raise InvalidArgumentError(f"the range ends with version {ending_version}, before its start {starting_version}")
    from_ms = version_arguments(starting_timestamp)[1] if starting_version is None else None
    until_ms = version_arguments(ending_timestamp)[1] if ending_version is None else None
    newest = snapshot if ending_version is None and until_ms is None else snapshot.update()
    first, last = (
        starting_version or 0,
        newest.version if ending_version is None else min(ending_version, newest.version),
    )
    if from_ms is not None or until_ms is not None:
        between = newest.versions_between(from_ms, until_ms)
        if between is None:
            first = last + 1
        else:
            first = between[0] if from_ms is not None else first
            last = between[1] if until_ms is not None else last
    if first > last and not allow_out_of_range:
        raise VersionNotFoundError(
            f"no version is in the range: the newest version is {newest.version}", table=newest.uri, version=first
        )
    of_last = newest if last == newest.version else newest.at(last)
    return ChangeRange(min(first, last + 1), of_last)
