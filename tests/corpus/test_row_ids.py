"""Row ids and row commit versions, against those that the reference engine showed (P143); and a
row's file and place."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deltaplane import DeltaTable
from deltaplane.exceptions import InvalidArgumentError

ROOT = Path(__file__).resolve().parents[2]
CORPUS = Path(os.environ.get("DELTAPLANE_SHARED", ROOT.parent / "shared")) / "corpus"

if not CORPUS.is_dir():
    pytest.skip("the corpus of tables isn't beside the checkout", allow_module_level=True)

CASES = sorted(p.parents[1].name for p in CORPUS.glob("*/expected/rowtracking.parquet"))


def in_order(rows: pa.Table) -> list[dict[str, object]]:
    return rows.sort_by("_row_id").to_pylist()


def test_the_corpus_has_materialised_and_other_ids() -> None:
    assert {"ref-rowtracking-materialised", "ref-rowtracking-enabled-later"} <= set(CASES)


@pytest.mark.parametrize("case", CASES)
def test_ids_are_the_reference_engine_s(case: str) -> None:
    expected = pq.read_table(CORPUS / case / "expected" / "rowtracking.parquet")
    table = DeltaTable(CORPUS / case / "table")
    assert in_order(table.scan(expected.column_names).to_arrow().cast(expected.schema)) == in_order(expected)
    # With a predicate the other columns of fewer rows are decoded: ids still follow from their
    # places.
    first = expected.column_names[0]
    if pa.types.is_integer(expected.schema.field(first).type):
        some = table.scan(["_row_id", "_row_commit_version", first], f"{first} > 5").to_arrow()
        wanted = [row for row in in_order(expected.select(some.column_names)) if (row[first] or 0) > 5]
        assert in_order(some) == wanted


def test_a_row_s_file_and_place() -> None:
    # P124: deleted rows are counted
    table = DeltaTable(CORPUS / "ref-dv-large-bitmaps" / "table")
    places = table.scan(["_file", "_row", "id"]).to_arrow()
    assert places["_file"].unique().to_pylist() == table.files()
    stored = pq.read_table(CORPUS / "ref-dv-large-bitmaps" / "table" / table.files()[0], columns=["id"])["id"]
    assert stored.take(places["_row"]).combine_chunks() == places["id"].combine_chunks().cast(stored.type)
    assert places.num_rows < len(stored)


def test_tables_without_ids_say_so() -> None:
    with pytest.raises(InvalidArgumentError, match=r"delta\.enableRowTracking"):
        DeltaTable(CORPUS / "ref-dv-inline" / "table").scan(["_row_id"])
