"""The search itself: reads each object of a table and reports where a value is."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from deltaplane import _native
from deltaplane.commands.erasure.file_rows import Columns, matching_rows
from deltaplane.commands.erasure.report import ErasureReport, Place, Trace
from deltaplane.commands.erasure.search_terms import SearchTerms
from deltaplane.commands.erasure.table_objects import Inspected, StoredFile, TableObject, objects_of
from deltaplane.exceptions import CorruptFileError
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import os

__all__ = ["Search"]

_VACUUM = "VACUUM"
# VACUUM deletes objects of indexes that nothing has referred to for a day.
_INDEX_RETENTION_MS = 86_400_000
# Rows of a checkpoint that are searched at once.
_ROWS = 1000


class Search:
    """A search through one table."""

    def __init__(self, table: Inspected, terms: SearchTerms, cache_dir: str | os.PathLike[str] | None) -> None:
        self._snapshot = table._snapshot
        self._table = table
        self._terms = terms
        self._cache_dir = cache_dir
        self._store = _native.RawStore.open(table.location, table.storage_options)
        folder = self._snapshot.log_folder()
        self._log_retention = folder.log_retention_ms
        self._file_retention = folder.deleted_file_retention_ms
        self._cleans = folder.cleanup_enabled
        self._columns = Columns.of(self._snapshot, terms)
        rows = Scan(self._snapshot.add_actions(statistics=False)).to_arrow().to_pylist()
        self._live: dict[str, dict[str, str | None]] = {row["path"]: row.get("partition") or {} for row in rows}
        # Removed file → when, in milliseconds, and its partition values where the log has them.
        self._removed: dict[str, tuple[int | None, dict[str, str | None]]] = {}

    def run(self) -> ErasureReport:
        """Searches all objects, those of the log first: they say when files were removed."""
        objects = list(objects_of(self._store))
        traces: list[Trace] = []
        for item in objects:
            if item.kind in ("log text", "log parquet"):
                traces += self._in_log(item)
        for item in objects:
            if item.kind in ("data file", "change file"):
                traces += self._in_rows(item)
            traces += self._in_path(item)
        traces += [*self._in_index(objects), *self._in_cache()]
        unread = [item.path for item in objects if item.kind == "other"]
        # Files of a shallow clone are below another table's location.
        unread += sorted(self._live.keys() - {item.path for item in objects})
        table, version = self._snapshot.uri, self._snapshot.version
        return ErasureReport(table, version, self._terms.where, len(objects), traces, unread)

    def _in_log(self, item: TableObject) -> Iterator[Trace]:
        where: dict[Place, list[str]] = {}
        for document in self._documents(item):
            self._note_removed(document)
            for path in self._terms.in_json(document, self._columns.logical):
                paths = where.setdefault(_place(path), [])
                if path not in paths:
                    paths.append(path)
        for place, paths in where.items():
            until = item.modified_ms + self._log_retention if self._cleans else None
            following = "a later checkpoint, then the clean-up of the log"
            if not self._cleans:
                following = "nothing, while delta.enableExpiredLogCleanup is false: set it, then checkpoint"
            yield Trace(place, item.path, f"the value is in {', '.join(paths)}", until, following)

    def _documents(self, item: TableObject) -> Iterator[Any]:
        if item.kind == "log parquet":
            yield from self._rows_of_checkpoint(item)
            return
        text = self._store.read(item.path).decode("utf-8", "replace")
        for line in text.splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                # A whole text that is JSON, or text of another kind, such as a manifest.
                yield {"text": line}

    def _rows_of_checkpoint(self, item: TableObject) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with pq.ParquetFile(io.BufferedReader(StoredFile(self._store, item.path, item.size))) as file:
            for batch in file.iter_batches(_ROWS):
                yield from batch.to_pylist(maps_as_pydicts="lossy")

    def _note_removed(self, document: Any) -> None:
        removed = document.get("remove") if isinstance(document, dict) else None
        if isinstance(removed, dict) and isinstance(removed.get("path"), str):
            values = removed.get("partitionValues")
            moment = (removed.get("deletionTimestamp"), dict(values) if values else {})
            self._removed[unquote(removed["path"])] = moment

    def _in_rows(self, item: TableObject) -> Iterator[Trace]:
        partition = self._live.get(item.path)
        removed_ms, of_removed = self._removed.get(item.path, (None, {}))
        file = StoredFile(self._store, item.path, item.size)
        try:
            rows = matching_rows(file, item.path, self._columns, partition or of_removed)
        except CorruptFileError as e:
            yield Trace("unreferenced files", item.path, f"the file can't be read ({e})", None, _VACUUM)
            return
        if not rows:
            return
        what = f"{rows:,} rows match"
        if item.kind == "change file":
            yield Trace("change files", item.path, what, item.modified_ms + self._file_retention, _VACUUM)
        elif partition is None:
            is_known = item.path in self._removed
            since = removed_ms if removed_ms is not None else item.modified_ms
            place: Place = "older versions" if is_known else "unreferenced files"
            following = _VACUUM if is_known else "a full VACUUM"
            yield Trace(place, item.path, what, since + self._file_retention, following)
        else:
            yield from self._in_live_file(item, rows)

    def _in_live_file(self, item: TableObject, rows: int) -> Iterator[Trace]:
        shown = self._columns.visible_rows(self._snapshot, self._terms).get(item.path, 0)
        if shown:
            yield Trace("rows", item.path, f"{shown:,} rows match", None, "DELETE of these rows")
        if rows > shown:
            hidden = f"{rows - shown:,} deleted rows match, which a deletion vector hides"
            yield Trace("deleted rows", item.path, hidden, None, "REORG TABLE … APPLY (PURGE), then VACUUM")

    def _in_path(self, item: TableObject) -> Iterator[Trace]:
        segments = [unquote(segment) for segment in item.path.split("/")[:-1]]
        values = dict(segment.split("=", 1) for segment in segments if "=" in segment)
        if any(self._terms.in_json({"partitionValues": values}, self._columns.logical)):
            until = None if item.path in self._live else item.modified_ms + self._file_retention
            following = _VACUUM if until is not None else "DELETE of these rows, then VACUUM"
            yield Trace("partition values", item.path, "the value is a part of the path", until, following)

    def _in_index(self, objects: list[TableObject]) -> Iterator[Trace]:
        """Fingerprints of keys: none can be read from them, but one can be tested.

        Those of live files are of rows that are searched themselves. Others are in segments that
        cover removed files, and in objects that the newest manifest doesn't name.
        """
        stored = {item.path: item for item in objects if item.kind == "index"}
        manifests = sorted(path for path in stored if path.rpartition("/")[2].removesuffix(".json").isdigit())
        named = [segment for path in manifests[-1:] for segment in self._segments(stored[path])]
        searched = {value.column[-1].lower() for value in self._terms.values}
        indexes = self._snapshot.indexes()
        covers_removed = sum(segment["files"] for segment in named) > sum(index.covered_files for index in indexes)
        for index in indexes:
            if covers_removed and index.segments and any(column.lower() in searched for column in index.columns):
                named_columns = ", ".join(index.columns)
                what = f"fingerprints of {index.entries:,} values of {named_columns}, also of removed files"
                yield Trace("index", "_deltaplane_index", what, None, "table.index.build(rebuild=True), then VACUUM")
        for path in sorted(stored.keys() - {segment["path"] for segment in named}):
            if path.endswith(".keys"):
                until = stored[path].modified_ms + _INDEX_RETENTION_MS
                yield Trace("index", path, "fingerprints in an object that no index uses any more", until, _VACUUM)

    def _segments(self, manifest: TableObject) -> list[dict[str, Any]]:
        return [segment for document in self._documents(manifest) for segment in document.get("segments", [])]

    def _in_cache(self) -> Iterator[Trace]:
        from deltaplane.io.cache import cache_info

        if self._cache_dir is None and _native.cache_dir() is None:
            return
        usage = cache_info(self._cache_dir)
        table = usage.tables.get(self._snapshot.uri) or usage.tables.get(self._snapshot.location)
        if table is not None and table.entries:
            what = f"{table.entries:,} blocks of this table's files are cached on this machine"
            yield Trace("cache", str(Path(usage.path)), what, None, "deltaplane cache clear, on every machine")


def _place(path: str) -> Place:
    keys = path.split(".")
    if "partitionValues" in keys or "partitionValues_parsed" in keys:
        return "partition values"
    if keys[0] in ("add", "remove", "cdc", "stats", "allFiles"):
        return "statistics"
    return "commands" if keys[0] in ("commitInfo", "txn") else "metadata"
