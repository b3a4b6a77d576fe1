"""The same MERGE run by deltaplane and by delta-spark yields the same rows and changes; each reads
the other's table."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, SchemaMismatchError
from interop.delta_spark import DeltaSpark, DeltaSparkError
from interop.same import assert_same
from interop.verifier import verify

TABLES: dict[str, dict[str, str]] = {
    "copied": {"delta.enableChangeDataFeed": "true"},
    "all": {
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
        "delta.columnMapping.mode": "name",
    },
}
FEED = "SELECT k, n, d, p, s, _change_type FROM table_changes_by_path('{}', 1, 1)"


@dataclass(frozen=True)
class When:
    """A clause: None for the values of `*`, `delete` for deleting the rows."""

    kind: str
    values: Mapping[str, str] | str | None
    condition: str | None = None

    @property
    def sql(self) -> str:
        kinds = {"matched": "MATCHED", "insert": "NOT MATCHED", "left": "NOT MATCHED BY SOURCE"}
        condition = "" if self.condition is None else f" AND {self.condition}"
        return f"WHEN {kinds[self.kind]}{condition} THEN {self._action}"

    @property
    def _action(self) -> str:
        if self.values == "delete":
            return "DELETE"
        if self.values is None:
            return "INSERT *" if self.kind == "insert" else "UPDATE SET *"
        assert not isinstance(self.values, str)
        if self.kind == "insert":
            return f"INSERT ({', '.join(self.values)}) VALUES ({', '.join(self.values.values())})"
        return "UPDATE SET " + ", ".join(f"{column} = {value}" for column, value in self.values.items())

    def add(self, merger: object) -> None:
        kinds = {"matched": "when_matched", "insert": "when_not_matched", "left": "when_not_matched_by_source"}
        action = "insert" if self.kind == "insert" else "delete" if self.values == "delete" else "update"
        name = f"{kinds[self.kind]}_{action}{'_all' if self.values is None else ''}"
        values = [self.values] if isinstance(self.values, Mapping) else []
        getattr(merger, name)(*values, predicate=self.condition)


UPSERT = [When("matched", None), When("insert", None)]
CASES: dict[str, tuple[str, list[When]]] = {
    "upsert": ("t.k = s.k", UPSERT),
    "null keys": ("t.k <=> s.k", UPSERT),
    "two keys and a condition": ("t.k = s.k AND t.p = s.p AND t.n < 7", UPSERT),
    "a key of another type": ("t.k = s.text", [When("matched", {"n": "s.n"})]),
    "doubles": ("t.d = s.d", [When("matched", {"n": "-1"}), When("insert", {"k": "s.k", "d": "s.d"})]),
    "clauses in order": (
        "t.k = s.k",
        [
            When("matched", {"n": "t.n * 10", "p": "s.p"}, "s.n > 4"),
            When("matched", "delete", "t.p = 'a'"),
            When("matched", {"s.x": "s.n", "p": "upper(t.p)"}),
            When("insert", {"k": "s.k", "n": "s.n + 100"}, "s.n IS NOT NULL"),
            When("insert", None),
            When("left", {"n": "n + 1000"}, "t.k % 3 = 0"),
            When("left", "delete", "t.k > 30"),
        ],
    ),
    "inserts alone": ("t.k = s.k", [When("insert", None, "s.k > 5")]),
    "deletes alone": ("t.k = s.k", [When("matched", "delete")]),
    "what the source lacks": ("t.k = s.k", [When("left", "delete")]),
    "no key at all": ("t.n > s.n + 6", [When("matched", "delete")]),
    "values are stored as Spark stores them": (
        "t.k = s.k",
        [When("matched", {"p": "s.n", "n": "s.d", "d": "s.n"}, "s.d = 1.5")],
    ),
}


def target() -> pa.Table:
    number = [None, *range(1, 40)]
    return pa.table(
        {
            "k": pa.array(number, pa.int64()),
            "n": pa.array([i % 9 for i in range(40)], pa.int32()),
            "d": pa.array([float("nan") if i == 3 else i / 2 for i in range(40)]),
            "p": pa.array([None if i % 7 == 0 else "abc"[i % 3] for i in range(40)]),
            "s": pa.array([None if i % 5 == 0 else {"x": i, "y": "q"} for i in range(40)]),
        },
        schema=pa.schema(
            [
                ("k", pa.int64()),
                ("n", pa.int32()),
                ("d", pa.float64()),
                ("p", pa.string()),
                ("s", pa.struct([("x", pa.int32()), ("y", pa.string())])),
            ]
        ),
    )


def source() -> pa.Table:
    taken = target().slice(0, 12)
    numbers = [None, 2, 4, 6, 8, 10, 12, 14, 50, 51, 52, 53]
    more = {
        "k": pa.array(numbers, pa.int64()),
        "n": pa.array([None if i == 8 else i for i in range(12)], pa.int32()),
        "d": pa.array([float("nan") if i == 1 else 1.5 if i == 4 else -1.0 - i for i in range(12)]),
    }
    for name, column in more.items():
        taken = taken.set_column(taken.schema.get_field_index(name), name, column)
    return taken.append_column("text", pa.array(["1", *(str(i) for i in range(20, 31))]))


@pytest.mark.parametrize("name", CASES)
def test_merges_leave_what_delta_sparks_do(delta_spark: DeltaSpark, tmp_table: Callable[[], str], name: str) -> None:
    # P122, P130, P131, P142
    on, clauses = CASES[name]
    source_path, theirs = tmp_table(), tmp_table()
    write_deltalake(source_path, source())
    # The resulting rows don't depend on a table's properties; delta-spark's table has different
    # ones in each case.
    properties = list(TABLES.values())[list(CASES).index(name) % len(TABLES)]
    write_deltalake(theirs, target(), partition_by=["p"], configuration=properties)
    whens = "\n".join(clause.sql for clause in clauses)
    delta_spark.execute(f"MERGE INTO delta.`{theirs}` t USING delta.`{source_path}` s ON {on}\n{whens}")
    expected, changes = delta_spark.read(theirs), delta_spark.sql(FEED.format(theirs))
    said = dict(delta_spark.sql(f"DESCRIBE HISTORY delta.`{theirs}` LIMIT 1").to_pylist()[0]["operationMetrics"])
    for properties in TABLES.values():
        ours = tmp_table()
        write_deltalake(ours, target(), partition_by=["p"], configuration=properties)
        table = DeltaTable(ours)
        merger = table.merge(DeltaTable(source_path), on, source_alias="s", target_alias="t")
        for clause in clauses:
            clause.add(merger)
        metrics = merger.execute()
        assert_same(table.to_pyarrow_table(), expected)
        assert_same(delta_spark.read(ours), expected)
        verify(ours)
        assert_same(delta_spark.sql(FEED.format(ours)), changes)
        columns = ["k", "n", "d", "p", "s", "_change_type"]
        assert_same(pa.table(table.load_cdf(1, columns=columns)), changes)
        counts = [f"numTargetRows{what}" for what in ("Inserted", "Updated", "Deleted")]
        own = table.history(1)[0]["operationMetrics"]
        assert [own[c] for c in counts] == [said[c] for c in counts]
        assert metrics["num_source_rows"] == 12


def test_schema_evolution_is_delta_sparks(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    source_path, ours, theirs = tmp_table(), tmp_table(), tmp_table()
    write_deltalake(source_path, source())
    write_deltalake(ours, target())
    shutil.copytree(ours, theirs)
    table = DeltaTable(ours)
    merger = table.merge(DeltaTable(source_path), "t.k = s.k", source_alias="s", target_alias="t", merge_schema=True)
    merger.when_matched_update_all().when_not_matched_insert_all().execute()
    delta_spark.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO delta.`{theirs}` t USING delta.`{source_path}` s ON t.k = s.k "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    expected = delta_spark.read(theirs)
    assert expected.schema.names[-1] == "text"
    assert_same(table.to_pyarrow_table(), expected)
    assert_same(delta_spark.read(ours), expected)


@pytest.mark.parametrize(
    "when",
    [
        When("matched", {"n": "s.nowhere"}),
        When("matched", {"s": "s.p"}),
        When("matched", {"n": "s.p + 0"}, "s.p = 'a'"),
        When("insert", {"k": "t.k"}),
        When("left", {"n": "s.n"}),
    ],
    ids=lambda when: when.sql,
)
def test_what_they_refuse_we_refuse(delta_spark: DeltaSpark, tmp_table: Callable[[], str], when: When) -> None:
    source_path, ours = tmp_table(), tmp_table()
    write_deltalake(source_path, source())
    write_deltalake(ours, target())
    with pytest.raises(DeltaSparkError):
        delta_spark.sql(f"MERGE INTO delta.`{ours}` t USING delta.`{source_path}` s ON t.k = s.k {when.sql}")
    table = DeltaTable(ours)
    merger = table.merge(DeltaTable(source_path), "t.k = s.k", source_alias="s", target_alias="t")
    when.add(merger)
    with pytest.raises((InvalidArgumentError, SchemaMismatchError)):
        merger.execute()
    assert table.version() == 0
