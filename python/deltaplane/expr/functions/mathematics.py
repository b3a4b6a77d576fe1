"""Powers and logarithms with the last digit of Java's `StrictMath`, which Spark calls: functions of
the core that DuckDB calls, since its own are those of the machine's library.
"""

from __future__ import annotations

import re
from typing import Any

from deltaplane.expr.registry import Form, forms
from deltaplane.expr.types import DOUBLE

__all__ = ["register"]

_FAMILY = "numbers"
# Functions of the core with their numbers of arguments.
_ARGUMENTS = {"exp": 1, "log": 1, "log10": 1, "log_of": 2, "power": 2}
_NAME = re.compile(r"strict_(log_of|log10|log|exp|power)\b")


def _form(count: int, sql: str) -> Form:
    return Form([DOUBLE] * count, DOUBLE, sql)


def _of_positive(sql: str, *arguments: str) -> str:
    """A logarithm, which Spark makes null for numbers that have none."""
    none = " OR ".join(f"{argument} <= 0" for argument in arguments)
    return f"CASE WHEN {none} THEN NULL ELSE {sql} END"


forms(_FAMILY, "exp", _form(1, "strict_exp({0})"))
forms(_FAMILY, "ln", _form(1, _of_positive("strict_log({0})", "{0}")))
forms(_FAMILY, "log10", _form(1, _of_positive("strict_log10({0})", "{0}")))
forms(_FAMILY, "log2", _form(1, _of_positive("strict_log_of(CAST(2 AS DOUBLE), {0})", "{0}")))
forms(
    _FAMILY,
    "log",
    _form(1, _of_positive("strict_log({0})", "{0}")),
    _form(2, _of_positive("strict_log_of({0}, {1})", "{0}", "{1}")),
)
forms(_FAMILY, "power pow", _form(2, "strict_power({0}, {1})"))


def register(connection: Any, sql: str, known: set[str]) -> None:
    """Makes the functions known that a statement calls, as `core_functions.register`."""
    for match in _NAME.finditer(sql):
        if match[0] not in known:
            known.add(match[0])
            types = ["DOUBLE"] * _ARGUMENTS[match[1]]
            function = _function(match[1])
            connection.create_function(match[0], function, types, "DOUBLE", type="arrow", null_handling="special")


def _function(name: str) -> Any:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.io.arrow import Scan

    def values_of(*columns: Any) -> Any:
        rows = pa.table(list(columns), [f"c{i}" for i in range(len(columns))])
        return Scan(_native.function_values(rows, f"strict_{name}")).to_arrow().column(0).combine_chunks()

    # DuckDB counts the parameters.
    if _ARGUMENTS[name] == 1:
        return lambda number: values_of(number)
    return lambda first, second: values_of(first, second)
