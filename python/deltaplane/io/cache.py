"""The local cache of log files and, if wanted, data files: what is in it, and emptying it.

Stores use the cache by themselves, where the storage option `cache_dir` or the environment asks for
one. Knows a directory, no table.
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
    """What a cache has of one location.

    Attributes:
        entries: Blocks of its objects, each of at most 256 KiB.
        size_bytes: What they take of the disk, in bytes.
    """

    entries: int
    size_bytes: int


@dataclass(frozen=True)
class CacheInfo:
    """What a cache holds.

    Attributes:
        path: The directory, as `cache_dir` names it.
        entries: Blocks of objects, each of at most 256 KiB.
        size_bytes: What they take of the disk, in bytes.
        drafts: Files that are being written, or were left by processes that ended; those go after
            an hour.
        oldest_use_ms: When the entry was last used that goes first, to the minute, in ms since
            1970; None of an empty cache.
        tables: The same counts by location: tables, and other places that data files lie in.
    """

    path: Path
    entries: int
    size_bytes: int
    drafts: int
    oldest_use_ms: int | None
    tables: dict[str, CachedTable]


def cache_info(path: str | os.PathLike[str] | None = None) -> CacheInfo:
    """What is in a cache. Opens each of its entries.

    Args:
        path: The directory that `cache_dir` names; the environment's `DELTAPLANE_CACHE_DIR` by
            default. One that isn't there is an empty cache.

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
    """Throws away all that a cache holds. Programs that use it go on, and fill it again.

    Only the cache's own files go: others in the directory stay.

    Args:
        path: As for `cache_info`.

    Returns:
        How many bytes of the disk were freed.

    Raises:
        InvalidArgumentError: neither `path` nor the environment names a directory.
        StoreDeniedError: something can't be removed.

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
