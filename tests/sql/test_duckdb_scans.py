"""DuckDB's own scans give the rows of deltaplane's reader for drawn tables: partitions, added,
renamed and widened columns, column mapping and deletion vectors, in every combination."""

from __future__ import annotations

import datetime as dt
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import deltaplane
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError
from deltaplane.expr.duckdb_values import bounds_hold_floats
from deltaplane.queries import running

NAN = float("nan")
UTC = dt.timezone.utc
# Values of a column by its name, which begins with a letter for its type.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "b": (pa.int8(), [-128, 127, 0, 5, None]),
    "s": (pa.int16(), [-32768, 32767, 0, 5, None]),
    "i": (pa.int32(), [-(2**31), 2**31 - 1, 0, 5, None]),
    "l": (pa.int64(), [-(2**63), 2**63 - 1, 0, 5, None]),
    "f": (pa.float32(), [NAN, -0.0, 0.0, 1.5, float("inf"), None]),
    "d": (pa.float64(), [NAN, -0.0, 0.0, 1e300, 1.5, -float("inf"), None]),
    "m": (pa.decimal128(7, 2), [Decimal("99999.99"), Decimal("-0.01"), Decimal(0), None]),
    "o": (pa.bool_(), [True, False, None]),
    "t": (pa.string(), ["", "a b", "é😀/=%", "A'b", "x*y[1]?", "__HIVE_DEFAULT_PARTITION__x", "5", None]),
    "x": (pa.binary(), [b"\xff\x00", b"a", b"1", None]),
    "y": (pa.date32(), [dt.date(1, 1, 1), dt.date(9999, 12, 31), dt.date(1969, 12, 31), None]),
    "z": (
        pa.timestamp("us", "UTC"),
        [dt.datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), dt.datetime(2024, 2, 29, tzinfo=UTC), None],
    ),
    "w": (pa.timestamp("us"), [dt.datetime(9999, 12, 31, 23, 59, 59, 999999), dt.datetime(1900, 1, 1), None]),
}
WIDER = {
    "b": ["SMALLINT", "BIGINT", "DOUBLE", "DECIMAL(12, 2)"],
    "s": ["INT", "DOUBLE"],
    "i": ["BIGINT", "DOUBLE"],
    "f": ["DOUBLE"],
    "m": ["DECIMAL(9, 2)", "DECIMAL(12, 4)"],
    "y": ["TIMESTAMP_NTZ"],
    "l": ["DECIMAL(22, 2)"],
}
CONDITIONS = (
    *("{c} IS NULL", "{c} IS NOT NULL", "{c} = (SELECT max({c}) FROM t)", "{c} > (SELECT min({c}) FROM t)"),
    "{c} <=> (SELECT min({c}) FROM t WHERE id > 3)",
)
COMPARED = {
    "b": "5",
    "s": "5",
    "i": "5",
    "l": "5",
    "f": "CAST(1.5 AS FLOAT)",
    "d": "CAST(1.5 AS DOUBLE)",
    "m": "0",
    "o": "true",
    "t": "'a b'",
    "x": "X'61'",
    "y": "DATE '1969-12-31'",
    "w": "TIMESTAMP_NTZ '1900-01-01 00:00:00'",
    "z": "TIMESTAMP '2024-02-29 00:00:00Z'",
}


@contextmanager
def scanned_by(monkeypatch: pytest.MonkeyPatch, *, duckdb: bool) -> Iterator[list[bool]]:
    """Whether DuckDB read each table itself, in the order of the queries; with `duckdb=False` it
    never does."""
    seen: list[bool] = []
    before = running.parquet_scan

    def scan(*args: Any) -> str | None:
        made = before(*args) if duckdb else None
        seen.append(made is not None)
        return made

    with monkeypatch.context() as patch:
        patch.setattr(running, "parquet_scan", scan)
        yield seen


def both(
    monkeypatch: pytest.MonkeyPatch, query: str, path: str, *, files: bool = True, signed_zeros: bool = True
) -> None:
    """Checks a query's rows by DuckDB's own scan against those by deltaplane's reader.

    Without `files` it may be that no file is relevant, and nothing is scanned. Without
    `signed_zeros` the result may have either zero: which of equal values is the least depends on
    the order of the rows.
    """
    with scanned_by(monkeypatch, duckdb=True) as seen:
        scanned = deltaplane.sql(query, tables={"t": path})
    with scanned_by(monkeypatch, duckdb=False):
        streamed = deltaplane.sql(query, tables={"t": path})
    # A version that misjudges NaN and signed zeros doesn't read the floats of drawn tables.
    assert not files or all(seen) or not bounds_hold_floats(), query
    assert scanned.schema.types == streamed.schema.types, query
    # Equal numbers can have different forms: only the text distinguishes -0.0, and NaN is itself.
    texts = [sorted(map(repr, result.to_pylist())) for result in (scanned, streamed)]
    if not signed_zeros:
        texts = [[text.replace("-0.0", "0.0") for text in result] for result in texts]
    assert texts[0] == texts[1], query


def rows(draw: random.Random, names: list[str], first: int, count: int) -> pa.Table:
    columns: dict[str, Any] = {"id": pa.array(range(first, first + count), pa.int64())}
    for name in names:
        data_type, values = VALUES[name[0]]
        columns[name] = pa.array([draw.choice(values) for _ in range(count)], data_type)
    return pa.table(columns)


def drawn_table(draw: random.Random, path: str) -> list[str]:
    """A table with a drawn history; returns its columns beside `id`."""
    kinds = draw.sample(list(VALUES), draw.randint(3, 7))
    names = [f"{kind}{number}" for number, kind in enumerate(kinds)]
    partitions = draw.sample(names, draw.choice([0, 0, 1, 1, 2]))
    mapping = draw.choice(["none", "name", "id"])
    properties = {"delta.enableDeletionVectors": "true", "delta.enableTypeWidening": "true"}
    if mapping != "none":
        properties["delta.columnMapping.mode"] = mapping
    data = rows(draw, names, 0, 6)
    write_deltalake(path, data, partition_by=partitions or None, configuration=properties)
    first = 6
    for _ in range(draw.randint(2, 6)):
        step = draw.choice(["append", "append", "delete", "add", "rename", "widen"])
        table = DeltaTable(path)
        if step == "delete":
            deltaplane.sql(f"DELETE FROM t WHERE id % {draw.randint(2, 5)} = {draw.randint(0, 1)}", tables={"t": path})
        elif step == "add":
            added = f"{draw.choice(list(VALUES))}{len(names) + first}"
            data_type = table_type(added)
            deltaplane.sql(f"ALTER TABLE t ADD COLUMNS ({added} {data_type})", tables={"t": path})
            names.append(added)
        elif step == "rename" and mapping != "none":
            old = draw.choice(names)
            new = f"{old[0]}{len(names) + first}r"
            deltaplane.sql(f"ALTER TABLE t RENAME COLUMN {old} TO {new}", tables={"t": path})
            names[names.index(old)] = new
            partitions = [new if name == old else name for name in partitions]
        elif step == "widen":
            types = table.schema().to_arrow()
            for name in names:
                if name in partitions or name[0] not in WIDER or types.field(name).type != VALUES[name[0]][0]:
                    continue
                to = draw.choice(WIDER[name[0]])
                deltaplane.sql(f"ALTER TABLE t ALTER COLUMN {name} TYPE {to}", tables={"t": path})
        count = draw.randint(1, 6)
        if step != "delete":
            write_deltalake(path, cast(rows(draw, names, first, count), path), mode="append")
            first += count
    return names


def table_type(name: str) -> str:
    return {
        "b": "TINYINT",
        "s": "SMALLINT",
        "i": "INT",
        "l": "BIGINT",
        "f": "FLOAT",
        "d": "DOUBLE",
        "o": "BOOLEAN",
        "m": "DECIMAL(7, 2)",
        "t": "STRING",
        "x": "BINARY",
        "y": "DATE",
        "z": "TIMESTAMP",
        "w": "TIMESTAMP_NTZ",
    }[name[0]]


def cast(data: pa.Table, path: str) -> pa.Table:
    """The rows in the table's present types."""
    types = DeltaTable(path).schema().to_arrow()
    columns = []
    for name in data.column_names:
        to = types.field(name).type
        values = data[name]
        if pa.types.is_decimal(to) and pa.types.is_integer(values.type):
            values = values.cast(pa.decimal128(19, 0))
        columns.append(values.cast(to, safe=False) if values.type != to else values)
    return pa.table(columns, names=data.column_names)


def queries(draw: random.Random, name: str) -> Iterator[str]:
    """Queries of a column: its values, groups, joins and some conditions."""
    yield f"SELECT {name}, count(*), max(id) FROM t GROUP BY {name}"
    yield f"SELECT a.id, b.id FROM t a JOIN t b ON a.{name} = b.{name} AND a.id < b.id"
    comparisons = [f"{name} {comparison} {COMPARED[name[0]]}" for comparison in ("=", "<", ">=", "<>")]
    conditions = [condition.format(c=name) for condition in CONDITIONS]
    for condition in draw.sample([*conditions, *comparisons, *(f"NOT ({c}) OR id = 2" for c in comparisons)], 4):
        yield f"SELECT id FROM t WHERE {condition}"


@pytest.mark.parametrize("seed", range(int(os.environ.get("DELTAPLANE_DRAWN_SCANS", "8"))))
def test_drawn_tables_have_the_rows_of_the_own_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    path = str(tmp_path / "a b%20")
    names = drawn_table(draw, path)
    both(monkeypatch, "SELECT * FROM t", path)
    both(monkeypatch, "SELECT count(*) FROM t WHERE id >= 0", path)
    for name in draw.sample(names, min(4, len(names))):
        query = f"SELECT min({name}), max({name}), count({name}) FROM t WHERE id > 1"
        both(monkeypatch, query, path, signed_zeros=False)
        for query in queries(draw, name):
            both(monkeypatch, query, path, files=False)


INSTANTS = [dt.datetime(1, 1, 1), dt.datetime(1969, 12, 31, 23, 59, 59, 5001), dt.datetime(2024, 3, 10, 9, 30), None]


@pytest.mark.parametrize("mixed", [False, True])
def test_instants_of_int96_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mixed: bool) -> None:
    """Also beside files with INT64, and in another time zone than UTC."""
    path = str(tmp_path / "t")
    data = pa.table({"id": range(4), "z": pa.array(INSTANTS, pa.timestamp("us", "UTC"))})
    replaced_by_pyarrow(path, data, use_deprecated_int96_timestamps=True, row_group_size=1)
    if mixed:
        write_deltalake(path, pa.table({"id": range(4, 8), "z": data["z"]}), mode="append")
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    try:
        both(monkeypatch, "SELECT * FROM t", path)
        for comparison in ("=", "<", ">="):
            both(monkeypatch, f"SELECT id FROM t WHERE z {comparison} TIMESTAMP '1969-12-31 23:59:59.005001Z'", path)
    finally:
        monkeypatch.undo()
        time.tzset()


def replaced_by_pyarrow(path: str, data: pa.Table, **options: Any) -> None:
    """A table with one file of pyarrow's writer."""
    write_deltalake(path, data)
    (file,) = DeltaTable(path).file_uris()
    size = Path(file).stat().st_size
    pq.write_table(data, file, **options)
    log = Path(path, "_delta_log", f"{0:020}.json")
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{Path(file).stat().st_size}'))
    for checksum in Path(path, "_delta_log").glob("*.crc"):
        checksum.unlink()


def test_files_without_field_ids_are_read_by_the_own_reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "t")
    data = pa.table({"id": [1, 2]})
    write_deltalake(path, data.slice(0, 0), configuration={"delta.columnMapping.mode": "id"})
    write_deltalake(path, data, mode="append")
    both(monkeypatch, "SELECT id FROM t", path)
    (file,) = DeltaTable(path).file_uris()
    pq.write_table(pq.read_table(file).replace_schema_metadata(None), file)
    stripped = pq.read_table(file)
    pq.write_table(pa.table(stripped.columns, names=stripped.column_names), file)
    with scanned_by(monkeypatch, duckdb=True) as seen, suppress(DeltaError):
        deltaplane.sql("SELECT id FROM t", tables={"t": path})
    assert not any(seen)


def test_rows_of_a_clone_with_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, clone = str(tmp_path / "a b%20"), str(tmp_path / "c")
    on = {"delta.enableDeletionVectors": "true"}
    write_deltalake(path, pa.table({"id": range(6), "t": list("aabbcc")}), partition_by=["t"], configuration=on)
    deltaplane.sql("DELETE FROM t WHERE id = 1", tables={"t": path})
    deltaplane.sql(f"CREATE TABLE delta.`{clone}` SHALLOW CLONE delta.`{path}`")
    deltaplane.sql("DELETE FROM t WHERE id IN (2, 4)", tables={"t": clone})
    assert all(Path(file).is_file() for file in DeltaTable(clone).file_uris())
    both(monkeypatch, "SELECT * FROM t", clone)
    both(monkeypatch, "SELECT * FROM t WHERE t > 'a'", clone)


def test_many_partitions_are_one_scan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of parts of the generated text doesn't grow with the number of partitions."""
    path = str(tmp_path / "t")
    on = {"delta.enableDeletionVectors": "true"}
    data = pa.table({"id": range(600), "p": [f"p {n % 30}" for n in range(600)]})
    write_deltalake(path, data, partition_by=["p"], configuration=on)
    deltaplane.sql("DELETE FROM t WHERE id % 70 = 0", tables={"t": path})
    texts: list[str] = []
    before = running.parquet_scan

    def noted(*args: Any) -> str | None:
        texts.append(before(*args) or "")
        return texts[-1] or None

    monkeypatch.setattr(running, "parquet_scan", noted)
    counted = deltaplane.sql("SELECT count(DISTINCT p) AS n, count(*) AS m FROM t WHERE id >= 0", tables={"t": path})
    assert counted.to_pylist() == [{"n": 30, "m": 600 - 9}]
    pruned = deltaplane.sql("SELECT id FROM t WHERE p = 'p 10' AND id >= 0", tables={"t": path})
    assert sorted(pruned["id"].to_pylist()) == [n for n in range(10, 600, 30) if n % 70]
    assert texts[0].count("read_parquet") == 2
    assert texts[1].count(".parquet'") == 1
