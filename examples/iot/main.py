"""Sensors: readings from many threads, late ones, doubled ones, and no small files.

Each device sends numbered batches of readings. A gateway appends them from as many threads as it
has devices: `GroupWriter` combines what arrives meanwhile into one commit, and `append` returns
when the batch is durable. A device that gets no answer sends its batch again; the number, committed
with the rows, makes the second one be skipped.

Readings that come late, over another gateway, may be there already. They are merged by device and
time. The table has auto-compaction: after such a commit the small files that the threads wrote are
joined to a large one.

With your own data: one `GroupWriter` per process; several processes may write to one table. Choose
`max_delay_seconds` by how long an acknowledgement may take.
"""

import datetime as dt
import random
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa

import deltaplane
from deltaplane import DeltaTable, GroupWriter, Transaction

DEVICES, BATCHES, READINGS = 8, 12, 50
SCHEMA = pa.schema({"device": pa.int64(), "time": pa.timestamp("us", "UTC"), "milli_degrees": pa.int64()})
START = dt.datetime(2026, 5, 1, tzinfo=dt.timezone.utc)


def reading(device: int, number: int) -> dict:
    """A device's reading of one minute; the same whenever it is sent."""
    degrees = random.Random(1000 * device + number).randint(15_000, 25_000)
    return {"device": device, "time": START + dt.timedelta(minutes=number), "milli_degrees": degrees}


def numbers(batch: int) -> list[int]:
    """The readings of a batch that arrive in time: one in ten doesn't."""
    return [n for n in range(batch * READINGS, (batch + 1) * READINGS) if n % 10 != 7]


def send(writer: GroupWriter, device: int, rng: random.Random) -> int:
    """A device's day: batch after batch, some of them twice; returns how many were skipped."""
    skipped = 0
    for batch in range(BATCHES):
        rows = pa.Table.from_pylist([reading(device, n) for n in numbers(batch)], SCHEMA)
        for _ in range(2 if rng.random() < 0.3 else 1):
            result = writer.append(rows, txn=Transaction(f"device-{device}", batch))
            skipped += result.skipped == "txn"
    return skipped


def main(folder: Path) -> None:
    location = folder / "readings"
    table = DeltaTable.create(location, SCHEMA, configuration={"delta.autoOptimize.autoCompact": "true"})
    with GroupWriter(table, max_delay_seconds=0.05) as writer, ThreadPoolExecutor(DEVICES) as pool:
        jobs = [pool.submit(send, writer, device, random.Random(device)) for device in range(DEVICES)]
        skipped = sum(job.result() for job in jobs)
    table.update_incremental()
    in_time = DEVICES * sum(len(numbers(batch)) for batch in range(BATCHES))
    assert table.count() == in_time
    commits, files = table.version(), len(table.files())
    assert commits < DEVICES * BATCHES == files
    print(f"{DEVICES * BATCHES} batches and {skipped} repeated ones, in fewer commits: {in_time:,} readings")

    # Over another gateway: all late readings, and a tenth of the others once more.
    late = [n for n in range(BATCHES * READINGS) if n % 10 in (7, 8)]
    rows = pa.Table.from_pylist([reading(device, n) for device in range(DEVICES) for n in late], SCHEMA)
    merger = table.merge(rows, "t.device = s.device AND t.time = s.time", source_alias="s", target_alias="t")
    inserted = merger.when_not_matched_insert_all().execute()["num_target_rows_inserted"]
    assert inserted == rows.num_rows // 2
    print(f"{rows.num_rows:,} late readings merged: {inserted} were missing")

    table = DeltaTable(location)
    every = [reading(device, n) for device in range(DEVICES) for n in range(BATCHES * READINGS)]
    assert table.to_pyarrow_table().sort_by([("device", "ascending"), ("time", "ascending")]).to_pylist() == every
    assert table.history(1)[0]["operation"] == "OPTIMIZE"
    assert len(table.files()) == 1
    print(f"auto-compaction joined {files + 1} files to {len(table.files())}")

    hourly = deltaplane.sql(
        "SELECT device, date_trunc('hour', time) AS hour, count(*) AS n, min(milli_degrees), max(milli_degrees) "
        "FROM readings GROUP BY device, date_trunc('hour', time) ORDER BY device, hour",
        tables={"readings": table},
    ).fetchall()
    assert {row[2] for row in hourly} == {60}
    print(f"{len(hourly)} hours of 60 readings each")


if __name__ == "__main__":
    main(Path(sys.argv[1] if sys.argv[1:] else tempfile.mkdtemp()))
