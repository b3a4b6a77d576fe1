"""Spark's names of the unnamed columns of a query, such as `sum(price)` for `SELECT SUM(price)`.

Computed from the syntax alone, with the help of the caller for names of columns; independent of
plans. Source: `toPrettySQL` of Spark 4's Catalyst.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import NamedTuple, NoReturn

from deltaplane.expr.syntax import Call, Cast, Lambda, Literal, Name, Syntax, Variable
from deltaplane.expr.types import INT, SparkType
from deltaplane.queries.functions.collecting import LISTING
from deltaplane.queries.syntax import Aggregate, Frame, Subquery, Window

__all__ = ["Named", "spark_title"]


class Named(NamedTuple):
    """The name of a column without its table, its fields below it, and the type of the last part if
    that is known."""

    name: str
    fields: tuple[str, ...] = ()
    type: SparkType | None = None

    @property
    def shown(self) -> str:
        """The name with its fields."""
        return ".".join((self.name, *self.fields))


_SYMBOLS = {"==": "="}
_COMPARISONS = {"=", "==", "<>", "!=", "<", "<=", ">", ">=", "<=>"}
_INFIX = {"=", "==", "<", "<=", ">", ">=", "<=>", "|", "^", "&", "<<", "*", "/", "%", "div"}
# Operators that have the same trees as functions.
_SHIFTS = {"shiftright": ">>", "shiftrightunsigned": ">>>"}
# Functions that Spark names in upper case.
_UPPER = frozenset(
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc degrees dense_rank e exp expm1 hypot log log10 log1p "
    "log2 percent_rank pi power radians rank regexp regexp_like rlike sec signum sin sinh sqrt tan tanh".split()
)
# Upper case with one argument, lower case with two.
_ROUNDED = ("ceil", "floor")
_RENAMED = {
    "array_agg": "collect_list",
    "curdate": "current_date",
    "current_database": "current_schema",
    "dateadd": "date_add",
    "random": "rand",
}
# Conversions that are written as functions have their argument's name.
_CONVERSIONS = frozenset(
    "bigint binary boolean date decimal double float int smallint string timestamp tinyint".split()
)
# Functions of which Spark shows the first arguments alone.
_SHORT = {"ilike": 2, "to_json": 1}
_PATTERN = "yyyy-MM-dd HH:mm:ss"
# Arguments that Spark adds where they are left out, by the function and how many it has.
_ADDED: dict[tuple[str, int], tuple[str, ...]] = {
    ("bround", 1): ("0",),
    ("from_unixtime", 1): (_PATTERN,),
    ("lag", 1): ("1", "NULL"),
    ("lag", 2): ("NULL",),
    ("lead", 1): ("1", "NULL"),
    ("lead", 2): ("NULL",),
    ("locate", 2): ("1",),
    ("lpad", 2): (" ",),
    ("make_dt_interval", 1): ("0", "0", "0.000000"),
    ("make_dt_interval", 2): ("0", "0.000000"),
    ("make_dt_interval", 3): ("0.000000",),
    ("make_ym_interval", 1): ("0",),
    ("months_between", 2): ("true",),
    ("overlay", 3): ("-1",),
    ("percentile", 2): ("1",),
    ("percentile_approx", 2): ("10000",),
    ("approx_percentile", 2): ("10000",),
    ("position", 2): ("1",),
    ("regexp_extract", 2): ("1",),
    ("regexp_extract_all", 2): ("1",),
    ("regexp_instr", 2): ("0",),
    ("regexp_replace", 3): ("1",),
    ("replace", 2): ("",),
    ("round", 1): ("0",),
    ("rpad", 2): (" ",),
    ("sort_array", 1): ("true",),
    ("split", 2): ("-1",),
    ("str_to_map", 1): (",", ":"),
    ("str_to_map", 2): (":",),
    ("substr", 2): ("2147483647",),
    ("substring", 2): ("2147483647",),
    ("to_unix_timestamp", 1): (_PATTERN,),
    ("unix_timestamp", 1): (_PATTERN,),
}
# Functions whose names need more than their syntax, some only with this number of arguments.
_UNNAMED = frozenset(
    "approx_count_distinct/2 array_sort/1 assert_true mode/2 raise_error to_char to_varchar unix_timestamp/0".split()
)
_TYPES = {
    "byte": "TINYINT",
    "short": "SMALLINT",
    "integer": "INT",
    "long": "BIGINT",
    **{n: n.upper() for n in ("float", "double", "string", "boolean", "binary", "date", "timestamp", "timestamp_ntz")},
}
_MOMENTS = ("date", "timestamp")
_INTERVALS = ("interval", "days")
# What functions return, as far as names depend on it.
_RESULTS = {
    **dict.fromkeys(
        "add_months curdate current_date date date_add date_sub last_day make_date next_day to_date".split(), "date"
    ),
    **dict.fromkeys("trunc try_to_date date_from_unix_date dateadd".split(), "date"),
    **dict.fromkeys(
        "current_timestamp date_trunc from_utc_timestamp localtimestamp make_timestamp now".split(), "timestamp"
    ),
    **dict.fromkeys(
        "make_timestamp_ntz make_timestamp_ltz timestamp timestamp_micros timestamp_millis".split(), "timestamp"
    ),
    **dict.fromkeys(
        "timestamp_seconds timestampadd to_timestamp to_timestamp_ntz to_utc_timestamp".split(), "timestamp"
    ),
    **dict.fromkeys("to_timestamp_ltz try_to_timestamp".split(), "timestamp"),
    **dict.fromkeys(("make_dt_interval", "make_ym_interval"), "interval"),
    **dict.fromkeys("ascii count length month year day size count_if datediff instr locate".split(), "integral"),
}
# Frames that belong to functions.
_TO_CURRENT = "BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"
_OWN_FRAMES = {
    **dict.fromkeys(("row_number", "rank", "dense_rank", "percent_rank", "ntile"), f"ROWS {_TO_CURRENT}"),
    "cume_dist": f"RANGE {_TO_CURRENT}",
}
_WITHOUT_ARGUMENTS = ("rank", "dense_rank", "percent_rank")
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?")
# Forms in a text of which the tree doesn't tell all that Spark's name has.
_AMBIGUOUS = re.compile(
    r"\bnegative\s*\(|\blike\s+(?:any|all|some)\b|\bnulls\b|\bfilter\s*\(\s*where\b.*\bover\b"
    r"|\b(?:listagg|string_agg)\b.*(?:''|\"\")|\bposition\s*\(.*\bin\b|\bsubstr\s*\(.*\bfrom\b",
    re.IGNORECASE | re.DOTALL,
)


# STRUCT without names of fields, and forms that have the same tree.
_STRUCT = re.compile(r"(?<!named_)struct\s*\(", re.IGNORECASE)
_STRUCT_OF_NAMES = re.compile(r"\bnamed_struct\s*\(|\bas\b", re.IGNORECASE)


class _UnknownTitleError(Exception):
    """Spark's name of a part isn't known here."""


def spark_title(node: Syntax, text: str, named: Callable[[Name], Named | None]) -> str | None:
    """Spark's name of an unnamed column, from its tree and its text; None if it isn't known here.
    `named` gives the names of columns, None for those of enclosing queries.

    >>> from deltaplane.expr.syntax import parse
    >>> spark_title(parse("A + 1 <> b"), "A + 1 <> b", lambda name: Named(name.parts[-1]))
    '(NOT ((A + 1) = b))'
    """
    if _AMBIGUOUS.search(text):
        return None
    structs = _STRUCT.search(text) is not None
    if structs and _STRUCT_OF_NAMES.search(text):
        return None
    try:
        return _Titles(named, structs, ">>" in text, "shiftright" in text.lower()).whole(node)
    except (_UnknownTitleError, RecursionError):
        return None


def _unknown() -> NoReturn:
    raise _UnknownTitleError


class _Titles:
    """Names of trees, with a function for the names of columns."""

    def __init__(
        self, named: Callable[[Name], Named | None], structs: bool, shifts: bool, shift_functions: bool
    ) -> None:
        self._named = named
        # Whether shifts are written as operators, as functions, or both.
        self._shifts, self._shift_functions = shifts, shift_functions
        # Whether structs are written without the names of their fields.
        self._structs = structs
        # What each part is, by its identity.
        self._kinds: dict[int, str] = {}

    def whole(self, node: Syntax) -> str:
        """The name of a column that is a tree: a conversion of a column has that column's name, and
        a field of one has the field's."""
        if isinstance(node, Cast) and isinstance(node.arg, Name) and not self._column(node.arg).fields:
            return self.of(node.arg)
        if isinstance(node, Call) and node.name == "." and _is_dotted(node):
            return self.of(node.args[1])
        return self.of(node)

    def of(self, node: Syntax) -> str:
        """The name of a tree."""
        match node:
            case Literal():
                return _constant(node)
            case Name():
                return self._column(node).shown
            case Variable():
                return "namedlambdavariable()"
            case Cast():
                return self._cast(node)
            case Lambda(_, args, variables):
                return f"lambdafunction({', '.join([self.of(args[0]), *('namedlambdavariable()' for _ in variables)])})"
            case Subquery():
                _unknown()
            case Window():
                return self._window(node)
            case Aggregate():
                return self._aggregate(node)
            case _:
                return self._call(node)

    def _column(self, node: Name) -> Named:
        return self._named(node) or _unknown()

    def _several(self, nodes: Sequence[Syntax]) -> list[str]:
        return [self.of(node) for node in nodes]

    def _cast(self, node: Cast) -> str:
        to = _type(node.to)
        if node.literal:
            return _moment(node)
        return f"{'TRY_' if node.attempt else ''}CAST({self.of(node.arg)} AS {to})"

    def _call(self, node: Call) -> str:
        name, count = node.name, len(node.args)
        if name in ("and", "or"):
            return _balanced(self._several(node.args), name.upper())
        if name in ("+", "-") and count == 2:
            return self._sum(name, *node.args)
        if name == "*" and self._kind(node.args[1]) in _INTERVALS:
            return f"({self.of(node.args[1])} * {self.of(node.args[0])})"
        if name in _COMPARISONS:
            self._check_comparison(*node.args)
        if name in ("lpad", "rpad") and count == 2 and self._kind(node.args[0]) != "string":
            _unknown()
        if name == "case":
            return self._case(node.args)
        if name == ".":
            return ".".join(self._several(node.args))
        if name == "named_struct" and self._structs:
            return f"struct({', '.join(self._several(node.args[1::2]))})"
        args = self._several(node.args)
        if name in _SHIFTS and self._shifts:
            return f"({args[0]} {_SHIFTS[name]} {args[1]})" if not self._shift_functions else _unknown()
        made = _operator(name, args)
        return made if made is not None else self._function(name, args)

    def _sum(self, sign: str, left: Syntax, right: Syntax) -> str:
        kinds = self._kind(left), self._kind(right)
        names = self._several((left, right))
        turned = kinds[0] not in _MOMENTS and (
            kinds[1] in _MOMENTS or (kinds[1] == "string" and kinds[0] in _INTERVALS)
        )
        if sign == "+" and turned:
            kinds, names = kinds[::-1], names[::-1]
        if kinds == ("date", "days"):
            days = f"extractansiintervaldays({names[1]})"
            return f"date_add({names[0]}, {days if sign == '+' else f'(- {days})'})"
        if kinds[0] in (*_MOMENTS, "string") and kinds[1] in _INTERVALS:
            return f"{names[0]} {sign} {names[1]}"
        if kinds == ("date", "integral"):
            return f"date_{'add' if sign == '+' else 'sub'}({names[0]}, {names[1]})"
        special = set(kinds) & {*_MOMENTS, *_INTERVALS}
        if special and not any(set(kinds) <= set(alike) for alike in (_MOMENTS, _INTERVALS)):
            _unknown()
        return f"({names[0]} {sign} {names[1]})"

    def _check_comparison(self, left: Syntax, right: Syntax) -> None:
        """Spark rounds a decimal constant that it compares with an integer."""
        for value, other in ((left, right), (right, left)):
            if isinstance(value, Literal) and value.type.name == "decimal" and self._kind(other) in ("", "integral"):
                _unknown()

    def _kind(self, node: Syntax) -> str:
        """What a tree's value is, as far as names depend on it: `interval`, an interval of whole
        `days`, `integral`, the name of another type, or nothing if that isn't known."""
        kind = self._kinds.get(id(node))
        if kind is None:
            kind = self._kinds[id(node)] = self._computed_kind(node)
        return kind

    def _computed_kind(self, node: Syntax) -> str:
        match node:
            case Literal():
                return _kind_of(node.type)
            case Cast():
                return _kind_of(node.to)
            case Name():
                data_type = self._column(node).type
                return "" if data_type is None else _kind_of(data_type)
            case Call("+" | "-" | "*" | "/" as sign, (left, right)):
                return _combined(sign, self._kind(left), self._kind(right))
            case Call("negative" | "positive", (value,)):
                return self._kind(value)
            case Call(name):
                return _RESULTS.get(name, "")
        return ""

    def _case(self, nodes: Sequence[Syntax]) -> str:
        args = self._several(nodes)
        pairs = [f"WHEN {test} THEN {value}" for test, value in zip(args[::2], args[1::2], strict=False)]
        last = [f"ELSE {args[-1]}"] if len(args) % 2 else []
        return " ".join(["CASE", *pairs, *last, "END"])

    def _function(self, name: str, args: list[str]) -> str:
        if name in _CONVERSIONS and len(args) == 1:
            return args[0]
        if name in _UNNAMED or f"{name}/{len(args)}" in _UNNAMED or not re.fullmatch(r"\w+", name):
            _unknown()
        if name in ("extract", "datepart"):
            return f"{name}({args[0]} FROM {args[1]})"
        if name in _SHORT:
            del args[_SHORT[name] :]
        if name in ("aggregate", "reduce") and len(args) == 3:
            args.append("lambdafunction(namedlambdavariable(), namedlambdavariable())")
        if name == "log" and len(args) == 1:
            args.insert(0, "E()")
        args += _ADDED.get((name, len(args)), ())
        upper = name in _UPPER or (name in _ROUNDED and len(args) == 1)
        return f"{name.upper() if upper else _RENAMED.get(name, name)}({', '.join(args)})"

    def _aggregate(self, node: Aggregate) -> str:
        made = self._called(node, node.args)
        if node.distinct:
            made = made.replace("(", "(DISTINCT ", 1)
        return made if node.where is None else f"{made} FILTER (WHERE {self.of(node.where)})"

    def _called(self, node: Call, args: Sequence[Syntax]) -> str:
        """The call of a function of many rows."""
        if node.name in ("percentile_cont", "percentile_disc"):
            key, share, *others = args
            direction = " DESC" if others else ""
            return f"{node.name}({self.of(share)}) WITHIN GROUP (ORDER BY {self.of(key)}{direction})"
        if node.name in LISTING:
            value, delimiter, descending = map(self.of, args)
            order = _sorted(value, descending == "true", descending != "true")
            return f"listagg({value}, {delimiter or 'NULL'}) WITHIN GROUP (ORDER BY {order})"
        return self._function(node.name, [] if node.name in _WITHOUT_ARGUMENTS else self._several(args))

    def _window(self, node: Window) -> str:
        if node.named is not None or node.ignores_nulls:
            _unknown()
        args, keys, order = (self._several(part) for part in node.parts)
        parts = [f"PARTITION BY {', '.join(keys)}"] if keys else []
        if order:
            sorted_by = [_sorted(key, *how) for key, how in zip(order, node.orders, strict=True)]
            parts.append(f"ORDER BY {', '.join(sorted_by)}")
        called = self._called(node, node.parts[0])
        return f"{called} OVER ({' '.join([*parts, self._frame(node, args)])})"

    def _frame(self, node: Window, args: Sequence[str]) -> str:
        if node.name in ("lag", "lead"):
            away = args[1] if len(args) > 1 else "1"
            if not away.isdecimal():
                _unknown()
            bound = f"{'-' if node.name == 'lag' and away != '0' else ''}{away} FOLLOWING"
            return f"ROWS BETWEEN {bound} AND {bound}"
        if node.name in _OWN_FRAMES:
            return _OWN_FRAMES[node.name]
        if node.frame is not None:
            return self._bounded(node.frame, node.parts[2])
        return f"RANGE {_TO_CURRENT}" if node.orders else "ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"

    def _bounded(self, frame: Frame, keys: Sequence[Syntax]) -> str:
        bounds = []
        for bound, unbounded in ((frame.start, "PRECEDING"), (frame.end, "FOLLOWING")):
            if bound is None:
                bounds.append(f"UNBOUNDED {unbounded}")
            elif bound == 0:
                bounds.append("CURRENT ROW")
            elif not isinstance(bound, int):
                _unknown()
            elif bound > 0:
                bounds.append(f"{bound} FOLLOWING")
            elif frame.rows or (isinstance(keys[0], Name) and self._column(keys[0]).type == INT):
                bounds.append(f"{-bound} PRECEDING")
            else:
                # Spark converts the distance to the type of the order's key.
                _unknown()
        return f"{'ROWS' if frame.rows else 'RANGE'} BETWEEN {bounds[0]} AND {bounds[1]}"


def _operator(name: str, args: Sequence[str]) -> str | None:
    """The name of an operator with its operands, or of a function that Spark names as one."""
    match name, args:
        case ("<>" | "!=", [left, right]):
            return f"(NOT ({left} = {right}))"
        case (_, [left, right]) if name in _INFIX:
            return f"({left} {_SYMBOLS.get(name, name)} {right})"
        case ("||", [left, right]):
            return f"concat({left}, {right})"
        case ("not" | "!", [arg]):
            return f"(NOT {arg})"
        case ("negative", [arg]):
            return f"(- {arg})"
        case ("positive", [arg]):
            return f"(+ {arg})"
        case ("~", [arg]):
            return f"~{arg}"
        case ("isnull", [arg]):
            return f"({arg} IS NULL)"
        case ("isnotnull", [arg]):
            return f"({arg} IS NOT NULL)"
        case ("in", [value, *values]):
            return f"({value} IN ({', '.join(values)}))"
        case ("like", [value, pattern]):
            return f"{value} LIKE {pattern}"
        case ("like", [value, pattern, escape]):
            return f"{value} LIKE {pattern} ESCAPE '{escape}'"
        case ("if", [test, yes, no]):
            return f"(IF({test}, {yes}, {no}))"
        case ("[]", [value, key]):
            return f"{value}[{key}]"
        case ("trim-from", [characters, value]):
            return f"TRIM(BOTH {characters} FROM {value})"
        case ("ltrim", [characters, value]):
            return f"TRIM(LEADING {characters} FROM {value})"
        case ("rtrim", [characters, value]):
            return f"TRIM(TRAILING {characters} FROM {value})"
    return None


def _balanced(args: Sequence[str], word: str) -> str:
    """Conditions joined by AND or OR, which Spark's parser joins in halves."""
    if len(args) == 1:
        return args[0]
    half = (len(args) + 1) // 2
    return f"({_balanced(args[:half], word)} {word} {_balanced(args[half:], word)})"


def _sorted(key: str, descending: bool, nulls_first: bool) -> str:
    return f"{key} {'DESC' if descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}"


def _kind_of(data_type: SparkType) -> str:
    if data_type.interval:
        days = (data_type.name, data_type.precision, data_type.scale) == ("dt_interval", 0, 0)
        return "days" if days else "interval"
    if data_type.integral:
        return "integral"
    return {"timestamp_ntz": "timestamp", "void": ""}.get(data_type.name, data_type.name)


def _combined(sign: str, left: str, right: str) -> str:
    """What a sum, difference, product or quotient is."""
    if sign == "-" and left in _MOMENTS and right in _MOMENTS:
        return "days" if (left, right) == ("date", "date") else "interval"
    if left in _INTERVALS or right in _INTERVALS:
        moment = next((kind for kind in (left, right) if kind in _MOMENTS), "")
        if moment:
            # A date and a part of a day are a timestamp; whether months follow isn't known here.
            return moment if "days" in (left, right) or moment == "timestamp" else ""
        return left if left == right else "interval"
    return ""


def _is_dotted(node: Syntax) -> bool:
    while isinstance(node, Call) and node.name == ".":
        node = node.args[0]
    return isinstance(node, Name)


def _type(to: SparkType) -> str:
    if to.name == "decimal":
        return f"DECIMAL({to.precision},{to.scale})"
    return _TYPES.get(to.name) or _unknown()


def _constant(node: Literal) -> str:
    """The name of a constant: texts have no quotes."""
    value = node.value
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"X'{value.hex().upper()}'"
    if node.type.interval:
        return _interval(int(value), node.type)
    if node.type.fractional:
        return _binary_number(value, 7 if node.type.name == "float" else 15)
    if node.type.name == "decimal":
        number = Decimal(value)
        return str(number if number else abs(number))
    return str(int(value)) if node.type.integral else value


def _binary_number(value: str, digits: int) -> str:
    """A binary floating-point number as Java writes it; numbers with more digits than their type
    is sure to have are unknown."""
    number = Decimal(value)
    sign, figures, exponent = number.normalize().as_tuple()
    if len(figures) > digits or not isinstance(exponent, int):
        _unknown()
    minus = "-" if sign else ""
    if number == 0:
        return f"{minus}0.0"
    if Decimal("0.001") <= abs(number) < 10_000_000:
        plain = f"{number.normalize():f}"
        return plain if "." in plain else f"{plain}.0"
    first, *rest = map(str, figures)
    return f"{minus}{first}.{''.join(rest) or '0'}E{exponent + len(figures) - 1}"


_UNITS = ("DAY", "HOUR", "MINUTE", "SECOND")


def _interval(total: int, data_type: SparkType) -> str:
    """An interval as Spark writes it, from whole months or microseconds."""
    sign, rest = "-" if total < 0 else "", abs(total)
    first, last = data_type.precision, data_type.scale
    if data_type.name == "ym_interval":
        years, months = divmod(rest, 12)
        if first == last:
            return f"INTERVAL '{sign}{rest if first else years}' {'MONTH' if first else 'YEAR'}"
        return f"INTERVAL '{sign}{years}-{months}' YEAR TO MONTH"
    rest, micros = divmod(rest, 1_000_000)
    minutes, seconds = divmod(rest, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    amounts = [days, hours, minutes, seconds]
    # The first unit counts all longer ones.
    for unit, length in ((0, 24), (1, 60), (2, 60)):
        if unit < first:
            amounts[unit + 1] += amounts[unit] * length
    texts = [f"{amount:02d}" if unit else str(amount) for unit, amount in enumerate(amounts)]
    if micros:
        texts[3] += f".{micros:06d}".rstrip("0")
    shown = texts[first]
    for unit in range(first + 1, last + 1):
        shown += (" " if unit == 1 else ":") + texts[unit]
    units = _UNITS[first] if first == last else f"{_UNITS[first]} TO {_UNITS[last]}"
    return f"INTERVAL '{sign}{shown}' {units}"


def _moment(node: Cast) -> str:
    """A date or timestamp that is written as a constant."""
    value = node.arg.value if isinstance(node.arg, Literal) else None
    if not isinstance(value, str):
        _unknown()
    if node.to.name == "date":
        return f"DATE '{value}'" if _DATE.fullmatch(value) else _unknown()
    match = _TIME.fullmatch(value)
    if match is None:
        _unknown()
    fraction = (match[3] or "").rstrip("0")
    return f"{node.to.name.upper()} '{match[1]} {match[2] or '00:00:00'}{f'.{fraction}' if fraction else ''}'"
