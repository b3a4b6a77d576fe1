"""What deltalake's writers may choose, and tables of other programs then have: every codec of
Parquet that deltalake writes, and names of columns that Spark refuses (P116)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pytest

from deltaplane import DeltaTable, Field, WriterProperties, write_deltalake
from deltaplane.exceptions import InvalidArgumentError

CODECS = ["BROTLI", "GZIP", "LZ4", "LZ4_RAW", "SNAPPY", "UNCOMPRESSED", "ZSTD"]


@pytest.mark.parametrize("codec", CODECS)
def test_files_of_every_codec_are_read_and_rewritten(codec: Any, tmp_path: Path) -> None:
    where, rows = str(tmp_path / "t"), pa.table({"n": range(5000), "text": [f"row {n}" for n in range(5000)]})
    properties = deltalake.WriterProperties(compression=codec)
    deltalake.write_deltalake(where, rows, writer_properties=properties)
    table = DeltaTable(where)
    assert table.to_pyarrow_table().equals(rows)
    assert table.delete("n >= 10")["num_deleted_rows"] == 4990
    table.optimize.compact()
    assert table.to_pyarrow_table().equals(rows.slice(0, 10))
    assert deltalake.DeltaTable(where).to_pyarrow_table().equals(rows.slice(0, 10))


def test_a_codec_that_spark_lacks_is_refused_when_writing(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"BROTLI.*ZSTD"):
        write_deltalake(
            str(tmp_path / "t"), pa.table({"n": [1]}), writer_properties=WriterProperties(compression="BROTLI")
        )


def _added(table: DeltaTable, name: str) -> None:
    row = pa.table({"a b": [7], "s": [{"c;d": 8, name: 1}]})
    write_deltalake(table, row, mode="append", schema_mode="merge")


CHANGES: dict[str, Callable[[DeltaTable], object]] = {
    "append": lambda t: write_deltalake(t, pa.table({"a b": [3], "s": [{"c;d": 4}]}), mode="append"),
    "overwrite": lambda t: write_deltalake(t, pa.table({"a b": [3], "s": [{"c;d": 4}]}), mode="overwrite"),
    "delete": lambda t: t.delete("`a b` = 1"),
    "update": lambda t: t.update(updates={"a b": "3"}),
    "compact": lambda t: t.optimize.compact(),
    "add column": lambda t: t.alter.add_columns([Field("n", "long")]),
    "merged columns": lambda t: write_deltalake(
        t, pa.table({"a b": [3], "n": [4]}), mode="append", schema_mode="merge"
    ),
    "merged nested columns": lambda t: _added(t, "e"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_names_that_a_table_has_are_no_obstacle_to_a_change(change: str, tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    deltalake.write_deltalake(where, pa.table({"a b": [1], "s": [{"c;d": 2}]}))
    CHANGES[change](DeltaTable(where))
    ours = DeltaTable(where).to_pyarrow_table()
    assert "a b" in ours.column_names
    assert deltalake.DeltaTable(where).to_pyarrow_table().select(ours.column_names).to_pylist() == ours.to_pylist()


@pytest.mark.parametrize("name", ["x y", "x,y", "x;y", "x{y", "x(y", "x\ty", "x=y"])
def test_new_names_that_spark_refuses_are_refused_at_every_depth(name: str, tmp_path: Path) -> None:
    where = str(tmp_path / "t")
    deltalake.write_deltalake(where, pa.table({"a b": [1], "s": [{"c;d": 2}]}))
    table = DeltaTable(where)
    with pytest.raises(InvalidArgumentError, match="columnMapping"):
        _added(table, name)
    with pytest.raises(InvalidArgumentError, match="columnMapping"):
        write_deltalake(table, pa.table({"a b": [3], name: [4]}), mode="append", schema_mode="merge")
    with pytest.raises(InvalidArgumentError, match="columnMapping"):
        table.alter.add_columns([Field(name, "long")])
    with pytest.raises(InvalidArgumentError, match="columnMapping"):
        write_deltalake(table, pa.table({name: [4]}), mode="overwrite", schema_mode="overwrite")
    assert DeltaTable(where).version() == 0
