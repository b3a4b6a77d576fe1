"""The log between engines: alternating commits, modes, time travel, checkpoints, transactions,
history, properties."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import date, datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from interop.datasets import numbered
from interop.delta_spark import DeltaSpark, DeltaSparkError
from interop.engines import engine
from interop.same import assert_same
from interop.verifier import verify

OURS, SPARK, RS = "deltaplane", "delta-spark", "deltalake"
ENGINES = (OURS, SPARK, RS)


def commit(table: str, version: int) -> list[dict[str, Any]]:
    """The actions of a version."""
    text = (Path(table) / "_delta_log" / f"{version:020d}.json").read_text()
    return [json.loads(line) for line in text.splitlines()]


def commit_info(table: str, version: int) -> dict[str, Any]:
    return next(a["commitInfo"] for a in commit(table, version) if "commitInfo" in a)


def forget_commits_before(table: str, version: int) -> None:
    """Deletes commits as log clean-up does after a checkpoint."""
    for number in range(version):
        (Path(table) / "_delta_log" / f"{number:020d}.json").unlink()


@pytest.mark.parametrize("first", ENGINES)
@pytest.mark.parametrize("partition_by", [[], ["day"]], ids=["plain", "partitioned"])
def test_engines_take_turns(
    first: str, partition_by: list[str], delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    """Thirteen commits, so that every engine also reads the others' checkpoints; then every engine
    reads every version."""
    table = tmp_table()
    turns = [first, *(name for name in ENGINES if name != first)]
    expected: list[pa.Table] = []
    for n in range(13):
        rows = numbered(10 * n, 4)
        mode = "overwrite" if n == 6 else "append"
        engine(turns[n % 3], delta_spark).write(table, rows, mode, partition_by)
        expected.append(rows if mode == "overwrite" else pa.concat_tables([*expected[-1:], rows]))
    for name in ENGINES:
        assert_same(engine(name, delta_spark).read(table), expected[-1])
    for version, rows in enumerate(expected):
        assert_same(engine(OURS, delta_spark).read(table, version), rows)
    for version in (0, 5, 6, 10):
        assert_same(engine(SPARK, delta_spark).read(table, version), expected[version])
        assert_same(engine(RS, delta_spark).read(table, version), expected[version])
    verify(table)


@pytest.mark.parametrize("writer", ENGINES)
def test_checkpoint_alone_is_the_table(writer: str, delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """A checkpoint of any engine replaces all commits before it, and every other engine continues
    from there."""
    import deltalake

    from deltaplane import DeltaTable

    table = tmp_table()
    for n in range(4):
        engine(ENGINES[n % 3], delta_spark).write(table, numbered(10 * n, 5), "append", ["day"])
    checkpoint = {
        OURS: lambda: DeltaTable(table).create_checkpoint(),
        SPARK: lambda: delta_spark.checkpoint(table),
        RS: lambda: deltalake.DeltaTable(table).create_checkpoint(),
    }
    checkpoint[writer]()
    rows = pa.concat_tables([numbered(10 * n, 5) for n in range(4)])
    forget_commits_before(table, 4)
    for n, name in enumerate(ENGINES):
        assert_same(engine(name, delta_spark).read(table), rows)
        extra = numbered(100 + n, 1)
        engine(name, delta_spark).write(table, extra)
        rows = pa.concat_tables([rows, extra])
    for name in ENGINES:
        assert_same(engine(name, delta_spark).read(table), rows)
    assert delta_spark.snapshot(table)["version"] == 6
    verify(table)


def test_row_groups_that_stand(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """deltaplane's checkpoint of a large table after a few commits, most of which is copied from
    the previous one as bytes."""
    import deltalake

    from deltaplane import DeltaTable, write_deltalake

    table, count = tmp_table(), 20_500
    write_deltalake(table, numbered(0, 3), partition_by=["day"])
    first = next(a["add"] for a in commit(table, 0) if "add" in a)
    stats = json.loads(first["stats"])
    with (Path(table) / "_delta_log" / f"{1:020d}.json").open("w") as log:
        for n in range(count):
            bounds = {"minValues": {"id": 7 * n % count}, "maxValues": {"id": 7 * n % count}}
            add = {**first, "path": f"of/{n}.parquet", "stats": json.dumps({**stats, **bounds, "numRecords": 1})}
            log.write(json.dumps({"add": add}) + "\n")
    DeltaTable(table).create_checkpoint()
    write_deltalake(table, numbered(10, 5), mode="append")
    DeltaTable(table).create_checkpoint()
    before, after = (
        pq.ParquetFile(Path(table) / "_delta_log" / f"{version:020d}.checkpoint.parquet") for version in (1, 2)
    )
    assert (before.num_row_groups, after.num_row_groups) == (2, 3), "the new files are behind the others"
    groups = [file.metadata.row_group(1) for file in (before, after)]
    assert groups[0].total_byte_size == groups[1].total_byte_size
    assert before.read_row_group(1).equals(after.read_row_group(1))
    forget_commits_before(table, 2)
    paths = set(DeltaTable(table).get_add_actions()["path"].to_pylist())
    assert len(paths) >= count + 2
    assert set(pa.table(deltalake.DeltaTable(table).get_add_actions())["path"].to_pylist()) == paths
    assert delta_spark.snapshot(table)["num_files"] == len(paths)
    assert delta_spark.sql(f"SELECT COUNT(*) AS n FROM delta.`{table}`")["n"].to_pylist() == [count + 8]


def test_our_automatic_checkpoints(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import DeltaTable, write_deltalake

    table = tmp_table()
    for n in range(25):
        write_deltalake(
            table, numbered(n, 1), mode="append", configuration={"delta.checkpointInterval": "5"} if n == 0 else None
        )
    log = Path(table) / "_delta_log"
    checkpoints = sorted(int(p.name[:20]) for p in log.glob("*.checkpoint*.parquet"))
    assert checkpoints == [5, 10, 15, 20]
    assert json.loads((log / "_last_checkpoint").read_text())["version"] == 20
    verify(table)
    forget_commits_before(table, 20)
    for name in ENGINES:
        assert_same(engine(name, delta_spark).read(table), numbered(0, 25))
    assert len(DeltaTable(table).files()) == delta_spark.snapshot(table)["num_files"] == 25


def test_our_checkpoint_keeps_tombstones_and_transactions(
    delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    from deltaplane import CommitProperties, DeltaTable, Transaction, write_deltalake

    table = tmp_table()
    once = CommitProperties(app_transactions=[Transaction("feed", 7)])
    write_deltalake(table, numbered(0, 3), commit_properties=once)
    write_deltalake(table, numbered(3, 3), mode="overwrite")
    DeltaTable(table).create_checkpoint()
    verify(table)
    forget_commits_before(table, 1)
    assert delta_spark.transaction_version(table, "feed") == 7
    # The removed file is still recorded as removed: VACUUM must find it once it is old enough.
    files = pq.read_table(next((Path(table) / "_delta_log").glob("*.checkpoint*.parquet")))
    assert files["remove"].drop_null().length() == 1


def test_schema_grows_on_both_sides(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import DeltaTable, write_deltalake

    table = tmp_table()
    write_deltalake(
        table, pa.table({"id": pa.array([1], pa.int64()), "s": pa.array([{"a": 1}], pa.struct([("a", pa.int32())]))})
    )
    wider = pa.table(
        {
            "id": pa.array([2], pa.int64()),
            "s": pa.array([{"a": 2, "b": "x"}], pa.struct([("a", pa.int32()), ("b", pa.string())])),
            "ours": pa.array([1.5], pa.float64()),
        }
    )
    write_deltalake(table, wider, mode="append", schema_mode="merge")
    widest = wider.append_column("theirs", pa.array([date(2024, 1, 1)], pa.date32()))
    delta_spark.write(table, widest, mergeSchema="true")
    write_deltalake(table, pa.table({"id": pa.array([4], pa.int64())}), mode="append")
    assert_same(DeltaTable(table).to_pyarrow_table(), delta_spark.read(table))
    assert DeltaTable(table).to_pyarrow_table().column_names == ["id", "s", "ours", "theirs"]
    assert_same(DeltaTable(table, version=1).to_pyarrow_table(), delta_spark.read(table, 1))
    assert pc.sum(DeltaTable(table).to_pyarrow_table()["id"]).as_py() == 1 + 2 + 2 + 4
    verify(table)


def test_schema_replaced(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import DeltaTable, write_deltalake

    table, other = tmp_table(), pa.table({"id": ["text now"], "p": pa.array([1], pa.int32())})
    write_deltalake(table, numbered(0, 3), partition_by=["day"])
    write_deltalake(table, other, mode="overwrite", schema_mode="overwrite", partition_by=[])
    assert_same(delta_spark.read(table), other)
    assert_same(delta_spark.read(table, 0), numbered(0, 3))
    delta_spark.write(table, numbered(0, 3), "overwrite", overwriteSchema="true")
    assert_same(DeltaTable(table).to_pyarrow_table(), numbered(0, 3))
    assert_same(DeltaTable(table, version=1).to_pyarrow_table(), other)
    verify(table)


@pytest.mark.parametrize("writer", [OURS, SPARK])
def test_replace_where(writer: str, delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import write_deltalake

    table, day = tmp_table(), date(2024, 1, 2)
    rows, condition = numbered(0, 9), "day = DATE'2024-01-02'"
    engine(SPARK if writer == OURS else OURS, delta_spark).write(table, rows, "append", ["day"])
    new = pa.table({"id": pa.array([100], pa.int64()), "name": ["new"], "day": pa.array([day], pa.date32())})
    if writer == OURS:
        write_deltalake(table, new, mode="overwrite", predicate=condition)
    else:
        delta_spark.write(table, new, "overwrite", replaceWhere=condition)
    expected = pa.concat_tables([rows.filter(pc.not_equal(rows["day"], pa.scalar(day))), new])
    for name in ENGINES:
        assert_same(engine(name, delta_spark).read(table), expected)
    verify(table)


def test_our_transaction_stops_their_repeat(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import CommitProperties, DeltaTable, Transaction, write_deltalake

    table = tmp_table()
    write_deltalake(table, numbered(0, 2), commit_properties=CommitProperties(app_transactions=[Transaction("app", 3)]))
    delta_spark.write(table, numbered(0, 2), txnAppId="app", txnVersion="3")
    assert delta_spark.snapshot(table)["version"] == 0
    delta_spark.write(table, numbered(2, 2), txnAppId="app", txnVersion="4")
    assert DeltaTable(table).transaction_version("app") == 4
    for version in (3, 4):
        again = write_deltalake(
            table,
            numbered(0, 2),
            mode="append",
            commit_properties=CommitProperties(app_transactions=[Transaction("app", version)]),
        )
        assert again.skipped == "txn"
    assert_same(DeltaTable(table).to_pyarrow_table(), numbered(0, 4))
    assert delta_spark.transaction_version(table, "app") == 4


def test_history_in_each_other_s_words(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import CommitProperties, DeltaTable, write_deltalake

    table = tmp_table()
    write_deltalake(
        table,
        numbered(0, 3),
        partition_by=["day"],
        commit_properties=CommitProperties(custom_metadata={"userMetadata": "hello"}),
    )
    write_deltalake(table, numbered(3, 3), mode="append")
    delta_spark.write(table, numbered(6, 3), userMetadata="hi")
    write_deltalake(table, numbered(0, 2), mode="overwrite")
    theirs = {row["version"]: row for row in delta_spark.sql(f"describe history delta.`{table}`").to_pylist()}
    ours = {entry["version"]: entry for entry in DeltaTable(table).history()}
    assert list(ours) == [3, 2, 1, 0] == list(theirs)
    for version, entry in ours.items():
        seen = theirs[version]
        assert entry["operation"] == seen["operation"]
        assert entry["timestamp"] == round(seen["timestamp"].timestamp() * 1000)
        assert entry.get("userMetadata") == seen["userMetadata"]
        assert dict(seen["operationMetrics"]) == {k: str(v) for k, v in entry["operationMetrics"].items()}
        assert entry.get("isBlindAppend") == seen["isBlindAppend"]
        assert entry["engineInfo"] == seen["engineInfo"]
    assert theirs[0]["operation"] in ("WRITE", "CREATE TABLE AS SELECT")
    assert [theirs[v]["isBlindAppend"] for v in (0, 1, 3)] == [True, True, False]
    assert dict(theirs[1]["operationMetrics"]).keys() >= {"numFiles", "numOutputRows", "numOutputBytes"}
    assert dict(theirs[1]["operationMetrics"])["numOutputRows"] == "3"
    assert dict(theirs[0]["operationParameters"])["partitionBy"] == '["day"]'
    assert dict(theirs[3]["operationParameters"])["mode"].lower() == "overwrite"


def test_parameters_are_spelled_as_delta_spark_does(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """The same two writes by each engine record the same operation, parameters and metric names."""
    tables = {}
    for name in (OURS, SPARK):
        tables[name] = tmp_table()
        engine(name, delta_spark).write(tables[name], numbered(0, 3), "append", ["day"])
        engine(name, delta_spark).write(tables[name], numbered(0, 3), "append", ["day"])
        engine(name, delta_spark).write(tables[name], numbered(0, 3), "overwrite", ["day"])
    for version in range(3):
        ours, theirs = (commit_info(tables[name], version) for name in (OURS, SPARK))
        assert ours["operation"] == theirs["operation"]
        assert ours["operationParameters"] == theirs["operationParameters"]
        # delta-spark sometimes adds metrics of its own; the common core is guaranteed.
        core = {"numFiles", "numOutputRows", "numOutputBytes"}
        assert core <= ours["operationMetrics"].keys()
        assert {k: ours["operationMetrics"][k] for k in ("numOutputRows",)} == {
            k: theirs["operationMetrics"][k] for k in ("numOutputRows",)
        }
        assert all(isinstance(v, str) for v in ours["operationMetrics"].values())
        assert ours["isBlindAppend"] == theirs["isBlindAppend"]


def test_a_write_tells_what_it_was_asked_for(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """Partition columns, condition and schema options are recorded as the writer's arguments, not
    as the table's state."""
    from deltaplane import write_deltalake

    writes: list[tuple[str, list[str], dict[str, str], dict[str, Any]]] = [
        ("append", ["day"], {}, {}),
        ("append", [], {}, {}),
        ("append", [], {"mergeSchema": "true"}, {"schema_mode": "merge"}),
        ("overwrite", [], {"replaceWhere": "day > '2000-01-01'"}, {"predicate": "day > '2000-01-01'"}),
        ("overwrite", [], {"partitionOverwriteMode": "dynamic"}, {"partition_overwrite_mode": "dynamic"}),
        ("overwrite", [], {"replaceWhere": "id >= 0"}, {"predicate": "id >= 0"}),
        ("overwrite", ["day"], {"overwriteSchema": "true"}, {"schema_mode": "overwrite"}),
    ]
    ours, theirs = tmp_table(), tmp_table()
    for version, (mode, partition_by, options, arguments) in enumerate(writes):
        write_deltalake(ours, numbered(0, 3), mode=mode, partition_by=partition_by or None, **arguments)  # type: ignore[call-overload]
        delta_spark.write(theirs, numbered(0, 3), mode, partition_by, **options)
        said, expected = (commit_info(table, version) for table in (ours, theirs))
        assert said["operationParameters"] == expected["operationParameters"]
        assert said["operationMetrics"].keys() >= expected["operationMetrics"].keys()
        assert said["operationMetrics"].get("numDeletedRows") == expected["operationMetrics"].get("numDeletedRows")
        assert (said["isBlindAppend"], said["isolationLevel"]) == (
            expected["isBlindAppend"],
            expected["isolationLevel"],
        )


def test_properties_and_description(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import DeltaTable

    table = tmp_table()
    schema = numbered(0, 0).schema
    DeltaTable.create(
        table,
        schema,
        partition_by=["day"],
        name="events",
        description="what happened",
        configuration={"delta.appendOnly": "true", "delta.checkpointInterval": "7", "team": "me"},
    )
    detail = delta_spark.sql(f"describe detail delta.`{table}`").to_pylist()[0]
    assert (detail["name"], detail["description"]) == ("events", "what happened")
    assert detail["partitionColumns"] == ["day"]
    properties = dict(detail["properties"])
    assert (properties["delta.appendOnly"], properties["delta.checkpointInterval"], properties["team"]) == (
        "true",
        "7",
        "me",
    )
    delta_spark.write(table, numbered(0, 3))
    with pytest.raises(DeltaSparkError, match="CANNOT_MODIFY_APPEND_ONLY"):
        delta_spark.sql(f"delete from delta.`{table}`")
    delta_spark.sql(f"alter table delta.`{table}` set tblproperties ('team' = 'you')")
    opened = DeltaTable(table)
    assert opened.metadata().configuration["team"] == "you"
    assert_same(opened.to_pyarrow_table(), numbered(0, 3))
    verify(table)


def test_append_only_of_theirs_is_kept_by_us(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import DeltaError, write_deltalake

    table = tmp_table()
    delta_spark.sql(f"create table delta.`{table}` (id bigint) using delta tblproperties ('delta.appendOnly' = 'true')")
    write_deltalake(table, pa.table({"id": [1]}), mode="append")
    with pytest.raises(DeltaError, match="appendOnly"):
        write_deltalake(table, pa.table({"id": [2]}), mode="overwrite")
    assert_same(delta_spark.read(table), pa.table({"id": [1]}))


def test_not_null_both_ways(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    from deltaplane import DeltaTable, write_deltalake
    from deltaplane.exceptions import ConstraintViolationError

    ours, theirs = tmp_table(), tmp_table()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
    DeltaTable.create(ours, schema)
    delta_spark.sql(f"create table delta.`{theirs}` (id bigint not null, name string) using delta")
    good = pa.table({"id": [1], "name": ["a"]})
    bad = pa.table({"id": pa.array([None], pa.int64()), "name": ["b"]})
    for table in (ours, theirs):
        delta_spark.write(table, good)
        write_deltalake(table, good, mode="append")
        with pytest.raises(DeltaSparkError, match=r"NOT[_ ]NULL|null"):
            delta_spark.write(table, bad)
        with pytest.raises(ConstraintViolationError, match="id"):
            write_deltalake(table, bad, mode="append")
        assert_same(delta_spark.read(table), pa.concat_tables([good, good]))
        assert not DeltaTable(table).schema().to_arrow().field("id").nullable
    verify(ours)


def test_time_travel_by_timestamp(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    """Both engines resolve a timestamp to the same version, also if commit times decrease."""
    from deltaplane import DeltaTable, write_deltalake

    # delta-spark doesn't resolve timestamps older than the retention of deleted files.
    table, start = tmp_table(), int(time.time()) - 3600
    for n in range(5):
        write_deltalake(table, numbered(n, 1), mode="append")
    # Version 3's file is older than version 2's: its time counts as one millisecond after version
    # 2's.
    for version, second in enumerate([0, 60, 120, 90, 240]):
        os.utime(Path(table) / "_delta_log" / f"{version:020d}.json", (start + second, start + second))
    for second, version in [(0, 0), (59, 0), (60, 1), (119, 1), (121, 3), (239, 3), (240, 4)]:
        moment = datetime.fromtimestamp(start + second, timezone.utc)
        text = moment.strftime("%Y-%m-%d %H:%M:%S")
        assert DeltaTable(table, version=moment).version() == version
        rows = delta_spark.sql(f"select * from delta.`{table}` timestamp as of '{text}'")
        assert_same(DeltaTable(table, version=moment).to_pyarrow_table(), rows)
