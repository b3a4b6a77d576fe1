"""Checks arguments against the annotations of public functions: a wrong type raises a typed error
that names the argument.

`checked` wraps a function, or the public methods of a class. Annotations are parsed as text at a
function's first call, so that the check imports no library. Knows no function of the package.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from types import FunctionType
from typing import Any, NamedTuple, TypeVar

from deltaplane.exceptions import InvalidTypeError
from deltaplane.names import RENAMED_ARGUMENTS, use_new_names

__all__ = ["checked"]

T = TypeVar("T")

# Type aliases that annotations may use.
_ALIASES = {
    "TableUri": "str | PathLike",
    "VersionLike": "int | str | datetime | date",
    "StorageOptions": "Mapping[str, object]",
    "Predicate": "str | list",
    "DataType": "PrimitiveType | ArrayType | MapType | StructType",
    "OpenTable": "DeltaTable",
    "CredentialProvider": "Callable",
    "Expression": "str | Column",
    "Predicates": "Iterable | PathLike",
    "Batch": "Callable",
    "OnProgress": "Callable",
    "Progress": "Callable",
}
_TEXTS = (str, bytes, bytearray, memoryview)
# Bits of a code object's flags for `*args` and `**kwargs` (the values of inspect.CO_VARARGS and
# inspect.CO_VARKEYWORDS).
_HAS_REST, _HAS_KEYWORDS = 4, 8


class _Wrong(NamedTuple):
    """The invalid part of an argument, the expected type, and the actual one."""

    where: str
    wanted: str
    value: object


# Returns the problem of a value, or None.
_Check = Callable[[object], "_Wrong | None"]


def checked(**instead: str) -> Callable[[T], T]:
    """A decorator that checks arguments of a function, or of a class's public methods, before it
    runs.

    Args:
        instead: parameter → annotation to check instead of its own; `object` leaves the check to
            the function.

    Raises, when the function is called: InvalidTypeError: an argument doesn't have its annotation's
        type. Values aren't shown: they may be secrets.

    >>> @checked()
    ... def take(columns: list[str] | None = None, *, dry_run: bool = False) -> None: ...
    >>> take(["a"]), take(columns=None)
    (None, None)
    >>> take("a")
    Traceback (most recent call last):
    deltaplane.exceptions.InvalidTypeError: take: columns is a list of str or None, not a str
    """

    def decorate(what: T) -> T:
        if not isinstance(what, type):
            is_method = "." in getattr(what, "__qualname__", "").rpartition("<locals>.")[2]
            return _wrapped(what, instead, is_method=is_method)  # type: ignore[return-value, arg-type]
        for name, member in list(vars(what).items()):
            if name != "__init__" and name.startswith("_"):
                continue
            inner = member.__func__ if isinstance(member, (classmethod, staticmethod)) else member
            if not isinstance(inner, FunctionType) or getattr(inner, "is_checked", False):
                continue
            made: Any = _wrapped(inner, instead, is_method=not isinstance(member, staticmethod))
            setattr(what, name, type(member)(made) if inner is not member else made)
        return what

    return decorate


def _wrapped(function: Callable[..., Any], instead: Mapping[str, str], *, is_method: bool) -> Callable[..., Any]:
    parameters = _parameters(function)
    if not parameters.annotations:
        return function
    positional, rest = parameters.positional, parameters.rest
    checks: dict[str, _Check] = {}

    def taken(parameter: str, value: object, owner: object) -> object:
        check = checks.get(parameter)
        if check is None:
            return value
        wrong = check(value)
        if wrong is not None:
            called = _called(function, owner if is_method else None)
            raise InvalidTypeError(f"{called}: {parameter}{wrong.where} is {wrong.wanted}, not {_shown(wrong.value)}")
        return _own(value)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not checks:
            checks.update(_checks(parameters, instead))
        owner = args[0] if args else None
        if not RENAMED_ARGUMENTS.keys().isdisjoint(kwargs):
            kwargs = use_new_names(_called(function, owner if is_method else None), kwargs, parameters.names)
        own = [taken(parameter, value, owner) for parameter, value in zip(positional, args, strict=False)]
        for value in args[len(positional) :]:
            own.append(value if rest is None else taken(rest, value, owner))
        return function(*own, **{parameter: taken(parameter, value, owner) for parameter, value in kwargs.items()})

    call.is_checked = True  # type: ignore[attr-defined]
    return call


def _called(function: Callable[..., Any], owner: object) -> str:
    """The function's qualified name for callers: methods belong to the class that inherits them."""
    if owner is None:
        return function.__name__ if function.__name__ != "__init__" else function.__qualname__.split(".")[0]
    name = owner.__name__ if isinstance(owner, type) else type(owner).__name__
    return name if function.__name__ == "__init__" else f"{name}.{function.__name__}"


class _Parameters(NamedTuple):
    """The parameters of a function, read from its code: `inspect` takes longer to import than this
    package."""

    names: tuple[str, ...]
    positional: tuple[str, ...]
    # The name of the `*args` parameter.
    rest: str | None
    annotations: Mapping[str, object]


def _parameters(function: Any) -> _Parameters:
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    code, annotations = function.__code__, {**function.__annotations__}
    annotations.pop("return", None)
    named = code.co_argcount + code.co_kwonlyargcount
    has_rest = bool(code.co_flags & _HAS_REST)
    names = code.co_varnames[: named + has_rest + bool(code.co_flags & _HAS_KEYWORDS)]
    return _Parameters(names, names[: code.co_argcount], names[named] if has_rest else None, annotations)


def _checks(parameters: _Parameters, instead: Mapping[str, str]) -> dict[str, _Check]:
    made = {}
    for name in parameters.names:
        annotation = instead.get(name, parameters.annotations.get(name))
        if annotation is None:
            continue
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "object")
        check = _union_check(_parse(text))
        if check is not None:
            made[name] = check
    # At least one entry, so that annotations are parsed only once.
    return made or {"": lambda value: None}


class _Type(NamedTuple):
    """One alternative of an annotation: `dict[str, int | None]` has two arguments, the second of
    two alternatives."""

    name: str
    arguments: tuple[tuple[_Type, ...], ...] = ()
    # The values of a `Literal`.
    literals: tuple[object, ...] = ()


def _parse(text: str) -> tuple[_Type, ...]:
    """Parses an annotation to its alternatives."""
    # A local import, since importing `ast` takes longer than importing this package.
    import ast

    def name_of(node: ast.expr) -> str:
        return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""

    def alternatives(node: ast.expr) -> tuple[_Type, ...]:
        if isinstance(node, ast.BinOp):
            return (*alternatives(node.left), *alternatives(node.right))
        if isinstance(node, ast.Constant):
            return _parse(node.value) if isinstance(node.value, str) else (_Type("None"),)
        if not isinstance(node, ast.Subscript):
            name = name_of(node)
            return _parse(_ALIASES[name]) if isinstance(node, ast.Name) and name in _ALIASES else (_Type(name),)
        name = name_of(node.value)
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if name == "Literal":
            return (_Type(name, literals=tuple(part.value for part in parts if isinstance(part, ast.Constant))),)
        return (_Type(name, tuple(alternatives(part) for part in parts)),)

    return alternatives(ast.parse(text, mode="eval").body)


def _own(value: Any) -> object:
    """Converts NumPy's numbers and bools to Python's, which Rust and JSON accept."""
    is_one = type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "biuf"
    return value.item() if is_one and getattr(value, "ndim", 1) == 0 else value


def _union_check(parts: Sequence[_Type]) -> _Check | None:
    """The check of an annotation's alternatives; None accepts everything."""
    checks = [_type_check(part) for part in parts]
    known = [check for check in checks if check is not None]
    if len(known) < len(checks):
        return None
    if len(known) == 1:
        return known[0]
    wanted = _wanted(parts)

    def check(value: object) -> _Wrong | None:
        mismatches = [type_check(value) for type_check in known]
        if None in mismatches:
            return None
        # If one alternative accepts the whole, only a part is invalid.
        inner = next((f for f in mismatches if f is not None and f.where), None)
        return inner or _Wrong("", wanted, value)

    return check


def _type_check(part: _Type) -> _Check | None:
    name = part.name
    if name == "None":
        return _check(part, lambda value: value is None)
    if name in ("", "Any", "object"):
        return None
    if name == "Literal":
        kinds = tuple({type(value) for value in part.literals})
        return _check(part, lambda value: isinstance(value, kinds))
    if name in _PLAIN:
        return _check(part, _PLAIN[name])
    if name in ("list", "Sequence", "tuple", "Iterable", "Collection"):
        return _sequence(part)
    if name in ("Mapping", "dict"):
        return _mapping(part)
    # Compares by name, since the class's module may not be imported.
    return _check(part, lambda value: any(cls.__name__ == name for cls in type(value).__mro__))


def _check(part: _Type, accepts: Callable[[object], bool]) -> _Check:
    wanted = _wanted([part])
    return lambda value: None if accepts(value) else _Wrong("", wanted, value)


def _is_whole(value: object) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool) and type(value).__name__ not in ("bool", "bool_")


def _is_number(value: object) -> bool:
    is_one = isinstance(value, float) or _is_whole(value) or type(value).__name__ in ("float16", "float32", "Decimal")
    return is_one and not math.isnan(value)  # type: ignore[arg-type]


_PLAIN: dict[str, Callable[[object], bool]] = {
    "str": lambda value: isinstance(value, str),
    "bytes": lambda value: isinstance(value, bytes),
    "bool": lambda value: (
        isinstance(value, bool)
        or type(value).__name__ in ("bool_",)
        or (type(value).__module__ == "numpy" and type(value).__name__ == "bool")
    ),
    "int": _is_whole,
    "float": _is_number,
    "Sql": lambda value: isinstance(value, str),
    # Includes NaN, which the function refuses itself.
    "Number": lambda value: isinstance(value, float) or _is_number(value),
    "type": lambda value: isinstance(value, type),
    "Callable": callable,
    "PathLike": lambda value: hasattr(value, "__fspath__"),
    "datetime": lambda value: _is_moment(value, "datetime"),
    "date": lambda value: _is_moment(value, "date"),
    "timedelta": lambda value: _is_moment(value, "timedelta"),
}


def _is_moment(value: object, name: str) -> bool:
    # pandas' NaT is a datetime as well.
    return any(cls.__name__ == name for cls in type(value).__mro__) and type(value).__name__ != "NaTType"


def _sequence(part: _Type) -> _Check:
    wanted, name = _wanted([part]), part.name
    inner = _union_check(part.arguments[0]) if part.arguments and name != "tuple" else None
    kinds: tuple[type, ...] = (Sequence, Set) if name in ("Sequence", "Collection", "list") else (Iterable,)
    if name == "tuple":
        kinds = (tuple,)

    def check(value: object) -> _Wrong | None:
        if isinstance(value, (*_TEXTS, Mapping)) or not isinstance(value, kinds):
            return _Wrong("", wanted, value)
        # One-shot iterators aren't checked, because a check would consume them.
        for number, item in enumerate(value if inner is not None and isinstance(value, Sequence) else ()):
            assert inner is not None
            wrong = inner(item)
            if wrong is not None:
                return wrong._replace(where=f"[{number}]{wrong.where}")
        return None

    return check


def _mapping(part: _Type) -> _Check:
    wanted = _wanted([part])
    key_check, value_check = (
        (_union_check(inner) for inner in part.arguments) if len(part.arguments) == 2 else (None, None)
    )

    def check(value: object) -> _Wrong | None:
        if not isinstance(value, Mapping):
            return _Wrong("", wanted, value)
        for key, item in value.items():
            wrong = key_check(key) if key_check is not None else None
            if wrong is not None:
                return wrong._replace(where="'s key")
            wrong = value_check(item) if value_check is not None else None
            if wrong is not None:
                return wrong._replace(where=f"[{str(key)[:60]!r}]{wrong.where}")
        return None

    return check


_SAID = {
    "int": "a whole number",
    "float": "a number",
    "Number": "a number",
    "PathLike": "a path",
    "Callable": "a function",
    "Sql": "Spark SQL as a text (a number as '5', a text as \"'text'\", a missing value as 'null')",
}


def _wanted(parts: Sequence[_Type]) -> str:
    """Describes the expected type in words."""
    if len(parts) > 1:
        return _joined([_wanted([part]) for part in parts])
    (part,) = parts
    name, arguments = part.name, part.arguments
    if name == "Literal":
        return _joined([repr(value) for value in part.literals])
    if name in ("list", "Sequence", "Iterable", "Collection"):
        return f"a list of {_wanted(arguments[0])}" if arguments else "a list"
    if name in ("Mapping", "dict"):
        return f"a dict of {_wanted(arguments[0])} to {_wanted(arguments[1])}" if len(arguments) == 2 else "a dict"
    return _SAID.get(name, name)


def _joined(parts: Sequence[str]) -> str:
    parts = list(dict.fromkeys(parts))
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} or {parts[-1]}"


def _shown(value: object) -> str:
    if value is None:
        return "None"
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    name = type(value).__name__
    return "NaT" if name == "NaTType" else f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"
