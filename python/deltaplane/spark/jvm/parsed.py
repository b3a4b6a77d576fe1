"""A statement as Spark's own parser sees it: its kind, and the names that it writes to, reads and
concerns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Parsed"]

Name = tuple[str, ...]

# Commands that Spark always runs itself, even if their queries read Delta tables.
_SPARKS = frozenset(
    (
        "ExplainCommand DescribeQueryCommand CreateViewCommand CreateView AlterViewAs DropView SetVariable CreateVariable "
        "CreateSQLFunctionCommand CreateUserDefinedFunction InsertIntoDir DeclareCursor"
    ).split()
)
# Commands on rows.
_ON_ROWS = frozenset("DeleteFromTable UpdateTable MergeIntoTable".split())


@dataclass(frozen=True)
class Parsed:
    """A statement: its plan's class, the names that it writes to or changes, the names that it
    concerns, and the names that it reads, each with its position in the text."""

    kind: str
    is_command: bool
    targets: tuple[tuple[int, Name], ...]
    reads: tuple[tuple[int, Name], ...]

    @classmethod
    def of(cls, spark: SparkSession, text: str) -> Parsed | None:
        """Parses a text; None if Spark's parser refuses it."""
        try:
            lines = Jvm.of(spark).names_of(spark, text)
        except NativeScanUnavailable:
            return None
        if lines is None:
            return None
        kind, is_command = "", False
        targets: list[tuple[int, Name]] = []
        reads: list[tuple[int, Name]] = []
        for what, first, *parts in lines:
            if what == "plan":
                kind, is_command = first, parts == ["command"]
            elif what in ("target", "about"):
                targets.append((int(first), tuple(parts)))
            elif what == "reads":
                reads.append((int(first), tuple(parts)))
        return cls(kind, is_command, tuple(targets), tuple(reads))

    @property
    def is_sparks(self) -> bool:
        """Whether Spark runs it itself, whichever tables it names."""
        return self.kind in _SPARKS or (not self.is_command and not self.targets)

    @property
    def changes_rows(self) -> bool:
        """Whether it is a DELETE, an UPDATE or a MERGE."""
        return self.kind in _ON_ROWS

    @property
    def is_several_inserts(self) -> bool:
        """Whether it is FROM … INSERT, or contains several INSERTs."""
        if self.kind == "InsertIntoStatement":
            return bool(self.reads) and bool(self.targets) and self.reads[0][0] < self.targets[0][0]
        return not self.is_command and bool(self.targets)
