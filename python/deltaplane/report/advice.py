"""Derives advice from a report's figures, with one rule for each possible problem.

Uses the report's facts; doesn't access the table.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane.report.words import amount, bytes_text, count_of, duration, number, percent

if TYPE_CHECKING:
    from deltaplane.advisor.advice import AdviceReport
    from deltaplane.report.health import Column, Health

__all__ = ["ACT", "FINE", "WATCH", "Advice", "advice"]

# Urgency levels: `act` for a present cost, `watch` for a future cost, `fine` for no problem.
ACT, WATCH, FINE = "act", "watch", "fine"
_ORDER = (ACT, WATCH, FINE)

# Fewer small files than this don't justify a commit.
_SMALL_FILES = 16
# Tables with fewer files gain nothing from file skipping.
_FILES_TO_SKIP = 32
# Clustering counts as poor if a look-up of one value reads at least this share of the files.
_POOR_SHARE = 0.25
# A look-up of one value counts as good up to this number of files.
_GOOD_FILES = 4
# VACUUM is advised if the deletable files have at least this share of the table's bytes.
_VACUUM_SHARE = 0.1
_UNEVEN_GINI = 0.8
_FEW_BYTES_SHARE = 1 / 8
_MANY_PARTITIONS = 100
_DAY_MS = 86_400_000


@dataclass(frozen=True)
class Advice:
    """One piece of advice: its urgency (`act`, `watch` or `fine`), the page's section, a title, the
    reason, and a command if one helps."""

    level: str
    section: str
    title: str
    reason: str
    command: str | None = None


def advice(health: Health, judged: AdviceReport | None = None) -> tuple[Advice, ...]:
    """Applies every rule and sorts the advice by urgency. Results of `DeltaTable.advise` replace
    the rules on the same subjects, since `advise` uses the workload and tries other layouts.
    """
    said = [item for rule in RULES if judged is None or rule not in _JUDGED_BETTER for item in rule(health)]
    if judged is not None:
        said += _judged(judged)
    return tuple(sorted(said, key=lambda item: _ORDER.index(item.level)))


# The page's section, urgency and title for each kind of `DeltaTable.advise`.
_KINDS = {
    "optimize": ("files", ACT, "Put files together"),
    "zorder": ("columns", ACT, "Order the rows"),
    "cluster_by": ("columns", WATCH, "Cluster by these columns"),
    "purge": ("vectors", ACT, "Purge deleted rows"),
    "vacuum": ("log", ACT, "Delete old files"),
    "checkpoint": ("log", ACT, "Write a checkpoint"),
    "statistics": ("columns", WATCH, "Keep statistics of more columns"),
    "property": ("table", WATCH, "Set a property"),
}


def _judged(judged: AdviceReport) -> Iterator[Advice]:
    for step in judged:
        # A kind without an entry is shown under its own name.
        section, level, title = _KINDS.get(step.kind, ("table", WATCH, step.kind))
        reads = f" Now {step.now} are read, then {step.then}." if step.now != step.then else ""
        costs = f" It costs {bytes_text(step.read_bytes)} read and {bytes_text(step.written_bytes)} written."
        rests = f" By {step.basis}." if step.basis else ""
        reason = f"{step.why[:1].upper()}{step.why[1:]}.{reads}{costs}{rests}"
        yield Advice(level, section, title, reason, step.commands.shell or step.commands.sql or step.commands.python)
    if not judged.advice:
        yield Advice(
            FINE, "files", "Care", "Nothing that advise looked at would pay: the table's layout suits what is read."
        )


def considered_files(health: Health) -> float:
    """Average number of files that a query with a partition predicate could read, over all
    files."""
    return float(health.files.count) if health.partitions is None else health.partitions.files_around


def lookup_files(column: Column, health: Health) -> float:
    """Average number of files that a look-up of one value reads: the files whose bounds hold the
    value, and the files without bounds, which are assumed to be spread evenly over partitions."""
    without = column.unknown / health.files.count if health.files.count else 0.0
    return column.depth.average + without * considered_files(health)


def lookup_share(column: Column, health: Health) -> float:
    """`lookup_files` as a share of the considered files."""
    files = considered_files(health)
    return min(1.0, lookup_files(column, health) / files) if files else 0.0


def _where(health: Health) -> str:
    path = health.table.removeprefix("file://") if health.table.startswith("file:///") else health.table
    return shlex.quote(path)


def _small_files(health: Health) -> Iterator[Advice]:
    files = health.files
    aim = f"OPTIMIZE aims at {bytes_text(files.target_bytes)}"
    # Each partition has one remainder file, which stays small.
    rest = 1 if health.partitions is None else health.partitions.count
    could_go = files.small_files - max(rest, -(-files.small_bytes // max(1, files.target_bytes)))
    if could_go >= _SMALL_FILES:
        reason = (
            f"{count_of(files.small_files, 'file')} of {number(files.count)} are below "
            f"{bytes_text(files.large_enough_bytes)} ({bytes_text(files.small_bytes)} together). {aim}; about "
            f"{count_of(could_go, 'file')} could go."
        )
        yield Advice(ACT, "files", "Many small files", reason, f"deltaplane optimize {_where(health)}")
    else:
        yield Advice(FINE, "files", "File sizes", f"Putting small files together would save few; {aim}.")


def _deleted_rows(health: Health) -> Iterator[Advice]:
    vectors = health.vectors
    if vectors.above:
        reason = (
            f"{count_of(vectors.above, 'file')} ({bytes_text(vectors.above_bytes)}) have more than "
            f"{percent(vectors.ratio)} of their rows deleted: every scan reads rows that aren't there any more."
        )
        yield Advice(ACT, "vectors", "Deleted rows are still in files", reason, f"deltaplane optimize {_where(health)}")
    elif vectors.files:
        reason = f"{count_of(vectors.files, 'file')} have a deletion vector, none above {percent(vectors.ratio)}."
        yield Advice(FINE, "vectors", "Deletion vectors", reason)


def _clustering(health: Health) -> Iterator[Advice]:
    if considered_files(health) < _FILES_TO_SKIP:
        return
    poor = [c for c in health.columns if c.is_key and lookup_share(c, health) > _POOR_SHARE]
    for column in poor:
        reason = (
            f"A look-up of one value in {column.name} reads {amount(lookup_files(column, health))} files on average, at most "
            f"{number(column.depth.most + column.unknown)}, though the table is clustered by it."
        )
        yield Advice(ACT, "columns", "Clustering has worn off", reason, f"deltaplane optimize {_where(health)}")
    if health.clustering_columns and not poor:
        yield Advice(FINE, "columns", "Clustering", "Look-ups by the clustering columns read few files.")
    elif not health.clustering_columns:
        good = [
            c
            for c in health.columns
            if lookup_share(c, health) <= _POOR_SHARE or lookup_files(c, health) <= _GOOD_FILES
        ]
        if good:
            names = ", ".join(c.name for c in good[:3])
            yield Advice(FINE, "columns", "Files can be left out", f"Bounds tell files apart by {names}.")
        elif health.columns:
            reason = (
                "No column's bounds tell files apart: whatever a query looks for, it reads most files. Order the rows "
                "by the columns that queries filter by."
            )
            command = f"deltaplane optimize {_where(health)} --zorder COLUMN"
            yield Advice(WATCH, "columns", "No file can be left out", reason, command)


def _statistics(health: Health) -> Iterator[Advice]:
    if health.files.without_rows:
        reason = (
            f"{count_of(health.files.without_rows, 'file')} of {number(health.files.count)} have no statistics: every query reads "
            "them. OPTIMIZE writes them anew, with statistics."
        )
        yield Advice(ACT, "columns", "Files without statistics", reason, f"deltaplane optimize {_where(health)}")
    elif health.files.count:
        yield Advice(FINE, "columns", "Statistics", "Every file says how many rows it has.")


def _checkpoint(health: Health) -> Iterator[Advice]:
    since, interval = health.log["commits_since_checkpoint"]["files"], health.log["checkpoint_interval"]
    if since > 2 * interval:
        reason = (
            f"{count_of(since, 'commit')} ({bytes_text(health.log['commits_since_checkpoint']['size_bytes'])}) stand after "
            f"the last checkpoint and are read whenever the table is opened; the table wants one every {number(interval)}."
        )
        yield Advice(ACT, "log", "A checkpoint is due", reason, f"deltaplane checkpoint {_where(health)}")
    else:
        yield Advice(FINE, "log", "Checkpoints", f"{count_of(since, 'commit')} to read after the last checkpoint.")


def _log_retention(health: Health) -> Iterator[Advice]:
    oldest, retention = health.log["oldest_commit_ms"], health.log["log_retention_ms"]
    if oldest is None:
        return
    age = health.made_ms - oldest
    if not health.log["cleanup_enabled"]:
        reason = f"The log has {count_of(health.log['commits']['files'], 'commit')} and is never cleaned up by itself."
        yield Advice(WATCH, "log", "Log clean-up is switched off", reason)
    elif age > 2 * retention + _DAY_MS:
        reason = (
            f"The oldest commit is {duration(age)} old, twice as old as the log is kept for ({duration(retention)}). Clean-up "
            "comes with checkpoints: write one."
        )
        yield Advice(WATCH, "log", "The log is older than promised", reason, f"deltaplane checkpoint {_where(health)}")


def _tombstones(health: Health) -> Iterator[Advice]:
    files, size = health.tombstones["expired_files"], health.tombstones["expired_bytes"]
    if files and size >= _VACUUM_SHARE * health.files.size_bytes:
        reason = (
            f"{count_of(files, 'file')} ({bytes_text(size)}) were taken out longer ago than they have to be kept. The log "
            "doesn't tell which of them VACUUM has deleted already."
        )
        yield Advice(WATCH, "log", "Old files may be deleted", reason, f"deltaplane vacuum {_where(health)} --dry-run")


def _partitions(health: Health) -> Iterator[Advice]:
    partitions = health.partitions
    if partitions is None or not partitions.count:
        return
    columns = ", ".join(partitions.columns)
    if partitions.count >= _MANY_PARTITIONS and partitions.median_bytes < _FEW_BYTES_SHARE * health.files.target_bytes:
        reason = (
            f"{count_of(partitions.count, 'partition')} by {columns}, half of them with at most "
            f"{bytes_text(partitions.median_bytes)}: no file can grow to a good size. Partition by less, or cluster instead."
        )
        yield Advice(WATCH, "partitions", "Partitions are small", reason)
    elif partitions.gini > _UNEVEN_GINI and partitions.count > 1:
        first = partitions.largest[0]
        reason = (
            f"The largest of {count_of(partitions.count, 'partition')} by {columns} has {bytes_text(first.size_bytes)}, half "
            f"have at most {bytes_text(partitions.median_bytes)}: tasks that take a partition each wait for the largest."
        )
        yield Advice(WATCH, "partitions", "Partitions are uneven", reason)
    else:
        yield Advice(FINE, "partitions", "Partitions", f"{count_of(partitions.count, 'partition')} by {columns}.")


def _conflicts(health: Health) -> Iterator[Advice]:
    seen = health.commits
    if seen is not None and seen.telling >= _SMALL_FILES and seen.overtaken > seen.telling / 4:
        reason = (
            f"{number(seen.overtaken)} of {count_of(seen.telling, 'commit')} that tell came after commits which they hadn't "
            f"read, at most {number(seen.most_overtaken)} of them: writers meet often. Fewer, larger commits meet less."
        )
        yield Advice(WATCH, "commits", "Writers get in each other's way", reason)


def _engines(health: Health) -> Iterator[Advice]:
    newest = {engine.engine: engine for engine in health.compatibility.engines}
    blind = [f"{engine.engine} {engine.versions}" for engine in newest.values() if not engine.reads]
    if blind:
        reason = f"Not read by {', '.join(blind)}; the section on engines says what they lack."
        yield Advice(WATCH, "engines", "Some engines can't read the table", reason)
    else:
        yield Advice(FINE, "engines", "Engines", "Every engine that we know reads the table in its newest version.")


RULES: tuple[Callable[[Health], Iterable[Advice]], ...] = (
    _small_files,
    _deleted_rows,
    _statistics,
    _checkpoint,
    _clustering,
    _tombstones,
    _log_retention,
    _partitions,
    _conflicts,
    _engines,
)

_JUDGED_BETTER = (_small_files, _deleted_rows, _statistics, _checkpoint, _clustering, _tombstones)
