"""deltalake's `write_deltalake`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

# Other libraries import these two from here, as from deltalake.
from deltaplane.deltalake.writer._conversion import _convert_arro3_schema_to_delta as _convert_arro3_schema_to_delta
from deltaplane.deltalake.writer._utils import try_get_table_and_table_uri as try_get_table_and_table_uri

if TYPE_CHECKING:
    from deltaplane.deltalake.table import DeltaTable
    from deltaplane.deltalake.transaction import CommitProperties, PostCommitHookProperties
    from deltaplane.deltalake.writer.properties import WriterProperties


def write_deltalake(
    table_or_uri: str | Path | DeltaTable,
    data: Any,
    *,
    partition_by: list[str] | str | None = None,
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    schema_mode: Literal["merge", "overwrite"] | None = None,
    storage_options: dict[str, str] | None = None,
    predicate: str | None = None,
    target_file_size: int | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Writes rows to a table in one commit, creating the table if there is none."""
    from deltaplane.deltalake._writes import write

    table, location = try_get_table_and_table_uri(table_or_uri, storage_options)
    if table is not None and mode == "ignore":
        return
    if target_file_size is not None and target_file_size < 1:
        raise ValueError("target_file_size must be greater than 0")
    write(
        location,
        None if table is None else table._table,
        _batches(data),
        partition_by=[partition_by] if isinstance(partition_by, str) else partition_by,
        mode=mode,
        name=name,
        description=description,
        configuration=configuration,
        schema_mode=schema_mode,
        storage_options=storage_options if table is None else table._storage_options,
        predicate=predicate,
        target_file_size=target_file_size,
        writer_properties=writer_properties,
        commit_properties=commit_properties,
        post_commithook_properties=post_commithook_properties,
    )


def _batches(data: Any) -> Any:
    """Data with Arrow's interface of streams; a sequence has batches of one schema."""
    import arro3.core

    if isinstance(data, Sequence):
        return arro3.core.RecordBatchReader.from_batches(data[0].schema, data)
    return arro3.core.RecordBatchReader.from_arrow(data)
