"""CONVERT adds the existing files with the partition values of their directories, and never changes
the files."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, convert_to_deltalake, exceptions
from deltaplane.schema import Field, PrimitiveType, Schema
from deltaplane.statements import sql
from deltaplane.write.convert import CatalogTable, Conversion, FilesHere


def contents(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in root.rglob("*.parquet")}


def hive(root: Path) -> pa.Table:
    rows = pa.table(
        {
            "x": [1, 2, 3, 4],
            "day": [dt.date(2024, 1, 1), dt.date(2024, 1, 1), dt.date(2024, 1, 2), None],
            "p": ["a b", "ü/%", "ü/%", "a b"],
        }
    )
    pq.write_to_dataset(rows, root, partition_cols=["day", "p"])
    return rows


PARTITIONS = pa.schema({"day": pa.date32(), "p": pa.string()})


def test_plain_files(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "y": ["a", None]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"x": [3], "z": [True]}), tmp_path / "two.parquet")
    (tmp_path / "_SUCCESS").touch()
    before = contents(tmp_path)
    convert_to_deltalake(tmp_path, name="n", description="d", configuration={"k": "v"})
    table = DeltaTable(tmp_path)
    assert sorted(table.to_pyarrow_table().to_pylist(), key=lambda row: row["x"]) == [
        {"x": 1, "y": "a", "z": None},
        {"x": 2, "y": None, "z": None},
        {"x": 3, "y": None, "z": True},
    ]
    metadata = table.metadata()
    assert (metadata.name, metadata.description, metadata.configuration) == ("n", "d", {"k": "v"})
    assert table.get_add_actions(flatten=True).select(["path", "num_records", "min.x", "max.x"]).sort_by(
        "path"
    ).to_pylist() == [
        {"path": "one.parquet", "num_records": 2, "min.x": 1, "max.x": 2},
        {"path": "two.parquet", "num_records": 1, "min.x": 3, "max.x": 3},
    ]
    (entry,) = table.history()
    assert (entry["operation"], entry["operationParameters"]["numFiles"]) == ("CONVERT", 2)
    assert (table.check(deep=True), contents(tmp_path)) == ([], before)


def test_hive_partitions_with_odd_values(tmp_path: Path) -> None:
    # P171
    rows = hive(tmp_path)
    convert_to_deltalake(tmp_path, partition_by=PARTITIONS, partition_strategy="hive")
    table = DeltaTable(tmp_path)
    rows_read = table.to_pyarrow_table().select(rows.column_names).sort_by("x")
    assert rows_read.to_pylist() == rows.to_pylist()
    assert table.to_pyarrow_table(filters="day = '2024-01-02' AND p = 'ü/%'")["x"].to_pylist() == [3]
    assert (table.metadata().partition_columns, table.check(deep=True)) == (["day", "p"], [])


def test_directories_without_names_and_our_own_schema(tmp_path: Path) -> None:
    for year in ("2023", "2024"):
        (tmp_path / year).mkdir()
        pq.write_table(pa.table({"x": [int(year) - 2000]}), tmp_path / year / "a.parquet")
    by = Schema([Field("year", PrimitiveType("integer"))])
    convert_to_deltalake(tmp_path, partition_by=by, partition_strategy="directory", collect_stats=False)
    table = DeltaTable(tmp_path)
    assert table.to_pyarrow_table(filters="year = 2024").to_pylist() == [{"x": 24, "year": 2024}]
    assert table.get_add_actions()["num_records"].null_count == 2


def test_old_moments_are_moments(tmp_path: Path) -> None:
    moments = [dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc)]
    rows = pa.table({"m": pa.array(moments, pa.timestamp("us", "UTC"))})
    pq.write_table(rows, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    convert_to_deltalake(tmp_path)
    table = DeltaTable(tmp_path)
    assert str(table.schema().fields[0].type) == str(PrimitiveType("timestamp"))
    assert table.to_pyarrow_table()["m"].to_pylist() == moments


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ({}, exceptions.InvalidArgumentError, "2 directories deep"),
        ({"partition_by": PARTITIONS}, exceptions.InvalidArgumentError, "give both"),
        (
            {"partition_by": pa.schema({"p": pa.string(), "day": pa.date32()}), "partition_strategy": "hive"},
            exceptions.InvalidArgumentError,
            "tells no value of the column p",
        ),
        (
            {"partition_by": pa.schema({"day": pa.int32(), "p": pa.string()}), "partition_strategy": "hive"},
            exceptions.InvalidArgumentError,
            "`2024-01-01` in a directory's name is no value of the column day integer",
        ),
        (
            {"configuration": {"delta.columnMapping.mode": "name"}},
            exceptions.InvalidArgumentError,
            "then set it by an ALTER",
        ),
        ({"mode": "append"}, exceptions.InvalidArgumentError, "error or ignore"),
        ({"partition_by": ["day"], "partition_strategy": "hive"}, exceptions.InvalidArgumentError, "give their types"),
    ],
)
def test_wrong_calls_change_nothing(
    tmp_path: Path, arguments: dict[str, Any], error: type[Exception], said: str
) -> None:
    hive(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(error, match=said):
        convert_to_deltalake(tmp_path, **arguments)
    assert contents(tmp_path) == before
    assert not (tmp_path / "_delta_log").exists()


@pytest.mark.parametrize(
    ("other", "error", "said"),
    [
        (pa.table({"x": ["text"]}), exceptions.SchemaMismatchError, "x"),
        (pa.table({"x": pa.array([1], pa.int32())}), exceptions.SchemaMismatchError, "x"),
        (pa.table({"a b": [1]}), exceptions.InvalidArgumentError, "a b"),
        (b"no Parquet", exceptions.CorruptFileError, "b.parquet"),
    ],
)
def test_files_that_make_no_table(tmp_path: Path, other: Any, error: type[Exception], said: str) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    if isinstance(other, bytes):
        (tmp_path / "b.parquet").write_bytes(other)
    else:
        pq.write_table(other, tmp_path / "b.parquet")
    before = contents(tmp_path)
    with pytest.raises(error, match=said):
        convert_to_deltalake(tmp_path)
    assert (contents(tmp_path), (tmp_path / "_delta_log").exists()) == (before, False)


def test_a_table_is_no_directory_of_files(tmp_path: Path) -> None:
    with pytest.raises(exceptions.InvalidArgumentError, match="nothing to convert"):
        convert_to_deltalake(tmp_path)
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    convert_to_deltalake(tmp_path)
    convert_to_deltalake(tmp_path, mode="ignore")
    with pytest.raises(exceptions.TableAlreadyExistsError):
        convert_to_deltalake(tmp_path)
    assert DeltaTable(tmp_path).version() == 0


def test_the_statement(tmp_path: Path) -> None:
    hive(tmp_path)
    done = sql(f"CONVERT TO DELTA parquet.`{tmp_path}` PARTITIONED BY (day DATE, p STRING)").to_pylist()
    assert done == [{"operation": "CONVERT", "version": 0}]
    assert DeltaTable(tmp_path).count() == 4


def test_a_dry_run_finds_what_the_table_would_be(tmp_path: Path) -> None:
    hive(tmp_path / "t")
    reports: list[Any] = []
    how: dict[str, Any] = {"partition_by": PARTITIONS, "partition_strategy": "hive", "progress": reports.append}
    would = convert_to_deltalake(tmp_path / "t", dry_run=True, **how)
    assert would is not None
    assert (would.files, would.partition_columns) == (4, ("day", "p"))
    assert [field.name for field in would.schema.fields] == ["x", "day", "p"]
    with pytest.raises(exceptions.InvalidArgumentError, match="directories deep"):
        convert_to_deltalake(tmp_path / "t", dry_run=True)
    text = f"CONVERT TO DELTA parquet.`{tmp_path}/t` PARTITIONED BY (day DATE, p STRING) DRY RUN"
    assert sql(text).to_pylist() == [{"operation": "CONVERT", "files": 4, "columns": "x, day, p"}]
    assert not DeltaTable.is_deltatable(tmp_path / "t")
    assert reports == []
    assert convert_to_deltalake(tmp_path / "t", **how) is None
    assert [(p.files_done, p.files) for p in reports] == [(4, 4)]


def test_who_stops_it_leaves_no_table(tmp_path: Path) -> None:
    hive(tmp_path)
    before = contents(tmp_path)

    def stop(progress: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        convert_to_deltalake(tmp_path, partition_by=PARTITIONS, partition_strategy="hive", progress=stop)
    assert (DeltaTable.is_deltatable(tmp_path), contents(tmp_path)) == (False, before)


# --- what a catalog says ----------------------------------------------------------------------------------------------


def by_catalog(table: CatalogTable, root: Path) -> list[dict[str, Any]]:
    conversion = Conversion(str(root), None, catalog_table=table)
    conversion.run(FilesHere(conversion), configuration={"x": "y"})
    return sorted(DeltaTable(root).to_pyarrow_table().to_pylist(), key=repr)


def fields(**types: str) -> list[dict[str, Any]]:
    return [{"name": name, "type": kind, "nullable": True, "metadata": {}} for name, kind in types.items()]


def put(root: Path, directory: str, x: int) -> None:
    (root / directory).mkdir(parents=True)
    pq.write_table(pa.table({"x": [x]}), root / directory / "f.parquet")


def test_a_catalogs_directories_are_the_partitions(tmp_path: Path) -> None:
    partitions: dict[str, dict[str, str | None]] = {
        "p=1": {"p": "1"},
        "p=y%20z": {"p": "y z"},
        "elsewhere": {"p": None},
    }
    for x, directory in enumerate([*partitions, "p=forgotten"]):
        put(tmp_path, directory, x)
    columns = fields(x="long", p="string")
    with pytest.raises(exceptions.InvalidArgumentError, match=r"knows no partition of a\.t"):
        by_catalog(CatalogTable("`a`.`t`", columns, ["p"], {}), tmp_path)
    rows = by_catalog(CatalogTable("`a`.`t`", columns, ["p"], partitions), tmp_path)
    assert rows == [{"x": 0, "p": "1"}, {"x": 1, "p": "y z"}, {"x": 2, "p": None}]
    table = DeltaTable(tmp_path)
    assert table.history(1)[0]["operationParameters"]["catalogTable"] == "`a`.`t`"
    assert table.metadata().configuration == {"x": "y"}


def test_without_a_list_of_partitions_the_directories_names_tell_them(tmp_path: Path) -> None:
    for p in (1, 2):
        put(tmp_path, f"p={p}", p)
    table = CatalogTable("t", fields(x="long", p="integer"), ["p"])
    assert by_catalog(table, tmp_path) == [{"x": 1, "p": 1}, {"x": 2, "p": 2}]


def test_a_catalogs_columns_are_the_tables(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1], "unknown": [True]}), tmp_path / "f.parquet")
    with pytest.raises(exceptions.SchemaMismatchError, match='column `x` of t is "integer" in the catalog'):
        by_catalog(CatalogTable("t", fields(x="integer")), tmp_path)
    with pytest.raises(exceptions.SchemaMismatchError, match="calls a column of t `X` and the files `x`"):
        by_catalog(CatalogTable("t", fields(X="long")), tmp_path)
    assert by_catalog(CatalogTable("t", fields(x="long", more="string")), tmp_path) == [{"x": 1, "more": None}]


def test_a_catalogs_table_without_files_is_a_table_without_rows(tmp_path: Path) -> None:
    assert by_catalog(CatalogTable("t", fields(x="long")), tmp_path) == []
    (tmp_path / "u").mkdir()
    put(tmp_path / "u", "deep", 1)
    with pytest.raises(exceptions.InvalidArgumentError, match="1 directories deep"):
        by_catalog(CatalogTable("t", fields(x="long")), tmp_path / "u")
