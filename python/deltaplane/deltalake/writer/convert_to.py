"""deltalake's conversion of a directory of Parquet files to a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from deltaplane.deltalake._schema_types import Schema
    from deltaplane.deltalake.transaction import CommitProperties, PostCommitHookProperties


def convert_to_deltalake(
    uri: str | Path,
    mode: Literal["error", "ignore"] = "error",
    partition_by: Schema | None = None,
    partition_strategy: Literal["hive", "directory"] | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: dict[str, str] | None = None,
    *args: Any,
    collect_stats: bool = True,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Makes a table of the Parquet files below a directory, in one commit."""
    from deltaplane.deltalake._util import deprecate_positional_commit_args
    from deltaplane.deltalake._writes import convert

    commit, hook = deprecate_positional_commit_args(
        "convert_to_deltalake", args, commit_properties, post_commithook_properties
    )
    if partition_by is not None and partition_strategy is None:
        raise ValueError("Partition strategy has to be provided with partition_by.")
    if partition_strategy not in (None, "hive", "directory"):
        raise ValueError("Partition strategy must be `hive` or `directory`.")
    convert(
        str(uri),
        mode=mode,
        partition_by=partition_by,
        partition_strategy=partition_strategy,
        name=name,
        description=description,
        configuration=configuration,
        storage_options=storage_options,
        collect_stats=collect_stats,
        commit_properties=commit,
        post_commithook_properties=hook,
    )
