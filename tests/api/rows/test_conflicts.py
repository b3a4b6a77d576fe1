"""Transactions that lose a race: the commits onto which they rebase (protocol.md section 5.1), and
the named conflicts."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import CommitProperties, DeltaTable, write_deltalake
from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    MetadataChangedException,
    ProtocolChangedException,
    TableNotFoundError,
    VersionNotFoundError,
)

ROWS = pa.table({"id": [1], "day": ["a"]})


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(str(tmp_path), ROWS, partition_by=["day"])
    return DeltaTable(str(tmp_path))


def overtaken(table: DeltaTable, meanwhile: Callable[[DeltaTable], object], **arguments: object) -> None:
    """Writes rows while another writer commits."""

    def batches() -> Iterator[pa.RecordBatch]:
        yield from ROWS.to_batches()
        other = threading.Thread(target=lambda: meanwhile(DeltaTable(table.location)))
        other.start()
        other.join()

    reader = pa.RecordBatchReader.from_batches(ROWS.schema, batches())
    write_deltalake(table.location, reader, **{"mode": "append", **arguments})  # type: ignore[arg-type]


def commit(table: DeltaTable, version: int) -> list[dict[str, dict]]:
    text = Path(table.location, "_delta_log", f"{version:020}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


HARMLESS = {
    "deletion vectors": {"delta.enableDeletionVectors": "true"},
    "own times": {"delta.enableInCommitTimestamps": "true"},
    "checkpoints": {"delta.checkpointPolicy": "v2"},
    "mapping": {"delta.columnMapping.mode": "name"},
}


@pytest.mark.parametrize("properties", HARMLESS.values(), ids=HARMLESS)
def test_a_write_follows_what_asks_nothing_of_its_files(table: DeltaTable, properties: dict[str, str]) -> None:
    # P073, section 5.1 rules 1 and 2: after a change of protocol and metadata, the next attempt
    # builds on the new ones
    overtaken(table, lambda t: t.alter.set_table_properties(properties))
    now = DeltaTable(table.location)
    assert now.version() == 2
    assert properties.items() <= now.metadata().configuration.items()
    assert now.to_pyarrow_table().to_pylist() == [{"id": 1, "day": "a"}] * 2
    info = commit(now, 2)[0]["commitInfo"]
    assert info["readVersion"] == 1
    assert ("inCommitTimestamp" in info) == ("delta.enableInCommitTimestamps" in properties)


def test_what_spoils_a_write_is_named(table: DeltaTable) -> None:
    # Section 5.1 rules 1, 2 and 6
    def stops(kind: type[Exception], says: str, meanwhile: Callable[[DeltaTable], object], **arguments: object) -> None:
        with pytest.raises(kind, match=says) as e:
            overtaken(table, meanwhile, **arguments)
        newest = DeltaTable(table.location).version()
        assert isinstance(e.value, DeltaConcurrentModificationException)
        assert e.value.version == newest, "nothing was committed after the winner"
        assert re.search(rf"version {newest}, [A-Z ]+, deltaplane/[\d.]+, at 20", str(e.value))

    metadata, protocol = MetadataChangedException, ProtocolChangedException
    feature = {"delta.feature.checkConstraints": "supported"}
    stops(metadata, r"delta\.appendOnly", lambda t: t.alter.set_table_properties({"delta.appendOnly": "false"}))
    stops(protocol, "support the feature checkConstraints", lambda t: t.alter.set_table_properties(feature))
    stops(protocol, "give up the feature", lambda t: t.alter.drop_feature("checkConstraints"))
    stops(metadata, "schema", lambda t: t.alter.set_comment("id", "a number"))
    whole = {"mode": "overwrite", "predicate": "day = 'a'"}
    stops(ConcurrentAppendException, "WRITE", lambda t: write_deltalake(t, ROWS, mode="append"), **whole)


def test_writers_and_alterations_at_once(table: DeltaTable) -> None:
    # Real threads: every append is committed exactly once, with any of these features enabled.
    def append() -> None:
        for _ in range(4):
            write_deltalake(table.location, ROWS, mode="append")

    def alter() -> None:
        for properties in HARMLESS.values():
            DeltaTable(table.location).alter.set_table_properties(properties)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(work) for work in (append, append, append, alter)]:
            done.result()
    now = DeltaTable(table.location)
    assert now.version() == 16
    assert now.to_pyarrow_table().num_rows == 13


def test_a_conflict_names_the_other_commit(table: DeltaTable) -> None:
    by_ann = CommitProperties(custom_metadata={"userName": "ann"})
    with pytest.raises(ConcurrentDeleteDeleteException, match=r"version 1, DELETE, deltaplane/.*, by ann, at 20") as e:
        overtaken(table, lambda t: t.delete("day = 'a'", commit_properties=by_ann), mode="overwrite")
    other = e.value.conflicting_commit
    assert other is not None
    assert (other.version, other.operation, other.user_name) == (1, "DELETE", "ann")
    assert str(other.engine_info).startswith("deltaplane/")
    assert other.timestamp_ms == commit(table, 1)[0]["commitInfo"]["timestamp"]


READS = {
    "nothing": (None, lambda t: None, None),
    "rows elsewhere": ("day = 'b'", lambda t: write_deltalake(t, ROWS, mode="append"), None),
    "rows that come": ("day = 'a'", lambda t: write_deltalake(t, ROWS, mode="append"), ConcurrentAppendException),
    "any row": (None, lambda t: write_deltalake(t, ROWS, mode="append"), ConcurrentAppendException),
    "rows that go": ("day = 'a'", lambda t: t.delete(), ConcurrentDeleteReadException),
    "rows that go elsewhere": ("day = 'b'", lambda t: t.delete("day = 'a'"), None),
    "rows that change": (None, lambda t: t.update({"id": "2"}), DeltaConcurrentModificationException),
    "rows that move": (None, lambda t: t.purge(), None),
    "properties": (None, lambda t: t.alter.set_table_properties({"mine": "1"}), MetadataChangedException),
}


@pytest.mark.parametrize("case", READS.values(), ids=READS)
def test_a_serializable_read_holds_until_its_commit(tmp_path: Path, case: Any) -> None:
    filters, meanwhile, conflict = case
    properties = {"delta.enableDeletionVectors": "true"}
    write_deltalake(str(tmp_path), pa.concat_tables([ROWS] * 3), partition_by=["day"], configuration=properties)
    table = DeltaTable(str(tmp_path))

    def read() -> None:
        with table.serializable_read(filters) as pinned:
            before = pinned.version()
            meanwhile(DeltaTable(str(tmp_path)))
            assert table.version() == before
            assert table.to_pyarrow_table().num_rows == 3

    if conflict:
        with pytest.raises(conflict):
            read()
        assert DeltaTable(str(tmp_path)).history(1)[0]["operation"] != "READ"
        return
    read()
    last = table.history(1)[0]
    assert (last["operation"], last["isolationLevel"]) == ("READ", "Serializable")
    assert table.version() == DeltaTable(str(tmp_path)).version()
    assert [list(a) for a in commit(table, table.version())] == [["commitInfo"]]


def test_a_serializable_read_that_fails_commits_nothing(table: DeltaTable) -> None:
    with pytest.raises(InvalidArgumentError), table.serializable_read("nothing = 1"):
        raise AssertionError("the block ran")
    with pytest.raises(ZeroDivisionError), table.serializable_read():
        raise ZeroDivisionError
    assert DeltaTable(table.location).version() == 0


# --- rows that were made of the table's own ---------------------------------------------------------------------------

MODES: dict[str, dict[str, Any]] = {
    "append": {"mode": "append"},
    "overwrite": {"mode": "overwrite"},
    "partition": {"mode": "overwrite", "predicate": "day = 'a'"},
    "rows": {"mode": "overwrite", "predicate": "id = 1"},
    "partitions": {"mode": "overwrite", "partition_overwrite_mode": "dynamic"},
    "using": {"mode": "overwrite", "replace_using": ["id"]},
}
OTHERS = {
    "nothing": (lambda t: None, None),
    "rows that come": (
        lambda t: write_deltalake(t, pa.table({"id": [9], "day": ["c"]}), mode="append"),
        ConcurrentAppendException,
    ),
    "rows that go": (lambda t: t.delete("day = 'b'"), ConcurrentDeleteReadException),
}


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("arguments", MODES.values(), ids=MODES)
def test_rows_rest_on_the_version_they_were_read_from(table: DeltaTable, other: Any, arguments: dict[str, Any]) -> None:
    meanwhile, conflict = other
    write_deltalake(table, pa.table({"id": [2], "day": ["b"]}), mode="append")
    meanwhile(DeltaTable(table.location))
    if conflict is None:
        write_deltalake(table, ROWS, read_version=1, **arguments)
        assert not commit(table, 2)[0]["commitInfo"]["isBlindAppend"]
        return
    # A conflict on the whole table is also found by its files.
    expected = DeltaConcurrentModificationException if arguments == MODES["overwrite"] else conflict
    with pytest.raises(expected):
        write_deltalake(table.location, ROWS, read_version=1, **arguments)
    assert DeltaTable(table.location).version() == 2
    # Otherwise only the deleted rows matter, and here other writers' rows aren't among them.
    write_deltalake(table.location, ROWS, **arguments)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"read_version": 0}, "needs mode='append' or mode='overwrite'"),
        ({"read_version": 0, "mode": "ignore"}, "needs mode='append' or mode='overwrite'"),
        ({"read_version": -1, "mode": "append"}, "versions count from 0"),
        ({"read_version": "0", "mode": "append"}, "the number of a version, not str"),
        ({"read_version": True, "mode": "append"}, "the number of a version, not bool"),
    ],
)
def test_a_version_that_says_nothing_is_refused(table: DeltaTable, arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgumentError, match=re.escape(said)):
        write_deltalake(table, ROWS, **arguments)


def test_rows_need_the_table_that_they_were_read_from(table: DeltaTable, tmp_path: Path) -> None:
    for arguments in MODES.values():
        with pytest.raises(VersionNotFoundError):
            write_deltalake(table, ROWS, read_version=7, **arguments)
        with pytest.raises(TableNotFoundError):
            write_deltalake(str(tmp_path / "gone"), ROWS, read_version=0, **arguments)
    assert not DeltaTable.is_deltatable(str(tmp_path / "gone"))
