"""`advise` and `maintain`: figures of the present equal plans, predictions come true, and only
maintenance that pays is proposed and run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from api.rows.row_model import CONDITIONS, TABLES, Model, contents
from deltaplane import DeltaTable, PostCommitHookProperties, sql, write_deltalake
from deltaplane.advisor.advice import Advice, AdviceReport, MaintenanceStep, Reads
from deltaplane.cli.app import run
from deltaplane.exceptions import InvalidArgumentError
from interop.verifier import verify

WORKLOAD = ["a = 17 AND b < 90", "a BETWEEN 500 AND 510", "b = 3", "b = 77"]
ROWS = 4_000


def scattered(path: Path, target: int = 6_000, **options: Any) -> DeltaTable:
    """Ten files, each with values from the whole range."""
    chance = np.random.default_rng(7)
    for n in range(10):
        columns = {name: chance.integers(0, 1_000, 1_000) for name in ("a", "b", "c")}
        properties = {"delta.targetFileSize": str(target)} if n == 0 else None
        write_deltalake(path, pa.table(columns), mode="append", configuration=properties, **options)
    return DeltaTable(path)


def read(table: DeltaTable, predicates: list[str]) -> Reads:
    why = [table.explain(predicate) for predicate in predicates]
    return Reads(sum(reads.selected for reads in why), sum(reads.selected_bytes for reads in why))


def follow(advice: Advice, table: DeltaTable) -> None:
    """Runs the Python text of the advice."""
    exec(advice.commands.python or "", {"table": table})  # noqa: S102


def test_today_is_exact_and_the_model_comes_true(tmp_path: Path) -> None:
    table = scattered(tmp_path)
    report = table.advise(WORKLOAD, sample_rows=ROWS)
    assert report.candidates[0].reads == read(table, WORKLOAD)
    assert (report.workload, report.predicates, report.left_out) == ("given", 4, ())
    assert ROWS <= report.sampled_rows <= 2 * ROWS
    advice = report.of("zorder")
    assert advice is not None
    # No predicate uses c.
    assert set(advice.columns) == {"a", "b"}
    assert advice.written_bytes == report.size_bytes
    follow(advice, table)
    after = read(table, WORKLOAD)
    # The advice doesn't predict how the order changes the compressed size of a row.
    assert advice.then.bytes == pytest.approx(after.bytes, rel=0.4)
    assert advice.then.files == pytest.approx(after.files, rel=0.25)
    # Samples all rows: a sample depends on the files' names, and for some samples another curve
    # appears to read a quarter less.
    again = table.advise(WORKLOAD, sample_rows=table.count())
    assert again.candidates[0].reads == after
    assert again.of("zorder") is None


def test_the_workload_decides_the_columns(tmp_path: Path) -> None:
    table = scattered(tmp_path)
    for column in ("b", "c"):
        advice = table.advise([f"{column} = {n}" for n in (5, 300, 800)], sample_rows=ROWS).of("zorder")
        assert advice is not None
        assert advice.columns == (column,)
    weighted = [{"predicate": "a = 1", "weight": 1_000}, {"predicate": "c = 1"}]
    advice = table.advise(weighted, sample_rows=ROWS).of("zorder")
    assert advice is not None
    assert advice.columns[0] == "a"
    assert advice.now == read(table, ["a = 1"]).times(1_000) + read(table, ["c = 1"])
    # Predicates as tuples; they select rows of all files in any order.
    assert table.advise([[("a", ">=", 0)]], sample_rows=ROWS).of("zorder") is None


def test_without_a_workload_look_ups_are_drawn(tmp_path: Path) -> None:
    table = scattered(tmp_path, target=60_000)
    report = table.advise(sample_rows=ROWS)
    # A read of all rows, and four values and two ranges of each column.
    assert (report.workload, report.predicates) == ("drawn", 1 + 3 * 6)
    assert "drawn from a sample" in str(report)
    # The result is the same each time.
    assert table.advise(sample_rows=ROWS).to_dict() == report.to_dict()


def test_partitions_are_exact(tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    for n in range(4):
        rows = {"p": ["x", "y"] * 1_000, "a": chance.integers(0, 1_000, 2_000)}
        properties = {"delta.targetFileSize": "1500"} if n == 0 else None
        write_deltalake(tmp_path, pa.table(rows), mode="append", partition_by=["p"], configuration=properties)
    table = DeltaTable(tmp_path)
    advice = table.advise(["p = 'y'", *(f"p = 'x' AND a = {n}" for n in (4, 400, 700))], sample_rows=ROWS).of("zorder")
    assert advice is not None
    assert advice.columns == ("a",)
    whole = table.explain("p = 'y'").selected_bytes
    assert advice.now.bytes == whole + 3 * table.explain("p = 'x'").selected_bytes
    assert whole < advice.then.bytes < 2 * whole
    # A partitioned table can't have clustering columns.
    assert table.advise(["a = 4"], sample_rows=ROWS).of("cluster_by") is None


def test_names_and_structs(tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    properties = {"delta.columnMapping.mode": "name", "delta.targetFileSize": "4000"}
    for _ in range(6):
        inner = [{"x y": int(x), "z": "t"} for x in chance.integers(0, 1_000, 1_000)]
        rows = pa.table({"odd name": chance.integers(0, 1_000, 1_000), "s": inner})
        write_deltalake(tmp_path, rows, mode="append", configuration=properties)
        properties = None  # type: ignore[assignment]
    table = DeltaTable(tmp_path)
    workload = ["s.`x y` = 3", "s.`x y` = 700", "`odd name` = 5"]
    advice = table.advise(workload, sample_rows=ROWS).of("zorder")
    assert advice is not None
    assert set(advice.columns) == {"s.`x y`", "`odd name`"}
    follow(advice, table)
    assert read(table, workload).files <= advice.now.files / 2


def test_small_files(tmp_path: Path) -> None:
    for n in range(60):
        write_deltalake(tmp_path, pa.table({"a": [n]}), mode="append")
    table = DeltaTable(tmp_path)
    report = table.advise(["a = 7", "a >= 0"])
    advice = report.of("optimize")
    assert advice is not None
    assert (advice.now.files, advice.then.files) == (61, 2)
    # A single file is written, so the sum doesn't depend on an order.
    assert next(advice.kind for advice in report) == "optimize"
    automatic = report.of("property")
    assert automatic is not None
    assert "autoCompact" in (automatic.commands.sql or "")
    assert "60 of 60 files" in str(report)
    sql(advice.commands.sql or "")
    table.update_incremental()
    assert read(table, ["a = 7", "a >= 0"]).files == advice.then.files
    assert not [advice for advice in table.advise(["a = 7", "a >= 0"]) if advice.kind == "optimize"]


def test_nothing_pays(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"a": range(1_000)}))
    table = DeltaTable(tmp_path)
    for report in (table.advise(), table.advise(["a = 5"])):
        assert len(report) == 0
        assert "nothing would pay" in str(report)
    assert table.maintain().steps == ()
    empty = DeltaTable.create(str(tmp_path / "empty"), pa.schema([("a", pa.int64())]))
    assert len(empty.advise()) == 0
    assert len(empty.advise(["a = 1"])) == 0


def test_clustered_tables(tmp_path: Path) -> None:
    table = scattered(tmp_path, cluster_by=["a"])
    by_a = ["a = 3", "a = 500", "a = 900"]
    new = table.advise(by_a, sample_rows=ROWS).of("optimize")
    assert new is not None
    assert "aren't clustered by a" in new.why
    table.optimize.compact()
    assert len(table.advise(by_a, sample_rows=ROWS)) == 0
    other = table.advise(["b = 3", "b = 500"], sample_rows=ROWS).of("cluster_by")
    assert other is not None
    assert other.columns == ("b",)
    for statement in (other.commands.sql or "").split("; "):
        sql(statement)
    table.update_incremental()
    assert read(table, ["b = 3", "b = 500"]).files == pytest.approx(other.then.files, abs=2)
    assert len(table.advise(["b = 3", "b = 500"], sample_rows=ROWS)) == 0


def aged(path: Path) -> DeltaTable:
    """A table with small files, deleted rows, removed files past the retention, and commits without
    a checkpoint."""
    properties = {
        "delta.enableDeletionVectors": "true",
        "delta.deletedFileRetentionDuration": "interval 0 seconds",
    }
    late = PostCommitHookProperties(create_checkpoint=False)
    for n in range(14):
        data = pa.table({"a": range(1_000 * n, 1_000 * n + 1_000)})
        how: Any = "overwrite" if n == 4 else "append"
        write_deltalake(
            path, data, mode=how, configuration=None if n else properties, post_commithook_properties=late
        )  # fmt: skip
    table = DeltaTable(path)
    table.delete("a % 10 = 0", post_commithook_properties=late)
    return table


def test_the_rest(tmp_path: Path) -> None:
    table = aged(tmp_path)
    report = table.advise(["a >= 0"])
    kinds = [advice.kind for advice in report]
    assert set(kinds) == {"vacuum", "checkpoint", "optimize", "purge"}
    gains = [advice.gain_per_byte for advice in report]
    assert gains == sorted(gains, reverse=True)
    vacuum, purge, checkpoint = (report.of(kind) for kind in ("vacuum", "purge", "checkpoint"))
    assert vacuum is not None
    assert purge is not None
    assert checkpoint is not None
    gone = [tmp_path / file for file in table.vacuum()]
    assert vacuum.gain_bytes == sum(file.stat().st_size for file in gone)
    assert (vacuum.written_bytes, vacuum.exact) == (0, True)
    assert purge.gain_bytes == pytest.approx(report.size_bytes / 10, rel=0.1)
    assert checkpoint.now.files == 15
    for advice in report:
        for command in (advice.commands.shell or "").split(" && "):
            assert run(shlex.split(command)[1:]) == 0
    table.update_incremental()
    assert not table.advise(["a >= 0"]).advice or table.advise(["a >= 0"]).of("vacuum") is not None


def test_statistics(tmp_path: Path) -> None:
    properties = {"delta.dataSkippingNumIndexedCols": "1"}
    write_deltalake(tmp_path, pa.table({"a": [1], "b": [2], "n": [{"x": 1}]}), configuration=properties)
    table = DeltaTable(tmp_path)
    advice = table.advise(["b = 2", "n.x = 1"]).of("statistics")
    assert advice is not None
    assert advice.columns == ("b", "n.x")
    follow(advice, table)
    assert table.advise(["b = 2", "n.x = 1"]).of("statistics") is None


def test_workloads(tmp_path: Path) -> None:
    table = scattered(tmp_path / "t")
    file = tmp_path / "past.txt"
    lines = [
        "# past queries",
        "",
        "a = 500",
        "a = 500;",
        json.dumps({"predicate": "b = 500", "weight": 2.5}),
        '"c = 500"',
    ]
    lines += ["length(cast(a as string)) > 2 AND b = 400", "gone = 1", "a ="]
    file.write_text("\n".join(lines))
    report = table.advise(file, sample_rows=ROWS)
    assert report.candidates[0].reads.files == 10 * (2 + 2.5 + 1 + 1)
    assert report.predicates == 4
    assert [text for text, _ in report.left_out] == ["gone = 1", "a ="]
    for workload, why in [
        (["gone = 1"], "no predicate"),
        ([], "no predicate"),
        ("a = 1", "list of predicates"),
        ([{"predicate": "a = 1", "weight": -1}], "with a weight"),
        ([{"weight": 1}], "with a weight"),
        (tmp_path / "nothing", "can't be read"),
    ]:
        with pytest.raises(InvalidArgumentError, match=why):
            table.advise(workload)
    file.write_text("{")
    with pytest.raises(InvalidArgumentError, match="line 1"):
        table.advise(file)
    many = table.advise([f"a = {n}" for n in range(250)], sample_rows=100)
    assert (many.predicates, len(many.left_out)) == (200, 20)


def test_nothing_of_a_model_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltaplane import _native
    from deltaplane.advisor import layouts

    locations: list[str] = []
    write = layouts.write_deltalake

    def noted(location: str, *arguments: Any, **options: Any) -> Any:
        locations.append(location)
        return write(location, *arguments, **options)

    monkeypatch.setattr(layouts, "write_deltalake", noted)
    scattered(tmp_path).advise(["a = 1"], sample_rows=ROWS)
    assert locations
    assert all(_native.RawStore.open(location).list_all("") == [] for location in locations)


# --- maintain ---


def kinds(steps: tuple[MaintenanceStep, ...]) -> list[tuple[str, str]]:
    return [(step.kind, step.state) for step in steps]


def test_a_dry_run_leaves_all(tmp_path: Path) -> None:
    table = aged(tmp_path)
    before = contents(str(tmp_path))
    would = table.maintain(dry_run=True)
    assert contents(str(tmp_path)) == before
    assert {state for _, state in kinds(would.steps)} == {"planned"}
    assert {kind for kind, _ in kinds(would.steps)} == {"vacuum", "checkpoint", "optimize", "purge"}
    assert would.version_before == would.version_after
    assert would.bytes_rewritten > 0


def test_it_does_what_pays(tmp_path: Path) -> None:
    table = aged(tmp_path)
    rows = sorted(table.to_pyarrow_table()["a"].to_pylist())
    seen: list[MaintenanceStep] = []
    done = table.maintain(progress=seen.append)
    assert tuple(seen) == done.steps
    assert {"vacuum", "checkpoint", "optimize"} <= {kind for kind, state in kinds(done.steps) if state == "done"}
    assert sorted(table.to_pyarrow_table()["a"].to_pylist()) == rows
    assert (len(table.files()), done.version_after) == (1, table.version())
    assert table.advise().of("optimize") is None
    assert "done" in str(done)


def test_rows_are_reordered_for_a_workload_alone(tmp_path: Path) -> None:
    table = scattered(tmp_path)
    assert "zorder" not in dict(kinds(table.maintain().steps))
    version = table.version()
    done = table.maintain(predicates=WORKLOAD)
    assert {("zorder", "done"), ("cluster_by", "skipped")} >= set(kinds(done.steps)) - {("checkpoint", "done")}
    assert table.version() == version + 1
    assert done.bytes_rewritten > 0


def test_a_budget_holds(tmp_path: Path) -> None:
    for n in range(12):
        data = pa.table({"p": ["x", "y", "z"], "a": [n, n, n]})
        write_deltalake(tmp_path, data, mode="append", partition_by=["p"])
    table = DeltaTable(tmp_path)
    actions = table.get_add_actions().to_pylist()
    sizes = {p: sum(action["size_bytes"] for action in actions if action["partition"]["p"] == p) for p in "xyz"}
    budget = sum(sizes.values()) - min(sizes.values())
    done = table.maintain(budget=budget)
    assert 0 < done.bytes_rewritten <= budget
    assert 3 < len(table.files()) <= 14
    assert table.maintain(budget="0").bytes_rewritten == 0
    late = table.maintain(max_time=0)
    assert kinds(late.steps) == [("optimize", "skipped")]
    assert table.maintain(max_time="2h", budget="1GB").bytes_rewritten > 0
    for wrong in ({"budget": "much"}, {"max_time": "soon"}, {"max_time": -1}):
        with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
            table.maintain(**wrong)  # type: ignore[arg-type]


def test_a_step_that_loses_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = aged(tmp_path)
    run_optimize = table._optimized

    def beaten(*arguments: Any) -> Any:
        # Another writer removes all files after the plan was made.
        snapshot = table._snapshot
        DeltaTable(tmp_path).delete()
        table._snapshot = snapshot
        return run_optimize(*arguments)

    monkeypatch.setattr(table, "_optimized", beaten)
    done = table.maintain()
    lost = next(step for step in done.steps if step.kind == "optimize")
    assert lost.state == "lost"
    assert "another writer" in lost.why
    assert table.count() == 0


def test_vacuum_keeps_to_the_retention(tmp_path: Path) -> None:
    for _ in range(3):
        write_deltalake(tmp_path, pa.table({"a": range(1_000)}), mode="overwrite")
    files = set(tmp_path.glob("*.parquet"))
    DeltaTable(tmp_path).maintain()
    assert set(tmp_path.glob("*.parquet")) == files


def test_large_logs_are_columns(tmp_path: Path) -> None:
    report: AdviceReport = scattered(tmp_path).advise(["a = 1"], sample_rows=ROWS)
    # The report contains no list of files.
    assert len(json.dumps(report.to_dict())) < 20_000


def test_detail(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_deltalake(tmp_path, pa.table({"a": [1]}), name="t")
    table = DeltaTable(tmp_path)
    assert sql(f"DESCRIBE DETAIL delta.`{tmp_path}`").equals(table.detail())
    assert run(["detail", str(tmp_path), "--json"]) == 0
    shown: Callable[[], Any] = lambda: json.loads(capsys.readouterr().out)  # noqa: E731
    assert shown()["numFiles"] == 1


@pytest.mark.parametrize("properties", TABLES, ids=lambda p: "+".join(k.removeprefix("delta.") for k in p) or "none")
def test_all_kinds_of_tables(tmp_path: Path, properties: dict[str, str]) -> None:
    partitioned = TABLES.index(properties) % 2 == 0
    model = Model(str(tmp_path / "t"), {**properties, "delta.targetFileSize": "700"}, partitioned)
    for first in range(0, 30, 10):
        model.append(
            [{"a": i % 6, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(first, first + 10)]
        )
    model.delete(CONDITIONS[8])
    workload = ["a = 3 AND p = 'x'", "f > 3 AND s = 'b'", "p = 'y'", "a = f"]
    report = model.table.advise(workload)
    assert report.candidates[0].reads == read(model.table, workload)
    assert report.left_out == ()
    assert len(report.candidates) > 2
    assert model.table.advise().workload == "drawn"
    model.table.alter.set_table_properties({"delta.targetFileSize": "100000"})
    version = model.table.version()
    done = model.table.maintain(predicates=workload)
    assert (done.version_before, done.version_after) == (version, model.table.version())
    assert ("optimize", "done") in kinds(done.steps)
    model.check()
    verify(model.table.location)


def test_others_write_meanwhile(tmp_path: Path) -> None:
    table = aged(tmp_path)
    rows = table.count()

    def append() -> None:
        for n in range(6):
            write_deltalake(tmp_path, pa.table({"a": [-1 - n]}), mode="append")

    with ThreadPoolExecutor(1) as pool:
        appended = pool.submit(append)
        steps = [step for _ in range(3) for step in table.maintain().steps]
        appended.result()
    table.update_incremental()
    # Every step that lost a race is reported as lost, and no row is lost.
    assert {step.state for step in steps} <= {"done", "skipped", "lost"}
    assert table.count() == rows + 6
    # The files moved last may wait for the next VACUUM.
    assert [finding for finding in table.check(deep=True) if finding["kind"] != "orphan"] == []
