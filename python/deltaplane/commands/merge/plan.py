"""Plans a MERGE for two schemas: resolves names, types expressions, and translates them for the
embedded engine.

Covers the parts of clauses that need no rows, except for the columns (`merge.columns`).
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from deltaplane import _native
from deltaplane.commands.merge.assignments import AssignedColumns
from deltaplane.commands.merge.clauses import Clause, Kind
from deltaplane.commands.merge.columns import Field, MergeColumns, check_whole, field_of, is_default, star_paths
from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
)
from deltaplane.expr import coerce, tree
from deltaplane.expr.casts import cast
from deltaplane.expr.joined import (
    JoinedBinder,
    Side,
    columns_of_sides,
    conjuncts,
    in_expression,
    names,
    parsed,
    pruning,
)
from deltaplane.expr.program import context_at
from deltaplane.expr.quoting import refuse_unclear
from deltaplane.expr.storing import stored, stores
from deltaplane.expr.syntax import Call, Name, Syntax
from deltaplane.expr.typed import Typed
from deltaplane.expr.types import SparkType, as_json, of_json, text

__all__ = ["BoundClause", "Key", "MergePlan", "Value"]

_EQUALS = ("=", "==", "<=>")
# Types whose minimum and maximum restrict the rows that can equal a value.
_RANGED = ("byte", "short", "integer", "long", "decimal", "string", "date", "timestamp", "timestamp_ntz", "boolean")
# Types whose equal values are identical.
_EXACT = (*_RANGED, "binary")


@dataclass(frozen=True)
class Key:
    """A column of the target that must equal a value of the source; `source` is DuckDB text over
    the source."""

    column: list[str]
    source: str
    type: SparkType
    null_safe: bool


@dataclass(frozen=True)
class Value:
    """A new value as DuckDB text, and its Delta type as JSON. `failing` are the paths of the
    column's parts to which some source values can't be cast."""

    sql: str
    type: Any
    failing: Sequence[str] = ()


@dataclass(frozen=True)
class BoundClause:
    """A clause for execution: DuckDB text over `t` and `s`.

    `condition` is None if it is always true. `values` are the new values: of the columns `assigned`
    for an update, of `columns` for an insert. `used` are the numbers of the target's columns that
    an update's values read, `whole` the columns that an update replaces completely, and `same` the
    columns that get the value which they already have.
    """

    clause: Clause
    condition: str | None
    values: Sequence[Value] = ()
    columns: Sequence[str] = ()
    assigned: AssignedColumns | None = None
    used: Set[int] = frozenset()
    whole: Set[str] = frozenset()
    same: Set[str] = frozenset()


@dataclass(frozen=True)
class _New:
    """A value of a clause: the column's original name, its path, and the expression.

    With `keeps_null` it isn't a value: the struct stays null if this struct of the source is null,
    too.
    """

    name: str
    path: list[str]
    sql: str
    node: Syntax
    binder: JoinedBinder
    keeps_null: bool = False


@dataclass
class _Sides:
    target: Side
    source: Side

    def of(self, kind: Kind) -> list[Side]:
        if kind == "matched":
            return [self.target, self.source]
        return [self.target] if kind == "not_matched_by_source" else [self.source]


@dataclass(kw_only=True)
class MergePlan(MergeColumns):
    """A MERGE between a version of a table and rows of a schema.

    Raises:
        InvalidArgumentError: an unknown or ambiguous column, or an invalid expression or clause.
        SchemaMismatchError: a value's type is incompatible with its column.
        UnsupportedExpressionError: the embedded engine can't evaluate the named expression with
            Spark's result.
    """

    predicate: str
    source_alias: str | None = None
    on: str = field(init=False)
    keys: list[Key] = field(init=False, default_factory=list)
    # Conditions that every matching row of the target satisfies.
    reads: list[tree.Node] = field(init=False, default_factory=list)
    joined_columns: set[int] = field(init=False, default_factory=set)
    # Columns of the target with the numbers of the source columns whose values they have in
    # matching rows.
    _equal: set[tuple[str, int]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._context = context_at("UTC", time.time_ns() // 1000)
        self._sides = _Sides(
            _side("t", self.target_alias, self._fields, "the table"),
            _side("s", self.source_alias, self.source_fields, "the source"),
        )
        self._refuse_unclear()
        self._bind_on()
        for clause in self.clauses:
            if clause.kind == "matched" and clause.condition is not None:
                self.joined_columns |= self._target_columns(parsed(clause.condition), clause.kind)

    def _refuse_unclear(self) -> None:
        """Refuses double-quoted texts that may be meant as columns."""
        known = columns_of_sides([self._sides.target, self._sides.source])
        for condition in (self.predicate, *(c.condition for c in self.clauses)):
            refuse_unclear(condition or "", known)
        for value in (value for c in self.clauses for value in (c.values or {}).values()):
            refuse_unclear(value, known, is_condition=False)

    # --- which rows match -----------------------------------------------------------------------------------------

    def _bind_on(self) -> None:
        binder, lowered = self._binder("matched"), []
        node, guarded = parsed(self.predicate), False
        for part in conjuncts(node):
            bound = self._boolean(binder, part, self.predicate)
            # The join evaluates parts in any order, so a part that can fail needs all parts before
            # it as a guard. Key expressions don't, as in Spark, whose join computes them for all
            # rows.
            fails = (bound.throws or bound.partial) and not self._joins(part, binder)
            guarded |= fails
            if not fails:
                lowered.append(f"({bound.sql})")
            self.joined_columns |= self._target_columns(part, "matched")
            condition = pruning(part, binder, self._sides.target)
            if condition is not None:
                self.reads.append(condition)
            self.keys += self._keys(part, binder)
            self._equal |= self._equals(part, binder)
        if guarded:
            lowered.append(f"({self._boolean(binder, node, self.predicate).sql})")
        self.on = " AND ".join(lowered)

    def _joins(self, part: Syntax, binder: JoinedBinder) -> bool:
        """Whether the part equates a value of one table with a value of the other, so that a hash
        join can use it."""
        if not isinstance(part, Call) or part.name not in _EQUALS or len(part.args) != 2:
            return False
        sides = [{binder.place(name)[0].sql for name in names(arg)} for arg in part.args]
        return sides in ([{"t"}, {"s"}], [{"s"}, {"t"}])

    def _keys(self, part: Syntax, binder: JoinedBinder) -> Iterator[Key]:
        if not isinstance(part, Call) or part.name not in _EQUALS or len(part.args) != 2:
            return
        for here, there in (part.args, reversed(part.args)):
            if not isinstance(here, Name):
                continue
            side, number, below = binder.place(here)
            others = {binder.place(name)[0].sql for name in names(there)}
            if side is not self._sides.target or others != {"s"}:
                continue
            column, value = binder.bind(here), binder.bind(there)
            to = coerce.common(column.type, value.type)
            # Otherwise the column is converted for the comparison, which may change its order.
            ranged = (
                to is not None and to.name in _RANGED and (to == column.type or (to.integral and column.type.integral))
            )
            # A value that can fail may be guarded by another part.
            if to is not None and ranged and not value.throws:
                value = coerce.convert(self._context, value, to)
                yield Key([self.target_columns[number], *below], value.sql, to, part.name == "<=>")

    def _equals(self, part: Syntax, binder: JoinedBinder) -> set[tuple[str, int]]:
        """The pairs of columns, one of each table, that a condition makes equal in value and
        type."""
        if not isinstance(part, Call) or part.name not in _EQUALS or len(part.args) != 2:
            return set()
        if not all(isinstance(arg, Name) for arg in part.args):
            return set()
        places = sorted((binder.place(name) for name in names(part)), key=lambda place: place[0] is self._sides.source)
        (side, own, below), (other, brought, beneath) = places
        if side is not self._sides.target or other is not self._sides.source or below or beneath:
            return set()
        data_type, to = self._fields[own]["type"], self.source_fields[brought]["type"]
        simple = of_json(data_type)
        # Floats have two zeros and many NaNs that are equal.
        exact = data_type == to and simple is not None and simple.name in _EXACT
        return {(self._fields[own]["name"], brought)} if exact else set()

    def _target_columns(self, node: Syntax, kind: Kind) -> set[int]:
        binder = self._binder(kind)
        places = [binder.place(name) for name in names(node)]
        return {number for side, number, _ in places if side is self._sides.target}

    def columns_by_source(self) -> set[int]:
        """The target's columns in the conditions for rows without a match."""
        conditions = [c.condition for c in self.of_kind("not_matched_by_source") if c.condition is not None]
        return {n for sql in conditions for n in self._target_columns(parsed(sql), "not_matched_by_source")}

    def reads_by_source(self) -> tree.Node | None:
        """The condition that every row satisfies which a clause for rows without a match can
        change; None for all rows."""
        binder, conditions = self._binder("not_matched_by_source"), []
        for clause in self.of_kind("not_matched_by_source"):
            part = clause.condition and pruning(parsed(clause.condition), binder, self._sides.target)
            if not part:
                return None
            conditions.append(part)
        return tree.any_of(conditions)

    # --- clauses ------------------------------------------------------------------------------------------------------

    def bound(self, schema: _native.TableSchema) -> list[BoundClause]:
        """Binds the clauses to the table's schema after the commit."""
        fields = schema.to_value()["fields"]
        return [self._bound(clause, fields) for clause in self.clauses]

    def _bound(self, clause: Clause, fields: Sequence[Field]) -> BoundClause:
        binder = self._binder(clause.kind)
        condition = None
        if clause.condition is not None:
            condition = self._boolean(binder, parsed(clause.condition), clause.condition).sql
        if clause.action == "delete":
            return BoundClause(clause, condition)
        if clause.action == "insert":
            return self._bound_insert(clause, condition, fields)
        assigned, values = AssignedColumns(fields), list[Value]()
        used, same = set[int](), set[str]()
        # `*` leaves fields that the source lacks unchanged; an explicit value replaces the whole
        # column.
        named = self.merge_schema and clause.values is not None
        stay_null = dict[int, Sequence[str]]()
        for number, new in enumerate(self._values(clause, fields)):
            if new.keeps_null:
                stay_null[number] = new.path
                values.append(Value(f"({self._located(new)[0]}) IS NULL", "boolean"))
                continue
            path, to = assigned.add_path(new.name, new.path, number)
            values.append(self._value(new, path, to, lacks=named))
            places = [new.binder.place(name) for name in names(new.node)]
            used |= {index for side, index, _ in places if side is self._sides.target}
            if clause.kind == "matched" and self._is_same(new.node, path, places):
                same.add(path[0])
        for number, of_struct in stay_null.items():
            assigned.keep_null(of_struct, number)
        whole = {name for name, node in assigned.tree.items() if node.value is not None}
        return BoundClause(clause, condition, values, assigned=assigned, used=used, whole=whole, same=same)

    def _is_same(self, node: Syntax, path: Sequence[str], places: Sequence[tuple[Side, int, Sequence[str]]]) -> bool:
        """Whether a column is assigned the source value that it equals bit by bit in every
        match."""
        if not isinstance(node, Name) or len(path) > 1:
            return False
        ((side, number, below),) = places
        return side is self._sides.source and not below and (path[0], number) in self._equal

    def _bound_insert(self, clause: Clause, condition: str | None, fields: Sequence[Field]) -> BoundClause:
        columns, values = list[str](), []
        for new in self._values(clause, fields):
            column = self.inserted_column(new.name, new.path, fields, columns)
            to = field_of(fields, column)
            assert to is not None
            columns.append(column)
            values.append(self._value(new, [column], to["type"], lacks=True))
        return BoundClause(clause, condition, values, columns)

    def _values(self, clause: Clause, fields: Sequence[Field]) -> list[_New]:
        if clause.values is None:
            # `*` means the source's columns, regardless of aliases.
            binder = self._binder("not_matched")
            starred = self.starred(clause, fields)
            if clause.action == "insert" or not self.merge_schema:
                return [_New(name, [name], name, Name((name,)), binder) for name in starred]
            return [new for name in starred for new in self._star_values(name, fields, binder)]
        if not clause.values:
            raise InvalidArgumentError(f"a clause to {clause.action} rows gives no column a value")
        binder, new_values = self._binder(clause.kind), []
        for name, value in clause.values.items():
            sql = self.default(name, fields) if is_default(value) else value
            new_values.append(_New(name, self.path(name), sql, parsed(sql), binder))
        return new_values

    def _star_values(self, name: str, fields: Sequence[Field], binder: JoinedBinder) -> Iterator[_New]:
        """The values that `*` assigns to a column if the schema evolves."""
        own, brought = field_of(fields, name), field_of(self.source_fields, name)
        assert own is not None
        assert brought is not None
        for path, keeps_null in star_paths([name], own["type"], brought["type"]):
            yield _New(".".join(path), path, ".".join(path), Name(tuple(path)), binder, keeps_null)

    def _located(self, new: _New) -> tuple[str, Any]:
        """A column, or a field below one, as DuckDB text, with its type as JSON; None if the field
        doesn't exist."""
        assert isinstance(new.node, Name)
        side, number, below = new.binder.place(new.node)
        field = (self.source_fields if side is self._sides.source else self._fields)[number]
        sql, data_type = side.sql_of(number), field["type"]
        for part in below:
            inner = None if isinstance(data_type, str) else field_of(data_type.get("fields", ()), part)
            if inner is None:
                return sql, None
            sql, data_type = f"struct_extract({sql}, {text(inner['name'])})", inner["type"]
        return sql, data_type

    def _value(self, new: _New, path: list[str], to: Any, *, lacks: bool) -> Value:
        """A new value, with each part in its column's type; structs keep their own fields."""
        column, target = ".".join(path), of_json(to)
        if isinstance(new.node, Name):
            sql, source_json = self._located(new)
            source_type = None if source_json is None else of_json(source_json)
            simple = target is not None and source_type is not None and target.atomic and source_type.atomic
            if source_json is not None and (source_json == to or not simple):
                return self._nested(column, sql, source_json, to, lacks=lacks)
        try:
            typed = new.binder.bind(new.node)
        except (InvalidArgumentError, UnsupportedExpressionError) as e:
            raise in_expression(e, new.sql) from e
        if target is None:
            raise UnsupportedExpressionError(
                f"the column `{column}` of type {json.dumps(to)} takes no expressions yet, only columns as they are"
            )
        if typed.type.parts and target.parts:
            return self._nested(column, typed.sql, as_json(typed.type), to, lacks=lacks)
        if not stores(typed.type, target):
            raise SchemaMismatchError(
                f"`{new.sql}` is of type {typed.type}, which a column of type {target} (`{column}`) doesn't take: cast it"
            )
        if typed.type == target:
            return Value(typed.sql, to)
        made = cast(self._context, typed, target)
        return Value(made.sql, to, [column] if made.throws and not typed.throws else [])

    def _nested(self, column: str, sql: str, brought: Any, to: Any, *, lacks: bool) -> Value:
        """A value of a nested type."""
        check_whole(column, to, brought, lacks=lacks, inside=not self.merge_schema)
        assignment = stored(self._context, column, sql, brought, to)
        return Value(assignment.sql, assignment.type, assignment.failing)

    # --- expressions --------------------------------------------------------------------------------------------------

    def _binder(self, kind: Kind) -> JoinedBinder:
        return JoinedBinder(self._sides.of(kind), self._context)

    def _boolean(self, binder: JoinedBinder, node: Syntax, sql: str) -> Typed:
        try:
            bound = binder.bind(node)
            if bound.type.name not in ("boolean", "void"):
                raise InvalidArgumentError(f"this is no condition: its type is {bound.type}")
        except DeltaError as e:
            raise in_expression(e, sql) from e
        return bound if bound.type.name == "boolean" else Typed(bound.type, "NULL::BOOLEAN")


def _side(sql: str, alias: str | None, fields: Sequence[Field], says: str) -> Side:
    return Side(sql, alias, {f["name"]: of_json(f["type"]) for f in fields}, says)
