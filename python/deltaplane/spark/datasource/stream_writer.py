"""The data source's writer for streams, whose base class PySpark has from 4.1.

Uses only Spark's public Python API, so it also works on Spark Connect. Spark pickles the writer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from deltaplane import _native
from deltaplane.properties import CommitOperation
from deltaplane.spark.datasource.writers import WriteFiles

if TYPE_CHECKING:
    from deltaplane.io import records

__all__ = ["StreamWriter"]


class StreamWriter(WriteFiles, DataSourceStreamArrowWriter):
    """Writes the micro-batches of a query: commits each with its number, exactly once, however
    often Spark repeats it."""

    def __init__(
        self,
        location: str,
        store: dict[str, str] | None,
        schema: _native.TableSchema,
        request: records.WriteRequest,
        app_id: str,
        overwrite: bool,
    ) -> None:
        super().__init__(location, store, schema, request)
        self._app_id = app_id
        self._overwrite = overwrite

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Commits a micro-batch unless the table already contains it; an empty batch makes no
        version."""
        self.commit_files(messages, self._numbered(batchId), empty_too=self._overwrite)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Deletes the files of successful tasks, as far as possible."""
        self.abort_files(messages)

    def _numbered(self, batch_id: int) -> records.WriteRequest:
        commit = self.request.commit.with_fields(txn=[{"app_id": self._app_id, "version": batch_id}])
        mode = "complete" if self._overwrite else "append"
        update = CommitOperation.streaming_update(self._app_id, batch_id, mode)
        return self.request.with_fields(commit=commit, operation=update.request)
