"""MERGE with files that keep columns byte for byte, and with rows of which only the needed columns
are read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.rows.test_merge import Merged, appends, merges
from api.rows.test_patched_update import ROWS, chunks, data, more_than_values
from deltaplane import DeltaTable, write_deltalake
from deltaplane.commands.merge import new_rows as command
from deltaplane.commands.rewriting import Rewriting
from deltaplane.exceptions import ConstraintViolationError, InvalidArgumentError
from deltaplane.table.merge import TableMerger
from interop.verifier import verify


@pytest.fixture
def patches(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of files that each command patched."""
    numbers: list[int] = []
    plain = Rewriting.patch

    def noted(job: Rewriting, rows: Any) -> None:
        plain(job, rows)
        numbers.append(len(job.native.patched_paths))

    monkeypatch.setattr(Rewriting, "patch", noted)
    return numbers


def merger(path: str, source: Any, on: str = "t.id = s.id") -> TableMerger:
    return DeltaTable(path).merge(source, on, source_alias="s", target_alias="t")


def changed(ids: list[int | None]) -> pa.Table:
    """New rows with the table's columns and these ids."""
    rows = data(len(ids))
    return rows.set_column(0, "id", pa.array(ids, pa.int64())).set_column(3, "amount", pa.array([-1.0] * len(ids)))


def expected(before: pa.Table, new: pa.Table) -> pa.Table:
    """The previous rows, replaced by new ones with the same id, and the remaining new rows."""
    stays = before.filter(pc.invert(pc.is_in(before.column("id"), new.column("id"))))
    return pa.concat_tables([stays, new]).sort_by("id")


def test_columns_that_keep_their_values_stay_as_they_are(tmp_path: Path, patches: list[int]) -> None:
    # P160
    path, whole = str(tmp_path), data()
    for part in range(3):
        rows = whole.set_column(0, "id", pa.array(np.arange(ROWS) + part * ROWS))
        write_deltalake(path, rows, mode="append")
    table = DeltaTable(path)
    before, files = table.to_pyarrow_table(), {Path(path) / name for name in table.files()}
    new = changed([5, 7, 2 * ROWS - 1, 3 * ROWS + 1, -1])
    done = merger(path, new).when_matched_update_all().when_not_matched_insert_all().execute()
    assert patches == [2]
    counts = [done[f"num_target_rows_{what}"] for what in ("updated", "inserted", "copied", "deleted")]
    assert counts == [3, 2, 2 * ROWS - 3, 0]
    assert (done["num_target_files_removed"], done["num_target_files_added"]) == (2, 3)
    assert DeltaTable(path).to_pyarrow_table().sort_by("id").equals(expected(before, new))
    now = {Path(path) / name for name in DeltaTable(path).files()}
    # The key is unchanged: its pages are those of the old files.
    old = sorted(chunks(file, "id")[0][0] for file in files - now)
    retained = sorted(chunks(file, "id")[0][0] for file in now - files if file.stat().st_size > 1 << 20)
    assert retained == old
    assert len(retained) == 2
    amounts = [chunks(file, "amount")[0][0] for file in files]
    assert all(chunks(file, "amount")[0][0] not in amounts for file in now - files)
    verify(path)


def test_clauses_change_their_own_columns(tmp_path: Path, patches: list[int]) -> None:
    path, whole = str(tmp_path), data()
    write_deltalake(path, whole)
    source = pa.table({"id": [1, 2, 3, 4, ROWS + 9], "number": [10, 20, None, 40, 50]})
    made = merger(path, source).when_matched_update({"number": "s.number + t.id"}, "s.id < 3")
    made = made.when_matched_update({"amount": "-2.0", "id": "s.id"}, "s.id = 3")
    made.when_not_matched_by_source_update({"text": "'none'"}, "t.id >= 59990").execute()
    assert patches == [1]
    after = DeltaTable(path).to_pyarrow_table().sort_by("id")
    assert after.column("number").to_pylist()[:5] == [
        None,
        11,
        22,
        whole.column("number")[3].as_py(),
        whole.column("number")[4].as_py(),
    ]
    assert [i for i, v in enumerate(after.column("amount").to_pylist()) if v == -2.0] == [3]
    assert [i for i, v in enumerate(after.column("text").to_pylist()) if v == "none"] == list(range(59990, ROWS))
    for name in ("id", "price", "at", "s", "l"):
        assert after.column(name).equals(whole.column(name)), name


@pytest.mark.parametrize("on", ["t.number = s.number", "t.number <=> s.number"])
def test_nulls_are_keys_where_they_equal_each_other(tmp_path: Path, patches: list[int], on: str) -> None:
    path, whole = str(tmp_path), data()
    write_deltalake(path, whole)
    first = whole.column("number")[1].as_py()
    source = pa.table({"number": pa.array([None, first], pa.int64()), "text": ["null", "one"]})
    done = merger(path, source, on).when_matched_update_all().execute()
    assert patches == [1]
    nulls = whole.column("number").null_count if "<=>" in on else 0
    assert done["num_target_rows_updated"] == 1 + nulls
    after = DeltaTable(path).to_pyarrow_table().sort_by("id")
    assert after.column("number").equals(whole.column("number"))
    assert after.column("text").to_pylist().count("null") == nulls
    assert after.column("text").to_pylist().count("one") == 1


def test_keys_that_are_equal_but_not_the_same_are_written(tmp_path: Path, patches: list[int]) -> None:
    path = str(tmp_path)
    write_deltalake(path, data().set_column(3, "amount", pa.array(np.append(np.arange(1, ROWS), 0.0))))
    source = pa.table({"amount": [-0.0], "id": [-7]})
    merger(path, source, "t.amount = s.amount").when_matched_update_all().execute()
    assert patches == [1]
    (row,) = DeltaTable(path).to_pyarrow_table(filters="id = -7").to_pylist()
    assert str(row["amount"]) == "-0.0"


@more_than_values
def test_where_more_than_values_changes_rows_are_written(
    tmp_path: Path, patches: list[int], properties: dict[str, str]
) -> None:
    path, whole = str(tmp_path), data()
    write_deltalake(path, whole, configuration=properties)
    new = changed([5, ROWS + 5])
    merger(path, new).when_matched_update_all().when_not_matched_insert_all().execute()
    assert patches == []
    assert DeltaTable(path).to_pyarrow_table().sort_by("id").equals(expected(whole, new))


def test_deleted_rows_and_moves_between_partitions_are_written(tmp_path: Path, patches: list[int]) -> None:
    path, whole = str(tmp_path), data().append_column("p", pa.array(["a"] * ROWS))
    write_deltalake(path, whole, partition_by="p")
    made = merger(path, pa.table({"id": [1, 2]})).when_matched_delete("s.id = 1")
    made.when_matched_update({"amount": "-3.0"}).execute()
    merger(path, pa.table({"id": [3], "p": ["b"]})).when_matched_update_all().execute()
    assert patches == []
    table = DeltaTable(path)
    assert table.to_pyarrow_table(filters="amount = -3.0").column("id").to_pylist() == [2]
    assert table.to_pyarrow_table(filters="p = 'b'").column("id").to_pylist() == [3]
    assert table.to_pyarrow_table().num_rows == ROWS - 1


def test_vectors_columns_and_rules_decide_for_each_file(tmp_path: Path, patches: list[int]) -> None:
    # P101, P123
    path, whole = str(tmp_path), data()
    write_deltalake(path, whole, configuration={"delta.enableDeletionVectors": "true"})
    DeltaTable(path).delete("id = 1")
    DeltaTable(path).alter.set_table_properties({"delta.enableDeletionVectors": "false"})
    write_deltalake(path, whole.set_column(0, "id", pa.array(np.arange(ROWS) + ROWS)), mode="append")
    DeltaTable(path).alter.add_constraint({"small": "amount < 2 OR id > 10"})
    before = DeltaTable(path).to_pyarrow_table()
    wrong = pa.table({"id": [5, ROWS + 5], "amount": [3.0, 3.0]})
    with pytest.raises(ConstraintViolationError, match="small"):
        merger(path, wrong).when_matched_update_all().execute()
    twice = pa.table({"id": [ROWS + 5, ROWS + 5], "amount": [0.0, 1.0]})
    with pytest.raises(InvalidArgumentError, match="MULTIPLE_SOURCE_ROW"):
        merger(path, twice).when_matched_update_all().execute()
    assert DeltaTable(path).to_pyarrow_table().equals(before)
    right = pa.table({"id": [6, ROWS + 6], "amount": [1.5, 3.0]})
    done = merger(path, right).when_matched_update_all().execute()
    assert patches == [1], "one file has deleted rows"
    assert (done["num_target_rows_updated"], done["num_target_rows_copied"]) == (2, 2 * ROWS - 3)
    after = DeltaTable(path).to_pyarrow_table()
    assert sorted(after.filter(pc.field("amount") > 1).column("id").to_pylist()) == [6, ROWS + 6]
    assert after.num_rows == 2 * ROWS - 1


class Patched(Merged):
    """The model, for commands whose dry run can't predict the files of the rows."""

    foretold = staticmethod(lambda result, commit: None)


@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(more=appends, steps=st.lists(merges, min_size=1, max_size=3))
def test_patched_merges_do_what_a_model_does(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, partitioned: bool, more: Any, steps: Any
) -> None:
    # Files of any size are patched.
    monkeypatch.setattr(command, "PATCHED_BYTES", 0)
    model = Patched(str(tmp_path_factory.mktemp("merge") / "t"), {}, partitioned)
    model.append([{"a": i % 4, "s": "ab"[i % 2], "f": float(i), "p": "xy"[i % 2]} for i in range(6)])
    model.append(more)
    for step in steps:
        model.merge(step)
        model.check()
    verify(model.table.location)
