"""`deltaplane migrate-check`: scripts of each kind; every rule is true of both packages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import deltaplane
from deltaplane.cli.app import run
from deltaplane.cli.migration import FUNCTIONS, RULES, check_script
from deltaplane.exceptions import DeltaError

DOCS = Path(__file__).parents[2] / "docs"
HEAD = "from deltalake import *\nfrom deltalake import DeltaTable, QueryBuilder, Transaction, WriterProperties\n"
HEAD += "from deltalake import ColumnProperties, convert_to_deltalake, write_deltalake\n"

# Rule → scripts with one finding of it, and scripts without any.
SCRIPTS: dict[str, tuple[list[str], list[str]]] = {
    "double-quotes": (
        ["DeltaTable('t').delete('\"a\" = 1')", "C = '\"a\" > 0'\ndef f(t: DeltaTable):\n    t.update(predicate=C)"],
        ["DeltaTable('t').delete('`a` = 1')", "other.delete('\"a\" = 1')", "print('\"a\"')"],
    ),
    "backslash": ([r"""DeltaTable('t').delete("a = 'x\\y'")"""], ["DeltaTable('t').delete(\"a = 'x'\")"]),
    "typed-literal": (
        ["DeltaTable('t').delete(\"a = int '1'\")"],
        ["DeltaTable('t').delete(\"a = date '2024-01-01'\")"],
    ),
    "type-name": (
        ["DeltaTable('t').delete('CAST(a AS varchar) = b')", "t = DeltaTable('t')\nt.update({'a': 'b::text'})"],
        ["DeltaTable('t').delete('CAST(a AS STRING) = b')", "DeltaTable('t').delete('text = 1')"],
    ),
    "regex-operator": (["DeltaTable('t').delete(\"a ~ 'x'\")"], ["DeltaTable('t').delete(\"a RLIKE 'x'\")"]),
    "list-literal": (["DeltaTable('t').delete('a = [1, 2]')"], ["DeltaTable('t').delete('a[0] = 1')"]),
    "division": (
        ["DeltaTable('t').update({'a': f'b / {n}'})", "DeltaTable('t').update(updates={'a': 'b' + ' / 2'})"],
        ["DeltaTable('t').update({'a': 'b / 2.0'})", "DeltaTable('t').update({'a': 'b DIV 2'})"],
    ),
    "null-order": (
        ["for b in QueryBuilder().register('t', t).execute('SELECT a FROM t ORDER BY a'): pass"],
        ["DeltaTable('t').merge(s, 'a = b')"],
    ),
    "column-name": (
        ["for b in QueryBuilder().register('t', t).execute('SELECT count(*) FROM t'): pass"],
        ["for b in QueryBuilder().register('t', t).execute('SELECT a, count(*) AS n FROM t GROUP BY a'): pass"],
    ),
    "function": (
        ["DeltaTable('t').delete('strpos(a, b) > 0')", "write_deltalake('t', d, predicate='arrow_cast(a, b)')"],
        ["DeltaTable('t').delete('instr(a, b) > 0')", "DeltaTable('t').delete('substr(a, 1, 2) = b')"],
    ),
    "import": (
        ["from deltalake.fs import DeltaStorageHandler", "from deltalake import init_tracing", "import deltalake.fs"],
        [
            "from deltalake.exceptions import DeltaError",
            "from deltalake.schema import Field",
            "import deltalake.writer",
        ],
    ),
    "method": (
        ["DeltaTable('t').create_write_transaction(a, 'append', s)", "c = DeltaTable('t').table_config"],
        ["DeltaTable('t').count()", "other.table_config"],
    ),
    "argument": (["DeltaTable.create('t', s, raise_if_key_not_exists=False)"], ["DeltaTable.create('t', s)"]),
    "positional-argument": (
        ["DeltaTable('t').delete('a = 1', None, None)", "t = DeltaTable('t')\nt.vacuum(1, True, True, None)"],
        ["DeltaTable('t').delete('a = 1', None)", "DeltaTable('t').delete(*parts)"],
    ),
    "repeated-transaction": (["Transaction('a', 1)"], ["Other('a', 1)"]),
    "transaction-time": (["Transaction('a', 1, 5)", "Transaction('a', 1, last_updated=5)"], []),
    "writer-setting": (
        ["WriterProperties(data_page_size_limit=5)", "WriterProperties(compression='BROTLI')"],
        ["WriterProperties(compression='ZSTD', compression_level=3)", "ColumnProperties(encoding='PLAIN')"],
    ),
    "session-config": (["QueryBuilder({'a': 'b'})"], ["QueryBuilder()"]),
    "arrow-objects": (
        ["DeltaTable('t').get_add_actions()", "a.load_cdf()", "DeltaTable('t').schema().to_arrow()"],
        ["DeltaTable('t').to_pyarrow_table()"],
    ),
    "history": (["DeltaTable('t').history()"], ["other.history()"]),
    "merge-deletes": (
        ["DeltaTable('t').merge(s, 'a = b').when_matched_delete('s.x').execute()"],
        ["DeltaTable('t').merge(s, 'a = b').when_matched_delete().execute()"],
    ),
    "repair": (["DeltaTable('t').repair()"], ["other.repair()"]),
    "location": (["U = 's3://b/a%20b'\nDeltaTable(U)", "write_deltalake('gs://b/a#b', d)"], ["DeltaTable('a%20b')"]),
}


def test_every_rule_has_scripts() -> None:
    assert SCRIPTS.keys() == RULES.keys()


@pytest.mark.parametrize("rule", SCRIPTS)
def test_a_rule_is_found_where_it_applies(rule: str) -> None:
    concerned, clean = SCRIPTS[rule]
    for script in concerned:
        findings = [f for f in check_script(HEAD + script) if f.rule == rule]
        assert len(findings) == 1, script
        assert 0 <= findings[0].line - 4 <= script.count("\n"), script
    for script in clean:
        assert [f for f in check_script(HEAD + script) if f.rule == rule] == [], script


def test_a_script_without_deltalake_has_no_findings() -> None:
    assert check_script("table.load_cdf('\"a\"')\nx.when_matched_delete('1 / 2')") == []


def test_lines_of_sql_in_long_texts() -> None:
    script = HEAD + 'DeltaTable("t").delete("""\n  a = 1\n  AND "b" = 2\n""")\n'
    assert [(f.line, f.rule) for f in check_script(script)] == [(6, "double-quotes")]


def test_text_json_and_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script, clean, broken = (tmp_path / name for name in ("a.py", "b.py", "c.py"))
    script.write_text(HEAD + "DeltaTable('t').delete('\"a\" = 1')\n")
    clean.write_text("print(1)\n")
    broken.write_text("print(\n")
    assert run(["migrate-check", str(clean)]) == 0
    assert capsys.readouterr().out == ""
    assert run(["migrate-check", str(clean), str(script)]) == 1
    assert capsys.readouterr().out.startswith(f'{script}:4:24: double-quotes: "a": ')
    assert run(["migrate-check", "--json", str(script)]) == 1
    (finding,) = json.loads(capsys.readouterr().out)
    assert (finding["line"], finding["rule"], finding["write"]) == (4, "double-quotes", "`` `a` ``")
    for unusable in ([], [str(broken)], [str(tmp_path / "none.py")]):
        assert run(["migrate-check", *unusable]) == 2
        assert capsys.readouterr().err.startswith("deltaplane: ")


SQL_EXAMPLES = {
    "double-quotes": "\"k\" = 'z'",
    "backslash": r"k = 'a\b'",
    "typed-literal": "int '10'",
    "type-name": "CAST(i AS varchar)",
    "regex-operator": "k ~ 'z'",
    "list-literal": "[1, 2]",
    "division": "i / 2",
    "null-order": "",
    "function": "strpos(k, 'z')",
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Any]:
    deltalake = pytest.importorskip("deltalake")
    path = str(tmp_path_factory.mktemp("engines") / "t")
    rows = {"k": ["a\\b", "z"], "i": [7, None], "l": [[1, 2], [3]]}
    deltaplane.write_deltalake(path, pa.table(rows))
    theirs = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    return theirs, deltaplane.QueryBuilder().register("t", deltaplane.DeltaTable(path))


def answers(engines: tuple[Any, Any], expression: str, order: str = "k") -> tuple[list[Any], list[Any] | None]:
    """deltalake's values of an expression and deltaplane's; None where it refuses."""
    theirs, ours = engines
    sql = f"SELECT {expression} AS x FROM t ORDER BY {order}"
    expected = pa.table(theirs.execute(sql))["x"].to_pylist()
    try:
        return expected, ours.execute(sql).read_all()["x"].to_pylist()
    except DeltaError:
        return expected, None


@pytest.mark.parametrize("rule", SQL_EXAMPLES)
def test_rules_of_sql_are_differences(rule: str, engines: tuple[Any, Any]) -> None:
    sql = SQL_EXAMPLES[rule]
    expected, got = answers(engines, sql) if sql else answers(engines, "i", "i")
    assert got != expected
    assert "refused" not in RULES[rule].ours or "or" in RULES[rule].ours or got is None


def test_unnamed_columns_have_other_names(engines: tuple[Any, Any]) -> None:
    theirs, ours = (pa.table(engine.execute("SELECT count(*) FROM t")).column_names for engine in engines)
    assert (theirs, ours) == (["count(*)"], ["count(1)"])


def test_every_rule_of_sql_has_an_example() -> None:
    assert {*SQL_EXAMPLES, "column-name"} == {rule.name for rule in RULES.values() if rule.sql}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_have_another_result_or_are_refused(name: str, engines: tuple[Any, Any]) -> None:
    expected, got = answers(engines, FUNCTIONS[name].example)
    assert (got is None) == FUNCTIONS[name].refused
    assert got != expected
    problems = check_script(f"{HEAD}DeltaTable('t').delete({FUNCTIONS[name].example!r})")
    assert "function" in {finding.rule for finding in problems}


def test_the_snippets_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (DOCS / "migrating-from-deltalake.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert len(snippets) >= 5
    names: dict[str, Any] = {}
    for snippet in snippets:
        # The snippets are this repository's own.
        exec(compile(snippet, "docs/migrating-from-deltalake.md", "exec"), names)  # noqa: S102


def test_repeated_versions_and_repair_differ_as_the_page_says(tmp_path: Path) -> None:
    deltalake = pytest.importorskip("deltalake")
    rows, counts, removed = pa.table({"x": [1]}), [], []
    for package in (deltalake, deltaplane):
        path = tmp_path / package.__name__
        for _ in range(2):
            once = package.CommitProperties(app_transactions=[package.Transaction("a", 1)])
            package.write_deltalake(str(path), rows, mode="append", commit_properties=once)
        counts.append(package.DeltaTable(str(path)).count())
        old = package.DeltaTable(str(path))
        before = set(path.glob("*.parquet"))
        package.write_deltalake(str(path), rows, mode="append")
        (set(path.glob("*.parquet")) - before).pop().unlink()
        removed.append(len(old.repair(dry_run=True)["files_removed"]))
    assert counts == [2, 1]
    assert removed == [0, 1]
