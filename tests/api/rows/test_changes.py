"""The change data feed: ranges by version and time, unreadable ranges, and every way to read the
rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError, VersionNotFoundError

ON = {"delta.enableChangeDataFeed": "true"}
# Commit time of version 0, in seconds since 1970; each later version is a minute later.
START = 1_700_000_000


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([f"p{i % 2}" for i in ids])})


@pytest.fixture
def fed(tmp_table: Callable[[], str]) -> str:
    """Four versions: two appends, an overwrite of one partition, an append; a minute between
    them."""
    path = tmp_table()
    write_deltalake(path, rows(1, 2), configuration=ON, partition_by="p")
    write_deltalake(path, rows(3), mode="append")
    write_deltalake(path, rows(5), mode="overwrite", predicate="p = 'p1'")
    write_deltalake(path, rows(6), mode="append")
    for version in range(4):
        moment = START + 60 * version
        os.utime(Path(path) / "_delta_log" / f"{version:020}.json", (moment, moment))
    return path


def changes(table: DeltaTable, *args: Any, **options: Any) -> list[tuple[Any, ...]]:
    feed = table.load_cdf(*args, **options).to_arrow()
    assert feed.column_names == ["id", "p", "_change_type", "_commit_version", "_commit_timestamp"]
    feed_rows = feed.select(["_commit_version", "_change_type", "id"]).to_pylist()
    return sorted(tuple(row.values()) for row in feed_rows)


ALL = [(0, "insert", 1), (0, "insert", 2), (1, "insert", 3), (2, "delete", 1), (2, "delete", 3), (2, "insert", 5)]
LAST = (3, "insert", 6)


def test_ranges_of_versions(fed: str) -> None:
    # P131: without change files, whole files show the changes
    table = DeltaTable(fed)
    assert changes(table) == [*ALL, LAST]
    assert changes(table, 1, 2) == ALL[2:]
    assert changes(table, 2, 99) == [*ALL[3:], LAST]
    old = DeltaTable(fed, version=2)
    assert changes(old) == ALL
    assert changes(old, 3, 3) == [LAST]


def test_ranges_of_times(fed: str) -> None:
    # P132: a commit's time is its file's modification time
    table = DeltaTable(fed)
    minute = "2023-11-14T22:1{}:{}Z".format
    assert changes(table, starting_timestamp=minute(6, "20")) == [LAST] == changes(table, 3)
    assert changes(table, starting_timestamp=minute(4, "20"), ending_timestamp=minute(5, "19")) == ALL[2:3]
    assert changes(table, 1, ending_timestamp=minute(4, "20")) == ALL[2:3]
    times = table.load_cdf(1, 1).to_arrow()["_commit_timestamp"].cast(pa.int64()).to_pylist()
    assert times == [(START + 60) * 1_000_000]


def test_columns_and_predicates(fed: str) -> None:
    table = DeltaTable(fed)
    feed = table.load_cdf(columns=["_change_type", "id"], predicate="_change_type = 'delete' and id > 1")
    assert feed.to_arrow().to_pylist() == [{"_change_type": "delete", "id": 3}]
    by_version = table.load_cdf(predicate="_commit_version >= 3 or p = 'p0'", columns=["id"])
    assert sorted(by_version.read_all()["id"].to_pylist()) == [2, 6]
    with pytest.raises(InvalidArgumentError, match="no column `nope`"):
        table.load_cdf(columns=["nope"])


def test_every_library_takes_it(fed: str) -> None:
    feed = DeltaTable(fed).load_cdf(2)
    assert len(feed.to_pandas()) == feed.to_polars().height == pa.table(feed).num_rows == 4
    assert sum(batch.num_rows for batch in feed) == 4, "each use begins anew"


def test_ranges_that_hold_nothing(fed: str) -> None:
    table = DeltaTable(fed)
    with pytest.raises(VersionNotFoundError, match="the newest version is 3"):
        table.load_cdf(4)
    with pytest.raises(VersionNotFoundError):
        table.load_cdf(starting_timestamp="2030-01-01")
    assert changes(table, 4, allow_out_of_range=True) == []
    assert changes(table, starting_timestamp="2030-01-01", allow_out_of_range=True) == []
    with pytest.raises(InvalidArgumentError, match="before its start"):
        table.load_cdf(2, 1)
    with pytest.raises(InvalidArgumentError, match="versions count from 0"):
        table.load_cdf(-1)
    (Path(fed) / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(VersionNotFoundError):
        table.load_cdf(0)


def test_the_feed_must_have_been_on(tmp_table: Callable[[], str]) -> None:
    # P132
    path = tmp_table()
    write_deltalake(path, rows(1))
    with pytest.raises(InvalidArgumentError, match=r"off \(delta\.enableChangeDataFeed\) in version 0"):
        DeltaTable(path).load_cdf()


def test_columns_that_went_are_named(tmp_table: Callable[[], str]) -> None:
    # P132
    path = tmp_table()
    write_deltalake(path, rows(1), configuration=ON)
    write_deltalake(path, rows(2).select(["id"]), mode="overwrite", schema_mode="overwrite")
    table = DeltaTable(path)
    with pytest.raises(SchemaMismatchError, match="the column `p` is gone"):
        table.load_cdf()
    assert table.load_cdf(0, 0).to_arrow().num_rows == 1


def test_columns_of_the_feed_are_taken(tmp_table: Callable[[], str]) -> None:
    # P133: a physical column of the name doesn't show in scans; a column of the table with that
    # name prevents the feed
    path = tmp_table()
    mine = pa.table({"_change_type": ["mine"]})
    with pytest.raises(InvalidArgumentError, match="`_change_type` has a name that the change data feed needs"):
        write_deltalake(path, mine, configuration=ON)
    # Another writer may have created such a table.
    write_deltalake(path, mine)
    first = Path(path) / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    next(a["metaData"] for a in actions if "metaData" in a)["configuration"].update(ON)
    first.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(InvalidArgumentError, match="`_change_type`, a name that the change data feed needs"):
        DeltaTable(path).load_cdf()
    with pytest.raises(InvalidArgumentError, match="`_change_type` can't be written"):
        write_deltalake(path, mine, mode="append")


def test_a_commit_s_own_time_counts(fed: str) -> None:
    # P082, P132
    log = Path(fed) / "_delta_log"
    first, last = log / f"{0:020}.json", log / f"{3:020}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            action["metaData"]["configuration"]["delta.enableInCommitTimestamps"] = "true"
    first.write_text("\n".join(map(json.dumps, actions)))
    actions = [json.loads(line) for line in last.read_text().splitlines()]
    next(a["commitInfo"] for a in actions if "commitInfo" in a)["inCommitTimestamp"] = 1_800_000_000_000
    last.write_text("\n".join(map(json.dumps, actions)))
    feed = DeltaTable(fed).load_cdf(3, columns=["_commit_timestamp"]).to_arrow()
    assert feed["_commit_timestamp"].cast(pa.int64()).to_pylist() == [1_800_000_000_000_000]
