"""Makes V2-checkpointed tables of up to a hundred million files, without the data files.

Columns, footers, order and state of the checkpoint are those that the core writes of a sample. The
sidecars of all files are then written by pyarrow, one at a time, since the core would need commits
with the actions of all files first. Independent of the measures.
"""

from __future__ import annotations

import json
import os
import shutil
import time
import uuid
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from support import harness

# A part of the folder's name: increase it when the content changes.
GENERATION = 1
ROWS_PER_FILE = 1000
A_DAY = 100_000
FIRST_DAY = np.datetime64("2026-01-01", "D")
# The core keeps an order that was chosen for this many files.
SAMPLE = 1_000_000
CREATED_MS = 1_767_225_600_000
VERSION = 2
BOUND_CHARACTERS = 40

Numbers = np.ndarray[Any, np.dtype[np.int64]]


def sidecar_files(live: int) -> int:
    """Files of a sidecar, as the core chooses them."""
    return min(max(isqrt(live) * 5 // 4, 1_024), 50_000)


@dataclass(frozen=True)
class HugeLog:
    """A log to make: this many files of a thousand rows, `a_day` of them in each partition, with
    statistics of `id`. The log ends with its checkpoint."""

    files: int
    a_day: int = A_DAY

    @property
    def path(self) -> Path:
        return harness.CACHE / "huge" / f"{self.files}-{self.a_day}-{GENERATION}"

    @property
    def name(self) -> str:
        """The log as a part of a case's name."""
        return f"{self.files:,} files"

    def make(self) -> Path:
        """The table's folder, made if it doesn't exist."""
        if not self.path.exists():
            unfinished = self.path.with_suffix(".unfinished")
            shutil.rmtree(unfinished, ignore_errors=True)
            sample = self._sampled(self.path.with_suffix(".sample"))
            _Writer(self, sample).write(unfinished)
            shutil.rmtree(sample)
            unfinished.rename(self.path)
        return self.path

    def arguments(self, **others: Any) -> Callable[[], dict[str, Any]]:
        """A function that makes the log and returns a case's arguments."""
        return lambda: {"log": asdict(self), "path": str(self.make()), **others}

    def copy_to(self, folder: Path) -> Path:
        """Copies the table by links, since files of a log never change."""

        def linked(source: str, target: str) -> None:
            if Path(source).name == "_last_checkpoint":
                shutil.copy2(source, target)
            else:
                os.link(source, target)

        shutil.copytree(self.make(), folder, copy_function=linked)
        return folder

    # --- files ---

    def day(self, files: Any) -> Any:
        """Files are ordered by time."""
        return FIRST_DAY + files // self.a_day

    def spread(self, count: int, seed: int = 0) -> Numbers:
        """Some files all over the table."""
        step = max(self.files // count, 1)
        return np.unique((np.arange(count, dtype=np.int64) * step + 7 * seed + step // 2) % self.files)

    def add(self, file: int, generation: int = 0) -> dict[str, Any]:
        """A file's add; `generation` counts replacements by a file with the same rows."""
        adds = _columns(np.array([file], np.int64), self.day, generation)
        names = ("path", "size", "modificationTime", "stats")
        values = {name: adds[name][0].as_py() for name in names}
        return {**values, "partitionValues": {"day": str(self.day(file))}, "dataChange": True}

    def commit(self, table: Path, version: int, removed: Numbers, added: Numbers, generation: int) -> None:
        """Writes a commit by hand that replaces files, or adds them."""
        at_ms = int(time.time() * 1000)
        lines: list[dict[str, Any]] = [{"commitInfo": {"timestamp": at_ms, "operation": "WRITE"}}]
        for file in removed.tolist():
            add = self.add(file, generation - 1)
            values = {name: add[name] for name in ("path", "partitionValues", "size")}
            remove = {**values, "deletionTimestamp": at_ms, "dataChange": True, "extendedFileMetadata": True}
            lines.append({"remove": remove})
        lines += [{"add": self.add(file, generation)} for file in added.tolist()]
        path = table / "_delta_log" / f"{version:020d}.json"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    # --- the sample ---

    def _sampled(self, folder: Path) -> Path:
        """A table with a part of the files, or all of them, and the core's checkpoint of it."""
        from deltaplane import DeltaTable

        shutil.rmtree(folder, ignore_errors=True)
        log = folder / "_delta_log"
        log.mkdir(parents=True)
        info = {"commitInfo": {"timestamp": CREATED_MS, "operation": "WRITE"}}
        head = [info, {"protocol": _PROTOCOL}, {"metaData": _metadata()}]
        for version, lines in enumerate([head, [info], [info]]):
            (log / f"{version:020d}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
        count = min(self.files, SAMPLE)
        chosen = np.arange(count, dtype=np.int64) * self.files // count
        _write_foreign(log / f"{1:020d}.checkpoint.parquet", chosen, self.day)
        (log / "_last_checkpoint").write_text(json.dumps({"version": 1, "size": count + 2}))
        DeltaTable(str(folder)).create_checkpoint()
        return folder


class _Writer:
    """Writes the checkpoint of all files in the form of the sample's."""

    def __init__(self, log: HugeLog, sample: Path) -> None:
        self._log = log
        self._sample = sample / "_delta_log"
        top = next(self._sample.glob(f"{VERSION:020d}.checkpoint.*.parquet"))
        self._top = pq.read_table(top)
        self._notes = _notes_of(pq.read_metadata(top))
        some = pq.ParquetFile(next((self._sample / "_sidecars").glob("*.parquet")))
        self._schema = some.schema_arrow.with_metadata(_notes_of(some.metadata))
        self._repeated = [
            name
            for i in range(some.metadata.num_columns)
            if some.metadata.row_group(0).column(i).has_dictionary_page
            and (name := some.metadata.row_group(0).column(i).path_in_schema)
        ]
        named = next(row for row in self._top["sidecar"].to_pylist() if row is not None)
        self._order = json.loads(dict(named["tags"])["deltaplane.range"])["order"]
        (curved,) = json.loads(self._notes[b"deltaplane.order"])["curve"]
        self._cuts: list[float] = curved["cuts"]
        self._full = sidecar_files(log.files)

    def write(self, folder: Path) -> None:
        sidecars = folder / "_delta_log" / "_sidecars"
        sidecars.mkdir(parents=True)
        named, size_bytes = [], 0
        for first in range(0, self._log.files, self._full):
            files = np.arange(first, min(first + self._full, self._log.files), dtype=np.int64)
            columns = _columns(files, self._log.day)
            size_bytes += pc.sum(columns["size"]).as_py()
            named.append(self._sidecar(sidecars, files, columns))
        self._write_top(folder / "_delta_log", named)
        self._write_head(folder / "_delta_log", size_bytes)

    def _sidecar(self, folder: Path, files: Numbers, columns: Mapping[str, pa.Array]) -> dict[str, Any]:
        path = folder / f"{uuid.uuid4()}.parquet"
        adds = _struct(self._schema.field("add").type, columns, len(files))
        removes = pa.nulls(len(files), self._schema.field("remove").type)
        rows = pa.table([adds, removes], schema=self._schema)
        pq.write_table(
            rows,
            path,
            row_group_size=len(files),
            compression="zstd",
            compression_level=1,
            use_dictionary=self._repeated,
            max_rows_per_page=4096,
            bloom_filter_options={"add.path": {"ndv": self._full, "fpp": 0.001}},
        )
        with pq.ParquetFile(path) as written:
            group = written.metadata.row_group(0)
        paths = next(c for i in range(group.num_columns) if (c := group.column(i)).path_in_schema == "add.path")
        with path.open("rb") as file:
            file.seek(paths.bloom_filter_offset)
            content = file.read(paths.bloom_filter_length)
        size = path.stat().st_size
        first, last = int(files[0]), int(files[-1])
        sorted_paths = pc.min_max(pc.utf8_slice_codeunits(columns["path"], 0, BOUND_CHARACTERS))
        note = {
            "file": path.name,
            "size": size,
            "adds": len(files),
            "removes": 0,
            "order": self._order,
            "first": self._key(first),
            "last": self._key(last),
            "bounds": [
                _bounds(["partitionValues_parsed", "day"], "date", str(self._log.day(first)), str(self._log.day(last))),
                _bounds(
                    ["stats_parsed", "minValues", "id"],
                    "long",
                    str(first * ROWS_PER_FILE),
                    str(last * ROWS_PER_FILE + ROWS_PER_FILE - 1),
                ),
            ],
            "paths": {
                "min": sorted_paths["min"].as_py(),
                "max": sorted_paths["max"].as_py(),
                "filter": {
                    "start": paths.bloom_filter_offset,
                    "length": paths.bloom_filter_length,
                    "crc32": zlib.crc32(content),
                },
            },
        }
        tags = [("deltaplane.range", json.dumps(note, separators=(",", ":")))]
        return {"path": path.name, "sizeInBytes": size, "modificationTime": CREATED_MS, "tags": tags}

    def _key(self, file: int) -> str:
        """A file's key in the order: its day, the place of its `id` among the cuts, the `id`."""
        day = int(self._log.day(file).astype("datetime64[D]").astype(np.int64))
        place = min(bisect_right(self._cuts, float(file * ROWS_PER_FILE)), 255)
        bits = int(np.array(float(file * ROWS_PER_FILE)).view(np.uint64)) | 1 << 63
        return f"01{(day + (1 << 63)):016x}{place:08x}{bits:016x}"

    def _write_top(self, log: Path, named: list[dict[str, Any]]) -> None:
        state = self._top.filter(pc.is_null(self._top["sidecar"]))
        kind = self._top.schema.field("sidecar").type
        rows = [
            pa.array(named, kind) if field.name == "sidecar" else pa.nulls(len(named), field.type)
            for field in self._top.schema
        ]
        every = pa.concat_tables([state, pa.table(rows, schema=self._top.schema)])
        path = log / f"{VERSION:020d}.checkpoint.{uuid.uuid4()}.parquet"
        pq.write_table(every.replace_schema_metadata(self._notes), path, compression="snappy")
        hint = json.loads((self._sample / "_last_checkpoint").read_text())
        v2 = {**hint["v2Checkpoint"], "path": path.name, "sizeInBytes": path.stat().st_size}
        (log / "_last_checkpoint").write_text(json.dumps({**hint, "size": self._log.files + 3, "v2Checkpoint": v2}))

    def _write_head(self, log: Path, size_bytes: int) -> None:
        """The commit of the checkpoint's version, and its checksum."""
        shutil.copy2(self._sample / f"{VERSION:020d}.json", log)
        sums = {"tableSizeBytes": size_bytes, "numFiles": self._log.files, "numMetadata": 1, "numProtocol": 1}
        content = {**sums, "metadata": _metadata(), "protocol": _PROTOCOL}
        (log / f"{VERSION:020d}.crc").write_text(json.dumps(content))


# --- actions ---


def _notes_of(footer: pq.FileMetaData) -> dict[bytes, bytes]:
    """The footer's keys, without Arrow's own schema, which pyarrow adds."""
    return {key: value for key, value in (footer.metadata or {}).items() if key != b"ARROW:schema"}


def _bounds(path: list[str], kind: str, least: str, greatest: str) -> dict[str, Any]:
    return {"at": path, "type": kind, "min": least, "max": greatest}


def _columns(files: Numbers, day: Callable[[Any], Any], generation: int = 0) -> dict[str, pa.Array]:
    """What is said of these files, by the names of the columns of `add`."""
    days = pa.array(day(files).astype("datetime64[D]").astype(np.int32)).cast(pa.date32())
    day_text, first = days.cast(pa.string()), files * ROWS_PER_FILE
    last, count = first + ROWS_PER_FILE - 1, len(files)
    stats = _joined(
        f'{{"numRecords":{ROWS_PER_FILE},"minValues":{{"id":',
        pa.array(first).cast(pa.string()),
        '},"maxValues":{"id":',
        pa.array(last).cast(pa.string()),
        '},"nullCount":{"id":0}}',
    )
    return {
        "path": _joined("day=", day_text, "/part-00000-", _unique(files, generation), ".c000.zstd.parquet"),
        "partitionValues": pa.MapArray.from_arrays(
            pa.array(np.arange(count + 1, dtype=np.int32)), pa.repeat(pa.scalar("day"), count), day_text
        ),
        "size": pa.array(1_000_000 + files * 7919 % 500_000),
        "modificationTime": pa.array(CREATED_MS + files),
        "dataChange": pa.repeat(pa.scalar(False), count),
        "stats": stats,
        "stats_parsed.numRecords": pa.repeat(pa.scalar(ROWS_PER_FILE, pa.int64()), count),
        "stats_parsed.minValues.id": pa.array(first),
        "stats_parsed.maxValues.id": pa.array(last),
        "stats_parsed.nullCount.id": pa.repeat(pa.scalar(0, pa.int64()), count),
        "partitionValues_parsed.day": days,
    }


def _unique(files: Numbers, generation: int) -> pa.Array:
    """A number of 128 bits for each file, in hexadecimal, that has nothing to do with its order."""
    halves = [_mixed(files.astype(np.uint64) * np.uint64(2) + np.uint64(half), generation) for half in (0, 1)]
    text = np.stack(halves, axis=1).astype(">u8").tobytes().hex().encode()
    offsets = pa.py_buffer(np.arange(0, 32 * len(files) + 1, 32, dtype=np.int32))
    return pa.Array.from_buffers(pa.string(), len(files), [None, offsets, pa.py_buffer(text)])


def _mixed(numbers: Any, generation: int) -> Any:
    """The finaliser of SplitMix64."""
    mixed = numbers + np.uint64(0x9E3779B97F4A7C15 * (2 * generation + 1) % 2**64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _joined(*pieces: Any) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")


def _struct(kind: pa.StructType, columns: Mapping[str, pa.Array], count: int, path: str = "") -> pa.Array:
    """A struct of these columns by their dotted names; other fields are null."""
    children = []
    for field in kind:
        name = f"{path}{field.name}"
        if name in columns:
            children.append(columns[name].cast(field.type))
        elif any(known.startswith(name + ".") for known in columns):
            children.append(_struct(field.type, columns, count, name + "."))
        else:
            children.append(pa.nulls(count, field.type))
    return pa.StructArray.from_arrays(children, fields=list(kind))


def _write_foreign(path: Path, files: Numbers, day: Callable[[Any], Any]) -> None:
    """A classic checkpoint of these files, as other programs write one."""
    texts = pa.map_(pa.string(), pa.string())
    add = pa.struct(
        {
            "path": pa.string(),
            "partitionValues": texts,
            "size": pa.int64(),
            "modificationTime": pa.int64(),
            "dataChange": pa.bool_(),
            "stats": pa.string(),
        }
    )
    features = pa.list_(pa.string())
    protocol = pa.struct(
        {
            "minReaderVersion": pa.int32(),
            "minWriterVersion": pa.int32(),
            "readerFeatures": features,
            "writerFeatures": features,
        }
    )
    metadata = pa.struct(
        {
            "id": pa.string(),
            "format": pa.struct({"provider": pa.string(), "options": texts}),
            "schemaString": pa.string(),
            "partitionColumns": features,
            "configuration": texts,
            "createdTime": pa.int64(),
        }
    )
    schema = pa.schema({"add": add, "metaData": metadata, "protocol": protocol})
    state = {"metaData": {**_metadata(), "configuration": list(_metadata()["configuration"].items())}}
    state["metaData"]["format"] = {"provider": "parquet", "options": []}
    with pq.ParquetWriter(path, schema) as writer:
        writer.write_table(pa.Table.from_pylist([state, {"protocol": _PROTOCOL}], schema=schema))
        for some in _pieces(files, 100_000):
            adds = _struct(add, _columns(some, day), len(some))
            nothing = [pa.nulls(len(some), kind) for kind in (metadata, protocol)]
            writer.write_table(pa.table([adds, *nothing], schema=schema))


def _pieces(files: Numbers, count: int) -> Iterator[Numbers]:
    for first in range(0, len(files), count):
        yield files[first : first + count]


_PROTOCOL: dict[str, Any] = {
    "minReaderVersion": 3,
    "minWriterVersion": 7,
    "readerFeatures": ["v2Checkpoint"],
    "writerFeatures": ["v2Checkpoint"],
}


def _metadata() -> dict[str, Any]:
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("id", "long"), ("day", "date"))]
    return {
        "id": "6f3a1f0e-58c4-4c53-9d0e-0b7d4f8a9c21",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {"delta.checkpointPolicy": "v2"},
        "createdTime": CREATED_MS,
    }
