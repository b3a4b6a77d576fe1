"""MERGE: the statement calls the builder of `DeltaTable.merge` with its clauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, sql, write_deltalake
from deltaplane.exceptions import InvalidArgumentError, SqlSyntaxError

SOURCE = pa.table({"k": ["a"], "v": [1], "s": [{"x": 1}]})


class Recorder:
    """Replaces `DeltaTable.merge` and its builder; records the calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []

    def __call__(self, table: DeltaTable, *args: Any, **named: Any) -> Recorder:
        self.calls.append(("merge", args, named))
        return self

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("when_"):
            raise AttributeError(name)

        def call(*args: Any, **named: Any) -> Recorder:
            self.calls.append((name, args, named))
            return self

        return call

    def execute(self) -> dict[str, Any]:
        return {
            "num_target_rows_updated": 1,
            "num_target_rows_inserted": 2,
            "num_target_rows_deleted": 3,
            "num_output_rows": 3,
        }


@pytest.fixture
def path(tmp_table: Callable[[], str]) -> str:
    where = tmp_table()
    write_deltalake(where, pa.table({"k": ["a"], "v": [1], "s": [{"x": 1}]}))
    sql("ALTER TABLE t ALTER COLUMN v SET DEFAULT 7", tables={"t": where})
    return where


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Recorder:
    made = Recorder()
    monkeypatch.setattr(DeltaTable, "merge", lambda table, *a, **b: made(table, *a, **b), raising=False)
    return made


def clauses(recorder: Recorder, path: str, text: str) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
    sql(f"MERGE INTO t USING s ON t.k = s.k {text}", tables={"t": path, "s": SOURCE})
    return recorder.calls[1:]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("WHEN MATCHED THEN DELETE", [("when_matched_delete", (None,), {})]),
        ("WHEN MATCHED AND s.v > 1 THEN UPDATE SET *", [("when_matched_update_all", ("s.v > 1",), {"except_cols": None})]),
        ("WHEN MATCHED THEN UPDATE SET * EXCEPT (k, V)", [("when_matched_update_all", (None,), {"except_cols": ["k", "V"]})]),
        (
            "WHEN MATCHED AND t.v < s.v THEN UPDATE SET t.v = s.v + t.v, `k` = 'it''s', s.x = 5, v2 = DEFAULT",
            None,
        ),
        (
            "WHEN MATCHED THEN UPDATE SET t.v = DEFAULT, s.x = DEFAULT",
            [("when_matched_update", ({"v": "CAST((7) AS long)", "s.x": "NULL"}, None), {})],
        ),
        (
            "WHEN NOT MATCHED THEN INSERT (k, t.v) VALUES (upper(s.k), DEFAULT)",
            [("when_not_matched_insert", ({"k": "upper(s.k)", "v": "CAST((7) AS long)"}, None), {})],
        ),
        ("WHEN NOT MATCHED BY TARGET AND s.k > 'a' THEN INSERT *", [("when_not_matched_insert_all", ("s.k > 'a'",), {"except_cols": None})]),
        ("WHEN NOT MATCHED THEN INSERT * EXCEPT (s)", [("when_not_matched_insert_all", (None,), {"except_cols": ["s"]})]),
        ("WHEN NOT MATCHED BY SOURCE THEN DELETE", [("when_not_matched_by_source_delete", (None,), {})]),
        (
            "WHEN NOT MATCHED BY SOURCE AND t.v = 1 THEN UPDATE SET v = t.v * -1",
            [("when_not_matched_by_source_update", ({"v": "t.v * -1"}, "t.v = 1"), {})],
        ),
        (
            "WHEN MATCHED AND s.v = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *;",
            [
                ("when_matched_delete", ("s.v = 1",), {}),
                ("when_matched_update", ({"v": "s.v"}, None), {}),
                ("when_not_matched_insert_all", (None,), {"except_cols": None}),
            ],
        ),
    ],
)  # fmt: skip
def test_clauses(recorder: Recorder, path: str, text: str, calls: list[Any] | None) -> None:
    if calls is None:
        with pytest.raises(InvalidArgumentError, match="no column `v2`"):
            clauses(recorder, path, text)
        return
    assert clauses(recorder, path, text) == calls


def test_table_source_and_numbers(recorder: Recorder, path: str) -> None:
    text = f"""MERGE WITH SCHEMA EVOLUTION INTO delta.`{path}` AS tgt
        USING (SELECT k, max(v) AS v FROM s GROUP BY k) AS src (k, w) ON tgt.k = src.k AND src.w > 0
        WHEN MATCHED THEN UPDATE SET tgt.v = src.w"""
    (done,) = sql(text, tables={"s": SOURCE}).to_pylist()
    ((_, (source, condition), named), (_, (values, _), _)) = recorder.calls
    assert source.read_all().to_pydict() == {"k": ["a"], "w": [1]}
    assert (condition, values) == ("tgt.k = src.k AND src.w > 0", {"v": "src.w"})
    assert named == {"source_alias": "src", "target_alias": "tgt", "merge_schema": True}
    assert (
        done["num_affected_rows"],
        done["num_updated_rows"],
        done["num_deleted_rows"],
        done["num_inserted_rows"],
    ) == (6, 1, 3, 2)


def test_names_are_aliases_where_none_is_given(recorder: Recorder, path: str) -> None:
    sql(
        f"MERGE INTO t USING delta.`{path}` VERSION AS OF 0 AS old ON t.k = old.k WHEN MATCHED THEN DELETE",
        tables={"t": path},
    )
    _, (source, _), named = recorder.calls[0]
    assert source.read_all().num_rows == 1
    assert named == {"source_alias": "old", "target_alias": "t", "merge_schema": False}
    recorder.calls.clear()
    sql(f"MERGE INTO delta.`{path}` USING s ON k = s.k WHEN MATCHED THEN DELETE", tables={"s": SOURCE})
    assert recorder.calls[0][2] == {"source_alias": "s", "target_alias": None, "merge_schema": False}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "column 34: expected WHEN, found the end"),
        ("WHEN MATCHED THEN INSERT *", "column 53: expected UPDATE or DELETE, found `INSERT`"),
        ("WHEN NOT MATCHED THEN DELETE", "column 57: expected INSERT, found `DELETE`"),
        ("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "expected a column's name, found `*`"),
        ("WHEN NOT MATCHED BY x THEN INSERT *", "expected TARGET or SOURCE, found `x`"),
        ("WHEN NOT MATCHED THEN INSERT (k, v) VALUES (1)", "expected 2 values, found 1"),
        ("WHEN MATCHED THEN DELETE WHEN MATCHED AND s.v = 1 THEN DELETE", "column 35: expected a condition: only the last WHEN MATCHED"),
        ("WHEN MATCHED THEN UPDATE SET v = 1, V = 2", "gets two values"),
    ],
)  # fmt: skip
def test_wrong_merges(recorder: Recorder, path: str, text: str, said: str) -> None:
    with pytest.raises(InvalidArgumentError) as wrong:
        clauses(recorder, path, text)
    assert said in str(wrong.value)
    assert "execute" not in [name for name, _, _ in recorder.calls]


def test_a_join_is_no_source(path: str) -> None:
    with pytest.raises(SqlSyntaxError, match="query in parentheses"):
        sql("MERGE INTO t USING (a JOIN b ON a.x = b.x) ON true WHEN MATCHED THEN DELETE", tables={"t": path})


def rows(path: str) -> list[tuple[str, int]]:
    table_rows = DeltaTable(path).to_pyarrow_table().to_pylist()
    return sorted((row["k"], row["v"]) for row in table_rows)


def test_it_merges(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"k": ["a", "b", "c"], "v": [1, 2, 3]}))
    text = f"""MERGE INTO delta.`{path}` t USING (SELECT k, v * 10 AS v FROM s) s ON t.k = s.k
        WHEN MATCHED AND s.v > 50 THEN DELETE WHEN MATCHED THEN UPDATE SET v = t.v + s.v
        WHEN NOT MATCHED THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.v = 3 THEN UPDATE SET v = -t.v"""
    (done,) = sql(text, tables={"s": pa.table({"k": ["a", "b", "z"], "v": [1, 9, 5]})}).to_pylist()
    assert (done["num_affected_rows"], done["num_inserted_rows"], done["version"]) == (4, 1, 1)
    assert rows(path) == [("a", 11), ("c", -3), ("z", 50)]


def test_a_star_needs_every_column(tmp_table: Callable[[], str]) -> None:
    path = tmp_table()
    write_deltalake(path, pa.table({"k": ["a"], "v": [1]}))
    lacking = {"t": path, "s": pa.table({"K": ["a", "b"], "more": [0, 0]})}
    for action in ("MATCHED THEN UPDATE SET *", "NOT MATCHED THEN INSERT *"):
        with pytest.raises(InvalidArgumentError, match="no column `v`"):
            sql(f"MERGE INTO t USING s ON t.k = s.k WHEN {action}", tables=lacking)
        sql(f"MERGE INTO t USING s ON t.k = s.k WHEN {action} EXCEPT (v)", tables=lacking)
    assert sorted(DeltaTable(path).to_pyarrow_table()["k"].to_pylist()) == ["a", "b"]
    evolving = "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON t.k = s.k WHEN MATCHED THEN UPDATE SET *"
    sql(evolving, tables=lacking)
    assert DeltaTable(path).to_pyarrow_table()["more"].to_pylist() == [0, 0]


def test_rows_are_merged(tmp_table: Callable[[], str]) -> None:
    where = tmp_table()
    write_deltalake(where, pa.table({"k": ["a", "b", "c"], "v": [1, 2, 3]}))
    tables = {"t": where, "s": pa.table({"k": ["a", "d"], "v": [10, 40]})}
    text = """MERGE INTO t USING s ON t.k = s.k
        WHEN MATCHED THEN UPDATE SET v = t.v + s.v
        WHEN NOT MATCHED THEN INSERT *
        WHEN NOT MATCHED BY SOURCE AND t.k = 'c' THEN DELETE"""
    (done,) = sql(text, tables=tables).to_pylist()
    counts = {name: done[name] for name in list(done)[:4]}
    assert counts == {"num_affected_rows": 3, "num_updated_rows": 1, "num_deleted_rows": 1, "num_inserted_rows": 1}
    assert sql("SELECT * FROM t ORDER BY k", tables=tables).to_pydict() == {"k": ["a", "b", "d"], "v": [11, 2, 40]}
    with pytest.raises(InvalidArgumentError, match=r"^line 1, column 25: .*`t.nope`"):
        sql("MERGE INTO t USING s ON t.nope = s.k WHEN MATCHED THEN DELETE", tables=tables)
    assert DeltaTable(where).version() == 1
