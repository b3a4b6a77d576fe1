"""Dry runs: write nothing, read the same files as the command, and are refused for the same
reasons."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rows.row_model import CONDITIONS, FEED, VECTORS, contents, rehearsed
from deltaplane import CommitProperties, DeltaTable, DryRun, Transaction, register_log_store, sql, write_deltalake
from deltaplane.cli.app import run as run_cli
from deltaplane.exceptions import (
    ConcurrentAppendException,
    ConstraintViolationError,
    DeltaConcurrentModificationException,
    InvalidArgumentError,
    TableAlreadyExistsError,
    UnsupportedFeatureError,
)
from stores.folder_store import Folder

DATA = pa.table({"k": range(12), "p": ["a", "b", "c"] * 4, "n": [i % 4 for i in range(12)]})
NEW = pa.table({"k": [3, 50], "p": ["b", "c"], "n": [7, 8]})


class Noted(NamedTuple):
    """A store that records the data files read and the files written since it was reset."""

    location: str
    read: set[str]
    written: list[str]

    def clear(self) -> None:
        self.read.clear()
        self.written.clear()


@pytest.fixture
def noted(tmp_path: Path) -> Iterator[Callable[[], tuple[DeltaTable, Noted]]]:
    read: set[str] = set()
    written: list[str] = []

    class Noting(Folder):
        def read(self, path: str) -> bytes:
            if path.endswith(".parquet") and not path.startswith("_delta_log"):
                read.add(path)
            return super().read(path)

        def put(self, path: str, data: bytes) -> None:
            written.append(path)
            super().put(path, data)

        def put_if_absent(self, path: str, data: bytes) -> bool:
            written.append(path)
            return super().put_if_absent(path, data)

    scheme = f"noting{uuid.uuid4().hex[:8]}"
    register_log_store(scheme, Noting)

    def made(**more: Any) -> tuple[DeltaTable, Noted]:
        options = {"folder": str(tmp_path)}
        location = f"{scheme}://{uuid.uuid4().hex}"
        write_deltalake(location, DATA, partition_by="p", storage_options=options, **more)
        write_deltalake(location, NEW, mode="append", storage_options=options)
        log = Noted(location, read, written)
        log.clear()
        return DeltaTable(location, storage_options=options), log

    return made  # type: ignore[return-value]


def merger(table: DeltaTable, on: str = "t.k = s.k") -> Any:
    return table.merge(NEW, on, source_alias="s", target_alias="t")


# Each runs with and without a dry run.
COMMANDS: dict[str, Callable[..., Any]] = {
    "delete some": lambda t, **dry: t.delete("n > 1", **dry),
    "delete partitions": lambda t, **dry: t.delete("p = 'a'", **dry),
    "delete by both": lambda t, **dry: t.delete("p = 'a' AND k % 2 = 0", **dry),
    "delete nothing": lambda t, **dry: t.delete("k = 77", **dry),
    "update some": lambda t, **dry: t.update({"n": "n + 1"}, predicate="k = 3", **dry),
    "update partitions": lambda t, **dry: t.update({"n": "n + 1"}, predicate="p = 'b'", **dry),
    "move rows": lambda t, **dry: t.update({"p": "'z'"}, predicate="k < 5", **dry),
    "merge": lambda t, **dry: merger(t).when_matched_update({"n": "s.n"}).when_not_matched_insert_all().execute(**dry),
    "merge inserts": lambda t, **dry: merger(t).when_not_matched_insert_all().execute(**dry),
    "merge by source": lambda t, **dry: (
        merger(t, "t.k = s.k AND t.p = 'b'").when_not_matched_by_source_delete("t.p = 'c'").execute(**dry)
    ),
    "purge": lambda t, **dry: t.purge(**dry),
    "append": lambda t, **dry: write_deltalake(t, NEW, mode="append", **dry),
    "overwrite": lambda t, **dry: write_deltalake(t, NEW, mode="overwrite", **dry),
    "overwrite partitions": lambda t, **dry: write_deltalake(
        t, NEW.slice(0, 1), mode="overwrite", predicate="p = 'b'", **dry
    ),
    "overwrite rows": lambda t, **dry: write_deltalake(t, NEW, mode="overwrite", predicate="k IN (3, 50)", **dry),
    "overwrite dynamically": lambda t, **dry: write_deltalake(
        t, NEW, mode="overwrite", partition_overwrite_mode="dynamic", **dry
    ),
    "replace on": lambda t, **dry: write_deltalake(
        t, NEW, mode="overwrite", replace_on="t.k = s.k AND t.p = 'a'", source_alias="s", target_alias="t", **dry
    ),
    "replace using": lambda t, **dry: write_deltalake(t, NEW, mode="overwrite", replace_using=["p"], **dry),
}


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["copy", "vectors", "feed"])
@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_read_is_what_the_command_reads(
    noted: Callable[..., tuple[DeltaTable, Noted]], name: str, properties: dict[str, str]
) -> None:
    table, seen = noted(configuration=properties)
    result = COMMANDS[name](table, dry_run=True)
    assert isinstance(result, DryRun)
    assert seen.written == []
    rehearsal = set(seen.read)
    seen.clear()
    COMMANDS[name](table)
    # A purge reads the footer of each file, and counts the files whose rows it reads.
    assert result.files_read == (0 if name == "purge" else len(seen.read))
    assert rehearsal <= seen.read
    assert bool(seen.written) == result.changed


@pytest.mark.parametrize("properties", [{}, VECTORS, FEED], ids=["copy", "vectors", "feed"])
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.lists(st.sampled_from(sorted(COMMANDS)), min_size=2, max_size=4))
def test_a_dry_run_foretells_the_commit(
    tmp_path_factory: pytest.TempPathFactory, properties: dict[str, str], names: list[str]
) -> None:
    # P070: neither visible nor other files remain
    path = str(tmp_path_factory.mktemp("dry") / "t")
    write_deltalake(path, DATA, partition_by="p", configuration=properties)
    table = DeltaTable(path)
    for name in names:
        command = COMMANDS[name]
        rehearsed(table, lambda: command(table, dry_run=True), lambda: command(table))  # noqa: B023


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    write_deltalake(str(tmp_path / "t"), DATA, partition_by="p")
    return DeltaTable(str(tmp_path / "t"))


def test_a_table_that_is_not_there_is_not_made(tmp_path: Path, table: DeltaTable) -> None:
    new = str(tmp_path / "new")
    result = write_deltalake(new, DATA, configuration=VECTORS, dry_run=True)
    assert not Path(new).exists()
    assert (result.version, result.changed, result.rows["numOutputRows"]) == (None, True, 12)
    assert "deletionVectors" in result.added_features
    with pytest.raises(TableAlreadyExistsError):
        write_deltalake(table, DATA, dry_run=True)
    result = write_deltalake(table, DATA, mode="ignore", dry_run=True)
    assert (result.changed, result.skipped) == (False, "exists")
    assert "the table is there" in str(result)


def test_new_columns_and_features_are_told(table: DeltaTable) -> None:
    table.alter.set_table_properties({"delta.enableTypeWidening": "true"})
    wider = NEW.append_column("t", pa.array([None, None], pa.timestamp("us")))
    result = write_deltalake(table, wider, mode="append", schema_mode="merge", dry_run=True)
    assert result.added_features == ["timestampNtz"]
    assert result.read_set.changes_metadata
    assert result.read_set.changes_protocol
    assert {c.error: c.when for c in result.conflicts}["ProtocolChangedException"] == "any change of the protocol"
    assert "the protocol goes from" in str(result)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        (lambda t: t.update({"n": "n + 100"}, dry_run=True), ConstraintViolationError),
        (lambda t: t.update({"n": "n / 0"}, dry_run=True), InvalidArgumentError),
        (lambda t: t.delete("nope = 1", dry_run=True), InvalidArgumentError),
        (
            lambda t: write_deltalake(t, pa.table({"k": [1], "p": ["a"], "n": [200]}), mode="append", dry_run=True),
            ConstraintViolationError,
        ),
        (
            lambda t: write_deltalake(t, NEW, mode="overwrite", predicate="k < 10", dry_run=True),
            InvalidArgumentError,
        ),
        (
            lambda t: merger(t).when_matched_update({"n": "s.n + 99"}).execute(dry_run=True),
            ConstraintViolationError,
        ),
    ],
    ids=["constraint", "no value", "no column", "new row", "row outside", "merged row"],
)
def test_what_refuses_the_command_refuses_its_dry_run(
    table: DeltaTable, wrong: Callable[[DeltaTable], Any], error: type[Exception]
) -> None:
    table.alter.add_constraint({"small": "n < 100"})
    before = contents(table.location)
    with pytest.raises(error):
        wrong(table)
    assert contents(table.location) == before


def test_commits_that_came_meanwhile_refuse_it(table: DeltaTable) -> None:
    late = DeltaTable(table.location)
    write_deltalake(table, NEW, mode="append")
    with pytest.raises(ConcurrentAppendException):
        late.delete("k = 3", dry_run=True)
    # No new file can contain such a row.
    assert late.delete("k = 2", dry_run=True).changed


def test_an_application_that_did_it(table: DeltaTable) -> None:
    # P076
    once = CommitProperties(app_transactions=[Transaction("job", 1)])
    result = table.delete("k = 1", commit_properties=once, dry_run=True)
    assert result.read_set.app_ids == ("job",)
    assert "ConcurrentTransactionException" in [c.error for c in result.conflicts]
    table.delete("k = 1", commit_properties=once)
    for again in (
        table.delete("k = 2", commit_properties=once, dry_run=True),
        write_deltalake(table, NEW, mode="append", commit_properties=once, dry_run=True),
    ):
        assert (again.changed, again.skipped) == (False, "txn")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ours=st.sampled_from(CONDITIONS[1:]), theirs=st.sampled_from(sorted(COMMANDS)), vectors=st.booleans())
def test_no_conflict_is_met_that_was_not_named(
    tmp_path_factory: pytest.TempPathFactory, ours: Any, theirs: str, vectors: bool
) -> None:
    path = str(tmp_path_factory.mktemp("met") / "t")
    data = DATA.append_column("a", DATA["n"]).append_column("s", DATA["p"]).append_column("f", DATA["k"].cast("double"))
    write_deltalake(path, data, partition_by="p", configuration=VECTORS if vectors else {})
    first, second = DeltaTable(path), DeltaTable(path)
    named = {conflict.error for conflict in first.delete(ours[0], dry_run=True).conflicts}
    COMMANDS[theirs](second)
    try:
        first.delete(ours[0])
    except DeltaConcurrentModificationException as e:
        assert type(e).__name__ in named  # noqa: PT017


def test_statements_and_the_command_line(table: DeltaTable, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(table.location)
    for text, rows in (
        ("DELETE FROM t WHERE k < 3", {"numDeletedRows": 3}),
        ("UPDATE t SET n = n + 1 WHERE p = 'a'", {"numUpdatedRows": 4}),
        ("INSERT INTO t VALUES (1L, 'a', 2L)", {"numOutputRows": 1}),
        ("INSERT INTO t REPLACE WHERE k = 1 VALUES (1L, 'a', 2L)", {"numDeletedRows": 1}),
        (
            "MERGE INTO t USING (SELECT 3L AS k) s ON t.k = s.k WHEN MATCHED THEN DELETE",
            {"numTargetRowsDeleted": 1, "numSourceRows": 1},
        ),
    ):
        result = sql(text, tables={"t": table}, dry_run=True)
        assert dict(result.rows).items() >= rows.items()
    assert not sql("REORG TABLE t APPLY (PURGE)", tables={"t": table}, dry_run=True).changed
    with pytest.raises(UnsupportedFeatureError, match="dry_run"):
        sql("SELECT 1 AS x", dry_run=True)
    statement = ["sql", "DELETE FROM t WHERE k < 3", "-t", f"t={table.location}", "--dry-run"]
    assert run_cli([*statement, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["operation"], shown["rows"]["numDeletedRows"]) == ("DELETE", 3)
    assert run_cli(statement) == 0
    assert "removes  3 files" in capsys.readouterr().out
    assert contents(table.location) == before


def test_rows_whose_number_the_log_lacks_are_counted(table: DeltaTable) -> None:
    # P121: statistics are optional
    log = Path(table.location, "_delta_log", f"{0:020}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    bare = Path(table.location).with_name("bare")
    shutil.copytree(table.location, bare)
    Path(bare, "_delta_log", f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    rehearsed(
        DeltaTable(str(bare)),
        lambda: DeltaTable(str(bare)).delete("k = 4", dry_run=True),
        lambda: DeltaTable(str(bare)).delete("k = 4"),
    )
