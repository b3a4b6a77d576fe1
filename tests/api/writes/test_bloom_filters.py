"""Bloom filters of data files: every writer makes those that the table's property or the call asks
for, a scan skips row groups by them, and other readers understand them."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import deltaplane
from bloom_filters import COLUMNS, damage, filtered, live_files
from deltaplane import DeltaTable, GroupWriter, OnceWriter, convert_to_deltalake, copy_into, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedFeatureError
from deltaplane.properties import BloomFilterProperties, ColumnProperties, WriterProperties

FPP, NDV = "deltaplane.parquet.bloomFilterFpp", "deltaplane.parquet.bloomFilterNdv"
ASKED = {"id", "s.k"}


def rows(first: int = 0, count: int = 60) -> pa.Table:
    """Even ids in no order, so that the bounds of row groups tell nothing."""
    ids = [(first + n * 37 % count) * 2 for n in range(count)]
    nested = pa.StructArray.from_arrays([pa.array(ids), pa.array([str(i) for i in ids])], ["k", "t"])
    return pa.table({"id": ids, "p": [i // 2 % 3 for i in ids], "text": [f"t{i}" for i in ids], "s": nested})


def made(path: Path, properties: dict[str, str] | None = None, **more: Any) -> str:
    write_deltalake(path, rows(), configuration={COLUMNS: "id, s.k", **(properties or {})}, **more)
    return str(path)


def chosen(*columns: str, **settings: Any) -> WriterProperties:
    filters = ColumnProperties(bloom_filter_properties=BloomFilterProperties(True, **settings))
    return WriterProperties(column_properties=dict.fromkeys(columns, filters))


def source(first: int = 20) -> pa.Table:
    return rows(first)


def merged(path: str) -> None:
    merge = DeltaTable(path).merge(source(), "t.id = s.id", "s", "t")
    merge.when_matched_update(updates={"text": "'changed'"}).when_not_matched_insert_all().execute()


def copied_in(path: str) -> None:
    folder = Path(path).parent / "source"
    folder.mkdir()
    pq.write_table(rows(500), folder / "a.parquet")
    copy_into(path, folder, "parquet")


def compacted(path: str) -> None:
    write_deltalake(path, rows(700), mode="append")
    DeltaTable(path).optimize.compact()


def ordered(path: str) -> None:
    DeltaTable(path).optimize.z_order(["text"])


def grouped(path: str) -> None:
    with GroupWriter(path) as writer:
        writer.append(rows(900))


def numbered(path: str) -> None:
    OnceWriter(path).append(rows(900), "feed", 1)


def appended(path: str) -> None:
    write_deltalake(path, rows(1000), mode="append")


def in_batches(path: str) -> None:
    batches = rows(1000, 900).to_batches(100)
    write_deltalake(path, pa.RecordBatchReader.from_batches(batches[0].schema, iter(batches)), mode="append")


def purged(path: str) -> None:
    DeltaTable(path).alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    DeltaTable(path).delete("id < 20")
    DeltaTable(path).purge()


def replaced(path: str) -> None:
    write_deltalake(path, rows(0, 10), mode="overwrite", predicate="id < 20")


def replaced_by_key(path: str) -> None:
    write_deltalake(path, rows(10), mode="overwrite", replace_using=["id"])


def said(statement: str) -> Callable[[str], None]:
    def run(path: str) -> None:
        deltaplane.sql(statement.format(t=f"delta.`{path}`"))

    return run


INSERTED = "INSERT INTO {t} VALUES (4000, 1, 'new', named_struct('k', 1, 't', 'x'))"
# Each writer of new data files. A writer that isn't listed has no test that its files have filters.
WRITERS: dict[str, Callable[[str], None]] = {
    "append": appended,
    "append in batches": in_batches,
    "overwrite": lambda path: write_deltalake(path, rows(7), mode="overwrite"),
    "overwrite by a predicate": replaced,
    "overwrite by keys": replaced_by_key,
    "update": lambda path: DeltaTable(path).update({"text": "'x'"}, predicate="id = 20") and None,
    "update of all rows": lambda path: DeltaTable(path).update({"text": "'x'"}) and None,
    "delete": lambda path: DeltaTable(path).delete("id = 20") and None,
    "merge": merged,
    "insert": said(INSERTED),
    "insert of a query": said("INSERT INTO {t} SELECT id + 5000, p, text, s FROM {t}"),
    "compaction": compacted,
    "z-order": ordered,
    "purge": purged,
    "group writer": grouped,
    "once writer": numbered,
    "copy into": copied_in,
}
TABLES: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitioned": {"partition_by": ["p"]},
    "clustered": {"cluster_by": ["text"], "properties": {"deltaplane.clusterFromBytes": "1"}},
    "mapped": {"properties": {"delta.columnMapping.mode": "name"}},
    "mapped by id": {"properties": {"delta.columnMapping.mode": "id"}},
    "with rules": {"properties": {"delta.constraints.few": "id >= 0"}},
    "with changes": {"properties": {"delta.enableChangeDataFeed": "true"}},
    "with row ids": {"properties": {"delta.enableRowTracking": "true"}},
    "with partition columns in files": {
        "partition_by": ["p"],
        "properties": {"delta.enableMaterializePartitionColumnsFeature": "true"},
    },
}


def logical(path: str, leaves: set[str]) -> set[str]:
    """The logical names of leaves, by the physical names of the table's fields."""
    names: dict[str, str] = {}
    for field in DeltaTable(path).schema().fields:
        physical = str(field.metadata.get("delta.columnMapping.physicalName", field.name))
        names[physical] = field.name
        for inner in getattr(field.type, "fields", ()):
            below = str(inner.metadata.get("delta.columnMapping.physicalName", inner.name))
            names[f"{physical}.{below}"] = f"{field.name}.{inner.name}"
    return {names[leaf] for leaf in leaves}


# A clustered table has no other order.
PAIRS = [(writer, kind) for writer in WRITERS for kind in TABLES if (writer, kind) != ("z-order", "clustered")]


@pytest.mark.parametrize(("writer", "kind"), PAIRS)
def test_every_writer_makes_filters(tmp_path: Path, writer: str, kind: str) -> None:
    path = made(tmp_path / "t", **TABLES[kind])
    before = set(live_files(path))
    WRITERS[writer](path)
    new = set(live_files(path)) - before
    assert new
    for file in before | new:
        if Path(file).exists():
            assert logical(path, filtered(file)) == ASKED, file


def test_files_of_changes_have_none(tmp_path: Path) -> None:
    path = made(tmp_path / "t", {"delta.enableChangeDataFeed": "true"})
    merged(path)
    changes = list(Path(path, "_change_data").glob("*.parquet"))
    assert changes
    assert all(filtered(str(file)) == set() for file in changes)


def test_the_call_wins_over_the_property(tmp_path: Path) -> None:
    path = made(tmp_path / "t")
    off = ColumnProperties(bloom_filter_properties=BloomFilterProperties(False))
    on = ColumnProperties(bloom_filter_properties=BloomFilterProperties(True))
    for properties, expected in [
        (chosen("text"), {"id", "s.k", "text"}),
        (WriterProperties(column_properties={"id": off}), {"s.k"}),
        (WriterProperties(default_column_properties=off), set()),
        (WriterProperties(default_column_properties=on), {"id", "p", "text", "s.k", "s.t"}),
        (WriterProperties(default_column_properties=on, column_properties={"S.T": off}), {"id", "p", "text", "s.k"}),
        (WriterProperties(compression="SNAPPY"), ASKED),
    ]:
        write_deltalake(path, rows(), mode="overwrite", writer_properties=properties)
        (file,) = live_files(path)
        assert filtered(file) == expected


@pytest.mark.parametrize("by_property", [True, False])
@pytest.mark.parametrize(
    ("column", "why"),
    [
        ("nope", "isn't a column"),
        ("s.nope", "isn't a column"),
        ("s", "struct"),
        ("flag", "boolean"),
        ("list", "array"),
        ("p", "partitioned"),
        ("a..b", "isn't the name of a column"),
    ],
)
def test_columns_that_take_no_filter_are_named(tmp_path: Path, column: str, why: str, by_property: bool) -> None:
    data = rows().append_column("flag", pa.array([True] * 60)).append_column("list", pa.array([[1]] * 60))
    write_deltalake(tmp_path, data, partition_by=["p"])

    def ask() -> None:
        if by_property:
            DeltaTable(tmp_path).alter.set_table_properties({COLUMNS: column})
        else:
            write_deltalake(tmp_path, data, mode="append", writer_properties=chosen(column))

    with pytest.raises(InvalidArgumentError, match=why) as refused:
        ask()
    assert column in str(refused.value)
    assert DeltaTable(tmp_path).version() == 0
    with pytest.raises(InvalidArgumentError, match=why):
        write_deltalake(tmp_path / "new", data, partition_by=["p"], configuration={COLUMNS: column})
    assert not DeltaTable.is_deltatable(str(tmp_path / "new"))


@pytest.mark.parametrize("setting", [{FPP: "0"}, {FPP: "1.5"}, {FPP: "few"}, {NDV: "0"}, {NDV: "1.5"}])
def test_sizes_out_of_range_are_refused(tmp_path: Path, setting: dict[str, str]) -> None:
    path = made(tmp_path / "t")
    with pytest.raises(InvalidArgumentError):
        DeltaTable(path).alter.set_table_properties(setting)
    with pytest.raises(InvalidArgumentError):
        chosen("id", fpp=2.0).to_request()
    with pytest.raises(InvalidArgumentError):
        chosen("id", ndv=0).to_request()
    hinted = ColumnProperties(dictionary_enabled=True, bloom_filter_properties=BloomFilterProperties(True))
    with pytest.raises(UnsupportedFeatureError, match="dictionary_enabled"):
        WriterProperties(column_properties={"id": hinted}).to_request()


def test_the_property_follows_its_columns(tmp_path: Path) -> None:
    path = made(tmp_path / "t", {"delta.columnMapping.mode": "name"})
    DeltaTable(path).alter.rename_column("id", "key")
    assert DeltaTable(path).metadata().configuration[COLUMNS] == "key,s.k"
    DeltaTable(path).alter.drop_columns(["s"])
    assert DeltaTable(path).metadata().configuration[COLUMNS] == "key"
    write_deltalake(path, rows(100).rename_columns(["key", "p", "text", "s"]).drop(["s"]), mode="append")
    assert all("key" in logical_names(path, file) for file in live_files(path))


def logical_names(path: str, file: str) -> set[str]:
    """The logical names of the top-level leaves with filters that the table still has."""
    fields = DeltaTable(path).schema().fields
    names = {str(f.metadata.get("delta.columnMapping.physicalName", f.name)): f.name for f in fields}
    return {names[leaf] for leaf in filtered(file) if leaf in names}


def test_filters_are_as_large_as_their_values_need(tmp_path: Path) -> None:
    def length(file: str) -> int:
        return int(pq.read_metadata(file).row_group(0).column(0).bloom_filter_length)

    path = made(tmp_path / "t")
    (small,) = live_files(path)
    assert length(small) < 200
    many = pa.table({"id": list(range(100_000))})
    lengths = {}
    for fpp in (0.5, 0.01, 0.0001):
        target = tmp_path / str(fpp)
        write_deltalake(target, many, writer_properties=chosen("id", fpp=fpp))
        lengths[fpp] = length(live_files(target)[0])
    assert lengths[0.5] < lengths[0.01] < lengths[0.0001] < 600_000
    write_deltalake(tmp_path / "few", many, writer_properties=chosen("id", ndv=1000))
    assert length(live_files(tmp_path / "few")[0]) < 2_100


def test_row_groups_without_a_value_are_skipped(tmp_path: Path) -> None:
    path = str(tmp_path)
    write_deltalake(
        path,
        rows(0, 1000),
        configuration={COLUMNS: "id,text"},
        writer_properties=WriterProperties(max_row_group_size=50),
    )
    table = DeltaTable(path)
    assert table.to_pyarrow_table(filters="id = 502").num_rows == 1
    (file,) = live_files(path)
    damage(file)
    # The table is opened again, so that nothing of the file is remembered.
    for predicate in ("id = 501", "id IN (501, 503)", "text = 't501'", "id = 501 AND p >= 0", "id = 3 OR text = 't7'"):
        assert DeltaTable(path).to_pyarrow_table(filters=predicate).num_rows == 0, predicate
    for predicate in ("id = 502", "id <> 501", "id = 501 OR p >= 0", "p = 1"):
        with pytest.raises(DeltaError):
            DeltaTable(path).to_pyarrow_table(filters=predicate)


def test_commands_skip_row_groups_without_their_keys(tmp_path: Path) -> None:
    path = made(tmp_path / "t", writer_properties=WriterProperties(max_row_group_size=20))
    (file,) = live_files(path)
    damage(file)
    table = DeltaTable(path)
    assert table.delete("id = 51")["num_deleted_rows"] == 0
    assert table.update({"text": "'x'"}, predicate="id IN (51, 53)")["num_updated_rows"] == 0
    odd = rows(10, 3)
    odd = odd.set_column(0, "id", pc.add(odd["id"], 1))
    merge = DeltaTable(path).merge(odd, "t.id = s.id", "s", "t")
    done = merge.when_matched_update(updates={"text": "s.text"}).when_not_matched_insert_all().execute()
    assert (done["num_target_rows_inserted"], done["num_target_rows_updated"]) == (3, 0)
    with pytest.raises(DeltaError):
        DeltaTable(path).delete("id = 50")


def test_sql_without_spark_skips_row_groups(tmp_path: Path) -> None:
    path = made(tmp_path / "t", writer_properties=WriterProperties(max_row_group_size=20))
    (file,) = live_files(path)
    damage(file)
    # DuckDB reads files without structs itself.
    for columns in ("id, p", "*"):
        assert deltaplane.sql(f"SELECT {columns} FROM delta.`{path}` WHERE id = 51").to_pylist() == []
        with pytest.raises(DeltaError):
            deltaplane.sql(f"SELECT {columns} FROM delta.`{path}` WHERE id = 50").to_pylist()


def values_of(kind: str, numbers: list[int | None]) -> pa.Array:
    """Whole numbers as values of a type."""
    days, base = dt.date(2000, 1, 1), dt.datetime(2000, 1, 1)
    make: dict[str, tuple[pa.DataType, Callable[[int], Any]]] = {
        "int": (pa.int32(), int),
        "long": (pa.int64(), lambda n: n << 33),
        "float": (pa.float32(), lambda n: n / 4),
        "double": (pa.float64(), lambda n: n / 10),
        "decimal": (pa.decimal128(9, 2), lambda n: Decimal(n).scaleb(-2)),
        "decimal of 38": (pa.decimal128(38, 6), lambda n: Decimal(n << 70).scaleb(-6)),
        "string": (pa.string(), lambda n: f"v{n}"),
        "binary": (pa.binary(), lambda n: bytes([n % 256, n // 256 % 256])),
        "date": (pa.date32(), lambda n: days + dt.timedelta(n)),
        "timestamp": (pa.timestamp("us", "UTC"), lambda n: base.replace(tzinfo=dt.timezone.utc) + dt.timedelta(0, n)),
        "timestamp_ntz": (pa.timestamp("us"), lambda n: base + dt.timedelta(0, n)),
    }
    data_type, value = make[kind]
    return pa.array([None if n is None else value(n) for n in numbers], data_type)


KINDS = [*"int long float double decimal string binary date timestamp timestamp_ntz".split(), "decimal of 38"]


def literal(value: Any) -> str:
    """A value in Spark SQL."""
    match value:
        case bytes():
            return f"X'{value.hex()}'"
        case dt.datetime():
            name = "TIMESTAMP_NTZ" if value.tzinfo is None else "TIMESTAMP"
            return f"{name}'{value.isoformat(' ')}'"
        case dt.date():
            return f"DATE'{value}'"
        case Decimal() | int():
            return str(value)
        case float():
            return f"CAST('{value!r}' AS DOUBLE)"
        case _:
            return f"'{value}'"


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_those_without_filters_and_those_of_pyarrow(tmp_path: Path, kind: str) -> None:
    drawn = random.Random(f"bloom {kind}")
    for case in range(4):
        numbers = [None if drawn.random() < 0.1 else drawn.randrange(200) * 2 for _ in range(300)]
        data = pa.table({"v": values_of(kind, numbers), "n": pa.array(range(300))})
        tables = []
        for name, asked in (("with", chosen("v", fpp=0.0001)), ("without", WriterProperties())):
            path = str(tmp_path / f"{case} {name}")
            settings = WriterProperties(max_row_group_size=40, column_properties=asked.column_properties)
            write_deltalake(path, data, writer_properties=settings)
            tables.append(DeltaTable(path))
        for _ in range(12):
            wanted = values_of(kind, [drawn.randrange(400) for _ in range(drawn.choice((1, 3)))])
            predicate = f"v IN ({', '.join(literal(v) for v in wanted.to_pylist())})"
            expected = sorted(data.filter(pc.is_in(data["v"], wanted))["n"].to_pylist())
            for table in tables:
                assert sorted(table.to_pyarrow_table(filters=predicate)["n"].to_pylist()) == expected, predicate
        absent = values_of(kind, [399])
        (file,) = live_files(tables[0].table_uri)
        damage(file)
        predicate = f"v = {literal(absent.to_pylist()[0])}"
        assert DeltaTable(tables[0].table_uri).to_pyarrow_table(filters=predicate).num_rows == 0


def test_duckdb_and_pyarrow_understand_our_filters(tmp_path: Path) -> None:
    data = pa.table({kind: values_of(kind, [n * 37 % 1000 * 2 for n in range(1000)]) for kind in KINDS})
    data = data.rename_columns([kind.replace(" ", "_") for kind in KINDS])
    write_deltalake(tmp_path, data, writer_properties=chosen(*data.column_names))
    (file,) = live_files(tmp_path)
    pq.ParquetFile(file).read().validate(full=True)
    connection = duckdb.connect()
    for name, kind in zip(data.column_names, KINDS, strict=True):
        offsets = connection.execute(
            "SELECT bloom_filter_offset, bloom_filter_length FROM parquet_metadata(?) WHERE path_in_schema = ?",
            [file, name],
        ).fetchall()
        assert all(offset is not None and length > 0 for offset, length in offsets)
        if kind not in ("int", "long", "float", "double", "string"):
            continue
        has, lacks = (values_of(kind, [n]).to_pylist()[0] for n in (500, 501))
        probe = "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, ?, ?)"
        answers = [connection.execute(probe, [file, name, value]).fetchone() for value in (has, lacks)]
        assert answers == [(False,), (True,)], name


def files_of_others(folder: Path) -> dict[str, str]:
    """Files with filters that other programs wrote, by their program."""
    data = pa.table(
        {"id": [n * 37 % 1000 * 2 for n in range(1000)], "text": [f"t{n * 37 % 1000 * 2}" for n in range(1000)]}
    )
    ours = {name: str(folder / name / "a.parquet") for name in ("duckdb", "pyarrow")}
    for file in ours.values():
        Path(file).parent.mkdir()
    connection = duckdb.connect()
    connection.execute(
        f"COPY (SELECT * FROM data) TO '{ours['duckdb']}' (FORMAT parquet, DICTIONARY_SIZE_LIMIT 2000, ROW_GROUP_SIZE 2048)"
    )
    columns = {"id": {"ndv": 1000, "fpp": 0.01}, "text": True}
    pq.write_table(data, ours["pyarrow"], row_group_size=250, bloom_filter_options=columns)
    return ours


@pytest.mark.parametrize("program", ["duckdb", "pyarrow"])
def test_filters_of_others_are_used(tmp_path: Path, program: str) -> None:
    file = files_of_others(tmp_path)[program]
    assert filtered(file) == {"id", "text"}
    folder = str(Path(file).parent)
    convert_to_deltalake(folder)
    table = DeltaTable(folder)
    assert table.to_pyarrow_table(filters="id = 500").num_rows == 1
    assert table.to_pyarrow_table(filters="text = 't500'").num_rows == 1
    damage(file)
    counts = [DeltaTable(folder).to_pyarrow_table(filters=p).num_rows for p in ("id = 501", "text = 't1003'")]
    assert counts == [0, 0]


@pytest.mark.parametrize("width", [pa.float32(), pa.float64()])
def test_zeros_of_others_are_found_whatever_their_sign(tmp_path: Path, width: pa.DataType) -> None:
    data = pa.table({"v": pa.array([-0.0] * 5 + [1.5] * 5, width), "n": range(10)})
    pq.write_table(
        data, tmp_path / "a.parquet", row_group_size=5, bloom_filter_options={"v": True}, use_dictionary=False
    )
    convert_to_deltalake(str(tmp_path))
    assert filtered(str(tmp_path / "a.parquet")) == {"v"}
    assert DeltaTable(tmp_path).to_pyarrow_table(filters="v = 0")["n"].to_pylist() == [0, 1, 2, 3, 4]
    for condition in ("v = 0", "v IN (0)", "v = -0.0D", "v <=> 0"):
        matches = deltaplane.sql(f"SELECT n FROM delta.`{tmp_path}` WHERE {condition} ORDER BY n").to_pylist()
        assert [row["n"] for row in matches] == [0, 1, 2, 3, 4], condition
