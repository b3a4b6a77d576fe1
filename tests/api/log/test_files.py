"""The list of files: paths, pruning, actions and partitions."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError

DAYS = [dt.date(2024, 1, 1), dt.date(2024, 1, 2), None]


@pytest.fixture
def table(tmp_table: Callable[[], str]) -> DeltaTable:
    path = tmp_table()
    for n, day in enumerate(DAYS):
        data = pa.table({"day": pa.array([day] * 2, pa.date32()), "x": [10 * n, 10 * n + 1], "s": [f"a b{n}", None]})
        write_deltalake(path, data, mode="append", partition_by=["day"])
    return DeltaTable(path)


def test_paths_are_relative_and_uris_absolute(table: DeltaTable) -> None:
    assert len(table.files()) == 3
    for relative, absolute in zip(sorted(table.files()), sorted(table.file_uris()), strict=True):
        assert not relative.startswith("/")
        assert Path(absolute).is_file()
        assert absolute.endswith(relative)


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (None, 3),
        ("day = DATE '2024-01-01'", 1),
        ([("day", "=", "2024-01-01")], 1),
        ([("day", "=", dt.date(2024, 1, 1))], 1),
        ([("day", "in", ["2024-01-01", "2024-01-02"])], 2),
        ([[("day", "=", "2024-01-01")], [("x", ">=", 20)]], 2),
        ("day IS NULL", 1),
        ("x > 9 AND x < 20", 1),
        ("x = 5", 0),
        ("s LIKE 'a b1%'", 1),
    ],
)
def test_predicates_prune_files(table: DeltaTable, predicate: Any, expected: int) -> None:
    assert len(table.files(predicate)) == expected
    assert len(table.file_uris(predicate)) == expected
    assert len(table.file_uris(file_pruning_predicate=predicate)) == expected


@pytest.mark.parametrize("predicate", ["`p.q` = 'b'", "`a.b` = 1", "`s`.`x.y` > 10"])
def test_names_with_dots_are_looked_up_in_checkpoints_too(tmp_table: Callable[[], str], predicate: str) -> None:
    path = tmp_table()
    for n, part in enumerate("abc"):
        data = pa.table({"p.q": [part], "a.b": [n], "a": [{"b": -1}], "s": [{"x.y": 10 * n}], "p": [{"q": "z"}]})
        write_deltalake(path, data, mode="append", partition_by=["p.q"])
    files = DeltaTable(path).files(predicate)
    DeltaTable(path).create_checkpoint()
    table = DeltaTable(path)
    assert len(files) == 1
    assert table.files(predicate) == table.plan(predicate).read_all()["path"].to_pylist() == files


def test_explained_stages_add_up(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    for n in range(3):
        write_deltalake(path, pa.table({"x": [n], "p": [n % 2]}), mode="append", partition_by=["p"])
    # Rows of the checkpoint that aren't files don't count as files.
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, pa.table({"x": [3], "p": [1]}), mode="append")
    why = DeltaTable(path).explain("x > 0 AND p = 1")
    assert (why.in_commits, why.in_checkpoint, why.considered) == (1, 3, 4)
    assert why.considered - why.skipped - why.replaced == why.selected == 2


def test_an_unknown_column_is_named(table: DeltaTable) -> None:
    for read in (table.files, lambda p: table.scan(predicate=p), lambda p: table.scan(columns=["nosuch"])):
        with pytest.raises(InvalidArgumentError, match="nosuch"):
            read("nosuch = 1")


def test_two_names_of_one_argument_are_refused(table: DeltaTable) -> None:
    with pytest.raises(InvalidArgumentError):
        table.file_uris("x = 1", file_pruning_predicate="x = 1")


def test_actions_describe_the_files(table: DeltaTable) -> None:
    nested, flat = table.get_add_actions(), table.get_add_actions(flatten=True)
    facts = ["path", "size_bytes", "modification_time", "num_records"]
    assert nested.column_names == [*facts, "null_count", "min", "max", "partition"]
    assert flat.column_names == [
        *facts,
        *(f"{section}.{column}" for section in ("null_count", "min", "max") for column in ("x", "s")),
        "partition.day",
    ]
    rows = table.to_pyarrow_table().to_pylist()
    for file in flat.to_pylist():
        here = [row["x"] for row in rows if row["day"] == file["partition.day"]]
        assert (file["min.x"], file["max.x"], file["null_count.x"]) == (min(here), max(here), 0)
    assert sorted(flat["num_records"].to_pylist()) == [2, 2, 2]
    assert {str(day) for day in flat["partition.day"].to_pylist()} == {str(day) for day in DAYS}


def test_partitions_are_texts(table: DeltaTable) -> None:
    assert table.partitions() == [{"day": "2024-01-01"}, {"day": "2024-01-02"}, {"day": None}]
    assert table.partitions([("x", "<", 15)]) == [{"day": "2024-01-01"}, {"day": "2024-01-02"}]
    write_deltalake("memory://files/plain", pa.table({"x": [1]}), mode="overwrite")
    assert DeltaTable("memory://files/plain").partitions() == []


@pytest.mark.parametrize("checkpointed", [False, True])
def test_statistics_are_those_that_deltalake_shows(checkpointed: bool, tmp_path: Path) -> None:
    # P160: nested leaves, decimals beyond a double, times, bounds of files that have none
    import deltalake

    moment = dt.datetime(2024, 2, 29, 12, 30, 15, 123000, tzinfo=dt.timezone.utc)
    rows = pa.table(
        {
            "day": ["a", "a", "b"],
            "x": pa.array([1, None, None], pa.int32()),
            "s": pa.array(
                [{"d": Decimal("12345678901234567890.12"), "l": [1]}, {"d": Decimal("-0.01"), "l": None}, None]
            ),
            "t": pa.array([moment, moment, None], pa.timestamp("us", "UTC")),
            "f": [0.1, -1.5, None],
            "text": ["é", "a", None],
        }
    )
    write_deltalake(str(tmp_path), rows, partition_by=["day"])
    if checkpointed:
        DeltaTable(str(tmp_path)).create_checkpoint()
    theirs = pa.table(deltalake.DeltaTable(str(tmp_path)).get_add_actions(flatten=True)).sort_by("path")
    ours = DeltaTable(str(tmp_path)).get_add_actions(flatten=True).sort_by("path")
    leaves = ["x", "s.d", "t", "f", "text"]
    shown = [f"{section}.{leaf}" for section in ("null_count", "min", "max") for leaf in leaves]
    assert ours.select(shown).to_pylist() == theirs.select(shown).to_pylist()
    assert [str(ours[name].type) for name in shown] == [str(theirs[name].type) for name in shown]
    assert ours["min.s.d"].to_pylist() == [Decimal("-0.01"), None]
    assert "min.day" not in ours.column_names


@pytest.mark.parametrize(
    "configuration",
    [
        {},
        {"delta.columnMapping.mode": "name", "delta.checkpointPolicy": "v2"},
        {"delta.enableDeletionVectors": "true", "delta.checkpoint.writeStatsAsStruct": "false"},
        {"delta.dataSkippingStatsColumns": "x"},
    ],
    ids=["plain", "mapped", "vectors", "few"],
)
def test_a_checkpoint_changes_no_action(configuration: dict[str, str], tmp_path: Path) -> None:
    # P051-P053, P160: a checkpoint's structs equal the JSON statistics of commits
    checkpointed, without = str(tmp_path / "with"), str(tmp_path / "without")
    rows = pa.table(
        {
            "p": pa.array([dt.datetime(2024, 1, 1, 12, tzinfo=dt.timezone.utc), None] * 3),
            "q": ["a b", "", None, "c%d", "e=f", "g/h"],
            "x": [1, 2, 3, None, 5, 6],
            "f": [1.5, float("nan"), -0.0, None, 2.0, float("nan")],
            "s": [{"d": Decimal("0.01"), "t": "x" * 40}, None] * 3,
        }
    )
    few = "delta.dataSkippingStatsColumns"
    write_deltalake(
        checkpointed, rows, partition_by=["p", "q"], configuration={k: v for k, v in configuration.items() if k != few}
    )
    DeltaTable(checkpointed).delete("x = 5")
    if few in configuration:
        DeltaTable(checkpointed).alter.set_table_properties({few: configuration[few]})
    shutil.copytree(checkpointed, without)
    DeltaTable(checkpointed).create_checkpoint()
    if few in configuration:
        for path in (checkpointed, without):
            # The checkpoint's structs have fewer columns than the files' statistics.
            DeltaTable(path).alter.set_table_properties({few: "x,f"})
    for path in (checkpointed, without):
        write_deltalake(
            path, rows.slice(0, 0).append_column("n", pa.nulls(0, pa.int32())), mode="append", schema_mode="merge"
        )

    def actions(path: str) -> list[dict[str, Any]]:
        return DeltaTable(path).get_add_actions().sort_by("path").to_pylist()

    assert list(Path(checkpointed, "_delta_log").glob("*.checkpoint*"))
    assert actions(checkpointed) == actions(without)
    assert len(actions(checkpointed)) >= 5
    # NaN is no bound, from either source.
    assert all(a["max"].get("f") == a["max"].get("f") for a in actions(checkpointed))


PARTITIONS = {
    "binary": pa.array([b"\xff", b"a", b"\\u0041", b"\x01"], pa.binary()),
    "double": pa.array([1.5, float("nan"), float("inf"), -0.25]),
    "float": pa.array([1.5, float("nan"), float("-inf"), 1e30], pa.float32()),
    "timestamp": pa.array([0, 1, 10**15, -5], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([0, 1, 10**15, -5], pa.timestamp("us")),
    "date": pa.array([0, -719162, 2932896, 5], pa.date32()),
    "decimal": pa.array([120, -1, 0, 9999], pa.int64()).cast(pa.decimal128(38, 0)),
    "boolean": pa.array([True, False, True, False]),
    "string": pa.array(["a", "ü '\"", "\\u0041", "x=y%/"]),
}


@pytest.mark.parametrize("kind", PARTITIONS)
def test_what_partitions_says_finds_their_rows(kind: str, tmp_path: Path) -> None:
    # P170
    rows, path = pa.table({"p": PARTITIONS[kind], "v": range(4)}), str(tmp_path / "t")
    write_deltalake(path, rows, partition_by="p")
    table = DeltaTable(path)
    values = []
    for partition in table.partitions():
        one_partition = table.to_pyarrow_table(partitions=[("p", "=", partition["p"])])
        assert one_partition.num_rows == 4 // len(table.partitions())
        values += one_partition["v"].to_pylist()
    assert sorted(values) == [0, 1, 2, 3]
    write_deltalake(table, rows, mode="overwrite", partition_overwrite_mode="dynamic")
    assert table.count() == 4, "each partition that is written to was found again"
