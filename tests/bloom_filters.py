"""What tests of Bloom filters share: which columns of a table's files have filters, and files whose
values are damaged so that only a reader that skips them succeeds."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlparse

import pyarrow.parquet as pq

from deltaplane import DeltaTable

__all__ = ["COLUMNS", "damage", "filtered", "live_files"]

COLUMNS = "deltaplane.parquet.bloomFilterColumns"


def live_files(path: str | Path) -> list[str]:
    """The local paths of a table's live data files."""
    uris = DeltaTable(path).file_uris()
    return [unquote(urlparse(uri).path) if "://" in uri else uri for uri in uris]


def filtered(file: str) -> set[str]:
    """The leaves of a Parquet file that have a filter in every row group."""
    footer = pq.read_metadata(file)
    assert footer.num_row_groups
    leaves: set[str] | None = None
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        chunks = [group.column(place) for place in range(group.num_columns)]
        has = {chunk.path_in_schema for chunk in chunks if chunk.bloom_filter_offset is not None}
        leaves = has if leaves is None else leaves & has
    return leaves or set()


def damage(file: str) -> None:
    """Overwrites the pages of all columns, but not the filters and the footer."""
    footer = pq.read_metadata(file)
    content = bytearray(Path(file).read_bytes())
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        for place in range(group.num_columns):
            chunk = group.column(place)
            offsets = (chunk.dictionary_page_offset, chunk.data_page_offset)
            start = min(offset for offset in offsets if offset is not None)
            content[start : start + chunk.total_compressed_size] = b"\xff" * chunk.total_compressed_size
    Path(file).write_bytes(content)
