"""Contestants that make one small commit: append a file of one row, or only commit the add of an
imaginary file.

Each one returns, for a table's directory, a function that makes one more commit. The bar does a
commit's disk operations: a synced file, linked to its version's name if that is free, in a synced
directory. deltalake syncs nothing.
"""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
from support.adds import FIRST_DAY, PARTITION_COLUMN, Adds, rows

Commit = Callable[[], object]
# Many writers of deltaplane make a checkpoint after about 20 versions.
CHECKPOINT_EVERY = 20
# Of a checkpoint that isn't deltaplane's.
ADD_FIELDS = (
    ("path", pa.string()),
    ("partitionValues", pa.map_(pa.string(), pa.string())),
    ("size", pa.int64()),
    ("modificationTime", pa.int64()),
    ("dataChange", pa.bool_()),
    ("stats", pa.string()),
)
# Files that are described before the measure begins: more than it commits.
MOST_PREPARED = 256


def _adds() -> Iterator[dict[str, Any]]:
    """Adds of imaginary files, each with a unique name; making them takes negligible time."""
    files = Adds(np.zeros(1, np.int64), lambda files: np.full(len(files), FIRST_DAY))
    add = json.loads(files.add_lines()[0])["add"]
    return ({**add, "path": f"{PARTITION_COLUMN}={FIRST_DAY}/{uuid.uuid4()}.parquet"} for _ in count())


# --- deltaplane ---


def _added(add: dict[str, Any]) -> Any:
    """The file of an add as the core has files that tasks wrote."""
    from deltaplane import _native

    return _native.AddedFiles.of_rows(pa.table({"add": [json.dumps(add)]}))


def deltaplane_append(table: str) -> Commit:
    from deltaplane import write_deltalake

    data = rows(0, 1)
    return lambda: write_deltalake(table, data, mode="append")


def deltaplane_commit(table: str) -> Commit:
    from deltaplane import _native
    from deltaplane.write.intent import WriteIntent

    request, schema = WriteIntent(mode="append").request(table, None), rows(0, 1).schema
    # The tasks that write files describe them; the commit only gets what they made.
    files = map(_added, _adds())
    prepared = [next(files) for _ in range(MOST_PREPARED)]

    def commit() -> None:
        added = prepared.pop() if prepared else next(files)
        _native.WriteJob.begin(table, None, schema, request).commit(added)

    return commit


# --- deltalake ---


def deltalake_append(table: str) -> Commit:
    from deltalake import write_deltalake

    data = rows(0, 1)
    return lambda: write_deltalake(table, data, mode="append")


def deltalake_commit(table: str) -> Commit:
    from deltalake import DeltaTable, Schema
    from deltalake.transaction import AddAction

    opened, schema = DeltaTable(table), Schema.from_arrow(rows(0, 1).schema)
    adds = _adds()

    def commit() -> None:
        add = next(adds)
        action = AddAction(add["path"], add["size"], {PARTITION_COLUMN: str(FIRST_DAY)}, 0, True, add["stats"])
        opened.create_write_transaction([action], "append", schema, [PARTITION_COLUMN])

    return commit


# --- the disk alone ---


def bare_append(table: str) -> Commit:
    import pyarrow.parquet as pq

    commit, data = bare_commit(table), rows(0, 1).drop_columns([PARTITION_COLUMN])
    folder = Path(table) / f"{PARTITION_COLUMN}={FIRST_DAY}"
    folder.mkdir(exist_ok=True)

    def append() -> None:
        path = folder / f"{uuid.uuid4()}.parquet"
        with path.open("wb") as file:
            pq.write_table(data, file, compression="zstd")
            sync(file)
        sync_folder(folder)
        commit()

    return append


def bare_commit(table: str, reads_winners: bool = False, checkpoint_every: int | None = None) -> Commit:
    log = Path(table) / "_delta_log"
    newest = max(int(path.name[:20]) for path in log.glob("*.json"))
    versions, adds = count(newest + 1), _adds()
    info = {"timestamp": 0, "operation": "WRITE", "operationParameters": {"mode": "Append"}}

    def commit() -> None:
        text = "\n".join(json.dumps(action) for action in ({"commitInfo": info}, {"add": next(adds)}))
        temporary = log / f".{uuid.uuid4()}.tmp"
        with temporary.open("w") as file:
            file.write(text)
            sync(file)
        for version in versions:
            name = log / f"{version:020d}.json"
            try:
                os.link(temporary, name)
            except FileExistsError:
                if reads_winners:
                    _conflicts(name.read_text())
                continue
            break
        temporary.unlink()
        sync_folder(log)
        if checkpoint_every and version % checkpoint_every == 0:
            _write_checkpoint(log, newest + 1, version)

    return commit


def _write_checkpoint(log: Path, first: int, version: int) -> None:
    """Writes the adds of the newest checkpoint and of the commits after it to a checkpoint, and
    names it in the hint. The race began with the version `first`."""
    import pyarrow.parquet as pq

    older = [int(path.name[:20]) for path in log.glob("*.checkpoint.parquet")]
    base = max((other for other in older if first <= other < version), default=first - 1)
    texts = ((log / f"{n:020d}.json").read_text() for n in range(base + 1, version + 1))
    made = [json.loads(line)["add"] for text in texts for line in text.splitlines() if '"add"' in line]
    for add in made:
        add["partitionValues"] = list(add["partitionValues"].items())
    rows_of_commits = pa.table({"add": pa.array(made, pa.struct(ADD_FIELDS))})
    tables = [rows_of_commits] if base < first else [pq.read_table(log / _checkpoint(base)), rows_of_commits]
    temporary = log / f".{uuid.uuid4()}.tmp"
    with temporary.open("wb") as file:
        pq.write_table(pa.concat_tables(tables), file, compression="zstd")
        sync(file)
    temporary.replace(log / _checkpoint(version))
    temporary.write_text(json.dumps({"version": version, "size": version}))
    temporary.replace(log / "_last_checkpoint")


def _checkpoint(version: int) -> str:
    return f"{version:020d}.checkpoint.parquet"


def _conflicts(text: str) -> bool:
    """Whether a winner's commit conflicts with an append: by new metadata or a new protocol."""
    return any(not {"metaData", "protocol"}.isdisjoint(json.loads(line)) for line in text.splitlines())


def careful_race(table: str) -> Commit:
    """As `bare_commit`, which takes the next free name whatever was committed under the others, but
    reads each winner's commit first, as the protocol demands of a writer that lost."""
    return bare_commit(table, reads_winners=True)


def checkpointing_race(table: str) -> Commit:
    """As `careful_race`, with as many checkpoints as deltaplane's writers make: the least program
    that reads and writes the same files."""
    return bare_commit(table, reads_winners=True, checkpoint_every=CHECKPOINT_EVERY)


def sync(file: IO[Any]) -> None:
    """Syncs written data to disk."""
    file.flush()
    os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Syncs a directory's names to disk."""
    handle = os.open(folder, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


APPENDS: Mapping[str, Callable[[str], Commit]] = {
    "deltaplane": deltaplane_append,
    "deltalake": deltalake_append,
    "disk alone": bare_append,
}
COMMITS: Mapping[str, Callable[[str], Commit]] = {
    "deltaplane": deltaplane_commit,
    "deltalake": deltalake_commit,
    "disk alone": bare_commit,
}
RACES: Mapping[str, Callable[[str], Commit]] = {
    **COMMITS,
    "disk, winners read": careful_race,
    "disk, winners and checkpoints": checkpointing_race,
}


def newest_version(table: Path) -> int:
    """The newest version, from the names in the log."""
    return max(int(p.name[:20]) for p in (table / "_delta_log").glob("*.json") if p.name[:20].isdecimal())
