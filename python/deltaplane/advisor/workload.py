"""The predicates for which layouts are compared: from a file or a list, with weights, or look-ups
drawn from a sample.

Uses schemas and predicate trees; reads no file of a table.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deltaplane import _native, expr
from deltaplane.exceptions import DeltaError, InvalidArgumentError
from deltaplane.expr import columns_of, tree
from deltaplane.expr.arrow_literals import literal_nodes
from deltaplane.expr.types import of_json

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Columns", "Lookup", "Predicates", "Workload", "drawn", "predicate_workload", "quoted"]

# Maximum number of distinct predicates, heaviest first: each one costs a plan for each layout.
MOST_PREDICATES = 200
# Maximum number of distinct texts in memory while a file is read, and maximum number of unusable
# predicates in the report.
_MOST_TEXTS = 100_000
_MOST_NAMED = 20
_UNORDERED = {"void", "variant"}

# A list of predicates, each plain or as `{"predicate": …, "weight": …}`, or the path of a file of
# them.
Predicates = Iterable[Any] | os.PathLike[str]
Path_ = tuple[str, ...]


@dataclass(frozen=True)
class Columns:
    """A table's columns by which rows can be sorted: lower-case paths → paths as in the schema."""

    partitions: frozenset[str]
    leaves: Mapping[Path_, Path_]

    @classmethod
    def of(cls, snapshot: _native.Snapshot) -> Columns:
        """The sortable columns of a version."""
        partitions = snapshot.info.partition_columns
        fields = snapshot.schema.to_value()["fields"]
        leaves = {tuple(part.lower() for part in path): path for path in _leaves(fields, ())}
        return cls(frozenset(name.lower() for name in partitions), leaves)


def _leaves(fields: list[dict[str, Any]], above: Path_) -> Iterator[Path_]:
    for column in fields:
        path, kind = (*above, column["name"]), column["type"]
        if isinstance(kind, str):
            if kind not in _UNORDERED:
                yield path
        elif kind["type"] == "struct":
            yield from _leaves(kind["fields"], path)


def quoted(path: Path_) -> str:
    """A path as text, with backticks around names that need them.

    >>> quoted(("a", "odd name"))
    'a.`odd name`'
    """
    return ".".join(part if re.fullmatch(r"\w+", part) else f"`{part.replace('`', '``')}`" for part in path)


@dataclass(frozen=True)
class Lookup:
    """One predicate: all of it, its parts on partition columns alone, and its parts on other
    columns with the paths of these columns."""

    weight: float = 1.0
    whole: _native.Predicate | None = None
    on_partitions: _native.Predicate | None = None
    parts: tuple[tuple[_native.Predicate, frozenset[Path_]], ...] = ()
    # The columns that must have one of some values, with the number of these values.
    keys: tuple[tuple[Path_, int], ...] = ()

    @classmethod
    def of(cls, trees: list[tree.Node], columns: Columns, weight: float = 1.0) -> Lookup:
        """Builds a look-up from trees that are combined by AND."""
        conjuncts = [part for node in trees for part in _conjuncts(node)]
        on_partitions, parts, keys = [], [], []
        for part in conjuncts:
            column, count = _key(part)
            if column in columns.leaves:
                keys.append((columns.leaves[column], count))
            paths = frozenset(tuple(name.lower() for name in path) for path in _paths(part))
            if all(path[0] in columns.partitions for path in paths):
                on_partitions.append(part)
            elif all(path in columns.leaves for path in paths):
                parts.append((_native.Predicate(part), frozenset(columns.leaves[path] for path in paths)))
        return cls(weight, _all(conjuncts), _all(on_partitions), tuple(parts), tuple(keys))

    def on(self, columns: frozenset[Path_]) -> _native.Predicate | None:
        """The parts of the predicate that use only these columns."""
        return _native.Predicate.all_of([part for part, paths in self.parts if paths <= columns])

    @property
    def columns(self) -> frozenset[Path_]:
        """All columns of the predicate except partition columns."""
        return frozenset(path for _, paths in self.parts for path in paths)


def _all(nodes: list[tree.Node]) -> _native.Predicate | None:
    return _native.Predicate(tree.all_of(nodes)) if nodes else None


def _conjuncts(node: tree.Node) -> Iterator[tree.Node]:
    if node["op"] == "and":
        for part in node["args"]:
            yield from _conjuncts(part)
    else:
        yield node


def _key(node: tree.Node) -> tuple[Path_, int]:
    """The lower-case path of the column that a condition compares with values by `=` or `IN`, and
    the number of these values; an empty path for other conditions."""
    column, values = None, []
    if node["op"] == "compare" and node["cmp"] == "=":
        sides = [node["left"], node["right"]]
        column = next((side for side in sides if side["op"] == "column"), None)
        values = [side for side in sides if side["op"] == "literal"]
    elif node["op"] == "in":
        column, values = node["arg"], [item for item in node["list"] if item["op"] == "literal"]
        if len(values) < len(node["list"]):
            return (), 0
    if column is None or column["op"] != "column" or not values:
        return (), 0
    return tuple(name.lower() for name in column["name"]), len(values)


def _paths(node: Any) -> Iterator[list[str]]:
    """The columns of a tree."""
    if isinstance(node, dict):
        if node.get("op") == "column":
            yield node["name"]
        else:
            for part in node.values():
                yield from _paths(part)
    elif isinstance(node, list):
        for part in node:
            yield from _paths(part)


@dataclass(frozen=True)
class Workload:
    """The predicates for which layouts are compared; `kind` is `given` or `drawn`."""

    kind: str
    lookups: tuple[Lookup, ...]
    left_out: tuple[tuple[str, str], ...] = ()


@dataclass
class _Reading:
    """Collects predicates while a workload is read: equal predicates are merged and their weights
    added."""

    snapshot: _native.Snapshot
    columns: Columns
    lookups: dict[_native.Predicate | None, Lookup] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)

    def take(self, predicate: Any, weight: float) -> None:
        try:
            lookup = Lookup.of(self._trees(predicate), self.columns, weight)
        except DeltaError as e:
            self.leave(str(predicate), str(e))
            return
        before = self.lookups.get(lookup.whole)
        self.lookups[lookup.whole] = Lookup(
            weight + (before.weight if before else 0), lookup.whole, lookup.on_partitions, lookup.parts, lookup.keys
        )

    def leave(self, text: str, why: str) -> None:
        if len(self.left_out) < _MOST_NAMED:
            self.left_out.append((text[:200], why))

    def _trees(self, predicate: Any) -> list[tree.Node]:
        """The conditions that follow from a predicate and that plans can use."""
        if isinstance(predicate, str):
            expr.refuse_unclear(predicate, columns_of(lambda: self.snapshot.schema))
            trees, _ = expr.necessary(predicate)
        else:
            whole = expr.parse(predicate, columns_of(lambda: self.snapshot.schema))
            trees = [] if whole is None else [whole]
        for necessary in trees:
            self.snapshot.scan([], necessary)
        return [necessary.to_dict() for necessary in trees]


def predicate_workload(snapshot: _native.Snapshot, predicates: Predicates, columns: Columns) -> Workload:
    """Reads the workload of a file or a list.

    Raises:
        InvalidArgumentError: neither a file nor a list, an invalid weight, or no predicate that
            this table's plans can use.
    """
    weights: dict[str, float] = {}
    reading = _Reading(snapshot, columns)
    for predicate, weight in _listed(predicates):
        if not isinstance(predicate, str):
            reading.take(predicate, weight)
        elif predicate in weights or len(weights) < _MOST_TEXTS:
            weights[predicate] = weights.get(predicate, 0) + weight
        else:
            reading.leave(predicate, f"more than {_MOST_TEXTS:,} different predicates")
    for text, weight in weights.items():
        reading.take(text, weight)
    if not reading.lookups:
        why = f": {reading.left_out[0][1]}" if reading.left_out else ""
        raise InvalidArgumentError(f"no predicate of the workload can be judged by{why}")
    heaviest = sorted(reading.lookups.values(), key=lambda lookup: -lookup.weight)
    for lookup in heaviest[MOST_PREDICATES:]:
        reading.leave(str(lookup.whole or ""), f"of more than {MOST_PREDICATES} different predicates the lightest")
    return Workload("given", tuple(heaviest[:MOST_PREDICATES]), tuple(reading.left_out))


def _listed(predicates: Predicates) -> Iterator[tuple[Any, float]]:
    if isinstance(predicates, str):
        raise InvalidArgumentError(
            "predicates is a list of predicates or a pathlib.Path to a file of them, not one text"
        )
    if not isinstance(predicates, os.PathLike):
        for predicate in predicates:
            yield _weighted(predicate, repr(predicate)[:100])
        return
    try:
        with Path(predicates).open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                text = line.strip()
                if text and not text.startswith(("--", "#")):
                    yield _weighted(_read(text, number), f"line {number}")
    except (OSError, UnicodeDecodeError) as e:
        raise InvalidArgumentError(f"the file of predicates can't be read: {e}") from e


def _read(line: str, number: int) -> Any:
    """A line is a predicate in Spark SQL, or JSON: a text, or an object with `predicate` and an
    optional `weight`."""
    if line[0] not in '{"':
        return line.removesuffix(";")
    try:
        return json.loads(line)
    except ValueError as e:
        raise InvalidArgumentError(f"line {number} of the predicates isn't JSON: {e}") from e


def _weighted(predicate: Any, where: str) -> tuple[Any, float]:
    if not isinstance(predicate, Mapping):
        return predicate, 1.0
    weight = predicate.get("weight", 1)
    sound = isinstance(weight, (int, float)) and not isinstance(weight, bool) and 0 < weight < float("inf")
    if "predicate" not in predicate or not sound or set(predicate) - {"predicate", "weight"}:
        raise InvalidArgumentError(
            f'a predicate with a weight is {{"predicate": "x = 1", "weight": 2}}: {where} isn\'t'
        )
    return predicate["predicate"], float(weight)


def drawn(sample: Mapping[Path_, pa.ChunkedArray], columns: Columns) -> Workload:
    """Draws a workload: a read of all rows, and for each column look-ups of sampled values and
    ranges."""
    lookups = [Lookup()]
    for path, values in sample.items():
        # A predicate has the schema's names, which the parser resolves to this path.
        for node in _draws(tree.column(path), values):
            lookups.append(Lookup.of([node], columns))
    return Workload("drawn", tuple(lookups))


_POINTS = 4
_RANGES = 2
# The share of rows in a drawn range.
_RANGE = 0.01


def _draws(column: tree.Node, values: pa.ChunkedArray) -> Iterator[tree.Node]:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = of_json(_native.TableSchema.of_arrow(pa.schema([("v", values.type)])).fields[0].data_type)
    if kind is None:
        return
    ordered = values.drop_null()
    ordered = ordered.take(pc.sort_indices(ordered))
    rows = len(ordered)
    if not rows:
        return

    def quantile(share: float) -> tree.Node:
        return literal_nodes(ordered.slice(min(int(share * rows), rows - 1), 1), kind)[0]

    for i in range(_POINTS):
        yield tree.compare("=", column, quantile((i + 0.5) / _POINTS))
    for i in range(_RANGES):
        start = (i + 0.5) / _RANGES
        bounds = tree.compare(">=", column, quantile(start)), tree.compare("<=", column, quantile(start + _RANGE))
        yield tree.all_of(list(bounds))
