"""What a change of a table's definition does, or would do, to its protocol and its readers."""

from __future__ import annotations

from dataclasses import dataclass, field

from deltaplane.compat import Protocol, newly_excluded
from deltaplane.io import records

__all__ = ["AlterPlan"]


@dataclass(frozen=True)
class AlterPlan:
    """The result of a change, committed or planned.

    `version` is the committed version; it is None after a dry run and when the table already had
    the requested state (`changed` is False). `before` and `after` are the protocols.
    `unreadable_for` and `unwritable_for` name the engines that lose read or write access, according
    to the compatibility data.

    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> _ = write_deltalake("memory://doc-alter-plan/t", pa.table({"x": [1]}))
    >>> table = DeltaTable("memory://doc-alter-plan/t")
    >>> plan = table.alter.set_table_properties({"delta.enableDeletionVectors": "true"}, dry_run=True)
    >>> plan.added_features, plan.version, table.version()
    (['deletionVectors'], None, 0)
    >>> any(line.startswith("this makes the table unreadable for") for line in plan.announcement())
    True
    """

    operation: str
    changed: bool
    version: int | None
    before: Protocol
    after: Protocol
    unreadable_for: list[str] = field(default_factory=list)
    unwritable_for: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, result: records.AlterResult) -> AlterPlan:
        """Builds a plan from the core's result."""
        before, after = Protocol.of(result.before), Protocol.of(result.after)
        return cls.between(before, after, operation=result.operation, changed=result.changed, version=result.version)

    @classmethod
    def between(
        cls, before: Protocol, after: Protocol, *, operation: str, changed: bool, version: int | None
    ) -> AlterPlan:
        """Builds a plan with the engines that the step from one protocol to the other excludes."""
        unreadable, unwritable = newly_excluded(before, after)
        return cls(operation, changed, version, before, after, unreadable, unwritable)

    @property
    def added_features(self) -> list[str]:
        """Features that only the protocol after the change lists."""
        return sorted(self.after.features - self.before.features)

    @property
    def removed_features(self) -> list[str]:
        """Features that only the protocol before the change lists."""
        return sorted(self.before.features - self.after.features)

    def announcement(self) -> list[str]:
        """Warnings for the table's users, one sentence a line; empty if the protocol stays the
        same."""
        if self.before == self.after:
            return []
        lines = [f"the protocol goes from {self.before} to {self.after}"]
        if self.unreadable_for:
            lines.append(f"this makes the table unreadable for {', '.join(self.unreadable_for)}")
        if self.unwritable_for:
            lines.append(f"this makes the table unwritable for {', '.join(self.unwritable_for)}")
        return lines
