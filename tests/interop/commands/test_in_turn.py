"""Every table feature, and every change of a table: deltaplane creates, appends and changes,
delta-spark merges, deltalake appends if it can, deltaplane appends, updates and deletes, and all
read the same rows.

Few tables with many features each, since a commit of delta-spark is slow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import deltalake
import pyarrow as pa

from deltaplane import DeltaTable, Field, Schema, _native, write_deltalake
from deltaplane.schema import ArrayType, StructType
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

COLUMNS = (
    Field("id", "long"),
    Field("n", "integer"),
    Field("name", "string"),
    Field("s", StructType([Field("x", "short"), Field("y", "string")])),
)
# One commit that changes row 1, deletes 2, keeps 3 and inserts 100.
MERGE = (
    "MERGE INTO {t} t USING (SELECT explode(array(1L, 2L, 100L)) AS k) s ON t.{id} = s.k "
    "WHEN MATCHED AND s.k = 1 THEN UPDATE SET {set} WHEN MATCHED THEN DELETE "
    "WHEN NOT MATCHED THEN INSERT ({id}, {columns}) VALUES (s.k, {values})"
)
VARIANT = {"metadata": b"\x01\x00\x00", "value": b"\x0c\x07"}
IDENTITY = {"delta.identity.start": 1, "delta.identity.step": 1, "delta.identity.allowExplicitInsert": False}


def merge(set: str = "name = 'changed'", columns: str = "name", values: str = "'theirs'", id: str = "id") -> str:
    return MERGE.replace("{set}", set).replace("{columns}", columns).replace("{values}", values).replace("{id}", id)


def on(*keys: str) -> dict[str, str]:
    return {f"delta.{key}": "true" for key in keys}


MAPPED = {"delta.columnMapping.mode": "name"}


@dataclass(frozen=True)
class Turn:
    """One table: its creation by deltaplane, delta-spark's changes, and the continuation."""

    # The table's features by then.
    has: tuple[str, ...]
    configuration: Mapping[str, str] = field(default_factory=dict)
    more: tuple[Field, ...] = ()
    # The first rows' values of those columns.
    values: Mapping[str, pa.Array] = field(default_factory=dict)
    create: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[DeltaTable], object] = lambda table: None
    theirs: tuple[str, ...] = (merge(),)
    # The columns appended at the end.
    last: Mapping[str, pa.Array] = field(default_factory=lambda: {"id": pa.array([200])})
    deltalake: bool = False
    # A column that can't be transferred as Arrow.
    hidden: str = ""


def renamed_and_more(table: DeltaTable) -> None:
    """All changes of columns that a mapped table supports."""
    alter = table.alter
    alter.rename_column("id", "key no")
    alter.rename_column("s.x", "z")
    alter.drop_columns(["n", "s.y"])
    alter.add_columns(Field("n", "string"))
    alter.reorder("name", first=True)
    alter.drop_column_not_null("must")
    alter.change_column_type("s.z", "long")
    alter.change_column_type("list.element", "integer")
    alter.set_comment("s.z", 'it\'s "z"')
    alter.set_column_metadata("n", {"unit": "EUR"})
    alter.set_default("n", "'it''s'")
    alter.add_constraint({"Positive": "`key no` > 0"})
    alter.cluster_by(["key no"])
    alter.add_feature(["vacuumProtocolCheck", "checkpointProtection"], allow_protocol_versions_increase=True)


def changed_for_all(table: DeltaTable) -> None:
    """Changes of a table that keep its protocol simple."""
    alter = table.alter
    alter.add_columns(Field("late", "date"), after="id")
    alter.reorder("s.y", first=True)
    alter.drop_column_not_null("must")
    alter.set_comment("id", "the key")
    alter.set_table_name("orders")
    alter.set_table_description("all of them")
    alter.add_constraint({"positive": "id > 0"})
    alter.add_constraint({"gone": "n IS NOT NULL"})
    alter.drop_constraint("gone")
    alter.set_table_properties({**on("enableChangeDataFeed"), "owner": "us"})


def dropped_features(table: DeltaTable) -> None:
    """Features that are added and dropped again, so that only the history contains them."""
    several = ["changeDataFeed", "checkConstraints", "inCommitTimestamp", "clustering", "vacuumProtocolCheck"]
    table.alter.add_feature(several, allow_protocol_versions_increase=True)
    table.alter.set_table_properties(on("enableInCommitTimestamps", "enableChangeDataFeed", "appendOnly"))
    table.alter.cluster_by("id")
    table.alter.cluster_by([])
    write_deltalake(table.location, rows(4), mode="append")
    for feature in (*several, "domainMetadata", "appendOnly"):
        DeltaTable(table.location).alter.drop_feature(feature)


def dropped_with_traces(table: DeltaTable) -> None:
    """Features that leave traces in files and old versions, all dropped again."""
    alter = table.alter
    alter.set_table_properties({**on("enableDeletionVectors", "enableTypeWidening"), **MAPPED})
    alter.set_table_properties({"delta.checkpointPolicy": "v2"})
    write_deltalake(table.location, rows(4), mode="append")
    DeltaTable(table.location).delete("id = 3")
    alter.change_column_type("n", "long")
    alter.rename_column("s.y", "why")
    alter.drop_columns("s.x")
    DeltaTable(table.location).create_checkpoint()
    for feature in ("v2Checkpoint", "deletionVectors", "typeWidening", "columnMapping"):
        DeltaTable(table.location).alter.drop_feature(feature)
    assert DeltaTable(table.location).protocol()[:2] == (1, 7)


def with_vector(table: DeltaTable) -> None:
    assert table.delete("id = 3")["num_copied_rows"] == 0


TURNS: dict[str, Turn] = {
    "renamed and more": Turn(
        ("columnMapping", "typeWidening", "allowColumnDefaults", "checkConstraints", "clustering"),
        {**MAPPED, **on("enableTypeWidening")},
        more=(Field("must", "long", nullable=False), Field("list", ArrayType("byte"))),
        values={"must": pa.array([1, 2, 3]), "list": pa.array([[1], [], None], pa.list_(pa.int8()))},
        change=renamed_and_more,
        theirs=(
            merge("name = 'changed', s.z = 5000000000", "n, s", "'x', named_struct('z', 70000L)", "`key no`"),
            "ALTER TABLE {t} RENAME COLUMN s.z TO zz",
        ),
        last={"key no": pa.array([200]), "list": pa.array([[70000]], pa.list_(pa.int32()))},
    ),
    "renamed by id": Turn(
        ("columnMapping", "changeDataFeed"),
        {"delta.columnMapping.mode": "id", **on("enableChangeDataFeed")},
        create={"partition_by": ["n"]},
        change=lambda table: (table.alter.rename_column("n", "part of"), table.alter.drop_columns("s.x")),
        theirs=(merge(columns="name, `part of`", values="'theirs', 20"),),
        last={"id": pa.array([200]), "part of": pa.array([20], pa.int32())},
    ),
    "plain": Turn(
        ("invariants", "checkConstraints", "changeDataFeed"),
        more=(Field("must", "long", nullable=False),),
        values={"must": pa.array([1, 2, 3])},
        change=changed_for_all,
        deltalake=True,
    ),
    "features with traces come and go": Turn(("checkpointProtection",), change=dropped_with_traces),
    "features come and go": Turn((), change=dropped_features, deltalake=True),
    "append-only": Turn(
        ("appendOnly", "invariants", "checkConstraints"),
        {**on("appendOnly"), "delta.constraints.c": "n IS NULL OR n < 1000"},
        more=(Field("must", "long", nullable=False),),
        values={"must": pa.array([1, 2, 3])},
        theirs=("INSERT INTO {t} (id, must) VALUES (100, 1)",),
        last={"id": pa.array([200]), "must": pa.array([5])},
        deltalake=True,
    ),
    "writers' features": Turn(
        (
            *("generatedColumns", "allowColumnDefaults", "identityColumns", "checkConstraints", "changeDataFeed"),
            *("inCommitTimestamp", "rowTracking", "clustering", "domainMetadata", "checkpointProtection"),
        ),
        {
            **on("enableRowTracking", "enableChangeDataFeed"),
            "delta.constraints.c": "n IS NULL OR n < 1000",
            "delta.feature.checkpointProtection": "supported",
        },
        more=(
            Field("twice", "long", metadata={"delta.generationExpression": "id * 2L"}),
            Field("d", "long", metadata={"CURRENT_DEFAULT": "5"}),
            Field("number", "long", metadata=IDENTITY),
        ),
        create={"cluster_by": ["id"]},
        change=lambda table: (
            table.set_domain_metadata("app", "{}"),
            table.alter.set_table_properties(on("enableInCommitTimestamps")),
        ),
    ),
    "readers' features": Turn(
        (
            *("columnMapping", "deletionVectors", "timestampNtz", "typeWidening", "variantType"),
            *("v2Checkpoint", "vacuumProtocolCheck"),
        ),
        {
            **on("enableDeletionVectors", "enableTypeWidening"),
            "delta.checkpointPolicy": "v2",
            "delta.checkpointInterval": "2",
            "delta.feature.vacuumProtocolCheck": "supported",
        },
        more=(Field("v", "variant"),),
        change=lambda table: (
            table.alter.set_table_properties(MAPPED),
            table.alter.add_columns(Field("at", "timestamp_ntz")),
            table.alter.change_column_type("n", "decimal(12,1)"),
            with_vector(table),
        ),
        theirs=(merge(columns="at, n, v", values="timestamp_ntz'2024-02-29 12:00:00', 0.5, parse_json('[1]')"),),
        last={
            "id": pa.array([200]),
            "v": pa.array([VARIANT], pa.struct([("metadata", pa.binary()), ("value", pa.binary())])),
        },
        hidden="v",
    ),
    "deltalake's features": Turn(
        ("deletionVectors", "timestampNtz", "v2Checkpoint", "changeDataFeed"),
        {
            **on("enableDeletionVectors", "enableChangeDataFeed"),
            "delta.checkpointPolicy": "v2",
            "delta.checkpointInterval": "3",
        },
        more=(Field("at", "timestamp_ntz"),),
        change=with_vector,
        theirs=(merge(columns="at", values="timestamp_ntz'0001-01-01 00:00:00'"),),
        deltalake=True,
    ),
    "Iceberg 1": Turn(("icebergCompatV1",), {**MAPPED, **on("enableIcebergCompatV1")}),
    "Iceberg 2": Turn(("icebergCompatV2",), {**MAPPED, **on("enableIcebergCompatV2")}, create={"partition_by": ["n"]}),
    "Iceberg 3": Turn(
        ("icebergCompatV3", "rowTracking"),
        {**MAPPED, **on("enableIcebergCompatV3", "enableRowTracking")},
        create={"partition_by": ["n"]},
    ),
    "Iceberg on a table that exists": Turn(
        ("icebergCompatV2",),
        change=lambda table: table.alter.set_table_properties({**MAPPED, **on("enableIcebergCompatV2")}),
    ),
    "Iceberg 3 on a table that exists": Turn(
        ("icebergCompatV3", "rowTracking", "deletionVectors"),
        on("enableDeletionVectors"),
        change=lambda table: (
            with_vector(table),
            table.alter.set_table_properties({**MAPPED, **on("enableIcebergCompatV3", "enableRowTracking")}),
        ),
    ),
    "variants in columns": Turn(
        ("variantShredding", "variantType"),
        on("enableVariantShredding", "enableDeletionVectors"),
        more=(Field("v", "variant"),),
        values={"v": pa.array([VARIANT] * 3, pa.struct([("metadata", pa.binary()), ("value", pa.binary())]))},
        change=with_vector,
        theirs=(merge(columns="n, v", values="20, parse_json('[1]')"),),
        hidden="v",
    ),
    "partitions in files": Turn(
        ("materializePartitionColumns",),
        on("enableMaterializePartitionColumnsFeature"),
        create={"partition_by": ["n"]},
    ),
    "preview of widening": Turn(
        ("typeWidening-preview",),
        {"delta.feature.typeWidening-preview": "supported", **on("enableTypeWidening")},
        change=lambda table: table.alter.change_column_type("n", "long"),
    ),
}

# Features that other tests cover, or that only foreign tables have.
ELSEWHERE = {
    "catalogManaged": "tests/catalog/test_foreign_clients.py: DuckDB writes such tables, delta-spark none",
    "variantShredding-preview": "tests/corpus: delta-spark makes no new ones",
    "variantType-preview": "tests/corpus: delta-spark makes no new ones",
}


def rows(*ids: int) -> pa.Table:
    inner = pa.struct([("x", pa.int16()), ("y", pa.string())])
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "n": pa.array([10 * i for i in ids], pa.int32()),
            "name": pa.array([f"n{i}" for i in ids]),
            "s": pa.array([{"x": i, "y": None} for i in ids], inner),
        }
    )


def make(path: str, turn: Turn) -> None:
    schema = Schema([*COLUMNS, *turn.more])
    DeltaTable.create(path, schema, configuration=dict(turn.configuration), **turn.create)
    first = rows(1, 2, 3)
    for name, values in turn.values.items():
        first = first.append_column(name, values)
    write_deltalake(path, first, mode="append")
    turn.change(DeltaTable(path))
    missing = set(turn.has) - DeltaTable(path).compatibility().protocol.features
    assert not missing, f"{path} has no {missing}"


def shown(table: pa.Table, turn: Turn) -> pa.Table:
    return table.drop_columns([turn.hidden]) if turn.hidden else table


def theirs(delta_spark: DeltaSpark, path: str, columns: list[str]) -> pa.Table:
    return delta_spark.sql(f"SELECT {', '.join(f'`{c}`' for c in columns)} FROM delta.`{path}`")


def of_deltalake(path: str) -> pa.Table:
    opened = deltalake.DeltaTable(path)
    return pa.table(deltalake.QueryBuilder().register("t", opened).execute("select * from t").read_all())


def test_every_feature_has_its_turn() -> None:
    written = {f.name for f in _native.known_features() if f.writes}
    assert written <= {name for turn in TURNS.values() for name in turn.has} | ELSEWHERE.keys()


def test_all_write_in_turn(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    paths = {name: tmp_table() for name in TURNS}
    for name, turn in TURNS.items():
        make(paths[name], turn)
    # One after the other: in parallel, Spark's analysis of another table's statement failed at
    # times, for both engines.
    for name, turn in TURNS.items():
        for statement in turn.theirs:
            delta_spark.execute(statement.format(t=f"delta.`{paths[name]}`"))
    for name, turn in TURNS.items():
        path = paths[name]
        write_deltalake(path, pa.table(dict(turn.last)), mode="append")
        if turn.deltalake:
            also = pa.table({**turn.last, "name": ["deltalake's"]})
            deltalake.write_deltalake(path, also, mode="append", schema_mode="merge")
            write_deltalake(path, pa.table(dict(turn.last)), mode="append")
        key, changes = next(iter(turn.last)), "appendOnly" not in turn.has
        if changes:
            DeltaTable(path).update({"name": "'ours'"}, predicate=f"`{key}` = 1")
            DeltaTable(path).delete(f"`{key}` = 100")
        ours = shown(DeltaTable(path).to_pyarrow_table(), turn)
        ids = set(ours[key].to_pylist())
        assert {1, 200} <= ids, name
        assert ids & {2, 100} == (set() if changes else {2, 100}), name
        assert_same(theirs(delta_spark, path, ours.column_names), ours)
        if turn.deltalake:
            assert_same(of_deltalake(path), ours)
        verify(path)
