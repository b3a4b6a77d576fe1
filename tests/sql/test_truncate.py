"""TRUNCATE: removes all files in one commit with the operation that delta-spark records."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import InvalidArgumentError

TRUNCATE = "TRUNCATE TABLE t"
FED = {"delta.enableChangeDataFeed": "true"}
MARKED = {"delta.enableDeletionVectors": "true"}


def filled(path: Path, configuration: dict[str, str], **options: Any) -> str:
    """A table of two files with some deleted rows."""
    for begin in (0, 10):
        rows = pa.table({"x": pa.array(range(begin, begin + 10)), "p": ["a", "b"] * 5})
        write_deltalake(str(path), rows, mode="append", configuration=configuration if begin == 0 else None, **options)
    DeltaTable(str(path)).delete("x = 3")
    return str(path)


@pytest.mark.parametrize("configuration", [{}, FED, MARKED, {**FED, **MARKED}], ids=["plain", "fed", "marked", "both"])
@pytest.mark.parametrize("partition_by", [None, ["p"]], ids=["whole", "partitioned"])
def test_everything_goes_in_one_commit(
    tmp_path: Path, configuration: dict[str, str], partition_by: list[str] | None
) -> None:
    path = filled(tmp_path / "t", configuration, partition_by=partition_by)
    files = len(DeltaTable(path).file_uris())
    result = sql(TRUNCATE, tables={"t": path}, dry_run=True)
    assert (result.operation, result.files_removed, DeltaTable(path).version()) == ("TRUNCATE", files, 2)
    assert sql(TRUNCATE, tables={"t": path}).to_pylist() == [{"operation": "TRUNCATE", "version": 3}]
    table = DeltaTable(path)
    assert table.to_pyarrow_table().num_rows == 0
    entry = table.history(1)[0]
    assert (entry["operation"], entry["operationParameters"]) == ("TRUNCATE", {})
    assert entry["operationMetrics"].keys() == {"numRemovedFiles", "executionTimeMs"}
    assert entry["operationMetrics"]["numRemovedFiles"] == str(files)
    # The rows are still readable at the previous version, and the feed contains their deletion.
    assert DeltaTable(path, version=2).to_pyarrow_table().num_rows == 19
    if configuration.keys() & FED:
        changes = table.load_cdf(3).to_arrow()
        assert sorted(changes["x"].to_pylist()) == [x for x in range(20) if x != 3]
        assert set(changes["_change_type"].to_pylist()) == {"delete"}
    # An empty table has no file to remove.
    assert sql(TRUNCATE, tables={"t": path}).to_pylist() == [{"operation": "TRUNCATE", "version": None}]
    assert DeltaTable(path).version() == 3


def test_an_append_only_table_keeps_its_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"x": [1]}), configuration={"delta.appendOnly": "true"})
    with pytest.raises(InvalidArgumentError, match="append-only"):
        sql(TRUNCATE, tables={"t": path})
    assert DeltaTable(path).version() == 0


def test_rows_that_come_meanwhile_are_a_conflict_or_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deltaplane.commands import delete
    from deltaplane.exceptions import ConcurrentAppendException

    path = filled(tmp_path / "t", {})
    finish: Callable[[Any], Any] = delete.Rewriting.finish

    def late(job: Any) -> Any:
        write_deltalake(path, pa.table({"x": [77], "p": ["a"]}), mode="append")
        return finish(job)

    monkeypatch.setattr(delete.Rewriting, "finish", late)
    try:
        sql(TRUNCATE, tables={"t": path})
    except ConcurrentAppendException:
        assert DeltaTable(path).to_pyarrow_table().num_rows == 20
    else:
        assert DeltaTable(path).to_pyarrow_table()["x"].to_pylist() == [77]
