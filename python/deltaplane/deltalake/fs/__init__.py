"""deltalake's file system for pyarrow."""

from __future__ import annotations

from deltaplane.deltalake.fs.fs_handler import DeltaStorageHandler

__all__ = ["DeltaStorageHandler"]
