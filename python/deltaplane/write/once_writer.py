"""`OnceWriter`: appends numbered batches of applications exactly once, however often they are
repeated.

Converts arguments; `write` commits with the application's version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError, TableNotFoundError
from deltaplane.io.storage_options import StorageOptions
from deltaplane.properties import CommitProperties, Transaction, WriterProperties
from deltaplane.write.api import OpenTable, WriteResult, opened_address, write_deltalake

if TYPE_CHECKING:
    from deltaplane.io.storage_options import TableUri

__all__ = ["OnceWriter"]


@checked()
class OnceWriter:
    """Appends numbered batches of applications; a batch that the table already contains is skipped.

    A restarted program continues after `last_version`, or repeats its last batches: in both cases
    every row is written once. `GroupWriter` does the same for many threads at once.

    Args:
        table_or_uri: path, URL or `DeltaTable`; the first append creates a missing table.
        storage_options: access to the store; keys as in deltalake and object_store.
        partition_by, configuration: for a new table.
        merge_schema: whether to add new columns of the data to the table.
        writer_properties: see this class.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> for x in (1, 2):
    ...     _ = write_deltalake("memory://doc-once/from", pa.table({"x": [x]}), mode="append")
    >>> writer = OnceWriter("memory://doc-once/to")
    >>> for _ in range(2):  # the second time nothing is new
    ...     for rows in DeltaTable("memory://doc-once/from").tail(since=writer.last_version("copy")):
    ...         _ = writer.append(rows, "copy", rows.version)
    >>> DeltaTable("memory://doc-once/to").count(), writer.last_version("copy")
    (2, 1)
    """

    def __init__(
        self,
        table_or_uri: TableUri | OpenTable,
        *,
        storage_options: StorageOptions | None = None,
        partition_by: list[str] | str | None = None,
        configuration: Mapping[str, str | bool | int | None] | None = None,
        merge_schema: bool = False,
        writer_properties: WriterProperties | None = None,
    ) -> None:
        self._location, self._options = opened_address(table_or_uri, storage_options, creates=True)
        self._partition_by = partition_by
        self._configuration = configuration
        self._merge_schema = merge_schema
        self._writer_properties = writer_properties

    def last_version(self, app_id: str) -> int | None:
        """The version of the application's last batch in the table; None if there is none."""
        try:
            return _native.Snapshot.open(self._location, self._options).transactions().get(app_id)
        except TableNotFoundError:
            return None

    def append(self, batch: Any, app_id: str, version: int) -> WriteResult:
        """Appends a batch unless this version of the application, or a higher one, is in the table.

        Args:
            batch: as `write_deltalake` takes it; not read if it is skipped.
            app_id: the application.
            version: the batch's number; an application's numbers must increase.

        Returns:
            The new version; or `skipped` is `"txn"`.

        Raises:
            InvalidArgumentError: no application, or a version that isn't a number from 0 on.
            DeltaError: as `write_deltalake`.
        """
        if not isinstance(app_id, str) or not app_id:
            raise InvalidArgumentError(f"app_id is the application's name, not {app_id!r}")
        if isinstance(version, bool) or not isinstance(version, int) or version < 0:
            raise InvalidArgumentError(f"a batch's version is a number from 0 on, not {version!r}")
        return write_deltalake(
            self._location,
            batch,
            mode="append",
            storage_options=self._options,
            partition_by=self._partition_by,
            configuration=self._configuration,
            schema_mode="merge" if self._merge_schema else None,
            writer_properties=self._writer_properties,
            commit_properties=CommitProperties(app_transactions=[Transaction(app_id, version)]),
        )

    def __repr__(self) -> str:
        return f"OnceWriter({self._location!r})"
