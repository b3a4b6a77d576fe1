"""MERGE against a model in plain Python: rows, the change feed, row ids and metrics, in both ways
of deleting."""

from __future__ import annotations

import datetime
import decimal
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rows.row_model import FEED, IDS, SCHEMA, TABLES, VECTORS, Model, Row, rehearsed, values
from deltaplane import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltaplane._native import TableSchema
from deltaplane.commands.merge.clauses import Clause
from deltaplane.commands.merge.plan import MergePlan
from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConstraintViolationError,
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    SchemaMismatchError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from deltaplane.schema import Field, Schema
from deltaplane.table.merge import TableMerger
from interop.verifier import verify

Pair = Callable[[Row, Row], bool | None]
One = Callable[[Row], bool | None]


def equal(a: Any, b: Any) -> bool | None:
    """Spark's equality: NaN equals itself, null is unknown."""
    if a is None or b is None:
        return None
    return a == b or (isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b))


def less(a: Any, b: Any) -> bool | None:
    return None if a is None or b is None else a < b


def both(*parts: bool | None) -> bool | None:
    if False in parts:
        return False
    return None if None in parts else True


ONS: list[tuple[str, Pair]] = [
    ("t.k = s.k", lambda t, s: equal(t["k"], s["k"])),
    ("S.K <=> T.K", lambda t, s: t["k"] == s["k"]),
    ("t.k = s.k AND t.p = s.p", lambda t, s: both(equal(t["k"], s["k"]), equal(t["p"], s["p"]))),
    ("t.k = s.k AND t.p = 'x'", lambda t, s: both(equal(t["k"], s["k"]), equal(t["p"], "x"))),
    ("t.k = s.k AND t.a < s.a", lambda t, s: both(equal(t["k"], s["k"]), less(t["a"], s["a"]))),
    ("t.a = s.a AND t.p <=> s.p", lambda t, s: both(equal(t["a"], s["a"]), t["p"] == s["p"])),
    ("t.f = s.f", lambda t, s: equal(t["f"], s["f"])),
    (
        "upper(t.s) = upper(s.s) AND t.k % 2 = 0",
        lambda t, s: both(equal(t["s"], s["s"]), None if t["k"] is None else t["k"] % 2 == 0),
    ),
    ("t.k + 1 = s.k", lambda t, s: equal(None if t["k"] is None else t["k"] + 1, s["k"])),
    ("false", lambda t, s: False),
]
PAIRS: list[tuple[str | None, Pair]] = [
    (None, lambda t, s: True),
    ("t.a < s.a", lambda t, s: less(t["a"], s["a"])),
    ("s.p IS NULL", lambda t, s: s["p"] is None),
    ("t.p = s.p", lambda t, s: equal(t["p"], s["p"])),
    ("length(concat(t.s, s.s)) > 2", lambda t, s: None if None in (t["s"], s["s"]) else len(t["s"] + s["s"]) > 2),
]
SOURCES: list[tuple[str | None, One]] = [
    (None, lambda s: True),
    ("s.a > 2", lambda s: less(2, s["a"])),
    ("p = 'x'", lambda s: equal(s["p"], "x")),
]
TARGETS: list[tuple[str | None, One]] = [
    (None, lambda t: True),
    ("t.p = 'y'", lambda t: equal(t["p"], "y")),
    ("a >= 2 AND k < 9", lambda t: both(less(1, t["a"]), less(t["k"], 9))),
    ("t.s IS NULL", lambda t: t["s"] is None),
]
ALL = ("k", "a", "s", "f", "p")
CHANGES: list[tuple[Callable[[TableMerger, str | None], Any], Callable[[Row, Row], Row] | None]] = [
    (lambda m, c: m.when_matched_delete(c), None),
    (lambda m, c: m.when_matched_update_all(c), lambda t, s: dict(s)),
    (
        lambda m, c: m.when_matched_update_all(c, except_cols=["K", "p"]),
        lambda t, s: {n: s[n] for n in ("a", "s", "f")},
    ),
    (
        lambda m, c: m.when_matched_update({"a": "t.a + s.a", "t.s": "s.p"}, c),
        lambda t, s: {"a": None if None in (t["a"], s["a"]) else t["a"] + s["a"], "s": s["p"]},
    ),
    (lambda m, c: m.when_matched_update({"p": "s.s", "f": "s.a"}, c), lambda t, s: {"p": s["s"], "f": number(s["a"])}),
]
INSERTS: list[tuple[Callable[[TableMerger, str | None], Any], Callable[[Row], Row]]] = [
    (lambda m, c: m.when_not_matched_insert_all(c), dict),
    (lambda m, c: m.when_not_matched_insert_all(c, except_cols=["s"]), lambda s: {**s, "s": None}),
    (
        lambda m, c: m.when_not_matched_insert({"k": "s.k", "A": "s.a * 2", "p": "'x'"}, c),
        lambda s: {"k": s["k"], "a": None if s["a"] is None else s["a"] * 2, "s": None, "f": None, "p": "x"},
    ),
]
LEFTS: list[tuple[Callable[[TableMerger, str | None], Any], Callable[[Row], Row] | None]] = [
    (lambda m, c: m.when_not_matched_by_source_delete(c), None),
    (lambda m, c: m.when_not_matched_by_source_update({"s": "concat(t.s, t.p)"}, c), lambda t: {"s": joined(t)}),
]


def number(value: int | None) -> float | None:
    return None if value is None else float(value)


def joined(row: Row) -> str | None:
    return None if None in (row["s"], row["p"]) else row["s"] + row["p"]


def clauses(conditions: list[Any], actions: list[Any]) -> st.SearchStrategy[list[Any]]:
    """Clauses of one kind, of which only the last may lack a condition."""
    conditional = st.tuples(st.sampled_from(conditions[1:]), st.sampled_from(actions))
    anyone = st.tuples(st.sampled_from(conditions), st.sampled_from(actions))
    return st.lists(conditional, max_size=2).flatmap(
        lambda first: st.lists(anyone, max_size=1).map(lambda last: first + last)
    )


sources = st.lists(
    st.tuples(st.none() | st.integers(0, 20), values).map(lambda pair: {"k": pair[0], **pair[1]}), max_size=10
)
# Few matches change one row twice.
distinct = sources.map(lambda rows: list({row["k"]: row for row in rows}.values()))
merges = st.tuples(
    distinct | sources,
    st.sampled_from(ONS),
    clauses(PAIRS, CHANGES),
    clauses(SOURCES, INSERTS),
    clauses(TARGETS, LEFTS),
).filter(lambda merge: any(merge[2:]))
appends = st.lists(values, min_size=1, max_size=8)


class Merged(Model):
    """The model with MERGE."""

    def merge(self, what: Any) -> None:
        source, (on, meets), matched, inserts, lefts = what
        data = pa.Table.from_pylist(source, SCHEMA)

        def merger() -> TableMerger:
            made = self.table.merge(data, on, source_alias="s", target_alias="t")
            for (sql, _), (add, _) in [*matched, *inserts, *lefts]:
                add(made, sql)
            return made

        done: list[tuple[Row, Row | None]] = []
        for row in self.rows:
            pairs = [s for s in source if meets(row, s)]
            changes = [c for s in pairs if (c := self._change(row, s, matched))]
            if not pairs:
                changes = [(new and {**row, **new(row)},) for (_, holds), (_, new) in lefts if holds(row)][:1]
            if len(changes) > 1 and any(new is not None for (new,) in changes):
                version = self.table.version()
                with pytest.raises(InvalidArgumentError, match="MULTIPLE_SOURCE_ROW"):
                    merger().execute(dry_run=True)
                with pytest.raises(InvalidArgumentError, match="MULTIPLE_SOURCE_ROW"):
                    merger().execute()
                assert self.table.version() == version
                return
            done += [(row, new) for (new,) in changes[:1]]
        new_rows = [self._new(s, inserts) for s in source if not any(meets(row, s) for row in self.rows)]
        self._merged(merger, done, [row for row in new_rows if row is not None])

    def _change(self, row: Row, s: Row, matched: Any) -> tuple[Row | None] | None:
        for (_, holds), (_, new) in matched:
            if holds(row, s):
                return (new and {**row, **new(row, s)},)
        return None

    def _new(self, s: Row, inserts: Any) -> Row | None:
        return next((new(s) for (_, holds), (_, new) in inserts if holds(s)), None)

    def _merged(
        self, merger: Callable[[], TableMerger], done: list[tuple[Row, Row | None]], new_rows: list[Row]
    ) -> None:
        for row, new in done:
            self.changed(row, "delete" if new is None else "update_preimage")
            if new is not None:
                self.changed(new, "update_postimage")
        for row in new_rows:
            self.changed(row, "insert")
        metrics = rehearsed(
            self.table, lambda: merger().execute(dry_run=True), lambda: merger().execute(), self.foretold
        )
        counts = [metrics[f"num_target_rows_{what}"] for what in ("inserted", "updated", "deleted")]
        updated = sum(new is not None for _, new in done)
        assert counts == [len(new_rows), updated, len(done) - updated]
        gone = {id(row) for row, _ in done}
        self.rows = [row for row in self.rows if id(row) not in gone]
        self.rows += [new for _, new in done if new is not None] + new_rows
        # Rows that changed their number aren't tracked any further.
        self.ids = {}


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(more=appends, steps=st.lists(merges, min_size=1, max_size=3))
def test_merges_do_what_a_model_does(
    tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str], partitioned: bool, more: Any, steps: list[Any]
) -> None:
    # P122, P130, P131, P142
    model = Merged(str(tmp_path_factory.mktemp("merge") / "t"), properties, partitioned)
    model.append([{"a": i % 4, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(6)])
    model.append(more)
    for step in steps:
        model.merge(step)
        model.check()
    model.check_changes()
    verify(model.table.location)


def made(path: Path, data: pa.Table, **more: Any) -> DeltaTable:
    write_deltalake(str(path / "t"), data, **more)
    return DeltaTable(str(path / "t"))


def merged(table: DeltaTable, source: Any, on: str = "t.id = s.id", **more: Any) -> TableMerger:
    return table.merge(source, on, source_alias="s", target_alias="t", **more)


def rows(table: DeltaTable) -> list[Row]:
    return table.to_pyarrow_table().sort_by("id").to_pylist()


TWO = pa.table({"id": [1, 2], "n": [10, 20]})


@pytest.mark.parametrize(
    "on", ["t.id = s.id AND s.d <> 0 AND t.n / s.d > 4", "s.d <> 0 AND t.n / s.d > 4 AND t.id = s.id"]
)
def test_what_stands_before_a_part_that_fails_guards_it(tmp_path: Path, on: str) -> None:
    table = made(tmp_path, TWO)
    source = pa.table({"id": [1, 2, 7], "d": [0, 5, 0]})
    merged(table, source, on).when_matched_update({"n": "t.n + 1"}).execute()
    assert rows(table) == [{"id": 1, "n": 10}, {"id": 2, "n": 20}]
    source = pa.table({"id": [1, 2, 7], "d": [0, 4, 0]})
    merged(table, source, on).when_matched_update({"n": "t.n + 1"}).execute()
    assert rows(table) == [{"id": 1, "n": 10}, {"id": 2, "n": 21}]
    # A key that fails on its own doesn't restrict the other rows either.
    guarded = "s.d <> 0 AND t.id = CAST(8 / s.d AS LONG)"
    merged(table, source, guarded).when_matched_update({"n": "0"}).execute()
    assert rows(table) == [{"id": 1, "n": 10}, {"id": 2, "n": 0}]
    with pytest.raises(InvalidArgumentError, match="zero"):
        merged(table, source, "t.n / s.d > 4").when_matched_delete().execute()


def test_rows_are_found_by_keys_that_can_fail(tmp_path: Path) -> None:
    # With a guard, the join would compare every pair of rows.
    table = made(tmp_path, TWO)
    source = pa.table({"id": ["1", "2"], "n": [10, 9]})
    on = "t.n = s.n AND t.id = CAST(s.id AS BIGINT)"
    plan = MergePlan(
        schema=table._snapshot.schema,
        source_fields=TableSchema.of_arrow(source.schema).to_value()["fields"],
        predicate=on,
        clauses=[Clause("matched", "delete")],
        source_alias="s",
        target_alias="t",
    )
    assert plan.on.startswith("((t.c1 = s.c1)) AND ((t.c0 = ")
    merged(table, source, on).when_matched_delete().execute()
    assert rows(table) == [{"id": 2, "n": 20}]


def test_clauses_apply_in_their_order_to_their_own_rows(tmp_path: Path) -> None:
    # Two files with rows at equal positions.
    table = made(tmp_path, pa.table({"id": [1, 2], "n": [10, 20]}))
    write_deltalake(table.location, pa.table({"id": [3, 4], "n": [30, 40]}), mode="append")
    table.update_incremental()
    merger = merged(table, pa.table({"id": [2, 3, 9], "n": [0, 7, 9]}))
    merger = merger.when_matched_update({"n": "s.n"}, "s.n > 5").when_matched_delete()
    merger.when_not_matched_insert_all().when_not_matched_by_source_update({"n": "-1"}).execute()
    assert {row["id"]: row["n"] for row in rows(table)} == {1: -1, 3: 7, 4: -1, 9: 9}
    # A match without an applicable clause is still a match.
    merger = merged(table, pa.table({"id": [3, 5], "n": [0, 5]})).when_matched_delete("s.n > 3")
    merger.when_not_matched_insert_all().execute()
    assert {row["id"]: row["n"] for row in rows(table)} == {1: -1, 3: 7, 4: -1, 5: 5, 9: 9}
    assert len(rows(table)) == 5


def test_nulls_match_where_they_equal_each_other(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, None], "n": [10, 20]}))
    source = pa.table({"id": [1, None], "n": [11, 21]})
    merged(table, source, "t.id <=> s.id").when_matched_update_all().when_not_matched_insert_all().execute()
    assert sorted(row["n"] for row in rows(table)) == [11, 21]


def test_the_history_says_what_was_merged(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    merger = merged(table, pa.table({"id": [2, 3], "n": [5, 6]})).when_matched_update({"n": "s.n"}, "s.n > 1")
    metrics = merger.when_matched_delete().when_not_matched_insert_all().execute()
    said = table.history(1)[0]
    assert said["operation"] == "MERGE"
    assert said["operationParameters"] == {
        "predicate": '["t.id = s.id"]',
        "matchedPredicates": '[{"predicate":"s.n > 1","actionType":"update"},{"actionType":"delete"}]',
        "notMatchedPredicates": '[{"actionType":"insert"}]',
        "notMatchedBySourcePredicates": "[]",
    }
    counted = {
        "numSourceRows": "2",
        "numTargetRowsInserted": "1",
        "numTargetRowsUpdated": "1",
        "numTargetRowsMatchedUpdated": "1",
        "numTargetRowsDeleted": "0",
        "numTargetRowsCopied": "1",
        "numOutputRows": "3",
        "numTargetFilesAdded": "1",
        "numTargetFilesRemoved": "1",
    }
    assert said["operationMetrics"].items() >= counted.items()
    assert metrics["num_output_rows"] == 3
    assert table.version() == metrics["version"] == 1


def test_nothing_to_do_commits_nothing(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    none = merged(table, TWO.slice(0, 0)).when_matched_delete().when_not_matched_insert_all().execute()
    assert (none["num_target_rows_inserted"], none["num_target_files_added"]) == (0, 0)
    merged(table, pa.table({"id": [7]})).when_matched_delete().execute()
    assert table.version() == 0
    # With an empty source, every row of the table is unmatched.
    assert merged(table, TWO.slice(0, 0)).when_not_matched_by_source_delete("t.id = 1").execute()[
        "num_target_rows_deleted"
    ] == 1  # fmt: skip
    assert rows(table) == [{"id": 2, "n": 20}]


def test_several_source_rows_may_delete_one_but_not_change_it(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    twice = pa.table({"id": [2, 2], "n": [1, 2]})
    with pytest.raises(InvalidArgumentError, match="MULTIPLE_SOURCE_ROW_MATCHING"):
        merged(table, twice).when_matched_update_all().execute()
    # A condition that only one of the rows satisfies makes the result unambiguous.
    merged(table, twice).when_matched_update_all("s.n = 2").execute()
    assert rows(table)[1] == {"id": 2, "n": 2}
    done = merged(table, twice).when_matched_delete().when_not_matched_insert_all().execute()
    # Both source rows had a match.
    assert (done["num_target_rows_deleted"], done["num_target_rows_inserted"]) == (1, 0)
    assert rows(table) == [{"id": 1, "n": 10}]


def test_files_that_cannot_match_go_unread(tmp_path: Path) -> None:
    table = made(tmp_path, pa.table({"id": [1, 2], "p": ["a", "a"]}), partition_by=["p"])
    for first in (10, 20, 30):
        more = pa.table({"id": range(first, first + 5), "p": ["ab"[first % 20 == 0]] * 5})
        write_deltalake(table, more, mode="append")
    files = dict(zip(table.get_add_actions(flatten=True)["min.id"].to_pylist(), table.file_uris(), strict=True))
    for low in (1, 10, 30):
        Path(files[low]).write_bytes(b"not a Parquet file any more")
    metrics = merged(table, pa.table({"id": [21, 22, 90], "p": ["b", "b", "a"]}), "t.id = s.id AND t.p = s.p")
    done = metrics.when_matched_delete("s.id < 50").when_not_matched_insert_all("s.p = 'c'").execute()
    # The file with ids from 30 is in another partition; the ids from 1 and 10 are smaller.
    assert (done["num_target_rows_deleted"], done["num_target_files_removed"]) == (2, 1)


def test_keys_of_other_types_and_odd_values_match(tmp_path: Path) -> None:
    moment = datetime.datetime(2024, 5, 1, 12, tzinfo=datetime.timezone.utc)
    exact = decimal.Decimal("12345678901234567890.123456")
    values = {
        "d": (pa.array([datetime.date(2024, 1, 1)]), pa.array([datetime.date(2024, 1, 1)])),
        "m": (pa.array([moment], pa.timestamp("us", "UTC")), pa.array([moment], pa.timestamp("ns", "Europe/Paris"))),
        "e": (pa.array([exact], pa.decimal128(30, 6)), pa.array([exact], pa.decimal128(30, 6))),
        "i": (pa.array([7], pa.int32()), pa.array([7], pa.int64())),
        "u": (pa.array([7], pa.int64()), pa.array([7], pa.uint16())),
        "f": (pa.array([math.nan]), pa.array([math.nan])),
        "z": (pa.array([0.0]), pa.array([-0.0])),
        "b": (pa.array([b"\0\xff"]), pa.array([b"\0\xff"])),
        "t": (pa.array(["é'\\"]), pa.array(["é'\\"]).dictionary_encode()),
        "o": (pa.array([True]), pa.array([True])),
    }
    for number, (name, (ours, theirs)) in enumerate(values.items()):
        table = made(tmp_path / str(number), pa.table({name: ours, "n": [1]}))
        on = f"t.{name} = s.{name}"
        done = merged(table, pa.table({name: theirs}), on).when_matched_update({"n": "5"}).execute()
        assert done["num_target_rows_updated"] == 1, name
        assert table.to_pyarrow_table()[name].to_pylist()[0] in (
            ours.to_pylist()[0],
            pytest.approx(math.nan, nan_ok=True),
        )


def test_every_type_comes_back_as_it_was(tmp_path: Path) -> None:
    moment = datetime.datetime(1, 1, 1, 0, 0, 0, 1)
    utc = moment.replace(year=9999, tzinfo=datetime.timezone.utc)
    inner = pa.struct([("a", pa.int8()), ("l", pa.list_(pa.timestamp("us", "UTC"))), ("MixedCase", pa.string())])
    columns = {
        "id": pa.array([1, 2]),
        "byte": pa.array([-128, None], pa.int8()),
        "short": pa.array([None, 32767], pa.int16()),
        "float": pa.array([-0.0, None], pa.float32()),
        "decimal": pa.array([decimal.Decimal("-0.01"), None], pa.decimal128(38, 2)),
        "binary": pa.array([b"", b"\0"]),
        "naive": pa.array([moment, None], pa.timestamp("us")),
        "instant": pa.array([utc, None], pa.timestamp("us", "UTC")),
        "date": pa.array([datetime.date(1, 1, 1), None]),
        "nested": pa.array([{"a": 1, "l": [utc, None], "MixedCase": ""}, None], inner),
        "map": pa.array([[("k", {"a": None, "l": [], "MixedCase": None})], None], pa.map_(pa.string(), inner)),
        "list": pa.array([[[1], None, []], None], pa.list_(pa.list_(pa.int32()))),
    }
    data = pa.table(columns)
    table = made(tmp_path, data, configuration=FEED | VECTORS)
    merged(table, pa.table({"id": [1, 2]})).when_matched_update({"byte": "5"}).execute()
    expected = data.set_column(1, "byte", pa.array([5, 5], pa.int8()))
    assert table.to_pyarrow_table().sort_by("id").to_pylist() == expected.to_pylist()
    # Whole values of the source are stored unchanged.
    data = data.set_column(0, "id", pa.array([2, 3]))
    merged(table, data).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(table)[1:] == data.to_pylist()
    verify(table.location)


def test_schema_evolution(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    more = pa.table({"id": [2, 3], "n": [0, 0], "New": ["b", "c"], "other": [1.5, 2.5]})
    merged(table, more).when_matched_update_all().when_not_matched_insert_all().execute()
    assert table.schema().to_arrow().names == ["id", "n"]
    merger = merged(table, more, merge_schema=True).when_matched_update({"New": "upper(s.new)"})
    merger.when_not_matched_insert_all(except_cols=["other"]).execute()
    assert rows(table)[0] == {"id": 1, "n": 10, "New": None}
    assert [row["New"] for row in rows(table)[1:]] == ["B", "C"]
    merged(table, more, merge_schema=True).when_matched_update_all().execute()
    assert [row["other"] for row in rows(table)] == [None, 1.5, 2.5]
    with pytest.raises(InvalidArgumentError, match="no column `nowhere`"):
        merged(table, more, merge_schema=True).when_matched_update({"nowhere": "1"}).execute()
    verify(table.location)


def test_structs_that_are_set_may_lack_fields_where_the_schema_evolves(tmp_path: Path) -> None:
    table = made(
        tmp_path, pa.Table.from_pylist([{"id": 1, "s": {"a": 1, "b": "x"}}, {"id": 2, "s": {"a": 2, "b": "y"}}])
    )
    source = pa.Table.from_pylist([{"id": 1, "s": {"a": 9, "c": 1.5}}])
    with pytest.raises(SchemaMismatchError, match="has no field `b`"):
        merged(table, source).when_matched_update({"s": "s.s"}).execute()
    merged(table, source, merge_schema=True).when_matched_update({"s": "s.s"}).execute()
    assert [row["s"] for row in rows(table)] == [{"a": 9, "b": None, "c": 1.5}, {"a": 2, "b": "y", "c": None}]
    verify(table.location)


def test_schema_evolution_inside_of_structs(tmp_path: Path) -> None:
    table = made(tmp_path, pa.Table.from_pylist([{"id": 1, "s": {"a": 1}}]))
    source = pa.Table.from_pylist([{"id": 1, "s": {"a": 2, "b": "x"}}, {"id": 2, "s": {"a": 3, "b": "y"}}])
    merged(table, source, merge_schema=True).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(table) == source.to_pylist()
    lacking = pa.Table.from_pylist([{"id": 1, "s": {"a": 9}}])
    with pytest.raises(SchemaMismatchError, match="no field `b`"):
        merged(table, lacking).when_matched_update_all().execute()
    more = pa.Table.from_pylist([{"id": 1, "s": {"a": 9, "b": "z", "c": 1}}])
    for clauses in (merged(table, more).when_matched_update_all(), merged(table, more).when_not_matched_insert_all()):
        with pytest.raises(SchemaMismatchError, match=r"`c`.*lost"):
            clauses.execute()
    merged(table, lacking).when_matched_update({"s.a": "s.s.a + t.s.a"}).execute()
    assert rows(table)[0]["s"] == {"a": 11, "b": "x"}


def test_types_widen_where_the_table_lets_them(tmp_path: Path) -> None:
    narrow = pa.table({"id": [1], "n": pa.array([1], pa.int32())})
    wide = pa.table({"id": [1, 2], "n": [1 << 40, 2]})
    table = made(tmp_path, narrow, configuration={"delta.enableTypeWidening": "true"})
    merged(table, wide, merge_schema=True).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(table) == wide.to_pylist()
    verify(table.location)
    plain = made(tmp_path / "plain", narrow)
    with pytest.raises(InvalidArgumentError, match="out of range"):
        merged(plain, wide, merge_schema=True).when_matched_update_all().execute()
    assert plain.version() == 0


def test_tables_fill_in_what_new_rows_lack(tmp_path: Path) -> None:
    # P102, P103, P105, P107, P108, P109
    identity = {"delta.identity.start": 100, "delta.identity.step": 5, "delta.identity.allowExplicitInsert": False}
    schema = Schema(
        [
            Field("id", "long", nullable=False),
            Field("twice", "long", metadata={"delta.generationExpression": "id * 2"}),
            Field("d", "string", metadata={"CURRENT_DEFAULT": "'dflt'"}),
            Field("number", "long", metadata=identity),
        ]
    )
    features = {"delta.feature.allowColumnDefaults": "supported", "delta.constraints.small": "id < 100"}
    table = DeltaTable.create(str(tmp_path / "t"), schema, configuration=features)
    source = pa.table({"id": [1, 2]})
    merged(table, source).when_not_matched_insert_all().execute()
    filled = [{"id": i, "twice": 2 * i, "d": "dflt", "number": n} for i, n in ((1, 100), (2, 105))]
    assert rows(table) == filled
    merger = merged(table, pa.table({"id": [2, 3]})).when_matched_update({"id": "s.id + 50", "d": "DEFAULT"})
    merger.when_not_matched_insert({"id": "s.id", "d": "null"}).execute()
    assert rows(table)[1:] == [
        {"id": 3, "twice": 6, "d": None, "number": 110},
        {"id": 52, "twice": 104, "d": "dflt", "number": 105},
    ]
    for source, error in (
        ({"id": [100]}, "small"),
        ({"id": [None]}, "id : null"),
        ({"id": [4], "twice": [9]}, "twice"),
    ):
        source_table = pa.table({name: pa.array(values, pa.int64()) for name, values in source.items()})
        with pytest.raises(ConstraintViolationError, match=error):
            merged(table, source_table).when_not_matched_insert_all().execute()
    with pytest.raises(SchemaMismatchError, match="IDENTITY"):
        merged(table, pa.table({"id": [4], "number": [1]})).when_not_matched_insert_all().execute()
    with pytest.raises(InvalidArgumentError, match="P108"):
        merged(table, pa.table({"id": [3], "number": [1]})).when_matched_update_all().execute()
    assert table.version() == 2
    verify(table.location)


def test_rows_keep_their_ids(tmp_path: Path) -> None:
    # P142, P143
    table = made(tmp_path, pa.table({"id": range(8), "n": range(8)}), configuration=IDS)
    before = dict(table.scan(["id", "_row_id"]).to_arrow().to_pandas().itertuples(index=False))
    source = pa.table({"id": [1, 5, 90], "n": [0, 0, 0]})
    merged(table, source).when_matched_update_all().when_not_matched_insert_all().execute()
    after = table.scan(["id", "_row_id", "_row_commit_version"]).to_arrow().to_pylist()
    ids = {row["id"]: row["_row_id"] for row in after}
    assert {i: ids[i] for i in before} == before
    assert len(set(ids.values())) == 9
    assert {row["id"] for row in after if row["_row_commit_version"] == 1} == {1, 5, 90}
    verify(table.location)


def test_a_table_merges_into_itself(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    merged(table, table, "t.id = s.id + 1").when_matched_update({"n": "t.n + s.n"}).execute()
    assert rows(table) == [{"id": 1, "n": 10}, {"id": 2, "n": 30}]


def test_streams_are_read_once(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    stream = (batch for batch in pa.table({"id": [2, 3], "n": [0, 0]}).to_batches(1))
    merged(table, stream).when_matched_update_all().when_not_matched_insert_all().execute()
    assert rows(table) == [{"id": 1, "n": 10}, {"id": 2, "n": 0}, {"id": 3, "n": 0}]


def test_an_application_merges_once(tmp_path: Path) -> None:
    # P076
    table = made(tmp_path, TWO)
    once = CommitProperties(app_transactions=[Transaction("app", 1)])
    for expected in (1, 0):
        merger = merged(table, pa.table({"id": [2]}), commit_properties=once).when_matched_update({"n": "t.n + 1"})
        assert merger.execute()["num_target_rows_updated"] == expected
    assert (rows(table)[1]["n"], table.version()) == (21, 1)


@pytest.mark.parametrize("properties", [{}, VECTORS], ids=["copy", "vectors"])
def test_another_writer_of_the_same_rows_wins(tmp_path: Path, properties: dict[str, str]) -> None:
    table = made(tmp_path, TWO, configuration=properties)
    merger = merged(table, pa.table({"id": [2, 3], "n": [0, 0]})).when_matched_update_all()
    DeltaTable(table.location).update({"n": "n + 1"}, predicate="id = 2")
    with pytest.raises(DeltaConcurrentModificationException):
        merger.when_not_matched_insert_all().execute()
    left = sorted(p.name for p in Path(table.location).glob("*.parquet"))
    assert len(left) == 2
    assert rows(DeltaTable(table.location)) == [{"id": 1, "n": 10}, {"id": 2, "n": 21}]


def test_another_writer_of_rows_without_a_match_wins(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    merger = merged(table, pa.table({"id": [2], "n": [0]})).when_not_matched_by_source_delete()
    write_deltalake(table.location, pa.table({"id": [70], "n": [7]}), mode="append")
    # A merge after the other writer's commit would delete that writer's row.
    with pytest.raises(ConcurrentAppendException):
        merger.execute()
    assert [row["id"] for row in rows(DeltaTable(table.location))] == [1, 2, 70]


def test_two_merges_never_insert_one_key_twice(tmp_path: Path) -> None:
    table = made(tmp_path, TWO)
    first = merged(DeltaTable(table.location), pa.table({"id": [3], "n": [0]})).when_not_matched_insert_all()
    second = merged(table, pa.table({"id": [3, 4], "n": [1, 1]})).when_not_matched_insert_all()
    first.execute()
    with pytest.raises(ConcurrentAppendException):
        second.execute()
    assert rows(DeltaTable(table.location))[2:] == [{"id": 3, "n": 0}]
    # Keys that no file of another writer can contain don't conflict.
    older = DeltaTable(table.location, version=0)
    merged(older, pa.table({"id": [70], "n": [1]})).when_not_matched_insert_all().execute()
    assert len(rows(DeltaTable(table.location))) == 4


def test_a_small_memory_limit_goes_to_disk(tmp_path: Path) -> None:
    count = 300_000
    wide = pa.table({"id": range(count), "s": [f"{i:064}" for i in range(count)]})
    table = made(tmp_path, wide, configuration=VECTORS)
    (tmp_path / "spill").mkdir()
    merger = merged(table, wide, memory_limit="40MB", temp_directory=str(tmp_path / "spill"))
    assert (
        merger.when_matched_update({"s": "reverse(s.s)"}, "t.id % 3 = 0").execute()["num_target_rows_updated"]
        == 100_000
    )
    assert table.scan(["s"], "id = 3").to_arrow()["s"].to_pylist() == [f"{3:064}"[::-1]]
    assert list((tmp_path / "spill").iterdir()) == []


@pytest.mark.parametrize(
    ("add", "error", "says"),
    [
        (lambda m: m, InvalidArgumentError, "at least one clause"),
        (lambda m: m.when_matched_delete().when_matched_update_all(), InvalidArgumentError, "never apply"),
        (lambda m: m.when_matched_update({"n": "id"}), InvalidArgumentError, "both tables"),
        (lambda m: m.when_matched_update({"n": "s.nowhere"}), InvalidArgumentError, "`s.nowhere`"),
        (lambda m: m.when_matched_update({"zz": "1"}), InvalidArgumentError, "`zz`"),
        (lambda m: m.when_matched_update({"n": "1", "t.N": "2"}), InvalidArgumentError, "assigned twice"),
        (lambda m: m.when_matched_update({}), InvalidArgumentError, "no column a value"),
        (lambda m: m.when_matched_update({"n": "'x'"}), InvalidArgumentError, "CAST_INVALID_INPUT"),
        (lambda m: m.when_matched_update({"n": "date'2024-01-01'"}), SchemaMismatchError, "cast it"),
        (lambda m: m.when_matched_delete("t.n"), InvalidArgumentError, "no condition"),
        (lambda m: m.when_matched_delete("rand() > 0"), UnsupportedExpressionError, "rand"),
        (lambda m: m.when_matched_delete("t.n >"), InvalidArgumentError, "t.n >"),
        (lambda m: m.when_not_matched_insert({"id": "t.id"}), InvalidArgumentError, "`t.id`"),
        (lambda m: m.when_not_matched_insert_all(except_cols=["what"]), InvalidArgumentError, "`what`"),
        (lambda m: m.when_not_matched_by_source_delete("s.id = 1"), InvalidArgumentError, "`s.id`"),
        (lambda m: m.when_matched_update({"n": "t.n div 0"}), InvalidArgumentError, "DIVIDE_BY_ZERO"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, add: Callable[[TableMerger], TableMerger], error: type[Exception], says: str
) -> None:
    table = made(tmp_path, TWO)
    with pytest.raises(error, match=says):
        add(merged(table, pa.table({"id": [2, 3], "n": [0, 0]}))).execute()
    assert table.version() == 0
    assert len(list(tmp_path.glob("t/*.parquet"))) == 1


def test_refusals_before_anything_is_read(tmp_path: Path) -> None:
    # P100
    table = made(tmp_path, TWO, configuration={"delta.appendOnly": "true"})
    with pytest.raises(InvalidArgumentError, match="append-only"):
        merged(table, TWO).when_matched_delete().execute()
    with pytest.raises(UnsupportedFeatureError, match="try_cast"):
        merged(table, TWO, error_on_type_mismatch=False)
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        merged(table, {"id": [1]})
    with pytest.raises(InvalidArgumentError, match="memory_limit"):
        merged(made(tmp_path / "x", TWO), TWO, memory_limit="lots").when_matched_delete().execute()
