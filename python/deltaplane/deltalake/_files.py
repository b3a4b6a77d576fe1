"""deltalake's file system of a table: files by paths below the table, over deltaplane's stores."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING, Any

from deltaplane.deltalake._util import own_location, own_options
from deltaplane.io.store_files import StoreFile, StoreFiles, StoreWriter, relative

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

    from deltaplane.deltalake._raw_table import RawDeltaTable

__all__ = ["DeltaFileSystemHandler", "ObjectInputFile", "ObjectOutputStream"]

ObjectInputFile = StoreFile
ObjectOutputStream = StoreWriter
# Bytes below which deltalake warns of a small `max_buffer_size`.
_SMALL_BUFFER = 5 * 1024 * 1024
_BUFFER = "max_buffer_size"


class DeltaFileSystemHandler:
    """The operations of pyarrow's file systems, on the files below one location. Directories exist
    where files are."""

    def __init__(
        self, table_uri: str, options: dict[str, str] | None = None, known_sizes: dict[str, int] | None = None
    ) -> None:
        self._files = StoreFiles(own_location(table_uri, options), own_options(options), known_sizes)
        self._buffer = (options or {}).get(_BUFFER)

    @classmethod
    def from_table(
        cls,
        table: RawDeltaTable,
        options: dict[str, str] | None = None,
        known_sizes: dict[str, int] | None = None,
    ) -> DeltaFileSystemHandler:
        """The files of a table."""
        return cls(table.table_uri(), options, known_sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._files.location, self._files.options, self._files.known_sizes)

    def get_type_name(self) -> str:
        """`object-store`."""
        return "object-store"

    def copy_file(self, src: str, dst: str) -> None:
        """Copies a file."""
        self._files.copy(src, dst)

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Does nothing: directories exist where files are."""

    def delete_dir(self, path: str) -> None:
        """Deletes all files below a directory."""
        self._files.delete_below(path)

    def delete_file(self, path: str) -> None:
        """Deletes a file."""
        self._files.delete(path)

    def equals(self, other: Any) -> bool:
        """Whether the other one is of the same location."""
        return isinstance(other, DeltaFileSystemHandler) and other._files.location == self._files.location

    def delete_dir_contents(self, path: str, *, accept_root_dir: bool = False, missing_dir_ok: bool = False) -> None:
        """Deletes all files below a directory."""
        if not relative(path) and not accept_root_dir:
            raise ValueError("delete_dir_contents called on root path: use delete_root_dir_contents")
        self._files.delete_below(path)

    def delete_root_dir_contents(self) -> None:
        """Deletes all files."""
        self._files.delete_below("")

    def get_file_info(self, paths: list[str]) -> list[pa_fs.FileInfo]:
        """What is at these paths."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> pa_fs.FileInfo:
        from pyarrow import fs

        info = self._files.info(path) if relative(path) else None
        if info is not None:
            return _file_info(path, *info, self._local(path))
        below = self._files.files_below(path)
        return fs.FileInfo(path, fs.FileType.Directory if below or not relative(path) else fs.FileType.NotFound)

    def _local(self, path: str) -> str | None:
        """The path of a local file, whose time is known to the nanosecond."""
        location = self._files.location
        return None if "://" in location else os.path.join(location, relative(path))

    def get_file_info_selector(
        self, base_dir: str, allow_not_found: bool = False, recursive: bool = False
    ) -> list[pa_fs.FileInfo]:
        """The files and directories below a directory."""
        from pyarrow import fs

        root = relative(base_dir)
        files, directories = [], set()
        for path, size, modified_ms in self._files.files_below(root):
            parts = path.removeprefix(root).strip("/").split("/")
            parents = parts[:-1] if recursive else parts[:-1][:1]
            directories |= {"/".join([*([root] if root else []), *parents[: n + 1]]) for n in range(len(parents))}
            if recursive or len(parts) == 1:
                files.append(_file_info(path, size, modified_ms))
        if not files and not directories and root and not allow_not_found:
            raise FileNotFoundError(f"no files below {base_dir}")
        return [*(fs.FileInfo(path, fs.FileType.Directory) for path in sorted(directories)), *files]

    def move_file(self, src: str, dest: str) -> None:
        """Copies a file and deletes the first one."""
        self._files.copy(src, dest)
        self._files.delete(src)

    def normalize_path(self, path: str) -> str:
        """The path without slashes around it."""
        return relative(path)

    def open_input_file(self, path: str) -> StoreFile:
        """Opens a file for reading."""
        return self._files.open(path)

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> StoreWriter:
        """Opens a file for writing."""
        limit = self._buffer
        if limit is not None and int(limit) < _SMALL_BUFFER:
            warnings.warn(
                f"You specified a `max_buffer_size` of {limit} bits less than {_SMALL_BUFFER} bits. Most object "
                "stores expect an higher number, you may experience issues",
                UserWarning,
                stacklevel=2,
            )
        return self._files.create(path)


def _file_info(path: str, size: int, modified_ms: int, local: str | None = None) -> pa_fs.FileInfo:
    from pyarrow import fs

    modified_ns = modified_ms * 1_000_000 if local is None else os.stat(local).st_mtime_ns
    return fs.FileInfo(path, fs.FileType.File, size=size, mtime_ns=modified_ns)
