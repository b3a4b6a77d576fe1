"""The verifier finds nothing in sound tables, and finds every fault planted in a copy of one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, write_deltalake
from verifier import problems
from verifier.schemas import days, micros
from verifier.vectors import bitmap_positions, decoded_z85

Json = dict[str, Any]


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [f"name-{n}" for n in numbers],
            "x": [n / 2 for n in numbers],
            "part": [None if n % 3 == 0 else n % 3 for n in numbers],
            "s": [{"at": n, "note": None} for n in numbers],
        }
    )


def make(path: Path, **settings: Any) -> None:
    """Makes four versions: rows, more rows, deleted rows, and rows again."""
    properties = settings.pop("configuration", {})
    write_deltalake(path, rows(0, 10), configuration=properties, **settings)
    write_deltalake(path, rows(10, 10), mode="append")
    DeltaTable(path).delete("id < 5 OR id = 12")
    write_deltalake(path, rows(20, 5), mode="append")


KINDS: dict[str, Json] = {
    "plain": {},
    "vectors": {"configuration": {"delta.enableDeletionVectors": "true", "delta.enableChangeDataFeed": "true"}},
    "parts": {"partition_by": ["part"]},
    "mapped": {"configuration": {"delta.columnMapping.mode": "name"}},
    "tracked": {"configuration": {"delta.enableRowTracking": "true", "delta.enableInCommitTimestamps": "true"}},
    "checkpoint": {},
    "v2": {"configuration": {"delta.checkpointPolicy": "v2"}},
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sound")
    for kind, settings in KINDS.items():
        make(folder / kind, **json.loads(json.dumps(settings)))
        if kind in ("checkpoint", "v2"):
            DeltaTable(folder / kind).create_checkpoint()
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_sound_tables_have_no_problems(tables: Path, kind: str) -> None:
    assert problems(tables / kind) == []
    assert DeltaTable(tables / kind).version() == 3


# --- planted faults ---------------------------------------------------------------------------------------------------


def log(table: Path) -> Path:
    return table / "_delta_log"


def edited(version: int, change: Callable[[list[Json]], list[Json] | None]) -> Callable[[Path], None]:
    """Changes the actions of a commit."""

    def plant(table: Path) -> None:
        file = log(table) / f"{version:020}.json"
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        actions = change(actions) or actions
        file.write_text("".join(f"{json.dumps(action)}\n" for action in actions))

    return plant


def first(kind: str, change: Callable[[Json], object], version: int = 0) -> Callable[[Path], None]:
    """Changes the first action of a kind."""

    def in_commit(actions: list[Json]) -> None:
        change(next(action[kind] for action in actions if kind in action))

    return edited(version, in_commit)


def stats(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def in_add(add: Json) -> None:
        stats = json.loads(add["stats"])
        change(stats)
        add["stats"] = json.dumps(stats)

    return first("add", in_add)


def more(action: Json) -> Callable[[Path], None]:
    return edited(3, lambda actions: [*actions, action])


def setting(key: str, value: Any) -> Callable[[Path], None]:
    return first("metaData", lambda metadata: metadata["configuration"].update({key: value}))


def schema(old: str, new: str) -> Callable[[Path], None]:
    def change(metadata: Json) -> None:
        assert old in metadata["schemaString"]
        metadata["schemaString"] = metadata["schemaString"].replace(old, new)

    return first("metaData", change)


def checkpoint(change: Callable[[pa.Table], pa.Table]) -> Callable[[Path], None]:
    def plant(table: Path) -> None:
        (file,) = log(table).glob("*.checkpoint.parquet")
        pq.write_table(change(pq.read_table(file)), file)

    return plant


def without(kind: str) -> Callable[[pa.Table], pa.Table]:
    """A checkpoint without its first action of a kind."""

    def change(checkpoint: pa.Table) -> pa.Table:
        index = next(i for i, action in enumerate(checkpoint[kind].to_pylist()) if action)
        return pa.concat_tables([checkpoint.slice(0, index), checkpoint.slice(index + 1)])

    return change


def hint(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def plant(table: Path) -> None:
        file = log(table) / "_last_checkpoint"
        content = json.loads(file.read_text())
        change(content)
        file.write_text(json.dumps(content))

    return plant


def vector(change: Callable[[Json], object]) -> Callable[[Path], None]:
    def in_commit(actions: list[Json]) -> None:
        change(next(a["add"]["deletionVector"] for a in actions if a.get("add", {}).get("deletionVector")))

    return edited(2, in_commit)


def spoiled(pattern: str, change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def plant(table: Path) -> None:
        file = sorted(table.glob(pattern))[0]
        file.write_bytes(change(file.read_bytes()))

    return plant


def removed_path_again(table: Path) -> None:
    actions = [json.loads(line) for line in (log(table) / f"{2:020}.json").read_text().splitlines()]
    path = next(action["remove"]["path"] for action in actions if "remove" in action)
    texts = [(log(table) / f"{version:020}.json").read_text() for version in (0, 1)]
    adds = [json.loads(line).get("add", {}) for text in texts for line in text.splitlines()]
    again = next(add for add in adds if add.get("path") == path)
    more({"add": again})(table)


def protocol(**changed: Any) -> Callable[[Path], None]:
    return first("protocol", lambda members: members.update(changed))


DOMAIN = {"domainMetadata": {"domain": "d", "configuration": "", "removed": False}}
NOWHERE = {"path": "nowhere.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1, "dataChange": True}
FAULTS: list[tuple[str, str, Callable[[Path], None]]] = [
    ("plain", "a size", first("add", lambda add: add.update(size=add["size"] + 1))),
    ("plain", "a size as text", first("add", lambda add: add.update(size=str(add["size"])))),
    ("plain", "no modification time", first("add", lambda add: add.pop("modificationTime"))),
    ("plain", "no dataChange", first("add", lambda add: add.pop("dataChange"))),
    ("plain", "statistics that are no JSON", first("add", lambda add: add.update(stats="{x"))),
    ("plain", "a number of rows", stats(lambda stats: stats.update(numRecords=5))),
    ("plain", "a minimum above", stats(lambda stats: stats["minValues"].update(id=3))),
    ("plain", "a maximum below", stats(lambda stats: stats["maxValues"].update(id=3))),
    ("plain", "a minimum text above", stats(lambda stats: stats["minValues"].update(name="name-1"))),
    ("plain", "a maximum text below", stats(lambda stats: stats["maxValues"].update(name="name-1"))),
    ("plain", "a maximum double below", stats(lambda stats: stats["maxValues"].update(x=0.5))),
    ("plain", "a minimum in a struct", stats(lambda stats: stats["minValues"]["s"].update(at=1))),
    ("plain", "a number of nulls", stats(lambda stats: stats["nullCount"].update(id=3))),
    ("plain", "statistics of no column", stats(lambda stats: stats["minValues"].update(nope=3))),
    ("plain", "a missing commit", lambda table: (log(table) / f"{2:020}.json").unlink()),
    ("plain", "broken JSON", spoiled(f"_delta_log/{3:020}.json", lambda text: text[:-4])),
    ("plain", "two actions in a line", edited(3, lambda a: [*a[:-1], {**a[-1], "txn": {"appId": "x", "version": 1}}])),
    ("plain", "a removed file's path again", removed_path_again),
    ("plain", "a value of no partition", first("add", lambda add: add["partitionValues"].update(z="1"))),
    ("plain", "a removed file that isn't live", more({"remove": {"path": "nowhere", "dataChange": True}})),
    ("plain", "an added file that isn't there", more({"add": NOWHERE})),
    ("plain", "a domain without the feature", more(DOMAIN)),
    ("plain", "a transaction without version", more({"txn": {"appId": "x"}})),
    ("plain", "a sidecar in a commit", more({"sidecar": {"path": "x", "sizeInBytes": 1, "modificationTime": 1}})),
    ("plain", "no lists of features", protocol(minReaderVersion=3, minWriterVersion=7)),
    ("plain", "a list of features at versions without", protocol(readerFeatures=[])),
    ("vectors", "a reader's feature that isn't a writer's", protocol(writerFeatures=["changeDataFeed"])),
    ("plain", "an unknown type", schema('"type":"long"', '"type":"int64"')),
    (
        "plain",
        "a type that the file hasn't",
        schema('"name":"name","nullable":true,"type":"string"', '"name":"name","nullable":true,"type":"long"'),
    ),
    ("plain", "a column twice", schema('"name":"name"', '"name":"ID"')),
    ("plain", "a name that needs mapping", schema('"name":"name"', '"name":"a name"')),
    ("plain", "a partition column that isn't there", first("metaData", lambda m: m.update(partitionColumns=["z"]))),
    ("plain", "a change feed without the feature", setting("delta.enableChangeDataFeed", "true")),
    ("plain", "own times that aren't there", setting("delta.enableInCommitTimestamps", "true")),
    ("plain", "removed rows of an append-only table", setting("delta.appendOnly", "true")),
    ("plain", "a property that is no text", setting("x", 1)),
    (
        "plain",
        "a checksum",
        spoiled(f"_delta_log/{3:020}.crc", lambda text: text.replace(b'"numFiles":', b'"numFiles":1')),
    ),
    ("plain", "a file that is no Parquet", spoiled("*.parquet", lambda content: b"x" * len(content))),
    ("vectors", "a cardinality", vector(lambda vector: vector.update(cardinality=vector["cardinality"] + 1))),
    ("vectors", "a vector's size", vector(lambda vector: vector.update(sizeInBytes=vector["sizeInBytes"] + 1))),
    (
        "vectors",
        "a vector's bytes",
        spoiled("**/deletion_vector_*.bin", lambda b: b[:-5] + bytes([b[-5] ^ 1]) + b[-4:]),
    ),
    ("parts", "a partition value of another type", first("add", lambda add: add["partitionValues"].update(part="x"))),
    ("parts", "a partition value that is missing", first("add", lambda add: add["partitionValues"].pop("part"))),
    ("mapped", "names of the schema in statistics", stats(lambda stats: stats["minValues"].update(id=0))),
    ("mapped", "a greatest id that is too low", setting("delta.columnMapping.maxColumnId", "1")),
    ("mapped", "an id twice", schema('"delta.columnMapping.id":2', '"delta.columnMapping.id":1')),
    ("tracked", "rows without ids", first("add", lambda add: add.pop("baseRowId"), 1)),
    ("tracked", "row ids twice", first("add", lambda add: add.update(baseRowId=add["baseRowId"] - 1), 3)),
    ("tracked", "a time that goes back", first("commitInfo", lambda info: info.update(inCommitTimestamp=1), 3)),
    ("checkpoint", "a file that a checkpoint lacks", checkpoint(without("add"))),
    ("checkpoint", "a file twice in a checkpoint", checkpoint(lambda actions: pa.concat_tables([actions, actions]))),
    ("checkpoint", "a checkpoint without protocol", checkpoint(without("protocol"))),
    ("checkpoint", "a checkpoint that is no Parquet", spoiled("_delta_log/*.checkpoint.parquet", lambda _: b"x")),
    ("checkpoint", "a hint at nothing", hint(lambda members: members.update(version=77))),
    ("checkpoint", "a hint's size", hint(lambda members: members.update(size=members["size"] + 1))),
    ("v2", "a missing sidecar", lambda table: next((log(table) / "_sidecars").iterdir()).unlink()),
]


@pytest.mark.parametrize(("kind", "plant"), [(k, plant) for k, _, plant in FAULTS], ids=[name for _, name, _ in FAULTS])
def test_planted_faults_are_found(tables: Path, tmp_path: Path, kind: str, plant: Callable[[Path], None]) -> None:
    copy = tmp_path / "t"
    shutil.copytree(tables / kind, copy)
    plant(copy)
    assert problems(copy)


# --- its own arithmetic -----------------------------------------------------------------------------------------------


def test_dates_and_times_are_counted_from_1970() -> None:
    assert [days(text) for text in ("1970-01-01", "2024-02-29", "0000-12-31", "-0001-01-01")] == [
        0,
        19782,
        -719163,
        -719893,
    ]
    assert days("10000-01-01") - days("9999-12-31") == 1
    assert micros("1970-01-01T00:00:01.5Z") == 1_500_000
    assert micros("1970-01-01 02:00:00+02:00") == micros("1969-12-31T19:00-05:00") == 0


def test_bitmaps_of_every_container_are_read() -> None:
    # P110: a list, a bitmap and runs, written by hand.
    head = (1681511377).to_bytes(4, "little") + (1).to_bytes(8, "little") + bytes(4)
    listed = (
        (12346).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes([0, 0, 1, 0]) + bytes(4) + bytes([3, 0, 9, 0])
    )
    assert bitmap_positions(head + listed) == [3, 9]
    runs = (12347).to_bytes(4, "little") + b"\x01" + bytes([0, 0, 4, 0]) + bytes([1, 0, 7, 0, 4, 0])
    assert bitmap_positions(head + runs) == [7, 8, 9, 10, 11]
    many = (
        (12346).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes([0, 0, 255, 31]) + bytes(4) + b"\x55" * 8192
    )
    assert bitmap_positions(head + many) == list(range(0, 65536, 2))
    assert decoded_z85("HelloWorld") == bytes.fromhex("864fd26fb559f75b")
