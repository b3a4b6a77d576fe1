"""Casts values for storing them in columns of other types, by the session's store assignment
policy.

As in delta-spark, `spark.sql.storeAssignmentPolicy` decides, not `spark.sql.ansi.enabled`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, cast

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

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
    "check_fields",
    "check_has_partitions",
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
# The setting by which `spark.sql.ansi.enabled` decides about casts in UPDATE and MERGE instead.
_FOLLOWS_ANSI = "spark.databricks.delta.updateAndMergeCastingFollowsAnsiEnabledFlag"


def follows_ansi(spark: SparkSession) -> bool:
    """Whether UPDATE and MERGE cast as the session's queries do, and not by the policy."""
    return is_on(spark, _FOLLOWS_ANSI)


def store_policy(spark: SparkSession, *, changes_rows: bool = False) -> str:
    """The session's policy for casting stored values: ANSI, LEGACY or STRICT.

    Args:
        spark: the session.
        changes_rows: whether the statement is an UPDATE or a MERGE, which may use the casts of the
            session's queries.
    """
    if changes_rows and follows_ansi(spark):
        return "ANSI" if str(spark.conf.get("spark.sql.ansi.enabled", "true")).lower() == "true" else "LEGACY"
    return str(spark.conf.get(_POLICY, "ANSI")).upper()


def as_table_takes(
    rows: DataFrame,
    location: str,
    options: Mapping[str, str] | None = None,
    *,
    of_stream: bool = False,
    grows: bool = False,
) -> DataFrame:
    """The rows with the columns of the table's newest version; see `stored_by_name`. `of_stream`:
    whether only types of one family are cast, as in delta-spark's streaming sink. `grows`: whether
    the table takes new columns, new fields of structs, and wider types if it widens columns.

    Raises:
        SchemaMismatchError: the rows of a stream have a type of another family, whose values a
            lenient policy would store as null.
    """
    snapshot = _native.Snapshot.open(location, split_options(options)[0])
    schema = relaxed(snapshot.schema)
    if of_stream:
        _check_families(rows.schema, schema, "")
    if grows:
        schema = cast("StructType", _grown(rows.schema, schema, widens_columns(snapshot.info.configuration)))
        if schema == rows.schema:
            return rows
    return stored_by_name(rows, schema)


def _grown(brought: DataType, own: DataType, widens: bool) -> DataType:
    """The type to which values are cast for a column that takes new fields: its own types, and
    those of fields that it lacks. What is cast may be null, as in `_with_leaves`."""
    if isinstance(brought, StructType) and isinstance(own, StructType):
        own_types = {field.name.lower(): field.dataType for field in own.fields}
        types = [_grown(f.dataType, own_types.get(f.name.lower(), f.dataType), widens) for f in brought.fields]
        pairs = zip(brought.fields, types, strict=True)
        return StructType([StructField(f.name, t, f.nullable or t != f.dataType, f.metadata) for f, t in pairs])
    if isinstance(brought, ArrayType) and isinstance(own, ArrayType):
        element = _grown(brought.elementType, own.elementType, widens)
        return ArrayType(element, brought.containsNull or element != brought.elementType)
    if isinstance(brought, MapType) and isinstance(own, MapType):
        key, value = _grown(brought.keyType, own.keyType, widens), _grown(brought.valueType, own.valueType, widens)
        return MapType(key, value, brought.valueContainsNull or value != brought.valueType)
    keeps = NullType in (type(brought), type(own)) or (widens and is_wider(own.jsonValue(), brought.jsonValue()))
    # A struct, an array or a map for a column of another kind is refused when schemas are merged.
    nested = (ArrayType, MapType, StructType)
    return brought if keeps or isinstance(brought, nested) or isinstance(own, nested) else own


def _check_families(source: DataType, to: DataType, path: str) -> None:
    """Refuses a value of a type that Spark doesn't cast implicitly to that of its column."""
    if isinstance(source, StructType) and isinstance(to, StructType):
        own_types = {field.name.lower(): field.dataType for field in to.fields}
        for field in source.fields:
            if (own_type := own_types.get(field.name.lower())) is not None:
                _check_families(field.dataType, own_type, f"{path}.{field.name}" if path else field.name)
    elif isinstance(source, ArrayType) and isinstance(to, ArrayType):
        _check_families(source.elementType, to.elementType, f"{path}.element")
    elif isinstance(source, MapType) and isinstance(to, MapType):
        _check_families(source.keyType, to.keyType, f"{path}.key")
        _check_families(source.valueType, to.valueType, f"{path}.value")
    elif not _is_implicit(source, to):
        raise SchemaMismatchError(
            f"column `{path}`: expected {to.simpleString()} as in the table, found {source.simpleString()} in the data: cast "
            "it in the stream's query"
        )


def _is_implicit(source: DataType, to: DataType) -> bool:
    if source == to or isinstance(source, NullType) or isinstance(to, NullType):
        return True
    if isinstance(source, NumericType):
        return isinstance(to, (NumericType, StringType))
    if isinstance(source, (DateType, TimestampType, TimestampNTZType)):
        return isinstance(to, (DateType, TimestampType, TimestampNTZType, StringType))
    if isinstance(source, StringType):
        return isinstance(to, (NumericType, DateType, TimestampType, TimestampNTZType, BinaryType, StringType))
    return isinstance(source, (BooleanType, BinaryType)) and isinstance(to, StringType)


def check_partitions(
    columns: Sequence[str],
    location: str,
    options: Mapping[str, str] | None = None,
    by: Sequence[str] | None = None,
) -> None:
    """Refuses rows that lack some of an existing table's partition columns, which would become
    null, or that have only partition columns. Generated columns may be missing. `by`: the partition
    columns that the write names, of which the core says first if they are others.

    Raises:
        SchemaMismatchError: a partition column is missing, or every other column is.
    """
    try:
        snapshot = _native.Snapshot.open(absolute_location(location), split_options(options)[0])
    except TableNotFoundError:
        return
    partitions = snapshot.info.partition_columns
    if by is not None and [name.lower() for name in by] != [name.lower() for name in partitions]:
        return
    check_has_partitions(columns, snapshot, location)
    own_names = {name.lower() for name in columns}
    if partitions and own_names == {name.lower() for name in partitions}:
        raise SchemaMismatchError(
            f"the data has only partition columns ({', '.join(columns)}): add at least one other column of the table",
            table=location,
        )


def check_has_partitions(columns: Sequence[str], snapshot: _native.Snapshot, location: str) -> None:
    """Refuses rows that lack some of a table's partition columns. Generated columns may be missing.

    Raises:
        SchemaMismatchError: a partition column is missing.
    """
    own_names = {name.lower() for name in columns}
    # As in delta-spark, generated columns are computed.
    fields = snapshot.schema.to_value()["fields"]
    computed = {field["name"] for field in fields if "delta.generationExpression" in field["metadata"]}
    partitions = snapshot.info.partition_columns
    if lacking := [name for name in partitions if name.lower() not in own_names and name not in computed]:
        raise SchemaMismatchError(
            f"the data lacks the partition column `{lacking[0]}`, so that no row has a place in the table: add the column to the "
            f"data, which has {', '.join(columns)}; as null where that is meant",
            table=location,
        )


def stored_by_position(rows: DataFrame, schema: StructType, *, listed: bool = False) -> DataFrame:
    """Converts rows to the schema's columns, of equal number; matches columns and fields of structs
    by position. As in delta-spark, fields are matched by name in rows that have the columns' names
    and need no cast, unless the statement lists the columns.

    Raises:
        SchemaMismatchError: the session's policy has no cast for a type, or a struct has another
            number of fields.
    """
    return _placed(rows, schema, listed=listed, grows=False, widens=False)


def stored_and_grown(rows: DataFrame, schema: StructType, *, listed: bool = False, widens: bool = False) -> DataFrame:
    """Converts rows for a table that takes new columns: as `stored_by_position`, but additional
    columns and fields of structs keep their names and types.

    Args:
        rows: the rows, with at least as many columns as the schema.
        schema: the table's, with everything nullable.
        listed: whether the statement lists the columns.
        widens: whether columns are widened for values of a wider type, so that these aren't cast.

    Raises:
        SchemaMismatchError: as in `stored_by_position`, or a struct with fewer fields than its
            column.
    """
    return _placed(rows, schema, listed=listed, grows=True, widens=widens)


def _placed(rows: DataFrame, schema: StructType, *, listed: bool, grows: bool, widens: bool) -> DataFrame:
    first = StructType(rows.schema.fields[: len(schema)])
    if not listed and first.names == schema.names and _is_read_compatible(schema, first, widens):
        return rows if grows else stored_by_name(rows, schema)
    jvm, columns = Jvm.of(rows.sparkSession), list[Column]()
    policy = store_policy(rows.sparkSession)
    # Spark's errors name columns, so the rows' own names are used if they are distinct.
    unique = len({name.lower() for name in rows.columns}) == len(rows.columns)
    plain = rows if unique else rows.toDF(*[f"c{i}" for i in range(len(rows.columns))])
    for source_field, field in zip(plain.schema.fields, schema.fields, strict=not grows):
        column = plain[quoted(source_field.name)]
        _check_void(field.name, source_field.dataType, field.dataType)
        to = _by_place(source_field.dataType, field.dataType, field.name, grows=grows, widens=widens, listed=listed)
        columns.append(
            (column if source_field.dataType == to else jvm.store_cast(column, to, policy, field.name)).alias(
                field.name
            )
        )
    new = zip(plain.columns[len(columns) :], rows.columns[len(columns) :], strict=True)
    columns += [plain[quoted(name)].alias(own) for name, own in new]
    try:
        placed = plain.select(*columns)
    except AnalysisException as e:
        raise SchemaMismatchError(f"a value doesn't fit its column, cast it: {e}") from e
    return stored_by_name(placed, schema) if listed and not grows else placed


def _is_read_compatible(own: DataType, brought: DataType, widens: bool) -> bool:
    """Whether values of a type can be stored in a column without a cast; structs may have more
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


def _by_place(
    brought: DataType, own: DataType, path: str, *, grows: bool, widens: bool, listed: bool = False
) -> DataType:
    """The type to which values are cast for a column of another type, matching fields of structs by
    position. If the statement lists the columns, arrays and maps of structs with the column's names
    and types stay as they are, and their fields are matched by name, as in delta-spark."""
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
            StructField(
                o.name,
                _by_place(b.dataType, o.dataType, f"{path}.{o.name}", grows=grows, widens=widens, listed=listed),
            )
            for b, o in pairs
        ]
        return StructType([*fields, *brought.fields[len(fields) :]])
    of_many = isinstance(own, (ArrayType, MapType))
    if listed and of_many and _is_read_compatible(own, brought, False) and _is_read_compatible(brought, own, False):
        return brought
    if isinstance(brought, ArrayType) and isinstance(own, ArrayType) and isinstance(own.elementType, StructType):
        element = _by_place(brought.elementType, own.elementType, f"{path}.element", grows=grows, widens=widens)
        return ArrayType(element)
    if widens and is_wider(own.jsonValue(), brought.jsonValue()):
        return brought
    return own


def widens_columns(configuration: Mapping[str, str]) -> bool:
    """Whether a write that may change the schema of a table with these properties widens
    columns."""
    return configuration.get("delta.enableTypeWidening", "false").lower() == "true"


def check_fields(brought: DataType, own: DataType, path: str) -> None:
    """Refuses values of structs that lack fields of their column, as delta-spark does for INSERT …
    BY NAME: they would be null.

    Raises:
        SchemaMismatchError: a struct without a field that its column has, at any depth.
    """
    if isinstance(brought, StructType) and isinstance(own, StructType):
        source_types = {field.name.lower(): field.dataType for field in brought.fields}
        if lacking := [field.name for field in own.fields if field.name.lower() not in source_types]:
            raise SchemaMismatchError(
                f"a value of `{path}` has {len(brought.fields)} fields for the {len(own.fields)} fields of its column, and lacks "
                f"`{lacking[0]}`, which would be null: give it, as NULL where that is meant"
            )
        for field in own.fields:
            check_fields(source_types[field.name.lower()], field.dataType, f"{path}.{field.name}")
    elif isinstance(brought, ArrayType) and isinstance(own, ArrayType):
        check_fields(brought.elementType, own.elementType, f"{path}.element")
    elif isinstance(brought, MapType) and isinstance(own, MapType):
        check_fields(brought.keyType, own.keyType, f"{path}.key")
        check_fields(brought.valueType, own.valueType, f"{path}.value")


def stored_by_name(rows: DataFrame, schema: StructType) -> DataFrame:
    """Casts the columns that the schema contains to its types; other columns stay unchanged.

    Raises:
        SchemaMismatchError: Spark has no cast for a type, or a struct has a field that its column
            lacks.
    """
    own = {field.name.lower(): field.dataType for field in schema.fields}
    fields = [StructField(f.name, own.get(f.name.lower(), f.dataType)) for f in rows.schema.fields]
    try:
        return stored(rows, StructType(fields))
    except AnalysisException as e:
        raise SchemaMismatchError(f"a value doesn't fit its column, cast it: {e}") from e


def stored(rows: DataFrame, schema: StructType, policy: str | None = None, *, checks: bool = True) -> DataFrame:
    """The rows with these columns, matched by name at every depth; other columns are dropped, and
    missing fields of structs are null. `policy` is a result of `store_policy`; None means the
    policy of statements that add rows. `checks`: whether an overflow has the condition of a table's
    column.

    Raises:
        AnalysisException: the policy has no cast for a type.
        SchemaMismatchError: a struct has a field that its column lacks.
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


def _check_void(name: str, source: DataType, to: DataType) -> None:
    """Refuses values for a column or a part of one without a type, since Spark's own error doesn't
    name the reason."""
    if isinstance(source, NullType):
        return
    if isinstance(to, NullType):
        raise SchemaMismatchError(
            f"column `{name}` has no type in the table yet (void: only nulls), found {source.simpleString()} in the data: the "
            "option mergeSchema gives it this type"
        )
    if isinstance(source, ArrayType) and isinstance(to, ArrayType):
        _check_void(f"{name}.element", source.elementType, to.elementType)
    elif isinstance(source, MapType) and isinstance(to, MapType):
        _check_void(f"{name}.key", source.keyType, to.keyType)
        _check_void(f"{name}.value", source.valueType, to.valueType)
    elif isinstance(source, StructType) and isinstance(to, StructType):
        own_types = {field.name.lower(): field.dataType for field in to.fields}
        for field in source.fields:
            if (own_type := own_types.get(field.name.lower())) is not None:
                _check_void(f"{name}.{field.name}", field.dataType, own_type)


def holds_void(data_type: DataType) -> bool:
    """Whether a type contains void, at any depth."""
    if isinstance(data_type, StructType):
        return any(holds_void(field.dataType) for field in data_type.fields)
    if isinstance(data_type, ArrayType):
        return holds_void(data_type.elementType)
    if isinstance(data_type, MapType):
        return holds_void(data_type.keyType) or holds_void(data_type.valueType)
    return isinstance(data_type, NullType)


def _with_leaves(source: DataType, to: DataType) -> DataType:
    """The fields of one type with the leaf types of another; the type itself if both are equal.
    Cast values are nullable, since LEGACY casts return null for values out of range."""
    if isinstance(source, NullType):
        return source
    if isinstance(source, StructType) and isinstance(to, StructType):
        own = {field.name.lower(): field.dataType for field in to.fields}
        if unknown := [field.name for field in source.fields if field.name.lower() not in own]:
            raise SchemaMismatchError(
                f"a value has the field `{unknown[0]}`, which its column lacks (it has {', '.join(to.fieldNames())}): "
                "leave the field out, or add it to the table first"
            )
        types = [_with_leaves(f.dataType, own[f.name.lower()]) for f in source.fields]
        if all(new is f.dataType for new, f in zip(types, source.fields, strict=True)):
            return source
        pairs = zip(source.fields, types, strict=True)
        return StructType(
            [StructField(f.name, new, f.nullable or new is not f.dataType, f.metadata) for f, new in pairs]
        )
    if isinstance(source, ArrayType) and isinstance(to, ArrayType):
        element = _with_leaves(source.elementType, to.elementType)
        return source if element is source.elementType else ArrayType(element)
    if isinstance(source, MapType) and isinstance(to, MapType):
        key, value = _with_leaves(source.keyType, to.keyType), _with_leaves(source.valueType, to.valueType)
        same = key is source.keyType and value is source.valueType
        return source if same else MapType(key, value)
    return source if source == to else to
