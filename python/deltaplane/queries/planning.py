"""Plans a query: named queries, set operations, VALUES and limits; `selecting` plans SELECT.

Gets tables from `Tables` and leaves running to `running`. Constructs of Spark that this module
doesn't support are refused by name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.syntax import Syntax
from deltaplane.expr.typed import Bounds, Context, Typed, bounds_of_all, is_exact, refuse
from deltaplane.expr.types import SparkType
from deltaplane.queries.binding import Names, Planned
from deltaplane.queries.cursor import Cursor
from deltaplane.queries.joining import Tables
from deltaplane.queries.named import uses_of, with_definitions
from deltaplane.queries.plan import Column, Node, OneRow, Project, Ref, Rows, Sets, Sort, Source
from deltaplane.queries.recursion import Recursion, recursive_parts
from deltaplane.queries.rules import comparable, converted, filtering, together, unqualified
from deltaplane.queries.selecting import Selecting
from deltaplane.queries.syntax import Body, Nested, Query, Select, SetOperation, TableName, Values
from deltaplane.queries.values_table import MANY, Cells, over_cells, tabulated

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Planner"]


class Planner(Selecting):
    """Plans one statement's queries. `sources` are their tables, `held` the columns in memory, by
    DuckDB's names."""

    def __init__(self, cursor: Cursor, tables: Tables, context: Context) -> None:
        super().__init__(cursor, tables, context)
        self.held: list[tuple[str, pa.Table]] = []

    def plan(self, query: Query, names: Names | None = None) -> Planned:
        """The plan of a query.

        Raises:
            InvalidArgumentError: a name or a type that Spark would refuse too.
            UnsupportedExpressionError: a construct that the embedded engine doesn't evaluate as
                Spark does, by name.
        """
        known: Names = names or {}
        own = [name.lower() for name, _ in query.named]
        for i, (name, nested) in enumerate(query.named):
            if own[i] in own[:i]:
                self._cursor.wrong(f"expected another name: `{name}` is taken", self._start(nested.token))
            known = {**known, own[i]: (nested, known, self._outer)}
            if uses_of(own[i], query) > 1:
                self._repeated.add(id(nested))
        if isinstance(query.body, Select):
            made = self._select(query.body, known, query.order)
        else:
            made = self._body(query.body, known)
            if query.order:
                made = self._ordered(made, query.order, known)
        if query.limit is not None or query.offset:
            node = made.node
            if isinstance(node, Sort) and node.limit is None and not node.offset:
                node = replace(node, limit=query.limit, offset=query.offset)
            else:
                node = Sort(node, (), query.limit, query.offset)
            made = Planned(node, made.columns)
        return made

    def chosen(self, name: TableName, where: Syntax, token: int, beside: Sequence[tuple[str, SparkType]]) -> Planned:
        """The rows of a table that satisfy a WHERE condition, as columns in addition to the table's
        own."""
        made = self._table(name)
        assert isinstance(made.node, Source)
        scope = self._scope(made.columns, {})
        with self._cursor.located(token):
            self._condition(scope, filtering(where), "WHERE")
            node = self._filtered(scope, made.node, filtering(where))
        columns = [Column(self._id(), title, data_type) for title, data_type in beside]
        made.node.fields = {**made.node.fields, **{c.id: c.name for c in columns}}
        return Planned(node, columns)

    def text(self, planned: Planned, node: Node | None = None) -> str:
        """The statement for DuckDB that gives a plan's columns, from its node or from another one
        with the same rows."""
        node = planned.node if node is None else node
        node.narrow([])
        return with_definitions(node.render(planned.ids), self.shared)

    def _recursive(self, nested: Nested, names: Names) -> Planned:
        name = str(nested.alias).lower()
        outer, self._outer = self._outer, []
        try:
            first_body, step_body = recursive_parts(name, nested.query)
            first = self._titled(self._body(first_body, names), nested.columns, nested.token)
            columns = [replace(c, id=self._id(), qualifiers=(), bounds=None) for c in first.columns]
            types = [c.type for c in columns if c.type is not None]
            if len(types) < len(columns):
                refuse("a recursive query with columns whose types expressions lack")
            recursion = Recursion(
                f"n_{self._id()}",
                first.node,
                first.ids,
                OneRow(),
                [],
                [c.id for c in columns],
                types,
                nested.levels or 0,
            )
            self._shared[id(nested)] = recursion, columns
            step = self._body(step_body, {**names, name: (nested, names, [])})
        finally:
            self._outer = outer
        with self._cursor.located(nested.token):
            if [c.type for c in step.columns] != types:
                raise InvalidArgumentError(
                    f"both parts of the recursive query `{nested.alias}` need columns of the same types: cast those of "
                    "the second part"
                )
        recursion.step, recursion.step_ids = step.node, step.ids
        self._fragile.update(c.id for c, of_step in zip(columns, step.ids, strict=True) if of_step in self._fragile)
        self.can_fail = True
        self.shared.append(recursion)
        return self._used(recursion, columns)

    # --- bodies -------------------------------------------------------------------------------------------------------

    def _body(self, body: Body, names: Names) -> Planned:
        if isinstance(body, Select):
            return self._select(body, names, ())
        if isinstance(body, Values):
            return self._values(body, names)
        if isinstance(body, SetOperation):
            return self._sets(body, names)
        return self.plan(body, names)

    def _values(self, values: Values, names: Names) -> Planned:
        with self._cursor.located(values.token):
            filled_rows = []
            for row in values.rows:
                if any(cell is None for cell in row):
                    raise InvalidArgumentError("DEFAULT stands for a column's value in INSERT alone")
                filled_rows.append([cell for cell in row if cell is not None])
            columns = tabulated(filled_rows, self._id) if len(filled_rows) >= MANY else None
            if columns is not None:
                return self._held(columns, names)
            scope = self._scope([], names)
            rows = [[self._bound(scope, cell).typed for cell in row] for row in filled_rows]
            types = [together([row[i].type for row in rows], f"column {i + 1} of VALUES") for i in range(len(rows[0]))]
            cells = [[converted(self._context, v, to) for v, to in zip(row, types, strict=True)] for row in rows]
        made = [Column(self._id(), f"col{i + 1}", to) for i, to in enumerate(types)]
        self._fragile.update(c.id for i, c in enumerate(made) if any(row[i].throws or row[i].partial for row in cells))
        return Planned(Rows([c.id for c in made], cells), made)

    def _held(self, cell_rows: Sequence[Cells], names: Names) -> Planned:
        scope = self._scope([shape.constant for cells in cell_rows for shape in cells.shapes if shape.constant], names)
        made = over_cells(
            cell_rows, f"v{len(self.held)}", self._context, self._id, lambda tree: self._bound(scope, tree)
        )
        for output in made.node.outputs:
            self._note(output.value.typed)
            self._computed(output.id, output.value)
        self.held.append((made.name, made.table))
        return Planned(made.node, made.columns)

    def _sets(self, body: SetOperation, names: Names) -> Planned:
        left, right = self._body(body.left, names), self._body(body.right, names)
        with self._cursor.located(body.token):
            if len(left.columns) != len(right.columns):
                raise InvalidArgumentError(
                    f"{body.kind.upper()} needs as many columns on both sides, not {len(left.columns)} and "
                    f"{len(right.columns)}"
                )
            types = []
            for a, b in zip(left.columns, right.columns, strict=True):
                what = f"`{a.name}` in {body.kind.upper()}"
                if a.type is None or b.type is None:
                    refuse(what)
                types.append(together([a.type, b.type], what))
        compares = body.kind != "union" or not body.every
        left, right = (self._comparable(self.stored(side, types), compares) for side in (left, right))
        self._fragile.update(a.id for a, b in zip(left.columns, right.columns, strict=True) if b.id in self._fragile)
        columns = unqualified(left.columns)
        if body.kind == "union":
            columns = [replace(a, bounds=_of_both(a, b)) for a, b in zip(columns, right.columns, strict=True)]
        return Planned(Sets(body.kind, body.every, left.node, right.node, left.ids, right.ids), columns)

    def _comparable(self, planned: Planned, compares: bool) -> Planned:
        """Normalises negative zero in the columns if rows are compared by them."""
        if not compares:
            return planned
        outputs, columns = [], []
        for column in planned.columns:
            value = self._scope(planned.columns, {}).value(Ref((column.id,)))
            new = replace(column, id=self._id())
            outputs.append(self._computed(new.id, comparable(value, "DISTINCT rows")))
            columns.append(new)
        return Planned(Project(planned.node, outputs), columns)


def _of_both(a: Column, b: Column) -> Callable[[], Bounds] | None:
    """What computes the bounds of a column of UNION, from the columns of both sides."""
    if a.type is None or not is_exact(a.type):
        return None
    sides = [Typed(a.type, c.id, bounds=c.bounds) for c in (a, b)]
    return cache(lambda: bounds_of_all(sides))
