"""Applies a table's defaults, generated columns and checks to a frame: Spark evaluates the SQL,
within the plan of the write itself.

`deltaplane.commands.row_rules` decides which rule applies to which column.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from deltaplane import _native
from deltaplane.commands.column_defaults import default_text
from deltaplane.commands.row_rules import RowRules, violation
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark.jvm.schema import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from deltaplane.io import records

__all__ = ["relaxed", "ruled", "shown_row"]

_STRING = re.compile(r"""[rRxX]?'(?:[^'\\]|\\.)*'|[rR]?"(?:[^"\\]|\\.)*\"""", re.DOTALL)
_WORD = re.compile(r"`((?:[^`]|``)*)`|([^\W\d]\w*)")


def ruled(
    df: DataFrame, spec: records.WriteSpec, location: str, beside: Sequence[str] = ()
) -> tuple[DataFrame, Column | None]:
    """The frame with the values of defaults and generated columns, and a column that describes a
    row's violation.

    The violation column is null for a valid row; it is None if there is nothing to check.
    Conditions are evaluated over the rows in the table's types, with null in columns that the frame
    lacks. Columns in `beside` are retained.

    Raises:
        InvalidArgumentError: Spark can't analyse an expression of the table.
    """
    rules = RowRules.of_spec(spec, df.columns)
    if not rules:
        return df, None
    fields = {f.name: f for f in relaxed(rules.schema).fields}
    types = {f.name: f.data_type for f in rules.schema.fields}
    try:
        for name, sql in rules.defaults:
            df = df.withColumn(name, F.expr(default_text(sql, types[name])).cast(fields[name].dataType))
        # Identity columns are excluded, since their values are allocated when the files are
        # written.
        absent = {column for column, _ in rules.generated}
        absent |= {f.column for f in spec.identity} - set(df.columns)
        extra = [f for f in df.schema.fields if f.name in beside]
        df = df.to(StructType([*(f for name, f in fields.items() if name not in absent), *extra]))
        computed = [F.expr(sql).cast(fields[name].dataType).alias(name) for name, sql in rules.generated]
        df = df.select("*", *computed)
        broken = reduce(_first, (_broken(rule, fields) for rule in rules.checks), None)
        if broken is not None:
            _ = df.select(broken).schema
    except AnalysisException as e:
        raise InvalidArgumentError(
            f"Spark can't evaluate an expression that the table asks of its rows: {e}", table=location
        ) from e
    return df, broken


def _first(violation: Column | None, rule: Column) -> Column:
    return rule if violation is None else F.coalesce(violation, rule)


def _broken(rule: tuple[str, str, str], fields: Mapping[str, Any]) -> Column:
    """The message for a row for which the condition is false or null."""
    said = shown_row(violation(*rule, ""), rule[2], fields)
    return F.when(~F.coalesce(F.expr(rule[2]), F.lit(False)), said)


def shown_row(said: str, condition: str, columns: Iterable[str]) -> Column:
    """A text followed by a row's values in the columns that a condition mentions."""
    values = [
        F.concat(F.lit(f"\n - {name} : "), F.coalesce(F.col(quoted(name)).cast("string"), F.lit("null")))
        for name in _mentioned(condition, columns)
    ]
    return F.concat(F.lit(said), *values)


def _mentioned(sql: str, fields: Iterable[str]) -> list[str]:
    """The columns whose names occur in an expression, for messages."""
    known = {name.lower(): name for name in fields}
    words = (m[1].replace("``", "`") if m[1] is not None else m[2] for m in _WORD.finditer(_STRING.sub(" ", sql)))
    return list(dict.fromkeys(known[w.lower()] for w in words if w.lower() in known))


def relaxed(schema: _native.TableSchema) -> StructType:
    """A schema with everything nullable and without metadata: the file writer checks NOT NULL and
    CHAR."""
    frame_schema: StructType = StructType.fromJson(_relaxed(schema.to_value()))
    return frame_schema


def _relaxed(node: Any) -> Any:
    if isinstance(node, list):
        return [_relaxed(item) for item in node]
    if not isinstance(node, dict):
        return node
    always: dict[str, Any] = {"nullable": True, "containsNull": True, "valueContainsNull": True, "metadata": {}}
    return {key: always.get(key, _relaxed(value)) for key, value in node.items()}
