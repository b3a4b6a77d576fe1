"""A statement as Spark's own parser reads it: what it does, and which names it is about, writes to
and reads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.spark.jvm.internals import Jvm, NativeScanUnavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Parsed"]

Name = tuple[str, ...]

# Commands that Spark runs by itself, whatever their queries read.
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
    """A statement: its plan's class, the names that it writes to or changes, those that it is
    about, and those that it reads, each with the place in the text where it begins."""

    kind: str
    is_command: bool
    targets: tuple[tuple[int, Name], ...]
    reads: tuple[tuple[int, Name], ...]

    @classmethod
    def of(cls, spark: SparkSession, text: str) -> Parsed | None:
        """What a text says; None where it is no statement of Spark's."""
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
        """Whether Spark runs it by itself, whichever tables it names."""
        return self.kind in _SPARKS or (not self.is_command and not self.targets)

    @property
    def changes_rows(self) -> bool:
        """Whether it is a DELETE, an UPDATE or a MERGE."""
        return self.kind in _ON_ROWS

    @property
    def is_several_inserts(self) -> bool:
        """Whether FROM stands before one INSERT or more, or there are several."""
        if self.kind == "InsertIntoStatement":
            return bool(self.reads) and bool(self.targets) and self.reads[0][0] < self.targets[0][0]
        return not self.is_command and bool(self.targets)
