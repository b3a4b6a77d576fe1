"""Every public function, called with each of its arguments of a wrong type, raises a typed error
that names the argument."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidTypeError
from deltaplane.schema import ArrayType, Field, MapType, PrimitiveType, Schema, StructType

ROWS = pa.table({"p": ["a", "b"], "x": [1, 2]})
_NUMBERS = itertools.count()

# The required arguments of a call besides the invalid one.
NEEDED: dict[str, dict[str, Any]] = {
    "DeltaTable": {"table_uri": "memory://argument-types/none"},
    "DeltaTable.is_deltatable": {"table_uri": "memory://argument-types/none"},
    "DeltaTable.history_of": {"table_uri": "memory://argument-types/none"},
    "DeltaTable.create": {"table_uri": "memory://argument-types/new", "schema": ROWS.schema},
    "DeltaTable.plan_create": {"table_uri": "memory://argument-types/new", "schema": ROWS.schema},
    "DeltaTable.load_as_version": {"version": 0},
    "DeltaTable.transaction_version": {"app_id": "a"},
    "DeltaTable.set_domain_metadata": {"domain": "d", "configuration": "{}"},
    "DeltaTable.remove_domain_metadata": {"domain": "d"},
    "DeltaTable.compact_logs": {"starting_version": 0, "ending_version": 1},
    "DeltaTable.clone": {"target": "memory://argument-types/clone"},
    "DeltaTable.diff": {"from_version": 0},
    "DeltaTable.merge": {"source": ROWS, "predicate": "t.x = s.x"},
    "DeltaTable.restore": {"target": 0},
    "DeltaTable.update": {"updates": {"x": "1"}},
    "TableAlterer.add_columns": {"fields": Field("new", "long")},
    "TableAlterer.replace_columns": {"fields": [Field("x", "long")]},
    "TableAlterer.reorder": {"column": "x", "first": True},
    "TableAlterer.rename_column": {"column": "x", "new_name": "y"},
    "TableAlterer.drop_columns": {"columns": ["x"]},
    "TableAlterer.change_column_type": {"column": "x", "new_type": "long"},
    "TableAlterer.set_comment": {"column": "x", "comment": "c"},
    "TableAlterer.set_column_metadata": {"column": "x", "metadata": {}},
    "TableAlterer.drop_column_not_null": {"column": "x"},
    "TableAlterer.set_nullable": {"column": "x"},
    "TableAlterer.set_default": {"column": "x", "expression": "1"},
    "TableAlterer.drop_default": {"column": "x"},
    "TableAlterer.set_table_name": {"name": "n"},
    "TableAlterer.set_table_description": {"description": "d"},
    "TableAlterer.set_table_properties": {"properties": {}},
    "TableAlterer.unset_table_properties": {"properties": ["a"]},
    "TableAlterer.cluster_by": {"columns": ["x"]},
    "TableAlterer.add_constraint": {"constraints": {"c": "x > 0"}},
    "TableAlterer.drop_constraint": {"name": "c"},
    "TableAlterer.add_feature": {"feature": "deletionVectors"},
    "TableAlterer.drop_feature": {"feature": "deletionVectors"},
    "TableMerger.when_matched_update": {"updates": {"x": "1"}},
    "TableMerger.when_not_matched_insert": {"updates": {"x": "1"}},
    "TableMerger.when_not_matched_by_source_update": {"updates": {"x": "1"}},
    "TableOptimizer.z_order": {"columns": ["x"]},
    "GroupWriter": {"table_or_uri": "memory://argument-types/none"},
    "GroupWriter.append": {"data": ROWS},
    "OnceWriter": {"table_or_uri": "memory://argument-types/none"},
    "OnceWriter.last_version": {"app_id": "a"},
    "OnceWriter.append": {"batch": ROWS, "app_id": "a", "version": 1},
    "QueryBuilder.register": {"table_name": "t"},
    "QueryBuilder.execute": {"sql": "SELECT 1"},
    "QueryResult.equals": {"other": ROWS},
    "Transaction": {"app_id": "a", "version": 1},
    "BloomFilterProperties": {"set_bloom_filter_enabled": True},
    "PrimitiveType": {"type": "long"},
    "ArrayType": {"element_type": "long"},
    "MapType": {"key_type": "long", "value_type": "long"},
    "Field": {"name": "x", "type": "long"},
    "StructType": {"fields": []},
    "Schema": {"fields": []},
    "convert_to_deltalake": {"uri": "memory://argument-types/none"},
    "copy_into": {"table_or_uri": "memory://argument-types/t", "source": "/no/such/place"},
    "register_log_store": {"scheme": "argtypes", "factory": lambda a, o: None},
    "observe_tables": {"tables": []},
    "sql": {"text": "SELECT 1"},
    "Catalog": {"uri": "sqlite:////no/such/place/lake.db"},
    "Catalog.create_catalog": {"name": "main"},
    "Catalog.create_schema": {"name": "main.s"},
    "Catalog.create_table": {"name": "main.s.t", "schema": ROWS.schema},
    "Catalog.create_token": {"principal": "p"},
    "Catalog.drop": {"name": "main.s.t"},
    "Catalog.exists": {"name": "main.s.t"},
    "Catalog.grant": {"principal": "p", "access": "READ"},
    "Catalog.info": {"name": "main.s.t"},
    "Catalog.location": {"name": "main.s.t"},
    "Catalog.register": {"name": "main.s.t", "location": "memory://argument-types/t"},
    "Catalog.rename": {"name": "main.s.t", "new_name": "u"},
    "Catalog.revoke_tokens": {"principal": "p"},
    "Catalog.table": {"name": "main.s.t"},
    "Catalog.tables": {"schema": "main.s"},
    "write_deltalake": {"table_or_uri": "memory://argument-types/t", "data": ROWS},
}
# Parameters that accept any type; their errors describe the content and don't name the argument.
ANYTHING = ("Any", "object")
# Parameters that external callers never pass.
INTERNAL = {"operation", "run_command", "requested_schema"}


def table() -> DeltaTable:
    path = f"memory://argument-types/{next(_NUMBERS)}"
    write_deltalake(path, ROWS)
    return DeltaTable(path)


NEEDED["transaction"] = {"catalog": deltaplane.Catalog("sqlite:////no/such/place/lake.db")}
NEEDED["prove_erased"] = {"table": table(), "where": "x = 1"}


def surface() -> Iterator[tuple[str, Callable[..., Any], Callable[[], Callable[..., Any]]]]:
    """Each public function: its name, the function for its signature, and a factory for a
    callable."""
    for name in (
        "convert_to_deltalake",
        "copy_into",
        "disable_opentelemetry",
        "enable_opentelemetry",
        "observe_tables",
        "prove_erased",
        "register_log_store",
        "sql",
        "transaction",
        "write_deltalake",
    ):
        function = getattr(deltaplane, name)
        yield name, function, lambda function=function: function
    classes = ("Transaction", "CommitProperties", "PostCommitHookProperties", "BloomFilterProperties")
    for name in (
        *classes,
        "ColumnProperties",
        "WriterProperties",
        "DeltaTable",
        "GroupWriter",
        "OnceWriter",
        "Catalog",
    ):
        cls = getattr(deltaplane, name)
        yield name, cls, lambda cls=cls: cls
    for cls in (PrimitiveType, ArrayType, MapType, Field, StructType, Schema):
        yield cls.__name__, cls, lambda cls=cls: cls
    objects: list[tuple[str, Callable[[], Any]]] = [
        ("DeltaTable", table),
        ("TableAlterer", lambda: table().alter),
        ("TableOptimizer", lambda: table().optimize),
        ("TableMerger", lambda: table().merge(ROWS, "t.x = s.x", "s", "t")),
        ("GroupWriter", lambda: deltaplane.GroupWriter(table())),
        ("OnceWriter", lambda: deltaplane.OnceWriter(table())),
        ("Catalog", lambda: deltaplane.Catalog("sqlite:////no/such/place/lake.db")),
        ("QueryBuilder", deltaplane.QueryBuilder),
        ("QueryResult", lambda: deltaplane.sql("SELECT 1")),
    ]
    for owner, make in objects:
        for name, member in inspect.getmembers(type(make())):
            if name.startswith("_") or name in INTERNAL or not callable(member):
                continue
            yield f"{owner}.{name}", member, lambda make=make, name=name: getattr(make(), name)


FUNCTIONS = {name: (function, get) for name, function, get in surface()}


def wrong_values(annotation: str, default: Any) -> Iterator[Any]:
    """Values that no type in an annotation accepts."""
    yield object()
    if any(word in annotation for word in ANYTHING):
        return
    yield b"bytes"
    yield pd.NaT
    yield np.datetime64("NaT")
    yield float("nan")
    if not any(word in annotation for word in ("str", "Uri", "Version", "Predicate", "Literal", "DataType")):
        yield "text"
    if not any(word in annotation for word in ("int", "float", "Version")):
        yield 7
    if "bool" not in annotation:
        yield True
    if not any(word in annotation for word in ("list", "Sequence", "Iterable", "Predicate", "tuple", "Fields")):
        yield ["x"]
    if not any(word in annotation for word in ("Mapping", "dict", "StorageOptions")):
        yield {"x": 1}
    elif "Mapping[str, str" in annotation:
        yield {"x": object()}
        yield {7: "x"}
    if "list[str]" in annotation or "Sequence[str]" in annotation:
        yield [7]
        yield [None]
    if "None" not in annotation and default is not None:
        yield None


def called_wrongly(name: str, call: Callable[..., Any], parameter: str, value: Any) -> str | None:
    """The problem with a failure's exception; None if it is as required."""
    function = FUNCTIONS[name][0]
    arguments = {**NEEDED.get(name, {}), parameter: value}
    by_position = inspect.signature(function).parameters[parameter].kind is inspect.Parameter.VAR_POSITIONAL
    try:
        made = call(value) if by_position else call(**arguments)
        # A generator or context manager raises at its first step.
        if inspect.isgenerator(made):
            next(made)
        elif hasattr(made, "__enter__") and not isinstance(made, deltaplane.GroupWriter):
            made.__enter__()
    except DeltaError as e:
        named = parameter in str(e) or annotation_of(function, parameter) in ANYTHING
        return None if named else f"{type(e).__name__} doesn't name it: {e}"
    except BaseException as e:  # noqa: BLE001 - whatever else comes out is a fault
        return f"{type(e).__module__}.{type(e).__name__}: {str(e)[:150]}"
    return "no error"


def annotation_of(function: Callable[..., Any], parameter: str) -> str:
    return str(inspect.signature(function).parameters[parameter].annotation)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_argument_of_a_wrong_type_is_named(name: str) -> None:
    faults = []
    function, get = FUNCTIONS[name]
    # One object for all calls, since none of them changes anything.
    parameters, call = inspect.signature(function).parameters, get()
    for parameter in parameters.values():
        if parameter.annotation is parameter.empty or parameter.name in INTERNAL or parameter.name == "self":
            continue
        # Options that are passed on to a library.
        if parameter.kind is inspect.Parameter.VAR_KEYWORD and str(parameter.annotation) == "Any":
            continue
        for value in wrong_values(str(parameter.annotation), parameter.default):
            fault = called_wrongly(name, call, parameter.name, value)
            if fault is not None:
                faults.append(f"{parameter.name}={value!r} ({parameter.annotation}): {fault}")
    assert faults == []


def test_the_walk_sees_every_public_name() -> None:
    values = {"AlterPlan", "CopyResult", "DataType", "DeltaError", "DryRun", "LogStore", "Metadata", "NewRows"}
    values |= {"ErasureReport", "TableTransaction"}
    values |= {"PlanExplanation", "ProtocolVersions", "StoredObject", "TableFeatures", "WriteResult", "__version__"}
    walked = {name.split(".")[0] for name in FUNCTIONS}
    assert set(deltaplane.__all__) == values | (
        walked - {"PrimitiveType", "ArrayType", "MapType", "StructType", "TableMerger", "TableOptimizer"}
    )
    assert issubclass(InvalidTypeError, (ValueError, TypeError))
    assert "InvalidTypeError" in exceptions.__all__


def test_values_of_libraries_are_taken_as_python_s_own() -> None:
    opened = table()
    assert opened.history(np.int64(1))[0]["version"] == 0
    assert DeltaTable(opened.table_uri, version=np.int32(0)).version() == 0
    assert opened.scan(("x",)).to_arrow().column_names == ["x"]
    assert opened.delete("x = 1", dry_run=np.bool_(True)).rows["numDeletedRows"] == 1
