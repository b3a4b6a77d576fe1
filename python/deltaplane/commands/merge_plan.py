"""What a MERGE means for two schemas: its names found, its expressions typed and lowered, the columns that it brings.

Owns everything about clauses that needs no row. Called by `merge`, which runs the plan.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deltaplane.commands.assignments import AssignedColumns, stores
from deltaplane.commands.merge_clauses import Clause, Kind
from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
)
from deltaplane.expr import coerce, tree
from deltaplane.expr.casts import cast
from deltaplane.expr.joined import JoinedBinder, Side, conjuncts, in_expression, names, parsed, pruning
from deltaplane.expr.program import context_at
from deltaplane.expr.syntax import Call, Name, Syntax
from deltaplane.expr.typed import Typed
from deltaplane.expr.types import SparkType, of_json

__all__ = ["BoundClause", "Key", "MergePlan", "Value"]

Field = Mapping[str, Any]
_EQUALS = ("=", "==", "<=>")
# Types whose smallest and largest values say which rows can equal one of them.
_RANGED = ("byte", "short", "integer", "long", "decimal", "string", "date", "timestamp", "timestamp_ntz", "boolean")


@dataclass(frozen=True)
class Key:
    """A column of the target that must equal a value of the source; `source` is DuckDB text over the source."""

    column: list[str]
    source: str
    type: SparkType
    null_safe: bool


@dataclass(frozen=True)
class Value:
    """A new value as DuckDB text, and the Delta type, as JSON, in which it comes."""

    sql: str
    type: Any


@dataclass(frozen=True)
class BoundClause:
    """A clause as the engine runs it: DuckDB text over `t` and `s`.

    `condition` is None where it is always met. `values` are the new values: of the columns `assigned` for an update,
    of `columns` for an insert.
    """

    clause: Clause
    condition: str | None
    values: Sequence[Value] = ()
    columns: Sequence[str] = ()
    assigned: AssignedColumns | None = None


@dataclass(frozen=True)
class _New:
    """A value of a clause: the column's name as it was written, its path, and the expression."""

    name: str
    path: list[str]
    sql: str
    node: Syntax
    binder: JoinedBinder


@dataclass
class _Sides:
    target: Side
    source: Side

    def of(self, kind: Kind) -> list[Side]:
        if kind == "matched":
            return [self.target, self.source]
        return [self.target] if kind == "not_matched_by_source" else [self.source]


@dataclass
class MergePlan:
    """A MERGE between a version of a table and rows of a schema.

    Raises:
        InvalidArgumentError: an unknown or ambiguous column, a wrong expression or clause.
        SchemaMismatchError: a value of a type that its column doesn't take.
        UnsupportedExpressionError: what the embedded engine doesn't evaluate as Spark does, by name.
    """

    schema_json: str
    source_json: str
    predicate: str
    clauses: Sequence[Clause]
    source_alias: str | None = None
    target_alias: str | None = None
    merge_schema: bool = False
    widens: bool = False
    on: str = field(init=False)
    keys: list[Key] = field(init=False, default_factory=list)
    # What every row of the target meets that can match.
    reads: list[tree.Node] = field(init=False, default_factory=list)
    joined_columns: set[int] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self._context = context_at("UTC", time.time_ns() // 1000)
        self._fields: list[Field] = json.loads(self.schema_json)["fields"]
        self._source_fields: list[Field] = json.loads(self.source_json)["fields"]
        self._sides = _Sides(
            _side("t", self.target_alias, self._fields, "the table"),
            _side("s", self.source_alias, self._source_fields, "the source"),
        )
        self._bind_on()
        for clause in self.clauses:
            if clause.kind == "matched" and clause.condition is not None:
                self.joined_columns |= self._target_columns(parsed(clause.condition), clause.kind)

    @property
    def target_columns(self) -> list[str]:
        """The table's columns, by their numbers."""
        return [f["name"] for f in self._fields]

    def of_kind(self, kind: Kind) -> list[Clause]:
        """The clauses of a kind, in order."""
        return [c for c in self.clauses if c.kind == kind]

    # --- which rows match -----------------------------------------------------------------------------------------

    def _bind_on(self) -> None:
        binder, lowered = self._binder("matched"), []
        node, guarded = parsed(self.predicate), False
        for part in conjuncts(node):
            bound = self._boolean(binder, part, self.predicate)
            # The join takes parts in any order: one that can fail needs what stands before it. Keys it needs as they are,
            # and so does Spark's, which computes them for all rows.
            fails = (bound.throws or bound.partial) and not self._joins(part, binder)
            guarded |= fails
            if not fails:
                lowered.append(f"({bound.sql})")
            self.joined_columns |= self._target_columns(part, "matched")
            found = pruning(part, binder, self._sides.target)
            if found is not None:
                self.reads.append(found)
            self.keys += self._keys(part, binder)
        if guarded:
            lowered.append(f"({self._boolean(binder, node, self.predicate).sql})")
        self.on = " AND ".join(lowered)

    def _joins(self, part: Syntax, binder: JoinedBinder) -> bool:
        """Whether a value of one table has to equal one of the other, so that rows are found by it."""
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
            # Otherwise the column is converted before it is compared, and its order may be another one.
            ranged = (
                to is not None and to.name in _RANGED and (to == column.type or (to.integral and column.type.integral))
            )
            # A value that fails may be guarded by another part.
            if to is not None and ranged and not value.throws:
                value = coerce.convert(self._context, value, to)
                yield Key([self.target_columns[number], *below], value.sql, to, part.name == "<=>")

    def _target_columns(self, node: Syntax, kind: Kind) -> set[int]:
        binder = self._binder(kind)
        places = [binder.place(name) for name in names(node)]
        return {number for side, number, _ in places if side is self._sides.target}

    def columns_by_source(self) -> set[int]:
        """The columns of the target that the conditions for rows without match name."""
        conditions = [c.condition for c in self.of_kind("not_matched_by_source") if c.condition is not None]
        return {n for sql in conditions for n in self._target_columns(parsed(sql), "not_matched_by_source")}

    def reads_by_source(self) -> tree.Node | None:
        """What every row meets that a clause for rows without match can change; None for all rows."""
        binder, found = self._binder("not_matched_by_source"), []
        for clause in self.of_kind("not_matched_by_source"):
            part = clause.condition and pruning(parsed(clause.condition), binder, self._sides.target)
            if not part:
                return None
            found.append(part)
        return tree.any_of(found)

    # --- which columns the source brings ------------------------------------------------------------------------------

    @property
    def incoming(self) -> dict[str, Any] | None:
        """The columns of new rows, and those that the schema grows by, for the core; None where it stays as it is."""
        inserts = [c for c in self.clauses if c.action == "insert"]
        grows = self.merge_schema and any(c.action != "delete" for c in self.clauses)
        if not inserts and not grows:
            return None
        given: dict[str, Field] = {}
        for clause in self.clauses:
            if clause.action == "insert" or (grows and clause.action == "update"):
                for name in self._assigned_names(clause):
                    given.setdefault(name.lower(), self._incoming_field(name))
        for name in self._identities():
            # One that some clause leaves to the table is handed out there.
            if not all(name.lower() in map(str.lower, self._assigned_names(c)) for c in inserts):
                given.pop(name.lower(), None)
        schema = json.dumps({"type": "struct", "fields": list(given.values())})
        return {"schema_json": schema, "merge_schema": bool(grows)}

    def _identities(self) -> list[str]:
        return [f["name"] for f in self._fields if "delta.identity.start" in f.get("metadata", {})]

    def _assigned_names(self, clause: Clause) -> list[str]:
        """The columns that a clause gives values to, the fields of structs by their column."""
        if clause.values is not None:
            return [self._path(name)[0] for name in clause.values]
        there = {f["name"].lower() for f in self._fields}
        found = [f["name"] for f in self._star(clause)]
        # What is to be taken as it is may have no column that the table lacks; the core says so.
        whole = self.merge_schema or clause.kind == "source"
        return found if whole else [name for name in found if name.lower() in there]

    def _star(self, clause: Clause) -> list[Field]:
        """The source's columns that `*` stands for."""
        known = {f["name"].lower() for f in (*self._source_fields, *self._fields)}
        excepted = {name.lower() for name in clause.excepted}
        unknown = [name for name in clause.excepted if name.lower() not in known]
        if unknown:
            raise InvalidArgumentError(f"`{unknown[0]}`, which is to be excepted, is a column of neither table")
        return [f for f in self._source_fields if f["name"].lower() not in excepted]

    def _incoming_field(self, name: str) -> Field:
        own = _field(self._fields, name)
        brought = _field(self._source_fields, name)
        if own is None and brought is None:
            raise InvalidArgumentError(f"the table has no column `{name}`, nor has the source one that could be added")
        chosen = own or brought
        assert chosen is not None
        taken = chosen["type"]
        if own is not None and brought is not None and self.merge_schema:
            nested = not isinstance(own["type"], str) and not isinstance(brought["type"], str)
            if nested or (self.widens and _is_wider(own["type"], brought["type"])):
                taken = brought["type"]
        return {"name": chosen["name"], "type": taken, "nullable": True, "metadata": {}}

    # --- clauses ------------------------------------------------------------------------------------------------------

    def bound(self, schema_json: str) -> list[BoundClause]:
        """The clauses for the schema that the commit leaves the table with."""
        fields = json.loads(schema_json)["fields"]
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
        assigned, values = AssignedColumns(fields), []
        for number, new in enumerate(self._values(clause, fields)):
            path, to = assigned.add_path(new.name, new.path, number)
            values.append(self._value(new, path, to, updates=True))
        return BoundClause(clause, condition, values, assigned=assigned)

    def _bound_insert(self, clause: Clause, condition: str | None, fields: Sequence[Field]) -> BoundClause:
        columns, values = list[str](), []
        for new in self._values(clause, fields):
            to = _field(fields, new.path[0])
            if len(new.path) > 1 or to is None:
                raise InvalidArgumentError(f"the table has no column `{new.name}` that a new row could give a value to")
            if to["name"] in columns:
                raise InvalidArgumentError(f"`{new.name}` is assigned twice: give each column one value")
            if to.get("metadata", {}).get("delta.identity.allowExplicitInsert") is False:
                raise SchemaMismatchError(
                    f"DELTA_IDENTITY_COLUMNS_EXPLICIT_INSERT_NOT_SUPPORTED: `{to['name']}` is GENERATED ALWAYS AS "
                    "IDENTITY: leave it out of the new rows"
                )
            columns.append(to["name"])
            values.append(self._value(new, [to["name"]], to["type"], updates=False))
        return BoundClause(clause, condition, values, columns)

    def _values(self, clause: Clause, fields: Sequence[Field]) -> list[_New]:
        if clause.values is None:
            # `*` means the source's columns, whatever aliases there are.
            binder = self._binder("not_matched")
            starred = [f["name"] for f in self._star(clause) if _field(fields, f["name"]) is not None]
            if not starred:
                raise InvalidArgumentError("the source has no column of the table: name the columns and their values")
            return [_New(name, [name], name, Name((name,)), binder) for name in starred]
        if not clause.values:
            raise InvalidArgumentError(f"a clause to {clause.action} rows gives no column a value")
        binder, found = self._binder(clause.kind), []
        for name, given in clause.values.items():
            sql = self._default(name, fields) if _is_default(given) else given
            found.append(_New(name, self._path(name), sql, parsed(sql), binder))
        return found

    def _default(self, name: str, fields: Sequence[Field]) -> str:
        """The value of a column where the user writes DEFAULT (P107)."""
        own = _field(fields, self._path(name)[0])
        return str((own or {}).get("metadata", {}).get("CURRENT_DEFAULT", "NULL"))

    def _value(self, new: _New, path: list[str], to: Any, *, updates: bool) -> Value:
        """A new value, in the type of its column where that is a simple one."""
        column, target = ".".join(path), of_json(to)
        if isinstance(new.node, Name):
            side, number, below = new.binder.place(new.node)
            given_json = (self._source_fields if side is self._sides.source else self._fields)[number]["type"]
            given = of_json(given_json)
            simple = target is not None and given is not None and target.atomic and given.atomic
            if not below and (given_json == to or not simple):
                _check_whole(column, to, given_json, updates)
                return Value(side.sql_of(number), given_json)
        try:
            typed = new.binder.bind(new.node)
        except (InvalidArgumentError, UnsupportedExpressionError) as e:
            raise in_expression(e, new.sql) from e
        if target is None:
            raise UnsupportedExpressionError(
                f"the column `{column}` of type {json.dumps(to)} takes no expressions yet, only columns as they are"
            )
        if not stores(typed.type, target):
            raise SchemaMismatchError(
                f"`{new.sql}` is of type {typed.type}, which a column of type {target} (`{column}`) doesn't take: cast it"
            )
        if typed.type != target and (target.atomic or typed.type.name == "void"):
            typed = cast(self._context, typed, target)
        return Value(typed.sql, to)

    def _path(self, name: str) -> list[str]:
        """The column that a name is assigned by, with the target's alias before it or without."""
        columns = {f["name"].lower() for f in (*self._fields, *self._source_fields)}
        if name.lower() in columns:
            return [name]
        node = parsed(name)
        if not isinstance(node, Name):
            raise InvalidArgumentError(f"`{name}` is no column: put names with signs in backticks")
        first, *rest = node.parts
        if rest and self.target_alias is not None and first.lower() == self.target_alias.lower():
            return rest
        return [first, *rest]

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


def _field(fields: Sequence[Field], name: str) -> Field | None:
    return next((f for f in fields if f["name"].lower() == name.lower()), None)


def _is_default(sql: str) -> bool:
    return sql.strip().lower() == "default"


def _is_wider(own: Any, brought: Any) -> bool:
    """Whether values of one type are all among those of another one of its family."""
    a, b = of_json(own), of_json(brought)
    if a is None or b is None or a == b:
        return False
    if a.integral and b.integral:
        return a.bits < b.bits
    if a.name == b.name == "decimal":
        return a.scale <= b.scale and a.precision - a.scale <= b.precision - b.scale
    return (a.name, b.name) == ("float", "double")


def _check_whole(column: str, to: Any, given: Any, updates: bool) -> None:
    """An update by a struct that lacks fields would empty them."""
    if not updates or isinstance(to, str) or isinstance(given, str) or "struct" not in (to["type"], given["type"]):
        return
    if to["type"] != given["type"]:
        raise SchemaMismatchError(f"`{column}` of type {to['type']} doesn't take a {given['type']}")
    for f in to["fields"]:
        brought = _field(given["fields"], f["name"])
        if brought is None:
            raise SchemaMismatchError(
                f"the value for `{column}` has no field `{f['name']}`, which the update would empty: assign the other "
                f"fields one by one, as in `{column}.{to['fields'][0]['name']}`"
            )
        _check_whole(f"{column}.{f['name']}", f["type"], brought["type"], updates)
