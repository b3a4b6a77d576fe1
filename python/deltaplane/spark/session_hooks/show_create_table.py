"""SHOW CREATE TABLE: a table's definition as a CREATE TABLE statement."""

from __future__ import annotations

from deltaplane.exceptions import UnsupportedFeatureError
from deltaplane.queries.cursor import quoted
from deltaplane.report.describe import clustering_columns
from deltaplane.schema import ArrayType, DataType, Field, MapType, PrimitiveType, StructType
from deltaplane.spark.jvm.names import hadoop_path
from deltaplane.statements.common.types import LENGTHS
from deltaplane.statements.like import OWN_PROPERTIES
from deltaplane.table.ddl_types import type_text
from deltaplane.table.delta_table import DeltaTable

__all__ = ["create_text"]


def create_text(table: DeltaTable, name: str, *, managed: bool) -> str:
    """The CREATE TABLE statement for an empty table like this one, under a name; with its location
    unless it is `managed`.

    >>> import pyarrow as pa
    >>> table = DeltaTable.create("memory://doc-show-create/t", pa.schema({"x": pa.int64()}))
    >>> print(create_text(table, "t", managed=True))
    CREATE TABLE t (
      x BIGINT)
    USING delta
    """
    metadata, clustered = table.metadata(), clustering_columns(table)
    text = f"CREATE TABLE {name} (\n  " + ",\n  ".join(map(_column_text, table.schema().fields)) + ")\nUSING delta\n"
    if metadata.partition_columns:
        text += f"PARTITIONED BY ({', '.join(map(quoted, metadata.partition_columns))})\n"
    if clustered:
        text += f"CLUSTER BY ({', '.join(clustered)})\n"
    if metadata.description:
        text += f"COMMENT {_text(metadata.description)}\n"
    if not managed:
        text += f"LOCATION {_text(hadoop_path(table.table_uri))}\n"
    own_properties = {k: v for k, v in metadata.configuration.items() if not k.startswith(OWN_PROPERTIES)}
    if own_properties:
        pairs = ",\n  ".join(f"{_text(key)} = {_text(value)}" for key, value in sorted(own_properties.items()))
        text += f"TBLPROPERTIES (\n  {pairs})\n"
    return text


def _column_text(field: Field) -> str:
    noted, parts = field.metadata, [quoted(field.name), _whole_type_text(field)]
    if "delta.identity.start" in noted:
        how = "BY DEFAULT" if noted.get("delta.identity.allowExplicitInsert") else "ALWAYS"
        start, step = noted["delta.identity.start"], noted["delta.identity.step"]
        parts.append(f"GENERATED {how} AS IDENTITY (START WITH {start} INCREMENT BY {step})")
    if "delta.generationExpression" in noted:
        parts.append(f"GENERATED ALWAYS AS ({noted['delta.generationExpression']})")
    if not field.nullable:
        parts.append("NOT NULL")
    if "CURRENT_DEFAULT" in noted:
        parts.append(f"DEFAULT {noted['CURRENT_DEFAULT']}")
    if noted.get("comment"):
        parts.append(f"COMMENT {_text(noted['comment'])}")
    return " ".join(parts)


def _whole_type_text(field: Field) -> str:
    """A column's type; for CHAR and VARCHAR, from the column's metadata."""
    lengths = field.metadata.get(LENGTHS)
    if lengths is None:
        return _type_text(field.type)
    if isinstance(field.type, PrimitiveType):
        return str(lengths).upper()
    if " NOT NULL" in (plain := _type_text(field.type)) or " COMMENT " in plain:
        raise UnsupportedFeatureError(
            f"the column `{field.name}` has CHAR or VARCHAR in a struct whose fields have comments or are NOT NULL, which SHOW "
            "CREATE TABLE can't show together: DESCRIBE TABLE shows the columns"
        )
    return str(lengths)


def _type_text(data_type: DataType) -> str:
    if isinstance(data_type, ArrayType):
        return f"ARRAY<{_type_text(data_type.element_type)}>"
    if isinstance(data_type, MapType):
        return f"MAP<{_type_text(data_type.key_type)}, {_type_text(data_type.value_type)}>"
    if isinstance(data_type, StructType):
        return f"STRUCT<{', '.join(map(_field_text, data_type.fields))}>"
    return type_text(data_type).upper()


def _field_text(field: Field) -> str:
    comment = f" COMMENT {_text(field.metadata['comment'])}" if field.metadata.get("comment") else ""
    return f"{quoted(field.name)}: {_type_text(field.type)}{'' if field.nullable else ' NOT NULL'}{comment}"


def _text(value: str) -> str:
    shown = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{shown}'"
