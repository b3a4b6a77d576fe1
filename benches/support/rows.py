"""The rows for writes and scans, as Arrow, and the contestants that write them to a folder.

The same seed makes the same rows; they are stored under the cache directory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from support import harness

SEED = 20260101
ROWS = {"quick": 100_000, "small": 1_000_000, "full": 10_000_000}
CHUNK_ROWS = 1_000_000
# Codec → every writer's level; None for codecs without levels.
CODECS: Mapping[str, int | None] = {"zstd": 1, "snappy": None}
# Amounts are uniform between 0 and this, in no order.
AMOUNT_LIMIT = 100_000.0

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "account": pa.int64(),
        "amount": pa.float64(),
        "name": pa.string(),
        "at": pa.timestamp("us", tz="UTC"),
        "price": pa.decimal128(12, 2),
    }
)


def _chunk(first: int, rows: int) -> pa.RecordBatch:
    random = np.random.default_rng([SEED, first])
    ids = np.arange(first, first + rows, dtype=np.int64)
    # One second of time per ten rows, out of order by up to a minute, like arriving events.
    moments = 1_767_225_600_000_000 + ids * 100_000 + random.integers(0, 60_000_000, rows)
    cents = np.zeros((rows, 2), np.int64)
    cents[:, 0] = random.integers(0, 10_000_000, rows)
    prices = pa.Array.from_buffers(SCHEMA.field("price").type, rows, [None, pa.py_buffer(cents)])
    names = pa.array([f"customer {i:06d}" for i in range(100_000)])
    picked = pa.array(random.integers(0, len(names), rows).astype(np.int32))
    columns = [
        pa.array(ids),
        pa.array(random.integers(0, 1_000_000, rows)),
        pa.array(random.random(rows) * AMOUNT_LIMIT),
        names.take(picked),
        pa.array(moments).cast(SCHEMA.field("at").type),
        prices,
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def file_of(rows: int) -> Path:
    """An Arrow IPC file with this many rows, made if it doesn't exist."""
    path = harness.CACHE / f"rows-{rows}-{SEED}.arrow"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        with pa.OSFile(str(unfinished), "wb") as sink, pa.ipc.new_file(sink, SCHEMA) as writer:
            for first in range(0, rows, CHUNK_ROWS):
                writer.write_batch(_chunk(first, min(CHUNK_ROWS, rows - first)))
        unfinished.rename(path)
    return path


def in_memory(path: str | Path) -> pa.Table:
    """The file's rows, copied into this process's own memory."""
    with pa.OSFile(str(path), "rb") as source:
        return pa.ipc.open_file(source).read_all()


def write_deltaplane(rows: pa.Table, path: str, codec: str) -> None:
    from deltaplane import WriterProperties, write_deltalake

    properties = WriterProperties(compression=codec.upper(), compression_level=CODECS[codec])
    write_deltalake(path, rows, mode="append", writer_properties=properties)


def write_peer(rows: pa.Table, path: str, codec: str) -> None:
    from deltalake import WriterProperties, write_deltalake

    properties = WriterProperties(compression=codec.upper(), compression_level=CODECS[codec])
    write_deltalake(path, rows, mode="append", writer_properties=properties)


def write_bare(rows: pa.Table, path: str, codec: str) -> None:
    Path(path).mkdir()
    pq.write_table(rows, f"{path}/rows.parquet", compression=codec, compression_level=CODECS[codec])


WRITERS: Mapping[str, Callable[[pa.Table, str, str], None]] = {
    "deltaplane": write_deltaplane,
    "deltalake": write_peer,
    "pyarrow": write_bare,
}


def data_files(path: str) -> list[Path]:
    """The Parquet files below a folder, without those of the log."""
    return [p for p in Path(path).rglob("*.parquet") if "_delta_log" not in p.parts]
