"""delta-spark's builder of new tables: columns, partitions, clustering and properties, created in
one commit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import deltaplane
from deltaplane.exceptions import InvalidArgumentError, TableAlreadyExistsError, TableNotFoundError
from deltaplane.properties import CommitOperation
from deltaplane.schema import Schema
from deltaplane.spark.datasource.delta_options import default_properties
from deltaplane.spark.delta_api.property_rules import refuse_properties
from deltaplane.spark.errors.spark_errors import with_spark_errors
from deltaplane.spark.execution.recache import recache
from deltaplane.spark.jvm.location import absolute_location
from deltaplane.spark.jvm.names import (
    check_free,
    check_unused,
    default_location,
    held_location,
    is_managed,
    path_of,
    register_name,
)
from deltaplane.spark.jvm.schema import LENGTHS
from deltaplane.table.match_existing import check_same
from deltaplane.write.declarations import check_identity

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from deltaplane.spark.delta_api.tables import DeltaTable

__all__ = ["DeltaTableBuilder", "IdentityGenerator", "Replaces", "names_of"]

Replaces = Literal["error", "ignore", "overwrite"]

_GENERATED = "delta.generationExpression"
_IDENTITY = "delta.identity."
_LENGTH = re.compile(r"(?:var)?char\(\d+\)")


@dataclass
class IdentityGenerator:
    """The values of an identity column: the start and the step."""

    start: int = 1
    step: int = 1


@with_spark_errors
class DeltaTableBuilder:
    """A new table, created by `execute` at a `location` or under a `tableName`.

    >>> from deltaplane.spark import DeltaTable, IdentityGenerator
    >>> builder = DeltaTable.createIfNotExists(spark).location("orders")
    >>> builder = builder.addColumn("id", "long", generatedAlwaysAs=IdentityGenerator())
    >>> builder = builder.addColumn("at", "timestamp").addColumn("day", "date", generatedAlwaysAs="CAST(at AS DATE)")
    >>> builder.partitionedBy("day").property("delta.enableChangeDataFeed", "true").execute().toDF().columns
    ['id', 'at', 'day']
    """

    def __init__(
        self, spark: SparkSession, replaces: Replaces, must_exist: bool, made: Callable[[str], DeltaTable]
    ) -> None:
        self._spark, self._replaces, self._must_exist, self._made = spark, replaces, must_exist, made
        self._name: str | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._columns: list[dict[str, Any]] = []
        self._partitions: list[str] | None = None
        self._clusters: list[str] | None = None
        self._properties: dict[str, str] = {}

    def tableName(self, identifier: str) -> DeltaTableBuilder:
        """Sets the table's name: ``delta.`path` ``, or one for the session's catalog."""
        _check(identifier, str, "Identifier must be str.")
        self._name = identifier
        return self

    def location(self, location: str) -> DeltaTableBuilder:
        """Sets the table's location."""
        _check(location, str, "Location must be str.")
        self._location = location
        return self

    def comment(self, comment: str) -> DeltaTableBuilder:
        """Sets the table's description."""
        _check(comment, str, "Table comment must be str.")
        self._comment = comment
        return self

    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder:
        """Adds a column.

        Args:
            colName: the column's name.
            dataType: its type, or the type's name.
            nullable: whether it may hold nulls.
            generatedAlwaysAs: Spark SQL over other columns (P105), or an identity column that
                accepts no other values.
            generatedByDefaultAs: an identity column that also accepts other values (P108).
            comment: its comment.
        """
        _check(colName, str, "Column name must be str.")
        _check(nullable, bool, "Column nullable must be bool.")
        if generatedAlwaysAs is not None and generatedByDefaultAs is not None:
            raise ValueError(
                "generatedByDefaultAs and generatedAlwaysAs cannot both be set.",
                [generatedByDefaultAs, generatedAlwaysAs],
            )
        metadata: dict[str, Any] = {}
        if isinstance(generatedAlwaysAs, str):
            metadata[_GENERATED] = generatedAlwaysAs
        elif generatedAlwaysAs is not None:
            says = "Generated always as expression must be str or IdentityGenerator."
            metadata |= _identity(generatedAlwaysAs, says, explicit=False)
        elif generatedByDefaultAs is not None:
            says = "Generated by default expression must be IdentityGenerator."
            metadata |= _identity(generatedByDefaultAs, says, explicit=True)
        if comment is not None:
            _check(comment, str, "Column comment must be str.")
            metadata["comment"] = comment
        data_type = _data_type(dataType)
        self._columns.append(
            _measured({"name": colName, "type": data_type.jsonValue(), "metadata": metadata}, data_type)
        )
        self._columns[-1]["nullable"] = nullable
        return self

    def addColumns(self, cols: StructType | list[StructField]) -> DeltaTableBuilder:
        """Adds the columns of a schema."""
        from pyspark.sql.types import StructField, StructType

        if isinstance(cols, list):
            for column in cols:
                _check(column, StructField, "Column in existing schema must be StructField.")
            cols = StructType(cols)
        _check(cols, StructType, "Schema must be StructType or a list of StructField.")
        self._columns += [_measured(field.jsonValue(), field.dataType) for field in cols.fields]
        return self

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        """Partitions the table by these columns."""
        self._partitions = names_of(cols, "Partitioning column must be str.")
        return self

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder:
        """Sets the clustering columns (P152)."""
        self._clusters = names_of(cols, "Clustering column must be str.")
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder:
        """Sets a table property."""
        if type(key) is not str or type(value) is not str:
            raise TypeError(f"Key and value of property must be string. Found {key!r} and {value!r}")
        self._properties[key] = value
        return self

    def execute(self) -> DeltaTable:
        """Creates the table in one commit and opens it.

        Raises:
            TableAlreadyExistsError: `create`, and the table exists.
            TableNotFoundError: `replace`, and the table doesn't exist.
            InvalidArgumentError, SchemaMismatchError: invalid columns, expressions or properties.
            UnsupportedFeatureError: an unknown property, or one that a table can't lose; the
                message says what to do.
        """
        if self._name is not None:
            check_free(self._spark, self._name, replaces=self._replaces == "overwrite")
        held = self._held()
        location = self._where(held)
        there = deltaplane.DeltaTable.is_deltatable(location)
        named = self._name is not None and path_of(self._name) is None
        if self._must_exist and (not there or (named and held is None)):
            raise TableNotFoundError("there is no table to be replaced: use createOrReplace", table=location)
        if held is not None and self._replaces == "error":
            raise TableAlreadyExistsError(
                f"the session's catalog has a table {self._name} already: use createIfNotExists, or createOrReplace",
                table=held,
            )
        managed = named and is_managed(self._spark, str(self._name), self._location)
        if there and named and held is None and self._location is not None:
            # As in delta-spark, a new name takes over the existing table if it matches the
            # description.
            self._check_same(location)
        elif not (there and self._replaces == "ignore"):
            check_unused(location)
            self._make(location, managed)
        if named and held is None:
            register_name(self._spark, str(self._name), location, managed=managed)
        if self._replaces == "overwrite":
            recache(self._spark)
        return self._made(location)

    def _make(self, location: str, managed: bool) -> None:
        replaces = self._replaces == "overwrite"
        statement = "REPLACE TABLE" if self._must_exist else "CREATE OR REPLACE TABLE" if replaces else "CREATE TABLE"
        schema = self._schema()
        refuse_properties(self._properties, schema.fields, self._partitions or [])
        deltaplane.DeltaTable.create(
            location,
            schema,
            self._replaces,
            self._partitions,
            description=self._comment,
            configuration=default_properties(self._spark, self._properties),
            cluster_by=self._clusters,
            operation=CommitOperation.definition(statement, fills=False, replaces=replaces, managed=managed),
        )

    def _schema(self) -> Schema:
        for column in self._columns:
            check_identity(column["name"], column["type"], column["metadata"])
        return Schema.from_json(json.dumps({"type": "struct", "fields": self._columns}))

    def _check_same(self, location: str) -> None:
        if not self._columns and self._replaces == "overwrite":
            raise InvalidArgumentError(
                "what replaces a table has columns: add some, or use createIfNotExists to give the table a name",
                table=location,
            )
        if self._columns:
            fields = self._schema().fields
            check_same(
                deltaplane.DeltaTable(location), fields, self._partitions or [], self._clusters or [], self._properties
            )

    def _held(self) -> str | None:
        """The location that the catalog has for the name, if any."""
        if self._name is None or path_of(self._name) is not None:
            return None
        return held_location(self._spark, self._name)

    def _where(self, held: str | None) -> str:
        named = held if self._name is None or held is not None else path_of(self._name)
        if self._location is not None:
            stated = absolute_location(self._location)
            if self._replaces == "overwrite" and held is not None and stated != absolute_location(held):
                raise InvalidArgumentError(
                    f"the table {self._name} is at {held}, and the builder says {stated}: leave location out, or drop the name first"
                )
            if held is None and named is not None and named != self._location:
                raise InvalidArgumentError(f"the name is one location ({named}), and {self._location} is another")
            return absolute_location(held or stated)
        if self._name is None:
            raise InvalidArgumentError("a table needs a place: give a tableName or a location")
        return absolute_location(named if named is not None else default_location(self._spark, self._name))


def _identity(generator: Any, says: str, *, explicit: bool) -> dict[str, Any]:
    _check(generator, IdentityGenerator, says)
    if generator.step == 0:
        raise ValueError("Column identity generation requires step to be non-zero.")
    values = {"start": generator.start, "step": generator.step, "allowExplicitInsert": explicit}
    return {_IDENTITY + name: value for name, value in values.items()}


def _measured(field: dict[str, Any], data_type: DataType) -> dict[str, Any]:
    """A CHAR or VARCHAR column as Spark stores it: type string, with the length in the column's
    metadata."""
    plain = _unmeasured(field["type"])
    if plain == field["type"]:
        return field
    return {**field, "type": plain, "metadata": {**field["metadata"], LENGTHS: data_type.simpleString()}}


def _unmeasured(data_type: Any) -> Any:
    if isinstance(data_type, list):
        return [_unmeasured(part) for part in data_type]
    if isinstance(data_type, dict):
        return {key: value if key == "name" else _unmeasured(value) for key, value in data_type.items()}
    return "string" if isinstance(data_type, str) and _LENGTH.fullmatch(data_type) else data_type


def _data_type(data_type: Any) -> DataType:
    from pyspark.sql.types import DataType

    if isinstance(data_type, str):
        return DataType.fromDDL(data_type)
    _check(data_type, DataType, "Column data type must be str or DataType.")
    return data_type


def _check(value: Any, kind: type, says: str) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"{says} Found {value} with type {type(value)}")


def names_of(arguments: Sequence[str | Sequence[str]], says: str) -> list[str]:
    """Names passed as several arguments, or as one list."""
    names = list(arguments[0]) if len(arguments) == 1 and isinstance(arguments[0], (list, tuple)) else list(arguments)
    for name in names:
        _check(name, str, says)
    return [str(name) for name in names]
