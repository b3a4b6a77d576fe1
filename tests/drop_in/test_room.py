"""What `deltaplane.deltalake` does otherwise than deltaplane: dialect, protocol, history, types."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaplane
import deltaplane.deltalake as room
from deltaplane.deltalake._dialect import deltalake_sql, spark_query, spark_sql
from deltaplane.deltalake.exceptions import CommitFailedError, DeltaError, SchemaMismatchError
from deltaplane.deltalake.transaction import AddAction
from deltaplane.exceptions import InvalidArgumentError

pytest.importorskip("arro3.core")


def columns(table: room.DeltaTable) -> dict[str, list[Any]]:
    read: dict[str, list[Any]] = table.to_pyarrow_table().to_pydict()
    return read


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ('"a b" = 1', "`a b` = 1"),
        ("x = 'it''s'", r"x = 'it\'s'"),
        (r"x = 'a\b'", r"x = 'a\\b'"),
        ("x = int '10'", "x = CAST('10' AS INT)"),
        ("x = date '2024-01-01'", "x = date '2024-01-01'"),
        ("CAST(x AS varchar)", "CAST(x AS STRING)"),
        ("SELECT x AS text FROM t", "SELECT x AS text FROM t"),
        ("x = [1, 2]", "x = array(1, 2)"),
        ("x['a'] = y[0]", "x['a'] = y[0]"),
        ('\'"\' = x -- "y"', '\'"\' = x -- "y"'),
    ],
)
def test_expressions_are_translated(theirs: str, ours: str) -> None:
    assert spark_sql(theirs) == ours


QUOTIENTS = [
    *("7 / 2", "i / 2", "i * h / 3", "i / 3 * 2", "2.0 / 4", "f / 2", "i / f", "i * f / 4", "i * 1.5 / 2"),
    *("CAST(i AS DOUBLE) / 2", "i / CAST(2 AS DOUBLE)", "i::double / 2", "i / 2::double", "f / i / 2", "i / i / 2"),
    *('"i" / 2', "t.i / 2", "t.i / t.h", "i / t.f", "CAST(i AS INT) / 3", "-i / 2", "i / -2", "i % 5 / 2"),
    *("1 + i / 2", "CASE WHEN i / 2 = 3 THEN i / 3 ELSE h / 2 END", "i/2", "abs(i / 2)"),
]
UNKNOWN = ["(i + 1) / 2", "abs(i) / 2", "i / abs(f)", "sum(i) / count(*)", "x / 2", "s / 2"]


def test_quotients_are_those_of_datafusion(tmp_path: Path) -> None:
    import deltalake

    rows = {"i": [7, -7, 9], "h": pa.array([3, 4, 5], pa.int16()), "f": [2.0, 4.0, -8.0], "s": ["1", "2", "3"]}
    room.write_deltalake(tmp_path, pa.table(rows))
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    ours = room.QueryBuilder().register("t", room.DeltaTable(tmp_path))
    for expression in QUOTIENTS:
        sql = f"SELECT {expression} AS q FROM t ORDER BY i"
        expected, got = (pa.table(b.execute(sql)).column("q").to_pylist() for b in (theirs, ours))
        assert got == pytest.approx(expected), expression
    for expression in UNKNOWN:
        with pytest.raises(DeltaError, match="DIV"):
            ours.execute(f"SELECT {expression} AS q FROM t")
    table = room.DeltaTable(tmp_path)
    table.update(updates={"i": "i / 2"})
    table.delete("i / 2 = 1 AND f = 2.0")
    assert sorted(columns(table)["i"]) == [-3, 4]


def test_order_of_nulls_and_names_of_constraints() -> None:
    query = "SELECT a, rank() OVER (ORDER BY b DESC) FROM t ORDER BY a, c NULLS FIRST"
    expected = "SELECT a, rank() OVER (ORDER BY b DESC NULLS FIRST) FROM t ORDER BY a NULLS LAST, c NULLS FIRST"
    assert spark_query(query) == expected
    assert deltalake_sql("`a b` > '`'") == "\"a b\" > '`'"


def test_protocols_are_those_of_delta_rs(tmp_path: Path) -> None:
    room.write_deltalake(tmp_path, pa.table({"a b": [1]}), configuration={"delta.minWriterVersion": "4"})
    table = room.DeltaTable(tmp_path)
    assert table.protocol() == (1, 4, None, None)
    assert table.metadata().configuration == {"delta.minWriterVersion": "4"}
    table.alter.add_feature(room.TableFeatures.ChangeDataFeed, allow_protocol_versions_increase=True)
    table.alter.add_feature(room.TableFeatures.ChangeDataFeed)
    assert table.protocol() == (1, 7, ["changeDataFeed"], None)
    assert [entry["operation"] for entry in table.history()] == ["ADD FEATURE", "ADD FEATURE", "WRITE"]
    # Other programs over the same core, and deltaplane itself, read and write the table.
    room.write_deltalake(table, pa.table({"a b": [2]}), mode="append")
    assert sorted(columns(room.DeltaTable(tmp_path))["a b"]) == [1, 2]


def test_several_constraints_are_one_commit_in_spark_sql(tmp_path: Path) -> None:
    room.write_deltalake(tmp_path, pa.table({"a b": [1]}))
    table = room.DeltaTable(tmp_path)
    table.alter.add_constraint({"low": '"a b" > 0', "high": '"a b" < 9'})
    assert table.version() == 1
    assert table.metadata().configuration == {
        "delta.constraints.high": '"a b" < 9',
        "delta.constraints.low": '"a b" > 0',
    }
    assert table._table.inner.metadata().configuration["delta.constraints.low"] == "`a b` > 0"
    with pytest.raises(DeltaError, match="Invalid data found"):
        room.write_deltalake(table, pa.table({"a b": [9]}), mode="append")
    with pytest.raises(DeltaError):
        table.alter.add_constraint({"none": '"a b" > 5', "all": '"a b" > 0'})
    assert table.version() == 1


def test_applications_may_repeat_a_version_on_a_fresh_table(tmp_path: Path) -> None:
    rows = pa.table({"x": [1]})
    once = room.CommitProperties(app_transactions=[room.Transaction("feed", 1)])
    room.write_deltalake(tmp_path, rows)
    stale = room.DeltaTable(tmp_path)
    room.write_deltalake(tmp_path, rows, mode="append", commit_properties=once)
    with pytest.raises(CommitFailedError):
        room.write_deltalake(stale, rows, mode="append", commit_properties=once)
    room.write_deltalake(tmp_path, rows, mode="append", commit_properties=once)
    assert columns(room.DeltaTable(tmp_path)) == {"x": [1, 1, 1]}


def test_values_are_cast_by_value(tmp_path: Path) -> None:
    room.write_deltalake(tmp_path, pa.table({"n": pa.array([1], pa.int8())}))
    room.write_deltalake(tmp_path, pa.table({"n": ["7"]}), mode="append")
    assert sorted(columns(room.DeltaTable(tmp_path))["n"]) == [1, 7]
    with pytest.raises(DeltaError, match="Can't cast value 1000 to type Int8"):
        room.write_deltalake(tmp_path, pa.table({"n": [1000]}), mode="append")
    with pytest.raises(SchemaMismatchError, match="number of fields"):
        room.write_deltalake(tmp_path, pa.table({"other": [1]}), mode="append")
    table = room.DeltaTable(tmp_path)
    table.update({"n": "'no number'"}, predicate="n = 7", error_on_type_mismatch=False)
    assert sorted(columns(table)["n"], key=str) == [1, None]


def test_queries_give_views_and_declared_columns(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("s", pa.string(), nullable=False), pa.field("n", pa.int64())])
    room.write_deltalake(tmp_path, pa.table({"s": ["b", "a"], "n": [None, 1]}, schema=schema))
    query = room.QueryBuilder().register("t", room.DeltaTable(tmp_path))
    plain = pa.table(query.execute('SELECT "s", n FROM t ORDER BY n').read_all())
    assert plain.to_pydict() == {"s": ["a", "b"], "n": [1, None]}
    assert plain.schema == pa.schema([pa.field("s", pa.string_view(), nullable=False), pa.field("n", pa.int64())])
    # Another value under a column's name has its own type, and may be null.
    for other in ("max(s) AS s", "n s", "n AS s"):
        computed = pa.table(query.execute(f"SELECT {other} FROM t").read_all())
        assert computed.schema.field("s").nullable
    assert computed.schema.field("s").type == pa.int64()


@pytest.mark.parametrize("name", ["ln", "LOG", "log10", "log2", "pow", "power", "struct"])
def test_functions_with_another_result_in_spark_are_refused_by_name(name: str, tmp_path: Path) -> None:
    """DataFusion's `log` is the decimal logarithm, `ln(-1)` isn't null there, `power` of integers
    is one."""
    room.write_deltalake(tmp_path, pa.table({"n": [-1, 100], "log": [1, 2]}))
    table = room.DeltaTable(tmp_path)
    query = room.QueryBuilder().register("t", table)
    arguments = "n, 2" if name.startswith("po") else "n"
    with pytest.raises(DeltaError, match=f"the function `{name}` has another result"):
        query.execute(f"SELECT {name} ({arguments}) AS x FROM t")
    with pytest.raises(DeltaError, match="has another result"):
        table.update(updates={"n": f"{name}({arguments})"})
    assert sorted(pa.table(query.execute("SELECT log FROM t").read_all())["log"].to_pylist()) == [1, 2]


def test_files_of_other_writers_are_committed(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": [1, 2]}), tmp_path / "a.parquet")
    size = (tmp_path / "a.parquet").stat().st_size
    add = AddAction("a.parquet", size, {}, 0, True, json.dumps({"numRecords": 2}))
    schema = room.Schema([room.Field("x", "long")])
    from deltaplane.deltalake.transaction import create_table_with_add_actions

    create_table_with_add_actions(str(tmp_path), schema, [add])
    table = room.DeltaTable(tmp_path)
    assert (table.count(), columns(table)) == (2, {"x": [1, 2]})
    table.create_write_transaction([add], "append", schema, commit_properties=room.CommitProperties({"by": "hand"}))
    assert table.history(1)[0]["by"] == "hand"


def log_of(path: Path, version: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (path / "_delta_log" / f"{version:020}.json").read_text().splitlines()]


def test_statistics_and_encodings_are_those_of_delta_rs(tmp_path: Path) -> None:
    import datetime as dt

    import deltalake
    import pyarrow.parquet as pq

    moment = dt.datetime(2024, 1, 1, 12, 30, 0, 250_000)
    rows = pa.table(
        {
            "b": [True, False, None],
            "t": pa.array([moment, None, moment], pa.timestamp("us", "UTC")),
            "n": pa.array([moment.replace(microsecond=0), None, None], pa.timestamp("us")),
            "l": [[1], None, []],
            "y": [b"a", None, None],
            "i": pa.array([5, 3, 4], pa.int32()),
        }
    )
    stats, encodings = [], []
    for package in (deltalake, room):
        path = tmp_path / package.__name__
        columns = {"i": package.ColumnProperties(encoding="DELTA_BINARY_PACKED")}
        package.write_deltalake(str(path), rows, writer_properties=package.WriterProperties(column_properties=columns))
        (add,) = [entry["add"] for entry in log_of(path, 0) if "add" in entry]
        own = json.loads(add["stats"])
        stats.append({part: own[part] for part in ("numRecords", "minValues", "maxValues", "nullCount")})
        groups = pq.read_metadata(path / add["path"]).row_group(0)
        encodings.append("DELTA_BINARY_PACKED" in groups.column(groups.num_columns - 1).encodings)
    assert stats[0] == stats[1]
    assert encodings == [True, True]
    table = room.DeltaTable(tmp_path / room.__name__)
    # The bounds prune: no file holds such rows.
    for condition in ("t > TIMESTAMP '2024-01-01 12:30:01Z'", "n < TIMESTAMP_NTZ '2024-01-01 12:30:00'", "i > 5"):
        assert table.file_uris(file_pruning_predicate=condition) == [], condition
    assert len(table.file_uris(file_pruning_predicate="t >= TIMESTAMP '2024-01-01 12:30:00Z'")) == 1
    columns = {"y": room.ColumnProperties(encoding="DELTA_BINARY_PACKED")}
    properties = room.WriterProperties(column_properties=columns)
    with pytest.raises(DeltaError, match="DELTA_BINARY_PACKED"):
        room.write_deltalake(tmp_path / "bad", rows, writer_properties=properties)


def test_change_files_have_all_changes_and_required_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    kind = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("p", pa.string())])
    rows = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]}, schema=kind)
    feed = {"delta.enableChangeDataFeed": "true"}
    room.write_deltalake(tmp_path, rows, partition_by=["p"], configuration=feed)
    table = room.DeltaTable(tmp_path)
    room.write_deltalake(table, rows.slice(2), mode="overwrite", predicate="id > 2")
    merged = table.merge(rows.slice(0, 1).set_column(0, kind.field("id"), [[7]]), "s.id = t.id", "s", "t")
    merged.when_not_matched_insert_all().execute()
    for version, expected in ((1, {"delete": 1, "insert": 1}), (2, {"insert": 1})):
        paths = [entry["cdc"]["path"] for entry in log_of(tmp_path, version) if "cdc" in entry]
        assert paths
        schema = pq.read_schema(tmp_path / paths[0])
        assert {field.name: field.nullable for field in schema} == {"id": False, "_change_type": False}
        read = table.load_cdf(starting_version=version, ending_version=version).read_all()
        kinds = pa.table(read)["_change_type"].to_pylist()
        assert {kind: kinds.count(kind) for kind in kinds} == expected
    # Rows that others wrote with null in spite of NOT NULL aren't stored with another value.
    lax = tmp_path / "lax"
    room.write_deltalake(lax, pa.table({"id": pa.array([1, None], pa.int64()), "p": ["a", "a"]}), configuration=feed)
    first = lax / "_delta_log" / f"{0:020}.json"
    declared = first.read_text().replace(r"\"name\":\"id\",\"nullable\":true", r"\"name\":\"id\",\"nullable\":false")
    assert declared != first.read_text()
    first.write_text(declared)
    with pytest.raises(DeltaError, match="NOT NULL"):
        room.DeltaTable(lax).delete("p = 'a' AND id IS NULL")


def test_merges_refuse_and_report_as_delta_rs(tmp_path: Path) -> None:
    import deltalake

    rows = pa.table({"id": [1, 2, 3], "p": ["a", "a", "b"]})
    sources = [pa.table({"id": [2, 2, 1], "p": ["a", "a", "a"]}), pa.table({"id": [1, 2, 3], "p": ["a", "b", "c"]})]
    predicates = ["s.id = t.id AND s.p = t.p", 't.id = s."id"', "s.p = t.p", "s.id + 0 = t.id"]
    shown: list[list[str | None]] = [[], []]
    for package, texts in zip((deltalake, room), shown, strict=True):
        path = str(tmp_path / package.__name__)
        package.write_deltalake(path, rows, partition_by=["p"])
        table = package.DeltaTable(path)
        with pytest.raises(package.exceptions.DeltaError, match="duplicate relevant WHEN MATCHED"):
            table.merge(sources[0], "s.id = t.id", "s", "t").when_matched_delete("s.p = 'a'").execute()
        for source in sources:
            for predicate in predicates[:3]:
                package.write_deltalake(path, rows, mode="overwrite")
                table = package.DeltaTable(path)
                table.merge(source, predicate, "s", "t", streamed_exec=False).when_matched_delete().execute()
                texts.append(table.history(1)[0]["operationParameters"].get("predicate"))
    assert None not in shown[1]
    assert [sorted((text or "").split(" OR ")) for text in shown[0]] == [
        sorted((text or "").split(" OR ")) for text in shown[1]
    ]
    table.merge(sources[0], predicates[3], "s", "t", streamed_exec=False).when_matched_delete().execute()


def test_rows_that_break_a_rule_are_counted(tmp_path: Path) -> None:
    rows = pa.table({"x": [1, 2, 3], "p": ["a", "b", "b"]})
    room.write_deltalake(tmp_path, rows, partition_by=["p"])
    table = room.DeltaTable(tmp_path)
    table.alter.add_constraint({"small": "x < 10"})
    with pytest.raises(DeltaError, match="Invalid data found: 2 rows failed validation check"):
        room.write_deltalake(table, pa.table({"x": [10, 1, 11], "p": ["a", "a", "a"]}), mode="append")
    for predicate in ("p = 'a'", "x = 1"):
        with pytest.raises(DeltaError, match="Invalid data found: 2 rows failed validation check"):
            room.write_deltalake(table, rows, mode="overwrite", predicate=predicate)


def test_paths_are_encoded_as_in_the_log(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    room.write_deltalake(location, pa.table({"id": [1, 2], "p": ["a b", "c/d%é"]}), partition_by="p")
    table = room.DeltaTable(location)
    encoded = pa.table(table.get_add_actions())["path"].to_pylist()
    logged = (tmp_path / "t" / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    adds = [json.loads(line)["add"]["path"] for line in logged if line.startswith('{"add"')]
    assert sorted(encoded) == sorted(adds)
    assert sorted(f"{location}/{unquote(path)}" for path in encoded) == sorted(table.file_uris())


def test_files_that_others_wrote_are_added_by_their_names(tmp_path: Path) -> None:
    location = tmp_path / "t"
    schema = room.Schema.from_arrow(pa.schema({"id": pa.int64(), "p": pa.string()}))
    room.DeltaTable.create(str(location), schema, partition_by="p")
    actions = []
    for number, folder in enumerate(["p=a%20b", "p=a b", "p=é"]):
        (location / folder).mkdir()
        pq.write_table(pa.table({"id": [number]}), location / folder / "f.parquet")
        size = (location / folder / "f.parquet").stat().st_size
        stats = '{"numRecords": 1}'
        actions.append(AddAction(f"{folder}/f.parquet", size, {"p": str(number)}, 0, True, stats))
    # As dask, Daft and Ray call it.
    raw = room.DeltaTable(str(location))._table
    raw.create_write_transaction(actions, "append", ["p"], schema, None, None, None)
    assert sorted(room.DeltaTable(str(location)).to_pyarrow_table()["p"].to_pylist()) == ["0", "1", "2"]


def test_deletion_vectors_name_files_as_file_uris_do(tmp_path: Path) -> None:
    location = str(tmp_path / "t")
    data = pa.table({"id": [1, 2, 3], "p": ["a b/c%"] * 3})
    deltaplane.write_deltalake(location, data, partition_by="p", configuration={"delta.enableDeletionVectors": "true"})
    deltaplane.DeltaTable(location).delete("id = 2")
    table = room.DeltaTable(location)
    vectors = pa.RecordBatchReader.from_stream(table.deletion_vectors()).read_all()
    assert [path.removeprefix("file://") for path in vectors["filepath"].to_pylist()] == table.file_uris()
    assert vectors["selection_vector"].to_pylist() == [[True, False, True]]


def test_unknown_storage_options_have_no_effect(tmp_path: Path) -> None:
    options = {"provider": "local", "PROFILE_NAME": "x"}
    room.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}), storage_options=options)
    assert room.DeltaTable(str(tmp_path / "t"), storage_options=options).version() == 0
    with pytest.raises(InvalidArgumentError, match="unknown storage option"):
        deltaplane.DeltaTable(str(tmp_path / "t"), storage_options=options)


def test_a_table_that_exists_is_named_in_deltalakes_words(tmp_path: Path) -> None:
    room.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    with pytest.raises(room.exceptions.DeltaError, match="A table already exists"):
        room.write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))


def test_files_are_listed_with_their_times_in_milliseconds_and_without_infinite_bounds(tmp_path: Path) -> None:
    room.write_deltalake(tmp_path, pa.table({"x": [1.5, float("inf")], "y": [1.0, 2.0]}))
    (logged,) = (
        action["add"]
        for line in (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
        if "add" in (action := json.loads(line))
    )
    for flatten in (False, True):
        (listed,) = pa.table(room.DeltaTable(tmp_path).get_add_actions(flatten)).to_pylist()
        assert listed["modification_time"] == logged["modificationTime"] > 10**12
        highest = {name: listed[f"max.{name}"] for name in "xy"} if flatten else listed["max"]
        assert highest == {"x": None, "y": 2.0}


def test_unnamed_columns_of_queries_have_the_names_of_datafusion(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    room.write_deltalake(tmp_path, pa.table({"k": ["a", "b", "a"], "i": [1, 2, 3]}))
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    ours = room.QueryBuilder().register("t", room.DeltaTable(tmp_path))
    for sql in (
        "SELECT k, count(*) FROM t GROUP BY k ORDER BY count(*)",
        "SELECT k, COUNT( * ) FROM t GROUP BY k UNION ALL SELECT 'x', 0 ORDER BY k",
        "SELECT max(i), SUM(t.i), count(DISTINCT k) FROM t",
        "SELECT min(x.i), avg(x.i) FROM t AS x JOIN t AS y ON x.i = y.i",
        "SELECT count(i) FROM t AS x",
    ):
        expected, got = pa.table(theirs.execute(sql)), pa.table(ours.execute(sql))
        assert got.to_pydict() == expected.to_pydict()
    # Other values have their text.
    assert pa.table(ours.execute('SELECT max(i) + 1, "k" FROM t GROUP BY k')).column_names == ["max(i) + 1", "k"]


def test_private_names_that_libraries_import() -> None:
    from deltaplane.deltalake.writer import writer

    assert callable(writer.try_get_table_and_table_uri)
    assert callable(writer._convert_arro3_schema_to_delta)
