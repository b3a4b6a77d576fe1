"""Bounds of floating-point columns in the files of every writer: readers that prune row groups and
pages by them find NaN, which Spark orders above all numbers, and both zeros. Also defines the rows
of the same test on Spark."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from pathlib import Path

import deltalake
import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, convert_to_deltalake, copy_into, write_deltalake
from deltaplane.properties import WriterProperties

FLOATS = {"x": "double", "f": "float", "s.x": "double", "s.f": "float"}
NAN = math.nan
# The content of each file. The last one has no dictionary and three pages, one of which has the
# NaN.
CHUNKS: list[list[float | None]] = [
    [0.0, NAN, None],
    [5.0, NAN, 5.0],
    [NAN, NAN],
    [math.copysign(NAN, -1.0), -1.0],
    [-0.0, -0.0],
    [0.0, 0.0],
    [-0.0, 0.0, 1.0, -1.0],
    [math.inf, -math.inf, NAN],
    [1.0, 2.0, 6.0],
    [None, None],
    [NAN if i == 25_000 else -0.0 if i == 7 else float(i - 30_000) for i in range(50_000)],
]
# `{0}` is replaced by a column, `{1}` by its type.
CONDITIONS = [
    *(f"{{0}} = {{1}}({value})" for value in ("5", "0.0", "-0.0", "'NaN'", "'Infinity'")),
    *(f"{{0}} {op} {{1}}({value})" for op in ("<>", ">", ">=", "<=") for value in ("5", "-0.0", "0.0")),
    "{0} > {1}('Infinity')",
    "{0} < {1}('NaN')",
    "{0} >= {1}('NaN')",
    "{0} <=> {1}(0.0)",
    "NOT ({0} <= {1}(5))",
    "NOT ({0} = {1}(5))",
    "{0} IN ({1}('NaN'), {1}(1))",
    "{0} IN ({1}(0.0), {1}(1), NULL)",
    "{0} NOT IN ({1}(5), {1}(0.0))",
    "{0} BETWEEN {1}(5) AND {1}('NaN')",
    "{0} IS NULL OR {0} > {1}(40000)",
    "{0} > {1}(30000) AND k >= 0",
]


def all_rows() -> pa.Table:
    """`c` numbers the chunks, `k` the rows."""
    parts = []
    for c, values in enumerate(CHUNKS):
        doubles, floats = pa.array(values, pa.float64()), pa.array(values, pa.float32())
        k = pa.array(range(len(values)), pa.int64())
        s = pa.StructArray.from_arrays([doubles, floats], ["x", "f"])
        parts.append(pa.table({"k": k, "x": doubles, "f": floats, "s": s, "c": pa.repeat(c, len(values))}))
    return pa.concat_tables(parts)


# --- writers: each leaves a table of these rows at a path, with a file for each chunk ---


def _write(path: str, rows: pa.Table) -> None:
    write_deltalake(path, rows, partition_by=["c"], mode="append")


def _each(path: str, rows: pa.Table) -> None:
    for c in range(len(CHUNKS)):
        write_deltalake(path, rows.filter(pa.compute.equal(rows["c"], c)), mode="append")


def _row_groups(path: str, rows: pa.Table) -> None:
    small = WriterProperties(max_row_group_size=2)
    write_deltalake(path, rows.slice(0, rows.num_rows - len(CHUNKS[-1])), partition_by=["c"], writer_properties=small)
    _write(path, rows.slice(rows.num_rows - len(CHUNKS[-1])))


def _with_rule(path: str, rows: pa.Table) -> None:
    DeltaTable.create(path, pa.schema([rows.schema.field(0).with_nullable(False), *list(rows.schema)[1:]]))
    _each(path, rows)


def _merge(path: str, rows: pa.Table) -> None:
    table = DeltaTable.create(path, rows.schema, partition_by=["c"])
    merge = table.merge(rows, "t.k = s.k AND t.c = s.c", source_alias="s", target_alias="t")
    merge.when_not_matched_insert_all().execute()


def _merge_update(path: str, rows: pa.Table) -> None:
    _write(path, rows.set_column(1, "x", pa.array([1.0] * rows.num_rows)))
    merge = DeltaTable(path).merge(rows, "t.k = s.k AND t.c = s.c", source_alias="s", target_alias="t")
    merge.when_matched_update({"x": "s.x"}).execute()


def _update(path: str, rows: pa.Table) -> None:
    _write(path, rows)
    DeltaTable(path).update({"x": "-(-x)", "f": "-(-f)"}, predicate="k % 3 = 0")


def _update_another(path: str, rows: pa.Table) -> None:
    _write(path, rows)
    DeltaTable(path).update({"k": "k + 0"}, predicate="k % 3 = 0")


def _delete(path: str, rows: pa.Table) -> None:
    _write(path, pa.concat_tables([rows, rows.set_column(0, "k", pa.repeat(-1, rows.num_rows))]))
    DeltaTable(path).delete("k = -1")


def _optimize(path: str, rows: pa.Table) -> None:
    odd = pa.compute.equal(pa.compute.bit_wise_and(rows["k"], 1), 1)
    _write(path, rows.filter(odd))
    _write(path, rows.filter(pa.compute.invert(odd)))
    DeltaTable(path).optimize.compact()


def _z_order(path: str, rows: pa.Table) -> None:
    _write(path, rows)
    DeltaTable(path).optimize.z_order(["k"])


def write_files(rows: pa.Table, folder: Path) -> None:
    """pyarrow leaves NaN out of the bounds in footers and page indexes."""
    for c in range(len(CHUNKS)):
        (folder / f"c={c}").mkdir(parents=True)
        own = rows.filter(pa.compute.equal(rows["c"], c)).drop_columns(["c"])
        pq.write_table(own, folder / f"c={c}" / "a.parquet", write_page_index=True)


def _copy_into(path: str, rows: pa.Table) -> None:
    folder = Path(path).parent / "loaded"
    write_files(rows, folder)
    DeltaTable.create(path, rows.schema, partition_by=["c"])
    for c in range(len(CHUNKS)):
        own = folder / f"c={c}" / "a.parquet"
        pq.write_table(pq.ParquetFile(own).read().append_column("c", pa.repeat(c, len(CHUNKS[c]))), own)
        copy_into(path, own.parent, "parquet")


def _convert(path: str, rows: pa.Table) -> None:
    write_files(rows, Path(path))
    convert_to_deltalake(path, partition_by=pa.schema([("c", pa.int64())]), partition_strategy="hive")


def _convert_and_update(path: str, rows: pa.Table) -> None:
    _convert(path, rows)
    DeltaTable(path).update({"k": "k + 0"}, predicate="k >= 0")


def _by_deltalake(path: str, rows: pa.Table) -> None:
    deltalake.write_deltalake(path, rows, partition_by=["c"])


Writer = Callable[[str, pa.Table], None]
OURS: dict[str, Writer] = {
    "append": _each,
    "partitioned append": _write,
    "row groups": _row_groups,
    "table with a rule": _with_rule,
    "MERGE that inserts": _merge,
    "MERGE that updates": _merge_update,
    "UPDATE": _update,
    "UPDATE of another column": _update_another,
    "UPDATE of pyarrow's files": _convert_and_update,
    "DELETE": _delete,
    "OPTIMIZE": _optimize,
    "ZORDER": _z_order,
    "COPY INTO": _copy_into,
}
THEIRS: dict[str, Writer] = {"CONVERT": _convert, "deltalake": _by_deltalake}


def files(path: str) -> list[str]:
    return [uri.removeprefix("file://") for uri in DeltaTable(path).file_uris()]


def expected(connection: duckdb.DuckDBPyConnection, condition: str, where: str = "held") -> int:
    """The number of matching rows by DuckDB, which orders NaN and zeros as Spark does: of a table
    in memory, which has no bounds that could be wrong, or of Parquet files."""
    text = re.sub(r"(double|float)\(([^)]*)\)", r"CAST(\2 AS \1)", condition).replace("<=>", "IS NOT DISTINCT FROM")
    row = connection.execute(f"SELECT count(*) FROM {where} WHERE {text}").fetchone()
    assert row is not None
    return int(row[0])


@pytest.fixture(scope="module")
def memory() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("given", all_rows())
    connection.execute("CREATE TABLE held AS SELECT * FROM given")
    return connection


@pytest.mark.parametrize("writer", OURS | THEIRS)
def test_every_row_is_found(writer: str, memory: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    # P168, Q4
    path = str(tmp_path / "t")
    (OURS | THEIRS)[writer](path, all_rows())
    table = DeltaTable(path)
    if writer in OURS:
        assert_bounds_hold(memory, files(path))
    for column in ("x", "s.f"):
        for condition in CONDITIONS:
            asked = condition.format(column, FLOATS[column])
            right = expected(memory, asked)
            assert table.scan(columns=["k"], predicate=asked).to_arrow().num_rows == right, asked
            if writer in OURS:
                assert expected(memory, asked, f"read_parquet({files(path)})") == right, asked


def assert_bounds_hold(connection: duckdb.DuckDBPyConnection, paths: list[str]) -> None:
    """Footers and page indexes have bounds exactly if no value is NaN."""
    bounded = set()
    for path in paths:
        parquet = pq.ParquetFile(path)
        said = connection.execute(
            "SELECT row_group_id, column_id, replace(path_in_schema, ', ', '.'), stats_min_value, stats_max_value "
            "FROM parquet_metadata(?)",
            [path],
        ).fetchall()
        for group, number, column, low, high in said:
            if column not in FLOATS:
                continue
            values = parquet.read_row_group(group).flatten()[column].drop_null().to_pylist()
            indexed = parquet.metadata.row_group(group).column(number).has_column_index
            if any(map(math.isnan, values)):
                assert (low, high, indexed) == (None, None, False), (path, column)
            # DuckDB doesn't report infinite bounds.
            elif values and all(map(math.isfinite, values)):
                bounded.add(column)
                assert indexed, (path, column)
                assert float(low) <= min(values) <= max(values) <= float(high), (path, column)
                # A bound of zero covers both zeros.
                assert (low == "0.0", high == "-0.0") == (False, False), (path, column)
    assert bounded == FLOATS.keys()
