"""The files below one location of a store, for libraries that read and write files themselves, such
as pyarrow. Knows paths, sizes and bytes, no table.
"""

from __future__ import annotations

import errno
import io
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.exceptions import FileMissingError, TableNotFoundError
from deltaplane.io.storage_options import StorageOptions, TableUri, location_text, storage_options_text

if TYPE_CHECKING:
    pass

__all__ = ["StoreFile", "StoreFiles", "StoreWriter", "relative"]


class StoreFile(io.RawIOBase):
    """A file opened for reading at any position; each read is one request for a range of bytes."""

    mode = "rb"

    def __init__(self, store: _native.RawStore, path: str, size: int) -> None:
        super().__init__()
        self._store, self._path, self._size, self._at = store, path, size, 0

    def size(self) -> int:
        """Bytes of the file."""
        return self._size

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """The position of the next read."""
        return self._at

    def seek(self, position: int, whence: int = 0) -> int:
        """Moves to a position, which may not be outside of the file.

        Raises:
            OSError: the position is outside of the file.
        """
        target = position + (0, self._at, self._size)[whence]
        if target < 0:
            raise OSError(errno.EINVAL, "Cannot seek before the start of the file.")
        if target > self._size:
            raise OSError(errno.EINVAL, "Cannot seek past end of file.")
        self._at = target
        return target

    def read(self, nbytes: int | None = -1) -> bytes:
        """Reads the next bytes; all that are left for None and -1."""
        end = self._size if nbytes is None or nbytes < 0 else min(self._size, self._at + nbytes)
        if end <= self._at:
            return b""
        data = bytes(self._store.read_range(self._path, self._at, end))
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        """Reads all bytes that are left."""
        return self.read()

    def readinto(self, buffer: Any) -> int:
        """Reads as many bytes as the buffer holds."""
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class StoreWriter(io.RawIOBase):
    """A file opened for writing: its bytes are stored when it is closed, so that a file which
    wasn't written to its end never appears."""

    mode = "wb"

    def __init__(self, store: _native.RawStore, path: str) -> None:
        super().__init__()
        self._store, self._path, self._parts = store, path, io.BytesIO()

    def writable(self) -> bool:
        """Always true."""
        return True

    def tell(self) -> int:
        """The number of bytes written."""
        return self._parts.tell()

    def size(self) -> int:
        """The number of bytes written."""
        return self._parts.tell()

    def write(self, data: Any) -> int:
        """Adds bytes."""
        return self._parts.write(data)

    def close(self) -> None:
        """Stores the file."""
        if not self.closed:
            super().close()
            self._store.put(self._path, self._parts.getvalue())


class StoreFiles:
    """Lists, reads, writes and deletes the files below a location. Paths are relative to it.

    Args:
        location: path or URL.
        options: storage options.
        known_sizes: path → bytes of files whose size needs no request.

    >>> files = StoreFiles("memory://doc-store-files")
    >>> with files.create("a/b.txt") as out:
    ...     _ = out.write(b"text")
    >>> files.open("a/b.txt").read(), files.size("a/none")
    (b'text', None)
    """

    def __init__(
        self, location: TableUri, options: StorageOptions | None = None, known_sizes: Mapping[str, int] | None = None
    ) -> None:
        self.location = location_text(location)
        self.options = storage_options_text(options)
        self.known_sizes = dict(known_sizes or {})
        self._store = _native.RawStore.open(self.location, self.options)

    def info(self, path: str) -> tuple[int, int] | None:
        """Bytes, and time of the last change in milliseconds since 1970; None without such a
        file."""
        try:
            _, size, modified_ms, _ = self._store.head(relative(path))
        except (FileMissingError, TableNotFoundError):
            return None
        return size, modified_ms

    def size(self, path: str) -> int | None:
        """Bytes of a file; None without such a file."""
        known = self.known_sizes.get(relative(path))
        if known is not None:
            return known
        info = self.info(path)
        return None if info is None else info[0]

    def open(self, path: str) -> StoreFile:
        """Opens a file for reading.

        Raises:
            FileNotFoundError: no such file.
        """
        size = self.size(path)
        if size is None:
            raise FileNotFoundError(errno.ENOENT, "no such file in the store", path)
        return StoreFile(self._store, relative(path), size)

    def create(self, path: str) -> StoreWriter:
        """Opens a file for writing; replaces an existing one when it is closed."""
        return StoreWriter(self._store, relative(path))

    def files_below(self, directory: str) -> list[tuple[str, int, int]]:
        """Path, bytes and time of each file below a directory, at any depth."""
        try:
            listed = self._store.list_all(relative(directory))
        except (FileMissingError, TableNotFoundError):
            return []
        return [(path, size, modified_ms) for path, size, modified_ms, _ in listed]

    def delete(self, path: str) -> None:
        """Deletes a file."""
        self._store.delete(relative(path))

    def delete_below(self, directory: str) -> None:
        """Deletes all files below a directory."""
        paths = [path for path, _, _ in self.files_below(directory)]
        if paths:
            self._store.delete_all(paths)

    def copy(self, source: str, target: str) -> None:
        """Copies a file."""
        self._store.put(relative(target), bytes(self._store.read(relative(source))))


def relative(path: str) -> str:
    """A path as the store has it, without slashes around it."""
    return path.strip("/")
