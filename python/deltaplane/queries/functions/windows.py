"""Translates window functions and windows to DuckDB text, with Spark's rules for both."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.typed import Context, Typed, made, mistyped, refuse
from deltaplane.expr.types import DOUBLE, INT, SparkType
from deltaplane.queries.functions.aggregates import AGGREGATES, normal
from deltaplane.queries.functions.ranges import ranged
from deltaplane.queries.syntax import Distance, Frame, Window

__all__ = ["WINDOW_FUNCTIONS", "over"]

Lowering = Callable[[Context, Window, list[Typed], str], Typed]


def over(
    context: Context, window: Window, args: list[Typed], partition: Sequence[Typed], order: Sequence[Typed]
) -> Typed:
    """The value of a function over its window.

    Raises:
        InvalidArgumentError: arguments or a window that Spark refuses, too.
        UnsupportedExpressionError: deltaplane can't compute the named function with Spark's result.
    """
    text = f" OVER ({_window(window, partition, order)})"
    lower_window = WINDOW_FUNCTIONS.get(window.name)
    if lower_window is None:
        typed = AGGREGATES[window.name](context, window.name, args, False, text)
    else:
        typed = lower_window(context, window, args, text)
    return replace(made(typed.type, typed.sql, typed, *args, *partition, *order), bounds=typed.bounds)


def _window(window: Window, partition: Sequence[Typed], order: Sequence[Typed]) -> str:
    parts = []
    frame: tuple[str, str] | None = None
    if partition:
        parts.append("PARTITION BY " + ", ".join(_compared(p, "PARTITION BY") for p in partition))
    if order:
        keys = [_compared(o, "ORDER BY") for o in order]
        if window.frame is not None and not window.frame.rows and window.frame.offsets:
            if len(order) != 1:
                raise InvalidArgumentError("a frame by RANGE with a distance needs one key of ORDER BY")
            key, frame = ranged(order[0], window.frame)
            keys = [key]
        ways = [
            f"{key} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"
            for key, (descending, nulls_first) in zip(keys, window.orders, strict=True)
        ]
        parts.append("ORDER BY " + ", ".join(ways))
    elif window.frame is not None and not window.frame.rows and _bounded(window.frame):
        raise InvalidArgumentError("a frame by RANGE needs ORDER BY")
    if window.frame is not None:
        start, end = frame or (_bound(window.frame.start, "PRECEDING"), _bound(window.frame.end, "FOLLOWING"))
        parts.append(f"{'ROWS' if window.frame.rows else 'RANGE'} BETWEEN {start} AND {end}")
    return " ".join(parts)


def _bounded(frame: Frame) -> bool:
    return frame.start is not None or frame.end is not None


def _bound(offset: int | Distance | None, unbounded: str) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    if offset == 0 or isinstance(offset, Distance):
        return "CURRENT ROW"
    return f"{abs(offset)} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def _compared(value: Typed, clause: str) -> str:
    if not (value.type.atomic or value.type.name == "void"):
        refuse(f"{clause} on {value.type}")
    return normal(value).sql


def _ordered(window: Window) -> None:
    if not window.orders:
        raise InvalidArgumentError(f"`{window.name}` needs a window with ORDER BY")
    if window.frame is not None:
        raise InvalidArgumentError(f"`{window.name}` takes no frame")
    if window.ignores_nulls and window.name not in ("lag", "lead"):
        raise InvalidArgumentError(f"`{window.name}` doesn't look at nulls")


def _rank(to: SparkType) -> Lowering:
    def lower(_: Context, window: Window, args: list[Typed], text: str) -> Typed:
        _ordered(window)
        if args:
            mistyped(window.name, args)
        return Typed(to, f"CAST({window.name}(){text} AS {to.duck})")

    return lower


def _count(name: str, arg: Typed, least: int) -> int:
    """Checks a constant argument and returns it."""
    if arg.literal is None or arg.type != INT:
        refuse(f"`{name}` with a number that isn't a constant")
    if int(arg.literal) < least:
        raise InvalidArgumentError(f"`{name}` needs a number of at least {least}")
    return int(arg.literal)


def _ntile(_: Context, window: Window, args: list[Typed], text: str) -> Typed:
    _ordered(window)
    if len(args) > 1:
        mistyped("ntile", args)
    return Typed(INT, f"CAST(ntile({_count('ntile', args[0], 1) if args else 1}){text} AS INTEGER)")


def _neighbour(context: Context, window: Window, args: list[Typed], text: str) -> Typed:
    _ordered(window)
    if not 1 <= len(args) <= 3:
        mistyped(window.name, args)
    value = args[0]
    distance = _count(window.name, args[1], -(1 << 31)) if len(args) > 1 else 1
    if len(args) == 3 and value.type.parts and args[2].type != value.type:
        mistyped(window.name, args)
    other = f", {cast(context, args[2], value.type).sql}" if len(args) == 3 else ""
    behind = (window.name == "lag") == (distance >= 0)
    nulls = " IGNORE NULLS" if window.ignores_nulls else ""
    return Typed(value.type, f"{'lag' if behind else 'lead'}({value.sql}, {abs(distance)}{other}{nulls}){text}")


def _end(duck: str) -> Lowering:
    def lower(_: Context, window: Window, args: list[Typed], text: str) -> Typed:
        if len(args) not in (1, 2) or (len(args) == 2 and args[1].literal not in ("true", "false")):
            mistyped(window.name, args)
        ignores = window.ignores_nulls or (len(args) == 2 and args[1].literal == "true")
        return Typed(args[0].type, f"{duck}({args[0].sql}{' IGNORE NULLS' if ignores else ''}){text}")

    return lower


def _nth(_: Context, window: Window, args: list[Typed], text: str) -> Typed:
    if len(args) != 2:
        mistyped("nth_value", args)
    nulls = " IGNORE NULLS" if window.ignores_nulls else ""
    return Typed(args[0].type, f"nth_value({args[0].sql}, {_count('nth_value', args[1], 1)}{nulls}){text}")


WINDOW_FUNCTIONS: dict[str, Lowering] = {
    **{name: _rank(INT) for name in ("row_number", "rank", "dense_rank")},
    **{name: _rank(DOUBLE) for name in ("percent_rank", "cume_dist")},
    "ntile": _ntile,
    "lag": _neighbour,
    "lead": _neighbour,
    **dict.fromkeys(("first", "first_value", "any_value"), _end("first_value")),
    **dict.fromkeys(("last", "last_value"), _end("last_value")),
    "nth_value": _nth,
}
