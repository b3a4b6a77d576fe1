"""What `advise` and `maintain` found, as data and in words.

Plain values, no table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from deltaplane.commands.plan_explanation import size_text

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

# What opening a file costs in bytes that could have been read meanwhile: Spark's
# `spark.sql.files.openCostInBytes`.
OPEN_BYTES = 4 << 20


@dataclass(frozen=True)
class Reads:
    """Files and bytes, each predicate of the workload run as often as its weight says."""

    files: float = 0
    bytes: float = 0

    @property
    def cost(self) -> float:
        """In bytes: a file that is opened counts as 4 MiB more, as for Spark."""
        return self.bytes + OPEN_BYTES * self.files

    def __add__(self, other: Reads) -> Reads:
        return Reads(self.files + other.files, self.bytes + other.bytes)

    def times(self, weight: float) -> Reads:
        """So many times as much."""
        return Reads(self.files * weight, self.bytes * weight)

    def __str__(self) -> str:
        files = f"{self.files:,.1f}".removesuffix(".0")
        return f"{files} file{'' if files == '1' else 's'}, {size_text(self.bytes)}"


@dataclass(frozen=True)
class Candidate:
    """A layout, and what the workload reads of it. `columns` and `curve` are those of `z_order`;
    none for files by size.

    `exact`: from the log's statistics; else from a model, whose `files` files stand for those of a
    rewrite.
    """

    name: str
    reads: Reads
    columns: tuple[str, ...] = ()
    curve: str | None = None
    files: int = 0
    exact: bool = False


@dataclass(frozen=True)
class Commands:
    """How to do it: text for a shell, for `deltaplane.sql` or Spark, and for Python with the table
    as `table`."""

    shell: str | None = None
    sql: str | None = None
    python: str | None = None


@dataclass(frozen=True)
class Advice:
    """Something that pays.

    `kind` is `optimize`, `zorder`, `cluster_by`, `purge`, `vacuum`, `checkpoint`, `statistics` or
    `property`. `now` and `then` are what the workload reads (of `checkpoint` what opening the table
    does); both are empty where that isn't the gain. `gain_bytes` is what is saved each time the
    workload runs, a file counted as 4 MiB, or once the bytes that are freed. `read_bytes` and
    `written_bytes` are what it costs. `exact` are all figures that the log decides; `basis` says of
    the others what they rest on.
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
        """Bytes that each byte which it costs saves; where it costs none they count as they are."""
        return self.gain_bytes / max(self.read_bytes + self.written_bytes, 1)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
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
class AdviceReport:
    """What would pay for a table at a version, the most for its bytes first; `str` of it is a text
    for people.

    `workload` says what was judged by: `given`, or `drawn` from a sample; `predicates` how many
    different ones there were, `left_out` those that can't be judged by, with the reasons.
    `candidates` are all layouts that were looked at, today's first. `sampled_rows` is the size of
    the sample.
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
        """The advice of a kind, if there is any."""
        return next((item for item in self.advice if item.kind == kind), None)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
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
    """One step: `done`, `planned` (a dry run), `skipped` or `lost` to another writer, and why.

    `bytes_rewritten` are bytes of old files, `details` what the command itself reports.
    """

    kind: str
    state: str
    why: str
    bytes_rewritten: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.kind:<12}{self.state:<9}{size_text(self.bytes_rewritten):>12}  {self.why}"


@dataclass(frozen=True)
class MaintenanceReport:
    """What `maintain` did or, in a dry run, would do; in the order in which it was."""

    table: str
    dry_run: bool
    version_before: int
    version_after: int
    steps: tuple[MaintenanceStep, ...]

    @property
    def bytes_rewritten(self) -> int:
        """Of all steps together."""
        return sum(step.bytes_rewritten for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """As plain values, for JSON."""
        return {**asdict(self), "bytes_rewritten": self.bytes_rewritten}

    def __str__(self) -> str:
        steps: Sequence[object] = self.steps or ("nothing would pay",)
        versions = f"version {self.version_before}"
        if self.version_after != self.version_before:
            versions += f" to {self.version_after}"
        return "\n".join([f"{self.table}, {versions}{' (dry run)' if self.dry_run else ''}", *map(str, steps)])
