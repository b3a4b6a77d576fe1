"""Replaces a statement's parameters, `:name` of a dict and `?` of a list, by SQL literals as Spark
binds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.values.parameters import PARAMETER, parameters_in, replaced
from deltaplane.spark.jvm.internals import Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Bound", "bound", "has_parameters", "with_values"]


@dataclass(frozen=True)
class Bound:
    """Values as SQL, in their order, and their names."""

    values: tuple[str, ...]
    names: tuple[str, ...]


def bound(text: str, bound_values: Bound) -> str:
    """A statement with values in place of its parameters, which are either all named or all
    positional.

    Raises:
        InvalidArgumentError: surplus or missing values.

    >>> bound("DELETE FROM t WHERE x = ? OR y = ?", Bound(("1", "'a'"), ("1", "a")))
    "DELETE FROM t WHERE x = 1 OR y = 'a'"
    >>> bound("DELETE FROM t WHERE x = :n AND y = :n", Bound(("1",), ("n",)))
    'DELETE FROM t WHERE x = 1 AND y = 1'
    """
    matches, named = parameters_in(text)
    if named:
        of_names = dict(zip(bound_values.names, bound_values.values, strict=True))
        missing = next((name for name in named if name not in of_names), None)
        if missing is not None:
            raise InvalidArgumentError(
                f"the statement has the parameter :{missing}, and USING gives no value of this name: write "
                f"USING … AS {missing} (UNBOUND_SQL_PARAMETER)"
            )
        return replaced(text, matches, [of_names[name] for name in named])
    if len(matches) != len(bound_values.values):
        raise InvalidArgumentError(
            f"the statement has {len(matches)} parameters `?`, and USING gives {len(bound_values.values)} values: give one for each "
            "(UNBOUND_SQL_PARAMETER)"
        )
    return replaced(text, matches, bound_values.values)


def has_parameters(text: str) -> bool:
    """Whether a statement has parameters."""
    return any(match["name"] is not None or match[0] == "?" for match in PARAMETER.finditer(text))


def with_values(
    text: str,
    args: Mapping[str, Any] | Sequence[Any],
    run: Callable[[str, Any], DataFrame],
    jvm: Jvm,
) -> str | None:
    """A statement with its parameters' values in the text; None if it has no parameter. `run` makes
    Spark run a query with values.

    Raises:
        InvalidArgumentError: a parameter without a value.
        PySparkException: Spark refuses a value.
    """
    named: Mapping[str, Any] | None = args if isinstance(args, Mapping) else None
    places: Sequence[Any] = () if isinstance(args, Mapping) else args
    parameters = PARAMETER.finditer(text)
    matches = [match for match in parameters if (match[0] == "?" if named is None else match["name"] in named)]
    if not matches:
        return None
    if named is not None:
        names = list(dict.fromkeys(match["name"] for match in matches))
        query = ", ".join(f":{name} AS p{i}" for i, name in enumerate(names))
        made = dict(zip(names, jvm.selected_sql(run(f"SELECT {query}", named)), strict=True))
        values = [made[match["name"]] for match in matches]
    else:
        if len(matches) > len(places):
            raise InvalidArgumentError(
                f"the statement has more parameters than values were given, {len(matches)} and {len(places)}: give one for each `?`"
            )
        # Uses names, since Spark 4.2 mixes up positional values if there are more than a few.
        named_values = {f"p{i}": places[i] for i in range(len(matches))}
        query = ", ".join(f":{name} AS {name}" for name in named_values)
        values = jvm.selected_sql(run(f"SELECT {query}", named_values))
    return replaced(text, matches, values)
