"""A scenario: a few statements over fresh tables in a database of its own.

`{dir}` in a statement is the scenario's directory, where its database creates tables. Names of
scenarios are `family/what it is about`. Uses no engine.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Step:
    """A statement in SQL, or an expression in Python over `spark`, `F` and the helpers of
    `execution.Helpers`."""

    text: str
    python: bool = False
    # The columns of the result that are compared; all of them if empty. A dot names a field.
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class Scenario:
    """Statements in their order, with session settings during all of them."""

    name: str
    steps: tuple[Step, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    # Tables whose rows are compared after the last step.
    tables: tuple[str, ...] = ("t",)

    def digest(self) -> str:
        """Changes with any text of the scenario."""
        steps = [(step.text, step.python, step.only) for step in self.steps]
        return short_digest([self.name, steps, dict(self.settings), self.tables])


def short_digest(value: object) -> str:
    """Eight hexadecimal digits for a value of JSON."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def scenario(
    name: str,
    *steps: str | Step,
    settings: Mapping[str, str] | None = None,
    tables: tuple[str, ...] = ("t",),
) -> Scenario:
    """A scenario whose steps may be given as SQL."""
    made = tuple(step if isinstance(step, Step) else Step(step) for step in steps)
    return Scenario(name, made, settings or {}, tables)


def python(text: str, *only: str) -> Step:
    """A step in Python."""
    return Step(text, python=True, only=only)


def some(text: str, *only: str) -> Step:
    """A statement in SQL of whose result only these columns are compared."""
    return Step(text, only=only)


def groups(texts: Sequence[str], size: int) -> Iterator[tuple[int, Sequence[str]]]:
    """The texts in groups for one table each, with the number of a group's first text."""
    for start in range(0, len(texts), size):
        yield start, texts[start : start + size]


# delta-spark refuses versions that are older than the retention of deleted files.
KEEP_VERSIONS = (
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 9000 days', "
    "'delta.logRetentionDuration' = 'interval 9000 days')"
)

# Of DESCRIBE DETAIL and DESCRIBE HISTORY: what doesn't depend on time, place and layout.
DETAIL = (
    "format",
    "description",
    "partitionColumns",
    "clusteringColumns",
    "properties",
    "minReaderVersion",
    "minWriterVersion",
    "tableFeatures",
)
HISTORY = ("version", "operation", "operationParameters", "readVersion", "isBlindAppend", "userMetadata")
# Of OPTIMIZE and RESTORE: the numbers of files.
FILES = ("metrics.numFilesAdded", "metrics.numFilesRemoved", "metrics.partitionsOptimized")
RESTORED = ("num_of_files_after_restore", "num_removed_files", "num_restored_files")
