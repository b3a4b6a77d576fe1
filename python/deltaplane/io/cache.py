"""The local cache of log files and, optionally, data files: reports its content, and empties it.

Stores use the cache automatically if the storage option `cache_dir` or the environment sets its
directory. Uses a directory, no table.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from deltaplane import _native
from deltaplane.exceptions import InvalidArgumentError

__all__ = ["CacheInfo", "CachedTable", "cache_info", "clear_cache"]


@dataclass(frozen=True)
class CachedTable:
    """The cache's content for one location.

    Attributes:
        entries: Blocks of its objects, each of at most 256 KiB.
        size_bytes: Bytes on the disk.
    """

    entries: int
    size_bytes: int


@dataclass(frozen=True)
class CacheInfo:
    """The content of a cache.

    Attributes:
        path: The directory, as `cache_dir` names it.
        entries: Blocks of objects, each of at most 256 KiB.
        size_bytes: Bytes on the disk.
        drafts: Unfinished files, or files that a process left behind; the latter are deleted after
            an hour.
        oldest_use_ms: The last use of the entry that is evicted next, accurate to the minute, in ms
            since 1970; None for an empty cache.
        tables: The same counts by location: tables, and other locations of data files.
    """

    path: Path
    entries: int
    size_bytes: int
    drafts: int
    oldest_use_ms: int | None
    tables: dict[str, CachedTable]


def cache_info(path: str | os.PathLike[str] | None = None) -> CacheInfo:
    """The content of a cache. Opens each of its entries.

    Args:
        path: The directory that `cache_dir` names; by default the environment's
            `DELTAPLANE_CACHE_DIR`. A missing directory is an empty cache.

    Raises:
        InvalidArgumentError: neither names a directory.
        StoreDeniedError: the directory can't be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     cache_info(directory).entries
    0
    """
    place = _place(path)
    entries, size_bytes, drafts, oldest_use_ms, tables = _native.cache_contents(place)
    known = {location: CachedTable(*counts) for location, counts in tables.items()}
    return CacheInfo(place, entries, size_bytes, drafts, oldest_use_ms, known)


def clear_cache(path: str | os.PathLike[str] | None = None) -> int:
    """Deletes the content of a cache. Programs that use it continue, and fill it again.

    Deletes only the cache's own files: others in the directory stay.

    Args:
        path: As for `cache_info`.

    Returns:
        The freed bytes on the disk.

    Raises:
        InvalidArgumentError: neither `path` nor the environment names a directory.
        StoreDeniedError: a file can't be removed.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as directory:
    ...     clear_cache(directory)
    0
    """
    return _native.clear_cache(_place(path))[1]


def _place(path: str | os.PathLike[str] | None) -> Path:
    named = _native.cache_dir() if path is None else Path(path) if os.fspath(path) else None
    if named is None:
        raise InvalidArgumentError(
            "no cache is named: give its directory, or set the environment variable DELTAPLANE_CACHE_DIR"
        )
    return named.absolute()
