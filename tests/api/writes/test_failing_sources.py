"""A user's source that fails: one error in every command, with the source's exception."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, GroupWriter, sql, write_deltalake
from deltaplane.exceptions import (
    CorruptFileError,
    DeltaError,
    FileMissingError,
    InvalidArgumentError,
    SchemaMismatchError,
)

SCHEMA = pa.schema([("x", pa.int64())])


class OwnError(Exception):
    pass


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(str(tmp_path / "t"), pa.table({"x": [1]}, SCHEMA))
    return DeltaTable(str(tmp_path / "t"))


def failing(error: Exception) -> Iterator[pa.RecordBatch]:
    yield pa.record_batch({"x": [1]}, SCHEMA)
    raise error


class Exported:
    """Returns its rows through a C stream, which transports an error's text but no exception."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(SCHEMA, failing(self._error)).__arrow_c_stream__(requested_schema)


COMMANDS: dict[str, Callable[[DeltaTable, Any], Any]] = {
    "append": lambda t, rows: write_deltalake(t, rows, mode="append"),
    "overwrite": lambda t, rows: write_deltalake(t, rows, mode="overwrite"),
    "dry run": lambda t, rows: write_deltalake(t, rows, mode="append", dry_run=True),
    "predicate": lambda t, rows: write_deltalake(t, rows, mode="overwrite", predicate="x = 1"),
    "replace_using": lambda t, rows: write_deltalake(t, rows, mode="overwrite", replace_using=["x"]),
    "merge": lambda t, rows: (
        t.merge(rows, "t.x = s.x", source_alias="s", target_alias="t").when_not_matched_insert_all().execute()
    ),
    "group": lambda t, rows: grouped(t, rows),
}


def grouped(table: DeltaTable, rows: Any) -> None:
    with GroupWriter(table.location) as writer:
        writer.append(rows)


def raised(table: DeltaTable, command: str, rows: Any) -> DeltaError:
    with pytest.raises(DeltaError) as caught:
        COMMANDS[command](table, rows)
    assert DeltaTable(table.location).to_pyarrow_table()["x"].to_pylist() == [1]
    return caught.value


@pytest.mark.parametrize("ruled", [False, True])
@pytest.mark.parametrize("command", COMMANDS)
def test_the_sources_own_exception_is_the_cause(table: DeltaTable, command: str, ruled: bool) -> None:
    if ruled:
        table.alter.add_constraint({"small": "x < 100"})
    for rows in (lambda e: pa.RecordBatchReader.from_batches(SCHEMA, failing(e)), failing):
        own = OwnError("my own source\nfailed")
        error = raised(table, command, rows(own))
        assert type(error) is InvalidArgumentError
        assert str(error).startswith("the source's rows can't be read: my own source failed (OwnError)")
        assert error.__cause__ is own


@pytest.mark.parametrize("command", COMMANDS)
def test_a_stream_in_c_has_the_words(table: DeltaTable, command: str) -> None:
    error = raised(table, command, Exported(OwnError("my own source failed")))
    assert type(error) is InvalidArgumentError
    assert str(error).startswith("the source's rows can't be read: my own source failed")
    assert "Traceback" not in str(error)
    assert isinstance(error.__cause__, pa.ArrowInvalid)


@pytest.mark.parametrize("command", COMMANDS)
def test_errors_of_this_package_come_out_themselves(table: DeltaTable, command: str, tmp_path: Path) -> None:
    own = CorruptFileError("mine", table="elsewhere")
    assert raised(table, command, failing(own)) is own
    assert own.table == "elsewhere"
    write_deltalake(str(tmp_path / "gone"), pa.table({"x": [1]}, SCHEMA))
    gone = DeltaTable(str(tmp_path / "gone"))
    next((tmp_path / "gone").glob("*.parquet")).unlink()
    sources: list[Any] = [gone, gone.scan(), gone.to_reader()]
    for source in sources:
        error = raised(table, command, source)
        assert isinstance(error, FileMissingError)
        assert "gone" in str(error.table)


@pytest.mark.parametrize("command", COMMANDS)
def test_values_and_sources_that_fail_elsewhere(table: DeltaTable, command: str) -> None:
    boom = "SELECT CASE WHEN i > 5000 THEN error('boom') ELSE i END::BIGINT AS x FROM range(100000) t(i)"
    connection = duckdb.connect()
    sources: list[tuple[Any, str]] = [
        ((1 // 0 for _ in range(1)), "by zero"),
        # Evaluating it yields no frame, which is the text of Polars' error.
        (pl.LazyFrame({"x": [1]}).map_batches(lambda _: 1 // 0), "by zero"),  # type: ignore[arg-type,return-value]
        (connection.sql(boom), "boom"),
        (iter([pa.record_batch({"x": [1]}), 5]), "TypeError"),
        ([pa.record_batch({"x": [1]}), pa.record_batch({"x": [1.0]})], r"\(x: double\), the source \(x: int64\)"),
    ]
    for source, words in sources:
        with pytest.raises(InvalidArgumentError, match=f"the source's rows can't be read: .*{words}"):
            COMMANDS[command](table, source)


def test_a_value_that_the_engine_does_not_take_is_said(tmp_path: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "times"), pa.schema([("x", pa.timestamp("us"))]))
    with pytest.raises(SchemaMismatchError, match=r"^column `x` of type Timestamp\(ns\) .* nanoseconds"):
        COMMANDS["merge"](table, pa.table({"x": pa.array([1], pa.timestamp("ns"))}))


def test_a_query_says_where_the_source_stands() -> None:
    with pytest.raises(InvalidArgumentError, match="line 1, column 22: the source's rows can't be read: mine"):
        sql("SELECT count(*) FROM r", tables={"r": failing(OwnError("mine"))})


def test_the_user_may_stop_it(table: DeltaTable) -> None:
    def stopped() -> Iterator[pa.RecordBatch]:
        raise KeyboardInterrupt
        yield

    with pytest.raises(KeyboardInterrupt):
        write_deltalake(table, stopped(), mode="append")
