"""Owns `Record`, the base of requests and results that cross between Python and Rust: their fields
are listed once, and construction, equality, text and pickling follow. Knows no table.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from typing_extensions import Self, dataclass_transform
else:

    def dataclass_transform(**_: bool) -> Any:
        """Type checkers alone read it."""
        return lambda decorated: decorated


# Most values; to look for other kinds first takes a tenth of the processor time of a small append.
_PLAIN = (str, int, float, bool, type(None))


def _plain(value: Any) -> Any:
    """A value without records and predicates in it: dicts in their place."""
    if type(value) in _PLAIN:
        return value
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return value


@dataclass_transform(eq_default=True, frozen_default=True)
class Record:
    """A frozen object that only holds its fields: the annotations of its class, in their order.

    A value in the class is the field's default. Records of one class with equal fields are equal.
    """

    _fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        cls._fields = tuple(cls.__annotations__)

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = self._fields
        if len(values) > len(fields):
            raise TypeError(f"{type(self).__name__} takes {len(fields)} fields, not {len(values)}")
        for field, value in zip(fields, values, strict=False):
            if field in named:
                raise TypeError(f"{type(self).__name__} got two values for its field {field}")
            named[field] = value
        if unknown := named.keys() - set(fields):
            raise TypeError(f"{type(self).__name__} has no field {', '.join(sorted(unknown))}")
        defaults = type(self).__dict__
        if missing := [field for field in fields if field not in named and field not in defaults]:
            raise TypeError(f"{type(self).__name__} needs a value for its field {', '.join(missing)}")
        self.__dict__.update((field, named[field] if field in named else defaults[field]) for field in fields)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen: its {name} can't be set")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"a {type(self).__name__} is frozen: its {name} can't be deleted")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.__dict__ == other.__dict__

    # Fields may be lists and dicts.
    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({values})"

    def __reduce__(self) -> tuple[type[Self], tuple[Any, ...]]:
        return type(self), tuple(getattr(self, field) for field in self._fields)

    def with_fields(self, **fields: Any) -> Self:
        """The same with other values for these fields."""
        return type(self)(**{**self.__dict__, **fields})

    def to_dict(self) -> dict[str, Any]:
        """The fields by name, in the order of the names; those of records within too."""
        return {field: _plain(getattr(self, field)) for field in sorted(self._fields)}
