"""Values as a statement stores them into columns of other types: by the casts that the session's
store assignment policy names.

As in delta-spark, `spark.sql.storeAssignmentPolicy` decides and `spark.sql.ansi.enabled` doesn't.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql.types import ArrayType, DataType, MapType, NullType, StructField, StructType

from deltaplane import _native
from deltaplane.commands.merge.columns import is_wider
from deltaplane.exceptions import SchemaMismatchError, TableNotFoundError
from deltaplane.spark.execution.row_rules import relaxed
from deltaplane.spark.jvm.internals import Jvm, is_on
from deltaplane.spark.jvm.location import absolute_location, split_options
from deltaplane.spark.jvm.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "as_table_takes",
    "check_partitions",
    "follows_ansi",
    "holds_void",
    "store_policy",
    "stored",
    "stored_and_grown",
    "stored_by_name",
    "stored_by_position",
    "widens_columns",
]

_POLICY = "spark.sql.storeAssignmentPolicy"
# Of UPDATE and MERGE: whether `spark.sql.ansi.enabled` decides on casts instead.
_FOLLOWS_ANSI = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"


def follows_ansi(spark: SparkSession) -> bool:
    """Whether UPDATE and MERGE cast as the session's queries do, and not by the policy."""
    return is_on(spark, _FOLLOWS_ANSI)


def store_policy(spark: SparkSession, *, changes_rows: bool = False) -> str:
    """The policy by which the session casts values that are stored: ANSI, LEGACY or STRICT.

    Args:
        spark: the session.
        changes_rows: whether the statement is an UPDATE or a MERGE, which may follow the casts of
            the session's queries.
    """
    if changes_rows and follows_ansi(spark):
        return "ANSI" if str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true" else "LEGACY"
    return str(spark.conf.get(_POLICY, "ANSI")).upper()


def as_table_takes(rows: DataFrame, location: str, options: Mapping[str, str] | None = None) -> DataFrame:
    """The rows with their columns as the newest version of a table has them; see
    `stored_by_name`."""
    snapshot = _native.Snapshot.open(location, split_options(options)[0])
    return stored_by_name(rows, relaxed(snapshot.schema.to_json()))


def check_partitions(columns: Sequence[str], location: str, options: Mapping[str, str] | None = None) -> None:
    """Refuses rows for a table that is there without all of its partition columns, which would be
    null, or with these alone.

    Raises:
        SchemaMismatchError: a partition column is lacking, or every other column.
    """
    try:
        snapshot = _native.Snapshot.open(absolute_location(location), split_options(options)[0])
    except TableNotFoundError:
        return
    partitions = snapshot.info.partition_columns
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


def stored_by_position(rows: DataFrame, schema: StructType, *, listed: bool = False) -> DataFrame:
    """The rows with the schema's columns, which are as many, and fields of structs, found by their
    places. As in delta-spark, fields are found by name in rows that have the columns' names and
    need no cast, unless the statement lists the columns.

    Raises:
        SchemaMismatchError: a type that the session's policy has no cast for, or a struct of
            another number of fields.
    """
    return _placed(rows, schema, listed=listed, grows=False, widens=False)


def stored_and_grown(rows: DataFrame, schema: StructType, *, listed: bool = False, widens: bool = False) -> DataFrame:
    """The rows for a table with this schema that takes new columns: as `stored_by_position`, and
    columns and fields of structs behind those of the schema keep their names and types.

    Args:
        rows: the rows, with at least as many columns as the schema.
        schema: the table's, relaxed.
        listed: whether the statement lists the columns.
        widens: whether columns become wider where values of a wider type come, so that these aren't
            cast.

    Raises:
        SchemaMismatchError: as `stored_by_position`, or a struct with fewer fields than its column.
    """
    return _placed(rows, schema, listed=listed, grows=True, widens=widens)


def _placed(rows: DataFrame, schema: StructType, *, listed: bool, grows: bool, widens: bool) -> DataFrame:
    first = StructType(rows.schema.fields[: len(schema)])
    if not listed and first.names == schema.names and _is_read_compatible(schema, first, widens):
        return rows if grows else stored_by_name(rows, schema)
    jvm, columns = Jvm.of(rows.sparkSession), list[Column]()
    policy = store_policy(rows.sparkSession)
    # Spark's errors name columns: by the rows' own names where each is another one.
    unique = len({name.lower() for name in rows.columns}) == len(rows.columns)
    plain = rows if unique else rows.toDF(*[f"c{i}" for i in range(len(rows.columns))])
    for given, field in zip(plain.schema.fields, schema.fields, strict=not grows):
        column = plain[quoted(given.name)]
        _check_void(field.name, given.dataType, field.dataType)
        to = _by_place(given.dataType, field.dataType, field.name, grows=grows, widens=widens)
        columns.append(
            (column if given.dataType == to else jvm.store_cast(column, to, policy, field.name)).alias(field.name)
        )
    new = zip(plain.columns[len(columns) :], rows.columns[len(columns) :], strict=True)
    columns += [plain[quoted(name)].alias(own) for name, own in new]
    try:
        return plain.select(*columns)
    except AnalysisException as e:
        raise SchemaMismatchError(f"a value doesn't fit its column, cast it: {e}") from e


def _is_read_compatible(own: DataType, brought: DataType, widens: bool) -> bool:
    """Whether values of a type are values of a column's without a cast; structs may have more
    fields, in any order."""
    if isinstance(own, StructType) and isinstance(brought, StructType):
        types = {field.name: field.dataType for field in brought.fields}
        return all(f.name in types and _is_read_compatible(f.dataType, types[f.name], widens) for f in own.fields)
    if isinstance(own, ArrayType) and isinstance(brought, ArrayType):
        return _is_read_compatible(own.elementType, brought.elementType, widens)
    if isinstance(own, MapType) and isinstance(brought, MapType):
        keys = _is_read_compatible(own.keyType, brought.keyType, widens)
        return keys and _is_read_compatible(own.valueType, brought.valueType, widens)
    return own == brought or (widens and is_wider(own.jsonValue(), brought.jsonValue()))


def _by_place(brought: DataType, own: DataType, path: str, *, grows: bool, widens: bool) -> DataType:
    """The type that values of one type are cast to for a column of another one, where fields of
    structs are found by their places."""
    if isinstance(brought, StructType) and isinstance(own, StructType):
        if len(brought.fields) < len(own.fields):
            raise SchemaMismatchError(
                f"a value of `{path}` has {len(brought.fields)} fields for the {len(own.fields)} fields of its column "
                f"({', '.join(own.fieldNames())}), which are found by their places: give them all"
            )
        if not grows and len(brought.fields) > len(own.fields):
            raise SchemaMismatchError(
                f"the data has the column `{path}.{brought.fields[len(own.fields)].name}`, which the table lacks: leave it out, or let "
                "the schema grow"
            )
        pairs = zip(brought.fields, own.fields, strict=False)
        fields = [
            StructField(o.name, _by_place(b.dataType, o.dataType, f"{path}.{o.name}", grows=grows, widens=widens))
            for b, o in pairs
        ]
        return StructType([*fields, *brought.fields[len(fields) :]])
    if isinstance(brought, ArrayType) and isinstance(own, ArrayType) and isinstance(own.elementType, StructType):
        element = _by_place(brought.elementType, own.elementType, f"{path}.element", grows=grows, widens=widens)
        return ArrayType(element)
    if widens and is_wider(own.jsonValue(), brought.jsonValue()):
        return brought
    return own


def widens_columns(configuration: Mapping[str, str]) -> bool:
    """Whether a write that may change the schema of a table with these properties makes columns
    wider."""
    return configuration.get("delta.enableTypeWidening", "false").lower() == "true"


def stored_by_name(rows: DataFrame, schema: StructType) -> DataFrame:
    """The rows with those of their columns as the schema has them that it has; others stay as they
    are.

    Raises:
        SchemaMismatchError: a type that Spark has no cast for, a struct with a field that its
            column lacks.
    """
    own = {field.name.lower(): field.dataType for field in schema.fields}
    fields = [StructField(f.name, own.get(f.name.lower(), f.dataType)) for f in rows.schema.fields]
    try:
        return stored(rows, StructType(fields))
    except AnalysisException as e:
        raise SchemaMismatchError(f"a value doesn't fit its column, cast it: {e}") from e


def stored(rows: DataFrame, schema: StructType, policy: str | None = None, *, checks: bool = True) -> DataFrame:
    """The rows with these columns, found by their names at every depth; others are left out, and
    fields that a struct lacks are null. `policy`: as `store_policy` gives it; None for that of
    statements that add rows. `checks`: whether an overflow has the condition of a table's column.

    Raises:
        AnalysisException: a type that the policy has no cast for.
        SchemaMismatchError: a struct with a field that its column lacks.
    """
    to = {field.name.lower(): field.dataType for field in schema.fields}
    jvm, columns = Jvm.of(rows.sparkSession), list[Column]()
    policy = policy or store_policy(rows.sparkSession)
    for field in rows.schema.fields:
        column = rows[quoted(field.name)]
        _check_void(field.name, field.dataType, to.get(field.name.lower(), field.dataType))
        cast = _with_leaves(field.dataType, to.get(field.name.lower(), field.dataType))
        name = field.name if checks else None
        columns.append(
            column if cast is field.dataType else jvm.store_cast(column, cast, policy, name).alias(field.name)
        )
    return rows.select(*columns).to(schema)


def _check_void(name: str, given: DataType, to: DataType) -> None:
    """Refuses values for a column without a type: Spark's own error says no more than that there is
    no cast."""
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
    """The type with its fields, and what is in them as in another one; itself where that is so
    already. What a cast changes may be null: LEGACY casts give nulls for values that don't fit."""
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
        return StructType(
            [StructField(f.name, new, f.nullable or new is not f.dataType, f.metadata) for f, new in pairs]
        )
    if isinstance(given, ArrayType) and isinstance(to, ArrayType):
        element = _with_leaves(given.elementType, to.elementType)
        return given if element is given.elementType else ArrayType(element)
    if isinstance(given, MapType) and isinstance(to, MapType):
        key, value = _with_leaves(given.keyType, to.keyType), _with_leaves(given.valueType, to.valueType)
        same = key is given.keyType and value is given.valueType
        return given if same else MapType(key, value)
    return given if given == to else to
