"""What a command on rows would do to a table and to other writers: the answer of every
`dry_run=True`.

Says what the core found in a rehearsal, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.commands.plan_explanation import size_text
from deltaplane.compat import Protocol

if TYPE_CHECKING:
    from deltaplane.io import records

__all__ = ["DryRun", "PossibleConflict", "ReadSet"]


@dataclass(frozen=True)
class PossibleConflict:
    """Commits of others that would refuse this one if they came first: the exception's name, and
    which ones."""

    error: str
    when: str


@dataclass(frozen=True)
class ReadSet:
    """What a command rests on.

    `reads` are rows of the table: `nothing`, `rows`, each for itself, a `set` of them, of which
    none may come or go, or the `table` with its files. `condition` is met by all rows that are
    read, None where they can be any; `removes` files are taken out, of `marks` files rows.
    """

    reads: Literal["nothing", "rows", "set", "table"] = "nothing"
    condition: str | None = None
    isolation: str = "Serializable"
    removes: int = 0
    marks: int = 0
    app_ids: tuple[str, ...] = ()
    changes_metadata: bool = False
    changes_protocol: bool = False

    def conflicts(self) -> Iterator[PossibleConflict]:
        """Which commits are in its way, by the rules of the core."""
        yield PossibleConflict(
            "ProtocolChangedException",
            "any change of the protocol"
            if self.changes_protocol
            else "a change of the protocol that asks something of this commit's files",
        )
        yield PossibleConflict(
            "MetadataChangedException",
            "any change of the table's columns or properties"
            if self.changes_metadata
            else "a change of the table's columns, or of properties that ask something of this commit's files",
        )
        if self.reads != "nothing" and self.isolation != "SnapshotIsolation":
            which = (
                "new rows" if self.condition is None else f"new rows in files that can hold some with {self.condition}"
            )
            blind = ", unless they are added without reading the table" if self.isolation == "WriteSerializable" else ""
            yield PossibleConflict("ConcurrentAppendException", which + blind)
        if self.removes:
            yield PossibleConflict(
                "ConcurrentDeleteDeleteException", f"whatever removes or rewrites one of {_files(self.removes)}"
            )
        if self.marks:
            yield PossibleConflict(
                "ConcurrentDeleteDeleteException",
                f"whatever deletes or changes one of the same rows of {_files(self.marks)}, or rewrites the file",
            )
        if self.reads == "table":
            yield PossibleConflict("ConcurrentDeleteReadException", "whatever removes or rewrites a file of the table")
        if self.reads == "set":
            yield PossibleConflict("ConcurrentDeleteReadException", "whatever deletes or changes rows of the table")
        for app_id in self.app_ids:
            yield PossibleConflict("ConcurrentTransactionException", f"a version of the application {app_id!r}")


@dataclass(frozen=True)
class DryRun:
    """What a command would do. Nothing was written for it, no data file either; what refuses the
    command refused it, too.

    Rows were found, computed and checked as in the command; those that only move to other files
    were left unread, and so `estimated_bytes_written` and `estimated_files_written` have them by
    the size that they have now.

    `version` is the version that was read, None where the command would make the table. `changed`
    says whether there would be a commit; `skipped` why there would be none whatever the rows are,
    as in `WriteResult`. `files_read` are the files whose rows are read, `bytes_read` their sizes,
    of which columns that aren't needed and pages that can't match stay unread. `files_marked` are
    those that get a deletion vector or a larger one. `rows` are numbers of rows by the metrics'
    names. `before` and `after` are the table's protocols.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> _ = write_deltalake("memory://doc-dry-run/t", pa.table({"x": [1, 2, 3]}))
    >>> table = DeltaTable("memory://doc-dry-run/t")
    >>> told = table.delete("x > 1", dry_run=True)
    >>> told.rows["numDeletedRows"], told.files_read, told.files_removed, table.version()
    (2, 1, 1, 0)
    >>> [conflict.error for conflict in told.conflicts][:2]
    ['ProtocolChangedException', 'MetadataChangedException']
    """

    operation: str
    version: int | None
    before: Protocol
    after: Protocol
    changed: bool = False
    skipped: str | None = None
    files_read: int = 0
    bytes_read: int = 0
    files_removed: int = 0
    bytes_removed: int = 0
    files_marked: int = 0
    estimated_files_written: int = 0
    estimated_bytes_written: int = 0
    rows: Mapping[str, int] = field(default_factory=dict)
    read_set: ReadSet = field(default_factory=ReadSet)

    @classmethod
    def of(
        cls,
        told: records.PlannedCommit,
        version: int | None,
        protocols: records.Protocols,
        condition: str | None,
    ) -> DryRun:
        """From the core's answers; `condition` is what the rows have in common that are read."""
        return cls(
            operation=told.operation,
            version=version,
            before=Protocol.of(protocols.before),
            after=Protocol.of(protocols.after),
            changed=True,
            files_removed=told.files_removed,
            bytes_removed=told.bytes_removed,
            files_marked=told.files_marked,
            estimated_files_written=told.files_written,
            estimated_bytes_written=told.bytes_written,
            rows={name: int(n) for name, n in told.metrics.items() if "Rows" in name},
            read_set=ReadSet(
                reads=told.reads,
                condition=None if told.reads_anywhere else condition,
                isolation=told.isolation,
                removes=told.files_removed,
                marks=told.files_marked,
                app_ids=tuple(told.app_ids),
                changes_metadata=told.metadata,
                changes_protocol=told.protocol,
            ),
        )

    @property
    def conflicts(self) -> tuple[PossibleConflict, ...]:
        """The commits of others that would refuse this one if they came first; none where nothing
        would be committed."""
        return tuple(self.read_set.conflicts()) if self.changed else ()

    @property
    def added_features(self) -> list[str]:
        """Features that the table would support after and doesn't before."""
        return sorted(self.after.features - self.before.features)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        protocols = {
            name: {**vars(protocol), "features": sorted(protocol.features)}
            for name, protocol in (("before", self.before), ("after", self.after))
        }
        return {**asdict(self), **protocols, "rows": dict(self.rows), "conflicts": [vars(c) for c in self.conflicts]}

    def __str__(self) -> str:
        if not self.changed:
            why = {"txn": "its application's version was committed", "exists": "the table is there"}
            return (
                f"{self.operation}: nothing would be committed, since {why.get(self.skipped or '', 'no row changes')}"
            )
        at = "a new table" if self.version is None else f"version {self.version}"
        lines = [
            f"{self.operation} on {at}",
            f"  reads    {_files(self.files_read)}, {size_text(self.bytes_read)}",
            f"  removes  {_files(self.files_removed)}, {size_text(self.bytes_removed)}",
            f"  marks    rows of {_files(self.files_marked)}",
            f"  writes   about {_files(self.estimated_files_written)}, {size_text(self.estimated_bytes_written)}",
            *(f"  {name:<40}{n:>14,}" for name, n in self.rows.items()),
        ]
        if self.before != self.after:
            lines.append(f"  the protocol goes from {self.before} to {self.after}")
        return "\n".join([*lines, *(f"  {c.error}: {c.when}" for c in self.conflicts)])


def _files(n: int) -> str:
    return f"{n:,} file{'' if n == 1 else 's'}"
