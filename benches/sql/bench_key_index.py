"""Look-ups by random keys (UUIDs) in a table whose files all have the same bounds: one key, MERGE
of a thousand, DELETE of one, with an index and without; and building the index.

"without an index" reads each of the same files. "reading the rows" is the least that a MERGE has to
do: DuckDB reads the changed rows from the named files. Sizes are the bytes that DELETE read, and
those of the index and of the data files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from support import harness
from support.harness import Case, Contestant, Task, main, scale_of

FILES = {"quick": 20, "small": 1_000, "full": 10_000}
ROWS_PER_FILE = {"quick": 500, "small": 10_000, "full": 10_000}
MERGED = {"quick": 20, "small": 1_000, "full": 1_000}
# A MERGE of fewer keys, most of whose time isn't the reading of the updated rows.
FEW = {"quick": 2, "small": 100, "full": 100}
# Files at most that are written to compare with building: their rows are held in memory.
WRITTEN = 1_000
FOLDER = "_deltaplane_index"
WITHOUT = "without an index"
WRITING = "writing the rows"
READING = "reading the files"
READING_ROWS = "reading the rows"


def keys(file: int, rows: int) -> pa.Array:
    """The UUIDs of a file's rows, as texts."""
    raw = np.random.default_rng(file).bytes(16 * rows).hex()
    texts = (raw[start : start + 32] for start in range(0, len(raw), 32))
    return pa.array([f"{t[:8]}-{t[8:12]}-{t[12:16]}-{t[16:20]}-{t[20:]}" for t in texts])


def part(file: int, rows: int) -> pa.Table:
    """The rows of a file: the key, a number, and random values that don't compress, 150 bytes in
    all."""
    random = np.random.default_rng(file + 1_000_000)
    values = {f"v{n}": pa.array(random.random(rows)) for n in range(15)}
    return pa.table({"user_id": keys(file, rows), "a": pa.array(random.integers(0, 1 << 60, rows)), **values})


def parts(files: int, rows: int) -> Iterator[pa.Table]:
    return (part(file, rows) for file in range(files))


def table_of(files: int, rows: int, indexed: bool) -> Path:
    """The table, made if it doesn't exist."""
    path = harness.CACHE / f"keys-{files}-{rows}-{'indexed' if indexed else 'plain'}"
    if path.exists():
        return path
    from deltaplane import DeltaTable, write_deltalake

    unfinished = path.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    if indexed:
        _link(table_of(files, rows, False), unfinished)
        DeltaTable(str(unfinished)).index.create(["user_id"])
    else:
        for rows_of_file in parts(files, rows):
            write_deltalake(str(unfinished), rows_of_file, mode="append")
        DeltaTable(str(unfinished)).create_checkpoint()
    unfinished.rename(path)
    return path


def _link(table: Path, copy: Path) -> None:
    """Copies a table by hard links, because none of its files is ever changed and a copy of the
    rows would need 15 GB."""
    shutil.copytree(table, copy, copy_function=os.link)


def look_up(indexed: bool, case: Mapping[str, Any], _: Path) -> Task:
    import deltaplane

    table = deltaplane.DeltaTable(str(table_of(case["files"], case["rows"], indexed)))
    wanted = keys(case["files"] // 2, case["rows"])
    numbers = iter(range(len(wanted)))
    return Task(lambda: table.scan(["a"], f"user_id = '{wanted[next(numbers)]}'").to_arrow().num_rows)


def merge(indexed: bool, case: Mapping[str, Any], scratch: Path) -> Task:
    import deltaplane

    path = scratch / "table"
    _link(table_of(case["files"], case["rows"], indexed), path)
    table = deltaplane.DeltaTable(str(path))
    if case["vectors"]:
        table.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    chosen = _chosen(case)
    # Copied, so that the other rows of these files aren't kept in memory.
    source = pa.concat_tables([part(file, case["rows"]).take([row]) for file, row in chosen])

    def run() -> Any:
        merger = table.merge(source, "t.user_id = s.user_id", source_alias="s", target_alias="t")
        return merger.when_matched_update({"a": "0"}).execute()

    return Task(run, lambda done: done["num_target_rows_updated"] - len(chosen) + case["merged"])


def _chosen(case: Mapping[str, Any]) -> list[tuple[int, int]]:
    """The updated rows: their file and their place in it."""
    random = np.random.default_rng(5)
    files, rows = (random.integers(0, case[limit], case["merged"]) for limit in ("files", "rows"))
    return sorted(set(zip(files.tolist(), rows.tolist(), strict=True)))


def read_rows(case: Mapping[str, Any], _: Path) -> Task:
    import duckdb

    chosen, path = _chosen(case), table_of(case["files"], case["rows"], False)
    named = ", ".join(f"'{_file(path, file)}'" for file in sorted({file for file, _ in chosen}))
    wanted = ", ".join(f"'{keys(file, case['rows'])[row]}'" for file, row in chosen)
    query = f"SELECT * FROM read_parquet([{named}]) WHERE user_id IN ({wanted})"
    connection = duckdb.connect()
    return Task(
        lambda: connection.sql(query).to_arrow_table().num_rows, lambda rows: rows - len(chosen) + case["merged"]
    )


def _file(table: Path, number: int) -> Path:
    """The data file that this version of the table added."""
    commit = (table / "_delta_log" / f"{number:020}.json").read_text()
    (added,) = (action["add"]["path"] for action in map(json.loads, commit.splitlines()) if "add" in action)
    return table / str(added)


def delete(indexed: bool, case: Mapping[str, Any], scratch: Path) -> Task:
    """Deletes the rows of one user."""
    import deltaplane

    path = scratch / "table"
    _link(table_of(case["files"], case["rows"], indexed), path)
    wanted = keys(case["files"] // 2, case["rows"])[7].as_py()

    def run() -> tuple[int, int]:
        before = bytes_read()
        done = deltaplane.DeltaTable(str(path)).delete(f"user_id = '{wanted}'")
        return done["num_deleted_rows"], bytes_read() - before

    return Task(run, lambda done: done[0], lambda done: done[1])


def read(case: Mapping[str, Any], _: Path) -> Task:
    """Reads the bytes of all data files, of which one row is to be deleted."""
    path = table_of(case["files"], case["rows"], False)

    def run() -> int:
        return sum(len(file.read_bytes()) for file in path.glob("*.parquet"))

    return Task(run, lambda _: 1, int)


def bytes_read() -> int:
    """The bytes that this process has read, also those that the system had in memory."""
    words = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(words["rchar"])


def build(case: Mapping[str, Any], scratch: Path) -> Task:
    import deltaplane

    path = scratch / "table"
    _link(table_of(case["files"], case["rows"], False), path)
    table = deltaplane.DeltaTable(str(path))
    table.index.create(["user_id"], build=False)
    return Task(table.index.build, lambda states: states[0].entries, lambda _: size(path / FOLDER))


def write(case: Mapping[str, Any], scratch: Path) -> Task:
    import deltaplane

    made = list(parts(case["files"], case["rows"]))

    def run() -> int:
        for rows_of_file in made:
            deltaplane.write_deltalake(str(scratch / "table"), rows_of_file, mode="append")
        return case["files"] * case["rows"]

    return Task(run, int, lambda _: size(scratch / "table"))


def size(path: Path) -> int:
    """Bytes of the data files, or of the index's objects, below a directory."""
    files = (file for file in path.rglob("*") if file.suffix in (".parquet", ".keys"))
    return sum(file.stat().st_size for file in files if "_delta_log" not in file.parts)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    return build(case, scratch) if case["what"] == "build" else _keyed(True, case, scratch)


def without(case: Mapping[str, Any], scratch: Path) -> Task:
    return _keyed(False, case, scratch)


def _keyed(indexed: bool, case: Mapping[str, Any], scratch: Path) -> Task:
    work = {"merge": merge, "delete": delete, "look up": look_up}
    return work[case["what"]](indexed, case, scratch)


CONTESTANTS: dict[str, Contestant] = {
    "deltaplane": deltaplane,
    WITHOUT: without,
    WRITING: write,
    READING: read,
    READING_ROWS: read_rows,
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, help="files of the table, instead of the scale's")


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    files, rows, merged, few = options.files or FILES[scale], ROWS_PER_FILE[scale], MERGED[scale], FEW[scale]
    written = min(files, WRITTEN)

    def case(
        what: str,
        name: str,
        over: list[str],
        expected: int,
        calls: int = 1,
        files: int = files,
        merged: int = merged,
        vectors: bool = False,
        target: str | None = None,
    ) -> Case:
        return Case(
            f"{name}, {files * rows:,} rows in {files:,} files",
            ["deltaplane", *over],
            {"files": files, "rows": rows, "merged": merged, "what": what, "vectors": vectors},
            calls=calls,
            expected=expected,
            series=name,
            size=files,
            target=f"key index {what}" if target is None else target,
        )

    def merging(keys: int, vectors: bool) -> Case:
        name = f"MERGE of {keys:,} keys{' with vectors' if vectors else ''}"
        target = "key index merge" if keys == merged and vectors else ""
        over = [WITHOUT, READING_ROWS] if vectors else [WITHOUT]
        return case("merge", name, over, keys, merged=keys, vectors=vectors, target=target)

    return [
        case("look up", "one key", [WITHOUT], 1, calls=3),
        merging(merged, False),
        merging(merged, True),
        merging(few, True),
        case("delete", "DELETE of one key", [WITHOUT, READING], 1),
        case("build", "building the index", [WRITING], written * rows, files=written),
    ]


if __name__ == "__main__":
    main("key index", CONTESTANTS, cases, arguments)
