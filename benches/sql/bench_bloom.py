"""Look-ups of keys in no order among the row groups of one file, with Bloom filters and without:
the time, and as size the bytes that the process read. Then the cost of filters: the time of a
write, and as size the bytes of its files.

Keys are random numbers, so that the bounds of every row group hold every key. DuckDB reads the same
files, and uses their filters too.
"""

from __future__ import annotations

import argparse
import functools
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support import harness
from support.harness import Case, Contestant, Task, main, scale_of
from support.rows import SEED

ROWS = {"quick": 20_000, "small": 4_000_000, "full": 20_000_000}
GROUPS = 20
# Look-ups of one call, each with as many keys as the case says.
LOOKUPS = {"quick": 3, "small": 20, "full": 20}
PROPERTY = "deltaplane.parquet.bloomFilterColumns"


def data(rows: int) -> pa.Table:
    """Even random keys and what belongs to them, the same each time."""
    chance = np.random.default_rng(SEED)
    keys = chance.integers(0, 1 << 60, rows) * 2
    texts = pa.array([f"customer {i:06d}" for i in range(100_000)])
    names = texts.take(pa.array(chance.integers(0, len(texts), rows)))
    return pa.table({"key": keys, "amount": chance.random(rows), "name": names})


def table_of(rows: int, filters: bool) -> str:
    """A table of one file, made if it doesn't exist."""
    path = harness.CACHE / f"keys-{rows}-{'filters' if filters else 'plain'}-{SEED}"
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        write(data(rows), str(unfinished), filters)
        unfinished.rename(path)
    return str(path)


def write(rows: pa.Table, path: str, filters: bool) -> None:
    from deltaplane import WriterProperties, write_deltalake

    write_deltalake(
        path,
        rows,
        configuration={PROPERTY: "key"} if filters else None,
        target_file_size=1 << 40,
        writer_properties=WriterProperties(max_row_group_size=-(-rows.num_rows // GROUPS)),
    )


def _bytes_read() -> int:
    """The bytes that this process has read, also those that the system had in memory."""
    words = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(words["rchar"])


def _by_deltaplane(path: str, keys: list[int]) -> int:
    from deltaplane import DeltaTable

    listed = ", ".join(map(str, keys))
    return int(DeltaTable(path).to_pyarrow_table(filters=f"key IN ({listed})").num_rows)


def _by_duckdb(path: str, keys: list[int]) -> int:
    import duckdb

    listed = ", ".join(map(str, keys))
    text = f"SELECT * FROM read_parquet('{path}/*.parquet') WHERE key IN ({listed})"
    return len(duckdb.connect().execute(text).fetchall())


def contestant(name: str, case: Mapping[str, Any], scratch: Path) -> Task:
    filters = name != "without filters"
    if case["keys"] is None:
        rows = data(case["rows"])
        target = scratch / "t"

        def clear() -> None:
            shutil.rmtree(target, ignore_errors=True)

        def written(_: object) -> int:
            return sum(file.stat().st_size for file in target.glob("*.parquet"))

        return Task(lambda: write(rows, str(target), filters), lambda _: 0, written, clear)
    path = case["with"] if filters else case["without"]
    find: Callable[[str, list[int]], int] = _by_duckdb if name == "DuckDB" else _by_deltaplane

    def look_up() -> tuple[int, int]:
        before = _bytes_read()
        matches = sum(find(path, keys) for keys in case["keys"])
        return matches, _bytes_read() - before

    return Task(look_up, lambda done: done[0], lambda done: done[1])


CONTESTANTS: dict[str, Contestant] = {
    name: functools.partial(contestant, name) for name in ("deltaplane", "without filters", "DuckDB")
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rows", type=int, help="rows of the table, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    rows, lookups = options.rows or ROWS[scale_of(options)], LOOKUPS[scale_of(options)]

    def lookup(each: int, there: bool) -> dict[str, Any]:
        """Keys of the table, or the odd numbers after them, which it doesn't have."""
        chance = np.random.default_rng(SEED + each)
        drawn = chance.choice(data(rows)["key"].to_numpy(), (lookups, each)) + (0 if there else 1)
        return {"with": table_of(rows, True), "without": table_of(rows, False), "rows": rows, "keys": drawn.tolist()}

    def writing() -> dict[str, Any]:
        return {"rows": rows, "keys": None}

    made = [
        Case(
            f"{rows:,} rows, {lookups} look-ups of {each} {'key' if each == 1 else 'keys'}{'' if there else ' that nobody has'}",
            list(CONTESTANTS),
            functools.partial(lookup, each, there),
            calls=3,
            expected=None if there else 0,
            size=rows,
        )
        for each, there in ((1, True), (1, False), (10, True))
    ]
    return [*made, Case(f"{rows:,} rows, written", ["deltaplane", "without filters"], writing, calls=2, size=rows)]


if __name__ == "__main__":
    main("bloom", CONTESTANTS, cases, arguments)
