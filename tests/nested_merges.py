"""MERGE with an evolving schema over structs in structs and lists: random tables, sources and
clauses, and a model of the result.

A type is `long`, a dict of fields, or a one-element list of a type; names of the source may have
another case.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

Kind = Any

LONG = "long"
NAMES = st.sampled_from("abc")
KINDS = st.recursive(
    st.just(LONG),
    lambda inner: st.dictionaries(NAMES, inner, min_size=1, max_size=2) | st.lists(inner, min_size=1, max_size=1),
    max_leaves=4,
)
STRUCTS = st.dictionaries(NAMES, KINDS, min_size=1, max_size=3)


@dataclass(frozen=True)
class Nested:
    """A random merge: a table and a source with the column `z`, rows by id, and the update of
    matched rows (`*`, the whole of `z`, or some of its fields)."""

    target: Kind
    source: Kind
    old: dict[int, Any]
    new: dict[int, Any]
    update: str | list[list[str]]
    inserts: bool
    upper: bool

    @property
    def clauses(self) -> str:
        """The clauses as SQL."""
        sets = ["z = s.z"] if self.update == "whole" else ["*"]
        if not isinstance(self.update, str):
            sets = [f"z.{'.'.join(path)} = s.z.{'.'.join(path)}" for path in self.update]
        insert = " WHEN NOT MATCHED THEN INSERT *" if self.inserts else ""
        return f"WHEN MATCHED THEN UPDATE SET {', '.join(sets)}{insert}"

    def tables(self) -> tuple[pa.Table, pa.Table]:
        """The table and the source."""
        sides = []
        for kind, rows, upper in ((self.target, self.old, False), (self.source, self.new, self.upper)):
            schema = pa.schema([("id", pa.int64()), ("z", arrow(kind, upper))])
            sides.append(
                pa.Table.from_pylist([{"id": i, "z": named(value, upper)} for i, value in rows.items()], schema)
            )
        return sides[0], sides[1]

    def expected(self) -> tuple[Kind, dict[int, Any]]:
        """The resulting type and rows."""
        whole = self.inserts or isinstance(self.update, str)
        paths = [[]] if whole else list(self.update)
        left = grown(self.target, part(self.source, paths))
        rows = {i: fitted(value, left) for i, value in self.old.items()}
        for i, value in self.new.items():
            if i not in rows:
                if self.inserts:
                    rows[i] = fitted(value, left)
            elif self.update == "star":
                rows[i] = starred(rows[i], value, left, self.source)
            elif self.update == "whole":
                rows[i] = fitted(value, left)
            else:
                for path in self.update:
                    rows[i] = assigned(rows[i], value, left, list(path))
        return left, rows


def arrow(kind: Kind, upper: bool = False) -> pa.DataType:
    if isinstance(kind, dict):
        return pa.struct(
            [(name.upper() if upper else name, arrow(kind_of_field, upper)) for name, kind_of_field in kind.items()]
        )
    return pa.list_(arrow(kind[0], upper)) if isinstance(kind, list) else pa.int64()


def named(value: Any, upper: bool) -> Any:
    if isinstance(value, dict):
        return {name.upper() if upper else name: named(inner, upper) for name, inner in value.items()}
    return [named(item, upper) for item in value] if isinstance(value, list) else value


def lowered(value: Any) -> Any:
    """A value with its fields' names in lower case, in order."""
    if isinstance(value, dict):
        return {name.lower(): lowered(inner) for name, inner in sorted(value.items(), key=lambda p: p[0].lower())}
    return [lowered(item) for item in value] if isinstance(value, list) else value


def part(kind: Kind, paths: list[list[str]]) -> Kind | None:
    """The assigned part of a source's type."""
    if [] in paths:
        return kind
    if not isinstance(kind, dict):
        return None
    parts = {name: part(field_kind, [p[1:] for p in paths if p[0] == name]) for name, field_kind in kind.items()}
    return {name: field_kind for name, field_kind in parts.items() if field_kind is not None} or None


def grown(own: Kind, brought: Kind | None) -> Kind:
    if isinstance(own, dict) and isinstance(brought, dict):
        more = {name: field_kind for name, field_kind in brought.items() if name not in own}
        return {**{name: grown(field_kind, brought.get(name)) for name, field_kind in own.items()}, **more}
    if isinstance(own, list) and isinstance(brought, list):
        return [grown(own[0], brought[0])]
    return own


def fitted(value: Any, kind: Kind) -> Any:
    """A value with all fields of a type."""
    if value is None:
        return None
    if isinstance(kind, dict):
        return {name: fitted(value.get(name), field_kind) for name, field_kind in kind.items()}
    return [fitted(item, kind[0]) for item in value] if isinstance(kind, list) else value


def lacks(kind: Kind, brought: Kind) -> bool:
    both = isinstance(kind, dict) and isinstance(brought, dict)
    return both and any(name not in brought or lacks(field_kind, brought[name]) for name, field_kind in kind.items())


def starred(old: Any, new: Any, kind: Kind, brought: Kind) -> Any:
    """As in delta-spark 4.4: fields that the source lacks stay, and a struct that is null on both
    sides stays null."""
    if not lacks(kind, brought):
        return fitted(new, kind)
    if old is None and new is None:
        return None
    old, new = old or {}, new or {}
    return {
        name: starred(old.get(name), new.get(name), field_kind, brought[name])
        if name in brought
        else fitted(old.get(name), field_kind)
        for name, field_kind in kind.items()
    }


def assigned(old: Any, new: Any, kind: Kind, path: list[str]) -> Any:
    """The value with one field assigned; a struct that was null becomes a struct."""
    if not path:
        return fitted(new, kind)
    first, *rest = path
    old = old or {}
    values = {name: fitted(old.get(name), field_kind) for name, field_kind in kind.items()}
    values[first] = assigned(old.get(first), None if new is None else new.get(first), kind[first], rest)
    return values


@st.composite
def changed(draw: st.DrawFn, kind: Kind) -> Kind:
    """The type with fields dropped and added at any depth."""
    if isinstance(kind, list):
        return [draw(changed(kind[0]))]
    if not isinstance(kind, dict):
        return kind
    left = {name: draw(changed(field_kind)) for name, field_kind in kind.items() if draw(st.integers(0, 3))}
    if not left or draw(st.booleans()):
        left["n"] = draw(KINDS)
    return left


@st.composite
def values(draw: st.DrawFn, kind: Kind) -> Any:
    if not draw(st.integers(0, 3)):
        return None
    if isinstance(kind, dict):
        return {name: draw(values(field_kind)) for name, field_kind in kind.items()}
    if isinstance(kind, list):
        return [draw(values(kind[0])) for _ in range(draw(st.integers(0, 2)))]
    return draw(st.integers(0, 9))


def paths(kind: Kind) -> list[list[str]]:
    """The paths of a struct's fields, at every depth."""
    if not isinstance(kind, dict):
        return []
    return [[name, *below] for name, field_kind in kind.items() for below in ([], *paths(field_kind))]


@st.composite
def nested_merges(draw: st.DrawFn) -> Nested:
    """Merges whose assignments don't overlap."""
    target = draw(STRUCTS)
    source = draw(changed(target))
    old = {i: draw(values(target)) for i in (1, 2, 3)}
    new = {i: draw(values(source)) for i in (1, 2, 4)}
    # In lists only whole values evolve, and a column's value may lack fields if it is assigned as a
    # whole.
    chosen = draw(st.permutations(paths(source)))[:2]
    if len(chosen) == 2 and (chosen[0][: len(chosen[1])] == chosen[1] or chosen[1][: len(chosen[0])] == chosen[0]):
        chosen = chosen[:1]
    update = draw(st.sampled_from(["star", "star", "whole", "paths", "paths"]))
    return Nested(
        target, source, old, new, chosen if update == "paths" else update, draw(st.booleans()), draw(st.booleans())
    )
