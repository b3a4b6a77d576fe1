"""Double-quoted texts in the API's expressions: refused if a column may be meant, with both
spellings in the message."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError

NESTED = pa.struct([("f", pa.string())])
ROWS = pa.table(
    {
        "s": pa.array(["x", "y", None]),
        "Product.Id": pa.array(["x-0", "x-1", "x-2"]),
        "n": pa.array([{"f": "x"}, {"f": "y"}, None], NESTED),
        "v": pa.array([1, 2, 3], pa.int64()),
    }
)
# Conditions that a user of another library writes about columns, some of them misspelled.
UNCLEAR = [
    "\"s\" != 'x'",
    "\"S\" = 'x'",
    "\"Product.Id\" != 'x-1'",
    "\"n.f\" = 'x'",
    "\"n\".f = 'x'",
    '"n"."f" = \'x\'',
    "n.\"f\" = 'x'",
    "v > 1 AND \"s\" = 'x'",
    "v > 1 OR NOT \"s\" <=> 'x'",
    '"s" IS NOT NULL',
    "\"s\" IN ('x', 'z')",
    "\"s\" LIKE 'x%'",
    "\"s\" BETWEEN 'a' AND 'b'",
    "upper(\"s\") = 'X'",
    "startswith(\"s\", 'x')",
    'v = 1 AND s = "s"',
    "CASE WHEN \"s\" = 'x' THEN true ELSE false END",
    # No column has this name, so the condition has the same value for all rows.
    "\"typo\" != 'x'",
    "\"ty\" 'po' = 'x'",
    "v > 1 OR \"typo\" = 'x'",
    '"typo" IS NULL',
    "startswith(\"typo\", 't')",
    "lower(\"typo\") || 'x' = 'x'",
    "'x' = \"typo\"",
]
# Unambiguous texts keep Spark SQL's meaning.
CLEAR = {
    's = "x"': 1,
    's IN ("x", "y")': 2,
    's LIKE "x%"': 1,
    '`Product.Id` = "x-1"': 1,
    'n.f = "x"': 1,
    "1 = 1": 3,
    "true": 3,
    "'a' = 'a'": 3,
    "v > 1 OR 1 = 0": 2,
    'upper(s) = "X"': 1,
    "s = 'a \"typo\" here' OR v = 1": 1,
}


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    path = tmp_path / "t"
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(path), ROWS, configuration=feed)
    return DeltaTable(str(path))


def merged(table: DeltaTable, predicate: str, clause: str | None = None, value: str = "s.v") -> object:
    merger = table.merge(ROWS, predicate, source_alias="s", target_alias="t")
    return merger.when_matched_update({"v": value}, predicate=clause).execute()


def serializable(table: DeltaTable, condition: str) -> None:
    with table.serializable_read(condition):
        pass


USES: dict[str, Callable[[DeltaTable, str], Any]] = {
    "scan": lambda t, c: t.scan(predicate=c).to_arrow(),
    "filters": lambda t, c: t.to_pyarrow_table(filters=c),
    "partitions": lambda t, c: t.to_pyarrow_table(partitions=c),
    "to_pandas": lambda t, c: t.to_pandas(filters=c),
    "to_polars": lambda t, c: t.to_polars(predicate=c),
    "to_reader": lambda t, c: t.to_reader(predicate=c).read_all(),
    "plan": lambda t, c: t.plan(c).read_all(),
    "explain": lambda t, c: t.explain(c),
    "files": lambda t, c: t.files(c),
    "file_uris": lambda t, c: t.file_uris(file_pruning_predicate=c),
    "partitions of files": lambda t, c: t.partitions(c),
    "compact": lambda t, c: t.optimize.compact(partition_filters=c),
    "purge": lambda t, c: t.purge(partition_filters=c),
    "advise": lambda t, c: t.advise([c]),
    "load_cdf": lambda t, c: t.load_cdf(0, predicate=c).to_arrow(),
    "tail": lambda t, c: list(t.tail(since=-1, predicate=c)),
    "serializable_read": serializable,
    "delete": lambda t, c: t.delete(c),
    "update": lambda t, c: t.update({"v": "1"}, predicate=c),
    "overwrite": lambda t, c: write_deltalake(t, ROWS, mode="overwrite", predicate=c),
    "replace_on": lambda t, c: write_deltalake(t, ROWS, mode="overwrite", replace_on=c),
    "constraint": lambda t, c: t.alter.add_constraint({"c": c}),
    "merge": lambda t, c: merged(t, c),
    "merge clause": lambda t, c: merged(t, "t.v = s.v", clause=c),
    "sql select": lambda t, c: deltaplane.sql(f"SELECT * FROM t WHERE {c}", tables={"t": t}),
    "sql having": lambda t, c: deltaplane.sql(
        f"SELECT s, v, `Product.Id` FROM t GROUP BY ALL HAVING {c}", tables={"t": t}
    ),
    "sql delete": lambda t, c: deltaplane.sql(f"DELETE FROM t WHERE {c}", tables={"t": t}),
    "sql update": lambda t, c: deltaplane.sql(f"UPDATE t SET v = 1 WHERE {c}", tables={"t": t}),
    "sql subquery": lambda t, c: deltaplane.sql(
        f"DELETE FROM t WHERE v IN (SELECT v FROM t WHERE {c})", tables={"t": t}
    ),
}


@pytest.mark.parametrize("use", USES)
def test_every_use_refuses_unclear_conditions_and_changes_nothing(table: DeltaTable, use: str) -> None:
    for condition in UNCLEAR:
        if use == "sql having" and ("n.f" in condition or '"f"' in condition or '"n"' in condition):
            continue
        with pytest.raises((InvalidArgumentError, deltaplane.exceptions.SqlSyntaxError)) as raised:
            USES[use](table, condition)
        assert "`" in str(raised.value), condition
        if '".' not in condition and '."' not in condition:
            assert "in backticks for a column" in str(raised.value), condition
            assert "in single quotes for a text" in str(raised.value), condition
    assert DeltaTable(table.table_uri).version() == 0


def test_clear_conditions_mean_what_they_mean_in_spark_sql(table: DeltaTable) -> None:
    for condition, rows in CLEAR.items():
        assert table.scan(predicate=condition).to_arrow().num_rows == rows, condition
        assert table.to_pyarrow_table(filters=condition).num_rows == rows, condition
        result = deltaplane.sql(f"SELECT v FROM t WHERE {condition}", tables={"t": table})
        assert result.num_rows == rows, condition
        assert table.delete(condition, dry_run=True).rows["numDeletedRows"] == rows, condition


def test_new_values_in_double_quotes_are_texts_unless_a_column_has_the_name(table: DeltaTable) -> None:
    for value in ('"Product.Id"', 'upper("s")', '"v"', '"n.f"', 'coalesce(s, "S")'):
        for use in (
            lambda v: table.update({"s": v}),
            lambda v: deltaplane.sql(f"UPDATE t SET s = {v}", tables={"t": table}),
            lambda v: table.merge(ROWS, "t.v = a.v", "a", "t").when_matched_update({"s": v}).execute(),
            lambda v: table.merge(ROWS, "t.v = a.v", "a", "t").when_not_matched_insert({"s": v}).execute(),
            lambda v: deltaplane.sql(f"SELECT {v} FROM t", tables={"t": table}),
        ):
            with pytest.raises(InvalidArgumentError, match="in backticks for a column"):
                use(value)
    assert DeltaTable(table.table_uri).version() == 0
    table.update({"s": '"new"'}, predicate="v = 1")
    assert sorted(table.to_pyarrow_table(filters="v = 1")["s"].to_pylist()) == ["new"]


def test_a_constraint_that_another_engine_declared_keeps_its_meaning(table: DeltaTable) -> None:
    # Spark's meaning of the text: a row is refused if the column `s` is 'v', although a column has
    # this name.
    table.alter.add_constraint({"c": "s IS NULL OR s != 'v'"})
    log = Path(table.table_uri.removeprefix("file://")) / "_delta_log" / f"{table.version():020}.json"
    log.write_text(log.read_text().replace("s != 'v'", 's != \\"v\\"'))
    for checksum in log.parent.glob("*.crc"):
        checksum.unlink()
    again = DeltaTable(table.table_uri)
    with pytest.raises(deltaplane.exceptions.ConstraintViolationError):
        write_deltalake(again, ROWS.slice(0, 1).set_column(0, "s", pa.array(["v"])), mode="append")
    write_deltalake(again, ROWS.slice(0, 1), mode="append")
