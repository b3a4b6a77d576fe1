"""A table's data files as a file system of pyarrow, which renders those that pyarrow would read
wrongly: with the table's column names, without deleted rows.

Imports pyarrow, whose class of file systems it is derived from. `arrow_dataset` decides which files
are rendered.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from deltaplane import _native
from deltaplane.exceptions import DeltaError
from deltaplane.io.store_files import StoreFiles, relative

__all__ = ["RenderedFiles"]


class RenderedFiles:
    """The rows of some data files, each as the bytes of a new Parquet file in memory.

    Args:
        files: where the table is, and the sizes of its files.
        scan: the columns and the mapping of the table's version.
        splits: path → the file with its deletion vector.
        schema: the columns of a file, without partition columns, in the types of the dataset.
    """

    def __init__(
        self, files: StoreFiles, scan: _native.SplitScan, splits: Mapping[str, _native.Split], schema: pa.Schema
    ) -> None:
        self.files, self.scan, self.splits, self.schema = files, scan, splits, schema

    def __reduce__(self) -> tuple[Any, ...]:
        files = (self.files.location, self.files.options, self.files.known_sizes)
        return _opened, (files, self.scan, self.splits, self.schema)

    def file_system(self) -> fs.PyFileSystem:
        """A file system of pyarrow that renders these files when they are opened, and opens the
        table's others as they are."""
        return fs.PyFileSystem(_Handler(self))

    def render(self, path: str) -> pa.Buffer:
        """The rows of one file. Memory: the rows and the new file, which isn't compressed."""
        stream = self.scan.rows(self.files.location, self.files.options, self.schema.names, self.splits[path])
        sink = pa.BufferOutputStream()
        with (
            pa.RecordBatchReader.from_stream(stream) as rows,
            pq.ParquetWriter(sink, self.schema, compression="none", use_dictionary=False) as out,
        ):
            for batch in rows:
                out.write_table(pa.Table.from_batches([batch]).cast(self.schema))
        return sink.getvalue()


def _opened(files: tuple[Any, ...], *others: Any) -> RenderedFiles:
    return RenderedFiles(StoreFiles(*files), *others)


# pyarrow has no types for its base class.
class _Handler(fs.FileSystemHandler):  # type: ignore[misc]
    """Reads only, and lists nothing: a dataset's fragments know their paths."""

    def __init__(self, rendered: RenderedFiles) -> None:
        self._rendered = rendered

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._rendered,)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __ne__(self, other: object) -> bool:
        return self is not other

    __hash__ = object.__hash__

    def get_type_name(self) -> str:
        return "deltaplane"

    def get_file_info(self, paths: list[str]) -> list[fs.FileInfo]:
        """What is at these paths; the size of a rendered file is known when it is opened."""
        return [self._info(path) for path in paths]

    def _info(self, path: str) -> fs.FileInfo:
        if path in self._rendered.splits:
            return fs.FileInfo(path, fs.FileType.File)
        try:
            size = self._rendered.files.size(path)
        except DeltaError as e:
            raise OSError(str(e)) from e
        return fs.FileInfo(path, fs.FileType.NotFound if size is None else fs.FileType.File, size=size)

    def get_file_info_selector(self, selector: fs.FileSelector) -> list[fs.FileInfo]:
        """The data files below a directory."""
        root = relative(selector.base_dir)
        below = {*self._rendered.splits, *self._rendered.files.known_sizes}
        return [self._info(path) for path in sorted(below) if not root or path.startswith(f"{root}/")]

    def open_input_file(self, path: str) -> pa.NativeFile:
        """Opens a file for reading at any position."""
        if path in self._rendered.splits:
            return pa.BufferReader(self._rendered.render(path))
        return pa.PythonFile(self._rendered.files.open(path), mode="r")

    open_input_stream = open_input_file

    def normalize_path(self, path: str) -> str:
        return path

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("these files are only read")

    create_dir = delete_dir = delete_dir_contents = delete_root_dir_contents = delete_file = _refused
    move = copy_file = open_output_stream = open_append_stream = _refused
