"""A layout tried on a sample: the real curves arrange it into as many files as a rewrite would
make, a real log in memory has their statistics, and the real pruner says what of them a predicate
reads.
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

# A sample reads of so many files at most.
_FILES = 1_024
# Of each modelled file so many sampled rows at least: bounds of fewer would lie too far inside of
# the real ones.
_ROWS_OF_FILE = 64
_SEED = 20_200_831


def reads_of(snapshot: _native.Snapshot, predicate: _native.Predicate | None) -> Reads:
    """What a scan reads of a version: exactly, by its statistics."""
    why = PlanExplanation.of(snapshot.explain(predicate))
    return Reads(why.selected, why.selected_bytes)


@dataclass(frozen=True)
class Sample:
    """Some rows: their columns by path. The same version gives the same ones."""

    columns: Mapping[Path_, pa.ChunkedArray]
    rows: int

    @classmethod
    def of(cls, snapshot: _native.Snapshot, paths: Iterable[Path_], rows: int) -> Sample:
        """Of these columns. Reads pages at some 256 places of the table."""
        wanted = list(paths)
        names = list(dict.fromkeys(path[0] for path in wanted))
        found = Scan(snapshot.sample(names, _FILES, rows, _SEED)).to_arrow()
        return cls({path: _column(found, path) for path in wanted}, found.num_rows)

    def most_files(self) -> int:
        """Files that it can stand for."""
        return max(self.rows // _ROWS_OF_FILE, 1)


def _column(rows: pa.Table, path: Path_) -> pa.ChunkedArray:
    import pyarrow.compute as pc

    column = rows[path[0]]
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


class Model:
    """A sample in an order, as a table of its own in memory, whose columns are those of the sample
    alone."""

    def __init__(self, snapshot: _native.Snapshot, columns: frozenset[Path_]) -> None:
        self._snapshot = snapshot
        self._whole = reads_of(snapshot, None)
        self.columns = columns
        self.files = int(self._whole.files)

    @classmethod
    @contextmanager
    def of(cls, sample: Sample, columns: Sequence[Path_], curve: str, files: int) -> Iterator[Model]:
        """Of these columns by this curve, in about so many files; it is gone afterwards."""
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
        """Which part of it a predicate reads."""
        return 1.0 if predicate is None else reads_of(self._snapshot, predicate).bytes / max(self._whole.bytes, 1)


def _properties(columns: Iterable[Path_]) -> dict[str, str]:
    # Names may be such as Parquet's readers elsewhere don't take, and every column has statistics.
    measured = ",".join(quoted(path) for path in columns)
    return {"delta.columnMapping.mode": "name", "delta.dataSkippingStatsColumns": measured}


def _nested(columns: Mapping[Path_, pa.ChunkedArray]) -> pa.Table:
    """Columns by their paths as a table; each struct has the fields alone that are among them."""
    import pyarrow as pa

    def struct(below: Mapping[Path_, pa.Array]) -> pa.Array:
        names = list(dict.fromkeys(path[0] for path in below))
        return pa.StructArray.from_arrays([of(name, below) for name in names], names)

    def of(name: str, within: Mapping[Path_, pa.Array]) -> pa.Array:
        below = {path[1:]: values for path, values in within.items() if path[0] == name}
        return below[()] if () in below else struct(below)

    whole = {path: values.combine_chunks() for path, values in columns.items()}
    names = list(dict.fromkeys(path[0] for path in whole))
    return pa.table({name: of(name, whole) for name in names})
