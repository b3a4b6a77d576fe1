"""Checks data files against their adds: size, rows, types, field ids, deletion vectors,
statistics."""

from __future__ import annotations

import decimal
import json
import math
import re
import struct
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from verifier.actions import State
from verifier.findings import Findings, Json
from verifier.schemas import ID, MODE, columns, days, micros
from verifier.vectors import vector_positions

# Type → the Arrow types that a file may have for it, including narrower ones from before a
# widening.
_ARROW = {
    "string": {"string", "large_string", "string_view"},
    "long": {"int64", "int32", "int16", "int8"},
    "integer": {"int32", "int16", "int8"},
    "short": {"int16", "int8", "int32"},
    "byte": {"int8", "int32"},
    "float": {"float"},
    "double": {"double", "float", "int32", "int16", "int8"},
    "boolean": {"bool"},
    "binary": {"binary", "large_binary", "binary_view"},
    "date": {"date32[day]"},
}
_WITHOUT_BOUNDS = ("binary", "variant", "void", "boolean", "geo")
# Statistics of timestamps are truncated to milliseconds, at both ends.
_MILLISECOND = 1000


def resolved(root: Path, path: str) -> Path:
    """The local path of a path in the log."""
    if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*:", path):
        path = urllib.parse.urlparse(path).path
    return root / urllib.parse.unquote(path)


class DataFile:
    """A file with the schema of the version that added it."""

    def __init__(self, findings: Findings, where: str, root: Path, add: Json, state: State) -> None:
        self.findings, self.where, self.root, self.add = findings, where, root, add
        metadata = state.metadata or {}
        self.mode = state.configuration.get(MODE, "none")
        self.partitions = metadata.get("partitionColumns") or []
        fields = list(columns(json.loads(metadata["schemaString"])["fields"]))
        # By their names in files.
        self.columns = {(files if self.mode != "none" else own): (own, field) for own, files, field in fields}

    def bad(self, what: str) -> None:
        self.findings.add(self.where, what)

    def check(self) -> None:
        path = resolved(self.root, self.add["path"])
        if not path.exists():
            self.bad("the data file is missing")
            return
        size = path.stat().st_size
        self.findings.unless(
            size == self.add["size"], self.where, f"it has {size} bytes, the log says {self.add['size']}"
        )
        try:
            # As nanoseconds, INT96 would overflow.
            file = pq.ParquetFile(path, coerce_int96_timestamp_unit="us")
        except (pa.ArrowException, OSError) as e:
            self.bad(f"it is no Parquet file: {e}")
            return
        with file:
            self._check_types(file)
            self._check_ids(file)
            self._check_rows(file)

    def _check_types(self, file: pq.ParquetFile) -> None:
        schema, parts = file.schema_arrow, [file.schema.column(i) for i in range(len(file.schema))]
        int96 = {part.path for part in parts if part.physical_type == "INT96"}
        for (name, *below), (own, field) in self.columns.items():
            if below or own[0] in self.partitions or name not in schema.names:
                continue
            data_type, arrow_type = field["type"], str(schema.field(name).type)
            has_zone = name in int96 or (arrow_type.startswith("timestamp[") and "tz=" in arrow_type)
            if data_type == "timestamp":
                self.findings.unless(has_zone, self.where, f"{own} is {arrow_type}, and needs a zone")
            elif data_type == "timestamp_ntz":
                fits = not has_zone and arrow_type.startswith(("timestamp[", "date32"))
                self.findings.unless(fits, self.where, f"{own} is {arrow_type}, and has no zone")
            elif isinstance(data_type, str) and data_type in _ARROW and not arrow_type.startswith("dictionary"):
                self.findings.unless(
                    arrow_type in _ARROW[data_type],
                    self.where,
                    f"{own} is {arrow_type} in the file, {data_type} in the schema",
                )

    def _check_ids(self, file: pq.ParquetFile) -> None:
        if self.mode == "none":
            return
        for name, field_id in _field_ids(file.schema_arrow):
            own, field = self.columns.get(name, ((), {}))
            if own and own[0] not in self.partitions and (field_id is not None or self.mode == "id"):
                wanted = field["metadata"][ID]
                self.findings.unless(field_id == wanted, self.where, f"{own} has the field id {field_id}, not {wanted}")

    def _check_rows(self, file: pq.ParquetFile) -> None:
        rows, vector, deleted = file.metadata.num_rows, self.add.get("deletionVector"), []
        if vector:
            try:
                deleted = vector_positions(self.findings, self.where, self.root, vector)
            except (ValueError, OSError, struct.error, IndexError) as e:
                self.bad(f"the deletion vector can't be read: {e}")
            self.findings.unless(not deleted or deleted[-1] < rows, self.where, f"the vector goes beyond {rows} rows")
        try:
            # Bounds of decimals are numbers, which a float would round.
            stats = json.loads(self.add.get("stats") or "{}", parse_float=decimal.Decimal)
        except ValueError as e:
            self.bad(f"the statistics are no JSON: {e}")
            return
        said = stats.get("numRecords")
        self.findings.unless(said is None or said == rows, self.where, f"numRecords is {said}, there are {rows} rows")
        self.findings.unless(not vector or said is not None, self.where, "a deletion vector needs numRecords")
        if any(stats.get(key) for key in ("minValues", "maxValues", "nullCount")):
            self._check_statistics(file.read(), stats, deleted)

    def _check_statistics(self, rows: pa.Table, stats: Json, deleted: list[int]) -> None:
        gone = set(deleted)
        live = rows.filter(pa.array([i not in gone for i in range(len(rows))], pa.bool_())) if gone else rows
        exact = bool(stats.get("tightBounds", True)) and not gone
        for name, (low, high, nulls) in _leaves(*(stats.get(k) or {} for k in ("minValues", "maxValues", "nullCount"))):
            if name not in self.columns:
                self.bad(f"the statistics name the column {name}, which the schema hasn't")
                continue
            own, field = self.columns[name]
            data_type = field["type"]
            is_partition = len(own) == 1 and own[0] in self.partitions
            self.findings.unless(not is_partition, self.where, f"there are statistics of the partition column {own}")
            column, present = _column(rows, name), _column(live, name)
            if column is None or present is None:
                self.findings.unless(nulls in (None, len(rows)), self.where, f"{own} is absent, its nullCount {nulls}")
                continue
            if nulls is not None:
                allowed = {column.null_count} if exact else {column.null_count, present.null_count}
                self.findings.unless(nulls in allowed, self.where, f"the nullCount of {own} is {nulls}, not {allowed}")
            if isinstance(data_type, str) and not data_type.startswith(_WITHOUT_BOUNDS):
                self._check_bounds(own, data_type, present, low, high)

    def _check_bounds(self, own: tuple[str, ...], data_type: str, column: pa.ChunkedArray, low: Any, high: Any) -> None:
        try:
            low, high = _bound(data_type, low), _bound(data_type, high)
        except (ValueError, ArithmeticError, AttributeError, TypeError) as e:
            self.bad(f"the bounds of {own} are no {data_type}: {e}")
            return
        values = _comparable(column.drop_null())
        if pa.types.is_floating(values.type):
            has_nan = bool(pc.any(pc.is_nan(values)).as_py())
            values = values.filter(pc.invert(pc.is_nan(values)))
            # NaN is greater than all numbers.
            covered = not has_nan or high is None or math.isnan(high)
            self.findings.unless(covered, self.where, f"the file has NaN in {own}, above its maximum {high}")
        if not len(values):
            return
        least, greatest = pc.min(values).as_py(), pc.max(values).as_py()
        if low is not None:
            self.findings.unless(
                _below(data_type, low, least), self.where, f"the minimum {low!r} of {own} is above {least!r}"
            )
        if high is not None and high == high:
            if data_type.startswith("timestamp") and high % _MILLISECOND == 0:
                high += _MILLISECOND - 1
            high = _as_float(high) if data_type == "float" else high
            self.findings.unless(high >= greatest, self.where, f"the maximum {high!r} of {own} is below {greatest!r}")


def _below(data_type: str, low: Any, least: Any) -> bool:
    return bool(low <= least or (data_type == "float" and _as_float(low) <= least))


def _as_float(value: float) -> float:
    """A number as the float from which it was written."""
    return value if math.isinf(value) else float(struct.unpack("f", struct.pack("f", value))[0])


def _bound(data_type: str, value: Any) -> Any:
    """A bound of the statistics in the form of `_comparable` values."""
    if value is None:
        return None
    if data_type.startswith("timestamp"):
        return micros(value)
    if data_type == "date":
        return days(value)
    if data_type.startswith("decimal"):
        return decimal.Decimal(str(value))
    if data_type in ("float", "double"):
        return float(value.replace("Infinity", "inf") if isinstance(value, str) else value)
    if data_type.startswith(("string", "char", "varchar")):
        return value.encode("utf-8", "surrogatepass")
    if not isinstance(value, int):
        raise ValueError(f"{value!r}")
    return value


def _comparable(values: pa.ChunkedArray) -> pa.ChunkedArray:
    data_type = values.type
    if pa.types.is_timestamp(data_type):
        return values.cast(pa.timestamp("us", tz=data_type.tz), safe=False).cast(pa.int64())
    if pa.types.is_date32(data_type):
        return values.cast(pa.int32())
    if pa.types.is_string(data_type) or pa.types.is_large_string(data_type) or pa.types.is_string_view(data_type):
        return values.cast(pa.large_binary())
    return values


def _leaves(
    low: Json, high: Json, nulls: Json, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], tuple[Any, Any, Any]]]:
    """Each column with its minimum, maximum and number of nulls."""
    for name in dict.fromkeys([*low, *high, *nulls]):
        three = (low.get(name), high.get(name), nulls.get(name))
        if any(isinstance(member, dict) for member in three):
            inner = [member if isinstance(member, dict) else {} for member in three]
            yield from _leaves(inner[0], inner[1], inner[2], (*above, name))
        else:
            yield (*above, name), three


def _column(rows: pa.Table, name: tuple[str, ...]) -> pa.ChunkedArray | None:
    """A column or a field of structs, null where a struct above it is."""
    if name[0] not in rows.column_names:
        return None
    column = rows.column(name[0])
    for part in name[1:]:
        index = column.type.get_field_index(part) if pa.types.is_struct(column.type) else -1
        if index < 0:
            return None
        field_type = column.type.field(index).type
        column = pa.chunked_array([pc.struct_field(chunk, [index]) for chunk in column.chunks], type=field_type)
    return column


def _field_ids(
    fields: pa.Schema | pa.StructType, above: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], int | None]]:
    for field in fields:
        field_id = (field.metadata or {}).get(b"PARQUET:field_id")
        yield (*above, field.name), None if field_id is None else int(field_id)
        if pa.types.is_struct(field.type):
            yield from _field_ids(field.type, (*above, field.name))
