"""DELETE and UPDATE against a model in plain Python: rows, the change feed, row ids and metrics, in
both ways of deleting."""

from __future__ import annotations

import datetime
import decimal
import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rows.row_model import CONDITIONS, FEED, IDS, TABLES, UPDATES, VECTORS, Model, values
from deltaplane import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.io import hidden_columns
from deltaplane.schema import Field, Schema
from interop.verifier import verify

appends = st.tuples(st.just("append"), st.lists(values, min_size=1, max_size=8))
deletes = st.tuples(st.just("delete"), st.sampled_from(CONDITIONS))
updates = st.tuples(st.just("update"), st.tuples(st.sampled_from(UPDATES), st.sampled_from(CONDITIONS)))


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(appends | deletes | updates, min_size=3, max_size=6))
def test_commands_do_what_a_model_does(
    tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str], partitioned: bool, steps: list[Any]
) -> None:
    # P122, P130, P131, P142
    model = Model(str(tmp_path_factory.mktemp("dml") / "t"), properties, partitioned)
    model.append([{"a": i % 4, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(6)])
    for name, argument in steps:
        getattr(model, name)(argument)
        model.check()
    model.check_changes()
    verify(model.table.location)


def numbers(path: str, rows: int = 6, **more: Any) -> DeltaTable:
    write_deltalake(path, pa.table({"x": range(rows), "p": [i % 2 for i in range(rows)]}), **more)
    return DeltaTable(path)


def operation(table: DeltaTable) -> dict[str, Any]:
    return table.history(1)[0]


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copy", "vectors"])
def test_metrics_have_delta_sparks_names(tmp_path: Path, properties: dict[str, str]) -> None:
    table = numbers(str(tmp_path / "t"), configuration=properties)
    table.delete("x < 2")
    said = operation(table)
    assert (said["operation"], said["operationParameters"]) == ("DELETE", {"predicate": '["x < 2"]'})
    copied = {"numDeletedRows": "2", "numCopiedRows": "4", "numAddedFiles": "1", "numRemovedFiles": "1"}
    marked = {"numDeletedRows": "2", "numCopiedRows": "0", "numDeletionVectorsAdded": "1", "numRemovedFiles": "0"}
    assert said["operationMetrics"].items() >= (marked if properties else copied).items()
    table.update({"x": "x + 1"}, predicate="x = 5")
    said = operation(table)
    assert said["operationMetrics"].items() >= {"numUpdatedRows": "1"}.items()
    assert sorted(table.to_pyarrow_table()["x"].to_pylist()) == [2, 3, 4, 6]


def test_whole_files_go_unread(tmp_path: Path) -> None:
    table = numbers(str(tmp_path / "t"), partition_by=["p"])
    for file in table.file_uris():
        Path(file).write_bytes(b"not a Parquet file any more")
    assert table.delete("p = 1")["num_deleted_rows"] == 3
    assert table.delete()["num_removed_files"] == 1
    assert table.files() == []


def test_nothing_to_do_commits_nothing(tmp_path: Path) -> None:
    table = numbers(str(tmp_path / "t"))
    assert table.delete("x > 100") == {
        "num_deleted_rows": 0,
        "num_added_files": 0,
        "num_removed_files": 0,
        "num_copied_rows": 0,
        "execution_time_ms": 0,
        "scan_time_ms": 0,
    }
    assert table.update({"x": "1"}, predicate="x > 100 AND x % 2 = 0")["num_updated_rows"] == 0
    assert table.version() == 0


def test_fields_of_structs_are_assigned(tmp_path: Path) -> None:
    rows = [{"i": 1, "s": {"a": 1, "b": {"c": "x"}}}, {"i": 2, "s": None}]
    path = str(tmp_path / "t")
    write_deltalake(path, pa.Table.from_pylist(rows))
    table = DeltaTable(path)
    table.update({"S.a": "i + 10", "s.b.C": "'y'"})
    # As in Spark, updating a field of a null struct turns it into a struct whose other fields are
    # null.
    expected = [{"i": 1, "s": {"a": 11, "b": {"c": "y"}}}, {"i": 2, "s": {"a": 12, "b": {"c": "y"}}}]
    assert table.to_pyarrow_table().sort_by("i").to_pylist() == expected


def test_rules_hold_for_new_values(tmp_path: Path) -> None:
    # P102, P103, P105
    path = str(tmp_path / "t")
    schema = Schema(
        [
            Field("x", "long", nullable=False),
            Field("twice", "long", metadata={"delta.generationExpression": "x * 2"}),
        ]
    )
    table = DeltaTable.create(path, schema, configuration={"delta.constraints.small": "x < 100"})
    write_deltalake(table, pa.table({"x": [1, 2]}), mode="append")
    table.update({"x": "x + 10"})
    assert sorted(table.to_pyarrow_table()["twice"].to_pylist()) == [22, 24]
    table.update({"x": "x + 1", "twice": "(x + 1) * 2"}, predicate="x = 11")
    files = set(Path(path).glob("*.parquet"))
    for wrong in ({"x": "x + 100"}, {"x": "null"}, {"twice": "7"}):
        with pytest.raises(ConstraintViolationError):
            table.update(wrong)
    assert (table.version(), set(Path(path).glob("*.parquet"))) == (3, files)
    assert sorted(table.to_pyarrow_table()["x"].to_pylist()) == [12, 12]


def test_what_columns_dont_take_is_refused(tmp_path: Path) -> None:
    # deltalake's UPDATE of a missing column succeeds; nothing is stored as null for lack of a cast.
    path = str(tmp_path / "t")
    table = DeltaTable.create(path, Schema([Field("x", "integer"), Field("d", "date"), Field("s", "string")]))
    write_deltalake(
        table, pa.Table.from_pylist([{"x": 1, "d": None, "s": "a"}], pa.schema(table.schema())), mode="append"
    )
    for wrong, error in (
        ({"nope": "1"}, InvalidArgumentError),
        ({"x.y": "1"}, InvalidArgumentError),
        ({"x": "s"}, InvalidArgumentError),
        ({"d": "x"}, SchemaMismatchError),
        ({"x": "nope + 1"}, InvalidArgumentError),
        ({"x": "rand()"}, UnsupportedExpressionError),
        ({"x": "x / 0"}, InvalidArgumentError),
        ({"x": "3000000000"}, InvalidArgumentError),
        ({"x": "1", "X": "2"}, InvalidArgumentError),
        ({}, InvalidArgumentError),
    ):
        with pytest.raises(error):
            table.update(wrong)
    for name, value in (("x", "text"), ("x", 2**40), ("x", 1.5), ("d", 1.5)):
        with pytest.raises(SchemaMismatchError):
            table.update(new_values={name: value})
    with pytest.raises(UnsupportedFeatureError, match="try_cast"):
        table.update({"x": "1"}, error_on_type_mismatch=False)
    with pytest.raises(InvalidArgumentError, match="nope"):
        table.delete("nope = 1")
    with pytest.raises(UnsupportedExpressionError, match="rand"):
        table.delete("rand() < 0.5")
    table.update({"s": "x", "x": "2.0"}, {"d": datetime.date(2024, 1, 31)})
    assert table.to_pyarrow_table().to_pylist() == [{"x": 2, "d": datetime.date(2024, 1, 31), "s": "1"}]
    table.update(new_values={"x": None, "s": 5})
    assert table.to_pyarrow_table(columns=["x", "s"]).to_pylist() == [{"x": None, "s": "5"}]


def test_values_become_texts_and_decimals_as_spark_has_them(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    columns = {"v": pa.array(["a"]), "d": pa.array([None], pa.decimal128(8, 2))}
    write_deltalake(path, pa.table(columns))
    table = DeltaTable(path)
    moment = datetime.datetime(2020, 1, 1, 12)
    for value, text in (
        (1.0, "1.0"),
        (1e8, "1.0E8"),
        (1e20, "1.0E20"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (moment, "2020-01-01 12:00:00"),
        (moment.replace(tzinfo=datetime.UTC), "2020-01-01 12:00:00"),
        (datetime.date(2020, 1, 1), "2020-01-01"),
        (True, "true"),
        (decimal.Decimal("0.50"), "0.50"),
        ("1.00", "1.00"),
    ):
        table.update(new_values={"v": value})
        assert table.to_pyarrow_table()["v"].to_pylist() == [text]
    table.update(new_values={"d": 5})
    assert table.to_pyarrow_table()["d"].to_pylist() == [decimal.Decimal("5.00")]
    with pytest.raises(SchemaMismatchError, match="10000000"):
        table.update(new_values={"d": 10_000_000})


def test_values_are_cast_as_delta_spark_casts_them(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "t"), Schema([Field("x", "integer"), Field("d", "date")]))
    write_deltalake(table, pa.Table.from_pylist([{"x": 1, "d": None}], pa.schema(table.schema())), mode="append")
    table.update({"x": "' 12 '", "d": "'2024-02-03'"})
    assert table.to_pyarrow_table().to_pylist() == [{"x": 12, "d": datetime.date(2024, 2, 3)}]
    table.update(new_values={"x": "7", "d": "2024-02-04"})
    assert table.to_pyarrow_table().to_pylist() == [{"x": 7, "d": datetime.date(2024, 2, 4)}]
    table.update(new_values={"x": True})
    table.merge(pa.table({"k": [1]}), "x = k").when_matched_update({"x": "'-3'"}).execute()
    assert table.to_pyarrow_table()["x"].to_pylist() == [-3]


def test_append_only_and_taken_names(tmp_path: Path) -> None:
    # P100
    table = numbers(str(tmp_path / "only"), configuration={"delta.appendOnly": "true"})
    for change in (lambda: table.delete("x = 1"), lambda: table.update({"x": "1"})):
        with pytest.raises(InvalidArgumentError, match="append-only"):
            change()
    write_deltalake(str(tmp_path / "taken"), pa.table({hidden_columns.ROW: [1]}))
    with pytest.raises(UnsupportedFeatureError, match=f"`{hidden_columns.ROW}`.*rename the column"):
        DeltaTable(str(tmp_path / "taken")).delete(f"{hidden_columns.ROW} = 1")


def test_an_application_does_it_once(tmp_path: Path) -> None:
    # P076
    table = numbers(str(tmp_path / "t"))
    once = CommitProperties(app_transactions=[Transaction("job", 1)], custom_metadata={"userMetadata": "why"})
    assert table.update({"x": "x + 1"}, commit_properties=once)["num_updated_rows"] == 6
    assert table.update({"x": "x + 1"}, commit_properties=once)["num_updated_rows"] == 0
    assert (table.version(), operation(table)["userMetadata"]) == (1, "why")


def test_writers_who_meet(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    numbers(path, partition_by=["p"])
    first, second, third = DeltaTable(path), DeltaTable(path), DeltaTable(path)
    first.update({"x": "x + 10"}, predicate="p = 0 AND x = 2")
    # Another partition, which shares no row.
    second.update({"x": "x + 100"}, predicate="p = 1")
    files = set(Path(path).rglob("*.parquet"))
    with pytest.raises(DeltaConcurrentModificationException):
        third.update({"x": "x + 1000"}, predicate="p = 0")
    assert set(Path(path).rglob("*.parquet")) == files
    assert sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist()) == [0, 4, 12, 101, 103, 105]


def test_writers_mark_different_rows_of_one_file(tmp_path: Path) -> None:
    # P120, P122: row-level concurrency
    path = str(tmp_path / "t")
    numbers(path, rows=20, configuration=VECTORS | IDS | FEED)
    DeltaTable(path).delete("x = 19")
    late = [DeltaTable(path) for _ in range(4)]
    DeltaTable(path).delete("x = 18")
    assert late[0].delete("x % 10 = 3")["num_deleted_rows"] == 2
    assert late[1].update({"x": "x + 100"}, predicate="x IN (1, 2)")["num_updated_rows"] == 2
    expected = [0, *range(4, 13), *range(14, 18), 101, 102]
    assert sorted(late[1].to_pyarrow_table()["x"].to_pylist()) == expected
    assert len(late[1].files()) == 2
    # A row that another writer deleted or changed is a conflict, and so is a row that began to
    # match the condition.
    before = set(Path(path).rglob("*"))
    for wrong in ("x = 18", "x BETWEEN 2 AND 4", "x > 16"):
        with pytest.raises(DeltaConcurrentModificationException):
            late[2].delete(wrong)
    assert set(Path(path).rglob("*")) == before
    changes = DeltaTable(path).load_cdf(3).to_arrow().select(["x", "_change_type", "_commit_version"]).to_pylist()
    assert Counter((r["_commit_version"], r["_change_type"], r["x"]) for r in changes) == Counter(
        [(3, "delete", 3), (3, "delete", 13)]
        + [(4, kind, x + more) for x in (1, 2) for kind, more in (("update_preimage", 0), ("update_postimage", 100))]
    )
    verify(path)


def test_many_writers_delete_from_one_file(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    numbers(path, rows=40, configuration=VECTORS)
    with ThreadPoolExecutor(8) as pool:
        done = list(pool.map(lambda x: DeltaTable(path).delete(f"x = {x}")["num_deleted_rows"], range(16)))
    assert done == [1] * 16
    assert sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist()) == list(range(16, 40))
    verify(path)


def test_a_damaged_file_leaves_nothing_behind(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    numbers(path, configuration=FEED)
    write_deltalake(path, pa.table({"x": [1, 100], "p": [0, 1]}), mode="append")
    table = DeltaTable(path)
    broken = Path(table.file_uris("x = 100")[0])
    broken.write_bytes(broken.read_bytes()[:-20])
    before = set(Path(path).rglob("*"))
    for change in (lambda: table.delete("x = 1"), lambda: table.update({"x": "7"}, predicate="x = 1")):
        with pytest.raises(Exception, match="parquet"):
            change()
    assert set(Path(path).rglob("*")) == before


def test_a_purge_leaves_rows_and_ids_and_no_traces(tmp_path: Path) -> None:
    # P028, P114, P122, P142, P153
    properties = VECTORS | IDS | FEED | {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
    path = str(tmp_path / "t")
    data = pa.table({"x": pa.array(range(8), pa.int32()), "y": range(8), "p": [i % 2 for i in range(8)]})
    write_deltalake(path, data, partition_by=["p"], configuration=properties)
    table = DeltaTable(path)
    retained = table.files("p = 1")
    table.delete("x = 4")
    ids = ["x", "p", "_row_id", "_row_commit_version"]
    before = table.scan(ids).to_arrow().sort_by("x")
    assert table.purge("p = 1")["num_removed_files"] == 0
    assert table.purge()["num_copied_rows"] == 3
    said = operation(table)
    assert (said["operation"], said["operationParameters"]["applyPurge"]) == ("REORG", True)
    assert said["isolationLevel"] == "SnapshotIsolation"
    assert table.files("p = 1") == retained
    assert table.scan(ids).to_arrow().sort_by("x") == before
    assert table.load_cdf(table.version()).to_arrow().num_rows == 0
    table.alter.change_column_type("x", "long")
    assert table.purge()["num_removed_files"] == 2
    table.alter.drop_columns("y")
    assert table.purge()["num_removed_files"] == 2
    assert table.purge()["num_removed_files"] == 0
    for file in table.file_uris():
        assert len(_names(Path(file))) == 3
    assert table.scan(ids).to_arrow().sort_by("x").to_pylist() == before.to_pylist()
    with pytest.raises(UnsupportedExpressionError, match="partition columns"):
        table.purge("x = 1")
    verify(path)


def test_ids_are_stored_apart(tmp_path: Path) -> None:
    # P133, P141, P142: hidden columns are in the file, not in the table, its statistics or its
    # change files
    table = numbers(str(tmp_path / "t"), configuration=IDS | FEED)
    table.update({"x": "x + 1"}, predicate="x = 3")
    (file,) = (Path(u) for u in table.file_uris())
    hidden = [v for k, v in table.metadata().configuration.items() if "materialized" in k]
    assert len(hidden) == 2
    assert set(_names(file)) == {"x", "p", *hidden}
    assert table.to_pyarrow_table().column_names == ["x", "p"]
    log = (tmp_path / "t/_delta_log" / f"{1:020d}.json").read_text()
    actions = [json.loads(line) for line in log.splitlines()]
    (add,) = (a["add"] for a in actions if "add" in a)
    assert set(json.loads(add["stats"])["minValues"]) == {"x", "p"}
    (info,) = (a["commitInfo"] for a in actions if "commitInfo" in a)
    assert info["tags"] == {"delta.rowTracking.preserved": "true"}
    (cdc,) = (a["cdc"] for a in actions if "cdc" in a)
    assert cdc["dataChange"] is False
    assert set(_names(tmp_path / "t" / cdc["path"])) == {"x", "p", "_change_type"}


def _names(file: Path) -> list[str]:
    import pyarrow.parquet

    names: list[str] = pyarrow.parquet.read_schema(file).names
    return names
