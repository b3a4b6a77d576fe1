"""The objects below a table's location, by what they are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple, Protocol

from deltaplane import _native

__all__ = ["Inspected", "Kind", "StoredFile", "TableObject", "objects_of"]

Kind = Literal["log text", "log parquet", "change file", "data file", "vectors", "index", "other"]
_TEXTS = (".json", ".crc", "_last_checkpoint", "_last_vacuum_info", ".tmp", "manifest")


class Inspected(Protocol):
    """A table whose objects are searched; `DeltaTable` is one."""

    _snapshot: _native.Snapshot

    @property
    def location(self) -> str: ...
    @property
    def storage_options(self) -> dict[str, str] | None: ...


class TableObject(NamedTuple):
    """An object: its path relative to the table, bytes, time of its last change and kind."""

    path: str
    size: int
    modified_ms: int
    kind: Kind


def objects_of(store: _native.RawStore) -> Iterator[TableObject]:
    """All objects below a table's location, without those of tables inside of it."""
    for path, size, modified_ms, _ in store.list_all(""):
        yield TableObject(path, size, modified_ms, _kind(path))


def _kind(path: str) -> Kind:
    folder, _, name = path.rpartition("/")
    if path.startswith("_delta_log/"):
        if name.endswith(".parquet"):
            return "log parquet"
        return "log text" if name.endswith(_TEXTS) or folder.endswith("_staged_commits") else "other"
    if path.startswith("_deltaplane_index/"):
        return "index"
    if name.startswith("deletion_vector_") and name.endswith(".bin"):
        return "vectors"
    if name.endswith(".parquet"):
        return "change file" if path.startswith("_change_data/") else "data file"
    if path.startswith("_symlink_format_manifest/") or name.endswith(_TEXTS):
        return "log text"
    return "other"


class StoredFile(io.RawIOBase):
    """An object that is read by ranges, for libraries that take files of Python."""

    def __init__(self, store: _native.RawStore, path: str, size: int) -> None:
        super().__init__()
        self._store, self._path, self._size, self._place = store, path, size, 0

    def readable(self) -> bool:
        """Returns True."""
        return True

    def seekable(self) -> bool:
        """Returns True."""
        return True

    def tell(self) -> int:
        """The position, in bytes."""
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position, and returns it."""
        self._place = offset + {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        return self._place

    def readinto(self, buffer: Any) -> int:
        """Reads from the position on, and returns the number of bytes."""
        end = min(self._size, self._place + len(buffer))
        if end <= self._place:
            return 0
        part = self._store.read_range(self._path, self._place, end)
        buffer[: len(part)] = part
        self._place += len(part)
        return len(part)
