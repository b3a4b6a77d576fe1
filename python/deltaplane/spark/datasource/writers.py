"""The data source's writer for a batch, and what it shares with the writer for streams: tasks write
files, and one commit adds them.

Uses only Spark's public Python API, so it also works on Spark Connect. Spark pickles the writers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from deltaplane import _native
from deltaplane.commands.row_rules import RuledRows
from deltaplane.exceptions import MetadataChangedException
from deltaplane.io.session_options import carried_for
from deltaplane.spark.execution.write_tasks import raise_refusal, write_unjudged
from deltaplane.write.declarations import check_declared

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.io import records

__all__ = ["BatchWriter", "WriteFiles"]

# The parts of a spec on which written files depend, including the position of identity columns and
# the row rules.
_LAYOUT = ("schema", "partition_columns", "mapping", "partition_columns_in_files", "identity", "row_rules")


@dataclass
class _Written(WriterCommitMessage):
    adds: _native.AddedFiles
    refusal: str | None
    # The table's layout at the time of writing.
    layout: tuple[object, ...]


class WriteFiles:
    """Writes the files of one write in tasks. The job can't be pickled to the committing process,
    which starts it again from the request."""

    def __init__(
        self,
        location: str,
        store: dict[str, str] | None,
        schema: _native.TableSchema,
        request: records.WriteRequest,
    ) -> None:
        import pyarrow as pa

        self._location = location
        self._store = store
        self._schema = schema
        self.request = request
        # The tasks' access to the store; received when it is unpickled.
        self._carried = carried_for([(location, store)])
        job = self._begin(request)
        self._spec = None if job.skip else job.spec
        self._now_us = time.time_ns() // 1000
        if self._spec is not None:
            # Refuses expressions that the embedded engine doesn't support before any task runs.
            check_declared(self._spec, location)
            none = pa.schema(schema).empty_table().to_reader()
            RuledRows(self._spec, none, location)

    def _begin(self, request: records.WriteRequest) -> _native.WriteJob:
        return _native.WriteJob.begin(self._location, self._store, self._schema, request)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Writes one task's rows to files."""
        if self._spec is None:
            return _Written(_native.AddedFiles.joined([]), None, ())
        adds, refusal = write_unjudged(self._location, self._store, self._spec, iterator, self._now_us)
        return _Written(adds, refusal, _layout(self._spec))

    def commit_files(
        self, messages: Sequence[WriterCommitMessage | None], request: records.WriteRequest, *, empty_too: bool
    ) -> None:
        """Commits the files of all tasks at once."""
        written = [m for m in messages if isinstance(m, _Written) and m.layout]
        adds = _native.AddedFiles.joined([m.adds for m in written])
        refusals = [m.refusal for m in written if m.refusal is not None]
        job = self._begin(request)
        if refusals or job.skip is not None:
            self._discard(adds)
            raise_refusal(refusals, self._location)
            return
        if any(m.layout != _layout(job.spec) for m in written):
            self._discard(adds)
            raise MetadataChangedException(
                "the table's columns, partitioning or rules for rows changed while the rows were written: write them again",
                table=self._location,
            )
        if adds or empty_too or job.spec.declares:
            job.commit(adds)

    def _discard(self, adds: _native.AddedFiles) -> None:
        _native.discard_files(self._location, self._store, adds)

    def abort_files(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Deletes the files of successful tasks, as far as possible."""
        self._discard(_native.AddedFiles.joined([m.adds for m in messages if isinstance(m, _Written)]))


class BatchWriter(WriteFiles, DataSourceArrowWriter):
    """One write."""

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commits the files of all tasks at once."""
        if self._spec is not None:
            self.commit_files(messages, self.request, empty_too=True)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Deletes the files of successful tasks, as far as possible."""
        self.abort_files(messages)


def _layout(spec: records.WriteSpec) -> tuple[object, ...]:
    return tuple(getattr(spec, field) for field in _LAYOUT)
