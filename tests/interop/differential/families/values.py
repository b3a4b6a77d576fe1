"""Types of columns with values in SQL, by which families are generated."""

from __future__ import annotations

# Types with a value that fits, and one that another engine might store differently.
TYPES: dict[str, tuple[str, ...]] = {
    "TINYINT": ("1Y", "-128Y"),
    "SMALLINT": ("2S", "32767S"),
    "INT": ("3", "-2147483648"),
    "BIGINT": ("4L", "9223372036854775807L"),
    "FLOAT": ("1.5F", "float('NaN')"),
    "DOUBLE": ("2.5D", "double('-Infinity')"),
    "DECIMAL(5,2)": ("1.25BD", "-999.99BD"),
    "DECIMAL(38,10)": ("1.5BD", "12345678901234567890.0123456789BD"),
    "STRING": ("'a'", "'é\\''"),
    "VARCHAR(4)": ("'abcd'", "'x '"),
    "CHAR(3)": ("'abc'", "'a'"),
    "BOOLEAN": ("true", "false"),
    "DATE": ("DATE'2024-02-29'", "DATE'0001-01-01'"),
    "TIMESTAMP": ("TIMESTAMP'2024-02-29 12:30:00.000001'", "TIMESTAMP'1900-01-01 00:00:00'"),
    "TIMESTAMP_NTZ": ("TIMESTAMP_NTZ'2024-02-29 12:30:00'", "TIMESTAMP_NTZ'0001-01-01 00:00:00'"),
    "BINARY": ("X'00FF'", "X''"),
    "ARRAY<INT>": ("array(1, 2)", "array(1, NULL)"),
    "MAP<STRING, INT>": ("map('k', 1)", "map('k', NULL)"),
    "STRUCT<a: INT, b: STRING>": ("named_struct('a', 1, 'b', 'x')", "named_struct('a', NULL, 'b', 'y')"),
    "ARRAY<STRUCT<x: INT, y: DATE>>": (
        "array(named_struct('x', 1, 'y', DATE'2024-01-01'))",
        "array(named_struct('x', 2, 'y', NULL))",
    ),
}
PLAIN = tuple(name for name in TYPES if not name.startswith(("STRUCT", "ARRAY", "MAP")))
# A partition column of these types is refused.
NESTED = tuple(name for name in TYPES if name not in PLAIN)
# Values that INSERT is asked to store in a column of each type.
STORED = (
    "NULL",
    "1",
    "300",
    "3000000000L",
    "1.7D",
    "12.345BD",
    "'12'",
    "'abc'",
    "'abcdefgh'",
    "true",
    "DATE'2024-02-29'",
    "TIMESTAMP'2024-02-29 12:30:00'",
    "X'01'",
    "array(1)",
    "map('k', 1)",
    "named_struct('a', 1, 'b', 'x')",
    "named_struct('b', 'x', 'a', 1)",
    "INTERVAL '1' DAY",
)
