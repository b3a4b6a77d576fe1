"""The DuckDB statements for each shape of MERGE, compared with files:
`pytest tests/api/test_merge_sql.py --update`.

Each shape runs on a table of its own; a golden file has every statement of the command, in order.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.commands.duckdb_engine import LocalEngine
from deltaplane.commands.merge import new_rows, sql
from deltaplane.table.merge import TableMerger

GOLDEN = Path(__file__).parent / "merge_sql"
# The keywords before which a golden file has a line break, so that differences are short.
_CLAUSES = re.compile(r"(?<!LEFT)(?<!ANTI) (?=(?:FROM|LEFT JOIN|ANTI JOIN|JOIN|WHERE|ORDER BY|GROUP BY)\b)")

TABLE = pa.table({"id": [1, 2, 3, 4], "n": [10, 20, 30, 40], "s": ["a", "b", None, "d"]})
SOURCE = pa.table({"id": [2, 3, 9], "n": [21, 31, 91], "s": ["b", "c", "z"]})
NESTED = pa.table(
    {"id": [1, 2], "st": [{"x": 1, "y": {"z": "a"}}, {"x": 2, "y": {"z": "b"}}], "m": [[("k", 1)], None]},
    schema=pa.schema(
        [
            ("id", pa.int64()),
            ("st", pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])),
            ("m", pa.map_(pa.string(), pa.int64())),
        ]
    ),
)


@dataclass(frozen=True)
class Shape:
    """A MERGE: the table, the source, the condition and the clauses; `rows` are the ids with one
    value afterwards."""

    clauses: Callable[[TableMerger], TableMerger]
    rows: Mapping[Any, Any]
    on: str = "t.id = s.id"
    table: pa.Table = field(default_factory=lambda: TABLE)
    source: pa.Table = field(default_factory=lambda: SOURCE)
    properties: Mapping[str, str] = field(default_factory=dict)
    shown: tuple[str, str] = ("id", "n")
    merge_schema: bool = False
    patched: bool = False
    replaces: bool = False


def clauses(*calls: tuple[str, tuple[Any, ...]]) -> Callable[[TableMerger], TableMerger]:
    """A merge with these clauses: names of methods, and their arguments."""

    def added(merger: TableMerger) -> TableMerger:
        for name, arguments in calls:
            merger = getattr(merger, name)(*arguments)
        return merger

    return added


UPDATE_ALL, INSERT_ALL = ("when_matched_update_all", ()), ("when_not_matched_insert_all", ())
BEFORE = {1: 10, 2: 20, 3: 30, 4: 40}
_ADDED = SOURCE.append_column("more", pa.array([1.5, 2.5, None]))
_STRANGE = ["a`b", 'say "n"', "it's; --"]

SHAPES = {
    "matched_update_all": Shape(clauses(UPDATE_ALL), {**BEFORE, 2: 21, 3: 31}),
    "matched_update": Shape(
        clauses(("when_matched_update", ({"n": "t.n + s.n", "s": "upper(s.s)"},))), {**BEFORE, 2: 41, 3: 61}
    ),
    "matched_update_except": Shape(clauses(("when_matched_update_all", ("t.n > 20", ["s"]))), {**BEFORE, 3: 31}),
    "matched_delete": Shape(clauses(("when_matched_delete", ())), {1: 10, 4: 40}),
    "matched_several": Shape(
        clauses(
            ("when_matched_delete", ("s.n > 30",)),
            ("when_matched_update", ({"n": "s.n"}, "t.n = 10")),
            ("when_matched_update", ({"n": "-1"},)),
        ),
        {1: 10, 2: -1, 4: 40},
    ),
    "not_matched_insert_all": Shape(clauses(INSERT_ALL), {**BEFORE, 9: 91}),
    "not_matched_insert": Shape(
        clauses(
            ("when_not_matched_insert", ({"id": "s.id", "n": "s.n * 2"}, "s.n > 100")),
            ("when_not_matched_insert", ({"id": "s.id", "n": "s.n + 1"},)),
        ),
        {**BEFORE, 9: 92},
    ),
    "by_source_update": Shape(
        clauses(("when_not_matched_by_source_update", ({"n": "t.n - 1"}, "t.id > 1"))), {**BEFORE, 4: 39}
    ),
    "by_source_delete": Shape(clauses(("when_not_matched_by_source_delete", ())), {2: 20, 3: 30}),
    "every_kind": Shape(
        clauses(
            ("when_matched_update", ({"n": "s.n"}, "s.s = 'b'")),
            ("when_matched_delete", ()),
            INSERT_ALL,
            ("when_not_matched_by_source_update", ({"n": "0"}, "t.id = 1")),
            ("when_not_matched_by_source_delete", ()),
        ),
        {1: 0, 2: 21, 9: 91},
    ),
    "source_twice_deletes": Shape(
        clauses(("when_matched_delete", ())), {1: 10, 4: 40}, source=pa.concat_tables([SOURCE, SOURCE])
    ),
    "null_safe_keys": Shape(
        clauses(UPDATE_ALL, INSERT_ALL),
        {1: 10, 2: 21, 3: 30, 4: 40, 9: 91, 33: 31},
        on="t.s <=> s.s AND t.id = s.id",
        source=SOURCE.set_column(0, "id", pa.array([2, 33, 9])),
    ),
    "keys_of_a_range": Shape(
        clauses(UPDATE_ALL),
        {**BEFORE, 2: 7, 3: 7, 4: 7},
        source=pa.table({"id": [*range(2, 102)], "n": [7] * 100, "s": ["x"] * 100}),
    ),
    "other_condition": Shape(
        clauses(("when_matched_update", ({"n": "s.n"},))),
        {**BEFORE, 2: 21},
        on="t.id = s.id AND t.n < s.n - 0 AND s.s = 'b' AND t.n > 5",
    ),
    "no_equality": Shape(clauses(("when_matched_delete", ())), {4: 40}, on="t.n < s.n - 60"),
    "evolution": Shape(
        clauses(UPDATE_ALL, INSERT_ALL),
        {1: None, 2: 1.5, 3: 2.5, 4: None, 9: None},
        source=_ADDED,
        merge_schema=True,
        shown=("id", "more"),
    ),
    "evolution_of_a_struct": Shape(
        clauses(UPDATE_ALL, INSERT_ALL),
        {1: {"x": 1, "y": {"z": "a"}, "w": None}, 2: {"x": 22, "y": {"z": "b"}, "w": 5}},
        table=NESTED,
        # Declared, as pyarrow orders the fields that it infers by version.
        source=pa.table(
            {"id": [2], "st": pa.array([{"x": 22, "w": 5}], pa.struct({"x": pa.int64(), "w": pa.int64()}))}
        ),
        merge_schema=True,
        shown=("id", "st"),
    ),
    "nested_assignment": Shape(
        clauses(("when_matched_update", ({"st.y.z": "concat(t.st.y.z, '!')", "t.st.x": "s.x"},))),
        {1: {"x": 1, "y": {"z": "a"}}, 2: {"x": 5, "y": {"z": "b!"}}},
        table=NESTED,
        source=pa.table({"id": [2], "x": [5]}),
        shown=("id", "st"),
    ),
    "mapped_names": Shape(
        clauses(("when_matched_update", ({"`n ;=`": "s.`n ;=`"},)), INSERT_ALL),
        {**BEFORE, 2: 21, 3: 31, 9: 91},
        table=TABLE.rename_columns(["id", "n ;=", "s"]),
        source=SOURCE.rename_columns(["id", "n ;=", "s"]),
        properties={"delta.columnMapping.mode": "name"},
        shown=("id", "n ;="),
    ),
    "quoted_names": Shape(
        clauses(("when_matched_update", ({'`say "n"`': 's.`say "n"` + 0', "`it's; --`": "'it''s'"},)), INSERT_ALL),
        {**BEFORE, 2: 21, 3: 31, 9: 91},
        on="t.`a``b` = s.`a``b`",
        table=TABLE.rename_columns(_STRANGE),
        source=SOURCE.rename_columns(_STRANGE),
        properties={"delta.columnMapping.mode": "name"},
        shown=("a`b", 'say "n"'),
    ),
    "change_data_feed": Shape(
        clauses(UPDATE_ALL, INSERT_ALL, ("when_not_matched_by_source_delete", ("t.id = 4",))),
        {1: 10, 2: 21, 3: 31, 9: 91},
        properties={"delta.enableChangeDataFeed": "true"},
    ),
    "deletion_vectors": Shape(
        clauses(("when_matched_update", ({"n": "s.n"},))),
        {**BEFORE, 2: 21, 3: 31},
        properties={"delta.enableDeletionVectors": "true"},
    ),
    "patched": Shape(clauses(("when_matched_update", ({"n": "s.n"},))), {**BEFORE, 2: 21, 3: 31}, patched=True),
    "patched_with_old_values": Shape(
        clauses(
            ("when_matched_update", ({"n": "t.n + 1"}, "s.n = 21")),
            ("when_matched_update", ({"s": "'new'"},)),
            ("when_not_matched_by_source_update", ({"n": "t.n - 1"}, "t.id = 4")),
        ),
        {**BEFORE, 2: 21, 4: 39},
        patched=True,
    ),
    "replace_on": Shape(clauses(), {1: 10, 2: 21, 3: 31, 4: 40, 9: 91}, replaces=True),
}


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that an engine runs, except those that load the source."""
    texts: list[str] = []
    for name in ("run", "count_rows", "reader"):
        plain = getattr(LocalEngine, name)

        def noted(engine: LocalEngine, text: str, plain: Any = plain) -> Any:
            texts.append(text)
            return plain(engine, text)

        monkeypatch.setattr(LocalEngine, name, noted)
    return texts


def run(shape: Shape, path: str) -> None:
    """Makes the table and merges."""
    write_deltalake(path, shape.table, configuration=dict(shape.properties))
    if shape.replaces:
        aliases = {"source_alias": "s", "target_alias": "t"}
        write_deltalake(path, shape.source, mode="overwrite", replace_on=shape.on, **aliases)  # type: ignore[call-overload]
        return
    merger = DeltaTable(path).merge(
        shape.source, shape.on, source_alias="s", target_alias="t", merge_schema=shape.merge_schema
    )
    shape.clauses(merger).execute()


def golden(statements: list[str]) -> str:
    return "".join(_CLAUSES.sub("\n  ", text) + ";\n" for text in statements)


@pytest.mark.parametrize("name", SHAPES)
def test_statements_of_a_merge(
    name: str, statements: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: bool
) -> None:
    shape = SHAPES[name]
    if shape.patched:
        monkeypatch.setattr(new_rows, "PATCHED_BYTES", 0)
    run(shape, str(tmp_path))
    key, value = shape.shown
    rows = DeltaTable(tmp_path).to_pyarrow_table(columns=[key, value]).to_pylist()
    assert {row[key]: row[value] for row in rows} == shape.rows
    assert len(rows) == len(shape.rows)
    text, file = golden(statements), GOLDEN / f"{name}.sql"
    if update:
        file.write_text(text)
    assert file.read_text() == text


def test_every_golden_file_has_a_shape() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == {*SHAPES}


def test_statements_are_made_of_plans_alone() -> None:
    """The module of the statements uses no engine, no snapshot and no Arrow data."""

    def modules(node: ast.AST) -> Iterator[str]:
        if isinstance(node, ast.ImportFrom):
            yield str(node.module)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)

    tree = ast.parse(Path(sql.__file__).read_text())
    imported = {name for node in ast.walk(tree) for name in modules(node)}
    assert imported == {"__future__", "collections.abc", "deltaplane.commands.merge.plan"}
