"""The rows of a query for one write, computed while they are written, so that they need no more
memory than the query's limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr.storing import in_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane.queries.results.query_result import QueryResult

__all__ = ["StreamedRows"]


class StreamedRows:
    """Rows with new column names, and constants in further columns; `num_rows` counts those that
    were read."""

    def __init__(
        self,
        result: QueryResult,
        names: Sequence[str],
        constants: Sequence[tuple[str, pa.Scalar]] = (),
        failing: Sequence[str] = (),
    ) -> None:
        """`failing` are the columns whose conversion can fail, for the error."""
        self._result = result
        self._names = names
        self._constants = constants
        self._failing = failing
        self.num_rows = 0

    def reader(self) -> pa.RecordBatchReader:
        """The rows, which can be read once."""
        import pyarrow as pa

        fields = [field.with_name(name) for field, name in zip(self._result.schema, self._names, strict=True)]
        constants = [pa.field(name, value.type) for name, value in self._constants]
        schema = pa.schema([*fields, *constants])
        return pa.RecordBatchReader.from_batches(schema, self._batches(schema))

    def _batches(self, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        try:
            for batch in self._result:
                self.num_rows += batch.num_rows
                constants = [pa.repeat(value, batch.num_rows) for _, value in self._constants]
                yield pa.RecordBatch.from_arrays([*batch.columns, *constants], schema=schema)
        except InvalidArgumentError as e:
            raise in_columns(e, list(self._failing)) from e
