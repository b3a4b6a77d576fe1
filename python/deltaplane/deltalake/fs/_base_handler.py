"""The methods that pyarrow calls on a file system, passed to a `DeltaFileSystemHandler`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltaplane.deltalake._files import DeltaFileSystemHandler

if TYPE_CHECKING:
    import pyarrow.fs as pa_fs

    from deltaplane.deltalake._raw_table import RawDeltaTable


class BaseDeltaStorageHandler:
    """The files below a table's location, as pyarrow's `PyFileSystem` takes them."""

    _handler: DeltaFileSystemHandler

    def __init__(
        self, table_uri: str, options: dict[str, str] | None = None, known_sizes: dict[str, int] | None = None
    ) -> None:
        self._handler = DeltaFileSystemHandler(table_uri=table_uri, options=options, known_sizes=known_sizes)

    @classmethod
    def from_table(
        cls,
        table: RawDeltaTable,
        options: dict[str, str] | None = None,
        known_sizes: dict[str, int] | None = None,
    ) -> BaseDeltaStorageHandler:
        """The files of a table."""
        self = cls.__new__(cls)
        self._handler = DeltaFileSystemHandler.from_table(table, options, known_sizes)
        return self

    def get_type_name(self) -> str:
        """The name of the kind of store."""
        return self._handler.get_type_name()

    def copy_file(self, src: str, dst: str) -> None:
        """Copies a file."""
        self._handler.copy_file(src=src, dst=dst)

    def create_dir(self, path: str, recursive: bool = True) -> None:
        """Makes a directory."""
        self._handler.create_dir(path, recursive)

    def delete_dir(self, path: str) -> None:
        """Deletes a directory with its files."""
        self._handler.delete_dir(path)

    def delete_file(self, path: str) -> None:
        """Deletes a file."""
        self._handler.delete_file(path)

    def equals(self, other: Any) -> bool:
        """Whether the other one is of the same location."""
        return self._handler.equals(getattr(other, "_handler", other))

    def delete_dir_contents(self, path: str, *, accept_root_dir: bool = False, missing_dir_ok: bool = False) -> None:
        """Deletes a directory's files."""
        self._handler.delete_dir_contents(path, accept_root_dir=accept_root_dir, missing_dir_ok=missing_dir_ok)

    def delete_root_dir_contents(self) -> None:
        """Deletes all files."""
        self._handler.delete_root_dir_contents()

    def get_file_info(self, paths: list[str]) -> list[pa_fs.FileInfo]:
        """What is at these paths."""
        return self._handler.get_file_info(paths)

    def move(self, src: str, dest: str) -> None:
        """Moves a file."""
        self._handler.move_file(src=src, dest=dest)

    def normalize_path(self, path: str) -> str:
        """The path in its normal form."""
        return self._handler.normalize_path(path)

    def get_file_info_selector(self, selector: pa_fs.FileSelector) -> list[pa_fs.FileInfo]:
        """The files that a selector selects."""
        return self._handler.get_file_info_selector(selector.base_dir, selector.allow_not_found, selector.recursive)

    def open_append_stream(self, path: str, metadata: Mapping[str, str]) -> None:
        """Not supported: files aren't appended to."""
        raise NotImplementedError("objects of a store can't be appended to: write a new file")
