"""Tries a layout on a sample: the real curves sort it into as many files as a rewrite would make, a
log in memory gets their statistics, and the real pruner computes the reads of a predicate.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.advisor.advice import Reads
from deltaplane.advisor.workload import Path_, quoted
from deltaplane.commands.optimize import Layout, optimize
from deltaplane.commands.plan_explanation import PlanExplanation
from deltaplane.commands.rewriting import Settings, Target
from deltaplane.io.arrow import Scan
from deltaplane.write.api import write_deltalake

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Model", "Sample", "reads_of"]

# Maximum number of files from which a sample reads.
_FILES = 1_024
# Minimum number of sampled rows per modelled file: with fewer rows, bounds would be much narrower
# than real ones.
_ROWS_OF_FILE = 64
_SEED = 20_200_831


def reads_of(snapshot: _native.Snapshot, predicate: _native.Predicate | None) -> Reads:
    """The reads of a scan of a version, exact by its statistics."""
    why = PlanExplanation.of(snapshot.explain(predicate))
    return Reads(why.selected, why.selected_bytes)


@dataclass(frozen=True)
class Sample:
    """A sample of rows, as columns by path. The same version yields the same sample."""

    columns: Mapping[Path_, pa.ChunkedArray]
    rows: int

    @classmethod
    def of(cls, snapshot: _native.Snapshot, paths: Iterable[Path_], rows: int) -> Sample:
        """Samples these columns: reads pages at some 256 positions of the table."""
        wanted = list(paths)
        names = list(dict.fromkeys(path[0] for path in wanted))
        sample = Scan(snapshot.sample(names, _FILES, rows, _SEED)).to_arrow()
        return cls({path: _column(sample, path) for path in wanted}, sample.num_rows)

    def most_files(self) -> int:
        """Maximum number of files that the sample can represent."""
        return max(self.rows // _ROWS_OF_FILE, 1)


def _column(rows: pa.Table, path: Path_) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    column = rows[path[0]]
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


class Model:
    """A sorted sample as a table in memory, with only the sample's columns."""

    def __init__(self, snapshot: _native.Snapshot, columns: frozenset[Path_]) -> None:
        self._snapshot = snapshot
        self._whole = reads_of(snapshot, None)
        self.columns = columns
        self.files = int(self._whole.files)

    @classmethod
    @contextmanager
    def of(cls, sample: Sample, columns: Sequence[Path_], curve: str, files: int) -> Iterator[Model]:
        """Sorts the sample by these columns along this curve into about `files` files; the table is
        deleted when the block ends."""
        location = f"memory://deltaplane-upkeep-{uuid.uuid4().hex}/model"
        try:
            write_deltalake(location, _nested(sample.columns), configuration=_properties(sample.columns))
            snapshot = _native.Snapshot.open(location)
            size = reads_of(snapshot, None).bytes
            layout = Layout(columns=[quoted(path) for path in columns], curve=curve, full=True)
            target = Target(location, snapshot)
            optimize(target, layout, Settings(target_file_size=max(math.ceil(size / files), 1)))
            yield cls(snapshot.update(), frozenset(sample.columns))
        finally:
            store = _native.RawStore.open(location)
            for key, *_ in store.list_all(""):
                store.delete(key)

    def share(self, predicate: _native.Predicate | None) -> float:
        """The share of the modelled files that a predicate reads."""
        return 1.0 if predicate is None else reads_of(self._snapshot, predicate).bytes / max(self._whole.bytes, 1)


def _properties(columns: Iterable[Path_]) -> dict[str, str]:
    # The model accepts names that other Parquet readers refuse, and computes statistics for every
    # column.
    measured = ",".join(quoted(path) for path in columns)
    return {"delta.columnMapping.mode": "name", "delta.dataSkippingStatsColumns": measured}


def _nested(columns: Mapping[Path_, pa.ChunkedArray]) -> pa.Table:
    """Converts columns by path to a table; each struct has only the fields that are among the
    columns."""
    import pyarrow as pa

    def struct(below: Mapping[Path_, pa.Array]) -> pa.Array:
        names = list(dict.fromkeys(path[0] for path in below))
        return pa.StructArray.from_arrays([column_of(name, below) for name in names], names)

    def column_of(name: str, within: Mapping[Path_, pa.Array]) -> pa.Array:
        below = {path[1:]: values for path, values in within.items() if path[0] == name}
        return below[()] if () in below else struct(below)

    whole = {path: values.combine_chunks() for path, values in columns.items()}
    names = list(dict.fromkeys(path[0] for path in whole))
    return pa.table({name: column_of(name, whole) for name in names})
