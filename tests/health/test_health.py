"""The report's facts, compared with facts read from the log by hand, on small tables of many
kinds."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.advisor.advice import Advice as Judged
from deltaplane.advisor.advice import AdviceReport, Commands, Reads
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.report import Health
from deltaplane.report.advice import _KINDS, RULES
from health.replayed import replayed

HOSTILE = "<script>alert('x')</script>"
DAY_MS = 86_400_000


def facts(table: DeltaTable | str | Path, **more: Any) -> Health:
    opened = table if isinstance(table, DeltaTable) else DeltaTable(str(table))
    return opened.report(**more).facts


@pytest.mark.parametrize("seed", range(4))
def test_random_tables(tmp_path: Path, seed: int) -> None:
    r = random.Random(seed)
    where, partitioned, vectors = tmp_path / "t", bool(seed % 2), seed >= 1
    on = {"delta.enableDeletionVectors": "true"} if vectors else {}
    for n in range(r.randint(3, 14)):
        rows = r.randint(1, 30)
        data = pa.table(
            {
                "p": pa.array([r.choice(["a", "b", None]) for _ in range(rows)], pa.string()),
                "x": [r.randrange(100) for _ in range(rows)],
                "s": [{"y": r.choice([None, r.random()])} for _ in range(rows)],
            }
        )
        mode = "overwrite" if n and r.random() < 0.1 else "append"
        by = ["p"] if partitioned else None
        write_deltalake(str(where), data, mode=mode, partition_by=by, configuration=on if n == 0 else None)
        if r.random() < 0.4:
            DeltaTable(str(where)).delete(f"x < {r.randrange(60)}")
    health, log = facts(where), replayed(where)

    sizes = sorted(add["size"] for add in log.live)
    records = [json.loads(add["stats"])["numRecords"] for add in log.live]
    deleted = [(add.get("deletionVector") or {"cardinality": 0})["cardinality"] for add in log.live]
    files = health.files
    assert (files.count, files.size_bytes, files.rows) == (len(sizes), sum(sizes), sum(records) - sum(deleted))
    assert (files.smallest_bytes, files.largest_bytes) == (sizes[0], sizes[-1]) if sizes else True
    assert (files.small_files, files.without_rows) == (len(sizes), 0)
    assert sum(b.count for b in files.bins) == len(sizes)

    marked = [(d, n, add["size"]) for d, n, add in zip(deleted, records, log.live, strict=True) if d]
    above = [size for d, n, size in marked if d / n > 0.05]
    owed = health.vectors
    assert (owed.files, owed.deleted_rows) == (len(marked), sum(deleted))
    assert (owed.above, owed.above_bytes) == (len(above), sum(above))
    assert sum(b.count for b in owed.bins) == len(marked)

    if partitioned:
        assert health.partitions is not None
        by_value = Counter(add["partitionValues"]["p"] for add in log.live)
        assert {p.values[0]: p.files for p in health.partitions.largest} == by_value
        assert sum(p.size_bytes for p in health.partitions.largest) == sum(sizes)
        assert sum(p.rows or 0 for p in health.partitions.largest) == files.rows
    else:
        assert health.partitions is None

    for column in health.columns:
        path = column.name.split(".")
        bounds = [_bounds(json.loads(add["stats"]), path) for add in log.live]
        known = [(low, high, add) for (low, high), add in zip(bounds, log.live, strict=True) if low is not None]
        met = [sum(low <= v <= high for low, high, _ in known) for pair in known for v in pair[:2]]
        assert column.overall.average == pytest.approx(sum(met) / len(met) if met else 0), column
        assert column.overall.most == max(met, default=0)
        assert (column.unknown, column.empty) == (0, len(bounds) - len(known))
        if partitioned:
            assert column.within is not None
            same = [
                sum(low <= v <= high and a["partitionValues"] == add["partitionValues"] for low, high, a in known)
                for *pair, add in known
                for v in pair
            ]
            assert column.within.most == max(same, default=0)
            assert column.within.average == pytest.approx(sum(same) / len(same) if same else 0)
    assert {c.name for c in health.columns} == {"x", "s.y"} | (set() if partitioned else {"p"})

    at_versions = [(p.version, p.files, p.size_bytes) for p in health.growth]
    assert at_versions == [
        (v, (state := replayed(where, v)).files, state.size_bytes) for v in range(DeltaTable(str(where)).version() + 1)
    ]
    gone = {r["path"]: r["size"] for r in log.removed if r["path"] not in {add["path"] for add in log.live}}
    assert (health.tombstones["kept_files"], health.tombstones["kept_bytes"]) == (len(gone), sum(gone.values()))
    assert health.tombstones["expired_files"] == 0
    assert health.advice
    json.dumps(health.to_dict(), allow_nan=False)


def _bounds(stats: dict[str, Any], path: list[str]) -> tuple[Any, Any]:
    low, high = stats["minValues"], stats["maxValues"]
    for name in path:
        low, high = (low or {}).get(name), (high or {}).get(name)
    return low, high


def test_log_folder(tmp_path: Path) -> None:
    where = tmp_path / "t"
    for n in range(14):
        write_deltalake(str(where), pa.table({"x": [n]}), mode="append")
    table = DeltaTable(str(where))
    table.compact_logs(11, 13)
    log, files = facts(table).log, list((where / "_delta_log").iterdir())
    for kind, ending in (
        ("checkpoints", ".checkpoint.parquet"),
        ("compactions", ".compacted.json"),
        ("checksums", ".crc"),
    ):
        present = [f for f in files if f.name.endswith(ending)]
        assert log[kind] == {"files": len(present), "size_bytes": sum(f.stat().st_size for f in present)}, kind
    commits = [f for f in files if f.name.endswith(".json") and f.name.count(".") == 1]
    assert log["commits"] == {"files": 14, "size_bytes": sum(f.stat().st_size for f in commits)}
    assert (log["newest_checkpoint"]["version"], log["newest_checkpoint"]["kind"]) == (10, "classic")
    assert log["commits_since_checkpoint"]["files"] == 3
    assert (log["oldest_commit"], log["newest_checksum"]) == (0, 13)
    assert (log["checkpoint_interval"], log["log_retention_ms"]) == (10, 30 * DAY_MS)
    # An older version is reported in its state at the time.
    old = facts(DeltaTable(str(where), version=4))
    assert (old.version, old.log["commits"]["files"], old.log["newest_checkpoint"]) == (4, 5, None)
    assert (old.files.count, old.commits and old.commits.last_version) == (5, 4)


def test_sidecars_and_v2(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    data, on = pa.table({"x": [1]}), {"delta.checkpointPolicy": "v2", "delta.feature.v2Checkpoint": "supported"}
    write_deltalake(where, data, configuration=on)
    table = DeltaTable(where)
    table.create_checkpoint()
    log = facts(table).log
    assert log["newest_checkpoint"]["kind"] == "v2"
    sidecars = list((tmp_path / "t/_delta_log/_sidecars").iterdir())
    assert log["sidecars"] == {"files": len(sidecars), "size_bytes": sum(f.stat().st_size for f in sidecars)}


def test_files_that_vacuum_may_delete(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    for n in range(3):
        write_deltalake(where, pa.table({"x": list(range(n, 500))}), mode="overwrite")
    log = tmp_path / "t/_delta_log/00000000000000000001.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "remove" in line:
            line["remove"]["deletionTimestamp"] -= 8 * DAY_MS
            del line["remove"]["size"]
    log.write_text("\n".join(map(json.dumps, lines)))
    health = facts(where)
    assert [health.tombstones[k] for k in ("kept_files", "expired_files", "unsized_files")] == [1, 1, 1]
    # Before a commit that removed a file without its size, the table's size is unknown.
    assert [(p.files, p.size_bytes is None) for p in health.growth] == [(1, True), (1, False), (1, False)]


def test_a_log_that_was_cleaned_up(tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    for n in range(12):
        write_deltalake(where, pa.table({"x": [n]}), mode="append")
    for version in range(10):
        log = tmp_path / f"t/_delta_log/{version:020}"
        log.with_suffix(".json").unlink()
        log.with_suffix(".crc").unlink(missing_ok=True)
    health = facts(where)
    assert [p.version for p in health.growth] == [10, 11]
    assert (health.log["oldest_commit"], health.files.count) == (10, 12)
    assert health.commits is not None
    assert health.commits.count == 2


def test_commits_are_bounded(tmp_table: Callable[[], str]) -> None:
    where = tmp_table()
    for n in range(6):
        write_deltalake(where, pa.table({"x": [n]}), mode="append")
    health = facts(where, commits=2)
    assert health.commits is not None
    assert (health.commits.count, health.commits.first_version) == (2, 4)
    assert [p.files for p in health.growth] == [5, 6]
    with pytest.raises(InvalidArgumentError, match="commits is a number of commits, not 0"):
        facts(where, commits=0)


def test_empty_tables(tmp_table: Callable[[], str]) -> None:
    for by in (None, ["x"]):
        table = DeltaTable.create(tmp_table(), pa.schema({"x": pa.int64(), "y": pa.int64()}), partition_by=by)
        health = facts(table)
        assert (health.files.count, health.files.rows, health.files.bins) == (0, 0, ())
        assert "The table has no files" in table.report().to_html()


def test_files_without_statistics(tmp_table: Callable[[], str]) -> None:
    where = tmp_table()
    write_deltalake(where, pa.table({"x": [1]}), configuration={"delta.dataSkippingNumIndexedCols": "0"})
    health = facts(where)
    assert health.columns == ()
    assert "No column has bounds" in DeltaTable(where).report().to_html()
    table = DeltaTable(where)
    table.alter.set_table_properties({"delta.dataSkippingNumIndexedCols": "1"})
    write_deltalake(where, pa.table({"x": pa.array([None, 2], pa.int64())}), mode="append")
    write_deltalake(where, pa.table({"x": pa.array([None], pa.int64())}), mode="append")
    (column,) = facts(where).columns
    assert (column.unknown, column.empty, column.overall.files) == (1, 1, 1)


def test_many_columns_and_partitions_leave_the_page_small(tmp_table: Callable[[], str]) -> None:
    where = tmp_table()
    names = [f"c{n}" for n in range(60)]
    data = pa.table({"p": list(range(300)), **{name: [1] * 300 for name in names}})
    write_deltalake(
        where,
        data,
        partition_by=["p"],
        configuration={"delta.dataSkippingNumIndexedCols": "-1"},
    )
    report = DeltaTable(where).report()
    assert (len(report.facts.columns), report.facts.more_columns) == (32, 28)
    assert report.facts.partitions is not None
    assert (report.facts.partitions.count, len(report.facts.partitions.largest)) == (300, 12)
    assert len(report.to_html()) < 150_000


def test_clustering_columns_come_first(tmp_table: Callable[[], str]) -> None:
    columns = {f"c{n}": pa.int64() for n in range(40)}
    where = tmp_table()
    configuration = {"delta.dataSkippingStatsColumns": "c0,c39,c5", "delta.columnMapping.mode": "name"}
    table = DeltaTable.create(where, pa.schema(columns), cluster_by=["c39", "c5"], configuration=configuration)
    write_deltalake(where, pa.table({name: [1] for name in columns}), mode="append")
    table.update_incremental()
    health = facts(table)
    assert health.clustering_columns == ("c39", "c5")
    assert [(c.name, c.is_key) for c in health.columns] == [("c5", True), ("c39", True), ("c0", False)]


def test_each_piece_of_advice(tmp_path: Path) -> None:
    where = tmp_path / "t"
    on = {
        "delta.enableDeletionVectors": "true",
        "delta.checkpointInterval": "3",
        "delta.enableExpiredLogCleanup": "false",
    }
    for n in range(40):
        data = pa.table({"p": [0] * 9, "x": [n % 2, *range(8)], "y": [n] * 9})
        write_deltalake(str(where), data, mode="append", configuration=on if n == 0 else None)
    table = DeltaTable(str(where))
    table.delete("x = 3")
    health = facts(table)
    levels = {advice.title: advice.level for advice in health.advice}
    assert levels["Many small files"] == levels["Deleted rows are still in files"] == "act"
    assert levels["Log clean-up is switched off"] == "watch"
    assert levels["Files can be left out"] == levels["Checkpoints"] == levels["Statistics"] == "fine"
    order = [advice.level for advice in health.advice]
    assert order == sorted(order, key=["act", "watch", "fine"].index)
    # Commands are quoted for a shell, and running them has the described effect.
    commands = {advice.command for advice in health.advice if advice.command}
    assert commands == {f"deltaplane optimize {where}"}
    table.optimize.compact()
    better = {advice.title: advice.level for advice in facts(table).advice}
    assert better["File sizes"] == "fine"
    assert "Deleted rows are still in files" not in better
    # No commit after a checkpoint that is long overdue; and an excessively old log.
    for checkpoint in (where / "_delta_log").glob("*.checkpoint*"):
        checkpoint.unlink()
    (where / "_delta_log/_last_checkpoint").unlink()
    assert {advice.title: advice.level for advice in facts(str(where)).advice}["A checkpoint is due"] == "act"


def test_what_advise_judged_stands_in_the_rules_place(tmp_table: Callable[[], str]) -> None:
    where = tmp_table()
    for n in range(40):
        write_deltalake(where, pa.table({"x": [n, n + 1]}), mode="append")
    table = DeltaTable(where)
    judged = table.advise(["x >= 0"])
    report = table.report(advice=judged)
    said = {advice.title: advice for advice in report.facts.advice}
    better = judged.of("optimize")
    assert better is not None
    assert said["Put files together"].command == better.commands.shell
    assert said["Put files together"].section == "files"
    # Advice replaces the rules on its own subjects, and rules on other subjects stay.
    assert "Engines" in said
    assert {"Many small files", "Statistics", "Checkpoints"} & set(said) == set()
    assert "Layouts that were tried" in report.to_html()
    assert json.loads(json.dumps(report.to_dict()))["judged"]["version"] == 39
    table.optimize.compact()
    with pytest.raises(InvalidArgumentError, match=r"the advice is on version 39 of .*, the report on version 40"):
        table.report(advice=judged)
    content = facts(table, advice=table.advise(["x >= 0"]))
    assert [advice.level for advice in content.advice if advice.section == "files"] == ["fine"]


def test_every_kind_of_advice_has_a_place(tmp_table: Callable[[], str]) -> None:
    table = DeltaTable.create(tmp_table(), pa.schema({"x": pa.int64()}))
    reads, kinds = {"now": Reads(3, 9), "then": Reads(1, 3)}, (*_KINDS, "one that came later")
    pieces = tuple(Judged(kind, "why", Commands(sql=f"do {kind}"), 1.0, **reads, basis="a model") for kind in kinds)
    judged = AdviceReport(table.table_uri, table.version(), 0, 0, "given", 1, pieces)
    report = table.report(advice=judged)
    shown = {advice.command: advice for advice in report.facts.advice if advice.command}
    assert set(shown) == {f"do {kind}" for kind in kinds}
    page = report.to_html()
    for advice in shown.values():
        assert f'id="{advice.section}"' in page
        assert advice.reason == (
            "Why. Now 3 files, 9 bytes are read, then 1 file, 3 bytes. It costs 0 B read and 0 B written. By a model."
        )


def test_advice_for_logs_that_are_too_old(tmp_path: Path) -> None:
    where = tmp_path / "t"
    write_deltalake(str(where), pa.table({"x": [1]}))
    old = time.time() - 90 * 86_400
    os.utime(where / "_delta_log/00000000000000000000.json", (old, old))
    titles = {advice.title: advice.level for advice in facts(where).advice}
    assert titles["The log is older than promised"] == "watch"


def test_every_rule_may_say_nothing(tmp_table: Callable[[], str]) -> None:
    table = DeltaTable.create(tmp_table(), pa.schema({"x": pa.int64()}))
    health = facts(table)
    for rule in RULES:
        for advice in rule(health):
            assert advice.level == "fine", advice


def test_hostile_names_are_text(tmp_path: Path) -> None:
    where = tmp_path / "t <b>"
    configuration = {"delta.columnMapping.mode": "name"}
    data = pa.table({HOSTILE: [1, 2], "p<i>": [HOSTILE, None], "q": [{HOSTILE: 1}] * 2})
    write_deltalake(
        str(where), data, partition_by=["p<i>"], name=HOSTILE, description=HOSTILE, configuration=configuration
    )
    log = where / "_delta_log/00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"] |= {"operation": HOSTILE, "engineInfo": HOSTILE}
        if "metaData" in line:
            line["metaData"]["configuration"][HOSTILE] = HOSTILE
    log.write_text("\n".join(map(json.dumps, lines)))
    page = DeltaTable(str(where)).report().to_html()
    assert "<script" not in page
    assert "<i>" not in page
    assert page.count("&lt;script&gt;alert(") >= 7


def test_a_page_without_jinja2_says_what_is_missing(tmp_table: Callable[[], str], tmp_path: Path) -> None:
    script = f"""
import sys
sys.modules["jinja2"] = None
import pyarrow as pa
from deltaplane import DeltaTable, write_deltalake
write_deltalake("memory://no-jinja2/t", pa.table({{"x": [1]}}))
report = DeltaTable("memory://no-jinja2/t").report()
print(report.to_dict()["files"]["rows"])
try:
    report.write({str(tmp_path / "page.html")!r})
except ImportError as e:
    print(e)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == ["1", "the report's page needs jinja2: pip install 'deltaplane[report]'"], done
    assert not (tmp_path / "page.html").exists()
