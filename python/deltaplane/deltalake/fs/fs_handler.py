"""The class of file systems that pyarrow accepts. Imports pyarrow, whose class it is derived
from."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyarrow.fs import FileSystemHandler

from deltaplane.deltalake.fs._base_handler import BaseDeltaStorageHandler


# pyarrow has no types for its base class.
class DeltaStorageHandler(BaseDeltaStorageHandler, FileSystemHandler):  # type: ignore[misc]
    """The files below a table's location: `pyarrow.fs.PyFileSystem(DeltaStorageHandler(uri))`."""

    def open_input_file(self, path: str) -> pa.PythonFile:
        """Opens a file for reading at any position."""
        return pa.PythonFile(self._handler.open_input_file(path))

    def open_input_stream(self, path: str) -> pa.PythonFile:
        """Opens a file for reading from its start."""
        return pa.PythonFile(self._handler.open_input_file(path))

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        """Opens a file for writing; it is stored when it is closed."""
        return pa.PythonFile(self._handler.open_output_stream(path, metadata))

    def __reduce__(self) -> tuple[Any, ...]:
        return _with_handler, (self._handler,)


def _with_handler(handler: Any) -> DeltaStorageHandler:
    made = DeltaStorageHandler.__new__(DeltaStorageHandler)
    made._handler = handler
    return made
