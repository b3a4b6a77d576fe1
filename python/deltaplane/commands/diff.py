"""Computes the files in which two versions differ, column by column, without an object for each
file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deltaplane import _native

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["diff"]

_SHOWN = ("path", "size_bytes", "num_records")


def diff(before: _native.Snapshot, after: _native.Snapshot) -> pa.Table:
    """Files that only one of both versions has; a file with another deletion vector counts as
    another file (P042)."""
    import pyarrow as pa

    old, new = _files(before), _files(after)
    gone, come = (
        a.join(b.select(["path", "vector"]), ["path", "vector"], join_type="left anti") for a, b in _pairs(old, new)
    )
    change = pa.array(["removed"] * gone.num_rows + ["added"] * come.num_rows, pa.string())
    lines = pa.concat_tables([gone, come]).select([*_SHOWN, "deleted_rows"])
    return lines.add_column(0, "change", change).sort_by([("path", "ascending"), ("change", "descending")])


def _pairs(old: pa.Table, new: pa.Table) -> tuple[tuple[pa.Table, pa.Table], ...]:
    return (old, new), (new, old)


def _files(version: _native.Snapshot) -> pa.Table:
    """The live files with a text that identifies their vectors, empty without one, since nulls
    never join."""
    import pyarrow as pa
    import pyarrow.compute as pc

    files = pa.table(version.plan(None))
    vector = files["deletion_vector"].combine_chunks()
    parts = [pc.struct_field(vector, name) for name in ("storageType", "pathOrInlineDv", "offset")]
    texts = [pc.fill_null(part.cast(pa.string()), "") for part in parts]
    vector_id = pc.binary_join_element_wise(*texts, "@")
    deleted = pc.fill_null(pc.struct_field(vector, "cardinality"), 0)
    return files.select(list(_SHOWN)).append_column("vector", vector_id).append_column("deleted_rows", deleted)
