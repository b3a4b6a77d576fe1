"""The data files of a table: `DeltaTable` inherits their lists, plans and partitions.

Converts the core's answers; reads no row.
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

from deltaplane import expr
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.expr import Predicate, columns_of
from deltaplane.expr.row_filter import scan_filter
from deltaplane.io.arrow import Scan
from deltaplane.io.tracing import traced

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native
    from deltaplane.commands.plan_explanation import PlanExplanation

__all__ = ["DataFiles", "one_predicate"]


@checked()
class DataFiles:
    """The methods that say which files hold a table's rows."""

    _snapshot: _native.Snapshot

    @traced("PLAN")
    def files(self, partition_filters: Predicate | None = None) -> list[str]:
        """The data files' decoded paths: relative to the table, or absolute for files outside of
        the table's directory."""
        return self._snapshot.file_paths(self._parsed(partition_filters))

    @traced("PLAN")
    def file_uris(
        self, partition_filters: Predicate | None = None, *, file_pruning_predicate: Predicate | None = None
    ) -> list[str]:
        """The data files that may hold matching rows, as absolute paths (local) or URLs.

        A predicate is Spark SQL text or tuples, under either parameter name. A predicate over
        partition columns selects exactly; for other columns the result has every file that
        statistics can't exclude.
        """
        return self._snapshot.file_uris(self._parsed(one_predicate(partition_filters, file_pruning_predicate)))

    @traced("PLAN")
    def get_add_actions(self, flatten: bool = False) -> pa.Table:
        """One row per data file: `path`, `size_bytes`, `modification_time`, `num_records`, the
        structs `null_count`, `min` and `max` of the columns with statistics (protocol section 8;
        null if a file has no value, or NaN), and for partitioned tables the struct `partition`.
        `flatten` replaces the structs by columns such as `min.x`.

        Cost: proportional to the number of files times the number of columns with statistics.

        Raises:
            CorruptLogError: a partition value doesn't have its column's type.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> _ = write_deltalake("memory://doc-adds/t", pa.table({"x": [1, 2, None]}))
        >>> files = DeltaTable("memory://doc-adds/t").get_add_actions(flatten=True)
        >>> files.select(["num_records", "null_count.x", "min.x", "max.x"]).to_pylist()
        [{'num_records': 3, 'null_count.x': 1, 'min.x': 1, 'max.x': 2}]
        """
        actions = Scan(self._snapshot.add_actions(statistics=True)).to_arrow()
        return _flattened(actions) if flatten else actions

    @traced("PLAN")
    def plan(self, predicate: Predicate | None = None) -> pa.RecordBatchReader:
        """Streams the files that may hold a row matching the predicate: the columns of
        `get_add_actions`, and `deletion_vector`, the struct of the log, which is null for files
        without one.

        Cost: for a checkpoint written by deltaplane, decodes only the row groups and pages whose
        bounds match the predicate; for other checkpoints, the columns of the predicate. Memory
        holds some batches of files. Source: protocol section 8, P164 to P170.

        Raises:
            InvalidArgumentError: the predicate isn't Spark SQL or names an unknown column.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in (1, 2, 3):
        ...     _ = write_deltalake("memory://doc-plan-files/t", pa.table({"x": [x]}), mode="append")
        >>> DeltaTable("memory://doc-plan-files/t").plan("x > 1").read_all()["max"].to_pylist()
        [{'x': 3}, {'x': 2}]
        """
        return Scan(self._snapshot.plan(scan_filter(self._snapshot, predicate).tree)).to_reader()

    @traced("PLAN")
    def explain(self, predicate: Predicate | None = None) -> PlanExplanation:
        """Explains `plan`: the number of files that each stage examined and excluded, and why the
        rest stayed. `print` shows one line for each stage.

        Cost and errors: as in `plan`.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for x in (1, 2, 3):
        ...     _ = write_deltalake("memory://doc-explain/t", pa.table({"x": [x]}), mode="append")
        >>> why = DeltaTable("memory://doc-explain/t").explain("x > 1")
        >>> why.in_commits, why.skipped_by_statistics, why.selected
        (3, 1, 2)
        """
        from deltaplane.commands.plan_explanation import PlanExplanation

        return PlanExplanation.of(self._snapshot.explain(scan_filter(self._snapshot, predicate).tree))

    @traced("PLAN")
    def deletion_vectors(self) -> pa.RecordBatchReader:
        """The files with a deletion vector: `filepath`, a URI, and `selection_vector`, which is
        true for each row that isn't deleted (P120).

        Cost: one read for each vector, and memory for the vectors of one batch of files.

        Raises:
            CorruptFileError: a vector's size, checksum or number of rows differs from the log.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> on = {"delta.enableDeletionVectors": "true"}
        >>> _ = write_deltalake("memory://doc-vectors/t", pa.table({"x": [1, 2, 3]}), configuration=on)
        >>> table = DeltaTable("memory://doc-vectors/t")
        >>> table.deletion_vectors().read_all().num_rows
        0
        >>> _ = table.delete("x = 2")
        >>> table.deletion_vectors().read_all()["selection_vector"].to_pylist()
        [[True, False, True]]
        """
        return Scan(self._snapshot.deletion_vectors()).to_reader()

    def _parsed(self, predicate: Predicate | None) -> _native.Predicate | None:
        return expr.parse(predicate, columns_of(lambda: self._snapshot.schema))

    def _files(self) -> pa.Table:
        """The add actions without statistics, so that the cost doesn't grow with the number of
        columns."""
        return Scan(self._snapshot.add_actions(statistics=False)).to_arrow()

    @traced("PLAN")
    def partitions(
        self, partition_filters: Predicate | None = None, *, file_pruning_predicate: Predicate | None = None
    ) -> list[dict[str, str | None]]:
        """The partitions with at least one file, as column → value text (None means null), ordered
        by their values."""
        predicate = self._parsed(one_predicate(partition_filters, file_pruning_predicate))
        columns = self._snapshot.info.partition_columns
        if not columns:
            return []
        partitions = self._partition_values(columns, predicate)
        texts = [_texts(partitions[c]) for c in columns]
        return [dict(zip(columns, row, strict=True)) for row in zip(*texts, strict=True)]

    def _partition_values(self, columns: list[str], predicate: _native.Predicate | None = None) -> pa.Table:
        """The values of these partition columns, one row for each partition with files, ordered by
        the values."""
        import pyarrow as pa
        import pyarrow.compute as pc

        actions = _flattened(self._files())
        if predicate is not None:
            matching_paths = pa.array(self._snapshot.file_paths(predicate), pa.string())
            actions = actions.filter(pc.is_in(actions["path"], value_set=matching_paths))
        values = pa.table({c: actions[f"partition.{c}"] for c in columns})
        return values.group_by(columns).aggregate([]).sort_by([(c, "ascending") for c in columns])


def one_predicate(partitions: Predicate | None, file_pruning_predicate: Predicate | None) -> Predicate | None:
    """The value of an argument that has two names."""
    if partitions is not None and file_pruning_predicate is not None:
        raise InvalidArgumentError("partition_filters and file_pruning_predicate are one argument: give one")
    return file_pruning_predicate if partitions is None else partitions


def _flattened(actions: pa.Table) -> pa.Table:
    """Replaces each struct by columns for its leaves, named by their paths."""
    import pyarrow as pa

    while any(pa.types.is_struct(field.type) for field in actions.schema):
        actions = actions.flatten()
    return actions


def _texts(values: pa.ChunkedArray) -> list[str | None]:
    """Partition values as the log stores them: binary values that aren't UTF-8 have the protocol's
    escapes (section 9)."""
    import pyarrow as pa

    if pa.types.is_binary(values.type):
        return [None if value is None else _escaped(value) for value in values.to_pylist()]
    texts: list[str | None] = values.cast(pa.string()).to_pylist()
    return texts


def _escaped(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    plain = text and "\\u" not in text and not any(unicodedata.category(c) == "Cc" for c in text)
    return text if plain else "".join(f"\\u{byte:04X}" for byte in value)
