"""Plans long VALUES lists as text columns: cells of one shape become one expression, so that DuckDB
plans columns instead of rows.

A shape is a cell's tree without its constant: `DATE '2024-01-01'` and `DATE '2024-01-02'` have the
same shape, `1` and `2.5` different ones.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from deltaplane.expr.duckdb_values import of_text
from deltaplane.expr.syntax import Cast, Literal, Syntax
from deltaplane.expr.typed import Context, Typed
from deltaplane.expr.types import BYTE, SparkType
from deltaplane.queries.plan import Column, Held, Output, Project, Ref, Value
from deltaplane.queries.rules import converted, together

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MANY", "Cells", "HeldRows", "over_cells", "tabulated"]

# Minimum number of rows; shorter lists are faster as text.
MANY = 50
_SHAPES = 50


@dataclass(frozen=True)
class Shape:
    """A tree over a constant, which is the column `constant` if the tree contains one; `row` is the
    first row of this shape."""

    tree: Syntax
    constant: Column | None
    row: int


@dataclass
class Cells:
    """A column's cells: for each row the index of its shape, and the text of its constant."""

    shapes: list[Shape] = field(default_factory=list)
    kinds: list[int] = field(default_factory=list)
    texts: list[str | None] = field(default_factory=list)


def tabulated(rows: Sequence[Sequence[Syntax]], new_id: Callable[[], str]) -> list[Cells] | None:
    """Builds the columns of rows of equal length; None if a column has too many shapes."""
    columns = []
    for i in range(len(rows[0])):
        cells = Cells()
        known: dict[object, int] = {}
        for number, row in enumerate(rows):
            key, text = _shape(row[i])
            kind = known.get(key)
            if kind is None:
                if len(known) == _SHAPES:
                    return None
                kind = known[key] = len(known)
                cells.shapes.append(_cell_shape(row[i], number, new_id))
            cells.kinds.append(kind)
            cells.texts.append(text)
        columns.append(cells)
    return columns


def _shape(cell: Syntax) -> tuple[object, str | None]:
    """A key that is equal for cells of one shape, and the constant's text."""
    if isinstance(cell, Literal) and cell.value is not None:
        value = cell.value
        if isinstance(value, bool):
            return cell.type, "true" if value else "false"
        return cell.type, value.hex() if isinstance(value, bytes) else value
    if isinstance(cell, Cast):
        key, text = _shape(cell.arg)
        return (key, cell.to, cell.attempt), text
    return cell, None


def _cell_shape(cell: Syntax, row: int, new_id: Callable[[], str]) -> Shape:
    casts, inner = [], cell
    while isinstance(inner, Cast):
        casts.append(inner)
        inner = inner.arg
    if not isinstance(inner, Literal) or inner.value is None:
        return Shape(cell, None, row)
    constant = Column(new_id(), "", inner.type)
    tree: Syntax = Ref((constant.id,))
    for cast in reversed(casts):
        tree = Cast(tree, cast.to, cast.attempt)
    return Shape(tree, constant, row)


@dataclass(frozen=True)
class HeldRows:
    """A plan over columns in memory, which DuckDB reads under a name."""

    node: Project
    columns: list[Column]
    name: str
    table: pa.Table


def over_cells(
    cell_rows: Sequence[Cells],
    name: str,
    context: Context,
    new_id: Callable[[], str],
    bound: Callable[[Syntax], Value],
) -> HeldRows:
    """Plans the rows of VALUES by their columns; `bound` binds a tree over a shape's constant.

    Raises:
        InvalidArgumentError: an invalid cell, or incompatible types.
        UnsupportedExpressionError: an expression without an exact translation.
    """
    import pyarrow as pa

    # Follows the order of the text, so that the error names the first invalid cell.
    order = sorted((shape.row, i, k) for i, cells in enumerate(cell_rows) for k, shape in enumerate(cells.shapes))
    values = {(i, k): bound(cell_rows[i].shapes[k].tree) for _, i, k in order}
    table: dict[str, pa.Array] = {}
    constants: list[Output] = []
    outputs, columns = [], []
    for i, cells in enumerate(cell_rows):
        made = [values[i, k] for k in range(len(cells.shapes))]
        to = together([made[k].typed.type for k in cells.kinds], f"column {i + 1} of VALUES")
        text, kind = new_id(), new_id()
        table[text] = pa.array(cells.texts, pa.large_string())
        table[kind] = pa.array(cells.kinds, pa.int8())
        constants.append(Output(kind, Value(Typed(BYTE, kind), frozenset({kind}), Ref((kind,)))))
        constants += [
            _constant(shape.constant, k, text, kind)
            for k, shape in enumerate(cells.shapes)
            if shape.constant is not None
        ]
        column = Column(new_id(), f"col{i + 1}", to)
        outputs.append(Output(column.id, _chosen([converted(context, v.typed, to) for v in made], made, kind, to)))
        columns.append(column)
    return HeldRows(Project(Project(Held(name), constants), outputs), columns, name, pa.table(table))


def _constant(column: Column, number: int, text: str, kind: str) -> Output:
    """The constants of one shape's rows; null in rows of other shapes, whose text may be invalid
    for the type."""
    assert column.type is not None
    sql = f"CASE WHEN {kind} = {number} THEN {of_text(column.type, text)} END"
    return Output(column.id, Value(Typed(column.type, sql), frozenset({text, kind}), Cast(Ref((text,)), column.type)))


def _chosen(arms: Sequence[Typed], made: Sequence[Value], kind: str, to: SparkType) -> Value:
    """Selects each row's value by the number of its shape."""
    tests = " ".join(f"WHEN {k} THEN {arm.sql}" for k, arm in enumerate(arms))
    typed = Typed(
        to,
        f"CASE {kind} {tests} END",
        throws=any(arm.throws for arm in arms),
        partial=any(arm.partial for arm in arms),
    )
    return Value(typed, frozenset({kind}).union(*(value.uses for value in made)), Cast(Ref((kind,)), to))
