"""Every admitted function filters rows in every place that accepts a condition, in scans and
commands alike, with one meaning."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr import functions as _functions  # noqa: F401 - fills the list of entries
from deltaplane.expr.program import compile_boolean
from deltaplane.expr.registry import ENTRIES
from deltaplane.expr.syntax import called, parse
from expr.cases import EXPRESSIONS
from expr.rows import table as rows_of_all_types

KEY = "row_number"


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> DeltaTable:
    path = str(tmp_path_factory.mktemp("filters") / "t")
    rows = rows_of_all_types(drawn=5)
    # The first column, since only the first columns have statistics.
    rows = rows.add_column(0, KEY, pa.array(range(rows.num_rows), pa.int64()))
    for start, length in ((0, 10), (10, 20), (30, rows.num_rows - 30)):
        write_deltalake(path, rows.slice(start, length), mode="append")
    return DeltaTable(path)


def expressions_by_function() -> dict[str, list[str]]:
    """The expressions for each function."""
    by_function: dict[str, list[str]] = {}
    for text in EXPRESSIONS:
        for name in called(parse(text)) & set(ENTRIES):
            by_function.setdefault(name, []).append(text)
    return by_function


def rows_of(batch: pa.RecordBatch, condition: str, schema_json: str) -> list[int] | None:
    """The rows that satisfy the compiled condition; None if it fails for a row."""
    try:
        met = compile_boolean(condition, schema_json).met(batch)
    except DeltaError:
        return None
    keys: list[int] = met.column(met.schema.get_field_index(KEY)).to_pylist()
    return sorted(keys)


def test_a_scan_takes_every_function(table: DeltaTable) -> None:
    cases = expressions_by_function()
    assert len(cases) > 200, "the list of cases has lost functions"
    for name, texts in sorted(cases.items()):
        scan = table.scan([KEY], f"{KEY} >= 7 AND ({texts[0]}) IS NOT NULL")
        assert scan.schema.names == [KEY], name


def test_all_readers_and_commands_find_the_rows_of_the_compiled_condition(table: DeltaTable) -> None:
    whole = table.to_pyarrow_table().combine_chunks().to_batches()[0]
    schema_json, judged = table.schema().to_json(), 0
    # Rows that a part of the condition excludes needn't be evaluated, so they can't fail.
    batch = whole.filter(pc.greater_equal(whole[KEY], 7))
    # All functions take the same path, so a sample of them suffices.
    for _, texts in sorted(expressions_by_function().items())[::30]:
        text = texts[0]
        condition = f"{KEY} >= 7 AND ({text}) IS NOT NULL"
        expected = rows_of(batch, condition, schema_json)
        if expected is None:
            continue
        judged += 1
        assert sorted(table.scan([KEY], condition).to_arrow()[KEY].to_pylist()) == expected, text
        assert sorted(table.to_pandas(columns=[KEY], filters=condition)[KEY]) == expected, text
        assert sorted(table.to_polars([KEY], condition)[KEY]) == expected, text
        assert sorted(table.to_reader([KEY], condition).read_all()[KEY].to_pylist()) == expected, text
        both = table.to_pyarrow_table(f"{KEY} >= 7", [KEY], filters=f"({text}) IS NOT NULL")
        assert sorted(both[KEY].to_pylist()) == expected, text
        result = table.delete(condition, dry_run=True)
        assert result.rows.get("numDeletedRows", 0) == len(expected), text
    assert judged > 4


def test_what_can_prune_prunes(table: DeltaTable) -> None:
    plan = table.plan(f"{KEY} < 10 AND upper(t1) = 'A'").read_all()
    assert plan.num_rows == 1 < table.plan().read_all().num_rows
    assert table.explain(f"{KEY} < 10 AND upper(t1) = 'A'").selected == 1


def test_columns_of_the_result_are_those_that_were_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"a": ["x", "Y", None], "b": [1, 2, 3], "c": [{"f": 1}, None, {"f": 3}]})
    write_deltalake(path, rows, configuration={"delta.enableChangeDataFeed": "true"})
    table, condition = DeltaTable(path), "upper(A) = 'Y' OR c.f + b = 6"
    assert table.scan(["b"], condition).to_arrow().to_pydict() == {"b": [2, 3]}
    assert table.scan(["b", "a"], condition).to_arrow().to_pydict() == {"b": [2, 3], "a": ["Y", None]}
    assert table.scan([], condition).to_arrow().num_rows == 2
    assert table.scan(None, condition).to_arrow().equals(table.to_pyarrow_table(filters="b > 1"))
    assert table.scan(["_row", "b"], condition).to_arrow().to_pydict() == {"_row": [1, 2], "b": [2, 3]}
    again = table.scan(["b"], condition)
    assert again.to_arrow() == again.to_arrow()
    readers = [again.to_reader(), again.to_reader()]
    assert [r.read_all()["b"].to_pylist() for r in readers] == [[2, 3], [2, 3]]
    feed = table.load_cdf(0, columns=["b"], predicate="upper(_change_type) = 'INSERT' AND lower(a) = 'y'")
    assert feed.to_arrow()["b"].to_pylist() == [2]
    assert [r.to_arrow()["b"].to_pylist() for r in table.tail(since=-1, predicate="lower(a) = 'y'")] == [[2]]
    with table.serializable_read("upper(a) = 'Y'"):
        pass


def test_a_row_that_fails_raises_a_typed_error_that_names_the_table(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"s": ["1", "no"]}))
    table = DeltaTable(path)
    for read in (
        lambda: table.scan(predicate="CAST(s AS INT) + 1 = 2").to_arrow(),
        lambda: list(table.scan(predicate="CAST(s AS INT) + 1 = 2")),
        lambda: table.to_polars(predicate="CAST(s AS INT) + 1 = 2"),
    ):
        with pytest.raises(InvalidArgumentError) as raised:
            read()
        assert raised.value.table is not None
    with pytest.raises(UnsupportedExpressionError, match="soundex"):
        table.scan(predicate="soundex(s) = 'x'")


def test_a_field_of_a_function_s_value_is_no_column_of_its_name(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"q": [1, 2], "n": [{"q": {"z": 5}}, {"q": {"z": 6}}]}))
    table = DeltaTable(path)
    for condition, rows in [
        ("named_struct('p', 5, 'q', q + 1).q = 2", [1]),
        ("named_struct('p', 5, 'q', q).q = 2 AND q > 0", [2]),
        ("n.q.z = 5", [1]),
        ("isnotnull(n.`q`.z) AND n.q.z > 5", [2]),
    ]:
        assert table.scan(["q"], condition).to_arrow()["q"].to_pylist() == rows, condition
        assert table.delete(condition, dry_run=True).rows["numDeletedRows"] == len(rows), condition
