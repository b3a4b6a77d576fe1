"""Names shared with deltalake take the same arguments, so that code is ported by changing the
import."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import deltalake.table
import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane.spark.writing import frame_writer
from deltaplane.table.delta_table import _INSTEAD
from deltaplane.table.merge import TableMerger
from deltaplane.write.intent import FrameWriteOptions, WriteIntent, WriteOptions, _Options

# Arguments that deltalake has deprecated; deliberately not supported.
_DEPRECATED = {"args", "raise_if_key_not_exists"}
# Arguments that only deltaplane has.
_MORE = {
    "cluster_by",
    "dry_run",
    "ignore_unfinished_vacuum",
    "inventory",
    "memory_limit",
    "partition_overwrite_mode",
    "progress",
    "read_version",
    "replace_on",
    "replace_using",
    "source_alias",
    "target_alias",
    "temp_directory",
    "operation",
}

PUBLIC = [name for name in dir(DeltaTable) if not name.startswith("_")]
SHARED = [name for name in PUBLIC if hasattr(deltalake.DeltaTable, name)]


def parameters(function: Callable[..., Any]) -> dict[str, Any]:
    return {name: p for name, p in inspect.signature(function).parameters.items() if name not in _DEPRECATED}


def own(function: Callable[..., Any], theirs: dict[str, Any]) -> dict[str, Any]:
    return {name: p for name, p in parameters(function).items() if name in theirs or name not in _MORE}


@pytest.mark.parametrize("name", [n for n in SHARED if callable(getattr(DeltaTable, n))])
def test_methods_take_the_same_arguments(name: str) -> None:
    theirs = parameters(getattr(deltalake.DeltaTable, name))
    ours = own(getattr(DeltaTable, name), theirs)
    assert list(ours) == list(theirs)
    # Compares by `repr`: some of deltalake's defaults are sentinel objects for False and None.
    assert {n: repr(p.default) for n, p in ours.items()} == {n: repr(p.default) for n, p in theirs.items()}


@pytest.mark.parametrize(
    "name",
    ["DeltaTable", "convert_to_deltalake", "write_deltalake", "CommitProperties", "Transaction", "WriterProperties"],
)
def test_public_callables_take_the_same_arguments(name: str) -> None:
    theirs = parameters(getattr(deltalake, name))
    ours = own(getattr(deltaplane, name), theirs)
    assert list(ours) == list(theirs)
    assert {n: p.default for n, p in ours.items()} == {n: p.default for n, p in theirs.items()}


def test_merges_have_the_same_clauses() -> None:
    for name, theirs in inspect.getmembers(deltalake.table.TableMerger, inspect.isfunction):
        if not name.startswith("_"):
            expected = parameters(theirs)
            ours = own(getattr(TableMerger, name), expected)
            assert {n: p.default for n, p in ours.items()} == {n: p.default for n, p in expected.items()}


def test_metadata_and_protocol_have_the_same_fields() -> None:
    theirs = {n for n in vars(deltalake.Metadata) if not n.startswith("_")}
    assert set(deltaplane.Metadata.__dataclass_fields__) == theirs
    assert deltaplane.ProtocolVersions._fields == deltalake.table.ProtocolVersions._fields


def test_every_name_of_deltalake_is_there_or_says_that_it_is_not_yet(tmp_table: Callable[[], str]) -> None:
    theirs = {name for name in dir(deltalake.DeltaTable) if not name.startswith("_")}
    assert theirs - set(PUBLIC) == set(_INSTEAD)


def test_a_missing_method_says_what_to_do() -> None:
    import pyarrow as pa

    deltaplane.write_deltalake("memory://signatures/t", pa.table({"x": [1]}))
    table = DeltaTable("memory://signatures/t")
    assert not hasattr(table, "create_write_transaction")
    with pytest.raises(
        AttributeError, match=r"DeltaTable\.create_write_transaction isn't in this .*: use write_deltalake"
    ):
        table.create_write_transaction  # noqa: B018
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        table.nonsense  # noqa: B018


# Names that this version lacks: nanoseconds, a variant type in its own schemas, OpenTelemetry, the
# version of another core.
_WITHOUT = {"VariantType", "enable_nanosecond_timestamps", "init_tracing", "rust_core_version"}


def test_every_name_but_a_few_is_there() -> None:
    assert {name for name in deltalake.__all__ if not hasattr(deltaplane, name)} == _WITHOUT
    for module in ("exceptions", "writer"):
        theirs, ours = (importlib.import_module(f"{package}.{module}") for package in ("deltalake", "deltaplane"))
        named = getattr(theirs, "__all__", None) or [n for n, v in vars(theirs).items() if isinstance(v, type)]
        assert [name for name in named if not hasattr(ours, name)] == []
    # Their module `transaction` has settings of commits; ours is a function.
    from deltalake import transaction

    assert all(hasattr(deltaplane, name) for name in ("CommitProperties", "PostCommitHookProperties", "Transaction"))
    assert callable(deltaplane.transaction)
    assert not callable(transaction)


@pytest.mark.parametrize("name", ["BloomFilterProperties", "ColumnProperties", "QueryBuilder"])
def test_settings_and_queries_take_the_same_arguments(name: str) -> None:
    theirs, ours = parameters(getattr(deltalake, name)), parameters(getattr(deltaplane, name))
    assert {n: p.default for n, p in ours.items()} == {n: p.default for n, p in theirs.items()}


def test_features_have_the_same_names(tmp_path: Path) -> None:
    theirs = {name for name in dir(deltalake.TableFeatures) if not name.startswith("_")}
    assert set(deltaplane.TableFeatures.__members__) == theirs
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    ours, also = deltaplane.TableFeatures, deltalake.TableFeatures
    named = [ours.DeletionVectors, ours.V2Checkpoint, ours.TimestampWithoutTimezone, also.AppendOnly]
    DeltaTable(tmp_path).alter.add_feature(named, allow_protocol_versions_increase=True)
    expected = {"deletionVectors", "v2Checkpoint", "timestampNtz", "appendOnly"}
    assert expected <= set(DeltaTable(tmp_path).protocol().writer_features or ())


def test_errors_are_caught_by_deltalakes_names(tmp_path: Path) -> None:
    with pytest.raises(exceptions.CommitFailedError):
        raise exceptions.ConcurrentAppendException("another writer was first")
    write_deltalake(tmp_path, pa.table({"x": [1]}))
    DeltaTable(tmp_path).alter.add_constraint({"few": "x < 5"})
    with pytest.raises(exceptions.DeltaProtocolError, match="few"):
        write_deltalake(tmp_path, pa.table({"x": [7]}), mode="append")


def test_queries_over_named_tables(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"x": [1, 2, 3]}))
    tables = deltaplane.QueryBuilder().register("t", DeltaTable(tmp_path)).register("u", DeltaTable(tmp_path))
    result = tables.execute("SELECT count(*) AS n FROM t JOIN u ON t.x < u.x")
    assert isinstance(result, pa.RecordBatchReader)
    assert result.read_all().to_pylist() == [{"n": 3}]
    with pytest.raises(exceptions.UnsupportedFeatureError, match=r"no setting datafusion\.x"):
        deltaplane.QueryBuilder({"datafusion.x": "1"})


def test_settings_of_columns_are_refused_by_name(tmp_path: Path) -> None:
    columns = {"x": deltaplane.ColumnProperties(statistics_enabled="NONE")}
    settings = deltaplane.WriterProperties(column_properties=columns)
    with pytest.raises(exceptions.UnsupportedFeatureError, match="column_properties"):
        write_deltalake(tmp_path, pa.table({"x": [1]}), writer_properties=settings)


def options_of(typed: type) -> dict[str, str]:
    """The keys of a TypedDict, with their types as text."""
    return {name: written.__forward_arg__ for name, written in typed.__annotations__.items()}


@pytest.mark.parametrize(
    ("function", "options"), [(write_deltalake, WriteOptions), (frame_writer.write, FrameWriteOptions)]
)
def test_overloads_name_every_argument_once(function: Callable[..., Any], options: type) -> None:
    """The overloads of both entry points take the functions' arguments, and one intent has the
    arguments that both share."""
    named = {n: p for n, p in inspect.signature(function).parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert {*options_of(options)} == {*named} - {"dry_run"}
    short = {"Literal['error', 'append', 'overwrite', 'ignore']": "Mode", "Literal['merge', 'overwrite']": "SchemaMode"}
    for name, written in options_of(options).items():
        annotation = named[name].annotation.replace('"', "'")
        for long, alias in short.items():
            annotation = annotation.replace(long, alias)
        assert written.replace('"', "'") == annotation, name
    intent = {f.name for f in dataclasses.fields(WriteIntent)}
    assert {*_Options.__annotations__} <= intent
