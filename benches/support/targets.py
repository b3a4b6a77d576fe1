"""The targets, as data, and whether the lines of a measure reach them.

A goal is met if its figure is at most its limit. It is judged at its own size if that was measured,
otherwise at the largest measured size. Independent of how lines are shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Literal

from support.results import Line

SUBJECT = "deltaplane"
Figure = Literal["median_s", "mean_s", "cpu_s", "peak_mb", "added_mb", "size_mb", "failed", "tail_s"]


@dataclass(frozen=True)
class Seen:
    """A goal's measured figure, and its size (None for measures without sizes)."""

    value: float
    size: int | None


@dataclass(frozen=True)
class Goal:
    """deltaplane's own figure, in the figure's unit."""

    id: str
    tag: str
    says: str
    figure: Figure
    at_most: float

    @property
    def unit(self) -> str:
        return {"failed": "", "s": "s"}.get(self.figure.rsplit("_", 1)[-1], "MB")

    def seen(self, lines: Iterable[Line]) -> Seen | None:
        """The measured figure; None without a measurement. `lines` may contain other measures'
        lines, which are ignored."""
        at_sizes = _by_size([line for line in lines if line.target == self.tag])
        return self._judged(at_sizes)

    def _judged(self, at_sizes: Mapping[int | None, Mapping[str, Line]]) -> Seen | None:
        for size, ours, _ in _in_turn(at_sizes, SUBJECT, self.id):
            return Seen(_figure(ours, self.figure), size)
        return None


@dataclass(frozen=True)
class Ratio(Goal):
    """deltaplane's figure divided by another contestant's, of the same run."""

    over: str = ""

    @property
    def unit(self) -> str:
        return "x"

    def _judged(self, at_sizes: Mapping[int | None, Mapping[str, Line]]) -> Seen | None:
        for size, ours, other in _in_turn(at_sizes, self.over, self.id):
            if _figure(other, self.figure) > 0:
                return Seen(_figure(ours, self.figure) / _figure(other, self.figure), size)
        return None


@dataclass(frozen=True)
class OfCases(Ratio):
    """The ratio over all cases of the largest size: the worst one, or their geometric mean."""

    mean: bool = False

    def seen(self, lines: Iterable[Line]) -> Seen | None:
        cases: dict[int | None, dict[str, dict[str, Line]]] = {}
        for line in lines:
            if line.target == self.tag:
                cases.setdefault(line.size, {}).setdefault(line.case, {})[line.contestant] = line
        for size in sorted(cases, key=_order, reverse=True):
            judged = [self._judged({size: of_case}) for of_case in cases[size].values()]
            ratios = [verdict.value for verdict in judged if verdict is not None]
            if ratios:
                return Seen(geometric_mean(ratios) if self.mean else max(ratios), size)
        return None


@dataclass(frozen=True)
class Difference(Goal):
    """deltaplane's figure minus another contestant's, of the same run."""

    over: str = ""

    def _judged(self, at_sizes: Mapping[int | None, Mapping[str, Line]]) -> Seen | None:
        for size, ours, other in _in_turn(at_sizes, self.over, self.id):
            return Seen(_figure(ours, self.figure) - _figure(other, self.figure), size)
        return None


@dataclass(frozen=True)
class Growth(Goal):
    """deltaplane's largest figure divided by its smallest from size `start` on: 1 is flat."""

    start: int = 0

    @property
    def unit(self) -> str:
        return "x"

    def _judged(self, at_sizes: Mapping[int | None, Mapping[str, Line]]) -> Seen | None:
        sizes = [size for size in at_sizes if size is not None and size >= self.start and SUBJECT in at_sizes[size]]
        figures = [_figure(at_sizes[size][SUBJECT], self.figure) for size in sizes]
        if len(figures) < 2 or min(figures) <= 0:
            return None
        return Seen(max(figures) / min(figures), max(sizes))


def _by_size(lines: Sequence[Line]) -> dict[int | None, dict[str, Line]]:
    by_size: dict[int | None, dict[str, Line]] = {}
    for line in lines:
        by_size.setdefault(line.size, {})[line.contestant] = line
    return by_size


def _in_turn(
    at_sizes: Mapping[int | None, Mapping[str, Line]], other: str, id: str
) -> Iterator[tuple[int | None, Line, Line]]:
    """The sizes at which both were measured: the goal's own size first, then in descending
    order."""
    for size in sorted(at_sizes, key=lambda size: (size == SIZES.get(id), _order(size)), reverse=True):
        of_size = at_sizes[size]
        if SUBJECT in of_size and other in of_size:
            yield size, of_size[SUBJECT], of_size[other]


def _order(size: int | None) -> int:
    return -1 if size is None else size


def _figure(line: Line, figure: Figure) -> float:
    value = getattr(line, figure)
    if value is None:
        raise ValueError(f"{line.measure}, {line.case}: a target asks for {figure}, which the measure doesn't have")
    return float(value)


# --- the list ---------------------------------------------------------------------------------------------------------

# The size of a target: files, or commits for T8 and T9.
SIZES: Mapping[str, int] = {
    **dict.fromkeys(("T1", "T2", "T3", "T4", "T5", "T6", "T7"), 1_000_000),
    **dict.fromkeys(("T8", "T9"), 10_000),
    "T10": 100_000,
    "F1": 10_000_000,
    "F2": 10_000_000,
    "F3": 6_001_215,
    "F4": 1_000,
    "P1": 1_000_000,
    "S1": 10_000_000,
    "S2": 10_000_000,
    "S3": 100_000,
    "S5": 2_880_404,
    "S7": 100_000,
}
# Bytes of path, text statistics and partition values of one file of the logs.
TEXTS_OF_A_FILE = 113
PLAIN, ONE_FILE, THE_FILES = "DuckDB, plain Parquet", "deltaplane, one file", "DuckDB, the files"
MATCHING = "Spark's Parquet, matching files"
PARQUET, PEER, REWRITTEN = "Spark's Parquet", "delta-spark", "deltaplane, rewritten"


def _on_spark(figure: Figure, clock: str) -> Iterator[Goal]:
    """The targets on Spark, for both CPU and time."""
    for id, tag, says, at_most, over in (
        ("S1", "scan full", "full scans on Spark: within 1.05x of plain Parquet", 1.05, PARQUET),
        ("S1", "scan full", "full scans on Spark: no slower than delta-spark", 1.0, PEER),
        ("S1", "scan vectors", "full scans on Spark, deletion vectors: no slower than delta-spark", 1.0, PEER),
        ("S2", "scan selective", "selective queries on Spark: half of delta-spark's", 0.5, PEER),
        ("S2", "scan selective", "selective queries on Spark: 1.1x the matching files alone", 1.1, MATCHING),
        ("S3", "plan opened", "a plan on Spark, table opened: 1.1x the matching files alone", 1.1, PARQUET),
        ("S3", "plan reopened", "a plan on Spark, table opened again: 0.1x delta-spark", 0.1, PEER),
        ("S3", "plan opened", "a plan on Spark, table opened: 0.1x delta-spark", 0.1, PEER),
        ("S4", "append", "append on Spark: 1.1x a plain Parquet write", 1.1, PARQUET),
        ("S4", "append", "append on Spark: no slower than delta-spark", 1.0, PEER),
        ("S4", "load", "loading store_sales: 1.1x a plain Parquet write", 1.1, PARQUET),
        ("S4", "load", "loading store_sales: no slower than delta-spark", 1.0, PEER),
        ("S6", "merge", "MERGE on Spark: no slower than delta-spark", 1.0, PEER),
        ("S6", "update", "UPDATE on Spark: no slower than delta-spark", 1.0, PEER),
        ("S6", "delete", "DELETE on Spark: no slower than delta-spark", 1.0, PEER),
        ("S7", "partitions cold", "one of many partitions, first look: Spark's Parquet", 1.0, PARQUET),
        ("S7", "partitions cold", "one of many partitions, first look: delta-spark", 1.0, PEER),
        ("S7", "partitions warm", "one of many partitions, on a frame: delta-spark", 1.0, PEER),
    ):
        yield OfCases(id, f"spark {tag}", f"{says} ({clock})", figure, at_most, over)
    for over in (PARQUET, PEER):
        says = f"TPC-DS, geometric mean: {over} ({clock})"
        yield OfCases("S5", "spark tpcds", says, figure, 1.0, over, mean=True)


# CPU seconds for computing, wall-clock seconds for waiting for a disk or for others.
GOALS: Sequence[Goal] = (
    *(
        OfCases(
            "F1", "F1", f"scans of rows: 1.1x Polars' scan_delta, {what}", "cpu_s", 1.1, "Polars scan_delta", mean=mean
        )
        for what, mean in (("the worst", False), ("geometric mean", True))
    ),
    OfCases(
        "F1", "F1", "scans of rows: no slower than deltalake's engine, the worst", "cpu_s", 1.0, "deltalake engine"
    ),
    *(
        OfCases(
            "F3",
            "tpch",
            f"TPC-H by SQL: DuckDB over plain Parquet, {what} ({clock})",
            figure,
            at_most,
            PLAIN,
            mean=mean,
        )
        for figure, clock in (("cpu_s", "CPU time"), ("median_s", "time"))
        for what, at_most, mean in (("geometric mean", 1.2, True), ("the worst", 2.0, False))
    ),
    OfCases(
        "F3",
        "tpch",
        "TPC-H by SQL: DuckDB over plain Parquet, geometric mean (peak memory)",
        "peak_mb",
        1.3,
        PLAIN,
        mean=True,
    ),
    *(
        OfCases("F3", "tpch", f"TPC-H by SQL: {says}, geometric mean ({clock})", figure, at_most, over, mean=True)
        for says, at_most, over in (
            ("DuckDB over plain Parquet in zstd", 1.2, "DuckDB, plain Parquet in zstd"),
            ("DuckDB over the tables' files", 1.2, "DuckDB, the tables' files"),
            ("faster than deltalake's QueryBuilder", 1.0, "deltalake QueryBuilder"),
            ("faster than Polars' scan_delta", 1.0, "Polars scan_delta"),
        )
        for figure, clock in (("cpu_s", "CPU time"), ("median_s", "time"))
    ),
    Goal("K1", "key index look up", "one random key with an index: 50 ms", "median_s", 0.05),
    Ratio("K1", "key index merge", "MERGE of 1,000 random keys: 10x faster", "median_s", 0.1, "without an index"),
    Ratio("K1", "key index merge", "MERGE of 1,000 random keys: reading its rows", "cpu_s", 1.5, "reading the rows"),
    Ratio("K1", "key index build", "building the index: 10 % of writing", "cpu_s", 0.1, "writing the rows"),
    Ratio("K1", "key index build", "the index: 2 % of the data's bytes", "size_mb", 0.02, "writing the rows"),
    Ratio("K1", "key index delete", "DELETE of one key: reads 1 % of the bytes", "size_mb", 0.01, "reading the files"),
    *(
        OfCases("F4", target, f"{what} ({clock})", figure, at_most, over)
        for target, what, at_most, over in (
            ("small files", "queries over 1,000 small files: 1.5x one file", 1.5, ONE_FILE),
            ("small files", "queries over 1,000 small files: no slower than DuckDB over them", 1.0, THE_FILES),
            ("small files scanned", "a scan of 1,000 small files: no slower than DuckDB's", 1.0, THE_FILES),
        )
        for figure, clock in (("cpu_s", "CPU time"), ("median_s", "time"))
    ),
    OfCases("F2", "F2", "append of rows: no slower than deltalake", "cpu_s", 1.0, "deltalake"),
    OfCases("F2", "F2", "append of rows: no slower than bare pyarrow, by the clock", "median_s", 1.0, "pyarrow"),
    *(
        goal
        for kind, name in (("json", "foreign checkpoint"), ("own", "own checkpoint"))
        for goal in (
            Ratio("T1", f"T1 {kind}", f"open, {name}: at most 1 % of deltalake's", "cpu_s", 0.01, "deltalake"),
            Growth("T1", f"T1 {kind}", f"open, {name}: flat within 2x from 1,000 files on", "cpu_s", 2.0, 1_000),
        )
    ),
    *(
        goal
        for kind, name in (("json", "foreign checkpoint"), ("own", "own checkpoint"))
        for goal in (
            Ratio(
                "T2", f"T2 {kind} one table", f"all files, {name}: 5x faster than deltalake", "cpu_s", 0.2, "deltalake"
            ),
            Ratio(
                "T2",
                f"T2 {kind} one table",
                f"all files, {name}: at most 1.3x the bare decode",
                "cpu_s",
                1.3,
                "pyarrow, checkpoint only",
            ),
            Goal("T2", f"T2 {kind} one table", f"all files, {name}: peak memory of 400 MB", "peak_mb", 400),
            Goal("T2", f"T2 {kind} streamed", f"all files, {name}, streamed: peak memory of 150 MB", "peak_mb", 150),
            Goal(
                "T2",
                f"T2 {kind} one table",
                f"all files, {name}, held: 300 bytes a file beyond the {TEXTS_OF_A_FILE} of its texts",
                "added_mb",
                (300 + TEXTS_OF_A_FILE) * 1_000_000 / 2**20,
            ),
        )
    ),
    *(
        goal
        for on, seconds in (("partition", 0.05), ("statistics", 0.1))
        for goal in (
            Goal("T3", f"plan {on} own cold", f"cold plan on {on}: {seconds * 1000:.0f} ms", "cpu_s", seconds),
            Ratio(
                "T3", f"plan {on} own cold", f"cold plan on {on}: 100x deltalake", "cpu_s", 0.01, "deltalake file_uris"
            ),
            Growth(
                "T3", f"plan {on} own cold", f"cold plan on {on}: 10M files within 2x of 1M", "cpu_s", 2.0, 1_000_000
            ),
            Ratio(
                "T4",
                f"plan {on} json cold",
                f"cold plan on {on}, foreign JSON checkpoint: 10x deltalake",
                "cpu_s",
                0.1,
                "deltalake file_uris",
            ),
        )
    ),
    Growth(
        "T3",
        "plan days own cold",
        "cold plan on partition, an answer of one length: 10M files within 2x of 1M",
        "cpu_s",
        2.0,
        1_000_000,
    ),
    Ratio(
        "T5",
        "plan statistics own open table",
        "plan on statistics, second call: 50x deltalake",
        "cpu_s",
        0.02,
        "deltalake file_uris",
    ),
    *(
        goal
        for kind, name in (("json", "foreign checkpoint"), ("own", "own checkpoint"))
        for goal in (
            Ratio("T6", f"T6 {kind}", f"refresh, {name}: 1000x deltalake", "cpu_s", 0.001, "deltalake"),
            Goal("T6", f"T6 {kind}", f"refresh, {name}: 5 ms", "cpu_s", 0.005),
            Growth("T6", f"T6 {kind}", f"refresh, {name}: flat within 2x", "cpu_s", 2.0, 1_000),
        )
    ),
    Ratio("T7", "T7 classic", "checkpoint: 3.4x faster than deltalake", "cpu_s", 1 / 3.4, "deltalake"),
    Ratio("T7", "T7 classic", "checkpoint: at most 1.3x the bare re-encode", "cpu_s", 1.3, "pyarrow re-encode"),
    Ratio("T7", "T7 classic", "checkpoint: at most DuckDB's sorting and parsing", "cpu_s", 1.0, "DuckDB, sorted"),
    Ratio("T7", "T7 classic", "checkpoint: a quarter of deltalake's bytes", "size_mb", 0.25, "deltalake"),
    Goal("T7", "T7 classic", "checkpoint: 200 MB of memory added", "added_mb", 200),
    *(
        Ratio("T7", f"T7 V2 {touches}", f"V2 after 10 commits, {what}: 2 % of the bytes", "size_mb", 0.02, REWRITTEN)
        for touches, what in (
            ("nothing", "files appended"),
            ("newest", "newest files replaced"),
            ("anywhere", "files all over replaced"),
        )
    ),
    Ratio("T8", "T8", "10,000 JSON commits: 15x deltalake", "cpu_s", 1 / 15, "deltalake"),
    Ratio("T8", "T8", "10,000 JSON commits: at most json.loads alone", "cpu_s", 1.0, "json.loads alone"),
    Ratio("T8", "T8", "10,000 JSON commits: at most reading and json.loads", "cpu_s", 1.0, "read, json.loads"),
    Ratio("T9", "T9", "history(10) of 10,000 commits: 100x deltalake", "cpu_s", 0.01, "deltalake"),
    Ratio("T10", "T10", "appends one after the other, 100,000 files: 100x deltalake", "median_s", 0.01, "deltalake"),
    Growth("T10", "T10 rate", "appends, with the checkpoints: 0.8x the rate on an empty table", "mean_s", 1 / 0.8),
    Ratio("T11", "T11", "durable commits: 0.7x the rate of the disk alone", "median_s", 1 / 0.7, "disk alone"),
    Goal("T12", "T12 8", "8 writers: no failed commit", "failed", 0),
    Ratio("T12", "T12 8", "8 writers: 0.5x the rate of the bare race", "median_s", 2.0, "disk alone"),
    Ratio("T12", "T12 8", "8 writers: the rate of a race that reads winners", "median_s", 1.0, "disk, winners read"),
    Ratio(
        "T12",
        "T12 8",
        "8 writers: the rate of a race with as many checkpoints",
        "median_s",
        1.0,
        "disk, winners and checkpoints",
    ),
    *(
        Goal(
            "P1",
            f"paper 6.1 {kind} {how}",
            f"one of a million partitions, {how}, {name}: the paper's",
            "median_s",
            most,
        )
        for kind, name in (("json", "foreign checkpoint"), ("own", "own checkpoint"))
        for how, most in (("cold", 108), ("warm", 17))
    ),
    Difference("T13", "T13 import", "import: 30 ms above bare Python", "cpu_s", 0.03, "bare Python"),
    Goal("T13", "T13 wheel", "wheel: 15 MB", "size_mb", 15),
    *(
        goal
        for kind in ("spread", "clustered")
        for goal in (
            Ratio("M1", f"merge {kind} vectors", f"MERGE, {kind}, vectors: 5x deltalake", "cpu_s", 0.2, "deltalake"),
            Ratio(
                "M1", f"merge {kind} vectors", f"MERGE, {kind}, vectors: half its memory", "peak_mb", 0.5, "deltalake"
            ),
            Ratio(
                "M2", f"merge {kind} copy-on-write", f"MERGE, {kind}, copied: 2x deltalake", "cpu_s", 0.5, "deltalake"
            ),
            Ratio(
                "M2",
                f"merge {kind} copy-on-write",
                f"MERGE, {kind}, copied: half its memory",
                "peak_mb",
                0.5,
                "deltalake",
            ),
        )
    ),
    *(
        goal
        for mode in ("vectors", "copy-on-write")
        for goal in (
            Ratio("M3", f"merge narrow {mode}", f"MERGE of 999 rows, {mode}: 10x deltalake", "cpu_s", 0.1, "deltalake"),
            Goal("M3", f"merge narrow {mode}", f"MERGE of 999 rows, {mode}: peak memory of 300 MB", "peak_mb", 300),
        )
    ),
    Ratio(
        "M4",
        "update scattered vectors",
        "UPDATE of scattered rows, vectors: 1 % of deltalake's bytes",
        "size_mb",
        0.01,
        "deltalake",
    ),
    *(
        Ratio(
            "Z1",
            f"skipping {order} {figure}",
            f"look-ups skip {skipped} % ({figure}), {order}",
            "size_mb",
            1 - skipped / 100,
            "all files",
        )
        for order, least, average in (("zorder", 44, 55), ("hilbert", 58, 61), ("kdtree", 50, 66))
        for figure, skipped in (("least", least), ("average", average))
    ),
    # As in the paper for a large table, in whole per cent.
    Ratio("Z1", "skipping kdtree many", "look-ups skip 93 % (average) of 50,000 files", "size_mb", 0.075, "all files"),
    *(
        goal
        for kind in ("compact", "z-order")
        for goal in (
            Ratio("Z2", f"optimize {kind}", f"OPTIMIZE, {kind}: 2x deltalake", "cpu_s", 0.5, "deltalake"),
            Ratio("Z2", f"optimize {kind}", f"OPTIMIZE, {kind}: half its memory", "peak_mb", 0.5, "deltalake"),
        )
    ),
    Ratio("Z3", "vacuum", "VACUUM, dry run of a full one: no slower than deltalake", "cpu_s", 1.0, "deltalake"),
    Ratio("Z3", "vacuum", "VACUUM, dry run of a full one: half of deltalake's memory", "peak_mb", 0.5, "deltalake"),
    Goal("M5", "partitioned write", "2M rows into 1,000 partitions: 200 MB of memory added", "added_mb", 200),
    Ratio("M5", "partitioned write", "2M rows into 1,000 partitions: Polars' time", "median_s", 1.0, "Polars"),
    Ratio(
        "O1",
        "object store append",
        "append on an open handle, in a store: 1.25x two bare puts",
        "median_s",
        1.25,
        "two bare puts",
    ),
    *(
        OfCases("O2", f"object store {tag}", f"{says}, the worst: no slower than {peer}", "median_s", 1.0, peer)
        for tag, says in (("operation", "operations on a store"), ("append", "append on an open handle, in a store"))
        for peer in ("deltalake", PEER)
    ),
    *(
        Growth("H1", f"huge {tag}", f"{says}, ten times the files: flat within 2x", "median_s", 2.0, start=10_000_000)
        for tag, says in (
            ("open", "open"),
            ("plan", "plan of ten files, cold"),
            ("append", "append"),
            ("history", "history"),
        )
    ),
    Goal("H1", "huge plan", "plan of ten files among a hundred million: peak memory of 300 MB", "peak_mb", 300),
    Ratio(
        "H1",
        "huge checkpoint",
        "V2 after 10 commits all over a hundred million files: 2 % of the bytes",
        "size_mb",
        0.02,
        "all sidecars",
    ),
    Goal("H1", "huge checkpoint", "V2 after 10 commits all over a hundred million files: 3 s", "median_s", 3.0),
    Goal("H1", "huge checkpoint", "V2 after 10 commits: peak memory of 300 MB", "peak_mb", 300),
    *_on_spark("cpu_s", "CPU"),
    *_on_spark("median_s", "time"),
    Goal("S3", "spark plan opened", "a plan on Spark, table opened: 0.3 s", "median_s", 0.3),
    Ratio("S8", "stream latency", "commit to visible on Spark: delta-spark, median", "median_s", 1.0, PEER),
    Ratio("S8", "stream latency", "commit to visible on Spark: delta-spark, 99th percentile", "tail_s", 1.0, PEER),
)
