"""Bad input yields a typed error or a correct result: never a crash, never a half-written
version."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import (
    CorruptFileError,
    CorruptLogError,
    DeltaError,
    FileMissingError,
    InvalidArgumentError,
    TableNotFoundError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)


def no_table(path: str) -> bool:
    return not (Path(path) / "_delta_log").exists() or not list((Path(path) / "_delta_log").glob("*.json"))


# --- places -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["nosuch://bucket/t", "s3://", "/proc/version/t", "memory://bad-input/none"])
def test_a_wrong_place_is_a_typed_error(where: str) -> None:
    with pytest.raises(DeltaError):
        DeltaTable(where)


def test_a_file_is_no_table(tmp_path: Path) -> None:
    file = tmp_path / "data.parquet"
    file.write_bytes(b"PAR1")
    with pytest.raises(DeltaError):
        DeltaTable(file)
    with pytest.raises(DeltaError):
        write_deltalake(file, pa.table({"x": [1]}))
    assert file.read_bytes() == b"PAR1"


def test_missing_credentials_fail_soon_and_say_so() -> None:
    # A port without a listener: neither the store nor a metadata service may be retried for
    # minutes.
    options = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1"}
    started = time.monotonic()
    with pytest.raises(DeltaError) as e:
        DeltaTable("s3://bucket/table", storage_options=options)
    assert time.monotonic() - started < 60
    assert not isinstance(e.value, TableNotFoundError)


def test_an_error_never_shows_a_secret() -> None:
    options = {
        "AWS_ENDPOINT_URL": "http://127.0.0.1:9",
        "AWS_ALLOW_HTTP": "true",
        "AWS_REGION": "us-east-1",
        "AWS_ACCESS_KEY_ID": "AKIAVERYSECRET",
        "AWS_SECRET_ACCESS_KEY": "hush/hush/hush",
    }
    with pytest.raises(DeltaError) as e:
        DeltaTable("s3://bucket/table", storage_options=options)
    chain: BaseException | None = e.value
    while chain is not None:
        assert "SECRET" not in str(chain)
        assert "hush" not in str(chain)
        chain = chain.__cause__ or chain.__context__


# --- logs and files ---------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_table: Callable[[], str]) -> str:
    where = tmp_table()
    for n in range(3):
        write_deltalake(where, pa.table({"x": [n]}), mode="append")
    return where


def commit(path: str, version: int) -> Path:
    return Path(path) / "_delta_log" / f"{version:020}.json"


@pytest.mark.parametrize("text", ["{", "not json\n", '{"add":{"path":5}}\n', "\x00\x01\n", "[]\n", '{"add":' * 20_000])
def test_a_hostile_commit_is_a_corrupt_log(path: str, text: str) -> None:
    commit(path, 1).write_text(text)
    with pytest.raises(CorruptLogError) as e:
        DeltaTable(path).to_pyarrow_table()
    assert "1" in str(e.value)
    assert DeltaTable(path, version=0).to_pyarrow_table()["x"].to_pylist() == [0]


def test_a_gap_in_the_log_is_a_corrupt_log(path: str) -> None:
    commit(path, 1).unlink()
    with pytest.raises(DeltaError) as e:
        DeltaTable(path)
    assert e.value.kind in ("CorruptLog", "VersionNotFound")


def test_an_unknown_feature_is_refused_by_name(path: str) -> None:
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["antigravity"],
        "writerFeatures": ["antigravity"],
    }
    commit(path, 3).write_text(json.dumps({"protocol": protocol}) + "\n")
    with pytest.raises(UnsupportedFeatureError, match="antigravity"):
        DeltaTable(path)
    with pytest.raises(UnsupportedFeatureError, match="antigravity"):
        write_deltalake(path, pa.table({"x": [1]}), mode="append")


def test_a_missing_data_file_names_file_and_table(path: str) -> None:
    gone = Path(DeltaTable(path).file_uris("x = 1")[0])
    gone.unlink()
    with pytest.raises(FileMissingError) as e:
        DeltaTable(path).to_pyarrow_table()
    assert isinstance(e.value, FileNotFoundError)
    assert gone.name in str(e.value)
    assert Path(path).name in str(e.value)
    # Files that the predicate excludes are never opened.
    assert DeltaTable(path).to_pyarrow_table(filters="x = 2")["x"].to_pylist() == [2]


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all", b"PAR1" + b"\xff" * 100 + b"PAR1"])
def test_a_damaged_data_file_is_named(path: str, content: bytes) -> None:
    file = Path(DeltaTable(path).file_uris("x = 1")[0])
    file.write_bytes(content)
    with pytest.raises(CorruptFileError, match=file.name):
        DeltaTable(path).to_pyarrow_table()


# --- rows and columns -------------------------------------------------------------------------------------------------


def test_no_rows_make_an_empty_table(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"x": pa.array([], pa.int64())}))
    table = DeltaTable(path)
    assert (table.version(), table.files(), table.count()) == (0, [], 0)
    assert table.to_pyarrow_table().schema.names == ["x"]
    write_deltalake(path, pa.table({"x": pa.array([], pa.int64())}), mode="append")
    assert DeltaTable(path).to_pyarrow_table().num_rows == 0


def test_overwriting_with_no_rows_empties(path: str) -> None:
    write_deltalake(path, pa.table({"x": pa.array([], pa.int64())}), mode="overwrite")
    assert DeltaTable(path).to_pyarrow_table().num_rows == 0


def test_no_columns_are_refused(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    with pytest.raises(DeltaError):
        write_deltalake(path, pa.table({}))
    assert no_table(path)


@pytest.mark.parametrize("names", [["a", "a"], ["a", "A"], ["straße", "Straße"]])
def test_names_that_clash_are_refused(tmp_table: Callable[[], str], names: list[str]) -> None:
    path = tmp_table()
    data = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=names)
    with pytest.raises(DeltaError) as e:
        write_deltalake(path, data)
    assert e.value.kind in ("InvalidArgument", "SchemaMismatch")
    assert names[1] in str(e.value) or names[0] in str(e.value)
    assert no_table(path)


def test_clashes_in_structs_are_refused(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    inner = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["x", "X"])
    with pytest.raises(DeltaError):
        write_deltalake(path, pa.table({"s": inner}))
    assert no_table(path)


@pytest.mark.parametrize(
    "name", ["a.b", "back`tick", "ünï", "日本語", "'quote\"", "a-b", "1", "select", "$", "%20", "a:b", "#"]
)
def test_odd_names_work(tmp_table: Callable[[], str], name: str) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({name: ["v", "w"], "n": [1, 2]}), partition_by=[name])
    write_deltalake(path, pa.table({name: ["v"], "n": [3]}), mode="append")
    table = DeltaTable(path)
    assert sorted(table.to_pyarrow_table().to_pylist(), key=lambda r: r["n"]) == [
        {name: "v", "n": 1},
        {name: "w", "n": 2},
        {name: "v", "n": 3},
    ]
    quoted = "`" + name.replace("`", "``") + "`"
    assert table.to_pyarrow_table(columns=[name], filters=f"{quoted} = 'w'").to_pylist() == [{name: "w"}]
    assert table.to_pyarrow_table(filters=[(quoted, "=", "w")])["n"].to_pylist() == [2]


@pytest.mark.parametrize("name", ["a b", "a,b", "a;b", "a{b", "a}b", "a(b", "a)b", "a\nb", "a\tb", "a=b", ""])
def test_names_that_delta_forbids_are_refused(tmp_table: Callable[[], str], name: str) -> None:
    path = tmp_table()
    with pytest.raises(DeltaError) as e:
        write_deltalake(path, pa.table({name: [1], "n": [2]}))
    assert e.value.kind in ("InvalidArgument", "SchemaMismatch", "UnsupportedFeature")
    assert no_table(path)


@pytest.mark.parametrize("partition_by", [["nosuch"], ["x", "x"], ["x", "y", "s", "l"], ["l"], ["s"], ["X", "x"]])
def test_invalid_partition_columns_are_refused(tmp_table: Callable[[], str], partition_by: list[str]) -> None:
    path = tmp_table()
    data = pa.table({"x": [1], "y": ["a"], "s": [{"f": 1}], "l": [[1]]})
    with pytest.raises(DeltaError) as e:
        write_deltalake(path, data, partition_by=partition_by)
    assert any(name in str(e.value) for name in partition_by)
    assert no_table(path)


def test_all_columns_as_partitions_are_refused(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    with pytest.raises(InvalidArgumentError):
        write_deltalake(path, pa.table({"x": [1], "y": [2]}), partition_by=["x", "y"])
    assert no_table(path)


def test_types_without_delta_counterpart_are_refused_by_name(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    with pytest.raises(DeltaError, match="took"):
        write_deltalake(path, pa.table({"took": pa.array([1], pa.duration("s"))}))
    assert no_table(path)


@pytest.mark.slow
def test_twenty_thousand_columns(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    data = pa.table({f"c{n}": [n, n + 1] for n in range(20_000)})
    write_deltalake(path, data)
    table = DeltaTable(path)
    assert len(table.schema().fields) == 20_000
    assert table.to_pyarrow_table(columns=["c19999", "c0"], filters="c7 = 8").to_pylist() == [
        {"c19999": 20_000, "c0": 1}
    ]
    assert table.to_pyarrow_table().equals(data)


# --- conditions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("predicate", "error"),
    [
        ("x >", InvalidArgumentError),
        ("", InvalidArgumentError),
        ("x = 1; DROP TABLE t", InvalidArgumentError),
        ("soundex(x) = 'a'", UnsupportedExpressionError),
        ("x = (SELECT 1)", UnsupportedExpressionError),
        ("x = 'no number'", InvalidArgumentError),
        ([("x", "~", 1)], InvalidArgumentError),
        ([("x", "=")], InvalidArgumentError),
        (5, InvalidArgumentError),
    ],
)
def test_bad_conditions_are_typed(path: str, predicate: Any, error: type[DeltaError]) -> None:
    with pytest.raises((error, UnsupportedExpressionError) if error is InvalidArgumentError else error):
        DeltaTable(path).scan(predicate=predicate).to_arrow()
