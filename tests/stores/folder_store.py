"""A store in Python that fulfils the contract: a local directory, with commits by hard links."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from deltaplane import LogStore, StoredObject


class Folder(LogStore):
    """Stores the tables of `scheme://…` below the directory of the option `folder`."""

    def __init__(self, location: str, options: dict[str, str]) -> None:
        self.table = Path(options["folder"]) / location.partition("://")[2]

    def _draft(self, path: str, data: bytes) -> str:
        file = self.table / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=file.parent, prefix=".", delete=False) as draft:
            draft.write(data)
            draft.flush()
            os.fsync(draft.fileno())
        return draft.name

    def put(self, path: str, data: bytes) -> None:
        Path(self._draft(path, data)).replace(self.table / path)

    def put_if_absent(self, path: str, data: bytes) -> bool:
        draft = self._draft(path, data)
        try:
            (self.table / path).hardlink_to(draft)
        except FileExistsError:
            return False
        finally:
            Path(draft).unlink()
        return True

    def read(self, path: str) -> bytes:
        return (self.table / path).read_bytes()

    def delete(self, path: str) -> None:
        (self.table / path).unlink(missing_ok=True)

    def list_from(self, directory: str, name: str) -> Iterable[StoredObject]:
        files = (self.table / directory).glob("*")
        return sorted(self._shown(file) for file in files if self._counts(file) and file.name >= name)

    def list_all(self, directory: str) -> Iterable[StoredObject]:
        return [self._shown(file) for file in (self.table / directory).rglob("*") if self._counts(file)]

    def _counts(self, file: Path) -> bool:
        return file.is_file() and not file.name.startswith(".")

    def _shown(self, file: Path) -> StoredObject:
        status = file.stat()
        return StoredObject(file.relative_to(self.table).as_posix(), status.st_size, int(status.st_mtime * 1000))
