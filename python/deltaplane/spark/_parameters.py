"""Parameters of a statement: `:name` of a dict and `?` of a list become the SQL of what Spark itself binds for them.

Called by `deltaplane.spark_names`, for statements that Spark doesn't run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.spark._internals import Jvm

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["has_parameters", "with_values"]

# What isn't looked into, and parameters; a colon right behind a column begins a path into it.
_PARAMETER = re.compile(
    r"""[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`(?:[^`]|``)*`|--(?:\\\n|[^\n])*|/\*.*?\*/"""
    r"""|(?<![\w`:)\]]):(?P<name>\w+)|\?""",
    re.DOTALL,
)


def has_parameters(text: str) -> bool:
    """Whether a statement waits for values."""
    return any(one["name"] is not None or one[0] == "?" for one in _PARAMETER.finditer(text))


def with_values(
    text: str,
    args: Mapping[str, Any] | Sequence[Any],
    run: Callable[[str, Any], DataFrame],
    jvm: Jvm,
) -> str | None:
    """A statement with its parameters' values in its text; None where it has no parameter. `run` has Spark run a query with
    values.

    Raises:
        InvalidArgumentError: a statement with more parameters than values.
        PySparkException: as Spark, for values that it doesn't bind.
    """
    named: Mapping[str, Any] | None = args if isinstance(args, Mapping) else None
    places: Sequence[Any] = () if isinstance(args, Mapping) else args
    parameters = _PARAMETER.finditer(text)
    found = [one for one in parameters if (one[0] == "?" if named is None else one["name"] in named)]
    if not found:
        return None
    if named is not None:
        names = list(dict.fromkeys(one["name"] for one in found))
        query = ", ".join(f":{name} AS p{i}" for i, name in enumerate(names))
        made = dict(zip(names, jvm.selected_sql(run(f"SELECT {query}", named)), strict=True))
        values = [made[one["name"]] for one in found]
    else:
        if len(found) > len(places):
            raise InvalidArgumentError(
                f"the statement has more parameters than values were given, {len(found)} and {len(places)}: give one for each `?`"
            )
        # By names: Spark 4.2 mixes up more than a few values by their places.
        given = {f"p{i}": places[i] for i in range(len(found))}
        query = ", ".join(f":{name} AS {name}" for name in given)
        values = jvm.selected_sql(run(f"SELECT {query}", given))
    shown, at = "", 0
    for one, value in zip(found, values, strict=True):
        # A literal is one word for the words around it, as in INTERVAL '1' DAY; a sign or a call isn't.
        plain = re.fullmatch(r"\w+|'(?:[^'\\]|\\.)*'", value)
        shown += text[at : one.start()] + (value if plain else f"({value})")
        at = one.end()
    return shown + text[at:]
