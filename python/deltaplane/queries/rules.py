"""Rules of columns and types in plans: expansion of stars, common types, comparisons of rows.

Uses columns and types; independent of plans.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.casts import cast
from deltaplane.expr.coerce import common
from deltaplane.expr.syntax import Call, Cast, Literal, Name, Syntax
from deltaplane.expr.typed import Context, Typed, refuse
from deltaplane.expr.types import INT, STRING, SparkType
from deltaplane.expr.unparse import conjuncts
from deltaplane.queries.functions.aggregates import normal
from deltaplane.queries.plan import Column, Output, Ref, SortKey, Value
from deltaplane.queries.results.titles import Named, spark_title
from deltaplane.queries.scopes import matching, rewritten
from deltaplane.queries.syntax import Aggregate, Item, Order, Star, Subquery, Window

__all__ = [
    "Text",
    "aliases_in",
    "all_of",
    "comparable",
    "converted",
    "every",
    "factored",
    "filtering",
    "lateral",
    "number",
    "only_one",
    "only_shown",
    "ordinal",
    "parts_of",
    "sort_key",
    "starred",
    "title",
    "together",
    "unqualified",
]


def unqualified(columns: Sequence[Column]) -> list[Column]:
    """The columns without a relation's name."""
    return [replace(c, qualifiers=(), hidden=False) for c in columns]


def only_one(columns: Sequence[Column], name: str) -> Column:
    """The one column with a name in USING."""
    matches, _ = matching((name,), columns)
    if len(matches) != 1:
        raise InvalidArgumentError(f"USING needs one column `{name}` on each side, not {len(matches)}")
    return matches[0]


def only_shown(columns: Sequence[Column], name: str) -> Column:
    """The one column with a name among those that a star has."""
    matches = [c for c in columns if not c.hidden and c.name.lower() == name.lower()]
    if len(matches) != 1:
        known = ", ".join(dict.fromkeys(c.name for c in columns if not c.hidden))
        raise InvalidArgumentError(f"{len(matches) or 'no'} columns are called `{name}` (there are {known[:300]})")
    return matches[0]


def starred(star: Star, columns: Sequence[Column]) -> list[Column]:
    """The columns that a star expands to."""
    asked = [q.lower() for q in star.qualifier]
    columns = [c for c in columns if not c.outer]
    if not asked:
        selected = [c for c in columns if not c.hidden]
    else:
        # As in Spark, the columns merged by USING come first.
        named = [c for c in columns if [q.lower() for q in c.qualifiers[-len(asked) :]] == asked]
        selected = [c for c in named if c.hidden] + [c for c in named if not c.hidden]
    if not selected:
        raise InvalidArgumentError(f"`{'.'.join((*star.qualifier, '*'))}` means no column: there is no such table")
    for name in star.but:
        if not any(c.name.lower() == name.lower() for c in selected):
            raise InvalidArgumentError(f"EXCEPT names `{name}`, which is no column there")
    return [c for c in selected if c.name.lower() not in {name.lower() for name in star.but}]


def filtering(condition: Syntax) -> Syntax:
    """A WHERE condition, with marks on the IN and NOT IN tests that decide on a row by
    themselves."""
    if isinstance(condition, Subquery):
        return replace(condition, filters=True)
    if isinstance(condition, Call):
        denied = condition.args[0] if condition.name == "not" else None
        if isinstance(denied, Subquery) and len(denied.args) > 1:
            return replace(denied, name="not in", filters=True)
        if condition.name == "and" or isinstance(denied, Subquery):
            return Call(condition.name, tuple(filtering(arg) for arg in condition.args))
    return condition


def factored(condition: Syntax) -> Syntax:
    """A condition with what all branches of an OR have in common before that OR.

    A common part may join two relations, which no part of an OR can.
    """
    if not isinstance(condition, Call) or condition.name not in ("and", "or"):
        return condition
    if condition.name == "and":
        return Call("and", tuple(factored(arg) for arg in condition.args))
    branches = [list(dict.fromkeys(conjuncts(branch))) for branch in _alternatives(condition)]
    common = [part for part in branches[0] if all(part in branch for branch in branches[1:])]
    if not common:
        return condition
    rest = [[part for part in branch if part not in common] for branch in branches]
    # A branch that has nothing else is true wherever the common part is.
    if any(not parts for parts in rest):
        return all_of(common)
    return all_of([*common, Call("or", tuple(map(all_of, rest)))])


def _alternatives(condition: Syntax) -> list[Syntax]:
    if isinstance(condition, Call) and condition.name == "or":
        return [part for arg in condition.args for part in _alternatives(arg)]
    return [condition]


def all_of(parts: Sequence[Syntax]) -> Syntax:
    """The condition that all of one or more conditions are true."""
    return parts[0] if len(parts) == 1 else Call("and", tuple(parts))


def aliases_in(node: Syntax, aliased: Mapping[str, Sequence[Syntax]], columns: Sequence[Column]) -> list[str]:
    """The uses of aliases of earlier columns in an expression of SELECT, in lower case."""
    own = [c for c in columns if not c.outer]
    used = []

    def note(part: Syntax) -> Syntax | None:
        if isinstance(part, Name) and not isinstance(part, Ref):
            alias = part.parts[0].lower()
            if alias in aliased and not matching(part.parts, own)[0]:
                used.append(alias)
        return None

    if aliased:
        rewritten(node, note)
    return used


def parts_of(node: Syntax) -> int:
    """The number of parts of a tree."""
    count, left = 0, [node]
    while left:
        part = left.pop()
        count += 1
        left += (part.arg,) if isinstance(part, Cast) else part.args if isinstance(part, Call) else ()
    return count


def lateral(node: Syntax, aliased: Mapping[str, Sequence[Syntax]], columns: Sequence[Column]) -> Syntax:
    """An expression of SELECT with the aliases of earlier columns replaced by these columns.

    Columns of the relations take precedence; those of enclosing queries come last.
    """
    own = [c for c in columns if not c.outer]

    def change(part: Syntax) -> Syntax | None:
        if isinstance(part, (Aggregate, Window)):
            args = tuple(rewritten(arg, change) for arg in part.args)
            where_before = part.where if isinstance(part, Aggregate) else None
            where = None if where_before is None else rewritten(where_before, change)
            if (args, where) != (part.args, where_before):
                raise InvalidArgumentError(
                    f"`{part.name}` takes no alias of a column before it: write the expression out"
                )
            return part
        if isinstance(part, Ref) or not isinstance(part, Name) or matching(part.parts, own)[0]:
            return None
        matches = aliased.get(part.parts[0].lower(), ())
        if len(matches) > 1:
            raise InvalidArgumentError(f"`{part.parts[0]}` could be any of several columns before it")
        if not matches:
            return None
        made = matches[0]
        for field in part.parts[1:]:
            made = Call(".", (made, Literal(field, STRING)))
        return made

    return rewritten(node, change) if aliased else node


class Text(str):
    """The name of an unnamed column: its text, which differs from Spark's name."""


def title(item: Item, aliased: Container[str], columns: Sequence[Column]) -> str:
    """The name of a result's column: its own one, or Spark's; its text if Spark's name isn't known.
    `aliased` has the aliases of earlier columns in lower case."""
    if item.alias is not None:
        return item.alias
    if isinstance(item.value, Name):
        return item.value.parts[-1]
    own = [c for c in columns if not c.outer]

    def named(name: Name) -> Named | None:
        parts = name.parts
        matches, fields = matching(parts, own)
        if not matches:
            alias = parts[0].lower() in aliased
            return Named(f"lateralAliasReference({parts[0]})", parts[1:]) if alias else None
        return Named(parts[len(parts) - len(fields) - 1], fields, None if fields else matches[0].type)

    made = spark_title(item.value, item.text, named)
    return Text(item.text) if made is None else made


def every(node: Syntax, columns: Sequence[Column]) -> bool:
    """Whether an expression is the word ALL, and no column of the query's own relations has that
    name."""
    if not isinstance(node, Name) or [p.lower() for p in node.parts] != ["all"]:
        return False
    return not matching(node.parts, [c for c in columns if not c.outer])[0]


def number(i: int) -> Literal:
    """The expression that refers to a column of the result, counted from 0."""
    return Literal(str(i + 1), INT)


def ordinal(node: Syntax) -> int | None:
    """The number, if an expression is one: it refers to a column of the result."""
    if isinstance(node, Literal) and node.type == INT and node.value is not None:
        return int(str(node.value))
    return None


def comparable(value: Value, clause: str) -> Value:
    """A value in the form for comparing rows; `clause` names the clause that compares."""
    data_type = value.typed.type
    if not (data_type.atomic or data_type.name == "void"):
        refuse(f"{clause} on {data_type}")
    return replace(value, typed=normal(value.typed))


def sort_key(output: Output, order: Order) -> SortKey:
    """An output in the form for sorting rows."""
    data_type = output.value.typed.type
    if not (data_type.atomic or data_type.name == "void"):
        refuse(f"ORDER BY on {data_type}")
    return SortKey(output.id, normal(Typed(data_type, output.id)).sql, order.descending, order.nulls_first)


def together(types: Sequence[SparkType], what: str) -> SparkType:
    """The common type of values of several rows; refuses text together with other types, which
    Spark would convert."""
    shared: SparkType | None = types[0]
    for data_type in types[1:]:
        mixed = shared is not None and ((shared.name == "string") != (data_type.name == "string"))
        if mixed and "void" not in (shared.name if shared else "", data_type.name):
            shared = None
        shared = common(shared, data_type) if shared is not None else None
    if shared is None:
        raise InvalidArgumentError(
            f"{what} has values of types that don't go together ({', '.join(map(str, types[:5]))}): cast them"
        )
    return shared


def converted(context: Context, value: Typed, to: SparkType) -> Typed:
    """A value converted to another type, such as the common type or a column's type."""
    if value.type == to:
        return value
    if value.type.name == "void" and not to.atomic:
        return Typed(to, f"CAST(NULL AS {to.duck})", constant=True)
    return cast(context, value, to)
