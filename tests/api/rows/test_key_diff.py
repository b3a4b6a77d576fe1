"""Rows in which two versions differ, against a naive model in Python that stores and compares every
version's rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rows.row_model import CONDITIONS, TABLES, UPDATES, VECTORS, Model, Row, values
from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane.schema import Field

MAPPED = {"delta.columnMapping.mode": "name"}


def plain(value: Any) -> str:
    """A value as DuckDB compares it."""
    return repr(0.0 if value == 0 and isinstance(value, float) else value)


def naive(before: Iterable[Row], after: Iterable[Row], names: list[str], keys: list[str]) -> Counter[Any]:
    """The changes by key, with both rows, for versions whose rows are multisets."""
    old, new = (Counter(tuple(plain(row.get(name)) for name in names) for row in rows) for rows in (before, after))
    sides: dict[Any, tuple[list[Any], list[Any]]] = {}
    for side, left in enumerate((old - new, new - old)):
        for row in left.elements():
            key = tuple(row[names.index(name)] for name in keys)
            sides.setdefault(key, ([], []))[side].append(row)
    changes: Counter[Any] = Counter()
    for gone, come in sides.values():
        if len(gone) == len(come) == 1:
            changes["update", gone[0], come[0]] += 1
            continue
        changes.update(("delete", row, None) for row in gone)
        changes.update(("insert", None, row) for row in come)
    return changes


def counted_differences(table: DeltaTable, earlier: int, other: int, names: list[str], keys: list[str]) -> Counter[Any]:
    reader = table.diff(earlier, other, keys=keys, columns=names)
    assert reader.schema.names == [*keys, "change", "before", "after"]
    changes: Counter[Any] = Counter()
    for row in reader.read_all().to_pylist():
        sides = [None if row[s] is None else tuple(plain(row[s][name]) for name in names) for s in ("before", "after")]
        shown = sides[1] or sides[0]
        assert shown is not None
        assert [plain(row[key]) for key in keys] == [shown[names.index(key)] for key in keys]
        changes[row["change"], sides[0], sides[1]] += 1
    return changes


class Remembered(Model):
    """A table, and the rows of each version by the columns' original names, with each version's
    names for them."""

    def __init__(self, path: str, properties: dict[str, str], partitioned: bool) -> None:
        super().__init__(path, properties, partitioned)
        self.versions: dict[int, tuple[list[Row], dict[str, str]]] = {}
        self.named = {name: name for name in ("k", "a", "s", "f", "p")}
        self.remember()

    def remember(self) -> None:
        self.versions[self.table.version()] = ([dict(row) for row in self.rows], dict(self.named))

    def compact(self, target_size: int | None) -> None:
        self.table.optimize.compact(target_size=target_size)

    def order(self, columns: list[str]) -> None:
        self.table.optimize.z_order(columns, target_size=1_000)

    def check_differences(self, pairs: list[tuple[int, int]], keys: list[str]) -> None:
        known = sorted(self.versions)
        for first, other in pairs:
            first, other = known[first % len(known)], known[other % len(known)]
            (before, earlier), (after, named) = self.versions[first], self.versions[other]
            if first > other:
                named = {n: name for n, name in named.items() if n in earlier}
            rows = [[{named[n]: v for n, v in row.items() if n in named} for row in rows] for rows in (before, after)]
            names, key_columns = list(named.values()), [named[k] for k in keys]
            assert counted_differences(self.table, first, other, names, key_columns) == naive(*rows, names, key_columns)


appends = st.tuples(st.just("append"), st.lists(values, min_size=1, max_size=8))
deletes = st.tuples(st.just("delete"), st.sampled_from(CONDITIONS))
updates = st.tuples(st.just("update"), st.tuples(st.sampled_from(UPDATES), st.sampled_from(CONDITIONS)))
moves = st.tuples(st.just("compact"), st.sampled_from([None, 3_000])) | st.tuples(st.just("order"), st.just(["a", "f"]))
KEYS = [["k"], ["a"], ["s", "p"], ["f", "k"]]


@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(appends | deletes | updates | moves, min_size=3, max_size=6),
    pairs=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=3),
    keys=st.sampled_from(KEYS),
)
def test_it_is_what_a_naive_comparison_says(
    tmp_path_factory: pytest.TempPathFactory,
    properties: dict[str, str],
    partitioned: bool,
    steps: list[Any],
    pairs: list[tuple[int, int]],
    keys: list[str],
) -> None:
    # P042, P113, P124
    model = Remembered(str(tmp_path_factory.mktemp("diff") / "t"), properties, partitioned)
    for first in (0, 3):
        model.append([{"a": i % 4, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(first, first + 3)])
        model.remember()
    for name, argument in steps:
        getattr(model, name)(argument)
        model.remember()
    newest = len(model.versions) - 1
    model.check_differences([*pairs, (0, newest), (newest, 1)], keys)


def test_columns_are_found_by_what_they_are(tmp_path: Path) -> None:
    model = Remembered(str(tmp_path), MAPPED | VECTORS, False)
    model.append([{"a": i, "s": "x", "f": 1.0, "p": "y"} for i in range(4)])
    model.remember()
    model.table.alter.rename_column("a", "amount")
    model.named["a"] = "amount"
    model.remember()
    assert counted_differences(model.table, 1, 2, list(model.named.values()), ["k"]) == Counter()
    model.table.update({"amount": "amount + 1"}, predicate="k > 1")
    for row in model.rows[2:]:
        row["a"] += 1
    model.remember()
    model.table.alter.drop_columns(["f"])
    del model.named["f"]
    model.remember()
    model.table.alter.add_columns(Field("new", "long"))
    model.named["new"] = "new"
    model.remember()
    model.table.update({"new": "7"}, predicate="k = 0")
    model.rows[0]["new"] = 7
    model.remember()
    everything = [(first, other) for first in range(7) for other in range(7) if first != other]
    model.check_differences(everything[::3], ["k"])
    model.check_differences(everything[::8], ["a", "k"])
    with pytest.raises(exceptions.InvalidArgumentError, match="can be compared"):
        model.table.diff(6, 0, keys=["k"], columns=["f"])


def test_other_types_and_other_partitions(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"k": pa.array([1, 2], pa.int32()), "p": ["a", "b"]}))
    rows = pa.table({"k": [1, 2, 1 << 40], "p": ["a", "B", "c"]})
    write_deltalake(tmp_path, rows, mode="overwrite", schema_mode="overwrite", partition_by=["p"])
    texts = pa.table({"k": ["1"], "p": ["a"]})
    write_deltalake(tmp_path, texts, mode="overwrite", schema_mode="overwrite", partition_by=["p"])
    table = DeltaTable(tmp_path)
    changes = table.diff(0, 1, keys=["k"]).read_all().sort_by("k").to_pylist()
    assert changes == [{"k": 2, "change": "update"}, {"k": 1 << 40, "change": "insert"}]
    with pytest.raises(exceptions.SchemaMismatchError, match="is long in version 1 and integer in version 0"):
        table.diff(1, 0, keys=["k"])
    with pytest.raises(exceptions.SchemaMismatchError, match="is long in version 1 and string in version 2"):
        table.diff(1, keys=["p"]).read_all()


def test_keys_that_are_not_unique_are_multisets(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"k": [1, 1, 1, None, 2], "x": [1, 1, 2, 3, 4]}))
    write_deltalake(tmp_path, pa.table({"k": [1, 1, None, 2, 2], "x": [1, 9, 5, 4, 4]}), mode="overwrite")
    rows = DeltaTable(tmp_path).diff(0, keys=["K"], columns=["x"]).read_all().to_pylist()
    changes = Counter((r["k"], r["change"], (r["before"] or {}).get("x"), (r["after"] or {}).get("x")) for r in rows)
    assert changes == Counter(
        [(1, "delete", 1, None), (1, "delete", 2, None), (1, "insert", None, 9), (None, "update", 3, 5), (2, "insert", None, 4)]
    )  # fmt: skip


def test_all_types_and_many_rows(tmp_path: Path) -> None:
    from datetime import date, datetime, timezone
    from decimal import Decimal

    moment = datetime(2026, 1, 1, 12, 30, tzinfo=timezone.utc)
    row = {
        "k": 1, "t": moment, "n": moment.replace(tzinfo=None), "d": date(2026, 1, 2), "m": Decimal("1.50"),
        "b": b"\xff", "l": [{"at": moment, "x": math.nan}], "g": {"y": True},
    }  # fmt: skip
    write_deltalake(tmp_path, pa.Table.from_pylist([row]))
    write_deltalake(tmp_path, pa.Table.from_pylist([{**row, "l": []}]), mode="overwrite")
    table = DeltaTable(tmp_path)
    names = [field.name for field in table.schema().fields]
    reader = table.diff(0, keys=["t", "b", "m", "k"], columns=names)
    assert reader.schema.field("t").type == pa.timestamp("us", "UTC")
    (change,) = reader.read_all().to_pylist()
    assert repr(change["before"]) == repr(DeltaTable(tmp_path, 0).to_pyarrow_table().to_pylist()[0])
    assert (change["change"], change["after"]["l"], change["t"]) == ("update", [], moment)
    assert table.diff(0, 0, keys=["k"]).read_all().num_rows == 0
    rows = 200_000
    write_deltalake(tmp_path / "many", pa.table({"k": range(rows), "x": [0] * rows}))
    write_deltalake(tmp_path / "many", pa.table({"k": range(10, rows + 10), "x": [0] * rows}), mode="overwrite")
    changes = DeltaTable(tmp_path / "many").diff(0, keys=["k"], memory_limit="64MB").read_all()
    assert Counter(changes["change"].to_pylist()) == {"insert": 10, "delete": 10}


def test_only_files_that_differ_are_read(tmp_path: Path) -> None:
    for n in range(3):
        write_deltalake(
            tmp_path,
            pa.table({"k": range(10 * n, 10 * n + 10)}),
            mode="append",
            configuration=VECTORS if not n else None,
        )
    table = DeltaTable(tmp_path)
    before = table.version()
    others = [file for file in table.files() if table.files("k = 5") != [file]]
    table.delete("k = 5")
    for file in others:
        (tmp_path / file).unlink()
    assert table.diff(before, keys=["k"]).read_all().to_pylist() == [{"k": 5, "change": "delete"}]
    assert table.diff(before + 1, before, keys=["k"]).read_all().to_pylist() == [{"k": 5, "change": "insert"}]
    with pytest.raises(exceptions.FileMissingError):
        table.diff(0, keys=["k"]).read_all()


def test_refusals(tmp_path: Path) -> None:
    data = {"k": [1], "change": [2], "m": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64()))}
    write_deltalake(tmp_path, pa.table(data))
    table = DeltaTable(tmp_path)
    for keys, columns, why in [
        ([], None, "one at least"),
        (["z"], None, "isn't a column that"),
        (["k", "K"], None, "given twice"),
        (["m"], None, "can't be compared"),
        (["change"], None, "rename it"),
        (["k"], ["z"], "isn't a column"),
        ("k", None, "list of columns"),
    ]:
        with pytest.raises(exceptions.InvalidArgumentError, match=why):
            table.diff(0, keys=keys, columns=columns)  # type: ignore[arg-type]
    with pytest.raises(exceptions.InvalidArgumentError, match="give keys as well"):
        table.diff(0, columns=["k"])  # type: ignore[call-overload]
    assert table.diff(0, keys=["k"], columns=[]).schema.names == ["k", "change", "before", "after"]
