"""Opening, moving through versions, history, pickling and comparing."""

from __future__ import annotations

import copy
import datetime as dt
import json
import os
import pickle
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltaplane.exceptions import (
    InvalidArgumentError,
    TableNotFoundError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from deltaplane.io.storage_options import storage_options_text, version_arguments

UTC = dt.timezone.utc


@pytest.fixture
def path(tmp_table: Callable[[], str]) -> str:
    where = tmp_table()
    for n in range(4):
        write_deltalake(where, pa.table({"x": [n]}), mode="append")
    # Commit times an hour apart, the first one at noon.
    noon = dt.datetime(2024, 5, 1, 12, tzinfo=UTC).timestamp()
    for n in range(4):
        os.utime(Path(where) / "_delta_log" / f"{n:020}.json", (noon + 3600 * n,) * 2)
    return where


def values(table: DeltaTable) -> list[int]:
    return sorted(table.to_pyarrow_table()["x"].to_pylist())


def test_the_newest_version_is_the_default(path: str) -> None:
    assert DeltaTable(path).version() == 3
    assert values(DeltaTable(Path(path))) == [0, 1, 2, 3]


def test_versions_by_number(path: str) -> None:
    assert values(DeltaTable(path, version=1)) == [0, 1]
    table = DeltaTable(path)
    table.load_as_version(0)
    assert values(table) == [0]


@pytest.mark.parametrize(
    "moment",
    [
        "2024-05-01T13:30:00Z",
        "2024-05-01T13:30:00",
        "2024-05-01 15:30:00+02:00",
        dt.datetime(2024, 5, 1, 13, 30),
        dt.datetime(2024, 5, 1, 13, 30, tzinfo=UTC),
        dt.datetime(2024, 5, 1, 15, 30, tzinfo=dt.timezone(dt.timedelta(hours=2))),
    ],
)
def test_versions_by_moment(path: str, moment: str | dt.datetime) -> None:
    assert DeltaTable(path, version=moment).version() == 1
    table = DeltaTable(path)
    table.load_as_version(moment)
    assert table.version() == 1


def test_a_moment_is_met_exactly(path: str) -> None:
    assert DeltaTable(path, version="2024-05-01T14:00:00Z").version() == 2


def test_a_missing_version_leaves_the_object_where_it_was(path: str) -> None:
    table = DeltaTable(path, version=2)
    for missing in (99, "2024-05-01T11:00:00Z"):
        with pytest.raises(VersionNotFoundError):
            table.load_as_version(missing)
    assert table.version() == 2


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "yesterday", "", [1]])
def test_what_is_no_version_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError):
        version_arguments(wrong)  # type: ignore[arg-type]


def test_moments_become_milliseconds() -> None:
    assert version_arguments(dt.datetime(1969, 12, 31, 23, 59, 59, 999_999)) == (None, -1)
    assert version_arguments("2024-01-01T00:00:00.123456Z") == (None, 1_704_067_200_123)


def test_update_moves_to_the_newest(path: str) -> None:
    table = DeltaTable(path, version=1)
    write_deltalake(path, pa.table({"x": [9]}), mode="append")
    table.update_incremental()
    assert (table.version(), values(table)) == (4, [0, 1, 2, 3, 9])


def test_history_is_newest_first_and_bounded(path: str) -> None:
    table = DeltaTable(path)
    assert [e["version"] for e in table.history()] == [3, 2, 1, 0]
    assert [e["version"] for e in table.history(2)] == [3, 2]
    assert all(isinstance(e["timestamp"], int) for e in table.history())
    with pytest.raises(InvalidArgumentError):
        table.history(0)


def test_history_is_told_without_opening_the_table(path: str, tmp_path: Path) -> None:
    table = DeltaTable(path)
    assert DeltaTable.history_of(path) == table.history()
    assert DeltaTable.history_of(path, 2) == table.history(2)
    with pytest.raises(InvalidArgumentError):
        DeltaTable.history_of(path, 0)
    with pytest.raises(TableNotFoundError):
        DeltaTable.history_of(tmp_path / "none")
    # Commits beyond the limit aren't read, nor is it checked whether the table can be read.
    first = Path(path, "_delta_log", f"{0:020}.json")
    text = first.read_text()
    first.write_text(text.replace('"minReaderVersion":1', '"minReaderVersion":9'))
    with pytest.raises(UnsupportedFeatureError):
        DeltaTable(path)
    assert [e["version"] for e in DeltaTable.history_of(path, 3)] == [3, 2, 1]


def test_writes_begin_anew_where_the_table_is_another(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for columns in ({"x": [1]}, {"y": [1], "z": ["a"]}, {"x": ["text"]}):
        data = pa.table(columns)
        for mode in ("error", "append", "append"):
            write_deltalake(path, data, mode=mode)
        assert (DeltaTable(path).version(), DeltaTable(path).to_pyarrow_table().num_rows) == (2, 3)
        assert DeltaTable(path).to_pyarrow_table().column_names == data.column_names
        shutil.rmtree(path)
    with pytest.raises(TableNotFoundError):
        DeltaTable(path)


def test_a_pickle_is_location_version_and_options(path: str) -> None:
    table = DeltaTable(path, version=2, storage_options={"AWS_REGION": "nowhere"})
    for again in (pickle.loads(pickle.dumps(table)), copy.copy(table), copy.deepcopy(table)):
        assert (again, again.storage_options) == (table, table.storage_options)
        assert values(again) == [0, 1, 2]


def test_equality_is_location_and_version(path: str) -> None:
    assert DeltaTable(path) == DeltaTable(path + "/")
    assert DeltaTable(path) != DeltaTable(path, version=1)
    assert DeltaTable(path) != path
    with pytest.raises(TypeError):
        hash(DeltaTable(path))


def test_representation_has_no_credentials(path: str) -> None:
    table = DeltaTable(path, storage_options={"aws_secret_access_key": "very secret"})
    assert repr(table) == f"DeltaTable({table.table_uri!r}, version=3)"
    assert "secret" not in repr(table) + str(table)


def test_options_are_text() -> None:
    assert storage_options_text({"a": True, "b": 1, "c": None, "d": "x"}) == {"a": "true", "b": "1", "d": "x"}  # type: ignore[dict-item]
    with pytest.raises(InvalidArgumentError):
        storage_options_text({1: "x"})  # type: ignore[dict-item]


def test_is_deltatable(path: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert DeltaTable.is_deltatable(path)
    assert not DeltaTable.is_deltatable(tmp_path / "empty")
    assert not DeltaTable.is_deltatable(tmp_path / "nothing")


@pytest.mark.parametrize("wrong", ["", "   ", 5, None, b"x"])
def test_what_is_no_location_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidArgumentError):
        DeltaTable(wrong)  # type: ignore[arg-type]


def test_a_path_without_table_says_so(tmp_path: Path) -> None:
    for where in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(TableNotFoundError) as e:
            DeltaTable(where)
        assert isinstance(e.value, FileNotFoundError)
        assert where.name in str(e.value)
        assert list(tmp_path.iterdir()) == []


def test_metadata_and_protocol(path: str) -> None:
    table = DeltaTable(path)
    metadata, protocol = table.metadata(), table.protocol()
    assert (metadata.name, metadata.description, metadata.partition_columns, metadata.configuration) == (
        None,
        None,
        [],
        {},
    )
    assert len(metadata.id) == 36
    assert (protocol.min_reader_version, protocol.min_writer_version) == (1, 2)


def test_a_checkpoint_can_be_asked_for_and_is_used(path: str) -> None:
    table = DeltaTable(path, version=2)
    table.create_checkpoint()
    log = Path(path) / "_delta_log"
    assert (log / f"{2:020}.checkpoint.parquet").exists()
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 2
    for n in range(2):
        (log / f"{n:020}.json").unlink()
    assert values(DeltaTable(path)) == [0, 1, 2, 3]
    assert values(DeltaTable(path, version=2)) == [0, 1, 2]
    with pytest.raises(VersionNotFoundError):
        DeltaTable(path, version=1)


def test_applications_are_forgotten_after_their_time(tmp_table: Callable[[], str]) -> None:
    """P045: readers and the next checkpoint forget them; one without a time counts as expired."""
    where = tmp_table()
    retention = {"delta.setTransactionRetentionDuration": "interval 1 day"}
    for app in ("old", "timeless", "new"):
        once = CommitProperties(app_transactions=[Transaction(app, 5)])
        write_deltalake(where, pa.table({"x": [1]}), mode="append", configuration=retention, commit_properties=once)
    log = Path(where) / "_delta_log"
    for version, app, said in ((0, "old", time.time_ns() // 1_000_000 - 86_400_000), (1, "timeless", None)):
        commit = log / f"{version:020}.json"
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        (txn,) = (a["txn"] for a in actions if "txn" in a)
        assert txn["appId"] == app
        del txn["lastUpdated"]
        if said is not None:
            txn["lastUpdated"] = said
        commit.write_text("".join(json.dumps(a) + "\n" for a in actions))
    for checksum in log.glob("*.crc"):
        checksum.unlink()
    table = DeltaTable(where)
    known = {app: table.transaction_version(app) for app in ("old", "timeless", "new")}
    assert known == {"old": None, "timeless": None, "new": 5}
    table.create_checkpoint()
    rows = pq.read_table(log / f"{2:020}.checkpoint.parquet")["txn"].to_pylist()
    assert [row["appId"] for row in rows if row] == ["new"]
    assert values(DeltaTable(where)) == [1, 1, 1]


def test_a_forked_child_reads_and_writes(path: str) -> None:
    assert values(DeltaTable(path)) == [0, 1, 2, 3]
    child = os.fork()
    if child == 0:
        code = 1
        try:
            write_deltalake(path, pa.table({"x": [10]}), mode="append")
            code = 0 if values(DeltaTable(path)) == [0, 1, 2, 3, 10] else 2
        finally:
            os._exit(code)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("the forked child hangs")
    assert os.waitstatus_to_exitcode(status) == 0
    assert values(DeltaTable(path)) == [0, 1, 2, 3, 10]
