"""Distributed plans: a Spark job finds the same files as the core's own replay, for any log; and
scans planned by such jobs."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, exceptions, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark.jvm import internals as _internals
from deltaplane.spark.scan import replay as _replay
from interop.same import assert_same
from spark.reads.random_logs import KINDS, PREDICATES, RandomLog
from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from conftest import S3Server

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[3]
CORPUS = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared")) / "corpus"
# Foreign layouts of logs, and unusual properties of file actions.
CASES = [
    "deltars-checkpoint-v2-table",
    "golden-dv-partitioned-with-checkpoint",
    "golden-log-replay-dv-key-cases",
    "golden-log-replay-special-characters-b",
    "golden-multi-part-checkpoint",
    "javakernel-column-mapping-id",
    "kernelrs-compacted-log-files-table",
    "kernelrs-v1-multi-part-partitioned-struct-stats-only",
    "kernelrs-v2-checkpoints-json-without-sidecars",
    "kernelrs-v2-checkpoints-parquet-with-sidecars",
    "kernelrs-v2-json-sidecars-struct-stats-only",
    "ref-absolute-add-paths",
    "ref-all-null-columns-and-empty-table",
    "ref-checkpoint-corrupt-parquet",
    "ref-checkpoint-v2-json-many-sidecars",
    "ref-columnmapping-special-column-names",
    "ref-log-readd-same-path",
    "ref-partition-every-primitive-type",
    "ref-partition-special-characters",
    "ref-path-url-encoding-in-log",
    "ref-primitive-types-extremes",
    "ref-timestamp-ntz",
]


@pytest.fixture
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Splits a log of some kilobytes into several tasks."""
    monkeypatch.setattr(_replay, "PART_BYTES", 1500)


def in_microseconds(table: pa.Table) -> pa.Table:
    """The table with timestamps in microseconds, Spark's only unit."""

    def type_of(kind: pa.DataType) -> pa.DataType:
        if pa.types.is_timestamp(kind):
            return pa.timestamp("us", kind.tz)
        return pa.struct([f.with_type(type_of(f.type)) for f in kind]) if pa.types.is_struct(kind) else kind

    return table.cast(pa.schema([f.with_type(type_of(f.type)) for f in table.schema]))


def check(spark: SparkSession, table: DeltaTable, predicate: str | None = None) -> int:
    """Compares the job's files with the replay's; returns their number."""
    planned = dp.plan(spark, table.location, predicate, table.version()).toArrow()
    assert_same(planned, in_microseconds(table.plan(predicate).read_all()))
    return planned.num_rows


def last_plan(df: DataFrame) -> Any:
    return df._deltaplane_index.plans[-1]


# --- the files ---


@pytest.mark.parametrize("seed", range(2 * len(KINDS)))
def test_a_job_finds_what_the_walk_finds(
    spark: SparkSession, tmp_path: Path, small_parts: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    # P021, P040 to P043, P050 to P056, P164 to P170
    if seed >= len(KINDS):
        # Acts as if the commits named more keys than may be broadcast.
        monkeypatch.setattr(_replay, "_BROADCAST_BYTES", -1)
    log = RandomLog(tmp_path / "table", seed)
    table = DeltaTable(log.path)
    check(spark, table)
    check(spark, table, PREDICATES[(seed * 5) // 2 % len(PREDICATES)])
    check(spark, DeltaTable(log.path, version=log.version // 2))


def test_the_random_logs_are_of_every_kind(tmp_path: Path) -> None:
    """The condition for the test above: files are in checkpoints and in later commits, with vectors
    and without, and predicates exclude some and select some."""
    held: set[str] = set()
    vectors = selected = live = 0
    for seed in range(2 * len(KINDS)):
        log = RandomLog(tmp_path / str(seed), seed)
        table = DeltaTable(log.path)
        held |= {f"{log.kind}: {part}" for part in parts_of(table)}
        files = table.plan().read_all()
        vectors += len(files) - files["deletion_vector"].null_count
        live += len(files)
        selected += table.plan(PREDICATES[(seed * 5) // 2 % len(PREDICATES)]).read_all().num_rows
    assert 0 < vectors < live
    assert 0 < selected < live
    in_parquet = {
        f"{kind}: row_groups" for kind in ("own", "JSON statistics", "parsed statistics", "parts", "V2, Parquet")
    }
    in_sidecars = {f"{kind}: sidecars" for kind in ("own v2", "V2, JSON", "V2, Parquet")}
    assert held == in_parquet | in_sidecars | {"V2, JSON without sidecars: manifest"} | {f"{k}: commits" for k in KINDS}


def parts_of(table: DeltaTable) -> set[str]:
    replay = _replay._native.Replay.of(table._snapshot, 1 << 20)
    return {part.kind for part in [*replay.checkpoint, *replay.commits]}


@pytest.mark.parametrize("case", CASES)
def test_logs_of_other_writers(spark: SparkSession, case: str) -> None:
    path = CORPUS / case / "table"
    if not path.is_dir():
        pytest.skip("the corpus of tables isn't beside the checkout")
    check(spark, DeltaTable(path))


def test_columns_are_those_of_add_actions(spark: SparkSession, path: str) -> None:
    rows = pa.table({"x": [1, 2, 3], "p": ["a/b %", None, "ä"]})
    write_deltalake(path, rows, partition_by=["p"], configuration={"delta.enableDeletionVectors": "true"})
    write_deltalake(path, pa.table({"x": [5, 6], "p": ["z", "z"]}), mode="append")
    table = DeltaTable(path)
    table.delete("x = 5")
    frame = dp.plan(spark, path)
    assert_same(frame.drop("deletion_vector").toArrow(), in_microseconds(table.get_add_actions()))
    assert [r.x for r in frame.where("deletion_vector IS NOT NULL").select("min.x").collect()] == [5]
    # Stored as a frame of Spark's own, from which other frames are derived.
    assert frame.groupBy("partition.p").count().where("p = 'z'").collect()[0]["count"] == 1


def test_the_frame_is_lazy_and_pinned(spark: SparkSession, path: str) -> None:
    write_deltalake(path, pa.table({"x": [1]}))
    frame = dp.plan(spark, path)
    write_deltalake(path, pa.table({"x": [2]}), mode="append")
    assert (frame.count(), dp.plan(spark, path).count(), dp.plan(spark, path, version=0).count()) == (1, 2, 1)
    newest = datetime.fromtimestamp(DeltaTable(path).history(1)[0]["timestamp"] / 1000, timezone.utc)
    assert dp.plan(spark, path, timestamp=newest).count() == 2
    with pytest.raises(exceptions.VersionNotFoundError, match="is after the newest commit: version 1 was committed at"):
        dp.plan(spark, path, timestamp="2200-01-01")
    (Path(path) / "_delta_log" / f"{0:020}.json").unlink()
    with pytest.raises(Exception, match=r"VersionNotFoundError.*00000000000000000000\.json"):
        frame.count()


def test_tasks_that_are_run_again_give_no_file_twice(spark: SparkSession, tmp_path: Path, small_parts: None) -> None:
    log = RandomLog(tmp_path / "table", KINDS.index("V2, Parquet") + len(KINDS))
    flags = tmp_path / "attempts"
    flags.mkdir()

    def fails_at_first(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        (flags / f"{context.partitionId()}-{context.attemptNumber()}").touch()
        for batch in batches:
            yield batch
            if context.attemptNumber() == 0:
                raise RuntimeError("the first attempt fails after some files")

    frame = dp.plan(spark, log.path)
    again = frame.mapInArrow(fails_at_first, frame.schema).toArrow()
    assert_same(again, in_microseconds(DeltaTable(log.path).plan().read_all()))
    assert len([flag for flag in flags.iterdir() if flag.name.endswith("-1")]) > 1


def test_a_file_that_is_gone_can_t_fail_a_plan(spark: SparkSession, tmp_path: Path) -> None:
    log = tmp_path / "table" / "_delta_log"
    log.mkdir(parents=True)
    fields = [{"name": n, "type": t, "nullable": True, "metadata": {}} for n, t in (("x", "long"), ("q", "integer"))]
    metadata = {"id": "i", "format": {"provider": "parquet"}, "partitionColumns": ["q"], "configuration": {}}
    metadata["schemaString"] = json.dumps({"type": "struct", "fields": fields})
    add = {"path": "f", "partitionValues": {"q": "no number"}, "size": 1, "modificationTime": 1, "dataChange": True}
    commits: list[list[dict[str, Any]]] = [
        [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}, {"add": add}],
        [{"remove": {"path": "f", "dataChange": True}}, {"add": {**add, "path": "g", "partitionValues": {"q": "1"}}}],
    ]
    for version, actions in enumerate(commits):
        (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))
    table = str(tmp_path / "table")
    assert check(spark, DeltaTable(table)) == 1
    with pytest.raises(Exception, match=r"no number.*version 0"):
        dp.plan(spark, table, version=0).count()


def test_a_table_on_s3(spark: SparkSession, moto_server: S3Server) -> None:
    location, options = f"{moto_server.new_bucket()}/t ä", moto_server.options
    v2 = {"delta.checkpointPolicy": "v2"}
    for x in range(4):
        rows = pa.table({"x": [x]})
        write_deltalake(location, rows, mode="append", storage_options=options, configuration=v2 if x == 0 else None)
    DeltaTable(location, storage_options=options).create_checkpoint()
    write_deltalake(location, pa.table({"x": [9]}), mode="append", storage_options=options)
    frame = dp.plan(spark, location, "x >= 3", options={**options, "fs.s3a.threads.max": "2"})
    expected = DeltaTable(location, storage_options=options).plan("x >= 3").read_all()
    assert_same(frame.toArrow(), in_microseconds(expected))
    assert moto_server.secret_access_key not in frame._jdf.queryExecution().toString()


def test_what_can_t_be_planned_is_refused_before_any_task(spark: SparkSession, path: str) -> None:
    with pytest.raises(exceptions.TableNotFoundError):
        dp.plan(spark, path)
    write_deltalake(path, pa.table({"x": [1]}))
    with pytest.raises(exceptions.InvalidArgumentError, match="gone"):
        dp.plan(spark, path, "gone > 1")
    with pytest.raises(exceptions.VersionNotFoundError):
        dp.plan(spark, path, version=7)
    with pytest.raises(exceptions.InvalidArgumentError, match="not both"):
        dp.plan(spark, path, version=0, timestamp="2024-01-01")
    write_deltalake("memory://spark-plan-refuses/t", pa.table({"x": [1]}))
    with pytest.raises(exceptions.UnsupportedFeatureError, match="memory"):
        dp.plan(spark, "memory://spark-plan-refuses/t")


# --- scans ---


@pytest.fixture
def ten_files(spark: SparkSession, path: str) -> str:
    """Rows 0 to 99 in ten files: some are in a checkpoint, one has a vector and one was
    replaced."""
    on = {"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
    for first in range(0, 100, 10):
        ids = list(range(first, first + 10))
        rows = pa.table({"id": ids, "p": [None if first == 30 else f"{first} %"] * 10})
        write_deltalake(path, rows, mode="append", partition_by=["p"], configuration=on if first == 0 else None)
        if first == 60:
            DeltaTable(path).create_checkpoint()
    table = DeltaTable(path)
    table.delete("id = 15")
    table.delete("p = '90 %'")
    write_deltalake(path, pa.table({"id": list(range(90, 100)), "p": ["90 %"] * 10}), mode="append")
    return path


def test_scans_planned_by_a_job(spark: SparkSession, ten_files: str, small_parts: None) -> None:
    here, by_job = dp.read(spark, ten_files, distributed_plan=False), dp.read(spark, ten_files, distributed_plan=True)
    assert_same(by_job.toArrow(), here.toArrow())
    conditions = [
        "id = 42",
        "p = '20 %'",
        "p IS NULL",
        "id BETWEEN 8 AND 22",
        "id > 200",
        "id % 10 = 5",
        "p > '5' OR id = 1",
    ]
    for condition in conditions:
        assert_same(by_job.where(condition).toArrow(), here.where(condition).toArrow())
        plan = last_plan(by_job)
        assert plan.by_job
        assert not last_plan(here).by_job
        assert (plan.files, plan.directories, plan.understood) == (
            last_plan(here).files, last_plan(here).directories, last_plan(here).understood,
        )  # fmt: skip
    assert last_plan(by_job).version == DeltaTable(ten_files).version()

    def size(frame: DataFrame) -> Any:
        return frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()

    assert size(by_job) == size(here) > 0


def test_jobs_within_a_query_s_planning(spark: SparkSession, tmp_path: Path, ten_files: str) -> None:
    """A scan may be planned for a subquery, the side of a join that is broadcast, after other
    stages of the query have run, or in several threads at once."""
    df = dp.read(spark, ten_files, distributed_plan=True)
    df.createOrReplaceTempView("by_job")
    assert spark.sql("SELECT count(*) FROM by_job WHERE id > (SELECT avg(id) FROM by_job)").first()[0] == 50
    assert df.join(df.where("id < 30").hint("broadcast"), "id").count() == 29
    spark.range(10).selectExpr("concat(id * 10, ' %') AS part", "concat('day ', id) AS label").write.parquet(
        str(tmp_path / "days")
    )
    days = spark.read.parquet(str(tmp_path / "days")).where("label = 'day 4'")
    joined = df.join(days, days.part == df.p)
    assert sorted(r.id for r in joined.collect()) == list(range(40, 50))
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(df.where("id < 50").count())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [49] * 4


def test_a_view_by_jobs_follows_the_table(spark: SparkSession, path: str) -> None:
    write_deltalake(path, pa.table({"id": [1, 2]}))
    dp.create_or_replace_temp_view(spark, "followed_by_jobs", path, distributed_plan=True)
    query = "SELECT count(*), (SELECT max(id) FROM followed_by_jobs) FROM followed_by_jobs"
    assert tuple(spark.sql(query).first()) == (2, 2)
    write_deltalake(path, pa.table({"id": [7]}), mode="append")
    assert tuple(spark.sql(query).first()) == (3, 7)


def test_the_size_of_the_log_decides(spark: SparkSession, ten_files: str) -> None:
    def is_by_job(bound: str) -> bool:
        spark.conf.set("spark.deltaplane.distributedPlanBytes", bound)
        df = dp.read(spark, ten_files)
        assert df.where("id = 42").count() == 1
        return bool(last_plan(df).by_job)

    try:
        assert [is_by_job(bound) for bound in ("0", "1k", "1", "4g", " 1 TB ")] == [True, True, True, False, False]
        with pytest.raises(exceptions.InvalidArgumentError, match=r"distributedPlanBytes.*'much'"):
            is_by_job("much")
    finally:
        spark.conf.unset("spark.deltaplane.distributedPlanBytes")
    df = dp.read(spark, ten_files)
    assert df.where("id = 42").count() == 1
    assert not last_plan(df).by_job


def test_damage_that_a_job_meets_is_gone_around(
    spark: SparkSession, path: str, caplog: pytest.LogCaptureFixture
) -> None:
    on = {"delta.checkpointPolicy": "v2"}
    for x in range(3):
        write_deltalake(path, pa.table({"x": [x]}), mode="append", configuration=on if x == 0 else None)
    DeltaTable(path).create_checkpoint()
    (sidecar,) = (Path(path) / "_delta_log" / "_sidecars").iterdir()
    sidecar.write_bytes(b"PAR1" + b"\0" * 100)
    df = dp.read(spark, path, distributed_plan=True)
    assert sorted(r.x for r in df.where("x > 0").collect()) == [1, 2]
    assert "damaged log" in caplog.text
    with pytest.raises(Exception, match=rf"CorruptFileError.*{sidecar.name}"):
        dp.plan(spark, path).count()


def test_no_job_without_the_native_scan(spark: SparkSession, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    write_deltalake(path, pa.table({"x": [1]}))

    def unavailable(_: Any) -> _internals.Jvm:
        raise _internals.NativeScanUnavailable("there is none")

    monkeypatch.setattr(_internals.Jvm, "of", unavailable)
    with pytest.raises(exceptions.UnsupportedFeatureError, match="there is none"):
        dp.read(spark, path, distributed_plan=True)
    if is_at_least("4.0"):
        assert dp.read(spark, path).count() == 1
    else:
        with pytest.raises(exceptions.UnsupportedFeatureError, match="no data sources in Python"):
            dp.read(spark, path)
    # The frame of files uses no Spark internals.
    assert dp.plan(spark, path).count() == 1
