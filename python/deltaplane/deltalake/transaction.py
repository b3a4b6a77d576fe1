"""deltalake's settings of commits, and commits of files that another program wrote."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.deltalake._commits import AddAction as AddAction
from deltaplane.deltalake._commits import RemoveAction as RemoveAction
from deltaplane.deltalake._commits import Transaction as Transaction
from deltaplane.deltalake._util import deprecate_positional_commit_args

if TYPE_CHECKING:
    from deltaplane.deltalake._schema_types import Schema


@dataclass(init=True)
class PostCommitHookProperties:
    """Settings for the work after a commit."""

    def __init__(self, create_checkpoint: bool = True, cleanup_expired_logs: bool | None = None) -> None:
        self.create_checkpoint = create_checkpoint
        self.cleanup_expired_logs = cleanup_expired_logs


@dataclass(init=True)
class CommitProperties:
    """Settings of a commit: metadata for the history, retries after a lost race, and versions of
    applications. The values are checked when a commit uses them."""

    def __init__(
        self,
        custom_metadata: dict[str, Any] | None = None,
        max_commit_retries: int | None = None,
        app_transactions: list[Transaction] | None = None,
    ) -> None:
        self.custom_metadata = custom_metadata
        self.max_commit_retries = max_commit_retries
        self.app_transactions = app_transactions


def create_table_with_add_actions(
    table_uri: str,
    schema: Schema,
    add_actions: list[AddAction],
    mode: Literal["error", "append", "overwrite", "ignore"] = "error",
    partition_by: list[str] | str | None = None,
    name: str | None = None,
    description: str | None = None,
    configuration: Mapping[str, str | None] | None = None,
    storage_options: dict[str, str] | None = None,
    *args: Any,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> None:
    """Creates a table of files that were written already, in one commit."""
    from deltaplane.deltalake._writes import create_table_with_files

    commit, hook = deprecate_positional_commit_args(
        "create_table_with_add_actions", args, commit_properties, post_commithook_properties
    )
    create_table_with_files(
        table_uri=table_uri,
        schema=schema,
        add_actions=add_actions,
        mode=mode,
        partition_by=[partition_by] if isinstance(partition_by, str) else partition_by or [],
        name=name,
        description=description,
        configuration=configuration,
        storage_options=storage_options,
        commit_properties=commit,
        post_commithook_properties=hook,
    )
