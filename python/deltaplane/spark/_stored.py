"""Values as a statement stores them into columns of other types: by casts that fail where a value doesn't fit.

Also where a session's own casts are lenient, as in delta-spark; a text becomes a number. Called by `_rewriting`, the writers and
`statements.insert`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from deltaplane import _native
from deltaplane.exceptions import SchemaMismatchError, TableNotFoundError
from deltaplane.spark._internals import Jvm
from deltaplane.spark._location import absolute_location, split_options
from deltaplane.spark._row_rules import relaxed
from deltaplane.spark._schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["as_table_takes", "check_partitions", "holds_void", "stored", "stored_by_name", "stored_by_position"]


def as_table_takes(rows: DataFrame, location: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """The rows with their columns as the newest version of a table has them; see `stored_by_name`."""
    snapshot = _native.Snapshot.open(location, split_options(options)[0])
    return stored_by_name(rows, relaxed(snapshot.schema_json()))


def check_partitions(columns: Sequence[str], location: str, options: Mapping[str, str] | None = None) -> None:
    """Refuses rows for a table that is there without all of its partition columns, which would be null, or with these alone.

    Raises:
        SchemaMismatchError: a partition column is lacking, or every other column.
    """
    try:
        snapshot = _native.Snapshot.open(absolute_location(location), split_options(options)[0])
    except TableNotFoundError:
        return
    partitions = json.loads(snapshot.metadata_json())["partition_columns"]
    given = {name.lower() for name in columns}
    if lacking := [name for name in partitions if name.lower() not in given]:
        raise SchemaMismatchError(
            f"the data lacks the partition column `{lacking[0]}`, so that no row has a place in the table: add the column to the "
            f"data, which has {', '.join(columns)}; as null where that is meant",
            table=location,
        )
    if partitions and given == {name.lower() for name in partitions}:
        raise SchemaMismatchError(
            f"the data has only partition columns ({', '.join(columns)}): add at least one other column of the table",
            table=location,
        )


def stored_by_position(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with the schema's columns, which are as many, and fields of structs, found by their places.

    Raises:
        SchemaMismatchError: a type that Spark has no cast for, or a struct of another number of fields.
    """
    jvm, columns = Jvm.of(rows.sparkSession), list[Column]()
    plain = rows.toDF(*[f"c{i}" for i in range(len(schema.fields))])
    for given, field in zip(plain.schema.fields, schema.fields, strict=True):
        column = plain[given.name]
        _check_void(field.name, given.dataType, field.dataType)
        same = given.dataType == field.dataType
        columns.append((column if same else jvm.strict_cast(column, field.dataType)).alias(field.name))
    try:
        return plain.select(*columns)
    except AnalysisException as e:
        raise SchemaMismatchError(f"a value doesn't fit its column, cast it: {e}") from e


def stored_by_name(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with those of their columns as the schema has them that it has; others stay as they are.

    Raises:
        SchemaMismatchError: a type that Spark has no cast for, a struct with a field that its column lacks.
    """
    own = {field.name.lower(): field.dataType for field in schema.fields}
    fields = [StructField(f.name, own.get(f.name.lower(), f.dataType)) for f in rows.schema.fields]
    try:
        return stored(rows, StructType(fields))
    except AnalysisException as e:
        raise SchemaMismatchError(f"a value doesn't fit its column, cast it: {e}") from e


def stored(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with these columns, found by their names at every depth; others are left out, and fields that a struct
    lacks are null.

    Raises:
        AnalysisException: a type that Spark has no cast for.
        SchemaMismatchError: a struct with a field that its column lacks.
    """
    to = {field.name.lower(): field.dataType for field in schema.fields}
    jvm, columns = Jvm.of(rows.sparkSession), list[Column]()
    for field in rows.schema.fields:
        column = rows[quoted(field.name)]
        _check_void(field.name, field.dataType, to.get(field.name.lower(), field.dataType))
        cast = _with_leaves(field.dataType, to.get(field.name.lower(), field.dataType))
        columns.append(column if cast is field.dataType else jvm.strict_cast(column, cast).alias(field.name))
    return rows.select(*columns).to(schema)


def _check_void(name: str, given: DataType, to: DataType) -> None:
    """Refuses values for a column without a type: Spark's own error says no more than that there is no cast."""
    if isinstance(to, NullType) and not isinstance(given, NullType):
        raise SchemaMismatchError(
            f"column `{name}` has no type in the table yet (void: only nulls), found {given.simpleString()} in the data: the "
            "option mergeSchema gives it this type"
        )


def holds_void(of: DataType) -> bool:
    """Whether a type is void, or one in it is."""
    if isinstance(of, StructType):
        return any(holds_void(field.dataType) for field in of.fields)
    if isinstance(of, ArrayType):
        return holds_void(of.elementType)
    if isinstance(of, MapType):
        return holds_void(of.keyType) or holds_void(of.valueType)
    return isinstance(of, NullType)


def _with_leaves(given: DataType, to: DataType) -> DataType:
    """The type with its fields, and what is in them as in another one; itself where that is so already."""
    if isinstance(given, NullType):
        return given
    if isinstance(given, StructType) and isinstance(to, StructType):
        own = {field.name.lower(): field.dataType for field in to.fields}
        if unknown := [field.name for field in given.fields if field.name.lower() not in own]:
            raise SchemaMismatchError(
                f"a value has the field `{unknown[0]}`, which its column lacks (it has {', '.join(to.fieldNames())}): "
                "leave the field out, or add it to the table first"
            )
        types = [_with_leaves(f.dataType, own[f.name.lower()]) for f in given.fields]
        if all(new is f.dataType for new, f in zip(types, given.fields, strict=True)):
            return given
        pairs = zip(given.fields, types, strict=True)
        return StructType([StructField(f.name, new, f.nullable, f.metadata) for f, new in pairs])
    if isinstance(given, ArrayType) and isinstance(to, ArrayType):
        element = _with_leaves(given.elementType, to.elementType)
        return given if element is given.elementType else ArrayType(element, given.containsNull)
    if isinstance(given, MapType) and isinstance(to, MapType):
        key, value = _with_leaves(given.keyType, to.keyType), _with_leaves(given.valueType, to.valueType)
        same = key is given.keyType and value is given.valueType
        return given if same else MapType(key, value, given.valueContainsNull)
    return given if given == to else to
