"""Records which files were loaded into a table: notes beside its log, referenced by a `txn` action.

A note, `_delta_log/_copy_into/<pointer>.json`, names runs of keys, each a file with 16 bytes per
loaded file; runs of similar length are merged, so that there are few. A note counts once a commit
names it; others are ignored.
"""

from __future__ import annotations

import json
import random
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.exceptions import ConcurrentTransactionException, DeltaError, InvalidArgumentError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["APPLICATION", "KEY_BYTES", "Loaded"]

APPLICATION = "deltaplane.copyInto"
KEY_BYTES = 16
_FOLDER = "_delta_log/_copy_into"
# A run is merged into the next one unless it is more than this many times as long.
_LONGER = 2
# Bytes of a run in memory at once during a search.
_READ_BYTES = 64 << 20


@dataclass(frozen=True)
class _Run:
    name: str
    files: int

    @property
    def path(self) -> str:
        return f"{_FOLDER}/{self.name}"


@dataclass(frozen=True)
class Loaded:
    """The keys of the files loaded before a version. `pointer` is None before the first load."""

    store: _native.RawStore
    pointer: int | None
    runs: tuple[_Run, ...]

    @classmethod
    def of(cls, location: str, options: dict[str, str] | None, snapshot: _native.Snapshot) -> Loaded:
        """Reads the load history of a version of the table at a location.

        Raises:
            InvalidArgumentError: the note is missing.
        """
        store, pointer = _native.RawStore.open(location, options), snapshot.transactions().get(APPLICATION)
        if pointer is None:
            return cls(store, None, ())
        path = f"{_FOLDER}/{pointer}.json"
        try:
            said = json.loads(store.read(path))
        except (DeltaError, ValueError) as e:
            raise InvalidArgumentError(
                f"which files were loaded can't be told, since `{path}` can't be read ({e}): restore it, or load into a "
                "new table",
                table=location,
                version=snapshot.version,
            ) from e
        return cls(store, pointer, tuple(_Run(run["name"], run["files"]) for run in said["runs"]))

    def which(self, keys: pa.Array) -> pa.Array:
        """The subset of the keys whose files were loaded."""
        import pyarrow as pa
        import pyarrow.compute as pc

        known = [pa.array([], keys.type)]
        for run in self.runs:
            size = run.files * KEY_BYTES
            for start in range(0, size, _READ_BYTES):
                part = _keys(self.store.read_range(run.path, start, min(size, start + _READ_BYTES)))
                known.append(part.filter(pc.is_in(part, value_set=keys)))
        return pa.concat_arrays(known)

    def with_files(self, keys: pa.Array) -> Noted:
        """Builds the note that adds these keys."""
        runs, files = list(self.runs), len(keys)
        parts = [b"".join(keys.to_pylist())]
        while runs and runs[-1].files <= _LONGER * files:
            last = runs.pop()
            parts.append(self.store.read_range(last.path, 0, last.files * KEY_BYTES))
            files += last.files
        # Pointers increase even if the clock goes back, and no two loads have the same pointer.
        pointer = max(time.time_ns() // 1_000_000 << 20, (self.pointer or 0) + 1) + random.getrandbits(20)
        return Noted(self.store, pointer, (*runs, _Run(f"{pointer}.keys", files)), b"".join(parts))


@dataclass(frozen=True)
class Noted:
    """A note that must be written before the commit that names it."""

    store: _native.RawStore
    pointer: int
    runs: tuple[_Run, ...]
    keys: bytes = field(repr=False)

    def write(self) -> None:
        """Writes the note; it counts after the commit."""
        said = {"runs": [{"name": run.name, "files": run.files} for run in self.runs]}
        note = f"{_FOLDER}/{self.pointer}.json"
        if not self.store.put_if_absent(self.runs[-1].path, self.keys):
            raise ConcurrentTransactionException("another load has the same note: try again")
        self.store.put_if_absent(note, json.dumps(said).encode())


def _keys(data: bytes) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(pa.binary(KEY_BYTES), len(data) // KEY_BYTES, [None, pa.py_buffer(data)])
