"""The result of every `dry_run=True`: a command's effect on a table and on other writers.

Formats the core's findings and decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from deltaplane.commands.plan_explanation import size_text
from deltaplane.compat import Protocol
from deltaplane.io.html import TextInNotebooks

if TYPE_CHECKING:
    from deltaplane.io import records

__all__ = ["DryRun", "PossibleConflict", "ReadSet"]


@dataclass(frozen=True)
class PossibleConflict:
    """Foreign commits that would make this one fail if they came first: the exception's name, and
    their description."""

    error: str
    when: str


@dataclass(frozen=True)
class ReadSet:
    """The read set of a command.

    `reads` describes the rows read from the table: `nothing`, `rows` (each by itself), a `set` of
    rows (to which no row may be added or removed), or the `table` with its files. All rows that are
    read satisfy `condition`; None if they can be any rows. `removes` is the number of removed
    files, `marks` the number of files with marked rows.
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
        """The commits that conflict, by the core's rules."""
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
class DryRun(TextInNotebooks):
    """The planned effect of a command. Nothing was written, not even data files; everything that
    refuses the command refuses its dry run.

    Rows were found, computed and checked as in the command. Rows that only move to other files
    weren't read, so `estimated_bytes_written` and `estimated_files_written` include them with their
    present size.

    `version` is the version that was read, None if the command would create the table. `changed`
    tells whether there would be a commit; `skipped` gives the reason if there would be none for any
    rows, as in `WriteResult`. `files_read` is the number of files whose rows are read, `bytes_read`
    their size; unneeded columns and pages that can't match aren't read. `files_marked` is the
    number of files that get a new or larger deletion vector. `rows` has numbers of rows by the
    metrics' names. `before` and `after` are the table's protocols.

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
        planned: records.PlannedCommit,
        version: int | None,
        protocols: records.Protocols,
        condition: str | None,
    ) -> DryRun:
        """From the core's results; all rows that are read satisfy `condition`."""
        return cls(
            operation=planned.operation,
            version=version,
            before=Protocol.of(protocols.before),
            after=Protocol.of(protocols.after),
            changed=True,
            files_removed=planned.files_removed,
            bytes_removed=planned.bytes_removed,
            files_marked=planned.files_marked,
            estimated_files_written=planned.files_written,
            estimated_bytes_written=planned.bytes_written,
            rows={name: int(n) for name, n in planned.metrics.items() if "Rows" in name},
            read_set=ReadSet(
                reads=planned.reads,
                condition=None if planned.reads_anywhere else condition,
                isolation=planned.isolation,
                removes=planned.files_removed,
                marks=planned.files_marked,
                app_ids=tuple(planned.app_ids),
                changes_metadata=planned.metadata,
                changes_protocol=planned.protocol,
            ),
        )

    @property
    def conflicts(self) -> tuple[PossibleConflict, ...]:
        """Foreign commits that would make this one fail if they came first; empty if nothing would
        be committed."""
        return tuple(self.read_set.conflicts()) if self.changed else ()

    @property
    def added_features(self) -> list[str]:
        """Features that only the protocol after the command lists."""
        return sorted(self.after.features - self.before.features)

    def to_dict(self) -> dict[str, Any]:
        """Converts the result to plain values, for JSON."""
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
        base = "a new table" if self.version is None else f"version {self.version}"
        lines = [
            f"{self.operation} on {base}",
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
