"""New values of columns: Spark SQL over a row's old values, or plain Python values, stored by
Spark's rules.

Column names are case-insensitive; a field of a struct may be assigned by its path.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.commands.merge.columns import check_whole
from deltaplane.commands.new_values import constant
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError, UnsupportedExpressionError
from deltaplane.expr import columns_of
from deltaplane.expr.program import Program, compile_expressions, context_at
from deltaplane.expr.quoting import refuse_unclear
from deltaplane.expr.storing import in_columns, stored_value, stores
from deltaplane.expr.types import as_json, of_json

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["AssignedColumns", "Assignments", "Node"]


@dataclass
class Node:
    """An assigned column or field: a value's number, or a tree of fields.

    `null_if` is the number of a boolean value: where it is true, a struct that was null stays null,
    regardless of its fields.
    """

    value: int | None = None
    null_if: int | None = None
    below: dict[str, Node] = field(default_factory=dict)


class AssignedColumns:
    """Maps columns and fields of a schema to values numbered from 0. The table's `alias` may
    precede their names."""

    def __init__(self, fields: Sequence[Mapping[str, Any]], alias: str | None = None) -> None:
        self._fields, self._alias = fields, alias
        self._tree: dict[str, Node] = {}

    @property
    def columns(self) -> set[str]:
        """The columns with new values, complete or partial."""
        return set(self._tree)

    @property
    def tree(self) -> Mapping[str, Node]:
        """The assignments, by column."""
        return self._tree

    def add(self, name: str, number: int) -> tuple[list[str], Any]:
        """Assigns the value with this number to a column or field; returns its path and its type in
        the schema.

        Raises:
            InvalidArgumentError: an unknown column, one that is assigned twice, or one whose values
                the table computes.
        """
        parts = _parts(name, {f["name"].lower() for f in self._fields})
        if self._alias is not None and len(parts) > 1 and parts[0].lower() == self._alias.lower():
            parts = parts[1:]
        return self.add_path(name, parts, number)

    def add_path(self, name: str, parts: Sequence[str], number: int) -> tuple[list[str], Any]:
        """Assigns as `add` does, for a parsed name."""
        path: list[str] = []
        fields, below = self._fields, self._tree
        for depth, part in enumerate(parts):
            matches = [f for f in fields if f["name"].lower() == part.lower()]
            if not matches:
                raise InvalidArgumentError(f"the table has no column `{name}` that could be updated")
            if any(key.startswith("delta.identity.") for key in matches[0].get("metadata", {})):
                raise InvalidArgumentError(f"`{name}` is an identity column, whose values can't be updated (P108)")
            path.append(matches[0]["name"])
            node = below.setdefault(matches[0]["name"], Node())
            last = depth == len(parts) - 1
            if node.value is not None or (last and node.below):
                raise InvalidArgumentError(f"`{name}` is assigned twice: give each column one value")
            data_type = matches[0]["type"]
            if last:
                node.value = number
                return path, data_type
            if not isinstance(data_type, dict) or data_type["type"] != "struct":
                raise InvalidArgumentError(f"`{'.'.join(path)}` isn't a struct, so `{name}` is no field of it")
            fields, below = data_type["fields"], node.below
        raise InvalidArgumentError("an assignment needs the name of a column")

    def keep_null(self, path: Sequence[str], number: int) -> None:
        """Makes a struct with assigned fields stay null where the value with this number is
        true."""
        node, fields = Node(below=self._tree), self._fields
        for part in path:
            name = next(f["name"] for f in fields if f["name"].lower() == part.lower())
            fields = next(f["type"].get("fields", ()) for f in fields if f["name"] == name)
            node = node.below[name]
        node.null_if = number

    def put(self, batch: pa.RecordBatch, values: Sequence[pa.Array]) -> pa.RecordBatch:
        """The batch with the values in their columns; adds missing columns and fields."""
        types = {f["name"]: f["type"] for f in self._fields}
        for name, node in self._tree.items():
            index = batch.schema.get_field_index(name)
            if index >= 0:
                batch = batch.set_column(index, name, _assigned(batch.column(index), types[name], node, values))
            else:
                batch = batch.append_column(name, _assigned(None, types[name], node, values))
        return batch


class Assignments:
    """New values for columns of one version of a table, computed batch by batch.

    Args:
        schema: the table's schema.
        updates: column → expression.
        new_values: column → Python value.

    Raises:
        InvalidArgumentError: no assignment, an unknown column, one that is assigned twice or whose
            values the table computes, or an invalid expression.
        SchemaMismatchError: a value's type is incompatible with its column.
        UnsupportedExpressionError: DuckDB can't evaluate the named expression with Spark's result.

    >>> import pyarrow as pa
    >>> from deltaplane import _native
    >>> schema = _native.TableSchema.of_arrow(pa.schema([("x", pa.int64()), ("y", pa.int64())]))
    >>> new = Assignments(schema, {"x": "x + 1"}, {"Y": 7})
    >>> new.apply(pa.record_batch({"x": [1, 2], "y": [None, 3]})).to_pylist()
    [{'x': 2, 'y': 7}, {'x': 3, 'y': 7}]
    """

    def __init__(self, schema: _native.TableSchema, updates: Mapping[str, str], new_values: Mapping[str, Any]) -> None:
        import pyarrow as pa

        if not updates and not new_values:
            raise InvalidArgumentError("nothing is assigned: give updates or new_values")
        for name, sql in updates.items():
            if not isinstance(sql, str):
                raise InvalidArgumentError(
                    f"`{name}` is given {sql!r} by updates, which takes Spark SQL as a text: give values by new_values"
                )
            refuse_unclear(sql, columns_of(lambda: schema), is_condition=False)
        arrow = pa.schema(schema)
        self._assigned = AssignedColumns(schema.to_value()["fields"])
        targets = [self._assigned.add(name, i) for i, name in enumerate([*updates, *new_values])]
        self._failing = list[str]()
        self._program = _program(list(updates.values()), targets, schema.to_json(), self._failing)
        self._constants = [
            constant(name, value, arrow, target[0])
            for (name, value), target in zip(new_values.items(), targets[len(updates) :], strict=True)
        ]

    @property
    def columns(self) -> set[str]:
        """The columns with new values, complete or partial."""
        return self._assigned.columns

    @property
    def reads(self) -> set[str]:
        """The columns whose old values the expressions read."""
        of_values = set(self._program.columns) if self._program is not None else set()
        return of_values | {name for name, node in self._assigned.tree.items() if node.value is None}

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch with the new values.

        Raises:
            InvalidArgumentError: a row for which Spark's evaluation fails as well.
        """
        import pyarrow as pa

        try:
            values = self._program.evaluate(batch) if self._program is not None else []
        except InvalidArgumentError as e:
            raise in_columns(e, self._failing) from e
        values += [pa.repeat(scalar, batch.num_rows) for scalar in self._constants]
        return self._assigned.put(batch, values)


def _parts(name: str, columns: set[str]) -> Sequence[str]:
    if name.lower() in columns:
        return [name]
    from deltaplane.expr.syntax import Name, parse

    parsed = parse(name)
    if not isinstance(parsed, Name):
        raise InvalidArgumentError(f"`{name}` is no column: put names with signs in backticks")
    return parsed.parts


def _program(
    texts: list[str], targets: Sequence[tuple[list[str], Any]], schema_json: str, failing: list[str]
) -> Program | None:
    """Compiles the values in the types of their columns; adds to `failing` the paths of parts that
    some values can't be cast to."""
    if not texts:
        return None
    now_us = time.time_ns() // 1000
    program, context = compile_expressions(texts, schema_json, now_us=now_us), context_at("UTC", now_us)
    values = []
    for sql, value, (path, data_type) in zip(texts, program.expressions, targets, strict=False):
        column, to = ".".join(path), of_json(data_type)
        if to is None:
            raise UnsupportedExpressionError(
                f"the column `{column}` of type {data_type} takes no expressions yet: give a value by new_values"
            )
        if value.type.parts and to.parts:
            check_whole(column, data_type, as_json(value.type), lacks=False)
        elif not stores(value.type, to):
            raise SchemaMismatchError(
                f"`{sql}` is of type {value.type}, which a column of type {to} (`{column}`) doesn't take: cast it"
            )
        values.append(stored_value(context, column, value, to, "by_name", failing))
    return replace(program, expressions=values)


def _assigned(old: pa.Array | None, data_type: Any, node: Node, values: Sequence[pa.Array]) -> pa.Array:
    """A column of this type with the new values in it; the other fields of a struct that was null
    are null, as in Spark.

    `old` is None for a column or field that the command adds. Of added columns the result has only
    the assigned fields; the file writer fills in the others.
    """
    import pyarrow as pa

    if node.value is not None:
        new = values[node.value]
        return new if old is None or not pa.types.is_null(new.type) else pa.nulls(len(new), old.type)
    # Imported on demand, since the import takes a large part of a small UPDATE's time.
    import pyarrow.compute as pc

    parts, named = [], []
    for field_ in data_type["fields"]:
        name, below = field_["name"], node.below.get(field_["name"])
        index = -1 if old is None else old.type.get_field_index(name)
        part = None if old is None or index < 0 else pc.struct_field(old, [index])
        if below is not None:
            part = _assigned(part, field_["type"], below, values)
        if part is not None:
            parts.append(part)
            named.append(pa.field(name, part.type))
    stays_null = None
    if node.null_if is not None:
        stays_null = values[node.null_if]
        if old is not None:
            stays_null = pc.and_(stays_null, old.is_null())
    return pa.StructArray.from_arrays(parts, fields=named, mask=stays_null)
