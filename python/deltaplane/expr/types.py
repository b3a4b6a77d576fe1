"""Spark's types in expressions, their names in DuckDB, and their conversion from a table's schema.

Plain values; independent of SQL and of tables.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MAX_PRECISION = 38


@dataclass(frozen=True)
class SparkType:
    """A type by its Delta name; `precision` and `scale` are a decimal's, `parts` an array's, map's
    or struct's types.

    For an interval they are the numbers of its first and last unit; its value is whole months or
    microseconds.
    """

    name: str
    precision: int = 0
    scale: int = 0
    parts: tuple[SparkType, ...] = ()
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name in _UNITS:
            first, last = _UNITS[self.name][self.precision], _UNITS[self.name][self.scale]
            return f"interval {first}" if first == last else f"interval {first} to {last}"
        if self.name == "struct":
            inner = ", ".join(f"{n}: {t}" for n, t in zip(self.fields, self.parts, strict=True))
            return f"struct<{inner}>"
        if self.parts:
            return f"{self.name}<{', '.join(map(str, self.parts))}>"
        return self.name

    @property
    def duck(self) -> str:
        """The type in DuckDB. An instant is a timestamp without time zone in UTC, independent of
        session settings."""
        if self.name == "decimal":
            return f"DECIMAL({self.precision},{self.scale})"
        if self.name == "array":
            return f"{self.parts[0].duck}[]"
        if self.name == "map":
            return f"MAP({self.parts[0].duck}, {self.parts[1].duck})"
        if self.name == "struct":
            inner = ", ".join(f"{quoted(n)} {t.duck}" for n, t in zip(self.fields, self.parts, strict=True))
            return f"STRUCT({inner})"
        return _DUCK[self.name]

    @property
    def integral(self) -> bool:
        """Whether it is a whole number's type."""
        return self.name in _INTEGRAL

    @property
    def fractional(self) -> bool:
        """Whether it is a binary floating-point type."""
        return self.name in ("float", "double")

    @property
    def numeric(self) -> bool:
        """Whether it is a number's type."""
        return self.integral or self.fractional or self.name == "decimal"

    @property
    def atomic(self) -> bool:
        """Whether it has no parts and isn't the type of a bare NULL."""
        return not self.parts and self.name not in ("void", "struct")

    @property
    def interval(self) -> bool:
        """Whether it is an interval's type, which no column has."""
        return self.name in _UNITS

    @property
    def bits(self) -> int:
        """The width of a whole number's type."""
        return _INTEGRAL[self.name]


_INTEGRAL = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_DUCK = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INTEGER",
    "long": "BIGINT",
    "float": "FLOAT",
    "double": "DOUBLE",
    "string": "VARCHAR",
    "boolean": "BOOLEAN",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
    "timestamp_ntz": "TIMESTAMP",
    "void": "INTEGER",
    "ym_interval": "INTEGER",
    "dt_interval": "BIGINT",
}
_UNITS = {"ym_interval": ("year", "month"), "dt_interval": ("day", "hour", "minute", "second")}

BYTE, SHORT, INT, LONG = SparkType("byte"), SparkType("short"), SparkType("integer"), SparkType("long")
FLOAT, DOUBLE, STRING, BOOLEAN = SparkType("float"), SparkType("double"), SparkType("string"), SparkType("boolean")
BINARY, DATE, VOID = SparkType("binary"), SparkType("date"), SparkType("void")
TIMESTAMP, TIMESTAMP_NTZ = SparkType("timestamp"), SparkType("timestamp_ntz")


def decimal(precision: int, scale: int) -> SparkType:
    """A decimal's type."""
    return SparkType("decimal", precision, scale)


def interval(months: bool, first: int, last: int) -> SparkType:
    """The type of an interval of months, or of days and shorter units, by the numbers of its
    units."""
    return SparkType("ym_interval" if months else "dt_interval", first, last)


def array(element: SparkType) -> SparkType:
    """An array's type."""
    return SparkType("array", parts=(element,))


def quoted(name: str) -> str:
    """A name as DuckDB quotes it."""
    return '"' + name.replace('"', '""') + '"'


def text(value: str) -> str:
    """A string literal of DuckDB."""
    if "\0" not in value:
        return "'" + value.replace("'", "''") + "'"
    parts = ["'" + p.replace("'", "''") + "'" for p in value.split("\0")]
    return "(" + " || chr(0) || ".join(parts) + ")"


def named(name: str) -> SparkType | None:
    """The type that a word of Spark SQL names; decimals have their size in parentheses."""
    lower = re.sub(r"\s+", "", name.lower())
    if sized := re.fullmatch(r"(?:decimal|dec|numeric)(?:\((\d{1,9})(?:,(\d{1,9}))?\))?", lower):
        return decimal(int(sized[1] or 10), int(sized[2] or 0))
    return _WORDS.get(lower)


_WORDS = {
    **{n: SparkType(n) for n in ("byte", "short", "integer", "long", "float", "double", "string", "boolean", "binary")},
    **{n: SparkType(n) for n in ("date", "timestamp", "timestamp_ntz", "void")},
    "tinyint": BYTE,
    "smallint": SHORT,
    "int": INT,
    "bigint": LONG,
    "real": FLOAT,
    "timestamp_ltz": TIMESTAMP,
    "timestampntz": TIMESTAMP_NTZ,
}


def of_json(value: Any) -> SparkType | None:
    """The type of a field in a table's schema JSON; None if expressions lack the type."""
    if isinstance(value, str):
        return named(value)
    parts: list[SparkType | None]
    if value["type"] == "array":
        parts, fields = [of_json(value["elementType"])], ()
    elif value["type"] == "map":
        parts, fields = [of_json(value["keyType"]), of_json(value["valueType"])], ()
    else:
        parts, fields = [of_json(f["type"]) for f in value["fields"]], tuple(f["name"] for f in value["fields"])
    known = tuple(p for p in parts if p is not None)
    return SparkType(value["type"], parts=known, fields=fields) if len(known) == len(parts) else None


def as_json(data_type: SparkType) -> Any:
    """A type as a table's schema JSON has it; without nullability.

    >>> as_json(array(decimal(5, 1)))
    {'type': 'array', 'elementType': 'decimal(5,1)', 'containsNull': True}
    """
    if data_type.name == "array":
        return {"type": "array", "elementType": as_json(data_type.parts[0]), "containsNull": True}
    if data_type.name == "map":
        key, value = map(as_json, data_type.parts)
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if data_type.name == "struct":
        pairs = zip(data_type.fields, data_type.parts, strict=True)
        fields = [{"name": n, "type": as_json(t), "nullable": True, "metadata": {}} for n, t in pairs]
        return {"type": "struct", "fields": fields}
    return str(data_type)
