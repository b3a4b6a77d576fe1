"""Arrow data from other programs: strings that aren't UTF-8, batches beyond 2 GiB, types outside of
Arrow's specification."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable, copy_into, write_deltalake
from deltaplane.exceptions import CorruptFileError, InvalidArgumentError, SchemaMismatchError

WORDS = [b"fine", b"also", b"good", b"caf\xe9", b"last"]


def _latin(words: list[bytes] = WORDS) -> pa.Array:
    """Bytes declared as a string, which no library on the way checks."""
    return pa.Array.from_buffers(pa.string(), len(words), pa.array(words, pa.binary()).buffers())


def test_copy_into_names_file_column_and_row(tmp_path: Path) -> None:
    source, table = tmp_path / "in", DeltaTable.create(str(tmp_path / "t"), pa.schema([("x", pa.string())]))
    source.mkdir()
    pq.write_table(pa.table({"x": ["a", "b"]}), source / "a.parquet")
    pq.write_table(pa.table({"x": _latin()}), source / "b.parquet")
    with pytest.raises(InvalidArgumentError, match=r"`x`.*in row 3: .*UTF-8.*`b\.parquet`"):
        copy_into(table, str(source), "parquet")
    assert DeltaTable(str(tmp_path / "t")).version() == 0
    assert [p for p in (tmp_path / "t").iterdir() if p.suffix == ".parquet"] == []


@pytest.mark.parametrize("encoding", ["dictionary", "plain", "DELTA_BYTE_ARRAY"])
def test_a_data_file_of_another_program_is_refused_by_column_and_row(encoding: str, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    rows = pa.table({"y": range(5), "s": pa.StructArray.from_arrays([pa.array(["a"] * 5)], ["x"])})
    write_deltalake(path, rows)
    (file,) = tmp_path.glob("t/*.parquet")
    other = pa.table({"y": range(5), "s": pa.StructArray.from_arrays([_latin()], ["x"])})
    encodings: dict[str, Any] = {"use_dictionary": encoding == "dictionary"}
    if encoding == "DELTA_BYTE_ARRAY":
        encodings["column_encoding"] = {"s.x": encoding, "y": "PLAIN"}
    pq.write_table(other, file, **encodings)
    # A dictionary is checked before the rows that refer to it.
    place = "the row group that begins with row 0" if encoding == "dictionary" else "row 3"
    for predicate in (None, "y > 1"):
        with pytest.raises(CorruptFileError, match=rf"`s\.x`.*in {place} of the file.*UTF-8"):
            DeltaTable(path).scan(predicate=predicate).to_arrow()
    assert DeltaTable(path).to_pyarrow_table(columns=["y"])["y"].to_pylist() == list(range(5))


@pytest.mark.slow
def test_more_than_two_gib_of_text_in_one_batch_is_written() -> None:
    # All views refer to one buffer of a mebibyte, so that neither the data nor its pieces take much
    # memory.
    rows, size = 2300, 1 << 20
    views = struct.pack("<i4sii", size, b"aaaa", 0, 0) * rows
    text = pa.Array.from_buffers(pa.string_view(), rows, [None, pa.py_buffer(views), pa.py_buffer(b"a" * size)])
    table = pa.table({"id": range(rows), "s": pa.StructArray.from_arrays([text], ["y"])})
    plan = write_deltalake("memory://arrow-input/big", table, dry_run=True)
    assert plan.rows["numOutputRows"] == rows


def test_types_that_only_their_library_knows_are_named(tmp_path: Path) -> None:
    frame = pl.DataFrame({"wide": pl.Series([1], dtype=pl.Int128), "y": [1]})
    with pytest.raises(SchemaMismatchError, match=r"`wide`.*Int128.*cast"):
        write_deltalake(str(tmp_path / "t"), frame)
    with pytest.raises(TypeError, match="one column and no table"):
        write_deltalake(str(tmp_path / "t"), pl.Series([1]))
    inner = pa.struct([("x\0y", pa.int64())])
    with pytest.raises(InvalidArgumentError, match="NUL"):
        write_deltalake(str(tmp_path / "t"), pa.table({"s": pa.nulls(1, inner)}))
    with pytest.raises(InvalidArgumentError, match="NUL"):
        DeltaTable.create(str(tmp_path / "t"), pa.schema([("s", inner)]))
    assert not DeltaTable.is_deltatable(str(tmp_path / "t"))


def test_properties_are_bools_and_numbers_too(tmp_path: Path) -> None:
    properties: dict[str, str | bool | int | None] = {
        "delta.appendOnly": True,
        "delta.checkpointInterval": 5,
        "owner": None,
    }
    write_deltalake(str(tmp_path / "t"), pa.table({"x": [1]}), configuration=properties)
    assert DeltaTable(str(tmp_path / "t")).metadata().configuration == {
        "delta.appendOnly": "true",
        "delta.checkpointInterval": "5",
    }
    with pytest.raises(InvalidArgumentError, match=r"delta\.appendOnly.*float"):
        write_deltalake(str(tmp_path / "u"), pa.table({"x": [1]}), configuration={"delta.appendOnly": 1.5})  # type: ignore[dict-item]
