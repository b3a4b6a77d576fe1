"""Computes the rows in which two versions differ, by keys: reads the files that only one version
has, and compares in DuckDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane.commands.duckdb_engine import LocalEngine, Memory
from deltaplane.exceptions import CorruptFileError, InvalidArgumentError, SchemaMismatchError
from deltaplane.io.arrow import Scan

if TYPE_CHECKING:
    import pyarrow as pa

    from deltaplane import _native

__all__ = ["KeyDiff"]

_SHOWN = ("change", "before", "after")


@dataclass(frozen=True)
class KeyDiff:
    """Compares two versions by key columns, and returns further columns with values before and
    after.

    Rows have the columns of `after`: columns added since are null in `before`, and columns dropped
    since aren't compared, because files that both versions share would show other values in them
    than rewritten files. Equal rows of both versions cancel out, as multisets; the remaining rows
    are those that only one version has. A key with one remaining row on each side is an update.
    """

    before: _native.Snapshot
    after: _native.Snapshot
    keys: Sequence[str]
    columns: Sequence[str] | None = None
    memory: Memory | None = None

    def reader(self) -> pa.RecordBatchReader:
        """Streams the changes.

        Raises:
            InvalidArgumentError: unknown columns, or columns that can't be keys.
            SchemaMismatchError: a column has a wider type in `before`.
        """
        import pyarrow as pa

        fields = self._fields()
        keys, shown = _named(fields, self.keys, "key"), _named(fields, self.columns or (), "column")
        if not keys:
            raise InvalidArgumentError("keys are the columns that tell a row apart: give one at least")
        for key in keys:
            kind = fields[key]["type"]
            if kind == "variant" or (isinstance(kind, dict) and kind["type"] == "map"):
                raise InvalidArgumentError(f"`{fields[key]['name']}` can't be a key: its type can't be compared")
        taken = [fields[key]["name"] for key in keys if fields[key]["name"] in _SHOWN]
        if taken:
            raise InvalidArgumentError(f"the key `{taken[0]}` has the name of a column of the result: rename it first")
        rows = self._rows(fields)
        columns = [rows.field(key) for key in keys] + [pa.field("change", pa.string(), nullable=False)]
        if self.columns is not None:
            columns += [
                pa.field(name, pa.struct([rows.field(number) for number in shown])) for name in ("before", "after")
            ]
        schema = pa.schema(columns)
        sql = _sql(len(rows), keys, shown if self.columns is not None else [])
        return pa.RecordBatchReader.from_batches(schema, self._batches(sql, rows.names, schema, len(keys), len(shown)))

    def _fields(self) -> list[dict[str, Any]]:
        """The compared columns."""
        fields: list[dict[str, Any]] = self.after.schema.to_value()["fields"]
        if self.before.version <= self.after.version:
            return fields
        if (changed := self._changed_type()) is not None:
            raise SchemaMismatchError(f"{changed}: compare from the older version to the newer one")
        known = {_identity(field) for field in self.before.schema.to_value()["fields"]}
        return [field for field in fields if _identity(field) in known]

    def _changed_type(self) -> str | None:
        """The name of a column whose type changed; None if there is none."""
        before, after = self.before, self.after
        types = {_identity(field): field["type"] for field in before.schema.to_value()["fields"]}
        for field in after.schema.to_value()["fields"]:
            was, now = types.get(_identity(field)), field["type"]
            if isinstance(was, str) and isinstance(now, str) and was != now:
                return f"`{field['name']}` is {was} in version {before.version} and {now} in version {after.version}"
        return None

    def _rows(self, fields: list[dict[str, Any]]) -> pa.Schema:
        import pyarrow as pa

        whole = pa.schema(self.after.arrow_schema())
        return pa.schema([whole.field(field["name"]) for field in fields])

    def _batches(
        self, sql: str, names: list[str], schema: pa.Schema, keys: int, shown: int
    ) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa
        import pyarrow.compute as pc

        with LocalEngine(self.memory) as engine:
            for name, gone in (("gone", True), ("come", False)):
                scan = Scan(self.after.unlike(self.before, names, gone))
                engine.stream(name, scan.batches(), scan.schema)
            for batch in self._compared(engine, sql):
                columns = [
                    column.cast(field.type) for column, field in zip(batch.columns[: keys + 1], schema, strict=False)
                ]
                for n, lacking in enumerate(("insert", "delete")):
                    if len(schema) == keys + 1:
                        break
                    struct_type = schema.field(keys + 1 + n).type
                    start = keys + 1 + n * shown
                    values = [
                        column.cast(f.type)
                        for column, f in zip(batch.columns[start : start + shown], struct_type, strict=True)
                    ]
                    columns.append(_struct(values, struct_type, pc.equal(columns[keys], lacking)))
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _compared(self, engine: LocalEngine, sql: str) -> Iterator[pa.RecordBatch]:
        try:
            yield from engine.batches(sql)
        except CorruptFileError as e:
            if (changed := self._changed_type()) is None:
                raise
            raise SchemaMismatchError(f"{changed}, which doesn't hold all older values") from e


def _identity(field: dict[str, Any]) -> str:
    """A column's identity in files, independent of its name."""
    name: str = field["metadata"].get("delta.columnMapping.physicalName", field["name"])
    return name


def _struct(values: list[pa.Array], data_type: pa.DataType, absent: pa.BooleanArray) -> pa.Array:
    import pyarrow as pa

    if not values:
        # A struct without fields has no length of its own.
        return pa.array([None if gone else {} for gone in absent.to_pylist()], data_type)
    return pa.StructArray.from_arrays(values, fields=list(data_type), mask=absent)


def _named(fields: list[dict[str, Any]], names: Sequence[str], what: str) -> list[int]:
    """The positions of columns, by case-insensitive names."""
    if isinstance(names, str):
        raise InvalidArgumentError(f"{what}s are a list of columns, not the text {names!r}")
    places = {field["name"].lower(): place for place, field in enumerate(fields)}
    numbers: list[int] = []
    for name in names:
        place = places.get(name.lower())
        if place is None:
            known = ", ".join(field["name"] for field in fields)
            raise InvalidArgumentError(f"the {what} `{name}` isn't a column that can be compared, which are {known}")
        if place in numbers:
            raise InvalidArgumentError(f"the {what} `{name}` is given twice")
        numbers.append(place)
    return numbers


def _sql(columns: int, keys: Sequence[int], shown: Sequence[int]) -> str:
    """The SQL: rows of both sides cancel out, and the remaining numbers of each key determine the
    change."""
    row = ", ".join(f"c{i}" for i in range(columns))
    key = ", ".join(f"c{i}" for i in keys)
    is_update = "gone = 1 AND come = 1"
    before = "".join(f", CASE WHEN n < 0 THEN c{i} WHEN {is_update} THEN b{i} END" for i in shown)
    after = "".join(f", CASE WHEN n > 0 THEN c{i} END" for i in shown)
    earlier = "".join(f", lag(c{i}) OVER (PARTITION BY {key} ORDER BY n) AS b{i}" for i in shown)
    return f"""
        WITH net AS (
            SELECT {row}, sum(side)::BIGINT AS n
            FROM (SELECT *, -1 AS side FROM gone UNION ALL SELECT *, 1 AS side FROM come)
            GROUP BY {row} HAVING sum(side) <> 0
        ), told AS (
            SELECT *, sum(greatest(-n, 0)) OVER (PARTITION BY {key}) AS gone,
                sum(greatest(n, 0)) OVER (PARTITION BY {key}) AS come{earlier}
            FROM net
        )
        SELECT {key}, CASE WHEN {is_update} THEN 'update' WHEN n < 0 THEN 'delete' ELSE 'insert' END{before}{after},
            unnest(range(abs(n)))
        FROM told WHERE NOT (n < 0 AND {is_update})"""
