"""Settings of commits and of Parquet files as deltalake has them, and their translation to
deltaplane's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from deltaplane import properties

if TYPE_CHECKING:
    from deltaplane.deltalake.transaction import CommitProperties, PostCommitHookProperties
    from deltaplane.deltalake.writer.properties import ColumnProperties, WriterProperties

_LEVELS = {"Serializable", "WriteSerializable", "SnapshotIsolation"}


class Transaction:
    """An application's own version, which a commit records.

    >>> Transaction("feed", 3)
    Transaction { app_id: feed, version: 3, last_updated: None }
    """

    def __init__(self, app_id: str, version: int, last_updated: int | None = None) -> None:
        self.app_id, self.version, self.last_updated = app_id, version, last_updated

    def __repr__(self) -> str:
        return f"Transaction {{ app_id: {self.app_id}, version: {self.version}, last_updated: {self.last_updated} }}"


@dataclass
class AddAction:
    """A file that was written already, as a commit adds it: `partition_values` and `stats` as the
    log
    has them, `modification_time` in milliseconds since 1970."""

    path: str
    size: int
    partition_values: Mapping[str, str | None]
    modification_time: int
    data_change: bool
    stats: str


class RemoveAction:
    """A file that `DeltaTable.create_write_transaction` removes from the table."""

    def __init__(
        self,
        path: str,
        data_change: bool,
        deletion_timestamp: int,
        size: int | None = None,
        partition_values: dict[str, str | None] | None = None,
    ) -> None:
        self.path, self.data_change, self.deletion_timestamp = path, data_change, deletion_timestamp
        self.size, self.partition_values = size, partition_values


@dataclass(frozen=True)
class DeltaRsCommit(properties.CommitProperties):
    """Settings of a commit that follows delta-rs where its rules differ from delta-spark's: the
    lowest
    protocol with the features in use, versions of the protocol among the properties, ADD
    FEATURE."""

    as_delta_rs: ClassVar[bool] = True

    keeps_unknown_properties: bool = False

    def to_request(self) -> dict[str, Any]:
        """These settings as a part of a write request."""
        metadata = dict(self.custom_metadata or {})
        added = metadata.pop("operationParameters", None)
        own = properties.CommitProperties(metadata or None, self.max_commit_retries, self.app_transactions)
        request = own.to_request()
        if added is not None:
            request["commit_info"]["operationParameters"] = dict(added)
        return {**request, "delta_rs": {"keeps_unknown_properties": self.keeps_unknown_properties}}


def commit_properties(
    chosen: CommitProperties | None, *, keeps_unknown_properties: bool = False
) -> properties.CommitProperties:
    """The properties as deltaplane takes them.

    Raises:
        ValueError: metadata that isn't JSON, or a reserved key with a value that it can't have.
    """
    if chosen is None:
        return DeltaRsCommit(keeps_unknown_properties=keeps_unknown_properties)
    metadata = _checked_metadata(chosen.custom_metadata)
    transactions = [properties.Transaction(t.app_id, t.version) for t in chosen.app_transactions or []]
    return DeltaRsCommit(
        keeps_unknown_properties=keeps_unknown_properties,
        custom_metadata=metadata or None,
        max_commit_retries=chosen.max_commit_retries,
        app_transactions=transactions or None,
    )


def _checked_metadata(metadata: Any) -> dict[str, Any]:
    if metadata is None:
        return {}
    if not isinstance(metadata, Mapping):
        raise ValueError("CommitProperties.custom_metadata must be a mapping")
    for key, value in metadata.items():
        if not isinstance(key, str):
            raise ValueError("CommitProperties.custom_metadata keys must be strings")
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as e:
            raise ValueError(f"custom_metadata value of {key!r} can't be written as JSON: {e}") from None
        _check_reserved(key, value)
    return dict(metadata)


def _check_reserved(key: str, value: Any) -> None:
    if key in ("timestamp", "operation", "engineInfo"):
        raise ValueError(f"custom_metadata can't set {key!r}: the commit does")
    is_wrong = {
        "operationParameters": not isinstance(value, Mapping),
        "readVersion": isinstance(value, bool) or not isinstance(value, int) or value < 0,
        "isolationLevel": value not in _LEVELS if isinstance(value, str) else True,
        "isBlindAppend": not isinstance(value, bool),
        **dict.fromkeys(("userId", "userName", "userMetadata"), not isinstance(value, str)),
    }
    if is_wrong.get(key, False):
        raise ValueError(f"custom_metadata has a value for {key!r} that this key of the commit can't have")


def hook_properties(chosen: PostCommitHookProperties | None) -> properties.PostCommitHookProperties | None:
    """The properties as deltaplane takes them."""
    if chosen is None:
        return None
    return properties.PostCommitHookProperties(chosen.create_checkpoint, chosen.cleanup_expired_logs)


def writer_properties(chosen: WriterProperties | None) -> properties.WriterProperties | None:
    """The properties as deltaplane takes them. Sizes of pages and batches, dictionaries, statistics
    and the encoding of all columns are hints, which deltaplane's writer decides itself."""
    if chosen is None:
        return None
    codec, _, level = (chosen.compression or "").rstrip(")").partition("(")
    default, columns = chosen.default_column_properties, chosen.column_properties
    return properties.WriterProperties(
        max_row_group_size=chosen.max_row_group_size,
        compression=codec or None,
        compression_level=int(level) if level else None,
        default_column_properties=None if default is None else _column_properties(default),
        column_properties={name: _column_properties(own, own.encoding) for name, own in (columns or {}).items()}
        or None,
    )


def _column_properties(chosen: ColumnProperties, encoding: str | None = None) -> properties.ColumnProperties:
    asked = chosen.bloom_filter_properties
    filters = None
    if asked is not None:
        filters = properties.BloomFilterProperties(asked.set_bloom_filter_enabled, asked.fpp, asked.ndv)
    return properties.ColumnProperties(bloom_filter_properties=filters, encoding=encoding)
