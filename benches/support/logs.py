"""Makes logs of large tables: N live files over K days, with statistics, but without the data
files.

Made once, in memory bounded by a row group, under the cache directory. A checkpoint has the files
in no order, as Spark writes them; later commits replace some of them by new ones over the same
rows, so every predicate matches the same number of files. Independent of the measures.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from support import harness
from support.adds import COLUMNS, FIRST_DAY, FIRST_SECOND, PARTITION_COLUMN, TEXT_MAP, Adds, Numbers

# A part of the folder's name: increase it when the content changes.
GENERATION = 3
TAIL_COMMITS, REPLACED_PER_COMMIT = 5, 10
# About the size of a checkpoint's row group by Spark's writer.
ROW_GROUP_ROWS = 100_000

# json: a foreign checkpoint without parsed statistics. structs: with both forms. own: deltaplane's
# checkpoint. v2: deltaplane's with the policy `v2`, with sidecars. v2-due: the source of `v2`: the
# policy is set, but the checkpoint is a classic foreign one. commits: no checkpoint.
Kind = Literal["json", "structs", "own", "v2", "v2-due", "commits"]
Touches = Literal["anywhere", "newest", "nothing"]
KINDS: tuple[Kind, ...] = ("json", "structs", "own", "v2", "v2-due", "commits")
NAMES: dict[Kind, str] = {
    "json": "JSON statistics",
    "structs": "parsed statistics",
    "own": "own checkpoint",
    "v2": "own V2 checkpoint",
    "v2-due": "V2 not yet written",
    "commits": "JSON commits",
}


@dataclass(frozen=True)
class Log:
    """A log to make. `tail`: number of commits after the checkpoint, or of all commits without one.

    `touches`: the files that the tail's commits replace: some all over the table, the newest ones,
    or none, in which case the commits append files.
    """

    files: int
    kind: Kind = "json"
    days: int = 100
    tail: int = TAIL_COMMITS
    replaced_per_commit: int = REPLACED_PER_COMMIT
    touches: Touches = "anywhere"

    @property
    def path(self) -> Path:
        tail = f"{self.tail}x{self.replaced_per_commit}{'' if self.touches == 'anywhere' else self.touches}"
        made_by = f"-{_core_stamp()}" if self._from is not None else ""
        return harness.CACHE / "logs" / f"{self.kind}-{self.files}-{self.days}-{tail}-{GENERATION}{made_by}"

    @property
    def checkpoints(self) -> list[Path]:
        """The files of the newest checkpoint, without its sidecars."""
        files = sorted((self.path / "_delta_log").glob("*.checkpoint*.parquet"))
        return [path for path in files if path.name[:20] == files[-1].name[:20]]

    @property
    def version(self) -> int:
        """The newest version."""
        if self.kind == "commits":
            return self.tail - 1
        # A foreign checkpoint is of version 1; deltaplane's own follows a first tail.
        return 1 + self.tail if self._from is None else 1 + 2 * self.tail

    @property
    def live(self) -> int:
        """The number of files of the newest version."""
        if self.touches != "nothing" or self.kind == "commits":
            return self.files
        return self.files + len(self._touched()[::2]) + (0 if self._from is None else len(self._touched()[1::2]))

    @property
    def name(self) -> str:
        """The log as a part of a case's name."""
        return f"{self.files:,} files, {NAMES[self.kind]}"

    @property
    def _from(self) -> Kind | None:
        """The kind of log from which deltaplane's checkpoint makes this one."""
        return {"own": "json", "v2": "v2-due"}.get(self.kind)  # type: ignore[return-value]

    def day(self, files: Any) -> Any:
        """Files are ordered by time: each day has consecutive files."""
        return FIRST_DAY + files * self.days // max(self.files, 1)

    def files_of_day(self, day: Any) -> int:
        number = int((np.datetime64(day, "D") - FIRST_DAY).astype(int))
        first, end = (-(-n * self.files // self.days) for n in (number, number + 1))
        return min(end, self.files) - first

    def make(self) -> Path:
        """The table's folder, made if it doesn't exist."""
        if not self.path.exists():
            unfinished = self.path.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            log = unfinished / "_delta_log"
            if self._from is not None:
                self._forget_those_of_other_cores()
                self._by_own_checkpoint(unfinished)
            elif self.kind == "commits":
                log.mkdir(parents=True)
                self._by_commits(log)
            else:
                log.mkdir(parents=True)
                self._by_checkpoint(log)
            unfinished.rename(self.path)
        return self.path

    def adds(self, files: Numbers, generation: int = 0) -> Adds:
        """The actions of these files, which need not be in the table yet."""
        return Adds(files.astype(np.int64), self.day, generation)

    def arguments(self, **others: Any) -> Callable[[], dict[str, Any]]:
        """A function that makes the log and returns a case's arguments: the log itself, the paths
        of the table and its checkpoint, and others.
        """

        def made() -> dict[str, Any]:
            path = str(self.make())
            return {"log": asdict(self), "path": path, "checkpoints": [str(p) for p in self.checkpoints], **others}

        return made

    # --- kinds ---

    def _by_commits(self, log: Path) -> None:
        cuts = np.linspace(0, self.files, self.tail + 1).astype(int).tolist()
        began_ms = _now_ms() - 1000 * self.tail
        lines = self._all_add_lines()
        for version in range(self.tail):
            adds = [next(lines) for _ in range(cuts[version + 1] - cuts[version])]
            _commit(log, version, began_ms + 1000 * version, self._head() if version == 0 else [], adds)

    def _all_add_lines(self) -> Iterator[str]:
        for first in range(0, self.files, ROW_GROUP_ROWS):
            yield from self.adds(np.arange(first, min(first + ROW_GROUP_ROWS, self.files))).add_lines()

    def _by_checkpoint(self, log: Path) -> None:
        began_ms = _now_ms() - 1000 * (2 * self.tail + 4)
        _commit(log, 0, began_ms, self._head())
        _commit(log, 1, began_ms + 1000)
        self._write_checkpoint(log)
        self._write_tail(log, 2, began_ms + 2000, self._touched()[::2])

    def _by_own_checkpoint(self, folder: Path) -> None:
        """Writes deltaplane's checkpoint of the other log's newest version; then replaces further
        files."""
        from deltaplane import DeltaTable

        other = Log(self.files, self._from or "json", self.days, self.tail, self.replaced_per_commit, self.touches)
        other.make()
        other.copy_to(folder)
        DeltaTable(str(folder)).create_checkpoint()
        log = folder / "_delta_log"
        for path in log.iterdir():
            if path.name[:20].isdecimal() and int(path.name[:20]) < other.version:
                path.unlink()
        self._write_tail(log, other.version + 1, _now_ms() - 1000 * (self.tail + 1), self._touched()[1::2])
        self._write_checksum(folder)

    def _write_checksum(self, folder: Path) -> None:
        """Writes the newest version's checksum, as deltaplane's commits do."""
        from deltaplane import DeltaTable

        files, size_bytes = 0, 0
        for batch in DeltaTable(str(folder)).plan():
            files += batch.num_rows
            size_bytes += pc.sum(batch["size_bytes"]).as_py() or 0
        sums = {"tableSizeBytes": size_bytes, "numFiles": files, "numMetadata": 1, "numProtocol": 1}
        content = {**sums, "metadata": self._metadata(), "protocol": self._protocol()}
        (folder / "_delta_log" / f"{self.version:020d}.crc").write_text(json.dumps(content))

    def _forget_those_of_other_cores(self) -> None:
        name = self.path.name.rsplit("-", 1)[0]
        for path in self.path.parent.glob(f"{name}-*"):
            shutil.rmtree(path)

    def _touched(self) -> Numbers:
        """The files of two tails, alternating, so that a second tail touches files at positions
        that the first one left unchanged."""
        count = 2 * self.tail * self.replaced_per_commit
        if self.touches == "nothing":
            return np.arange(self.files, self.files + count)
        count = min(count, self.files)
        first = self.files - count if self.touches == "newest" else 0
        return np.unique(np.linspace(first, max(self.files - 1, 0), count).astype(np.int64))

    def _write_tail(self, log: Path, version: int, began_ms: int, touched: Numbers) -> None:
        """Writes a tail's commits: each replaces some of these files by new ones over the same
        rows, or appends them."""
        for i, some in enumerate(np.array_split(touched, self.tail)):
            at_ms = began_ms + 1000 * i
            replaces = self.touches != "nothing"
            removes = self.adds(some).remove_lines(at_ms) if replaces and len(some) else []
            lines = [*removes, *self.adds(some, int(replaces)).add_lines()] if len(some) else []
            _commit(log, version + i, at_ms, lines)

    # --- the head ---

    def _head(self) -> list[str]:
        return [json.dumps({"protocol": self._protocol()}), json.dumps({"metaData": self._metadata()})]

    @property
    def _has_v2_policy(self) -> bool:
        return self.kind in ("v2", "v2-due")

    def _protocol(self) -> dict[str, Any]:
        if not self._has_v2_policy:
            return {"minReaderVersion": 1, "minWriterVersion": 2}
        features = ["v2Checkpoint"]
        return {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features, "writerFeatures": features}

    def _metadata(self) -> dict[str, Any]:
        types = [(name, column.delta) for name, column in COLUMNS.items()] + [(PARTITION_COLUMN, "date")]
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types]
        return {
            "id": "8c6f1b9e-2d0a-4f57-9b3e-5a1c7d2e4f60",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": [PARTITION_COLUMN],
            "configuration": {"delta.checkpointPolicy": "v2"} if self._has_v2_policy else {},
            "createdTime": FIRST_SECOND * 1000,
        }

    # --- the checkpoint ---

    def _write_checkpoint(self, log: Path) -> None:
        metadata = self._metadata()
        metadata["format"] = {"provider": "parquet", "options": []}
        metadata["configuration"] = list(metadata["configuration"].items())
        add = self.adds(np.arange(1)).structs(self.kind == "structs").type
        schema = pa.schema({"txn": _TXN, "add": add, "remove": _REMOVE, "metaData": _METADATA, "protocol": _PROTOCOL})
        path = log / f"{1:020d}.checkpoint.parquet"
        with pq.ParquetWriter(path, schema, compression="snappy") as writer:
            head = {"protocol": self._protocol(), "metaData": metadata}
            for files in self._in_no_order():
                adds = self.adds(files).structs(self.kind == "structs")
                # The state actions are among the files, as other writers place them.
                writer.write_table(_row_group(schema, adds, head), row_group_size=ROW_GROUP_ROWS + len(head))
                head = {}
        hint = {"version": 1, "size": self.files + 2, "sizeInBytes": path.stat().st_size, "numOfAddFiles": self.files}
        (log / "_last_checkpoint").write_text(json.dumps(hint))

    def _in_no_order(self) -> Iterator[Numbers]:
        """Every file's number once, a row group at a time, each spread over the whole table."""
        step = max(int(self.files * 0.618), 1)
        while math.gcd(step, self.files) > 1:
            step += 1
        for first in range(0, max(self.files, 1), ROW_GROUP_ROWS):
            numbers = np.arange(first, min(first + ROW_GROUP_ROWS, self.files), dtype=np.int64)
            yield numbers * step % max(self.files, 1)

    # --- copies ---

    def copy_to(self, folder: Path) -> Path:
        """Copies the table to another folder on the same disk by links, since files of a log never
        change."""
        shutil.copytree(self.make(), folder, copy_function=_linked)
        return folder


def _linked(source: str, target: str) -> None:
    if Path(source).name == "_last_checkpoint":
        shutil.copy2(source, target)
    else:
        os.link(source, target)


def _core_stamp() -> str:
    """Distinguishes versions of the core, whose checkpoints may differ."""
    from deltaplane import _native

    return f"{Path(_native.__file__).stat().st_mtime_ns:x}"


def _now_ms() -> int:
    return int(time.time() * 1000)


def _commit(log: Path, version: int, at_ms: int, *lines: Iterable[str]) -> None:
    info = {"timestamp": at_ms, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    path = log / f"{version:020d}.json"
    with path.open("w") as file:
        file.write(json.dumps({"commitInfo": info}) + "\n")
        file.writelines(f"{line}\n" for some in lines for line in some)
    # Versions have the times of their files.
    os.utime(path, (at_ms / 1000, at_ms / 1000))


def commit_by_hand(table: Path, version: int, lines: Sequence[str]) -> None:
    """Adds a commit, outside of any measurement."""
    _commit(table / "_delta_log", version, _now_ms(), lines)


def _row_group(schema: pa.Schema, adds: pa.Array, head: Mapping[str, Any]) -> pa.Table:
    """The files' rows, then one row for each state action, in which only that action is set."""
    rows = pa.Table.from_arrays(
        [adds if f.name == "add" else pa.nulls(len(adds), f.type) for f in schema], schema=schema
    )
    others = pa.Table.from_pylist([{name: action} for name, action in head.items()], schema=schema)
    return pa.concat_tables([rows, others]).combine_chunks()


_TEXTS = pa.list_(pa.string())
_TXN = pa.struct({"appId": pa.string(), "version": pa.int64(), "lastUpdated": pa.int64()})
_REMOVE = pa.struct(
    {
        "path": pa.string(),
        "deletionTimestamp": pa.int64(),
        "dataChange": pa.bool_(),
        "extendedFileMetadata": pa.bool_(),
        "partitionValues": TEXT_MAP,
        "size": pa.int64(),
    }
)
_METADATA = pa.struct(
    {
        "id": pa.string(),
        "name": pa.string(),
        "description": pa.string(),
        "format": pa.struct({"provider": pa.string(), "options": TEXT_MAP}),
        "schemaString": pa.string(),
        "partitionColumns": _TEXTS,
        "configuration": TEXT_MAP,
        "createdTime": pa.int64(),
    }
)
_PROTOCOL = pa.struct(
    {
        "minReaderVersion": pa.int32(),
        "minWriterVersion": pa.int32(),
        "readerFeatures": _TEXTS,
        "writerFeatures": _TEXTS,
    }
)
