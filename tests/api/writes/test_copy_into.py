"""COPY INTO: loads each file's rows once, also with concurrent loaders, in the table's types; and
its notes for other programs."""

from __future__ import annotations

import bz2
import datetime
import gzip
import json
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deltaplane import CommitProperties, CopyResult, DeltaTable, Transaction, copy_into, sql, write_deltalake
from deltaplane import copying as loading
from deltaplane.exceptions import (
    ConstraintViolationError,
    FileMissingError,
    InvalidArgumentError,
    SchemaMismatchError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from interop.verifier import verify

SCHEMA = pa.schema([("x", pa.int64()), ("s", pa.string())])


@pytest.fixture
def table(tmp_path: Path) -> DeltaTable:
    return DeltaTable.create(str(tmp_path / "t"), SCHEMA)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    return tmp_path / "in"


def put(files: Path, name: str, *numbers: int) -> None:
    path = files / name
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": list(numbers), "s": [name] * len(numbers)}, SCHEMA), path)


def held(table: DeltaTable) -> Counter[int]:
    return Counter(DeltaTable(table.location).to_pyarrow_table()["x"].to_pylist())


def load(table: DeltaTable, folder: Path, **more: Any) -> CopyResult:
    return copy_into(table, folder, "parquet", **more)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(loads=st.lists(st.tuples(st.integers(0, 4), st.sampled_from([None, "a*", "*/b*"]), st.booleans()), max_size=8))
def test_each_file_is_loaded_once(tmp_path_factory: pytest.TempPathFactory, loads: list[Any]) -> None:
    # P076
    root = tmp_path_factory.mktemp("copy")
    table, files = DeltaTable.create(str(root / "t"), SCHEMA), root / "in"
    put(files, "a0", 0)
    known, expected, number = {"a0": 0}, Counter[int](), 0
    done: set[str] = set()
    for more, pattern, force in loads:
        for _ in range(more):
            number += 1
            name = ("a{}", "dir/b{}", "c/a{}")[number % 3].format(number)
            put(files, name, number)
            known[name] = number
        meant = {n for n in known if pattern is None or n.startswith("a") or (pattern == "*/b*" and "/b" in n)}
        if pattern == "*/b*":
            meant = {n for n in known if "/b" in n}
        new = meant if force else meant - done
        result = load(table, files, pattern=pattern, copy_options={"force": force})
        assert (result.num_loaded_files, result.num_skipped_files) == (len(new), len(meant - new))
        assert result.num_affected_rows == result.num_inserted_rows == len(new)
        assert (result.version is None) == (not new)
        expected.update(known[name] for name in new)
        done |= new
        assert held(table) == expected
    verify(table.location)


def test_loaders_at_the_same_time_share_the_files(table: DeltaTable, files: Path) -> None:
    barrier = threading.Barrier(4)

    def load_once(number: int) -> int:
        loaded = 0
        for turn in range(3):
            put(files, f"{number}-{turn}", 10 * number + turn)
            barrier.wait()
            loaded += load(DeltaTable(table.location), files).num_loaded_files
        return loaded

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(load_once, range(4))) == 12
    assert load(table, files).version is None
    assert held(table) == Counter(10 * n + turn for n in range(4) for turn in range(3))


@pytest.mark.parametrize("killed_in", ["write_rows", "commit_files"])
def test_a_loader_that_is_killed_leaves_nothing_loaded(
    table: DeltaTable, files: Path, monkeypatch: pytest.MonkeyPatch, killed_in: str
) -> None:
    put(files, "a", 1)

    def killed(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(loading, killed_in, killed)
        with pytest.raises(KeyboardInterrupt):
            load(table, files)
    assert held(table) == Counter()
    assert load(table, files).num_loaded_files == 1
    assert held(table) == Counter([1])


def test_the_commit_and_the_notes_stay_small(table: DeltaTable, files: Path) -> None:
    # P002, P076: one action, however many files; other programs ignore the notes
    for turn in range(9):
        for number in range(turn * 20, turn * 20 + 20):
            put(files, f"{number}", number)
        version = load(table, files).version
    log = Path(table.location, "_delta_log")
    actions = [json.loads(line) for line in (log / f"{version:020}.json").read_text().splitlines()]
    (txn,) = [action["txn"] for action in actions if "txn" in action]
    assert txn["appId"] == "deltaplane.copyInto"
    runs = json.loads((log / "_copy_into" / f"{txn['version']}.json").read_text())["runs"]
    assert sum(run["files"] for run in runs) == 180
    assert len(runs) <= 5
    assert {(log / "_copy_into" / run["name"]).stat().st_size for run in runs} == {16 * run["files"] for run in runs}
    table.create_checkpoint()
    other = deltalake.DeltaTable(table.location)
    assert other.to_pyarrow_table().num_rows == 180
    other.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    deltalake.write_deltalake(other, pa.table({"x": [500], "s": ["z"]}), mode="append")
    assert load(table, files).num_skipped_files == 180
    verify(table.location)


def test_a_directory_has_one_name(table: DeltaTable, files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(files, "a", 1)
    load(table, files)
    monkeypatch.chdir(files.parent)
    link = files.with_name("link")
    link.symlink_to(files)
    for again in ("in", "./in/", files.as_uri(), f"{files}/", link):
        assert copy_into(table, again, "parquet").num_skipped_files == 1
    odd = files.with_name("a b%20ü#c")
    put(odd, "d e%2F.parquet", 2)
    assert copy_into(table, odd, "parquet").num_loaded_files == 1
    assert copy_into(table, odd.as_uri(), "parquet").num_skipped_files == 1
    assert held(table) == Counter([1, 2])


CSV = {
    "plain.csv": ('x,s\n1,a\n2,\n,""\n', {"header": "true"}),
    "signs.csv": ("s|X\n'a|b'|1\nNA|2\n'c'|NA\n", {"header": "TRUE", "sep": "|", "quote": "'", "nullValue": "NA"}),
    "places.csv": ("1;a\n2;b\n", {"delimiter": ";"}),
}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("plain.csv", [(1, "a"), (2, None), (None, "")]),
        ("signs.csv", [(1, "a|b"), (2, None), (None, "c")]),
        ("places.csv", [(1, "a"), (2, "b")]),
    ],
)
def test_csv(table: DeltaTable, files: Path, name: str, expected: list[Any]) -> None:
    text, options = CSV[name]
    (files / name).write_text(text)
    (files / "empty.csv").write_text("")
    assert copy_into(table, files, "csv", format_options=options).num_loaded_files == 2
    assert [tuple(row.values()) for row in table.to_pyarrow_table().to_pylist()] == expected


# Spark's result for each text, except for the doubled quote.
BACKSLASHES = {
    r"C:\temp\new": r"C:\temp\new",
    r'"C:\temp\new"': r"C:\temp\new",
    r'"a\"b"': 'a"b',
    r'"a\\b"': r"a\b",
    r"a\\b": r"a\\b",
    r"a\"b": r"a\"b",
    r'"\\\"z"': r"\"z",
    r'"\\"': "\\",
    r'"a""b"': 'a"b',
    '"a" ': "a",
}


@pytest.mark.parametrize("block", ["", " " * (1 << 20)])
def test_a_backslash_escapes_between_quotes_alone(table: DeltaTable, files: Path, block: str) -> None:
    # In the second run the examined text is at the end of a block.
    rows = [f"{number},{text}\n" for number, text in enumerate(BACKSLASHES)]
    filled = f"-1,{block[: -sum(map(len, rows)) // 2]}\n"
    (files / "a.csv").write_text(filled + "".join(rows))
    copy_into(table, files, "csv")
    texts = {row["x"]: row["s"] for row in table.to_pyarrow_table().to_pylist()}
    assert [texts[number] for number in range(len(rows))] == list(BACKSLASHES.values())


def test_another_escape(table: DeltaTable, files: Path) -> None:
    (files / "a.csv").write_text("\ufeff'x','s'\n1,'it^'s ^^ \\'\n", encoding="utf-8")
    copy_into(table, files, "csv", format_options={"header": "true", "quote": "'", "escape": "^"})
    assert table.to_pyarrow_table().to_pylist() == [{"x": 1, "s": "it's ^ \\"}]


@pytest.mark.parametrize("text", ['1,"C:\\temp\\"\n2,"x"\n', '1,"a"b\n', '1,"a\n2,b\n'])
def test_quotes_that_leave_a_guess_are_refused(table: DeltaTable, files: Path, text: str) -> None:
    (files / "a.csv").write_text(text)
    with pytest.raises(SchemaMismatchError, match=r"quote.*`a\.csv`"):
        copy_into(table, files, "csv")
    assert held(table) == Counter()


@pytest.mark.parametrize("rows", [3, 300_000])
def test_quoted_lines_in_files_of_any_size(table: DeltaTable, files: Path, rows: int) -> None:
    (files / "a.csv").write_text("".join(f'{number},"a\nb"\n' for number in range(rows)))
    assert copy_into(table, files, "csv").num_inserted_rows == rows
    assert set(table.to_pyarrow_table()["s"].to_pylist()) == {"a\nb"}


PACKED: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
}


@pytest.mark.parametrize("end", PACKED)
def test_compressed_files(table: DeltaTable, files: Path, end: str) -> None:
    packed = PACKED[end]
    (files / f"a.csv.{end}").write_bytes(packed(b'1,"a\\"b"\n') + packed(b"2,c\n"))
    (files / f"none.csv.{end}").write_bytes(packed(b""))
    assert copy_into(table, files, "csv").num_inserted_rows == 2
    (files / f"b.json.{end.upper()}").write_bytes(packed(b'{"x": 3}\n'))
    (files / f"none.json.{end}").write_bytes(packed(b""))
    assert copy_into(table, files, "json", pattern="*.json.*").num_loaded_files == 2
    assert held(table) == Counter([1, 2, 3])


def test_what_cannot_be_decompressed(table: DeltaTable, files: Path) -> None:
    (files / "a.csv.snappy").write_bytes(b"abc")
    with pytest.raises(UnsupportedFeatureError, match=r"a\.csv\.snappy.*\.gz"):
        copy_into(table, files, "csv")
    (files / "a.csv.snappy").rename(files / "cut.csv.gz")
    (files / "cut.csv.gz").write_bytes(gzip.compress(b"1,a\n" * 100)[:-9])
    with pytest.raises(SchemaMismatchError, match=r"`cut\.csv\.gz`"):
        copy_into(table, files, "csv")
    assert held(table) == Counter()


TIMES = pa.schema(
    [
        ("d", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("in", pa.struct([("days", pa.list_(pa.date32()))])),
    ]
)


def test_dates_and_times_as_text(tmp_path: Path, files: Path) -> None:
    table = DeltaTable.create(str(tmp_path / "times"), TIMES)
    texts = [
        "2020-01-01 00:00:00",
        "2020-01-01",
        "2020-01-01T02:00:00+02:00",
        "2020-01-01T00:00:00Z",
        "2020-01-01 01+01",
    ]
    (files / "a.json").write_text(
        "".join(json.dumps({"d": "2020-01-01", "at": text}) + "\n" for text in texts[:4])
        + '{"d": null, "in": {"days": ["2020-01-01", null]}}\n{"in": {}}\n{"in": null}\n'
    )
    assert copy_into(table, files, "json").num_inserted_rows == 7
    (files / "b.csv").write_text("D,AT\n" + "".join(f"2020-01-01,{text}\n" for text in texts) + "2020-01-01,\n")
    assert copy_into(table, files, "csv", pattern="*.csv", format_options={"header": "true"}).num_inserted_rows == 6
    rows = table.to_pyarrow_table()
    assert Counter(rows["d"].to_pylist()) == {datetime.date(2020, 1, 1): 10, None: 3}
    assert Counter(rows["at"].to_pylist()) == {datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc): 9, None: 4}
    assert {"days": [datetime.date(2020, 1, 1), None]} in rows["in"].to_pylist()


@pytest.mark.parametrize(
    ("name", "text", "column"),
    [
        ("a.json", '{"d": "soon"}\n', "d"),
        ("a.csv", "at\nsoon\n", "at"),
        ("b.csv", "at\n2020-01-01 10:00:00 CET\n", "at"),
    ],
)
def test_text_that_is_no_time(tmp_path: Path, files: Path, name: str, text: str, column: str) -> None:
    table = DeltaTable.create(str(tmp_path / "times"), TIMES)
    (files / name).write_text(text)
    options = {"header": "true"} if name.endswith(".csv") else {}
    with pytest.raises(SchemaMismatchError, match=f"the column `{column}`.*`{name}`"):
        copy_into(table, files, name.rpartition(".")[2], format_options=options)


def _parquet(values: pa.Array) -> Callable[[Path], None]:
    return lambda path: pq.write_table(pa.table({"at" if pa.types.is_timestamp(values.type) else "x": values}), path)


@pytest.mark.parametrize(
    ("file_format", "write", "reason"),
    [
        ("csv", lambda path: path.write_text("x,x\n1,2\n"), "one name"),
        ("csv", lambda path: path.write_text("x\n1\n" + "2\n" * 2_000_000 + "two\n"), "two"),
        ("parquet", _parquet(pa.array([1.5])), "1.5"),
        ("parquet", _parquet(pa.array([1], pa.timestamp("ns", "UTC"))), "lose data"),
    ],
)
def test_a_file_that_fails_while_its_rows_are_read(
    tmp_path: Path, files: Path, file_format: str, write: Callable[[Path], None], reason: str
) -> None:
    table = DeltaTable.create(str(tmp_path / "two"), SCHEMA.append(pa.field("at", pa.timestamp("us", "UTC"))))
    write(files / "wrong")
    options = {"header": "true"} if file_format == "csv" else {}
    with pytest.raises(SchemaMismatchError, match=rf"{reason}.*|`wrong`.*{reason}") as raised:
        copy_into(table, files, file_format, format_options=options)
    assert raised.value.path == "wrong"
    assert raised.value.table == table.location
    assert "Traceback" not in str(raised.value)
    assert not list(Path(table.location).glob("*.parquet"))


def test_json_and_columns_that_are_new(tmp_path: Path, files: Path) -> None:
    schema = pa.schema([("x", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("in", pa.struct([("a", pa.string())]))])
    table = DeltaTable.create(str(tmp_path / "j"), schema)
    (files / "1.json").write_text('{"x": 1, "in": {"a": "b"}}\n{"at": "2024-01-31T00:00:00Z"}\n')
    assert copy_into(table, files, "json").num_inserted_rows == 2
    (files / "2.json").write_text('{"x": 3, "new": 1.5}\n')
    with pytest.raises(SchemaMismatchError, match=r"2\.json"):
        copy_into(table, files, "json")
    (files / "3.json").write_text('{"x": 4, "more": "m"}\n')
    assert copy_into(table, files, "json", copy_options={"mergeSchema": True}).num_loaded_files == 2
    by_number = {row["x"]: row for row in table.to_pyarrow_table().to_pylist()}
    assert table.to_pyarrow_table().schema.names == ["x", "at", "in", "new", "more"]
    assert (by_number[1]["in"], by_number[3]["new"], by_number[4]["more"], by_number[4]["new"]) == (
        {"a": "b"},
        1.5,
        "m",
        None,
    )
    assert by_number[None]["at"].isoformat() == "2024-01-31T00:00:00+00:00"


def test_rules_and_types_hold_and_nothing_of_a_wrong_load_stays(table: DeltaTable, files: Path) -> None:
    # P103
    table.alter.add_constraint({"small": "x < 100"})
    put(files, "a", 1)
    put(files, "b", 200)
    before = set(Path(table.location).glob("*.parquet"))
    with pytest.raises(ConstraintViolationError):
        load(table, files)
    assert set(Path(table.location).glob("*.parquet")) == before
    assert load(table, files, files=["a"]).num_loaded_files == 1
    for name, data in (
        ("text", pa.table({"x": ["1"]})),
        ("more", pa.table({"x": [1], "y": [2]})),
        ("wide", pa.table({"x": [1.5]})),
    ):
        pq.write_table(data, files / name)
        with pytest.raises(SchemaMismatchError, match=name):
            load(table, files, files=[name])
    (files / "no").write_text("not a Parquet file")
    with pytest.raises(SchemaMismatchError, match="`no`"):
        load(table, files, files=["no"])
    pq.write_table(pa.table({"X": pa.array([5], pa.int32())}), files / "fine")
    assert load(table, files, files=["fine"]).num_inserted_rows == 1
    assert held(table) == Counter([1, 5])


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda t, f: copy_into(t, f, "orc"), InvalidArgumentError),
        (lambda t, f: copy_into(t, f, "parquet", pattern="*", files=["a"]), InvalidArgumentError),
        (lambda t, f: copy_into(t, f, "parquet", files=["nope"]), FileNotFoundError),
        (lambda t, f: copy_into(t, f, "parquet", copy_options={"nope": True}), UnsupportedFeatureError),
        (lambda t, f: copy_into(t, f, "parquet", copy_options={"force": "maybe"}), InvalidArgumentError),
        (lambda t, f: copy_into(t, f, "parquet", format_options={"header": "true"}), UnsupportedFeatureError),
        (lambda t, f: copy_into(t, f, "csv", format_options={"sep": "||"}), UnsupportedFeatureError),
        (lambda t, f: copy_into(f"{f}/nowhere", f, "parquet"), TableNotFoundError),
        (lambda t, f: copy_into(t, f"{f}/nowhere", "parquet"), FileMissingError),
        (
            lambda t, f: copy_into(
                t, f, "parquet", commit_properties=CommitProperties(app_transactions=[Transaction("a", 1)])
            ),
            InvalidArgumentError,
        ),
    ],
)
def test_wrong_calls(
    table: DeltaTable, files: Path, call: Callable[[DeltaTable, Path], Any], error: type[Exception]
) -> None:
    put(files, "a", 1)
    with pytest.raises(error):
        call(table, files)
    assert table.version() == DeltaTable(table.location).version() == 0


def test_a_table_that_forgets_is_refused(table: DeltaTable, files: Path) -> None:
    put(files, "a", 1)
    load(table, files)
    note = next(Path(table.location, "_delta_log", "_copy_into").glob("*.json"))
    note.rename(note.with_suffix(".away"))
    with pytest.raises(InvalidArgumentError, match="_copy_into"):
        load(table, files)
    note.with_suffix(".away").rename(note)
    table.alter.set_table_properties({"delta.setTransactionRetentionDuration": "interval 1 day"})
    with pytest.raises(UnsupportedFeatureError, match="setTransactionRetentionDuration"):
        load(table, files)


def test_the_statement(table: DeltaTable, files: Path) -> None:
    put(files, "a/1", 1)
    put(files, "b/2", 2)
    result = sql(f"COPY INTO t FROM '{files}' FILEFORMAT = PARQUET PATTERN = 'a/*'", tables={"t": table})
    assert result.to_pylist() == [
        {
            "version": 1,
            "num_affected_rows": 1,
            "num_inserted_rows": 1,
            "num_loaded_files": 1,
            "num_skipped_files": 0,
        }
    ]
    text = (
        f"COPY INTO t FROM '{files}' FILEFORMAT = parquet FILES = ('a/1', 'b/2') COPY_OPTIONS ('mergeSchema' = 'true')"
    )
    assert sql(text, tables={"t": table}).to_pylist()[0]["num_loaded_files"] == 1
    (files / "c.csv").write_text("x\n7\n")
    options = "FILES = ('c.csv') FORMAT_OPTIONS ('header' = 'true')"
    sql(f"COPY INTO t FROM '{files}' FILEFORMAT = CSV {options}", tables={"t": table})
    assert held(table) == Counter([1, 2, 7])
    write_deltalake(table, pa.table({"x": [8], "s": ["z"]}), mode="overwrite")
    # A later load doesn't load deleted rows again.
    assert load(table, files, files=["a/1"]).version is None


def test_names_that_come_twice_and_fields_that_the_table_lacks_are_refused(tmp_path: Path, files: Path) -> None:
    path = str(tmp_path / "nested")
    write_deltalake(path, pa.table({"k": [0], "z": [{"a": 0}]}))
    twice = pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], names=["a", "A"])
    wrong = {
        "one name": pa.table([[1], [2], [3]], names=["k", "q", "Q"]),
        "have the name `A`": pa.table({"k": [1], "z": twice}),
        "field `extra`": pa.table({"k": [1], "z": [{"a": 5, "extra": 7}]}),
    }
    for merges in ("false", "true"):
        for said, rows in wrong.items():
            for content in (rows, rows.slice(0, 0)) if said == "one name" else (rows,):
                pq.write_table(content, files / "f.parquet")
                with pytest.raises(SchemaMismatchError, match=said if merges == "true" else ""):
                    copy_into(path, str(files), "parquet", copy_options={"mergeSchema": merges})
    pq.write_table(pa.table({"k": [1], "z": [{"A": 5}]}), files / "f.parquet")
    copy_into(path, str(files), "parquet")
    assert sorted(row["z"]["a"] for row in DeltaTable(path).to_pyarrow_table().to_pylist()) == [0, 5]
