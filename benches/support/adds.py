"""Actions of imaginary data files, many at a time: add and remove, as JSON lines and as a
checkpoint's Arrow columns.

A file's number determines its partition, size and statistics of eight columns. All values are
computed column by column, and memory is bounded by the number of files per call. It must not know
directories.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

ROWS_PER_FILE = 1000
FIRST_DAY = np.datetime64("2026-01-01", "D")
FIRST_SECOND = int(FIRST_DAY.astype("datetime64[s]").astype(np.int64))
PARTITION_COLUMN = "day"
TEXT_MAP = pa.map_(pa.string(), pa.string())

Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True)
class Column:
    """One column with statistics: its types, and its bound in each file. `step` is a row's position
    in the file.

    `bound` receives the files' numbers and the same numbers scattered over 0 to 900,000; its result
    is cast to `arrow`. `quoted`: JSON stores it as text.
    """

    delta: str
    arrow: pa.DataType
    bound: Callable[[Numbers, Numbers, int], Any]
    quoted: bool = False


def _names(numbers: Numbers) -> pa.Array:
    return _joined("customer ", pc.utf8_lpad(_text(pa.array(numbers)), 6, "0"))


# `id` and `at` follow the file's number, the others are in no order.
COLUMNS: Mapping[str, Column] = {
    "id": Column("long", pa.int64(), lambda file, low, step: file * ROWS_PER_FILE + step),
    "account": Column("long", pa.int64(), lambda file, low, step: low + 50 * step),
    "amount": Column("double", pa.float64(), lambda file, low, step: low + step + 0.5),
    "name": Column("string", pa.string(), lambda file, low, step: _names(low + step), quoted=True),
    "at": Column(
        "timestamp",
        pa.timestamp("us", tz="UTC"),
        lambda file, low, step: (FIRST_SECOND + file * ROWS_PER_FILE + step) * 1_000_000,
        quoted=True,
    ),
    "price": Column("decimal(12,2)", pa.decimal128(12, 2), lambda file, low, step: low + step),
    "quantity": Column("integer", pa.int32(), lambda file, low, step: low // 1000 + step),
    "due": Column(
        "date", pa.date32(), lambda file, low, step: (FIRST_DAY + (low // 1000 + step)).astype(int), quoted=True
    ),
}
LAST_STEP = ROWS_PER_FILE - 1


@dataclass(frozen=True)
class Adds:
    """The actions of some files. `day` computes their days from their numbers; `generation` counts
    replacements of a file by one with the same rows.
    """

    files: Numbers
    day: Callable[[Numbers], Any]
    generation: int = 0

    def add_lines(self) -> list[str]:
        """Each file's add as one line of a commit."""
        return _joined(
            '{"add":{"path":"',
            self._path(),
            '","partitionValues":{"day":"',
            self._day_text(),
            '"},"size":',
            _text(self._size()),
            ',"modificationTime":',
            _text(self._modified_ms()),
            ',"dataChange":true,"stats":"',
            pc.replace_substring(self.stats_text(), '"', '\\"'),
            '"}}',
        ).to_pylist()

    def remove_lines(self, at_ms: int) -> list[str]:
        """Each file's remove as one line of a commit."""
        return _joined(
            '{"remove":{"path":"',
            self._path(),
            f'","deletionTimestamp":{at_ms},"dataChange":true,"extendedFileMetadata":true,"partitionValues":{{"day":"',
            self._day_text(),
            '"},"size":',
            _text(self._size()),
            "}}",
        ).to_pylist()

    def structs(self, parsed: bool) -> pa.StructArray:
        """The column `add` of a checkpoint; `parsed` adds `stats_parsed` and
        `partitionValues_parsed`."""
        count = len(self.files)
        columns = {
            "path": self._path(),
            "partitionValues": pa.MapArray.from_arrays(
                pa.array(np.arange(count + 1, dtype=np.int32)),
                pa.repeat(pa.scalar(PARTITION_COLUMN), count),
                self._day_text(),
            ),
            "size": self._size(),
            "modificationTime": self._modified_ms(),
            "dataChange": pa.repeat(pa.scalar(False), count),
            "tags": pa.nulls(count, TEXT_MAP),
            "stats": self.stats_text(),
        }
        if parsed:
            columns["stats_parsed"] = self._stats_parsed()
            columns["partitionValues_parsed"] = pa.StructArray.from_arrays([self._days()], [PARTITION_COLUMN])
        return pa.StructArray.from_arrays(list(columns.values()), list(columns))

    # --- statistics ---

    def stats_text(self) -> pa.Array:
        """Each file's statistics as the protocol's JSON."""
        pieces: list[Any] = [f'{{"numRecords":{ROWS_PER_FILE}']
        for name, step in (("minValues", 0), ("maxValues", LAST_STEP)):
            pieces.append(f',"{name}":{{')
            for i, (column, kind) in enumerate(COLUMNS.items()):
                quote = '"' if kind.quoted else ""
                pieces += [f'{"," if i else ""}"{column}":{quote}', self._bound_text(column, step), quote]
            pieces.append("}")
        nulls = ",".join(f'"{column}":0' for column in COLUMNS)
        return _joined(*pieces, f',"nullCount":{{{nulls}}}}}')

    def _stats_parsed(self) -> pa.StructArray:
        def bounds(step: int) -> pa.StructArray:
            return pa.StructArray.from_arrays([self._bound(name, step) for name in COLUMNS], list(COLUMNS))

        count = len(self.files)
        zeros = pa.array(np.zeros(count, np.int64))
        parts = {
            "numRecords": pa.array(np.full(count, ROWS_PER_FILE, np.int64)),
            "minValues": bounds(0),
            "maxValues": bounds(LAST_STEP),
            "nullCount": pa.StructArray.from_arrays([zeros] * len(COLUMNS), list(COLUMNS)),
        }
        return pa.StructArray.from_arrays(list(parts.values()), list(parts))

    def _bound(self, column: str, step: int) -> pa.Array:
        kind = COLUMNS[column]
        values = kind.bound(self.files, self.files * 48_271 % 900_000, step)
        if pa.types.is_decimal(kind.arrow):
            return pa.array(values).cast(pa.decimal128(19, 0)).cast(kind.arrow)
        if pa.types.is_temporal(kind.arrow):
            width = np.int32 if kind.arrow == pa.date32() else np.int64
            return pa.array(values.astype(width)).cast(kind.arrow)
        return values if isinstance(values, pa.Array) else pa.array(values).cast(kind.arrow)

    def _bound_text(self, column: str, step: int) -> pa.Array:
        kind, bound = COLUMNS[column], self._bound(column, step)
        if pa.types.is_timestamp(kind.arrow):
            text = bound.cast(pa.timestamp("us")).cast(pa.timestamp("s")).cast(pa.string())
            return _joined(pc.replace_substring(text, " ", "T"), ".000Z")
        return bound.cast(pa.string())

    # --- what else is said of a file ---

    def _path(self) -> pa.Array:
        tail = f"-6f0e9d2a-1c1b-4b7f-9a53-{self.generation:012x}.c000.zstd.parquet"
        number = pc.utf8_lpad(_text(pa.array(self.files)), 8, "0")
        return _joined(f"{PARTITION_COLUMN}=", self._day_text(), "/part-", number, tail)

    def _days(self) -> pa.Array:
        return pa.array(self.day(self.files).astype(int).astype(np.int32)).cast(pa.date32())

    def _day_text(self) -> pa.Array:
        return _text(self._days())

    def _size(self) -> pa.Array:
        return pa.array(1_000_000 + self.files * 7919 % 500_000)

    def _modified_ms(self) -> pa.Array:
        return pa.array(FIRST_SECOND * 1000 + self.files)


def rows(first: int, count: int) -> pa.Table:
    """Rows for a table with these columns, for the measures that append; all of one day."""
    ids = np.arange(first, first + count, dtype=np.int64)
    days = pa.repeat(pa.scalar(FIRST_DAY.astype(object), pa.date32()), count)
    at_file = Adds(ids, lambda files: np.full(len(files), FIRST_DAY))
    columns = {name: at_file._bound(name, 0) for name in COLUMNS}
    return pa.table({**columns, PARTITION_COLUMN: days})


def _text(values: pa.Array) -> pa.Array:
    return values.cast(pa.string())


def _joined(*pieces: Any) -> pa.Array:
    return pc.binary_join_element_wise(*pieces, "")
