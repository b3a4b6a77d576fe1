"""What a process does by a name whose table another process has replaced or dropped since: the
same as a process that never knew the table."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from catalog.conftest import SCHEMA, Lake, ids, rows
from deltaplane import DeltaTable, _native

NAME = f"{SCHEMA}.t"


def sql(statement: str) -> Callable[[Lake], object]:
    return lambda lake: deltaplane.sql(statement, catalog=lake.catalog)


def clone(lake: Lake) -> None:
    lake.write("source", rows(7, 8))
    lake.open("source").clone(lake.location("t"), replace=True, storage_options=lake.options)


def must_be(exists: bool) -> None:
    if not exists:
        raise deltaplane.exceptions.TableNotFoundError(f"{NAME} isn't there")


# What is done by the name, and the ids of the table after it, where the new table has the ids 5 and
# 6, and where there is none: `None` if the work needs a table.
WORK: dict[str, tuple[Callable[[Lake], object], list[int], list[int] | None]] = {
    "append": (lambda lake: lake.write("t", rows(7)), [5, 6, 7], [7]),
    "append of a stream": (
        lambda lake: lake.write("t", pa.RecordBatchReader.from_batches(rows(7).schema, rows(7).to_batches())),
        [5, 6, 7],
        [7],
    ),
    "overwrite": (lambda lake: lake.write("t", rows(7), mode="overwrite"), [7], [7]),
    "overwrite of some rows": (
        lambda lake: lake.write("t", rows(7), mode="overwrite", predicate="id = 5 or id = 7"), [6, 7], [7]
    ),
    "ignore": (lambda lake: lake.write("t", rows(7), mode="ignore"), [5, 6], [7]),
    "create": (
        lambda lake: DeltaTable.create(
            lake.location("t"), rows(7).schema, mode="ignore", storage_options=lake.options
        ),
        [5, 6],
        [],
    ),
    "insert": (sql(f"INSERT INTO {NAME} VALUES (7, 'seven')"), [5, 6, 7], None),
    "update": (sql(f"UPDATE {NAME} SET id = 7 WHERE id = 5"), [6, 7], None),
    "delete": (sql(f"DELETE FROM {NAME} WHERE id = 5"), [6], None),
    "merge": (
        sql(f"MERGE INTO {NAME} t USING (SELECT 5 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"), [6], None
    ),
    "alter": (sql(f"ALTER TABLE {NAME} SET TBLPROPERTIES ('a' = 'b')"), [5, 6], None),
    "optimize": (sql(f"OPTIMIZE {NAME}"), [5, 6], None),
    "create or replace": (sql(f"CREATE OR REPLACE TABLE {NAME} (id BIGINT, text STRING)"), [], []),
    "clone": (clone, [7, 8], [7, 8]),
    "read": (lambda lake: lake.open("t").to_pyarrow_table(), [5, 6], None),
    "exists": (lambda lake: must_be(DeltaTable.is_deltatable(lake.location("t"), lake.options)), [5, 6], None),
}  # fmt: skip


@pytest.fixture(params=["created", "twice", "written by both", "opened", "opened and written"])
def known(request: pytest.FixtureRequest, lake: Lake, other: Lake) -> Lake:
    """The lake, whose table this process knows in some way."""
    way: str = request.param
    if way.startswith("opened"):
        other.write("t", rows(10))
        lake.open("t").to_pyarrow_table()
    for number in range({"created": 1, "opened": 0}.get(way, 2)):
        lake.write("t", rows(number))
        if way == "written by both":
            # From now on this process asks before it commits.
            other.write("t", rows(10 + number))
    return lake


@pytest.mark.parametrize("work", WORK)
def test_of_a_replaced_table(known: Lake, other: Lake, work: str) -> None:
    other.catalog.drop(NAME)
    other.write("t", rows(5, 6))
    act, expected, _ = WORK[work]
    act(known)
    assert ids(other.open("t")) == ids(known.open("t")) == expected


@pytest.mark.parametrize("work", WORK)
def test_of_a_dropped_table(known: Lake, other: Lake, work: str) -> None:
    other.catalog.drop(NAME)
    act, _, expected = WORK[work]
    if expected is None:
        with pytest.raises(deltaplane.DeltaError, match=NAME):
            act(known)
        assert not other.catalog.exists(NAME)
        return
    act(known)
    assert ids(other.open("t")) == ids(known.open("t")) == expected


@pytest.mark.parametrize("replaced", [False, True], ids=["dropped", "replaced"])
def test_what_is_found_out_while_an_append_runs(
    known: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch, replaced: bool
) -> None:
    """A report of published commits, which runs in the background, finds out at any moment that
    the table is gone: here before an append, which may be planned already, writes its files."""
    other.catalog.drop(NAME)
    if replaced:
        other.write("t", rows(5, 6))
    write_files = _native.write_files

    def found_out(*arguments: Any, **more: Any) -> Any:
        monkeypatch.setattr(_native, "write_files", write_files)
        with contextlib.suppress(deltaplane.DeltaError):
            known.open("t")
        return write_files(*arguments, **more)

    monkeypatch.setattr(_native, "write_files", found_out)
    known.write("t", rows(7))
    assert _native.write_files is write_files, "nothing was found out: the test shows nothing"
    assert ids(other.open("t")) == ids(known.open("t")) == ([5, 6, 7] if replaced else [7])
