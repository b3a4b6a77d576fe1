"""The list of admitted functions and operators: name → family and translation.

Defines the form of an entry; the entries are in `functions`. Other names are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import takes
from deltaplane.expr.typed import Context, Typed, attempted, made, mistyped
from deltaplane.expr.types import SparkType

Lowering = Callable[[Context, list[Typed]], Typed]


@dataclass(frozen=True)
class Function:
    """A lambda function with the parameters `names` in DuckDB; binding it to values yields its
    body."""

    names: tuple[str, ...]
    bound: Callable[[Sequence[Typed]], Typed]

    def __call__(self, *values: Typed) -> Typed:
        return self.bound(values)


HigherLowering = Callable[[Context, list[Typed], list[Function]], Typed]


@dataclass(frozen=True)
class Entry:
    """A function's name; `higher` is its translation with lambda functions after the other
    arguments."""

    name: str
    family: str
    lower: Lowering
    higher: HigherLowering | None = None


@dataclass(frozen=True)
class Form:
    """One signature: parameter types, result type, and DuckDB text in which `{0}` is the first
    argument.

    `throws`: rows can raise Spark's error. `partial`: rows may be refused that Spark accepts.
    """

    parameters: Sequence[SparkType]
    result: SparkType
    sql: str
    throws: bool = False
    partial: bool = False

    def fits(self, args: list[Typed]) -> int | None:
        """How many arguments have to be converted; None if the form doesn't accept them."""
        if len(args) != len(self.parameters):
            return None
        if not all(takes(p, a.type) for p, a in zip(self.parameters, args, strict=True)):
            return None
        return sum(p != a.type for p, a in zip(self.parameters, args, strict=True))

    def apply(self, context: Context, args: list[Typed]) -> Typed:
        """The function's value."""
        converted = [cast(context, a, p) for p, a in zip(self.parameters, args, strict=True)]
        sql = self.sql.format(*(a.sql for a in converted))
        return made(self.result, sql, *converted, throws=self.throws, partial=self.partial)


ENTRIES: dict[str, Entry] = {}


def admit(family: str, *names: str) -> Callable[[Lowering], Lowering]:
    """Registers a translation under these names."""

    def register(lowering: Lowering) -> Lowering:
        for name in names:
            assert name not in ENTRIES, name
            ENTRIES[name] = Entry(name, family, lowering)
        return lowering

    return register


def admit_higher(family: str, *names: str) -> Callable[[HigherLowering], HigherLowering]:
    """Registers a translation with lambda functions under these names."""

    def register(lowering: HigherLowering) -> HigherLowering:
        for name in names:

            def alone(_: Context, args: list[Typed], name: str = name) -> Typed:
                raise InvalidArgumentError(f"`{name}` needs a lambda function, such as x -> x + 1")

            assert name not in ENTRIES, name
            ENTRIES[name] = Entry(name, family, alone, lowering)
        return lowering

    return register


def forms(family: str, names: str, *overloads: Form) -> None:
    """Registers names (separated by blanks) that consist of these forms."""

    def lower(context: Context, args: list[Typed]) -> Typed:
        fitting = [(n, i) for i, form in enumerate(overloads) if (n := form.fits(args)) is not None]
        if not fitting:
            mistyped(names.split()[0], args)
        return overloads[min(fitting)[1]].apply(context, args)

    admit(family, *names.split())(lower)


def trying(family: str, name: str, plain: str) -> None:
    """Registers a name that returns null where another one raises Spark's error."""

    def lower(context: Context, args: list[Typed]) -> Typed:
        return attempted(ENTRIES[plain].lower(context, args), *args)

    admit(family, name)(lower)
