"""The source of a merge builder that may be executed several times: data in memory is read again, a
stream is refused, since it would return no rows the second time.

Uses no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.arrow import as_reader, reads_again

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MergeSource"]


class MergeSource:
    """The caller's data.

    Raises:
        TypeError: the data isn't Arrow data.

    >>> import pyarrow as pa
    >>> source = MergeSource(pa.table({"x": [1]}))
    >>> [source.reader().read_all().num_rows for _ in range(2)]
    [1, 1]
    """

    def __init__(self, data: Any) -> None:
        self._data = data
        self._reader = as_reader(data)
        self._is_used = False

    def reader(self) -> pa.RecordBatchReader:
        """All rows from the start.

        Raises:
            InvalidArgumentError: the data is a stream that was already read.
        """
        import pyarrow as pa

        if self._is_used:
            if not reads_again(self._data):
                raise InvalidArgumentError(
                    "the merge's source is a stream, which was read when the merge was executed before (a dry run and a failed "
                    "merge read it too): begin a new merge with the rows, or give them as a table in memory"
                )
            return as_reader(self._data)
        return pa.RecordBatchReader.from_batches(self._reader.schema, self._taken())

    def _taken(self) -> Iterator[pa.RecordBatch]:
        self._is_used = True
        yield from self._reader
