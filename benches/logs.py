"""Logs of large tables: N live files over K days, with statistics, but without the data files.

A classic checkpoint holds N files in no order, as Spark leaves them; each of the few later commits replaces some of
them by new ones over the same rows, so every predicate keeps its number of files. Called by bench_open and bench_plan.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness import CACHE

# Part of the folder's name: count it up when the content changes.
GENERATION = 1
ROWS_PER_FILE = 1000
TAIL_COMMITS, REPLACED_PER_COMMIT = 5, 10
# About what Spark's writer puts into one row group of a checkpoint.
ROW_GROUP_ROWS = 100_000
FIRST_DAY = dt.date(2026, 1, 1)
FIRST_MOMENT = dt.datetime(2026, 1, 1, tzinfo=dt.timezone.utc)

COLUMNS = {
    "id": ("long", pa.int64()),
    "account": ("long", pa.int64()),
    "amount": ("double", pa.float64()),
    "name": ("string", pa.string()),
    "at": ("timestamp", pa.timestamp("us", tz="UTC")),
    "price": ("decimal(12,2)", pa.decimal128(12, 2)),
}
TEXT_MAP = pa.map_(pa.string(), pa.string())
PROTOCOL = {"minReaderVersion": 1, "minWriterVersion": 2}


@dataclass(frozen=True)
class Log:
    """A log to make. `commits` says how many JSON commits hold the files where there is no checkpoint.

    `structs`: the checkpoint has `stats_parsed` and `partitionValues_parsed` beside the JSON text.
    """

    files: int
    days: int = 100
    structs: bool = False
    commits: int | None = None

    @property
    def path(self) -> Path:
        kind = f"json{self.commits}" if self.commits else "structs" if self.structs else "checkpoint"
        return CACHE / f"log-{kind}-{self.files}-{self.days}-{GENERATION}"

    @property
    def checkpoint(self) -> Path:
        return self.path / "_delta_log" / f"{1:020d}.checkpoint.parquet"

    def day(self, file: int) -> dt.date:
        """Files come in order of time: each day holds a run of them."""
        return FIRST_DAY + dt.timedelta(days=file * self.days // self.files)

    def files_of_day(self, day: dt.date) -> int:
        return sum(1 for file in range(self.files) if self.day(file) == day)

    def make(self) -> Path:
        """The table's folder, made when it isn't there."""
        if not self.path.exists():
            unfinished = self.path.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            log = unfinished / "_delta_log"
            log.mkdir(parents=True)
            now_ms = int(time.time() * 1000)
            self._by_commits(log, now_ms) if self.commits else self._by_checkpoint(log, now_ms)
            unfinished.rename(self.path)
        return self.path

    def _by_commits(self, log: Path, now_ms: int) -> None:
        count = self.commits or 1
        cuts = np.linspace(0, self.files, count + 1).astype(int)
        for version in range(count):
            adds = ({"add": self._add(file, 0)} for file in range(cuts[version], cuts[version + 1]))
            _commit(log, version, now_ms - 1000 * (count - version), self._head() if version == 0 else [], adds)

    def _by_checkpoint(self, log: Path, now_ms: int) -> None:
        began_ms = now_ms - 1000 * (TAIL_COMMITS + 2)
        _commit(log, 0, began_ms, self._head())
        _commit(log, 1, began_ms + 1000, [])
        self._write_checkpoint(log)
        replaced = np.linspace(0, self.files - 1, TAIL_COMMITS * REPLACED_PER_COMMIT).astype(int)
        for i, some in enumerate(np.array_split(np.unique(replaced), TAIL_COMMITS)):
            removes = [{"remove": self._remove(int(file), began_ms)} for file in some]
            adds = [{"add": self._add(int(file), 1)} for file in some]
            _commit(log, 2 + i, began_ms + 1000 * (2 + i), removes, adds)

    # --- actions as JSON ---

    def _head(self) -> list[dict[str, Any]]:
        return [{"protocol": PROTOCOL}, {"metaData": self._metadata()}]

    def _metadata(self) -> dict[str, Any]:
        types = [(name, kind) for name, (kind, _) in COLUMNS.items()] + [("day", "date")]
        fields = [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types]
        return {
            "id": "8c6f1b9e-2d0a-4f57-9b3e-5a1c7d2e4f60",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": ["day"],
            "configuration": {},
            "createdTime": int(FIRST_MOMENT.timestamp() * 1000),
        }

    def _data_path(self, file: int, generation: int) -> str:
        return f"day={self.day(file)}/part-{file:08d}-6f0e9d2a-1c1b-4b7f-9a53-{generation:012x}.c000.zstd.parquet"

    def _add(self, file: int, generation: int) -> dict[str, Any]:
        return {
            "path": self._data_path(file, generation),
            "partitionValues": {"day": str(self.day(file))},
            "size": _size(file),
            "modificationTime": int(FIRST_MOMENT.timestamp() * 1000) + file,
            "dataChange": True,
            "stats": _stats_text(file),
        }

    def _remove(self, file: int, at_ms: int) -> dict[str, Any]:
        return {
            "path": self._data_path(file, 0),
            "deletionTimestamp": at_ms,
            "dataChange": True,
            "extendedFileMetadata": True,
            "partitionValues": {"day": str(self.day(file))},
            "size": _size(file),
        }

    # --- the checkpoint ---

    def _write_checkpoint(self, log: Path) -> None:
        metadata = self._metadata()
        metadata["format"] = {"provider": "parquet", "options": []}
        metadata["configuration"] = []
        add = self._adds(np.arange(1)).type
        schema = pa.schema({"txn": _TXN, "add": add, "remove": _REMOVE, "metaData": _METADATA, "protocol": _PROTOCOL})
        path = log / self.checkpoint.name
        order = np.random.default_rng(self.files).permutation(self.files)
        with pq.ParquetWriter(path, schema, compression="snappy") as writer:
            for first in range(0, self.files, ROW_GROUP_ROWS):
                columns = {"add": self._adds(order[first : first + ROW_GROUP_ROWS])}
                if first == 0:
                    for name, row in (("protocol", PROTOCOL), ("metaData", metadata)):
                        columns = _with_row(columns, name, row, schema)
                rows = max(len(column) for column in columns.values())
                arrays = [columns.get(field.name, pa.nulls(rows, field.type)) for field in schema]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema), row_group_size=ROW_GROUP_ROWS + 2)
        hint = {"version": 1, "size": self.files + 2, "sizeInBytes": path.stat().st_size, "numOfAddFiles": self.files}
        (log / "_last_checkpoint").write_text(json.dumps(hint))

    def _adds(self, files: np.ndarray[Any, Any]) -> pa.StructArray:
        numbers = [int(file) for file in files]
        days = [self.day(file) for file in numbers]
        count = len(numbers)
        columns = {
            "path": pa.array([self._data_path(file, 0) for file in numbers]),
            "partitionValues": pa.MapArray.from_arrays(
                pa.array(range(count + 1), pa.int32()), pa.array(["day"] * count), pa.array([str(d) for d in days])
            ),
            "size": pa.array([_size(file) for file in numbers], pa.int64()),
            "modificationTime": pa.array([int(FIRST_MOMENT.timestamp() * 1000) + f for f in numbers], pa.int64()),
            "dataChange": pa.array([False] * count),
            "tags": pa.nulls(count, TEXT_MAP),
            "stats": pa.array([_stats_text(file) for file in numbers]),
        }
        if self.structs:
            columns["stats_parsed"] = _stats_structs(np.asarray(files, np.int64))
            columns["partitionValues_parsed"] = pa.StructArray.from_arrays([pa.array(days, pa.date32())], ["day"])
        return pa.StructArray.from_arrays(list(columns.values()), list(columns))


def _commit(log: Path, version: int, at_ms: int, *actions: Iterable[dict[str, Any]]) -> None:
    info = {"timestamp": at_ms, "operation": "WRITE", "operationParameters": {"mode": "Append"}}
    with (log / f"{version:020d}.json").open("w") as file:
        file.write(json.dumps({"commitInfo": info}) + "\n")
        file.writelines(json.dumps(action, separators=(",", ":")) + "\n" for some in actions for action in some)


def _with_row(columns: dict[str, pa.Array], name: str, row: Any, schema: pa.Schema) -> dict[str, pa.Array]:
    """One more row, in which only this action is set."""
    rows = max(len(column) for column in columns.values())
    longer = {n: pa.concat_arrays([c, pa.nulls(1, c.type)]) for n, c in columns.items()}
    kind = schema.field(name).type
    return {**longer, name: pa.concat_arrays([pa.nulls(rows, kind), pa.array([row], kind)])}


# --- statistics: id and at follow the file's number, the others are anywhere -------------------------------------------


def _size(file: int) -> int:
    return 1_000_000 + file * 7919 % 500_000


def _scattered(file: Any) -> Any:
    return file * 48_271 % 900_000


def _stats_text(file: int) -> str:
    first, low = file * ROWS_PER_FILE, _scattered(file)
    began = FIRST_MOMENT + dt.timedelta(seconds=first)

    def bounds(step: int) -> dict[str, Any]:
        at = began + dt.timedelta(seconds=step)
        return {
            "id": first + step,
            "account": low + 50 * step,
            "amount": low + step + 0.5,
            "name": f"customer {low + step:06d}",
            "at": at.strftime("%Y-%m-%dT%H:%M:%S.000Z"),
            "price": low + step,
        }

    stats = {
        "numRecords": ROWS_PER_FILE,
        "minValues": bounds(0),
        "maxValues": bounds(ROWS_PER_FILE - 1),
        "nullCount": dict.fromkeys(COLUMNS, 0),
    }
    return json.dumps(stats, separators=(",", ":"))


def _stats_structs(files: np.ndarray[Any, Any]) -> pa.StructArray:
    first, low = files * ROWS_PER_FILE, _scattered(files)
    began_us = int(FIRST_MOMENT.timestamp()) * 1_000_000 + first * 1_000_000

    def bounds(step: int) -> pa.StructArray:
        values = {
            "id": pa.array(first + step),
            "account": pa.array(low + 50 * step),
            "amount": pa.array(low + step + 0.5),
            "name": pa.array([f"customer {v:06d}" for v in (low + step).tolist()]),
            "at": pa.array(began_us + step * 1_000_000).cast(COLUMNS["at"][1]),
            "price": pa.array(low + step).cast(pa.decimal128(19, 0)).cast(COLUMNS["price"][1]),
        }
        return pa.StructArray.from_arrays(list(values.values()), list(values))

    zeros = pa.array(np.zeros(len(files), np.int64))
    parts = {
        "numRecords": pa.array(np.full(len(files), ROWS_PER_FILE, np.int64)),
        "minValues": bounds(0),
        "maxValues": bounds(ROWS_PER_FILE - 1),
        "nullCount": pa.StructArray.from_arrays([zeros] * len(COLUMNS), list(COLUMNS)),
    }
    return pa.StructArray.from_arrays(list(parts.values()), list(parts))


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
