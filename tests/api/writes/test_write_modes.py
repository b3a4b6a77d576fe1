"""The effect of each write mode on a table, and refusals that leave no trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriteResult,
    WriterProperties,
    write_deltalake,
)
from deltaplane.exceptions import (
    ConstraintViolationError,
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)

ONE = pa.table({"p": ["a", "b"], "x": [1, 2]})
TWO = pa.table({"p": ["b", "c"], "x": [20, 30]})


def pairs(path: str) -> list[tuple[Any, Any]]:
    rows = DeltaTable(path).to_pyarrow_table()
    return sorted(zip(rows["p"].to_pylist(), rows["x"].to_pylist(), strict=True), key=str)


@pytest.fixture
def path(tmp_table: Callable[[], str]) -> str:
    where = tmp_table()
    assert write_deltalake(where, ONE, partition_by=["p"]).version == 0
    return where


def test_error_is_the_default_and_leaves_the_table(path: str) -> None:
    with pytest.raises(TableAlreadyExistsError) as e:
        write_deltalake(path, TWO)
    assert isinstance(e.value, FileExistsError)
    assert (DeltaTable(path).version(), pairs(path)) == (0, [("a", 1), ("b", 2)])


def test_append_adds(path: str) -> None:
    assert write_deltalake(path, TWO, mode="append").version == 1
    assert pairs(path) == [("a", 1), ("b", 2), ("b", 20), ("c", 30)]


def test_overwrite_replaces(path: str) -> None:
    write_deltalake(path, TWO, mode="overwrite")
    assert pairs(path) == [("b", 20), ("c", 30)]


def test_ignore_does_nothing_where_a_table_is(path: str, tmp_table: Callable[[], str]) -> None:
    assert write_deltalake(path, TWO, mode="ignore") == WriteResult(version=None, skipped="exists")
    assert pairs(path) == [("a", 1), ("b", 2)]
    assert write_deltalake(tmp_table(), TWO, mode="ignore").version == 0


@pytest.mark.parametrize("predicate", ["p = 'b'", "p IN ('b', 'z')", [("p", "=", "b")]])
def test_a_predicate_replaces_its_partitions(path: str, predicate: Any) -> None:
    write_deltalake(path, pa.table({"p": ["b"], "x": [22]}), mode="overwrite", predicate=predicate)
    assert pairs(path) == [("a", 1), ("b", 22)]


def test_rows_outside_of_the_predicate_are_refused(path: str) -> None:
    with pytest.raises(InvalidArgumentError, match="p = 'b'"):
        write_deltalake(path, TWO, mode="overwrite", predicate="p = 'b'")
    assert (DeltaTable(path).version(), pairs(path)) == (0, [("a", 1), ("b", 2)])


@pytest.mark.parametrize("properties", [{}, {"delta.enableDeletionVectors": "true"}], ids=["copy", "vectors"])
@pytest.mark.parametrize("predicate", ["x >= 2", "length(p) + x > 2 AND p <> 'a'"])
def test_a_predicate_replaces_rows(tmp_table: Callable[[], str], properties: dict[str, str], predicate: str) -> None:
    # P130: the change feed records exactly the deleted and inserted rows
    path = tmp_table()
    rows = pa.table({"p": ["a", "b", "b"], "x": [1, 2, 3]})
    write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true", **properties})
    table = DeltaTable(path)
    new = pa.table({"p": ["b", "c"], "x": [9, 8]})
    done = write_deltalake(table, new, mode="overwrite", predicate=predicate)
    assert (done.version, done.metrics["numDeletedRows"]) == (1, 2)
    assert pairs(path) == [("a", 1), ("b", 9), ("c", 8)]
    changes = [(r["x"], r["_change_type"]) for r in table.load_cdf(1).to_arrow().to_pylist()]
    assert sorted(changes) == [(2, "delete"), (3, "delete"), (8, "insert"), (9, "insert")]
    said = table.history(1)[0]
    assert said["operation"] == "WRITE"
    assert said["operationParameters"] == {"mode": "Overwrite", "partitionBy": "[]", "predicate": predicate}
    with pytest.raises(InvalidArgumentError, match="doesn't select"):
        write_deltalake(path, pa.table({"p": ["a"], "x": [0]}), mode="overwrite", predicate=predicate)
    assert pairs(path) == [("a", 1), ("b", 9), ("c", 8)]


def test_a_predicate_replaces_rows_with_a_new_column(path: str) -> None:
    new = pa.table({"p": ["b"], "x": [7], "more": ["m"]})
    with pytest.raises(SchemaMismatchError, match="more"):
        write_deltalake(path, new, mode="overwrite", predicate="x > 1")
    write_deltalake(path, new, mode="overwrite", predicate="x > 1", schema_mode="merge")
    assert DeltaTable(path).to_pyarrow_table().sort_by("x")["more"].to_pylist() == [None, "m"]
    # There is no row that it could replace.
    write_deltalake(path, new.set_column(1, "x", pa.array([50])), mode="overwrite", predicate="x = 50")
    assert DeltaTable(path).count() == 3


def test_only_written_partitions_are_replaced(path: str, tmp_table: Callable[[], str]) -> None:
    new = pa.table({"p": ["b", None], "x": [5, 6]})
    for _ in range(2):
        write_deltalake(path, new, mode="overwrite", partition_overwrite_mode="dynamic")
        assert pairs(path) == [("a", 1), ("b", 5), (None, 6)]
    write_deltalake(path, new.slice(0, 0), mode="overwrite", partition_overwrite_mode="dynamic")
    assert DeltaTable(path).count() == 3
    # Without partitions it overwrites all rows.
    plain = tmp_table()
    write_deltalake(plain, TWO)
    write_deltalake(plain, TWO.slice(1), mode="overwrite", partition_overwrite_mode="dynamic")
    assert DeltaTable(plain).count() == 1
    mapped = tmp_table()
    write_deltalake(mapped, TWO, partition_by=["p"], configuration={"delta.columnMapping.mode": "name"})
    write_deltalake(mapped, pa.table({"p": ["b"], "x": [9]}), mode="overwrite", partition_overwrite_mode="dynamic")
    assert pairs(mapped) == [("b", 9), ("c", 30)]


def test_rows_that_equal_new_ones_are_replaced(path: str) -> None:
    write_deltalake(path, pa.table({"p": ["a", None], "x": [2, 3]}), mode="append")
    new = pa.table({"p": ["a", "a", "z", None], "x": [10, 11, 12, 13]})
    done = write_deltalake(path, new, mode="overwrite", replace_using=["P"])
    assert done.metrics["numTargetRowsDeleted"] == 2
    left = [("a", 10), ("a", 11), ("b", 2), ("z", 12), (None, 3), (None, 13)]
    assert pairs(path) == sorted(left, key=str)
    assert write_deltalake(path, new.slice(0, 0), mode="overwrite", replace_using=["p"]).skipped == "nothing"
    with pytest.raises(SchemaMismatchError, match="other"):
        write_deltalake(path, new.append_column("other", new["x"]), mode="overwrite", replace_using=["p"])
    with pytest.raises(InvalidArgumentError, match="`nowhere`"):
        write_deltalake(path, new, mode="overwrite", replace_using=["nowhere"])
    with pytest.raises(InvalidArgumentError, match="mode='overwrite'"):
        write_deltalake(path, new, mode="append", replace_using=["p"])


def test_rows_are_replaced_that_equal_a_new_one_in_every_column(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"p": ["a", "a", "b"], "x": [1, 2, 1]}))
    new = pa.table({"p": ["a"], "x": [1]})
    done = write_deltalake(path, new, mode="overwrite", replace_using=["p", "x"])
    assert done.metrics["numTargetRowsDeleted"] == 1
    assert pairs(path) == [("a", 1), ("a", 2), ("b", 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "replace"}, "mode is error, append, overwrite or ignore"),
        ({"mode": "append", "predicate": "p = 'a'"}, "needs mode='overwrite'"),
        ({"mode": "append", "schema_mode": "overwrite"}, "needs mode='overwrite'"),
        ({"mode": "append", "schema_mode": "both"}, "schema_mode is None, merge or overwrite"),
        ({"mode": "append", "target_file_size": 0}, "number of bytes"),
        ({"mode": "append", "partition_by": ["x"]}, "partition"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(path: str, arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        write_deltalake(path, TWO, **arguments)
    assert DeltaTable(path).version() == 0


# --- columns ----------------------------------------------------------------------------------------------------------


def test_a_new_column_is_refused_by_name_and_merged_when_asked_for(path: str) -> None:
    more = pa.table({"p": ["c"], "x": [3], "extra": ["new"]})
    with pytest.raises(SchemaMismatchError, match="extra"):
        write_deltalake(path, more, mode="append")
    assert write_deltalake(path, more, mode="append", schema_mode="merge").version == 1
    rows = DeltaTable(path).to_pyarrow_table().sort_by("x")
    assert rows["extra"].to_pylist() == [None, None, "new"]
    assert DeltaTable(path, version=0).to_pyarrow_table().schema.names == ["p", "x"]


def test_a_wrong_type_names_column_expected_and_found(path: str) -> None:
    with pytest.raises(SchemaMismatchError) as e:
        write_deltalake(path, pa.table({"p": ["a"], "x": ["text"]}), mode="append")
    assert all(word in str(e.value) for word in ("x", "long", "Utf8")) or "string" in str(e.value)
    assert DeltaTable(path).version() == 0


def test_missing_columns_become_null(path: str) -> None:
    write_deltalake(path, pa.table({"p": ["z"]}), mode="append")
    assert ("z", None) in [(r["p"], r["x"]) for r in DeltaTable(path).to_pyarrow_table().to_pylist()]


def test_columns_are_matched_by_name_whatever_order_and_case(path: str) -> None:
    write_deltalake(path, pa.table({"X": [3], "P": ["c"]}), mode="append")
    assert pairs(path) == [("a", 1), ("b", 2), ("c", 3)]
    assert [f.name for f in DeltaTable(path).schema().fields] == ["p", "x"]


def test_smaller_integers_fit_and_larger_do_not_unless_their_values_do(path: str) -> None:
    write_deltalake(path, pa.table({"p": ["c"], "x": pa.array([3], pa.int32())}), mode="append")
    assert ("c", 3) in pairs(path)


def test_overwriting_the_schema_replaces_columns_and_partitions(path: str) -> None:
    write_deltalake(path, pa.table({"q": [1.5]}), mode="overwrite", schema_mode="overwrite", partition_by=[])
    assert DeltaTable(path).to_pyarrow_table().to_pylist() == [{"q": 1.5}]
    assert DeltaTable(path).metadata().partition_columns == []


def test_a_null_where_none_may_be_is_refused(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    DeltaTable.create(path, schema)
    with pytest.raises((ConstraintViolationError, SchemaMismatchError), match="id"):
        write_deltalake(path, pa.table({"id": pa.array([1, None], pa.int64())}), mode="append")
    assert DeltaTable(path).version() == 0
    assert list(Path(path).glob("*.parquet")) == []


# --- what a commit carries --------------------------------------------------------------------------------------------


def test_an_application_version_is_written_once(path: str) -> None:
    once = CommitProperties(app_transactions=[Transaction("feed", 7)])
    assert write_deltalake(path, TWO, mode="append", commit_properties=once).version == 1
    assert write_deltalake(path, TWO, mode="append", commit_properties=once) == WriteResult(None, skipped="txn")
    older = CommitProperties(app_transactions=[Transaction("feed", 6)])
    assert write_deltalake(path, TWO, mode="append", commit_properties=older).skipped == "txn"
    assert len(pairs(path)) == 4
    table = DeltaTable(path)
    assert (table.transaction_version("feed"), table.transaction_version("other")) == (7, None)


def test_custom_metadata_is_in_the_history(path: str) -> None:
    properties = CommitProperties(custom_metadata={"job": "nightly", "userMetadata": "by hand"})
    write_deltalake(path, TWO, mode="append", commit_properties=properties)
    last = DeltaTable(path).history(1)[0]
    assert (last["version"], last["operation"], last["job"], last["userMetadata"]) == (1, "WRITE", "nightly", "by hand")
    assert last["operationMetrics"]["numOutputRows"] in (2, "2")
    assert last["operationParameters"]["mode"] == "Append"
    assert last["engineInfo"].startswith("deltaplane/")


@pytest.mark.parametrize(
    "properties",
    [
        CommitProperties(custom_metadata={"operation": "MERGE"}),
        CommitProperties(custom_metadata={"x": float("nan")}),
        CommitProperties(custom_metadata={"x": object()}),
        CommitProperties(custom_metadata={"userMetadata": 1}),
        CommitProperties(max_commit_retries=-1),
    ],
)
def test_commit_properties_that_cannot_be_are_refused(path: str, properties: CommitProperties) -> None:
    with pytest.raises((InvalidArgumentError, UnsupportedFeatureError)):
        write_deltalake(path, TWO, mode="append", commit_properties=properties)
    assert DeltaTable(path).version() == 0


def test_codec_and_row_groups_reach_the_files(tmp_table: Callable[[], str]) -> None:
    import pyarrow.parquet as pq

    path = tmp_table()
    properties = WriterProperties(compression="SNAPPY", max_row_group_size=100)
    write_deltalake(path, pa.table({"x": list(range(250))}), writer_properties=properties)
    (file,) = DeltaTable(path).file_uris()
    footer = pq.ParquetFile(file).metadata
    assert (footer.num_row_groups, footer.row_group(0).column(0).compression) == (3, "SNAPPY")


def test_columns_whose_values_hardly_repeat_have_no_dictionary(tmp_table: Callable[[], str]) -> None:
    import pyarrow.parquet as pq

    path, rows = tmp_table(), 20_000
    data = pa.table(
        {
            "id": list(range(rows)),
            "name": [f"name {i}" for i in range(rows)],
            "kind": [i % 7 for i in range(rows)],
            "said": [f"word {i % 7}" for i in range(rows)],
            "some": [[i] for i in range(rows)],
        }
    )
    write_deltalake(path, data)
    (file,) = DeltaTable(path).file_uris()
    group = pq.ParquetFile(file).metadata.row_group(0)
    has = {group.column(i).path_in_schema: group.column(i).has_dictionary_page for i in range(group.num_columns)}
    assert has == {"id": False, "name": False, "kind": True, "said": True, "some.list.element": True}
    assert DeltaTable(path).to_pyarrow_table().sort_by("id").equals(data)


@pytest.mark.parametrize(
    "properties",
    [
        WriterProperties(write_batch_size=10),
        WriterProperties(compression="RAR"),
        WriterProperties(compression="SNAPPY", compression_level=1),
        WriterProperties(compression="ZSTD", compression_level=23),
        WriterProperties(compression_level=1),
        WriterProperties(max_row_group_size=0),
    ],
)
def test_writer_properties_that_cannot_be_are_refused(path: str, properties: WriterProperties) -> None:
    with pytest.raises((InvalidArgumentError, UnsupportedFeatureError)):
        write_deltalake(path, TWO, mode="append", writer_properties=properties)


def test_a_small_target_makes_more_files(tmp_table: Callable[[], str]) -> None:
    import os

    path = tmp_table()
    data = pa.table({"x": [os.urandom(50).hex() for _ in range(60_000)]})
    write_deltalake(path, data.to_batches(max_chunksize=1_000), target_file_size=500_000)
    table = DeltaTable(path)
    assert len(table.files()) > 3
    assert table.count() == 60_000


def test_checkpoints_come_by_themselves_unless_left_out(tmp_table: Callable[[], str]) -> None:
    def checkpoints(hooks: PostCommitHookProperties | None) -> list[str]:
        path = tmp_table()
        for n in range(4):
            write_deltalake(
                path,
                pa.table({"x": [n]}),
                mode="append",
                configuration={"delta.checkpointInterval": "3"} if n == 0 else None,
                post_commithook_properties=hooks,
            )
        assert sorted(DeltaTable(path).to_pyarrow_table()["x"].to_pylist()) == [0, 1, 2, 3]
        return [f.name for f in (Path(path) / "_delta_log").glob("*.checkpoint*.parquet")]

    assert len(checkpoints(None)) == 1
    assert checkpoints(PostCommitHookProperties(create_checkpoint=False)) == []
    assert len(checkpoints(PostCommitHookProperties(cleanup_expired_logs=True))) == 1


def test_a_written_table_object_shows_the_new_version(path: str) -> None:
    table = DeltaTable(path)
    result = write_deltalake(table, TWO, mode="append")
    assert (table.version(), result.version) == (1, 1)


def test_name_description_and_properties_are_kept(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, ONE, name="n", description="d", configuration={"delta.appendOnly": "true", "gone": None})
    metadata = DeltaTable(path).metadata()
    assert (metadata.name, metadata.description) == ("n", "d")
    assert metadata.configuration == {"delta.appendOnly": "true"}
    assert metadata.created_time is not None
    with pytest.raises(DeltaError, match="append-only"):
        write_deltalake(path, ONE, mode="overwrite")


def test_a_failing_stream_commits_nothing_and_leaves_no_file(path: str) -> None:
    batch = TWO.to_batches()[0]

    def broken() -> Any:
        yield batch
        raise RuntimeError("the source broke")

    with pytest.raises(Exception, match="the source broke"):
        write_deltalake(path, pa.RecordBatchReader.from_batches(batch.schema, broken()), mode="append")
    assert DeltaTable(path).version() == 0
    listed = {str(p.relative_to(path)) for p in Path(path).rglob("*.parquet")}
    assert len(listed) == 2


def test_the_log_is_what_the_protocol_says(path: str) -> None:
    lines = [json.loads(line) for line in (Path(path) / "_delta_log" / f"{0:020}.json").read_text().splitlines()]
    kinds = [next(iter(line)) for line in lines]
    assert kinds[0] == "commitInfo"
    assert sorted(kinds) == ["add", "add", "commitInfo", "metaData", "protocol"]
    for add in (line["add"] for line in lines if "add" in line):
        assert json.loads(add["stats"])["numRecords"] == 1


def test_a_first_write_may_say_what_it_replaces(tmp_table: Callable[[], str]) -> None:
    for predicate in ("p = 'a'", "x > 0", "upper(p) = 'A'", "p = 'a' AND x < 9"):
        for columns in (["p"], None):
            there = tmp_table()
            for _ in range(2):
                new = pa.table({"p": ["a", "a"], "x": [1, 2]})
                write_deltalake(there, new, mode="overwrite", predicate=predicate, partition_by=columns)
            assert pairs(there) == [("a", 1), ("a", 2)]
            assert DeltaTable(there).history(1)[0]["operationParameters"]["predicate"] == predicate
    for predicate in ("p = 'b'", "x > 1", "x > NULL"):
        there = tmp_table()
        with pytest.raises(InvalidArgumentError, match=r"doesn't select: nothing was committed"):
            write_deltalake(there, pa.table({"p": ["a"], "x": [1]}), mode="overwrite", predicate=predicate)
        assert not DeltaTable.is_deltatable(there)


def test_chosen_encodings_replace_dictionaries_where_the_type_has_them(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    rows = pa.table({"n": [5, 3, 4] * 9, "s": ["aa", "ab", "ac"] * 9, "t": [{"f": 1.5}] * 27})
    chosen = {"n": "DELTA_BINARY_PACKED", "s": "DELTA_BYTE_ARRAY", "t.f": "BYTE_STREAM_SPLIT"}

    def write(name: str, **encodings: str) -> None:
        columns = {column: deltaplane.ColumnProperties(encoding=encoding) for column, encoding in encodings.items()}
        properties = deltaplane.WriterProperties(column_properties=columns)
        deltaplane.write_deltalake(tmp_path / name, rows, writer_properties=properties)

    write("t", **chosen)
    (path,) = (tmp_path / "t").glob("*.parquet")
    group = pq.read_metadata(path).row_group(0)
    parts = [group.column(i) for i in range(group.num_columns)]
    assert {part.path_in_schema: chosen[part.path_in_schema] in part.encodings for part in parts} == dict.fromkeys(
        chosen, True
    )
    assert not any("DICTIONARY" in encoding for part in parts for encoding in part.encodings)
    assert deltaplane.DeltaTable(tmp_path / "t").to_pyarrow_table().to_pydict() == rows.to_pydict()
    for column, encoding in (("s", "DELTA_BINARY_PACKED"), ("n", "RLE"), ("gone", "PLAIN"), ("t", "PLAIN"), ("n", "x")):
        with pytest.raises(InvalidArgumentError, match="encoding"):
            write("refused", **{column: encoding})
    assert not deltaplane.DeltaTable.is_deltatable(tmp_path / "refused")
