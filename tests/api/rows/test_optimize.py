"""OPTIMIZE against a model in plain Python: rows, ids and the change feed stay the same; good files
stay in place; concurrent appends succeed, and commands that change the same files get a conflict.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rows.row_model import CONDITIONS, SCHEMA, TABLES, UPDATES, VECTORS, Model, values
from deltaplane import CommitProperties, DeltaTable, Transaction, WriterProperties, sql, write_deltalake
from deltaplane.exceptions import (
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    UnsupportedExpressionError,
    UnsupportedFeatureError,
)
from interop.verifier import verify

CURVES = ("zorder", "hilbert", "kdtree")


class Arranged(Model):
    """A table whose rows OPTIMIZE also moves."""

    def __init__(self, path: str, properties: dict[str, str], layout: str) -> None:
        super().__init__(path, properties, layout == "partitioned")
        if layout == "clustered":
            self.table.alter.cluster_by(["a", "s"])
        self.clustered = layout == "clustered"

    def compact(self, target_size: int | None) -> None:
        before = self.table.version()
        done = self.table.optimize.compact(target_size=target_size, max_concurrent_tasks=2)
        assert self.table.version() == before + len(done["versions"])

    def order(self, how: tuple[str, list[str]]) -> None:
        if self.clustered:
            done = self.table.optimize.compact(full=True)
            assert done["totalFilesSkipped"] == 0
            return
        curve, columns = how
        self.table.optimize.z_order(columns, curve=curve, target_size=1_000)  # type: ignore[arg-type]


appends = st.tuples(st.just("append"), st.lists(values, min_size=1, max_size=8))
deletes = st.tuples(st.just("delete"), st.sampled_from(CONDITIONS))
updates = st.tuples(st.just("update"), st.tuples(st.sampled_from(UPDATES), st.sampled_from(CONDITIONS)))
compactions = st.tuples(st.just("compact"), st.sampled_from([None, 1, 3_000]))
columns = st.sampled_from([["a"], ["f", "s"], ["k", "a", "s", "f"]])
orders = st.tuples(st.just("order"), st.tuples(st.sampled_from(CURVES), columns))


@pytest.mark.parametrize("layout", ["plain", "partitioned", "clustered"])
@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
@settings(max_examples=3, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(appends | deletes | updates | compactions | orders, min_size=3, max_size=6))
def test_rows_ids_and_changes_stay(
    tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str], layout: str, steps: list[Any]
) -> None:
    # P028, P130, P142, P152
    model = Arranged(str(tmp_path_factory.mktemp("optimize") / "t"), properties, layout)
    for first in (0, 3):
        model.append([{"a": i % 4, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(first, first + 3)])
    for name, argument in [*steps, ("order", ("hilbert", ["a", "f"])), ("compact", None)]:
        getattr(model, name)(argument)
        model.check()
    model.check_changes()
    verify(model.table.location)


def pieces(path: str, files: int = 6, rows: int = 4, **more: Any) -> DeltaTable:
    """A table of small files with consecutive numbers."""
    for n in range(files):
        data = pa.table({"x": range(n * rows, (n + 1) * rows), "p": [n % 2] * rows})
        write_deltalake(path, data, mode="append", **more)
    return DeltaTable(path)


def sorted_rows(path: str) -> list[tuple[int, int]]:
    rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted((row["x"], row["p"]) for row in rows)


def files_on_disk(path: str) -> set[str]:
    return {name for _, _, names in os.walk(path) for name in names if name.endswith(".parquet")}


def test_small_files_become_one_and_then_stay(tmp_path: Path) -> None:
    table = pieces(str(tmp_path / "t"))
    done = table.optimize.compact()
    assert (done["numFilesRemoved"], done["numFilesAdded"], done["versions"]) == (6, 1, [6])
    assert json.loads(done["filesRemoved"])["totalFiles"] == 6
    assert table.to_pyarrow_table()["x"].to_pylist() == list(range(24)), "rows stay in the order of their files"
    again = table.optimize.compact()
    assert (again["versions"], again["totalFilesSkipped"], table.version()) == ([], 1, 6)


def test_the_history_says_what_delta_spark_says(tmp_path: Path) -> None:
    table = pieces(str(tmp_path / "t"), partition_by=["p"])
    table.optimize.compact("p = 1")
    entry = table.history(1)[0]
    assert entry["operation"] == "OPTIMIZE"
    assert entry["operationParameters"] == {
        "predicate": '["p = 1"]',
        "zOrderBy": "[]",
        "clusterBy": "[]",
        "auto": False,
    }
    assert entry["operationMetrics"]["numRemovedFiles"] == "3"
    assert {"minFileSize", "p25FileSize", "p50FileSize", "p75FileSize", "maxFileSize"} <= entry[
        "operationMetrics"
    ].keys()
    assert entry["isolationLevel"] == "SnapshotIsolation"
    assert sorted(f.count("p=0") for f in table.files()) == [0, 1, 1, 1]
    table.optimize.z_order(["X"])
    assert table.history(1)[0]["operationParameters"]["zOrderBy"] == '["x"]'


def test_the_tables_own_size_counts_unless_another_is_given(tmp_path: Path) -> None:
    size = pieces(str(tmp_path / "sizes"), 1).get_add_actions()["size_bytes"][0].as_py()
    own = {"delta.targetFileSize": str(2 * size + size // 2)}
    table = pieces(str(tmp_path / "t"), configuration=own)
    assert table.optimize.compact(dry_run=True)["numBatches"] == 3
    assert table.optimize.compact(target_size=100 * size, dry_run=True)["numBatches"] == 1
    assert table.optimize.compact(target_size=1, dry_run=True)["numBatches"] == 0
    assert table.version() == 5, "a dry run changes nothing"


def test_many_deleted_rows_are_purged_and_few_are_not(tmp_path: Path) -> None:
    # P122
    write_deltalake(str(tmp_path), pa.table({"x": range(1000)}), configuration=VECTORS)
    table = DeltaTable(str(tmp_path))
    table.delete("x < 50")
    assert table.optimize.compact()["versions"] == []
    table.delete("x = 50")
    assert table.optimize.compact(max_deleted_rows_ratio=0.5)["versions"] == []
    table.optimize.compact()
    assert table.history(1)[0]["operationMetrics"]["numDeletionVectorsRemoved"] == "1"
    assert table.deletion_vectors().read_all().num_rows == 0
    assert table.count() == 949


def test_a_commit_for_each_group_and_a_word_after_each(tmp_path: Path) -> None:
    table = pieces(str(tmp_path / "t"), partition_by=["p"])
    seen: list[tuple[int, int, bool]] = []
    done = table.optimize.compact(
        min_commit_interval=timedelta(0),
        max_concurrent_tasks=1,
        progress=lambda p: seen.append((p.groups_done, p.groups, p.bytes_done <= p.bytes)),
        commit_properties=CommitProperties(custom_metadata={"why": "small"}),
        writer_properties=WriterProperties(compression="SNAPPY"),
    )
    assert seen == [(1, 2, True), (2, 2, True)]
    assert done["versions"] == [6, 7]
    assert [entry["why"] for entry in table.history(2)] == ["small"] * 2
    assert all(name.endswith(".snappy.parquet") for name in table.files())
    once = CommitProperties(app_transactions=[Transaction("app", 1)])
    with pytest.raises(InvalidArgumentError, match="min_commit_interval"):
        table.optimize.compact(min_commit_interval=0, commit_properties=once)


def test_who_gives_up_leaves_what_was_committed_and_no_other_file(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = pieces(path, partition_by=["p"])
    before = files_on_disk(path)

    def stop_at(groups: int) -> Callable[[Any], None]:
        def stop(progress: Any) -> None:
            if progress.groups_done == groups:
                raise KeyboardInterrupt

        return stop

    for groups in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            table.optimize.compact(progress=stop_at(groups))
        assert (table.version(), files_on_disk(path)) == (5, before)
    with pytest.raises(KeyboardInterrupt) as stopped:
        table.optimize.compact(progress=stop_at(1))
    assert not getattr(stopped.value, "__notes__", [])
    with pytest.raises(KeyboardInterrupt) as stopped:
        table.optimize.compact(progress=stop_at(2), min_commit_interval=0, max_concurrent_tasks=1)
    assert stopped.value.__notes__ == [
        "OPTIMIZE had committed version 6, which stays: run it again for the rest of the files"
    ]
    assert (table.version(), len(table.files()), len(files_on_disk(path))) == (6, 4, len(before) + 1)
    verify(path)


@pytest.mark.parametrize(
    "call", [lambda t: t.optimize.compact(), lambda t: t.optimize.z_order(["x"])], ids=["compact", "z-order"]
)
def test_appends_and_marks_of_others_stay_and_moves_of_others_win(
    tmp_path: Path, call: Callable[[DeltaTable], Any]
) -> None:
    # P163
    path = str(tmp_path / "t")
    table = pieces(path, configuration=VECTORS)
    write_deltalake(path, pa.table({"x": [100], "p": [0]}), mode="append")
    call(table)
    assert sorted(table.to_pyarrow_table()["x"].to_pylist()) == [*range(24), 100]
    for change in (lambda t: t.delete("x = 3"), lambda t: t.update({"p": "7"}, predicate="x = 4")):
        write_deltalake(path, pa.table({"x": [200], "p": [0]}), mode="append")
        stale = DeltaTable(path)
        change(DeltaTable(path))
        rows = sorted_rows(path)
        call(stale)
        assert sorted_rows(path) == rows
    write_deltalake(path, pa.table({"x": [400], "p": [0]}), mode="append")
    stale = DeltaTable(path)
    DeltaTable(path).optimize.z_order(["p"], full=True)
    on_disk = files_on_disk(path)
    with pytest.raises(DeltaConcurrentModificationException):
        call(stale)
    assert files_on_disk(path) == on_disk, "what lost is taken back"
    assert stale.version() == DeltaTable(path).version(), "the object shows what won"
    late = DeltaTable(path)
    write_deltalake(path, pa.table({"x": [300], "p": [0]}), mode="append")
    call(DeltaTable(path))
    with pytest.raises(DeltaConcurrentModificationException):
        late.delete("x >= 200 AND x < 300 AND p % 2 = 0")
    verify(path)


def test_what_others_took_is_left_and_the_rest_done(tmp_path: Path) -> None:
    # P163: one of two partitions is changed while files are written
    path = str(tmp_path / "t")
    table = pieces(path, partition_by=["p"])

    def change(progress: Any) -> None:
        if progress.groups_done == 2:
            DeltaTable(path).delete("x = 0")

    before = files_on_disk(path)
    done = table.optimize.compact(progress=change)
    assert (done["numFilesRemoved"], done["numFilesAdded"], done["versions"]) == (3, 1, [7])
    assert table.history(1)[0]["operationMetrics"]["numRemovedFiles"] == "3"
    assert sorted(table.to_pyarrow_table()["x"].to_pylist()) == list(range(1, 24))
    assert len(files_on_disk(path) - before) == 2, "one that is new, one that DELETE wrote"
    verify(path)


def test_files_without_statistics_get_some(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    table = pieces(path, 1, 400)
    size = table.get_add_actions()["size_bytes"][0].as_py()
    commit = Path(path, "_delta_log", f"{0:020}.json")
    lines = [json.loads(line) for line in commit.read_text().splitlines()]
    for line in lines:
        line.get("add", {}).pop("stats", None)
    commit.write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path(path, "_delta_log", f"{0:020}.crc").unlink()
    table = DeltaTable(path)
    assert table.get_add_actions()["num_records"].to_pylist() == [None]
    assert table.optimize.compact(target_size=size)["numFilesRemoved"] == 1
    assert table.get_add_actions()["num_records"].to_pylist() == [400]
    assert table.optimize.compact(target_size=size)["versions"] == []


def tags(table: DeltaTable) -> list[dict[str, str]]:
    """The tags of the live files."""
    adds: dict[str, Any] = {}
    log = Path(table.location, "_delta_log")
    for commit in sorted(log.glob("*.json")):
        for line in commit.read_text().splitlines():
            action = json.loads(line)
            if "add" in action:
                adds[action["add"]["path"]] = action["add"]
    return [adds[path].get("tags") or {} for path in table.files()]


def test_only_new_files_are_ordered_again(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(
        path,
        pa.table({"x": range(5000), "y": [n % 70 for n in range(5000)], "z": [None] * 5000}).cast(
            pa.schema([("x", pa.int64()), ("y", pa.int64()), ("z", pa.string())])
        ),
    )
    table = DeltaTable(path)
    first = table.optimize.z_order(["x", "y"], target_size=5_000)
    assert first["numFilesAdded"] > 1
    assert {json.loads(t["ZCUBE_ZORDER_BY"])[0] for t in tags(table)} == {"x"}
    assert {t["ZCUBE_ZORDER_CURVE"] for t in tags(table)} == {"zorder"}
    assert len({t["ZCUBE_ID"] for t in tags(table)}) == 1
    assert table.optimize.z_order(["x", "y"], target_size=5_000)["versions"] == []
    write_deltalake(path, pa.table({"x": [7], "y": [7]}), mode="append")
    table.update_incremental()
    more = table.optimize.z_order(["x", "y"], target_size=5_000)
    assert (more["numFilesRemoved"], more["totalFilesSkipped"]) == (1, first["numFilesAdded"])
    assert len({t["ZCUBE_ID"] for t in tags(table)}) == 2
    assert table.optimize.z_order(["x", "y"], full=True)["totalFilesSkipped"] == 0
    assert table.optimize.z_order(["y"], dry_run=True)["numFilesToRewrite"] == 1, "another order is none"
    assert table.optimize.z_order(["x", "y"], curve="hilbert", dry_run=True)["numFilesToRewrite"] == 1


@pytest.mark.parametrize(("curve", "least", "average"), [("zorder", 44, 55), ("hilbert", 58, 61), ("kdtree", 50, 66)])
def test_files_are_skipped_as_the_paper_says(tmp_path: Path, curve: Any, least: float, average: float) -> None:
    # Delta Lake (VLDB 2020), section 6.2, with a tenth of its rows
    chance = np.random.default_rng(11)
    names = ["sourceIP", "sourcePort", "destIP", "destPort"]
    data = pa.table({name: chance.integers(0, 1 << (32 if "IP" in name else 16), 100_000) for name in names})
    write_deltalake(str(tmp_path), data)
    table = DeltaTable(str(tmp_path))
    size = table.get_add_actions()["size_bytes"][0].as_py()
    table.optimize.z_order(names, curve=curve, target_size=-(-size // 100))
    files = len(table.files())
    assert files == 100
    skipped = []
    for name in names:
        looked_for = chance.choice(data[name].to_numpy(), 60)
        skipped.append(np.mean([100 - len(table.files([(name, "=", int(v))])) for v in looked_for]))
    # Probability of the looked-up values, with a tolerance of half a percent.
    assert min(skipped) > least - 1.5, skipped
    assert np.mean(skipped) > average - 1, skipped


def test_clustering_goes_on_where_it_left(tmp_path: Path) -> None:
    # P152
    path = str(tmp_path / "t")
    table = DeltaTable.create(
        path, pa.schema([("x", pa.int64()), ("s", SCHEMA.field("s").type)]), cluster_by=["x", "s"]
    )
    for first in (0, 3000):
        rows = pa.table({"x": range(first, first + 3000), "s": [f"{n * 7 % 50}" for n in range(3000)]})
        write_deltalake(path, rows, mode="append")
    table.update_incremental()
    done = table.optimize.compact(target_size=5_000)
    assert done["numFilesRemoved"] == 2
    assert {t["ZCUBE_ZORDER_CURVE"] for t in tags(table)} == {"hilbert"}
    assert {t["ZCUBE_ZORDER_BY"] for t in tags(table)} == {'["x","s"]'}
    assert table.history(1)[0]["operationParameters"]["clusterBy"] == '["x","s"]'
    assert table.optimize.compact(target_size=5_000)["versions"] == []
    table.alter.cluster_by(["s"])
    assert table.optimize.compact()["versions"] == [], "other columns rewrite nothing"
    write_deltalake(path, pa.table({"x": [1], "s": ["1"]}), mode="append")
    table.update_incremental()
    assert table.optimize.compact()["numFilesRemoved"] == 1
    assert table.optimize.compact(full=True)["totalFilesSkipped"] == 0
    with pytest.raises(InvalidArgumentError, match="clustered by s"):
        table.optimize.z_order(["x"])
    verify(path)


AUTO = {"delta.autoOptimize.autoCompact": "auto"}


def test_small_files_go_together_after_a_commit(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for n in range(49):
        write_deltalake(path, pa.table({"x": [n], "p": [0]}), mode="append", partition_by=["p"], configuration=AUTO)
    for n in range(30):
        write_deltalake(path, pa.table({"x": [n], "p": [1]}), mode="append")
    table = DeltaTable(path)
    assert (table.version(), len(table.files())) == (78, 79)
    assert write_deltalake(table, pa.table({"x": [49], "p": [0]}), mode="append").version == 79
    assert (table.version(), len(table.files())) == (80, 31), "the partition that was written to alone"
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationParameters"]["auto"]) == ("OPTIMIZE", True)
    for n in range(30):
        write_deltalake(path, pa.table({"x": [n], "p": [1]}), mode="append")
    assert len(DeltaTable(path).files()) == 1 + 1 + 10, "fifty became one, the last ten wait"
    assert DeltaTable(path).count() == 50 + 60
    verify(path)


def test_a_commit_stands_whatever_becomes_of_what_follows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise OSError("the disk is full")

    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"x": [1, 2]}), configuration=AUTO)
    monkeypatch.setattr("deltaplane.commands.optimize.optimize", fail)
    assert write_deltalake(path, pa.table({"x": [3]}), mode="append").version == 1
    table = DeltaTable(path)
    assert table.delete("x = 1")["num_deleted_rows"] == 1
    assert caplog.text.count("the disk is full") == 2
    assert table.version() == 2


def test_rows_beyond_memory_are_sorted_in_files(tmp_path: Path) -> None:
    chance = np.random.default_rng(5)
    data = pa.table(
        {"x": chance.permutation(600_000), "y": chance.integers(0, 1000, 600_000), "t": ["abcdef"] * 600_000}
    )
    write_deltalake(str(tmp_path), data)
    table = DeltaTable(str(tmp_path))
    table.optimize.z_order(["x"], memory_limit="16MB")
    rows = table.to_pyarrow_table()
    assert np.array_equal(np.sort(rows["x"].to_numpy()), np.arange(600_000))
    assert rows.sort_by("x").equals(data.sort_by("x"))


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    table = pieces(str(tmp_path / "t"), 2, partition_by=["p"])
    for call, error, said in [
        (lambda: table.optimize.compact("x > 1"), UnsupportedExpressionError, "partition columns"),
        (lambda: table.optimize.compact("length(p) > 1"), UnsupportedExpressionError, "partition columns"),
        (lambda: table.optimize.compact(full=True), InvalidArgumentError, "isn't clustered"),
        (lambda: table.optimize.compact(max_concurrent_tasks=0), InvalidArgumentError, "max_concurrent_tasks"),
        (lambda: table.optimize.compact(max_deleted_rows_ratio=2), InvalidArgumentError, "share"),
        (lambda: table.optimize.compact(target_size=0), InvalidArgumentError, "target_file_size"),
        (lambda: table.optimize.compact(memory_limit="1KB"), InvalidArgumentError, "16 MB"),
        (lambda: table.optimize.compact(memory_limit=1, max_spill_size=1), InvalidArgumentError, "two names"),
        (lambda: table.optimize.compact(max_temp_directory_size=1), UnsupportedFeatureError, "temporary files"),
        (lambda: table.optimize.z_order([]), InvalidArgumentError, "needs a column"),
        (lambda: table.optimize.z_order(["p"]), InvalidArgumentError, "partition column"),
        (lambda: table.optimize.z_order(["q"]), InvalidArgumentError, "isn't a column"),
        (lambda: table.optimize.z_order(["x"], curve="spiral"), InvalidArgumentError, "zorder, hilbert or kdtree"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(error, match=said):
            call()
    assert table.version() == 1


def test_the_statement(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    pieces(path, partition_by=["p"])
    done = sql("OPTIMIZE t WHERE t.p = 0", tables={"t": path}).to_pylist()
    assert done == [
        {
            "num_added_files": 1,
            "num_removed_files": 3,
            "num_partitions_optimized": 1,
            "num_considered_files": 3,
            "num_skipped_files": 0,
            "version": 6,
        }
    ]
    assert sql("OPTIMIZE t ZORDER BY x", tables={"t": path})["num_removed_files"].to_pylist() == [4]
    assert sql("OPTIMIZE t ZORDER BY (`x`)", tables={"t": path})["version"].to_pylist() == [None]
    assert sql("OPTIMIZE t FULL ZORDER BY (x)", tables={"t": path})["num_removed_files"].to_pylist() == [2]
    with pytest.raises(UnsupportedExpressionError, match="line 1, column 18"):
        sql("OPTIMIZE t WHERE x = 0", tables={"t": path})
