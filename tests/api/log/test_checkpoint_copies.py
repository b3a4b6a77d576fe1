"""Copies of foreign checkpoints in the local cache: plans with a predicate use them and equal plans
without a cache, whatever changes in the cache, in the log, and in other processes (T4).
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable
from deltaplane.io.cache import cache_info, clear_cache

FILES = 6_000


def _stats(n: int) -> str:
    low, high = {"id": n * 10, "name": f"n{n:07}"}, {"id": n * 10 + 9, "name": f"n{n:07}z"}
    # As long as statistics of wide tables and incompressible, so that a copy has several blocks.
    others = {f"other {i}": hashlib.sha256(f"{n} {i}".encode()).hexdigest() for i in range(4)}
    return json.dumps({"numRecords": 10, "minValues": {**low, **others}, "maxValues": high, "nullCount": {"id": 0}})


def _add(n: int) -> dict[str, Any]:
    # In no order, and incompressible.
    place = n * 7919 % FILES
    return {
        "path": f"day={place % 3}/f{place:06}-{place * 2654435761 % 2**64:020}.parquet",
        "partitionValues": {"day": str(place % 3)},
        "size": 100 + place,
        "modificationTime": place,
        "dataChange": False,
        "stats": _stats(place),
    }


def _head(columns: Sequence[str] = ("id", "name")) -> list[dict[str, Any]]:
    types = {"id": "long", "name": "string", "day": "integer", "new": "long"}
    fields = [{"name": c, "type": types[c], "nullable": True, "metadata": {}} for c in (*columns, "day")]
    metadata = {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": ["day"],
        "configuration": {},
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _commit(log: Path, version: int, actions: Sequence[dict[str, Any]]) -> None:
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def _checkpoint(log: Path, adds: Sequence[dict[str, Any]]) -> Path:
    strings = pa.map_(pa.string(), pa.string())
    format_ = pa.struct([("provider", pa.string()), ("options", strings)])
    metadata = pa.struct(
        [
            ("id", pa.string()),
            ("format", format_),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", strings),
        ]
    )
    add = pa.struct(
        [
            ("path", pa.string()),
            ("partitionValues", strings),
            ("size", pa.int64()),
            ("modificationTime", pa.int64()),
            ("dataChange", pa.bool_()),
            ("stats", pa.string()),
        ]
    )
    protocol = pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])
    schema = pa.schema([("protocol", protocol), ("metaData", metadata), ("add", add)])
    rows = [*_head(), *({"add": {**a, "partitionValues": list(a["partitionValues"].items())}} for a in adds)]
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    path = log / f"{0:020}.checkpoint.parquet"
    pq.write_table(table, path, compression="none", use_dictionary=False)
    assert path.stat().st_size > 1 << 20
    return path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with a foreign checkpoint and two commits after it."""
    table = tmp_path_factory.mktemp("foreign") / "t"
    log = table / "_delta_log"
    log.mkdir(parents=True)
    adds = [_add(n) for n in range(FILES)]
    _commit(log, 0, _head())
    _checkpoint(log, adds)
    removes = [{"remove": {"path": a["path"], "dataChange": True, "deletionTimestamp": 1}} for a in adds[:5]]
    _commit(log, 1, removes)
    _commit(log, 2, [{"add": {**_add(0), "path": "day=0/new.parquet", "stats": _stats(5)}}])
    return table


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "t"))


@pytest.fixture
def options(tmp_path: Path) -> dict[str, str]:
    return {"cache_dir": str(tmp_path / "cache"), "cache_checkpoints": "true"}


PREDICATES = [
    "id BETWEEN 20000 AND 20099",
    "id = 59",
    "day = 1 AND id < 500",
    "name >= 'n0005990'",
    "id IS NULL",
    "id < 30000 AND day <> 2",
    "id = 20000 OR name = 'n0000004'",
]


def _plan(path: Path, predicate: str | None, options: dict[str, str] | None = None) -> list[tuple[Any, ...]]:
    return _rows(DeltaTable(str(path), storage_options=options), predicate)


def _rows(table: DeltaTable, predicate: str | None) -> list[tuple[Any, ...]]:
    plan = table.plan(predicate).read_all()
    rows = [tuple(map(str, row.values())) for row in plan.to_pylist()]
    return sorted(rows)


def _entries(options: dict[str, str]) -> int:
    return cache_info(options["cache_dir"]).entries


def test_plans_are_the_same_with_a_copy(table: Path, options: dict[str, str]) -> None:
    for predicate in PREDICATES:
        expected = _plan(table, predicate)
        # The first plan writes the copy, the others use it.
        assert _plan(table, predicate, options) == expected, predicate
    assert len(_plan(table, PREDICATES[0])) == 10
    assert _plan(table, None, options) == _plan(table, None)
    entries = _entries(options)
    assert entries > 4
    assert list(cache_info(options["cache_dir"]).tables) == [str(table)]
    opened = DeltaTable(str(table), storage_options=options)
    for predicate in PREDICATES:
        assert _rows(opened, predicate) == _plan(table, predicate)
    assert _entries(options) == entries


def test_there_is_none_unless_it_is_asked_for(table: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    expected = _plan(table, PREDICATES[0])
    assert _plan(table, PREDICATES[0], {"cache_dir": str(cache)}) == expected
    # The checkpoint takes most of this small cache.
    assert (
        _plan(table, PREDICATES[0], {"cache_dir": str(cache), "cache_checkpoints": "on", "cache_bytes": "4MiB"})
        == expected
    )
    # Without a predicate all files are read in any case.
    assert len(_plan(table, None, {"cache_dir": str(cache), "cache_checkpoints": "on"})) == FILES - 4
    assert not cache.exists()


def test_a_copy_follows_the_commits(table: Path, options: dict[str, str]) -> None:
    opened = DeltaTable(str(table), storage_options=options)
    before = _rows(opened, "id < 1000")
    gone = before[0][0]
    log = table / "_delta_log"
    _commit(log, 3, [{"remove": {"path": gone, "dataChange": True, "deletionTimestamp": 1}}])
    # Another schema: the copy has no column `new`.
    _commit(log, 4, [_head(("id", "name", "new"))[1], {"add": {**_add(0), "path": "x.parquet", "stats": _stats(7)}}])
    opened.update_incremental()
    for predicate in (*PREDICATES, "id < 1000", "new IS NULL", "new = 1"):
        assert _rows(opened, predicate) == _plan(table, predicate) == _plan(table, predicate, options), predicate
    older = DeltaTable(str(table), version=2, storage_options=options)
    assert _rows(older, "id < 1000") == before


def test_another_checkpoint_under_its_name_has_another_copy(table: Path, options: dict[str, str]) -> None:
    assert len(_plan(table, "id >= 0", options)) == FILES - 4
    log = table / "_delta_log"
    path = _checkpoint(log, [{**_add(n), "stats": _stats(10 * FILES)} for n in range(FILES)])
    assert path.exists()
    # All files but the new one get other statistics.
    assert _plan(table, "id = 50", options) == _plan(table, "id = 50")
    assert len(_plan(table, "id = 50", options)) == 1


def _damage(how: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def damage(cache: Path) -> None:
        files = [f for f in cache.rglob("*") if f.is_file()]
        assert files
        for file in files:
            file.write_bytes(how(file.read_bytes()))

    return damage


def _one_block(cache: Path) -> None:
    """Deletes a block that opening the copy doesn't read, if there is one: the largest files are
    whole blocks."""
    largest = max((f for f in cache.rglob("*") if f.is_file()), key=lambda f: f.stat().st_size)
    for file in [f for f in cache.rglob("*") if f.is_file() and f.stat().st_size == largest.stat().st_size]:
        file.unlink()


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cleared": clear_cache,
    "bits": _damage(lambda b: b[:-9] + bytes([b[-9] ^ 4]) + b[-8:]),
    "cut": _damage(lambda b: b[: len(b) // 2]),
    "blocks gone": _one_block,
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("while_open", [False, True])
def test_a_damaged_copy_is_made_anew(table: Path, options: dict[str, str], how: str, while_open: bool) -> None:
    opened = DeltaTable(str(table), storage_options=options)
    expected = {predicate: _plan(table, predicate) for predicate in PREDICATES}
    assert _rows(opened, PREDICATES[0]) == expected[PREDICATES[0]]
    entries = _entries(options)
    DAMAGES[how](Path(options["cache_dir"]))
    for predicate in PREDICATES:
        if while_open:
            assert _rows(opened, predicate) == expected[predicate]
        assert _plan(table, predicate, options) == expected[predicate]
    assert _entries(options) >= entries - 1


def test_a_directory_that_cannot_be_used_is_no_hindrance(table: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no directory")
    options = {"cache_dir": str(tmp_path / "file"), "cache_checkpoints": "true"}
    assert _plan(table, PREDICATES[0], options) == _plan(table, PREDICATES[0])


def _planned(path: str, predicate: str, options: dict[str, str]) -> int:
    return len(DeltaTable(path, storage_options=options).plan(predicate).read_all())


def test_many_processes_make_it_at_once(table: Path, options: dict[str, str]) -> None:
    expected = len(_plan(table, PREDICATES[0]))
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        plans = pool.starmap(_planned, [(str(table), PREDICATES[0], options)] * 12)
    assert plans == [expected] * 12
    assert _plan(table, PREDICATES[1], options) == _plan(table, PREDICATES[1])


def test_a_checkpoint_of_ours_needs_none(table: Path, options: dict[str, str]) -> None:
    DeltaTable(str(table)).create_checkpoint()
    assert _plan(table, PREDICATES[0], options) == _plan(table, PREDICATES[0])
    assert not Path(options["cache_dir"]).exists()


def test_the_environment_asks_for_it_too(table: Path, tmp_path: Path) -> None:
    code = (
        f"from deltaplane import DeltaTable; print(len(DeltaTable({str(table)!r}).plan({PREDICATES[0]!r}).read_all()))"
    )
    cache = tmp_path / "by environment"
    environment = {"DELTAPLANE_CACHE_DIR": str(cache), "DELTAPLANE_CACHE_CHECKPOINTS": "true"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == 10
    assert cache_info(cache).entries > 4
