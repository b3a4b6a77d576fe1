"""PARTITION (column = value, column) of INSERT: constants for every new row, and the partitions to
replace."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.arrow_literals import date_text, timestamp_text
from deltaplane.expr.values import text_literal
from deltaplane.queries.cursor import quoted
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.running import prepared
from deltaplane.queries.sources import Catalog
from deltaplane.schema import Field
from deltaplane.statements.common.statement import Clause, field_named
from deltaplane.table.ddl_types import type_text
from deltaplane.table.delta_table import DeltaTable

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column

__all__ = ["Fixed", "PartitionSpec", "read_partition"]

# Numbers and truth values, whose texts are what was written.
_WRITTEN = re.compile(r"(?i)[+-]?\d+(\.\d+)?|true|false")
_TEXT = r"""r?(?:'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")"""
_CONSTANT = re.compile(
    rf"(?is)[+-]?\s*(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?(?:[lsydf]|bd)?|true|false|null"
    rf"|(?:(?:date|timestamp|timestamp_ntz|timestamp_ltz|x|interval)\s*)?{_TEXT}(?:\s*{_TEXT})*|interval\b.*"
)


@dataclass(frozen=True)
class Fixed:
    """A partition column and its constant value for every new row."""

    field: Field
    value: pa.Scalar

    @property
    def condition(self) -> str:
        """The condition that selects the rows of its partitions.

        Raises:
            UnsupportedExpressionError: a value that can't be written in a condition.
        """
        name = quoted(self.field.name)
        return f"{name} = {_literal(self.value)}" if self.value.is_valid else f"{name} IS NULL"

    def on_spark(self) -> Column:
        """The value as a Spark column of the column's type."""
        import pyarrow as pa
        from pyspark.sql import functions as F

        moment = pa.types.is_date(self.value.type) or pa.types.is_timestamp(self.value.type)
        made = F.expr(_literal(self.value)) if moment and self.value.is_valid else F.lit(self.value.as_py())
        return made.cast(type_text(self.field.type))


@dataclass(frozen=True)
class PartitionSpec:
    """Partition columns with their values as written; None if the rows provide the value."""

    values: Mapping[str, Clause | None]

    def fixed(self, table: DeltaTable) -> list[Fixed]:
        """The constants, converted to their columns' types.

        Raises:
            InvalidArgumentError: not a partition column of the table, or a value of another type.
        """
        partitions = {name.lower() for name in table.metadata().partition_columns}
        fixed_values = []
        for name, clause in self.values.items():
            if name.lower() not in partitions:
                raise InvalidArgumentError(
                    f"NON_PARTITION_COLUMN: `{name}` is no column by which the table is partitioned: give its values with the rows",
                    table=table.table_uri,
                )
            if clause is not None:
                field = field_named(table, name)
                fixed_values.append(Fixed(field, _cast(clause.text, field)))
        return fixed_values


def read_partition(cursor: Grammar) -> PartitionSpec | None:
    """Parses the clause; None without one."""
    if not cursor.take("partition"):
        return None
    values = dict[str, Clause | None]()

    def read_value() -> None:
        token = cursor.at
        name = cursor.name("a partition's column")
        if name.lower() in map(str.lower, values):
            cursor.wrong("expected each column once", cursor.tokens[token].start)
        values[name] = _constant(cursor) if cursor.take("=") else None

    cursor.listed(read_value)
    if cursor.peek() == "if":
        cursor.wrong("expected the rows: INSERT with a PARTITION takes no IF NOT EXISTS")
    return PartitionSpec(values)


def _constant(cursor: Grammar) -> Clause:
    token = cursor.at
    clause = Clause.read(cursor)
    if not _CONSTANT.fullmatch(clause.text):
        cursor.wrong(
            "expected a constant: a PARTITION takes a number, a text, a date or time, true, false or null; select other values "
            "with the rows",
            cursor.tokens[token].start,
        )
    return clause


def _cast(text: str, field: Field) -> pa.Scalar:
    # As in Spark the value is a text, whatever was written.
    text = f"'{text}'" if _WRITTEN.fullmatch(text) else text
    cursor = Grammar(f"SELECT CAST({text} AS {type_text(field.type)}) AS v")
    return prepared(cursor.last_query(), cursor, Catalog()).run()["v"][0]


def _literal(scalar: pa.Scalar) -> str:
    """Spark SQL for a value. Dates and timestamps are written as numbers, since Python's types
    cover only a part of their ranges."""
    import pyarrow as pa

    if pa.types.is_date(scalar.type):
        return f"DATE '{date_text(scalar.cast(pa.int32()).as_py())}'"
    if pa.types.is_timestamp(scalar.type):
        zoned = scalar.type.tz is not None
        text = timestamp_text(scalar.cast(pa.timestamp("us", scalar.type.tz)).cast(pa.int64()).as_py())
        return f"TIMESTAMP '{text}+00:00'" if zoned else f"TIMESTAMP_NTZ '{text}'"
    value = scalar.as_py()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, Decimal)):
        return str(value)
    if isinstance(value, str):
        return text_literal(value)
    raise UnsupportedExpressionError(
        f"INSERT OVERWRITE … PARTITION has no form of a {type(value).__name__}: use REPLACE WHERE with a condition"
    )
