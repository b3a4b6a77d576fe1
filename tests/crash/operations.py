"""The list of operations whose every crash point is tried: all changes that DeltaTable can make,
each with its initial table. Defines no fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from deltaplane import DeltaTable, GroupWriter, _native, convert_to_deltalake, write_deltalake
from deltaplane.schema import Field, PrimitiveType

Options = dict[str, str]
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
WIDENING = {"delta.enableTypeWidening": "true"}
V2 = {"delta.checkpointPolicy": "v2"}
TRACKED = {"delta.enableRowTracking": "true"}
EVERY_COMMIT = {"delta.checkpointInterval": "1"}


def rows(first: int, count: int = 4) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {
            "x": pa.array(numbers, pa.int32()),
            "p": ["a" if n % 2 else "b" for n in numbers],
            "text": [f"row {n}" for n in numbers],
        }
    )


@dataclass(frozen=True, eq=False)
class Base:
    """An initial table: two commits of rows, and further preparation."""

    configuration: dict[str, str] | None = None
    partitioned: bool = True
    after: Callable[[DeltaTable], object] | None = None
    # The age of all its files.
    days_old: float = 0

    def make(self, uri: str, options: Options) -> None:
        partition = ["p"] if self.partitioned else None
        for first in (0, 4):
            write_deltalake(
                uri,
                rows(first),
                mode="append",
                partition_by=partition,
                configuration=self.configuration,
                storage_options=options,
            )
        if self.after is not None:
            self.after(DeltaTable(uri, storage_options=options))


@dataclass(frozen=True)
class Operation:
    """One call. `commits` False: it makes no version. `steps`: a crash may leave a sound table
    between old and new."""

    name: str
    run: Callable[[str, Options], object]
    base: Base | None = Base()
    commits: bool = True
    steps: bool = False
    # It repairs a table with a missing live file.
    mends: bool = False


def on_table(call: Callable[[DeltaTable], object]) -> Callable[[str, Options], object]:
    return lambda uri, options: call(DeltaTable(uri, storage_options=options))


def write(mode: str = "append", *, data: pa.Table | None = None, **named: object) -> Callable[[str, Options], object]:
    table = rows(20) if data is None else data
    return lambda uri, options: write_deltalake(uri, table, mode=mode, storage_options=options, **named)  # type: ignore[arg-type]


def append_in_a_group(uri: str, options: Options) -> None:
    with GroupWriter(uri, storage_options=options) as writer:
        writer.append(rows(20), ("app", 1))


def alter(name: str, *arguments: object, **named: object) -> Callable[[str, Options], object]:
    return on_table(lambda table: getattr(table.alter, name)(*arguments, **named))


def clone(uri: str, options: Options) -> None:
    source = "memory://crash-clone/source"
    write_deltalake(source, rows(0), mode="ignore", partition_by=["p"])
    DeltaTable(source).clone(uri, shallow=False, storage_options=options)


def convert(uri: str, options: Options) -> None:
    import pyarrow.parquet as pq

    file = pa.BufferOutputStream()
    pq.write_table(rows(0), file)
    _native.RawStore.open(uri, options).put("a.parquet", file.getvalue().to_pybytes())
    convert_to_deltalake(uri, storage_options=options)


def lose_files(table: DeltaTable) -> None:
    """Adds files that no version names."""
    store = _native.RawStore.open(table.location, table.storage_options)
    for name in ("lost.parquet", "p=a/lost.parquet"):
        store.put(name, b"lost")


def lose_a_live_file(table: DeltaTable) -> None:
    """Deletes a file that the newest version names."""
    _native.RawStore.open(table.location, table.storage_options).delete(sorted(table.files())[0])


OPERATIONS = [
    # tables that are created
    Operation(
        "create", lambda uri, o: DeltaTable.create(uri, rows(0).schema, partition_by="p", storage_options=o), None
    ),
    Operation("clone", clone, None),
    Operation("convert", convert, None),
    Operation("write a new table", write("error", partition_by=["p"]), None),
    # writes
    Operation("append", write()),
    Operation("append, with a checkpoint due", write(), Base(EVERY_COMMIT)),
    Operation("append, with clean-up due", write(), Base(EVERY_COMMIT, days_old=60)),
    Operation("append in a group", append_in_a_group),
    Operation("append with new columns", write(data=rows(20).append_column("more", [[1] * 4]), schema_mode="merge")),
    Operation("overwrite", write("overwrite")),
    Operation("overwrite one partition", write("overwrite", data=rows(21, 1), predicate="p = 'a'")),
    Operation(
        "overwrite the columns", write("overwrite", data=pa.table({"y": [1], "p": ["a"]}), schema_mode="overwrite")
    ),
    # rows
    Operation("delete, files rewritten", on_table(lambda t: t.delete("x % 3 = 0"))),
    Operation("delete, by vectors", on_table(lambda t: t.delete("x % 3 = 0")), Base(VECTORS)),
    Operation("delete a partition", on_table(lambda t: t.delete("p = 'a'"))),
    Operation("delete all", on_table(lambda t: t.delete())),
    Operation("update, files rewritten", on_table(lambda t: t.update({"text": "upper(text)"}, predicate="x > 2"))),
    Operation("update, by vectors", on_table(lambda t: t.update({"x": "x + 100"}, predicate="x > 2")), Base(VECTORS)),
    Operation(
        "update, with change files", on_table(lambda t: t.update({"x": "x + 100"}, predicate="x > 2")), Base(FEED)
    ),
    Operation(
        "update, rows keep their ids", on_table(lambda t: t.update({"x": "x + 9"}, predicate="x > 2")), Base(TRACKED)
    ),
    Operation("purge", on_table(lambda t: t.purge()), Base(VECTORS, after=lambda t: t.delete("x % 3 = 0"))),
    Operation("compact", on_table(lambda t: t.optimize.compact(max_concurrent_tasks=1))),
    Operation(
        "compact, with a commit for each partition",
        on_table(lambda t: t.optimize.compact(max_concurrent_tasks=1, min_commit_interval=0)),
        steps=True,
    ),
    Operation("z-order", on_table(lambda t: t.optimize.z_order(["x"], max_concurrent_tasks=1)), Base(TRACKED)),
    Operation(
        "cluster rows",
        on_table(lambda t: t.optimize.compact()),
        Base(VECTORS, partitioned=False, after=lambda t: t.alter.cluster_by(["x", "text"])),
    ),
    # its files
    Operation("vacuum", on_table(lambda t: t.vacuum(0, False, False, full=True)), Base(after=lose_files), steps=True),
    Operation("repair", on_table(lambda t: t.repair()), Base(after=lose_a_live_file), mends=True),
    Operation("generate manifests", on_table(lambda t: t.generate()), commits=False),
    Operation("restore", on_table(lambda t: t.restore(0))),
    Operation(
        "restore rows that vectors delete",
        on_table(lambda t: t.restore(1)),
        Base(VECTORS, after=lambda t: t.delete("x > 2")),
    ),
    # the table's metadata
    Operation("add a column", alter("add_columns", Field("more", PrimitiveType("long")))),
    Operation("move a column", alter("reorder", "text", first=True)),
    Operation("rename a column", alter("rename_column", "text", "words"), Base(MAPPED)),
    Operation("drop a column", alter("drop_columns", "text"), Base(MAPPED)),
    Operation("widen a column", alter("change_column_type", "x", "long"), Base(WIDENING)),
    Operation("comment a column", alter("set_comment", "x", "a number")),
    Operation("set a default", alter("set_default", "x", "7")),
    Operation("name the table", alter("set_table_name", "numbers")),
    Operation("set properties", alter("set_table_properties", {"delta.appendOnly": "true", "mine": "1"})),
    Operation("unset a property", alter("unset_table_properties", "delta.enableChangeDataFeed"), Base(FEED)),
    Operation("turn vectors on", alter("set_table_properties", VECTORS)),
    Operation("turn column mapping on", alter("set_table_properties", MAPPED)),
    Operation("cluster", alter("cluster_by", ["x"]), Base(partitioned=False)),
    Operation("add a constraint", alter("add_constraint", {"positive": "x >= 0"})),
    Operation(
        "drop a constraint",
        alter("drop_constraint", "positive"),
        Base(after=lambda t: t.alter.add_constraint({"positive": "x >= 0"})),
    ),
    Operation("upgrade the protocol", alter("upgrade_protocol", 1, 4)),
    Operation("add a table feature", alter("add_feature", "domainMetadata", allow_protocol_versions_increase=True)),
    Operation(
        "set a domain",
        on_table(lambda t: t.set_domain_metadata("app", "{}")),
        Base(after=lambda t: t.alter.cluster_by(["x"]), partitioned=False),
    ),
    # several commits
    Operation("track rows from now on", alter("set_table_properties", TRACKED), steps=True),
    Operation(
        "drop a table feature",
        alter("drop_feature", "deletionVectors"),
        Base(VECTORS),
        steps=True,
    ),
    # only the log
    Operation("checkpoint", on_table(lambda t: t.create_checkpoint()), commits=False),
    Operation("checkpoint, V2", on_table(lambda t: t.create_checkpoint()), Base(V2), commits=False),
    Operation("compact the log", on_table(lambda t: t.compact_logs(0, 1)), commits=False),
    Operation(
        "clean the log up",
        on_table(lambda t: t.cleanup_metadata()),
        Base(days_old=60, after=lambda t: t.create_checkpoint()),
        commits=False,
    ),
    Operation(
        "clean the log up, V2",
        on_table(lambda t: t.cleanup_metadata()),
        Base(V2, days_old=60, after=lambda t: t.create_checkpoint()),
        commits=False,
    ),
]
