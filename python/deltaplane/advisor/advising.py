"""Derives advice from the log's facts, from the present reads of the workload, and from modelled
layouts.

Changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from deltaplane.io import records

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from deltaplane import _native
from deltaplane.advisor.advice import OPEN_BYTES, Advice, AdviceReport, Candidate, Commands, Reads
from deltaplane.advisor.facts import Facts, facts_of
from deltaplane.advisor.indexes import IndexInputs, indexes
from deltaplane.advisor.layouts import Model, Sample, reads_of
from deltaplane.advisor.workload import Columns, Lookup, Path_, Predicates, Workload, drawn, predicate_workload, quoted
from deltaplane.commands.optimize import Layout, begin
from deltaplane.commands.plan_explanation import PlanExplanation, size_text
from deltaplane.commands.rewriting import Settings, Target
from deltaplane.commands.vacuum import Vacuum, counted
from deltaplane.properties import commit_request
from deltaplane.report.describe import clustering_columns_of

__all__ = ["SAMPLE_ROWS", "Asked", "advise"]

SAMPLE_ROWS = 65_536
# A rewrite pays if it saves at least this share of the present reads.
_LEAST_GAIN = 0.1
_LEAST_REWRITE = 0.25
# A further column must improve a layout by at least this share.
_LEAST_STEP = 0.02
_MOST_COLUMNS = 4
# Maximum number of columns to try; and the minimum number of distinct values in the sample for a
# column to be tried without a workload.
_TRIED_COLUMNS = 8
_LEAST_VALUES = 10
_CURVES = ("hilbert", "zorder", "kdtree")
# VACUUM or purge pays if it frees at least this share of the table's bytes.
_LEAST_FREED = 0.01
_LEAST_DEAD = 0.05
# A property is advised for a checkpoint of at least this size, or for more small files than this.
_LARGE_CHECKPOINT = 64 << 20
_MANY_SMALL_FILES = 50


@dataclass(frozen=True)
class Asked:
    """The request for advice: the workload's predicates, and whether to try other orders of
    rows."""

    predicates: Predicates | None = None
    sample_rows: int = SAMPLE_ROWS
    layouts: bool = True


def advise(location: str, snapshot: _native.Snapshot, asked: Asked) -> AdviceReport:
    """Computes the advice for this version."""
    return _Advisor(location, snapshot, asked).report()


class _Advisor:
    """The analysis of one version, with the results so far."""

    def __init__(self, location: str, snapshot: _native.Snapshot, asked: Asked) -> None:
        self.location, self.snapshot, self.asked = location, snapshot, asked
        self.columns = Columns.of(snapshot)
        self.facts: Facts = facts_of(snapshot)
        self.properties: dict[str, str] = snapshot.info.configuration
        self.clustered = clustering_columns_of(snapshot)
        self.candidates: list[Candidate] = []

    def report(self) -> AdviceReport:
        items = list(self._advice()) if self.facts.files else []
        # Advice that only sets a property comes last.
        items.sort(key=lambda item: (item.kind == "property", -item.gain_per_byte))
        return AdviceReport(
            table=self.snapshot.uri,
            version=self.snapshot.version,
            files=self.facts.files,
            size_bytes=self.facts.bytes,
            workload=self.workload.kind,
            predicates=len(self.workload.lookups),
            advice=tuple(items),
            candidates=tuple(self.candidates),
            left_out=self.workload.left_out,
            sampled_rows=self.sample.rows if "sample" in self.__dict__ else 0,
        )

    def _advice(self) -> Iterator[Advice]:
        self.candidates.append(Candidate("as it is", self.now, exact=True))
        compacted = yield from self._compaction()
        yield from self._orders(compacted)
        yield from self._purge()
        yield from self._vacuum()
        yield from self._checkpoint()
        yield from self._statistics()
        yield from indexes(self._index_inputs)

    # --- what is read -------------------------------------------------------------------------------------------------

    @cached_property
    def workload(self) -> Workload:
        if self.asked.predicates is not None:
            return predicate_workload(self.snapshot, self.asked.predicates, self.columns)
        wanted = self.sample.columns if self._rearranges else {}
        return drawn({path: wanted[path] for path in self._varied(wanted)}, self.columns)

    @cached_property
    def sample(self) -> Sample:
        if self.asked.predicates is None:
            paths = [path for path in self._orderable if path in self.facts.measured][: 2 * _TRIED_COLUMNS]
        else:
            paths = self._used
        if self.clustered:
            paths = list(dict.fromkeys([*paths, *self._cluster_paths]))
        return Sample.of(self.snapshot, paths, self.asked.sample_rows) if paths else Sample({}, 0)

    @property
    def _orderable(self) -> list[Path_]:
        return [path for low, path in self.columns.leaves.items() if low[0] not in self.columns.partitions]

    @property
    def _used(self) -> list[Path_]:
        """The columns of the workload's predicates, those with the most reads first."""
        read: dict[Path_, float] = {}
        for lookup, now in zip(self.workload.lookups, self._now_of, strict=True):
            for path in lookup.columns & self.facts.measured:
                read[path] = read.get(path, 0) + now.cost * lookup.weight
        return sorted(read, key=lambda path: (-read[path], path))[:_TRIED_COLUMNS]

    def _varied(self, sample: Any) -> list[Path_]:
        """The columns with enough distinct values in the sample."""
        import pyarrow.compute as pc

        varied = [path for path, values in sample.items() if pc.count_distinct(values).as_py() >= _LEAST_VALUES]
        return varied[:_TRIED_COLUMNS]

    @cached_property
    def _now_of(self) -> list[Reads]:
        return [reads_of(self.snapshot, lookup.whole) for lookup in self.workload.lookups]

    @cached_property
    def now(self) -> Reads:
        return _sum(self.workload.lookups, self._now_of)

    @cached_property
    def _partitions_of(self) -> list[Reads]:
        """The reads of each predicate after pruning by partition columns alone: exact for any
        layout."""
        return [reads_of(self.snapshot, lookup.on_partitions) for lookup in self.workload.lookups]

    # --- files by their size ------------------------------------------------------------------------------------------

    @cached_property
    def _compacting(self) -> tuple[_native.Layout, records.OptimizeSummary]:
        return begin(Target(self.location, self.snapshot), Layout(dry_run=True), Settings())

    @property
    def _files_after(self) -> int:
        """Number of files per partition after a rewrite of all rows."""
        target: int = max(self._compacting[1].target_bytes, 1)
        of_partition = self.facts.bytes // max(self.facts.partitions, 1)
        return max(-(-of_partition // target), 1)

    @property
    def _rearranges(self) -> bool:
        """Whether sorting rows can make a difference, that is, whether a rewrite makes several
        files in a partition."""
        return self.asked.layouts and self._files_after > 1

    def _compaction(self) -> Generator[Advice, None, Reads]:
        """Advises joining small files, and clustering the new files of a clustered table; returns
        the workload's reads afterwards."""
        job, plan = self._compacting
        if not plan.files:
            return self.now
        if plan.ordered:
            return (yield from self._clustering())
        then = _sum(self.workload.lookups, [Reads(*job.read_after(lookup.whole)) for lookup in self.workload.lookups])
        self.candidates.append(Candidate("optimize", then, files=self.facts.files - plan.files + plan.groups))
        if not _pays(self.now, then):
            return self.now
        why = f"{plan.files:,} of {self.facts.files:,} files are small or outdated and become {plan.groups:,}"
        if self.facts.without_statistics:
            why += f"; {self.facts.without_statistics:,} without statistics get some"
        basis = "the log's statistics: a file that is put together is read where one of its parts would be"
        yield self._optimize(why, plan.bytes, then, basis)
        yield from self._automatic(plan)
        return then

    def _clustering(self) -> Generator[Advice, None, Reads]:
        """Advises clustering the files of a clustered table that aren't clustered yet."""
        _, plan = self._compacting
        if not self._rearranges or not self.sample.rows:
            return self.now
        then = self._tried(tuple(self._cluster_paths), "hilbert")
        if not _pays(self.now, then):
            return self.now
        why = f"{plan.files:,} of {self.facts.files:,} files aren't clustered by {', '.join(self.clustered)} yet"
        yield self._optimize(why, plan.bytes, then, self._basis)
        return then

    def _optimize(self, why: str, size: int, then: Reads, basis: str) -> Advice:
        commands = Commands(f"deltaplane optimize {self._shell}", f"OPTIMIZE {self._sql}", "table.optimize.compact()")
        return self._of_reads("optimize", why, commands, size, then, basis)

    def _automatic(self, plan: records.OptimizeSummary) -> Iterator[Advice]:
        automatic = self.properties.get("delta.autoOptimize.autoCompact", "false").lower()
        if plan.files >= _MANY_SMALL_FILES and automatic == "false":
            why = f"writes leave many small files, {plan.files:,} now: they can be put together after each commit"
            yield self._property("delta.autoOptimize.autoCompact", "true", why)

    def _property(self, name: str, value: str, why: str, gain: float = 0) -> Advice:
        sql = f"ALTER TABLE {self._sql} SET TBLPROPERTIES ('{name}' = '{value}')"
        python = f"table.alter.set_table_properties({{{name!r}: {value!r}}})"
        return Advice("property", why, Commands(_of_sql(sql), sql, python), gain, exact=True)

    # --- rows in an order ---------------------------------------------------------------------------------------------

    def _orders(self, compacted: Reads) -> Iterator[Advice]:
        """Finds the best columns and curve by adding one column at a time as long as that helps."""
        if not self._rearranges or not self.sample.rows:
            return
        paths = self._used if self._is_given else self._varied(self.sample.columns)
        chosen: tuple[Path_, ...] = ()
        best: Reads | None = None
        while len(chosen) < _MOST_COLUMNS:
            tried = [(*chosen, path) for path in paths if path not in chosen]
            reads = [(self._tried(columns, _CURVES[0]), columns) for columns in tried]
            step = min(reads, key=lambda trial: (trial[0].cost, trial[1]), default=None)
            if step is None or (best is not None and step[0].cost > (1 - _LEAST_STEP) * best.cost):
                break
            best, chosen = step
        if best is None:
            return
        if self.clustered:
            same = [".".join(path) for path in chosen] == self.clustered
            # A table that is already clustered by these columns can only gain from fewer runs.
            if same and _pays(self.now, best, _LEAST_REWRITE) and _pays(compacted, best):
                yield self._full(best)
            elif not same and _pays(self.now, best, _LEAST_REWRITE) and _pays(compacted, best):
                yield self._keys(chosen, best)
            return
        along, curve = best, _CURVES[0]
        for other in _CURVES[1:] if len(chosen) > 1 else ():
            then = self._tried(chosen, other)
            if then.cost < (1 - _LEAST_STEP) * best.cost:
                best, curve = then, other
        plan = self._ordering(chosen, curve)
        if plan.files and _pays(self.now, best, _LEAST_REWRITE) and _pays(compacted, best):
            yield self._order(chosen, curve, best, plan.bytes)
            if not self.columns.partitions and self._is_given:
                yield self._keys(chosen, along)

    def _ordering(self, paths: Sequence[Path_], curve: str) -> records.OptimizeSummary:
        """The dry run of an order: empty if all files already have that order."""
        what = Layout(columns=[quoted(path) for path in paths], curve=curve, dry_run=True)
        return begin(Target(self.location, self.snapshot), what, Settings())[1]

    def _order(self, paths: Sequence[Path_], curve: str, then: Reads, size: int) -> Advice:
        names = [quoted(path) for path in paths]
        why = f"rows that are near in {', '.join(names)} in the same files would let more files be skipped"
        columns = " ".join(f"-z {_shell_text(name)}" for name in names)
        commands = Commands(
            f"deltaplane optimize {self._shell} {columns} --curve {curve}",
            # SQL has syntax for the Z-order curve only.
            f"OPTIMIZE {self._sql} ZORDER BY ({', '.join(names)})" if curve == "zorder" else None,
            f"table.optimize.z_order({names!r}, curve={curve!r})",
        )
        return self._of_reads("zorder", why, commands, size, then, self._basis, tuple(names), curve)

    def _keys(self, paths: Sequence[Path_], then: Reads) -> Advice:
        """Advises clustering columns, since OPTIMIZE then orders new files automatically."""
        names = [quoted(path) for path in paths]
        why = f"{', '.join(names)} as keys keep near rows together, also those to come"
        why += (
            f", better than {', '.join(self.clustered)}"
            if self.clustered
            else "; the protocol then asks for clustering"
        )
        keys = f"ALTER TABLE {self._sql} CLUSTER BY ({', '.join(names)})"
        commands = Commands(
            f"{_of_sql(keys)} && deltaplane optimize {self._shell} --full",
            f"{keys}; OPTIMIZE {self._sql} FULL",
            f"table.alter.cluster_by({names!r}); table.optimize.compact(full=True)",
        )
        return self._of_reads("cluster_by", why, commands, self.facts.bytes, then, self._basis, tuple(names), "hilbert")

    def _full(self, then: Reads) -> Advice:
        """Advises OPTIMIZE FULL for a clustered table whose clustering can improve."""
        why = f"files overlap more in {', '.join(self.clustered)} than if all rows were clustered again"
        commands = Commands(
            f"deltaplane optimize {self._shell} --full",
            f"OPTIMIZE {self._sql} FULL",
            "table.optimize.compact(full=True)",
        )
        return self._of_reads("optimize", why, commands, self.facts.bytes, then, self._basis)

    def _tried(self, columns: tuple[Path_, ...], curve: str) -> Reads:
        """The workload's reads with this order."""
        names = tuple(quoted(path) for path in columns)
        known = next(
            (candidate for candidate in self.candidates if (candidate.columns, candidate.curve) == (names, curve)), None
        )
        if known is None:
            then = self._modelled(columns, curve)
            known = Candidate(f"{curve} ({', '.join(names)})", then, names, curve, self._modelled_files)
            self.candidates.append(known)
        return known.reads

    @property
    def _modelled_files(self) -> int:
        """Number of modelled files per partition: fewer than a rewrite makes only if the sample is
        too small to represent as many."""
        return min(self._files_after, self.sample.most_files())

    @property
    def _basis(self) -> str:
        return (
            f"a model: {self.sample.rows:,} sampled rows in {self._modelled_files:,} files for the {self._files_after:,} "
            "that a rewrite would make of each partition; what predicates on partition columns leave is exact"
        )

    def _modelled(self, columns: Sequence[Path_], curve: str) -> Reads:
        """The workload's reads if each partition's rows have this order. Parts of predicates on
        columns outside of the sample count as true for every file."""
        lookups, reads = self.workload.lookups, []
        with Model.of(self.sample, columns, curve, self._modelled_files) as model:
            for lookup, left in zip(lookups, self._partitions_of, strict=True):
                share = model.share(lookup.on(model.columns))
                size = left.bytes * share
                of_files = self._files_after * max(self.facts.partitions, 1) / max(self.facts.bytes, 1)
                reads.append(Reads(max(size * of_files, 1.0 if size else 0.0), size))
        return _sum(lookups, reads)

    @property
    def _cluster_paths(self) -> list[Path_]:
        known = {quoted(path): path for path in self.columns.leaves.values()}
        known |= {".".join(path): path for path in self.columns.leaves.values()}
        return [known[name] for name in self.clustered if name in known]

    # --- the rest -----------------------------------------------------------------------------------------------------

    def _purge(self) -> Iterator[Advice]:
        facts = self.facts
        if facts.dead_bytes < _LEAST_DEAD * facts.bytes or not facts.dead_bytes:
            return
        why = f"vectors of {facts.vectors:,} files delete {facts.deleted_rows:,} rows, which are read past each time"
        sql = f"REORG TABLE {self._sql} APPLY (PURGE)"
        then = Reads(facts.files, facts.bytes - facts.dead_bytes)
        yield Advice(
            kind="purge",
            why=why,
            commands=Commands(_of_sql(sql), sql, "table.purge()"),
            gain_bytes=facts.dead_bytes,
            now=Reads(facts.files, facts.bytes),
            then=then,
            read_bytes=facts.vector_bytes,
            written_bytes=facts.vector_bytes - facts.dead_bytes,
            basis="a look at all rows, and as many bytes for each row of a file",
        )

    def _vacuum(self) -> Iterator[Advice]:
        report = counted(self.snapshot, Vacuum(), commit_request(None, None))
        files, freed = report.files, report.size_bytes
        if not files or freed < _LEAST_FREED * self.facts.bytes:
            return
        why = f"{files:,} files with {size_text(freed)} were removed before the retention, and no version in it needs them"
        commands = Commands(
            f"deltaplane vacuum {self._shell} --lite", f"VACUUM {self._sql} LITE", "table.vacuum(dry_run=False)"
        )
        yield Advice("vacuum", why, commands, freed, exact=True)

    def _checkpoint(self) -> Iterator[Advice]:
        # A snapshot object that was updated misses checkpoints written later, so the version is
        # opened again.
        log = self.snapshot.at(self.snapshot.version).log_size
        size = log.checkpoint_bytes + log.commit_bytes
        head = 0 if log.checkpoint is None else 1
        now, then = Reads(log.commits + head, size), Reads(1, size)
        if log.commits > log.checkpoint_interval:
            why = f"opening the table reads {log.commits:,} commits after the last checkpoint"
            commands = Commands(f"deltaplane checkpoint {self._shell}", None, "table.create_checkpoint()")
            gain = now.cost - then.cost
            basis = "the sizes of the log's files; a checkpoint takes less than the commits for which it stands"
            yield Advice("checkpoint", why, commands, gain, now, then, size, size, basis=basis)
        if log.checkpoint_bytes >= _LARGE_CHECKPOINT and self.properties.get("delta.checkpointPolicy") != "v2":
            why = f"each checkpoint rewrites {size_text(log.checkpoint_bytes)}; V2 ones only the parts that changed"
            yield self._property("delta.checkpointPolicy", "v2", why)

    def _statistics(self) -> Iterator[Advice]:
        """Columns of the workload's predicates for which new files get no statistics."""
        if not self._is_given:
            return
        lacks = sorted({path for lookup in self.workload.lookups for path in lookup.columns} - self.facts.measured)
        if not lacks:
            return
        names = [quoted(path) for path in lacks]
        predicate_count = sum(
            len(PlanExplanation.of(self.snapshot.explain(lookup.whole)).selected_without_statistics or {}) > 0
            for lookup in self.workload.lookups
        )
        measured = ",".join([*(quoted(path) for path in sorted(self.facts.measured)), *names])
        why = f"{', '.join(names)}: no statistics, so that {predicate_count:,} predicates skip no file by it; new files get some then"
        change = self._property("delta.dataSkippingStatsColumns", measured, why)
        yield Advice("statistics", why, change.commands, 0, exact=True, columns=tuple(names))

    @property
    def _index_inputs(self) -> IndexInputs:
        by_lookup = tuple(zip(self.workload.lookups, self._now_of, strict=True)) if self._is_given else ()
        return IndexInputs(self.snapshot, self.facts, by_lookup, lambda: self.sample, self._sql)

    @property
    def _is_given(self) -> bool:
        return self.workload.kind == "given"

    # --- words --------------------------------------------------------------------------------------------------------

    def _of_reads(
        self,
        kind: str,
        why: str,
        commands: Commands,
        size: int,
        then: Reads,
        basis: str,
        columns: tuple[str, ...] = (),
        curve: str | None = None,
    ) -> Advice:
        gain = self.now.cost - then.cost
        return Advice(kind, why, commands, gain, self.now, then, size, size, False, basis, columns, curve)

    @property
    def _shell(self) -> str:
        return _shell_text(self.location)

    @property
    def _sql(self) -> str:
        return f"delta.`{self.location.replace('`', '``')}`"


def _sum(lookups: Sequence[Lookup], reads: Sequence[Reads]) -> Reads:
    total = Reads()
    for lookup, reads_of_one in zip(lookups, reads, strict=True):
        total += reads_of_one.times(lookup.weight)
    return total


def _pays(now: Reads, then: Reads, least: float = _LEAST_GAIN) -> bool:
    return now.cost - then.cost >= max(least * now.cost, OPEN_BYTES)


def _shell_text(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _of_sql(sql: str) -> str:
    return f"deltaplane sql {_shell_text(sql)}"
