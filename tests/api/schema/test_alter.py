"""`DeltaTable.alter`: what each change commits, and what is refused by name."""

from __future__ import annotations

import inspect
import json
import logging
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake.table import TableAlterer as TheirAlterer

from deltaplane import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConstraintViolationError,
    InvalidArgumentError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.schema import ArrayType, StructType
from deltaplane.table.alter import TableAlterer

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "s": pa.array([{"x": 1}, {"x": 2}], pa.struct([("x", pa.int32())])),
        "l": pa.array([[{"y": "a"}], []], pa.list_(pa.struct([("y", pa.string())]))),
    }
)


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(tmp_path / "t", ROWS)
    return DeltaTable(tmp_path / "t")


def names(table: DeltaTable) -> list[str]:
    return [field.name for field in table.schema().fields]


def last(table: DeltaTable) -> dict[str, Any]:
    return table.history(1)[0]


def actions(table: DeltaTable, version: int) -> list[dict[str, Any]]:
    log = Path(table.location) / "_delta_log" / f"{version:020}.json"
    return [json.loads(line) for line in log.read_text().splitlines()]


# --- names -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [n for n in vars(TheirAlterer) if not n.startswith("_")])
def test_deltalakes_changes_take_the_same_arguments(name: str) -> None:
    def parameters(function: Any) -> dict[str, Any]:
        arguments = inspect.signature(getattr(function, name)).parameters
        return {n: p.default for n, p in arguments.items() if n not in ("args", "dry_run", "into", "first", "after")}

    assert parameters(TableAlterer) == parameters(TheirAlterer)


# --- columns -----------------------------------------------------------------------------------------------------------


def test_columns_are_added_where_they_are_wanted(table: DeltaTable) -> None:
    table.alter.add_columns([Field("a", "date"), Field("b", "string")], after="id")
    table.alter.add_columns(Field("z", "long"), into="s", first=True)
    table.alter.add_columns(Field("w", "double"), into="l.element")
    assert names(table) == ["id", "a", "b", "s", "l"]
    rows = table.to_pyarrow_table().to_pylist()
    assert rows[0] == {"id": 1, "a": None, "b": None, "s": {"z": None, "x": 1}, "l": [{"y": "a", "w": None}]}
    write_deltalake(table, pa.table({"id": [3], "b": ["new"]}), mode="append")
    assert table.to_pyarrow_table(filters="id = 3")["b"].to_pylist() == ["new"]


def test_a_struct_that_is_there_gets_the_new_fields(table: DeltaTable) -> None:
    table.alter.add_columns(Field("s", StructType([Field("x", "integer"), Field("y", "string")])))
    assert table.to_pyarrow_table()["s"].to_pylist() == [{"x": 1, "y": None}, {"x": 2, "y": None}]


def test_history_says_it_as_delta_spark_does(table: DeltaTable) -> None:
    table.alter.add_columns(Field("z", "long"), into="s", first=True)
    entry = last(table)
    assert entry["operation"] == "ADD COLUMNS"
    assert json.loads(entry["operationParameters"]["columns"]) == [
        {"column": {"name": "s.z", "type": "long", "nullable": True, "metadata": {}}, "position": "FIRST"}
    ]
    table.alter.set_comment("id", "key")
    assert last(table)["operation"] == "CHANGE COLUMN"
    assert json.loads(last(table)["operationParameters"]["column"])["metadata"] == {"comment": "key"}
    assert last(table)["isBlindAppend"] is True


@pytest.mark.parametrize(
    ("field", "where", "says"),
    [
        (Field("ID", "long"), {}, "`id` already"),
        (Field("s", StructType([Field("x", "integer")])), {}, "`s` already"),
        (Field("n", "long", nullable=False), {}, "NOT NULL"),
        (Field("n", "long", metadata={"CURRENT_DEFAULT": "1"}), {}, "CURRENT_DEFAULT"),
        (Field("n", StructType([Field("m", "long", metadata={"delta.x": "1"})])), {}, "delta.x"),
        (Field("a b", "long"), {}, "'a b'|`a b`"),
        (Field("n", "long"), {"after": "nowhere"}, "nowhere"),
        (Field("n", "long"), {"into": "id"}, "long, not a struct"),
        (Field("n", "long"), {"into": "l"}, "element"),
        (Field("n", "long"), {"into": "a."}, "name of a column"),
        (Field("n", "long"), {"first": True, "after": "id"}, "two places"),
    ],
)
def test_columns_that_cannot_be_added(table: DeltaTable, field: Field, where: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidArgumentError, match=says):
        table.alter.add_columns(field, **where)
    assert DeltaTable(table.location).version() == 0


def test_columns_move_are_described_and_relaxed(tmp_path: Path) -> None:
    inner = StructType([Field("p", "long", nullable=False), Field("q", "long")])
    schema = Schema([Field("a", "long", nullable=False), Field("b", "long"), Field("c", inner)])
    table = DeltaTable.create(tmp_path / "t", schema)
    table.alter.reorder("c", first=True)
    table.alter.reorder("c.p", after="q")
    table.alter.drop_column_not_null("a")
    table.alter.set_nullable("c.p")
    table.alter.set_column_metadata("b", {"unit": "kg", "n": 1})
    table.alter.set_column_metadata("b", {"n": None})
    fields = {f.name: f for f in table.schema().fields}
    assert list(fields) == ["c", "a", "b"]
    assert fields["a"].nullable
    assert fields["b"].metadata == {"unit": "kg"}
    assert [(f.name, f.nullable) for f in fields["c"].type.fields] == [("q", True), ("p", True)]  # type: ignore[union-attr]
    # As in delta-spark, a column that comes after itself stays where it is.
    table.alter.reorder("a", after="a")
    assert [f.name for f in table.schema().fields] == ["c", "a", "b"]
    for call in (
        lambda: table.alter.reorder("a"),
        lambda: table.alter.drop_column_not_null("c.zz"),
        lambda: table.alter.set_column_metadata("a", {"delta.identity.start": "1"}),
        lambda: table.alter.set_column_metadata("a", {}),
    ):
        with pytest.raises(InvalidArgumentError):
            call()
    with pytest.raises(UnsupportedFeatureError, match="IS NOT NULL"):
        table.alter.set_nullable("a", nullable=False)


def test_types_widen(table: DeltaTable) -> None:
    # P153
    with pytest.raises(InvalidArgumentError, match="enableTypeWidening"):
        table.alter.change_column_type("s.x", "long")
    plan = table.alter.set_table_properties({"delta.enableTypeWidening": "true"})
    assert plan.added_features == ["typeWidening"]
    table.alter.change_column_type("s.x", "long")
    assert last(table)["operation"] == "CHANGE COLUMN"
    assert table.to_pyarrow_table()["s"].to_pylist() == [{"x": 1}, {"x": 2}]
    assert table.to_pyarrow_table().schema.field("s").type.field("x").type == pa.int64()
    for to, says in (("integer", "wider"), ("bigint", "bigint"), ("string", "wider")):
        with pytest.raises(InvalidArgumentError, match=says):
            table.alter.change_column_type("s.x", to)


def test_what_changes_nothing_commits_nothing(table: DeltaTable) -> None:
    plan = table.alter.drop_column_not_null("id")
    assert (plan.changed, plan.version, table.version()) == (False, None, 0)


# --- properties --------------------------------------------------------------------------------------------------------


def test_properties_are_stored_under_their_canonical_keys(table: DeltaTable) -> None:
    # P190
    table.alter.set_table_properties({"DELTA.checkpointinterval": "5", "My.Key": "v", "comment": "about"})
    metadata = table.metadata()
    assert metadata.configuration == {"delta.checkpointInterval": "5", "My.Key": "v"}
    assert metadata.description == "about"
    table.alter.unset_table_properties(["delta.CHECKPOINTINTERVAL", "comment"])
    assert table.metadata().configuration == {"My.Key": "v"}
    assert last(table)["operationParameters"]["ifExists"] is False
    with pytest.raises(InvalidArgumentError, match=r"my\.key"):
        table.alter.unset_table_properties("my.key")
    assert not table.alter.unset_table_properties("my.key", if_exists=True).changed


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({"delta.appendOnyl": "true"}, "appendOnyl"),
        ({"delta.appendOnly": "yes"}, "true or false"),
        ({"delta.checkpointInterval": "0"}, "at least 1"),
        ({"delta.logRetentionDuration": "interval 1 month"}, "without months"),
        ({"delta.logRetentionDuration": "interval 1 day"}, "deletedFileRetentionDuration"),
        ({"delta.isolationLevel": "WriteSerializable"}, "Serializable"),
        ({"delta.columnMapping.maxColumnId": "7"}, "kept by writers"),
        ({"delta.constraints.c": "id > 0"}, "add_constraint"),
        ({"delta.dataSkippingStatsColumns": "id,nope"}, "nope"),
        ({"delta.feature.appendOnly": "on"}, "supported"),
        ({"delta.appendOnly": "true", "DELTA.APPENDONLY": "false"}, "twice"),
        ({}, "no property"),
    ],
)
def test_properties_that_cannot_be_set(table: DeltaTable, properties: dict[str, str], says: str) -> None:
    # P190, P096
    with pytest.raises(InvalidArgumentError, match=says):
        table.alter.set_table_properties(properties)
    assert DeltaTable(table.location).version() == 0


def test_values_of_others_that_clash_are_left_alone(tmp_path: Path) -> None:
    # P190
    path = str(tmp_path / "t")
    deltalake.write_deltalake(
        path, pa.table({"x": [1]}), configuration={"delta.logRetentionDuration": "interval 1 day"}
    )
    table = DeltaTable(path)
    table.alter.set_table_properties({"delta.appendOnly": "true"})
    table.alter.unset_table_properties("delta.appendOnly")
    with pytest.raises(InvalidArgumentError, match="deletedFileRetentionDuration"):
        table.alter.set_table_properties({"delta.DELETEDFILERETENTIONDURATION": "interval 2 days"})
    table.alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 1 day"})
    with pytest.raises(InvalidArgumentError, match="deletedFileRetentionDuration"):
        table.alter.unset_table_properties("delta.deletedFileRetentionDuration")


def test_unknown_properties_of_others_are_kept_and_can_go(tmp_path: Path) -> None:
    # P190
    path = str(tmp_path / "t")
    deltalake.write_deltalake(path, pa.table({"x": [1]}))
    deltalake.DeltaTable(path).alter.set_table_properties({"delta.strange": "1"}, raise_if_not_exists=False)
    table = DeltaTable(path)
    table.alter.set_table_properties({"owner": "us"})
    assert table.metadata().configuration == {"delta.strange": "1", "owner": "us"}
    table.alter.unset_table_properties("delta.strange")
    assert table.metadata().configuration == {"owner": "us"}


def test_metadata_is_carried_forward(table: DeltaTable) -> None:
    # P023, P024
    before = table.metadata()
    table.alter.set_table_name("payments")
    table.alter.set_table_description("all of them")
    table.alter.add_columns(Field("n", ArrayType("long")))
    after = table.metadata()
    assert (after.id, after.created_time) == (before.id, before.created_time)
    assert (after.name, after.description) == ("payments", "all of them")
    table.alter.set_table_name(None)
    assert table.metadata().name is None
    with pytest.raises(InvalidArgumentError, match="4000"):
        table.alter.set_table_description("x" * 4001)


# --- the protocol ------------------------------------------------------------------------------------------------------


def test_a_property_brings_its_feature_in_the_same_commit(table: DeltaTable) -> None:
    # P093, P094: implied features are listed
    plan = table.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    assert plan.added_features == ["deletionVectors"]
    assert plan.version == 1
    kinds = [next(iter(action)) for action in actions(table, 1)]
    assert kinds == ["commitInfo", "protocol", "metaData"]
    protocol = table.protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == ["deletionVectors"]
    assert protocol.writer_features == ["appendOnly", "deletionVectors", "invariants"]


def test_instructions_are_followed_and_not_stored(table: DeltaTable, tmp_path: Path) -> None:
    # P096, P075
    table.alter.set_table_properties({"delta.feature.vacuumProtocolCheck": "supported", "k": "v"})
    assert table.metadata().configuration == {"k": "v"}
    assert table.protocol().reader_features == ["vacuumProtocolCheck"]
    made = DeltaTable.create(
        tmp_path / "made",
        Schema([Field("x", "long")]),
        configuration={"delta.minWriterVersion": "4", "delta.minReaderVersion": "1"},
    )
    assert made.protocol()[:2] == (1, 4)
    assert made.metadata().configuration == {}


def test_versions_and_features_can_be_asked_for(table: DeltaTable) -> None:
    # P075, P094: the lowest protocol with the same features
    assert table.alter.upgrade_protocol(1, 2).changed is False
    assert str(table.alter.upgrade_protocol(1, 3).after) == "(1, 3)"
    assert str(table.alter.upgrade_protocol(3, 7).after) == "(1, 3)"
    with pytest.raises(InvalidArgumentError, match="allow_protocol_versions_increase"):
        table.alter.add_feature("v2Checkpoint")
    theirs = [deltalake.TableFeatures.V2Checkpoint, deltalake.TableFeatures.TimestampWithoutTimezone]
    plan = table.alter.add_feature(theirs, allow_protocol_versions_increase=True)
    assert plan.added_features == ["timestampNtz", "v2Checkpoint"]
    assert last(table)["operation"] == "UPGRADE PROTOCOL"
    assert not table.alter.add_feature("v2checkpoint").changed
    with pytest.raises(UnsupportedFeatureError, match="flying"):
        table.alter.add_feature("flying")
    with pytest.raises(InvalidArgumentError, match="no protocol"):
        table.alter.upgrade_protocol(4, 8)


def test_features_are_dropped_where_that_is_safe(table: DeltaTable) -> None:
    # P098
    table.alter.set_table_properties(
        {"delta.enableChangeDataFeed": "true", "delta.feature.vacuumProtocolCheck": "supported"}
    )
    assert table.alter.drop_feature("changeDataFeed").removed_features == ["changeDataFeed"]
    assert table.metadata().configuration == {}
    assert last(table)["operationParameters"] == {"featureName": "changeDataFeed", "truncateHistory": False}
    assert str(table.alter.drop_feature("vacuumProtocolCheck").after) == "(1, 2)"
    with pytest.raises(InvalidArgumentError, match="nothing to drop"):
        table.alter.drop_feature("changeDataFeed")


def test_features_in_files_or_history_are_dropped_with_care(table: DeltaTable) -> None:
    # P098: protected, or after a day
    table.alter.set_table_properties({"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"})
    with pytest.raises(InvalidArgumentError, match="DELTA_FEATURE_DROP_WAIT_FOR_RETENTION_PERIOD"):
        table.alter.drop_feature("deletionVectors", truncate_history=True)
    version = DeltaTable(table.location).version()
    plan = table.alter.drop_feature("deletionVectors", dry_run=True)
    assert (plan.removed_features, plan.added_features) == (["deletionVectors"], ["checkpointProtection"])
    assert DeltaTable(table.location).version() == version
    assert table.alter.drop_feature("deletionVectors").version == version + 4
    assert [e["operation"] for e in table.history(2)] == ["DROP FEATURE", "Empty Commit"]
    table.alter.set_table_properties({"delta.feature.timestampNtz": "supported"})
    with pytest.raises(UnsupportedFeatureError, match="timestampNtz"):
        table.alter.drop_feature("timestampNtz")


def test_files_are_written_anew_before_their_feature_goes(table: DeltaTable) -> None:
    # P098: deleted rows and old types
    table.alter.set_table_properties({"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"})
    write_deltalake(table.location, table.to_pyarrow_table(), mode="append")
    table = DeltaTable(table.location)
    table.delete("id = 1")
    table.alter.change_column_type("s.x", "long")
    rows, version = DeltaTable(table.location).to_pyarrow_table(), DeltaTable(table.location).version()
    for feature in ("deletionVectors", "typeWidening"):
        assert table.alter.drop_feature(feature, dry_run=True).removed_features == [feature]
    assert DeltaTable(table.location).version() == version
    why = CommitProperties(custom_metadata={"why": "readers"})
    table.alter.drop_feature("typeWidening", commit_properties=why)
    after = DeltaTable(table.location)
    assert after.to_pyarrow_table().equals(rows)
    assert "typeChanges" not in after.schema().to_json()
    assert "typeWidening" not in after.compatibility().protocol.features
    operations = [e["operation"] for e in after.history(7)]
    assert operations == ["DROP FEATURE", *["Empty Commit"] * 3, "SET TBLPROPERTIES", "REORG", "CHANGE COLUMN"]
    assert {e["why"] for e in after.history(6)} == {"readers"}
    # The purge removed the deleted rows as well: only old versions contain them.
    table.alter.drop_feature("deletionVectors")
    assert "ADD DELETION VECTORS TOMBSTONES" in [e["operation"] for e in DeltaTable(table.location).history()]
    assert DeltaTable(table.location).to_pyarrow_table().equals(rows)
    assert DeltaTable(table.location, version=version).to_pyarrow_table().equals(rows)


def test_constraints_that_are_not_there(table: DeltaTable) -> None:
    with pytest.raises(InvalidArgumentError, match="no constraint `c`"):
        table.alter.drop_constraint("c")
    assert not table.alter.drop_constraint("c", raise_if_not_exists=False).changed
    with pytest.raises(InvalidArgumentError, match="one constraint"):
        table.alter.add_constraint({"a": "id > 0", "b": "id > 1"})


def test_constraints_that_deltalake_named_in_another_case(tmp_path: Path) -> None:
    # P103; deltalake stores names as they are given.
    deltalake.write_deltalake(tmp_path, pa.table({"id": [1, 2]}))
    deltalake.DeltaTable(tmp_path).alter.add_constraint({"Positive": "id > 0"})
    deltalake.DeltaTable(tmp_path).alter.add_constraint({"Small": "id < 9"})
    table = DeltaTable(tmp_path)
    assert sorted(table.metadata().configuration) == ["delta.constraints.Positive", "delta.constraints.Small"]
    with pytest.raises(InvalidArgumentError, match=r"`positive` already \(`id > 0`\)"):
        table.alter.add_constraint({"positive": "id > -1"})
    with pytest.raises(ConstraintViolationError, match="Small"):
        write_deltalake(tmp_path, pa.table({"id": [10]}), mode="append")
    table.alter.drop_constraint("POSITIVE")
    table.alter.unset_table_properties(["delta.constraints.small"])
    assert table.metadata().configuration == {}
    write_deltalake(tmp_path, pa.table({"id": [-10]}), mode="append")


def test_columns_that_are_left_out_are_dropped_with_column_mapping(tmp_path: Path) -> None:
    # P104
    columns = pa.table({"id": [1], "p": ["a"], "s": [{"x": 1, "y": 2}], "c": [3], "v": ["old"]})
    properties = {"delta.columnMapping.mode": "name", "delta.dataSkippingStatsColumns": "id,v"}
    write_deltalake(tmp_path, columns, partition_by=["p"], configuration=properties)
    table = DeltaTable(tmp_path)
    table.alter.add_constraint({"about_c": "c > 0"})
    struct = StructType([Field("y", "long")])
    retained = [Field("s", struct), Field("p", "string"), Field("c", "long"), Field("new", "date")]
    for lacking, reason in (("p", "partitioned by"), ("c", "about_c")):
        with pytest.raises(InvalidArgumentError, match=reason):
            table.alter.replace_columns([field for field in retained if field.name != lacking])
    table.alter.replace_columns(retained)
    assert table.to_pyarrow_table().to_pylist() == [{"s": {"y": 2}, "p": "a", "c": 3, "new": None}]
    assert "delta.dataSkippingStatsColumns" not in table.metadata().configuration
    table.alter.add_columns(Field("v", "string"))
    assert table.to_pyarrow_table(columns=["v"]).to_pylist() == [{"v": None}], "the dropped column's values stay away"


def test_a_column_type_brings_its_feature(table: DeltaTable) -> None:
    # P093, P150
    assert table.alter.add_columns(Field("at", "timestamp_ntz")).added_features == ["timestampNtz"]


def test_a_dry_run_announces_and_commits_nothing(table: DeltaTable, caplog: pytest.LogCaptureFixture) -> None:
    properties = {"delta.enableDeletionVectors": "true"}
    plan = table.alter.set_table_properties(properties, dry_run=True)
    assert plan.changed
    assert plan.version is None
    assert DeltaTable(table.location).version() == 0
    assert any("unreadable for delta-spark 1.0" in line for line in plan.announcement())
    with caplog.at_level(logging.WARNING, "deltaplane.alter"):
        done = table.alter.set_table_properties(properties)
    assert done.announcement() == plan.announcement()
    assert [r.getMessage() for r in caplog.records if "unreadable for" in r.getMessage()]


def test_the_plan_of_a_new_table_announces_its_protocol(tmp_path: Path) -> None:
    plan = DeltaTable.plan_create(tmp_path / "t", Schema([Field("at", "timestamp_ntz")]))
    assert plan.added_features == ["appendOnly", "invariants", "timestampNtz"]
    assert any("unreadable for" in line for line in plan.announcement())
    assert not (tmp_path / "t").exists()


def test_columns_of_plain_tables_are_neither_renamed_nor_dropped(table: DeltaTable) -> None:
    # P114
    for call in (lambda: table.alter.rename_column("id", "key"), lambda: table.alter.drop_columns(["l"])):
        with pytest.raises(InvalidArgumentError, match=r"delta\.columnMapping\.mode"):
            call()


def test_rows_are_judged_before_a_constraint_is_added(table: DeltaTable) -> None:
    # P103
    with pytest.raises(ConstraintViolationError, match="DELTA_NEW_CHECK_CONSTRAINT_VIOLATION"):
        table.alter.add_constraint({"c": "id > 1"})
    with pytest.raises(InvalidArgumentError, match="no condition"):
        table.alter.add_constraint({"c": "id + 1"})
    assert DeltaTable(table.location).version() == 0


def test_defaults_must_be_constants_of_the_columns_type(table: DeltaTable) -> None:
    # P107
    for expression in ("id + 1", "date'2026-01-01'", "no such thing"):
        with pytest.raises((InvalidArgumentError, UnsupportedExpressionError)):
            table.alter.set_default("id", expression)
    with pytest.raises(InvalidArgumentError, match="whole columns"):
        table.alter.set_default("s.x", "1")
    assert DeltaTable(table.location).version() == 0


def test_clustering_columns_change(table: DeltaTable) -> None:
    # P152, P098
    # A table that was never clustered stays as it is, and readable by the same writers.
    assert not table.alter.cluster_by([]).changed
    assert table.alter.cluster_by(["id", "s.x"]).added_features == ["clustering", "domainMetadata"]
    said = last(table)
    assert said["operation"] == "CLUSTER BY"
    assert said["operationParameters"] == {"oldClusteringColumns": "", "newClusteringColumns": "id,s.x"}
    assert not table.alter.cluster_by(["id", "s.x"]).changed
    write_deltalake(table, ROWS, mode="append")
    for call, says in (
        (lambda: table.alter.cluster_by("l"), "l"),
        (lambda: table.alter.cluster_by("nope"), "nope"),
        (lambda: table.alter.set_table_properties({"delta.dataSkippingStatsColumns": "id"}), "statistics"),
        (lambda: table.alter.drop_feature("domainMetadata"), "clustering"),
        (lambda: table.alter.drop_feature("clustering"), "cluster_by"),
    ):
        with pytest.raises(InvalidArgumentError, match=says):
            call()
    table.alter.cluster_by([])
    assert table.alter.drop_feature("clustering").removed_features == ["clustering"]
    assert str(table.alter.drop_feature("domainMetadata").after) == "(1, 2)"


def test_commits_carry_their_time_from_the_change_on(table: DeltaTable) -> None:
    # P084, P098
    table.alter.set_table_properties({"delta.enableInCommitTimestamps": "true"})
    configuration = table.metadata().configuration
    info = actions(table, 1)[0]["commitInfo"]
    assert configuration["delta.inCommitTimestampEnablementVersion"] == "1"
    assert configuration["delta.inCommitTimestampEnablementTimestamp"] == str(info["inCommitTimestamp"])
    assert table.alter.drop_feature("inCommitTimestamp").removed_features == ["inCommitTimestamp"]
    assert table.metadata().configuration == {}
    write_deltalake(table, ROWS, mode="append")
    assert "inCommitTimestamp" not in actions(table, 3)[0]["commitInfo"]


def test_change_feed_columns_clash(tmp_path: Path) -> None:
    # P133
    write_deltalake(tmp_path / "t", pa.table({"_change_type": ["x"]}))
    with pytest.raises(InvalidArgumentError, match="_change_type"):
        DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.enableChangeDataFeed": "true"})
    fed = {"delta.enableChangeDataFeed": "true"}
    with pytest.raises(InvalidArgumentError, match="_commit_version"):
        write_deltalake(tmp_path / "new", pa.table({"_commit_version": [1]}), configuration=fed)
    assert not DeltaTable.is_deltatable(tmp_path / "new")
    write_deltalake(tmp_path / "fed", pa.table({"id": [1]}), configuration=fed)
    rows = pa.table({"id": [1], "_CHANGE_TYPE": ["insert"]})
    for how in ({"mode": "append", "schema_mode": "merge"}, {"mode": "overwrite", "schema_mode": "overwrite"}):
        with pytest.raises(InvalidArgumentError, match="`_CHANGE_TYPE` can't be written"):
            write_deltalake(tmp_path / "fed", rows, **how)
    merge = DeltaTable(tmp_path / "fed").merge(rows, "t.id = s.id", "s", "t", merge_schema=True)
    with pytest.raises(InvalidArgumentError, match="`_CHANGE_TYPE` can't be written"):
        merge.when_not_matched_insert_all().when_matched_update_all().execute()
    assert DeltaTable(tmp_path / "fed").version() == 0


# --- the commit --------------------------------------------------------------------------------------------------------


def test_commit_properties_are_carried(table: DeltaTable) -> None:
    table.alter.set_table_properties(
        {"a": "b"}, commit_properties=CommitProperties({"ticket": 7, "userMetadata": "why"})
    )
    assert (last(table)["ticket"], last(table)["userMetadata"]) == (7, "why")
    with pytest.raises(UnsupportedFeatureError, match="application"):
        table.alter.set_table_name("n", commit_properties=CommitProperties(app_transactions=[Transaction("a", 1)]))


def test_an_open_table_may_be_behind(table: DeltaTable) -> None:
    behind = DeltaTable(table.location)
    table.alter.set_table_properties({"a": "1"})
    behind.alter.set_table_properties({"b": "2"})
    assert behind.version() == 2
    assert behind.metadata().configuration == {"a": "1", "b": "2"}


def test_constraints_are_added_kept_and_dropped(table: DeltaTable) -> None:
    # P103
    plan = table.alter.add_constraint({"Positive": "id > 0"})
    assert (plan.added_features, str(plan.after)) == (["checkConstraints"], "(1, 3)")
    assert table.metadata().configuration == {"delta.constraints.positive": "id > 0"}
    assert last(table)["operationParameters"] == {"name": "Positive", "expr": "id > 0"}
    with pytest.raises(ConstraintViolationError, match="positive"):
        write_deltalake(table, pa.table({"id": [0]}), mode="append")
    with pytest.raises(InvalidArgumentError, match="already"):
        table.alter.add_constraint({"POSITIVE": "id > -1"})
    # P098
    with pytest.raises(InvalidArgumentError, match="drop_constraint"):
        table.alter.drop_feature("checkConstraints")
    table.alter.drop_constraint("positive")
    assert last(table)["operation"] == "DROP CONSTRAINT"
    assert str(table.alter.drop_feature("checkConstraints").after) == "(1, 2)"
    write_deltalake(table, pa.table({"id": [0]}), mode="append")


def test_columns_that_a_constraint_uses_keep_their_type(table: DeltaTable) -> None:
    # P104
    table.alter.set_table_properties({"delta.enableTypeWidening": "true"})
    table.alter.add_constraint({"c": "s.x > 0"})
    with pytest.raises(InvalidArgumentError, match="DELTA_CONSTRAINT_DEPENDENT_COLUMN_CHANGE"):
        table.alter.change_column_type("s.x", "long")


def test_rows_added_meanwhile_are_a_conflict(table: DeltaTable, monkeypatch: pytest.MonkeyPatch) -> None:
    # P103: those rows were never checked
    real = TableAlterer._judged

    def overtaken(alterer: TableAlterer, name: str, expression: str) -> int:
        seen = real(alterer, name, expression)
        write_deltalake(table.location, pa.table({"id": [-1]}), mode="append")
        return seen

    monkeypatch.setattr(TableAlterer, "_judged", overtaken)
    with pytest.raises(ConcurrentAppendException):
        table.alter.add_constraint({"c": "id > 0"})


def test_defaults_bring_their_feature(table: DeltaTable) -> None:
    # P107
    assert table.alter.set_default("id", "7 + 1").added_features == ["allowColumnDefaults"]
    write_deltalake(table, pa.table({"s": pa.array([None], ROWS.schema.field("s").type)}), mode="append")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 2, 8]
    table.alter.drop_default("id")
    assert all("CURRENT_DEFAULT" not in f.metadata for f in table.schema().fields)
