"""A table together with its expected content in plain Python: rows, their changes and ids after
each step."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from deltaplane import DeltaTable, DryRun, write_deltalake

T = TypeVar("T")
Row = dict[str, Any]

VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
IDS = {"delta.enableRowTracking": "true"}
TABLES = [
    {},
    VECTORS,
    FEED,
    VECTORS | FEED | IDS,
    FEED | IDS | {"delta.columnMapping.mode": "name"},
    VECTORS | IDS | {"delta.columnMapping.mode": "id"},
]
SCHEMA = pa.schema([("k", pa.int64()), ("a", pa.int64()), ("s", pa.string()), ("f", pa.float64()), ("p", pa.string())])
NAMES = SCHEMA.names

# Spark SQL with the equivalent Python function; None is null. The core evaluates the first half,
# DuckDB the other.
CONDITIONS: list[tuple[str | None, Callable[[Row], bool | None]]] = [
    (None, lambda r: True),
    ("a > 2", lambda r: None if r["a"] is None else r["a"] > 2),
    ("a IS NULL", lambda r: r["a"] is None),
    ("p = 'x'", lambda r: None if r["p"] is None else r["p"] == "x"),
    ("p IS NULL", lambda r: r["p"] is None),
    ("NOT (p <=> 'x')", lambda r: r["p"] != "x"),
    # NaN is larger than any number.
    ("f > 1", lambda r: None if r["f"] is None else math.isnan(r["f"]) or r["f"] > 1),
    ("k BETWEEN 3 AND 9 AND p = 'y'", lambda r: 3 <= r["k"] <= 9 and r["p"] == "y"),
    ("a % 2 = 0", lambda r: None if r["a"] is None else r["a"] % 2 == 0),
    ("length(s) > 1 AND k < 12", lambda r: r["k"] < 12 and r["s"] is not None and len(r["s"]) > 1),
    ("upper(s) = 'B' OR p = 'y'", lambda r: (r["s"] is not None and r["s"].upper() == "B") or r["p"] == "y"),
    ("coalesce(a, 0) + k > 10", lambda r: (r["a"] or 0) + r["k"] > 10),
]
UPDATES: list[tuple[dict[str, str], dict[str, Any], Callable[[Row], Row]]] = [
    ({"a": "a + 1"}, {}, lambda r: {"a": None if r["a"] is None else r["a"] + 1}),
    ({"A": "null"}, {}, lambda r: {"a": None}),
    ({"s": "concat(s, 'z')"}, {"f": 2}, lambda r: {"s": None if r["s"] is None else r["s"] + "z", "f": 2.0}),
    # Rows move to other partitions; every expression reads the old values.
    ({"p": "s", "s": "p"}, {}, lambda r: {"p": r["s"], "s": r["p"]}),
    ({"f": "a"}, {}, lambda r: {"f": None if r["a"] is None else float(r["a"])}),
]

values = st.fixed_dictionaries(
    {
        "a": st.none() | st.integers(0, 5),
        "s": st.none() | st.sampled_from(["a", "b", "bb"]),
        "f": st.none() | st.sampled_from([0.5, 1.5, math.nan, -0.0]),
        "p": st.none() | st.sampled_from(["x", "y"]),
    }
)


def key(row: Row, *more: str) -> tuple[Any, ...]:
    """A row in comparable form: NaN equals itself, and zero differs from minus zero."""
    return tuple(repr(row[name]) for name in (*NAMES, *more))


def contents(location: str) -> dict[str, bytes]:
    """Every file below a table on the local disk."""
    return {str(f): f.read_bytes() for f in Path(location).rglob("*") if f.is_file()}


Foretold = Callable[[DryRun, list[dict[str, Any]]], None]


def rehearsed(
    table: DeltaTable, rehearse: Callable[[], DryRun], run: Callable[[], T], check: Foretold | None = None
) -> T:
    """Runs a command after its dry run; the dry run must change no file and predict the commit."""
    before, version = contents(table.location), table.version()
    dry_run = rehearse()
    assert contents(table.location) == before
    assert (dry_run.version, table.version()) == (version, version)
    done = run()
    newest = DeltaTable(table.location).version()
    assert dry_run.changed == (newest > version)
    if dry_run.changed:
        log = Path(table.location, "_delta_log", f"{newest:020}.json").read_text().splitlines()
        (check or foretold)(dry_run, [json.loads(line) for line in log])
    else:
        assert (dry_run.conflicts, dry_run.files_removed, dry_run.estimated_bytes_written) == ((), 0, 0)
    return done


def foretold(dry_run: DryRun, commit: list[dict[str, Any]]) -> None:
    """Checks a dry run's prediction of a commit: exact, except for the bytes of moved rows."""
    info = next(action["commitInfo"] for action in commit if "commitInfo" in action)
    adds = {action["add"]["path"]: action["add"] for action in commit if "add" in action}
    removes = {action["remove"]["path"]: action["remove"] for action in commit if "remove" in action}
    gone = [remove["size"] for path, remove in removes.items() if path not in adds]
    new = [add["size"] for path, add in adds.items() if path not in removes]
    assert dry_run.operation == info["operation"]
    assert (dry_run.files_removed, dry_run.bytes_removed) == (len(gone), sum(gone))
    assert dry_run.files_marked == len(adds.keys() & removes.keys())
    rows = {name: int(n) for name, n in info["operationMetrics"].items() if "Rows" in name}
    assert dict(dry_run.rows) == rows
    errors = [conflict.error for conflict in dry_run.conflicts]
    assert ("ConcurrentDeleteDeleteException" in errors) == bool(removes)
    if "metaData" not in [key for action in commit for key in action]:
        assert not dry_run.read_set.changes_metadata
    if not sum(n for name, n in rows.items() if "Copied" in name):
        changes = [action["cdc"]["size"] for action in commit if "cdc" in action]
        vectors = [adds[path]["deletionVector"]["sizeInBytes"] for path in adds.keys() & removes.keys()]
        assert dry_run.estimated_files_written == len(new)
        # The order of joined rows isn't deterministic.
        assert dry_run.estimated_bytes_written == pytest.approx(sum(new) + sum(changes) + sum(vectors), rel=0.05)


class Model:
    """The expected content of the table, and the history of its rows."""

    # Checks a dry run's prediction of a commit.
    foretold: Foretold = staticmethod(foretold)

    def __init__(self, path: str, properties: dict[str, str], partitioned: bool) -> None:
        self.numbers = itertools.count()
        self.rows: list[Row] = []
        self.ids: dict[int, int] = {}
        self.changes: Counter[Any] = Counter()
        self.properties = properties
        columns = ["p"] if partitioned else None
        self.table = DeltaTable.create(path, SCHEMA, configuration=properties, partition_by=columns)

    def changed(self, row: Row, kind: str) -> None:
        self.changes[key(row), kind, self.version] += 1

    @property
    def version(self) -> int:
        """The version that the current step makes."""
        return self.table.version() + 1

    def append(self, new_rows: list[Row]) -> None:
        rows = [{"k": next(self.numbers), **row} for row in new_rows]
        for row in rows:
            self.changed(row, "insert")
        data = pa.Table.from_pylist(rows, SCHEMA)
        rehearsed(
            self.table,
            lambda: write_deltalake(self.table, data, mode="append", dry_run=True),
            lambda: write_deltalake(self.table, data, mode="append"),
        )
        self.rows += rows

    def delete(self, condition: tuple[str | None, Callable[[Row], bool | None]]) -> None:
        gone = [row for row in self.rows if condition[1](row)]
        for row in gone:
            self.changed(row, "delete")
        done = rehearsed(
            self.table,
            lambda: self.table.delete(condition[0], dry_run=True),
            lambda: self.table.delete(condition[0]),
            self.foretold,
        )
        assert done["num_deleted_rows"] == len(gone)
        self.rows = [row for row in self.rows if not condition[1](row)]

    def update(self, what: tuple[Any, Any]) -> None:
        (expressions, constants, new), (sql, holds) = what
        met = [row for row in self.rows if holds(row)]
        for row in met:
            self.changed(row, "update_preimage")
            self.changed({**row, **new(row)}, "update_postimage")
        done = rehearsed(
            self.table,
            lambda: self.table.update(expressions, constants, sql, dry_run=True),
            lambda: self.table.update(expressions, constants, sql),
            self.foretold,
        )
        assert done["num_updated_rows"] == len(met)
        for row in met:
            row.update(new(row))

    def check(self) -> None:
        actual = self.table.to_pyarrow_table().to_pylist()
        assert Counter(map(key, actual)) == Counter(map(key, self.rows))
        assert self.table.count() == len(self.rows)
        if IDS.items() <= self.properties.items():
            tracked = self.table.scan(["k", "_row_id"]).to_arrow().to_pylist()
            now = {row["k"]: row["_row_id"] for row in tracked}
            assert None not in now.values()
            assert len(set(now.values())) == len(now)
            # P142: a row keeps its id through every change.
            assert {k: i for k, i in now.items() if k in self.ids} == {k: self.ids[k] for k in now if k in self.ids}
            self.ids |= now

    def check_changes(self) -> None:
        if FEED.items() <= self.properties.items():
            feed = self.table.load_cdf(0).to_arrow().to_pylist()
            assert Counter((key(r), r["_change_type"], r["_commit_version"]) for r in feed) == self.changes
