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


def advice(of: Health, judged: AdviceReport | None = None) -> tuple[Advice, ...]:
    """Applies every rule and sorts the advice by urgency. Results of `DeltaTable.advise` replace
    the rules on the same subjects, since `advise` uses the workload and tries other layouts.
    """
    said = [one for rule in RULES if judged is None or rule not in _JUDGED_BETTER for one in rule(of)]
    if judged is not None:
        said += _judged(judged)
    return tuple(sorted(said, key=lambda one: _ORDER.index(one.level)))


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
    for one in judged:
        # A kind without an entry is shown under its own name.
        section, level, title = _KINDS.get(one.kind, ("table", WATCH, one.kind))
        reads = f" Now {one.now} are read, then {one.then}." if one.now != one.then else ""
        costs = f" It costs {bytes_text(one.read_bytes)} read and {bytes_text(one.written_bytes)} written."
        rests = f" By {one.basis}." if one.basis else ""
        reason = f"{one.why[:1].upper()}{one.why[1:]}.{reads}{costs}{rests}"
        yield Advice(level, section, title, reason, one.commands.shell or one.commands.sql or one.commands.python)
    if not judged.advice:
        yield Advice(
            FINE, "files", "Care", "Nothing that advise looked at would pay: the table's layout suits what is read."
        )


def considered_files(of: Health) -> float:
    """Average number of files that a query with a partition predicate could read, over all
    files."""
    return float(of.files.count) if of.partitions is None else of.partitions.files_around


def lookup_files(column: Column, of: Health) -> float:
    """Average number of files that a look-up of one value reads: the files whose bounds hold the
    value, and the files without bounds, which are assumed to be spread evenly over partitions."""
    without = column.unknown / of.files.count if of.files.count else 0.0
    return column.depth.average + without * considered_files(of)


def lookup_share(column: Column, of: Health) -> float:
    """`lookup_files` as a share of the considered files."""
    files = considered_files(of)
    return min(1.0, lookup_files(column, of) / files) if files else 0.0


def _where(of: Health) -> str:
    path = of.table.removeprefix("file://") if of.table.startswith("file:///") else of.table
    return shlex.quote(path)


def _small_files(of: Health) -> Iterator[Advice]:
    files = of.files
    aim = f"OPTIMIZE aims at {bytes_text(files.target_bytes)}"
    # Each partition has one remainder file, which stays small.
    rest = 1 if of.partitions is None else of.partitions.count
    could_go = files.small_files - max(rest, -(-files.small_bytes // max(1, files.target_bytes)))
    if could_go >= _SMALL_FILES:
        reason = (
            f"{count_of(files.small_files, 'file')} of {number(files.count)} are below "
            f"{bytes_text(files.large_enough_bytes)} ({bytes_text(files.small_bytes)} together). {aim}; about "
            f"{count_of(could_go, 'file')} could go."
        )
        yield Advice(ACT, "files", "Many small files", reason, f"deltaplane optimize {_where(of)}")
    else:
        yield Advice(FINE, "files", "File sizes", f"Putting small files together would save few; {aim}.")


def _deleted_rows(of: Health) -> Iterator[Advice]:
    vectors = of.vectors
    if vectors.above:
        reason = (
            f"{count_of(vectors.above, 'file')} ({bytes_text(vectors.above_bytes)}) have more than "
            f"{percent(vectors.ratio)} of their rows deleted: every scan reads rows that aren't there any more."
        )
        yield Advice(ACT, "vectors", "Deleted rows are still in files", reason, f"deltaplane optimize {_where(of)}")
    elif vectors.files:
        reason = f"{count_of(vectors.files, 'file')} have a deletion vector, none above {percent(vectors.ratio)}."
        yield Advice(FINE, "vectors", "Deletion vectors", reason)


def _clustering(of: Health) -> Iterator[Advice]:
    if considered_files(of) < _FILES_TO_SKIP:
        return
    poor = [c for c in of.columns if c.is_key and lookup_share(c, of) > _POOR_SHARE]
    for column in poor:
        reason = (
            f"A look-up of one value in {column.name} reads {amount(lookup_files(column, of))} files on average, at most "
            f"{number(column.depth.most + column.unknown)}, though the table is clustered by it."
        )
        yield Advice(ACT, "columns", "Clustering has worn off", reason, f"deltaplane optimize {_where(of)}")
    if of.clustering_columns and not poor:
        yield Advice(FINE, "columns", "Clustering", "Look-ups by the clustering columns read few files.")
    elif not of.clustering_columns:
        good = [c for c in of.columns if lookup_share(c, of) <= _POOR_SHARE or lookup_files(c, of) <= _GOOD_FILES]
        if good:
            names = ", ".join(c.name for c in good[:3])
            yield Advice(FINE, "columns", "Files can be left out", f"Bounds tell files apart by {names}.")
        elif of.columns:
            reason = (
                "No column's bounds tell files apart: whatever a query looks for, it reads most files. Order the rows "
                "by the columns that queries filter by."
            )
            command = f"deltaplane optimize {_where(of)} --zorder COLUMN"
            yield Advice(WATCH, "columns", "No file can be left out", reason, command)


def _statistics(of: Health) -> Iterator[Advice]:
    if of.files.without_rows:
        reason = (
            f"{count_of(of.files.without_rows, 'file')} of {number(of.files.count)} have no statistics: every query reads "
            "them. OPTIMIZE writes them anew, with statistics."
        )
        yield Advice(ACT, "columns", "Files without statistics", reason, f"deltaplane optimize {_where(of)}")
    elif of.files.count:
        yield Advice(FINE, "columns", "Statistics", "Every file says how many rows it has.")


def _checkpoint(of: Health) -> Iterator[Advice]:
    since, interval = of.log["commits_since_checkpoint"]["files"], of.log["checkpoint_interval"]
    if since > 2 * interval:
        reason = (
            f"{count_of(since, 'commit')} ({bytes_text(of.log['commits_since_checkpoint']['size_bytes'])}) stand after "
            f"the last checkpoint and are read whenever the table is opened; the table wants one every {number(interval)}."
        )
        yield Advice(ACT, "log", "A checkpoint is due", reason, f"deltaplane checkpoint {_where(of)}")
    else:
        yield Advice(FINE, "log", "Checkpoints", f"{count_of(since, 'commit')} to read after the last checkpoint.")


def _log_retention(of: Health) -> Iterator[Advice]:
    oldest, kept = of.log["oldest_commit_ms"], of.log["log_retention_ms"]
    if oldest is None:
        return
    age = of.made_ms - oldest
    if not of.log["cleanup_enabled"]:
        reason = f"The log has {count_of(of.log['commits']['files'], 'commit')} and is never cleaned up by itself."
        yield Advice(WATCH, "log", "Log clean-up is switched off", reason)
    elif age > 2 * kept + _DAY_MS:
        reason = (
            f"The oldest commit is {duration(age)} old, twice as old as the log is kept for ({duration(kept)}). Clean-up "
            "comes with checkpoints: write one."
        )
        yield Advice(WATCH, "log", "The log is older than promised", reason, f"deltaplane checkpoint {_where(of)}")


def _tombstones(of: Health) -> Iterator[Advice]:
    files, size = of.tombstones["expired_files"], of.tombstones["expired_bytes"]
    if files and size >= _VACUUM_SHARE * of.files.size_bytes:
        reason = (
            f"{count_of(files, 'file')} ({bytes_text(size)}) were taken out longer ago than they have to be kept. The log "
            "doesn't tell which of them VACUUM has deleted already."
        )
        yield Advice(WATCH, "log", "Old files may be deleted", reason, f"deltaplane vacuum {_where(of)} --dry-run")


def _partitions(of: Health) -> Iterator[Advice]:
    found = of.partitions
    if found is None or not found.count:
        return
    columns = ", ".join(found.columns)
    if found.count >= _MANY_PARTITIONS and found.median_bytes < _FEW_BYTES_SHARE * of.files.target_bytes:
        reason = (
            f"{count_of(found.count, 'partition')} by {columns}, half of them with at most "
            f"{bytes_text(found.median_bytes)}: no file can grow to a good size. Partition by less, or cluster instead."
        )
        yield Advice(WATCH, "partitions", "Partitions are small", reason)
    elif found.gini > _UNEVEN_GINI and found.count > 1:
        first = found.largest[0]
        reason = (
            f"The largest of {count_of(found.count, 'partition')} by {columns} has {bytes_text(first.size_bytes)}, half "
            f"have at most {bytes_text(found.median_bytes)}: tasks that take a partition each wait for the largest."
        )
        yield Advice(WATCH, "partitions", "Partitions are uneven", reason)
    else:
        yield Advice(FINE, "partitions", "Partitions", f"{count_of(found.count, 'partition')} by {columns}.")


def _conflicts(of: Health) -> Iterator[Advice]:
    seen = of.commits
    if seen is not None and seen.telling >= _SMALL_FILES and seen.overtaken > seen.telling / 4:
        reason = (
            f"{number(seen.overtaken)} of {count_of(seen.telling, 'commit')} that tell came after commits which they hadn't "
            f"read, at most {number(seen.most_overtaken)} of them: writers meet often. Fewer, larger commits meet less."
        )
        yield Advice(WATCH, "commits", "Writers get in each other's way", reason)


def _engines(of: Health) -> Iterator[Advice]:
    newest = {one.engine: one for one in of.compatibility.engines}
    blind = [f"{one.engine} {one.versions}" for one in newest.values() if not one.reads]
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
