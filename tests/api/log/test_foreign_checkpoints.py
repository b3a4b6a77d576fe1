"""Plans from foreign checkpoints of every layout: statistics as text, as structs, as both or as
neither, row groups of any size in any order, partitions by timestamps, dates and strings. No file
with a matching row is left out, and the log's commits without the checkpoint give the same plan
(P063, P121, P164 to P170). A file that a checkpoint names twice is one file (P040, P041).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deltaplane import DeltaTable

Row = Mapping[str, Any]
Truth = Callable[[Row], bool | None]

PARTITION_COLUMNS = {"at": pa.timestamp("us", "UTC"), "day": pa.date32(), "place": pa.string()}
DATA_COLUMNS = {"n": pa.int64(), "seen": pa.timestamp("us", "UTC"), "name": pa.string()}
NAMES = {pa.timestamp("us", "UTC"): "timestamp", pa.date32(): "date", pa.string(): "string", pa.int64(): "long"}
FIRST = datetime(2024, 2, 28, 23, 59, 59, 999_000, UTC)

# Many writers store bounds of timestamps in whole milliseconds, so rows have none finer.
moments = st.integers(0, 6).map(lambda n: FIRST + timedelta(milliseconds=n * 500))
values = {
    "at": st.none() | moments,
    "day": st.none() | st.integers(0, 3).map(lambda n: date(2024, 2, 28) + timedelta(n)),
    "place": st.none() | st.sampled_from(["a", "b=c", "ü %"]),
    "n": st.none() | st.integers(-3, 3),
    "seen": st.none() | moments,
    "name": st.none() | st.sampled_from(["", "ann", "bob", "\U0001f600"]),
}


# --- predicates -------------------------------------------------------------------------------------------------------


def _literal(value: Any) -> str:
    match value:
        case datetime():
            return f"TIMESTAMP '{_moment(value)}'"
        case date():
            return f"DATE '{value}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
    return str(value)


def _moment(value: datetime) -> str:
    return value.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: a == b,
    "<>": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    ">=": lambda a, b: a >= b,
}


def _key(value: Any) -> Any:
    """Spark compares strings by their bytes."""
    return value.encode() if isinstance(value, str) else value


@st.composite
def simple(draw: st.DrawFn) -> tuple[str, Truth]:
    """A condition on one column."""
    column = draw(st.sampled_from(list(values)))
    given_values = values[column].filter(lambda v: v is not None)
    kind = draw(st.sampled_from([*COMPARISONS, "IN", "IS NULL", "IS NOT NULL"]))
    if kind.startswith("IS"):
        return f"{column} {kind}", lambda row: (row[column] is None) == (kind == "IS NULL")
    if kind == "IN":
        wanted = draw(st.lists(given_values, min_size=1, max_size=2))
        text = f"{column} IN ({', '.join(map(_literal, wanted))})"
        return text, lambda row: None if row[column] is None else row[column] in wanted
    bound, compare = draw(given_values), COMPARISONS[kind]
    text = f"{column} {kind} {_literal(bound)}"
    return text, lambda row: None if row[column] is None else compare(_key(row[column]), _key(bound))


def _both(a: tuple[str, Truth], b: tuple[str, Truth]) -> tuple[str, Truth]:
    def truth(row: Row) -> bool | None:
        sides = {a[1](row), b[1](row)}
        return False if False in sides else None if None in sides else True

    return f"({a[0]} AND {b[0]})", truth


def _negated(a: tuple[str, Truth]) -> tuple[str, Truth]:
    def truth(row: Row) -> bool | None:
        truth_of_a = a[1](row)
        return None if truth_of_a is None else not truth_of_a

    return f"NOT ({a[0]})", truth


def _either(a: tuple[str, Truth], b: tuple[str, Truth]) -> tuple[str, Truth]:
    return f"({a[0]} OR {b[0]})", _negated(_both(_negated(a), _negated(b)))[1]


predicates = st.recursive(
    simple(),
    lambda inner: (
        st.tuples(inner, inner).map(lambda ab: _both(*ab))
        | st.tuples(inner, inner).map(lambda ab: _either(*ab))
        | inner.map(_negated)
    ),
    max_leaves=4,
)


# --- logs -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class File:
    """A file of a log: its partition, its rows, and whether its writer left statistics."""

    partition: Row
    rows: Sequence[Row]
    measured: bool

    def bounds(self, choose: Callable[[Sequence[Any]], Any]) -> dict[str, Any]:
        values = {c: [row[c] for row in self.rows if row[c] is not None] for c in DATA_COLUMNS}
        return {c: min(v, key=_key) if choose is min else max(v, key=_key) for c, v in values.items() if v}

    def nulls(self) -> dict[str, int]:
        return {c: sum(row[c] is None for row in self.rows) for c in DATA_COLUMNS}

    def stats(self, as_text: Callable[[Any], Any]) -> dict[str, Any] | None:
        if not self.measured:
            return None
        bounds = {
            name: {c: as_text(v) for c, v in self.bounds(choose).items()}
            for name, choose in (("minValues", min), ("maxValues", max))
        }
        return {"numRecords": len(self.rows), **bounds, "nullCount": self.nulls()}

    def all_rows(self) -> list[Row]:
        return [{**self.partition, **row} for row in self.rows]


files = st.builds(
    File,
    st.fixed_dictionaries({c: values[c] for c in PARTITION_COLUMNS}),
    st.lists(st.fixed_dictionaries({c: values[c] for c in DATA_COLUMNS}), min_size=1, max_size=3),
    st.integers(0, 5).map(bool),
)


@dataclass(frozen=True)
class Layout:
    """A layout of a checkpoint."""

    text: bool
    structs: bool
    typed_partitions: bool
    row_group: int
    backwards: bool


layouts = st.builds(Layout, st.booleans(), st.booleans(), st.booleans(), st.sampled_from([1, 3, 1000]), st.booleans())


def _in_log(value: Any) -> Any:
    return _moment(value) if isinstance(value, datetime) else str(value) if isinstance(value, date) else value


def _add(number: int, file: File) -> dict[str, Any]:
    stats = file.stats(lambda v: _moment(v)[:-4] + "Z" if isinstance(v, datetime) else v)
    return {
        "path": f"f{number}.parquet",
        "partitionValues": {c: None if v is None else str(_in_log(v)) for c, v in file.partition.items()},
        "size": 100 + number,
        "modificationTime": 0,
        "dataChange": True,
        **({} if stats is None else {"stats": json.dumps(stats)}),
    }


def _head() -> list[dict[str, Any]]:
    fields = [
        {"name": name, "type": NAMES[data_type], "nullable": True, "metadata": {}}
        for name, data_type in (PARTITION_COLUMNS | DATA_COLUMNS).items()
    ]
    metadata = {
        "id": "1",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": json.dumps({"type": "struct", "fields": fields}),
        "partitionColumns": list(PARTITION_COLUMNS),
        "configuration": {},
    }
    return [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]


def _commit(log: Path, version: int, actions: Sequence[Mapping[str, Any]]) -> None:
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def _checkpoint(log: Path, version: int, adds: Sequence[tuple[int, File]], layout: Layout) -> None:
    bounds = pa.struct(list(DATA_COLUMNS.items()))
    stats = pa.struct(
        [
            ("numRecords", pa.int64()),
            ("minValues", bounds),
            ("maxValues", bounds),
            ("nullCount", pa.struct([(c, pa.int64()) for c in DATA_COLUMNS])),
        ]
    )
    of_add: list[tuple[str, Any]] = [
        ("path", pa.string()),
        ("partitionValues", pa.map_(pa.string(), pa.string())),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
    ]
    of_add += [("stats", pa.string())] if layout.text else []
    of_add += [("stats_parsed", stats)] if layout.structs else []
    of_add += (
        [("partitionValues_parsed", pa.struct(list(PARTITION_COLUMNS.items())))] if layout.typed_partitions else []
    )
    strings = pa.map_(pa.string(), pa.string())
    schema = pa.schema(
        [
            ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32())])),
            (
                "metaData",
                pa.struct(
                    [
                        ("id", pa.string()),
                        ("format", pa.struct([("provider", pa.string()), ("options", strings)])),
                        ("schemaString", pa.string()),
                        ("partitionColumns", pa.list_(pa.string())),
                        ("configuration", strings),
                    ]
                ),
            ),
            ("add", pa.struct(of_add)),
        ]
    )
    rows: list[dict[str, Any]] = [
        {
            "add": {
                **_add(number, file),
                "partitionValues": list(_add(number, file)["partitionValues"].items()),
                "stats_parsed": file.stats(lambda v: v),
                "partitionValues_parsed": dict(file.partition),
            }
        }
        for number, file in adds
    ]
    rows = [*_head(), *(reversed(rows) if layout.backwards else rows)]
    table = pa.Table.from_pylist([{name: row.get(name) for name in schema.names} for row in rows], schema)
    pq.write_table(table, log / f"{version:020}.checkpoint.parquet", row_group_size=layout.row_group)


def _paths(table: Path, predicate: str | None = None) -> set[str]:
    return set(DeltaTable(str(table)).plan(predicate).read_all()["path"].to_pylist())


@settings(max_examples=150, deadline=None)
@given(
    found=st.lists(files, min_size=1, max_size=12),
    later=st.lists(files, max_size=3),
    gone=st.sets(st.integers(0, 11)),
    layout=layouts,
    predicate=predicates,
)
def test_no_file_with_a_matching_row_is_left_out(
    tmp_path_factory: Any, earlier: list[File], later: list[File], gone: set[int], layout: Layout, predicate: Any
) -> None:
    root = tmp_path_factory.mktemp("tables")
    plain, other = root / "plain", root / "other"
    text, truth = predicate
    first = list(enumerate(earlier))
    for log in (plain / "_delta_log", other / "_delta_log"):
        log.mkdir(parents=True)
        _commit(log, 0, [*_head(), *({"add": _add(*numbered)} for numbered in first)])
        removes = [{"remove": {"path": f"f{n}.parquet", "dataChange": True}} for n in sorted(gone) if n < len(earlier)]
        _commit(log, 1, [*removes, *({"add": _add(n, f)} for n, f in enumerate(later, len(earlier)))])
    _checkpoint(other / "_delta_log", 0, first, layout)
    live = [(n, f) for n, f in first if n not in gone] + list(enumerate(later, len(earlier)))
    assert _paths(other) == {f"f{n}.parquet" for n, _ in live}
    planned = _paths(other, text)
    matching = {f"f{n}.parquet" for n, f in live if any(truth(row) is True for row in f.all_rows())}
    assert matching <= planned, text
    if layout.text or layout.structs:
        assert planned == _paths(plain, text), text


@pytest.mark.parametrize("row_group", [1, 1000])
@pytest.mark.parametrize("own", [False, True])
def test_a_file_that_is_named_twice_is_one_file(row_group: int, own: bool, tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    low, high = (File(dict.fromkeys(PARTITION_COLUMNS), [{"n": n, "seen": None, "name": None}], True) for n in (1, 9))
    _commit(log, 0, [*_head(), {"add": _add(0, low)}, {"add": _add(1, high)}])
    layout = Layout(text=True, structs=False, typed_partitions=False, row_group=row_group, backwards=False)
    _checkpoint(log, 0, [(0, low), (1, high), (0, low), (0, high)], layout)
    if own:
        _commit(log, 1, [])
        DeltaTable(str(tmp_path)).create_checkpoint()
    table = DeltaTable(str(tmp_path))

    def planned(predicate: str | None) -> list[str]:
        return sorted(table.plan(predicate).read_all()["path"].to_pylist())

    assert (table.count(), sorted(table.files())) == (2, ["f0.parquet", "f1.parquet"])
    assert planned(None) == ["f0.parquet", "f1.parquet"]
    assert planned("n < 5") == ["f0.parquet"]
    if not own:
        # Either of the two entries may be right, so the file stays if one of them may match.
        assert planned("n > 5") == ["f0.parquet", "f1.parquet"]
        why = table.explain("n > 5")
        assert why.considered - why.skipped - why.replaced == why.selected == 2
