"""GENERATE symlink_format_manifest: lists of the live files' addresses, by which engines without
Delta support read a table.

One list for each partition, in the directory in which Hive looks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote

from deltaplane import _native
from deltaplane.commands.progress import CareProgress, OnProgress
from deltaplane.exceptions import UnsupportedFeatureError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["generate"]

_FOLDER = "_symlink_format_manifest"


def generate(
    table: _native.Snapshot,
    options: dict[str, str] | None,
    progress: OnProgress | None = None,
    *,
    dry_run: bool = False,
) -> list[str]:
    """Writes the manifests of this version and deletes those of partitions without files; returns
    the written keys."""
    import pyarrow as pa

    if table.column_mapping != "none":
        raise UnsupportedFeatureError("engines that read by a manifest know no column mapping: rewrite the table")
    files = pa.table(table.plan(None)).select(["path", "deletion_vector"])
    if files["deletion_vector"].null_count < files.num_rows:
        raise UnsupportedFeatureError(
            "files of the table have deletion vectors, and engines that read by a manifest would show deleted rows: "
            "purge them first (purge, REORG … APPLY (PURGE))"
        )
    store = _native.RawStore.open(table.location, options)
    columns = len(table.info.partition_columns)
    manifests = _manifests(files["path"], table.uri, columns)
    if dry_run:
        return list(manifests)
    for number, (name, addresses) in enumerate(manifests.items(), 1):
        store.put(name, addresses)
        if progress is not None:
            progress(CareProgress("writing manifests", number, len(manifests)))
    for name, *_ in store.list_all(_FOLDER):
        if name not in manifests:
            store.delete(name)
    return list(manifests)


def _manifests(paths: pa.ChunkedArray, root: str, columns: int) -> dict[str, bytes]:
    """Each manifest's key and text: addresses of files, one a line."""
    import pyarrow as pa
    import pyarrow.compute as pc

    elsewhere = pc.match_substring_regex(paths, "^(/|[A-Za-z][A-Za-z0-9+.-]*:/)")
    address = pc.if_else(elsewhere, paths, pc.binary_join_element_wise(unquote(root).rstrip("/"), paths, "/"))
    if columns == 0:
        return {f"{_FOLDER}/manifest": _lines(address)}
    in_partitions = pc.match_substring_regex(paths, f"^([^/=]+=[^/]*/){{{columns}}}[^/]+$")
    if not pc.all(pc.and_not(in_partitions, elsewhere)).as_py():
        raise UnsupportedFeatureError(
            "files of the table don't lie in the directories of their partitions, where such engines look for values: "
            "rewrite the table"
        )
    directory = pc.replace_substring_regex(paths, "/?[^/]*$", "")
    table = pa.table({"directory": directory, "address": address}).sort_by("directory")
    runs = table["directory"].combine_chunks().value_counts()
    manifests, start = {}, 0
    for run in runs:
        count = run["counts"].as_py()
        manifests[f"{_FOLDER}/{run['values'].as_py()}/manifest"] = _lines(table["address"].slice(start, count))
        start += count
    return manifests


def _lines(addresses: pa.ChunkedArray) -> bytes:
    """Joins the addresses within Arrow, without an object for each."""
    import pyarrow as pa
    import pyarrow.compute as pc

    whole = addresses.combine_chunks()
    if len(whole) == 0:
        return b""
    text = pc.binary_join(pa.ListArray.from_arrays([0, len(whole)], whole), "\n")
    return str(text[0].as_py()).encode() + b"\n"
