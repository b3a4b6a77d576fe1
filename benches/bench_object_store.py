"""Operations on an object store's table with 30 ms for each read and 60 ms for each write, in front
of versitygw (S3) and Azurite (Azure): time, requests, rounds (requests that begin after another one
ended), bytes, and the list price of the requests of a million operations.

Each call has a new table, without deletion vectors, which deltalake doesn't write. Two bare puts
are the bar of an append on an open handle.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from support import harness, sparks
from support.delaying_proxy import PRICES, rounds
from support.harness import Case, Elsewhere, Task, Traffic, main, scale_of
from support.object_stores import TESTS, RemoteStore, remote_store

# Part of the folder's name of a table: increase it when the content changes.
GENERATION = 1
# Files of the table of most operations, with a checkpoint of the hundredth commit.
FILES = {"quick": 12, "small": 105, "full": 105}
ROWS_OF_A_FILE = 1_000
# Files that a compaction joins, some 400 KB each.
COMPACTED_FILES = 10
COMPACTED_ROWS = {"quick": 1_000, "small": 20_000, "full": 20_000}
APPENDED_ROWS = 100
BARE = "two bare puts"
SPARK = "delta-spark"
STORES = ("S3", "Azure")


class Engine(Protocol):
    """One contestant's operations. A handle is what `open` returns."""

    def open(self, store: RemoteStore, location: str) -> Any: ...
    def refresh(self, handle: Any) -> int: ...
    def column(self, handle: Any, first: int) -> int: ...
    def scan(self, handle: Any) -> int: ...
    def append(self, store: RemoteStore, target: Any, rows: Any) -> object: ...
    def delete(self, handle: Any, condition: str) -> object: ...
    def merge(self, handle: Any, rows: Any) -> object: ...
    def compact(self, handle: Any) -> object: ...
    def vacuum(self, handle: Any) -> int: ...
    def history(self, handle: Any) -> int: ...


class Deltaplane:
    """deltaplane; deltalake has the same names for most of it."""

    def __init__(self) -> None:
        import deltaplane

        self.library: Any = deltaplane

    def open(self, store: RemoteStore, location: str) -> Any:
        return self.library.DeltaTable(location, storage_options=dict(store.options))

    def refresh(self, handle: Any) -> int:
        handle.update_incremental()
        return int(handle.version())

    def column(self, handle: Any, first: int) -> int:
        reader = handle.to_reader(columns=["x"], predicate=f"id >= {first} and id < {first + 10}")
        return int(reader.read_all().num_rows)

    def scan(self, handle: Any) -> int:
        return int(handle.to_reader().read_all().num_rows)

    def append(self, store: RemoteStore, target: Any, rows: Any) -> object:
        options = {"storage_options": dict(store.options)} if isinstance(target, str) else {}
        return self.library.write_deltalake(target, rows, mode="append", **options)

    def delete(self, handle: Any, condition: str) -> object:
        return handle.delete(condition)

    def merge(self, handle: Any, rows: Any) -> object:
        merger = handle.merge(rows, "t.id = s.id", source_alias="s", target_alias="t")
        return merger.when_matched_update_all().when_not_matched_insert_all().execute()

    def compact(self, handle: Any) -> object:
        return handle.optimize.compact()

    def vacuum(self, handle: Any) -> int:
        return len(handle.vacuum(dry_run=True))

    def history(self, handle: Any) -> int:
        return len(handle.history(10))


class Deltalake(Deltaplane):
    """deltalake, with its own query engine for rows."""

    def __init__(self) -> None:
        import deltalake

        self.library = deltalake

    def column(self, handle: Any, first: int) -> int:
        return self._rows(handle, f"select x from t where id >= {first} and id < {first + 10}")

    def scan(self, handle: Any) -> int:
        return self._rows(handle, "select * from t")

    def vacuum(self, handle: Any) -> int:
        # Without this it lists nothing.
        return len(handle.vacuum(dry_run=True, full=True))

    def _rows(self, handle: Any, sql: str) -> int:
        import pyarrow as pa

        builder = self.library.QueryBuilder().register("t", handle)
        return int(pa.table(builder.execute(sql).read_all()).num_rows)


class DeltaSpark:
    """delta-spark over S3A. A handle is the table's location."""

    def __init__(self, spark: Any) -> None:
        self.spark = spark

    def open(self, store: RemoteStore, location: str) -> Any:
        location = location.replace("s3://", "s3a://")
        self._frame(location).schema  # noqa: B018 - resolves the table
        return location

    def refresh(self, handle: Any) -> int:
        self._frame(handle).schema  # noqa: B018 - looks for a newer version
        return -1

    def column(self, handle: Any, first: int) -> int:
        return len(self._frame(handle).where(f"id >= {first} and id < {first + 10}").select("x").collect())

    def scan(self, handle: Any) -> int:
        return int(self._frame(handle).selectExpr("count(id)", "sum(x)", "max(s)").collect()[0][0])

    def append(self, store: RemoteStore, target: Any, rows: Any) -> object:
        location = target.replace("s3://", "s3a://")
        return self._rows(rows).write.format("delta").mode("append").save(location)

    def delete(self, handle: Any, condition: str) -> object:
        return self.spark.sql(f"delete from delta.`{handle}` where {condition}").collect()

    def merge(self, handle: Any, rows: Any) -> object:
        self._rows(rows).createOrReplaceTempView("s")
        statement = f"merge into delta.`{handle}` t using s on t.id = s.id"
        return self.spark.sql(f"{statement} when matched then update set * when not matched then insert *").collect()

    def compact(self, handle: Any) -> object:
        return self.spark.sql(f"optimize delta.`{handle}`").collect()

    def vacuum(self, handle: Any) -> int:
        return int(self.spark.sql(f"vacuum delta.`{handle}` dry run").count())

    def history(self, handle: Any) -> int:
        return int(self.spark.sql(f"describe history delta.`{handle}` limit 10").count())

    def _frame(self, location: str) -> Any:
        return self.spark.read.format("delta").load(location)

    def _rows(self, rows: Any) -> Any:
        return self.spark.createDataFrame(rows).coalesce(1)


# --- tables -----------------------------------------------------------------------------------------------------------


def rows_of(first: int, count: int) -> Any:
    """Rows with these ids, and values that compress badly."""
    import numpy as np
    import pyarrow as pa

    random = np.random.default_rng(first)
    texts = [f"{value:016x}" for value in random.integers(0, 1 << 62, count)]
    columns = {"id": np.arange(first, first + count), "x": random.random(count), "s": texts}
    return pa.table(columns)


def local_table(files: int, rows: int) -> Path:
    """A table of a commit and a file for each of these; made once."""
    from deltaplane import write_deltalake

    path = harness.CACHE / "objects" / f"{files}x{rows}-{GENERATION}"
    if not path.exists():
        making = path.with_name(f"{path.name}-making")
        for number in range(files):
            configuration = {"configuration": {"delta.checkpointInterval": "100"}} if number == 0 else {}
            rows_of_file = rows_of(number * rows, rows)
            write_deltalake(str(making), rows_of_file, mode="append", **configuration)  # type: ignore[call-overload]
        making.rename(path)
    return path


# --- operations -------------------------------------------------------------------------------------------------------

# Whether each operation begins with a handle that is open.
OPERATIONS = {
    "open": False,
    "refresh, nothing new": True,
    "one column of one file": True,
    "scan of all files": False,
    "append, opening": False,
    "delete": True,
    "merge": True,
    "compaction": True,
    "vacuum, dry run": True,
    "history of 10": True,
    # The last one, since it has a contestant more, and so a process of its own.
    "append, open handle": True,
}
AGAIN = "append, open handle"


def _operate(engine: Engine, store: RemoteStore, operation: str, target: Any, rows: int) -> object:
    """Runs one operation on an open handle, or on a location."""
    first = 3 * rows
    if operation == "open":
        return engine.open(store, target)
    if operation == "refresh, nothing new":
        return engine.refresh(target)
    if operation == "one column of one file":
        return engine.column(target, first)
    if operation == "scan of all files":
        return engine.scan(engine.open(store, target))
    if operation.startswith("append"):
        return engine.append(store, target, rows_of(20_000_000, APPENDED_ROWS))
    if operation == "delete":
        return engine.delete(target, f"id = {first + 5}")
    if operation == "merge":
        import pyarrow as pa

        return engine.merge(target, pa.concat_tables([rows_of(first, 5), rows_of(30_000_000, 5)]))
    if operation == "compaction":
        return engine.compact(target)
    return engine.vacuum(target) if operation.startswith("vacuum") else engine.history(target)


# Rows that an operation adds to the table; the others leave their number.
ADDED_ROWS = {"append, opening": APPENDED_ROWS, "append, open handle": 2 * APPENDED_ROWS, "delete": -1, "merge": 5}


def _task(make: Callable[[RemoteStore], Engine], case: Mapping[str, Any], scratch: Path) -> Task:
    """One contestant's operation. The answer is the number of rows of the table after it."""
    store, folder, operation = remote_store(case["store"]), Path(case["path"]), case["operation"]
    engine = make(store)
    location, target = "", None

    def prepare() -> None:
        nonlocal location, target
        location = store.upload(folder)
        target = engine.open(store, location) if OPERATIONS[operation] else location
        if operation == AGAIN:
            engine.append(store, target, rows_of(10_000_000, APPENDED_ROWS))
        store.proxy.end()
        store.proxy.begin()

    def run() -> object:
        return _operate(engine, store, operation, target, case["rows"])

    def answer(_: object) -> int:
        from deltaplane import DeltaTable

        return DeltaTable(location, storage_options=dict(store.direct)).count()

    return Task(run, answer, prepare=prepare, traffic=lambda: _traffic(store, case["store"]))


def _traffic(store: RemoteStore, kind: str) -> Traffic:
    requests = store.proxy.end()
    moved = sum(request.sent_bytes + request.received_bytes for request in requests)
    return Traffic(len(requests), rounds(requests), moved / 1e6, PRICES[kind].of(requests) * 1e6)


def deltaplane(case: Mapping[str, Any], scratch: Path) -> Task:
    return _task(lambda _: Deltaplane(), case, scratch)


def deltalake(case: Mapping[str, Any], scratch: Path) -> Task:
    return _task(lambda _: Deltalake(), case, scratch)


def two_bare_puts(case: Mapping[str, Any], scratch: Path) -> Task:
    """A file and a commit, put one after the other as fast as the store takes them."""
    from deltaplane import _native

    store = remote_store(case["store"])
    puts = _native.RawStore.open(f"{store.root}/bare", store.options)

    def prepare() -> None:
        puts.put("warm", b"")
        store.proxy.end()
        store.proxy.begin()

    def run() -> None:
        puts.put("file.parquet", bytes(3_000))
        puts.put("commit.json", bytes(900))

    return Task(run, lambda _: case["answer"], prepare=prepare, traffic=lambda: _traffic(store, case["store"]))


def delta_spark(case: Mapping[str, Any], scratch: Path) -> Task:
    spark = None

    def make(store: RemoteStore) -> Engine:
        nonlocal spark
        spark = _session(store, scratch)
        return DeltaSpark(spark)

    task = _task(make, case, scratch)
    jvm = spark.sparkContext._gateway.proc.pid  # type: ignore[attr-defined]
    before = [0.0]

    def prepare() -> None:
        assert task.prepare is not None
        task.prepare()
        before[0] = sparks.cpu_seconds(jvm)

    def elsewhere(_: object) -> Elsewhere:
        used = harness.used_by_this_process()
        return Elsewhere(sparks.cpu_seconds(jvm) - before[0], used.peak_mb + sparks.peak_mb(jvm))

    return replace(task, prepare=prepare, elsewhere=elsewhere)


@functools.cache
def _session_of_process(settings: str, scratch: str) -> Any:
    return sparks.session(Path(scratch), json.loads(settings))


# The folder of the process's session is that of its first case.
_FOLDERS: list[Path] = []


def _session(store: RemoteStore, scratch: Path) -> Any:
    """The process's session, with S3A behind the proxy."""
    from stores.on_spark.hadoop_aws import hadoops

    _FOLDERS.append(scratch)
    jars = ":".join(map(str, sorted((TESTS.parent / ".cache" / "hadoop-aws").glob("*.jar"))))
    settings = {
        **sparks.ENGINES[SPARK].settings(),
        "spark.driver.extraClassPath": jars,
        **hadoops(store.options),
    }
    return _session_of_process(json.dumps(settings), str(_FOLDERS[0]))


CONTESTANTS: dict[str, harness.Contestant] = {"deltaplane": deltaplane, BARE: two_bare_puts, "deltalake": deltalake}
if sparks.is_there(SPARK) and (TESTS.parent / ".cache" / "hadoop-aws").is_dir():
    CONTESTANTS[SPARK] = delta_spark


def cases(options: argparse.Namespace) -> list[Case]:
    return list(_cases(options))


def _cases(options: argparse.Namespace) -> Iterator[Case]:
    scale = scale_of(options)
    for store in STORES:
        # hadoop-azure isn't among the jars of the tests.
        peers = ["deltaplane", "deltalake", *([SPARK] if store == "S3" else [])]
        for operation in OPERATIONS:
            files, rows = FILES[scale], ROWS_OF_A_FILE
            if operation == "compaction":
                files, rows = COMPACTED_FILES, COMPACTED_ROWS[scale]
            expected = files * rows + ADDED_ROWS.get(operation, 0)

            def arguments(
                files: int = files,
                rows: int = rows,
                store: str = store,
                operation: str = operation,
                rest: int = expected,
            ) -> dict[str, Any]:
                path = str(local_table(files, rows))
                return {"store": store, "operation": operation, "path": path, "rows": rows, "answer": rest}

            yield Case(
                f"{store}: {operation}, {files} files",
                [*peers[:1], *([BARE] if operation == AGAIN else []), *peers[1:]],
                arguments,
                1 if scale == "quick" else 3,
                expected,
                target=f"object store {'append' if operation == AGAIN else 'operation'}",
                # Starting a JVM takes longer than all of its operations.
                together="" if operation == AGAIN else store,
            )


if __name__ == "__main__":
    main("object store", CONTESTANTS, cases, lambda parser: None)
