"""Conversions in the form of functions: a type's name, and the one-argument forms of `to_…`."""

from __future__ import annotations

from dataclasses import replace

from deltaplane.expr.casts import cast
from deltaplane.expr.functions.times import parsed
from deltaplane.expr.registry import admit
from deltaplane.expr.typed import Context, Typed, attempted, mistyped
from deltaplane.expr.types import SparkType, named

_FAMILY = "conversions"


def _conversion(name: str, to: SparkType, *, attempt: bool = False, formats: bool = False) -> None:
    @admit(_FAMILY, name)
    def lower(context: Context, args: list[Typed]) -> Typed:
        if len(args) == 2 and formats:
            value = parsed(context, name, args, to)
        elif len(args) == 1:
            value = cast(context, args[0], to)
            if value is args[0] and value.literal is not None:
                value = replace(value, is_cast=True)
        else:
            mistyped(name, args)
        return attempted(value, *args) if attempt else value


for _word in ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "string", "boolean", "binary"):
    _to = named(_word)
    if _to is not None:
        _conversion(_word, _to)
for _word in ("date", "timestamp"):
    _conversion(_word, SparkType(_word))
    _conversion("to_" + _word, SparkType(_word), formats=True)
_conversion("to_timestamp_ntz", SparkType("timestamp_ntz"), formats=True)
_conversion("to_timestamp_ltz", SparkType("timestamp"), formats=True)
_conversion("try_to_date", SparkType("date"), attempt=True, formats=True)
