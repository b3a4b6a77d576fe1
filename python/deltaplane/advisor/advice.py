"""The results of `advise` and `maintain`, as plain values and as text.

Holds plain values; doesn't access the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deltaplane.commands.plan_explanation import size_text
from deltaplane.io.html import TextInNotebooks

__all__ = [
    "OPEN_BYTES",
    "Advice",
    "AdviceReport",
    "Candidate",
    "Commands",
    "MaintenanceReport",
    "MaintenanceStep",
    "Reads",
]

# Cost of opening a file, in bytes that could be read in that time: Spark's
# `spark.sql.files.openCostInBytes`.
OPEN_BYTES = 4 << 20


@dataclass(frozen=True)
class Reads:
    """Number of files and bytes that the workload reads, each predicate multiplied by its
    weight."""

    files: float = 0
    bytes: float = 0

    @property
    def cost(self) -> float:
        """Cost in bytes; opening a file counts as 4 MiB, as for Spark."""
        return self.bytes + OPEN_BYTES * self.files

    def __add__(self, other: Reads) -> Reads:
        return Reads(self.files + other.files, self.bytes + other.bytes)

    def times(self, weight: float) -> Reads:
        """These reads multiplied by a weight."""
        return Reads(self.files * weight, self.bytes * weight)

    def __str__(self) -> str:
        files = f"{self.files:,.1f}".removesuffix(".0")
        return f"{files} file{'' if files == '1' else 's'}, {size_text(self.bytes)}"


@dataclass(frozen=True)
class Candidate:
    """A layout and the workload's reads with it. `columns` and `curve` are arguments of `z_order`;
    empty for the layout that only joins files.

    `exact`: computed from the log's statistics; otherwise from a model, whose `files` files
    represent those of a rewrite.
    """

    name: str
    reads: Reads
    columns: tuple[str, ...] = ()
    curve: str | None = None
    files: int = 0
    exact: bool = False


@dataclass(frozen=True)
class Commands:
    """The commands for a piece of advice: for a shell, for `deltaplane.sql` or Spark, and for
    Python with the table as `table`."""

    shell: str | None = None
    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Advice:
    """One piece of advice: maintenance whose gain exceeds its cost.

    `kind` is `optimize`, `zorder`, `cluster_by`, `purge`, `vacuum`, `checkpoint`, `statistics`,
    `index` (extending indexes of keys), `add_index` or `property`. `now` and `then` are the
    workload's reads before and after (for `checkpoint`, the reads of opening the table); both are
    empty if the gain is of another kind. `gain_bytes` is saved by each run of the workload, a file
    counted as 4 MiB, or is the number of bytes freed once. `read_bytes` and `written_bytes` are
    the cost. `exact` is true if the log determines all figures; otherwise `basis` names their
    source.
    """

    kind: str
    why: str
    commands: Commands
    gain_bytes: float
    now: Reads = field(default_factory=Reads)
    then: Reads = field(default_factory=Reads)
    read_bytes: int = 0
    written_bytes: int = 0
    exact: bool = False
    basis: str = ""
    columns: tuple[str, ...] = ()
    curve: str | None = None

    @property
    def gain_per_byte(self) -> float:
        """Saved bytes per byte of cost; without a cost, the saved bytes."""
        return self.gain_bytes / max(self.read_bytes + self.written_bytes, 1)

    def to_dict(self) -> dict[str, Any]:
        """Converts the advice to plain values, for JSON."""
        return {**asdict(self), "columns": list(self.columns), "gain_per_byte": self.gain_per_byte}

    def __str__(self) -> str:
        lines = [f"{self.kind}: {self.why}"]
        if self.now != self.then:
            lines.append(f"  reads   {self.now}  →  {self.then}")
        lines.append(f"  costs   {size_text(self.read_bytes)} read, {size_text(self.written_bytes)} written")
        if self.basis:
            lines.append(f"  rests   on {self.basis}")
        commands = vars(self.commands).items()
        return "\n".join([*lines, *(f"  {name:<7} {command}" for name, command in commands if command)])


@dataclass(frozen=True)
class AdviceReport(TextInNotebooks):
    """The advice for a version of a table, highest gain per byte first; `str` returns a text for
    people.

    `workload` is `given`, or `drawn` from a sample; `predicates` is the number of distinct
    predicates, `left_out` lists unusable ones with the reasons. `candidates` are all examined
    layouts, the present one first. `sampled_rows` is the size of the sample.
    """

    table: str
    version: int
    files: int
    size_bytes: int
    workload: str
    predicates: int
    advice: tuple[Advice, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    left_out: tuple[tuple[str, str], ...] = ()
    sampled_rows: int = 0

    def __iter__(self) -> Any:
        return iter(self.advice)

    def __len__(self) -> int:
        return len(self.advice)

    def of(self, kind: str) -> Advice | None:
        """The advice of a kind, or None."""
        return next((item for item in self.advice if item.kind == kind), None)

    def to_dict(self) -> dict[str, Any]:
        """Converts the report to plain values, for JSON."""
        return {**asdict(self), "advice": [item.to_dict() for item in self.advice]}

    def __str__(self) -> str:
        judged = {"given": "the given predicates", "drawn": "look-ups drawn from a sample, since no workload was given"}
        lines = [
            f"{self.table} at version {self.version}: {self.files:,} files, {size_text(self.size_bytes)}",
            f"judged by {judged[self.workload]}: {self.predicates:,}; a file that is opened counts as 4 MiB",
        ]
        lines += [f"left out: {text} ({why})" for text, why in self.left_out]
        for candidate in self.candidates:
            lines.append(f"  {candidate.name:<40} {candidate.reads}{'' if candidate.exact else '  (modelled)'}")
        if not self.advice:
            lines.append("nothing would pay")
        return "\n".join([*lines, *(f"\n{item}" for item in self.advice)])


@dataclass(frozen=True)
class MaintenanceStep:
    """One step: `done`, `planned` (a dry run), `skipped` or `lost` to another writer, with the
    reason.

    `bytes_rewritten` counts bytes of old files; `details` is the command's own result.
    """

    kind: str
    state: str
    why: str
    bytes_rewritten: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind:<12}{self.state:<9}{size_text(self.bytes_rewritten):>12}  {self.why}"


@dataclass(frozen=True)
class MaintenanceReport(TextInNotebooks):
    """The steps of `maintain` in the order of their execution, or the planned steps of a dry
    run."""

    table: str
    dry_run: bool
    version_before: int
    version_after: int
    steps: tuple[MaintenanceStep, ...]

    @property
    def bytes_rewritten(self) -> int:
        """The total of all steps."""
        return sum(step.bytes_rewritten for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """Converts the report to plain values, for JSON."""
        return {**asdict(self), "bytes_rewritten": self.bytes_rewritten}

    def __str__(self) -> str:
        steps: Sequence[object] = self.steps or ("nothing would pay",)
        versions = f"version {self.version_before}"
        if self.version_after != self.version_before:
            versions += f" to {self.version_after}"
        return "\n".join([f"{self.table}, {versions}{' (dry run)' if self.dry_run else ''}", *map(str, steps)])
