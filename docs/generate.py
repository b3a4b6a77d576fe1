"""Writes docs/compatibility.md, docs/properties.md, docs/reference/errors.md, the support table of
README.md and the rules in docs/migrating-from-deltalake.md from the compatibility data, the core's
own lists, the exceptions and the rules of `deltaplane.cli.migration`. `--check` only reports
whether they are up to date.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from deltaplane import _native, exceptions
from deltaplane.cli.exit_codes import ExitCode, exit_code, next_step
from deltaplane.cli.migration import FUNCTIONS, RULES
from deltaplane.compat import Engine, engines
from deltaplane.exceptions import DeltaError
from deltaplane.spark.errors.error_conditions import known_conditions

ROOT = Path(__file__).resolve().parents[1]
BEGIN, END = "<!-- support table: begin (docs/generate.py) -->", "<!-- support table: end -->"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"


def wrapped(text: str) -> str:
    """Prose in lines of at most 100 columns."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def mark(engine: Engine, feature: str, reader: bool) -> str:
    unknown = engine.source not in ("measured", "its own features")
    reads = feature in engine.reads or (not reader and unknown and engine.reader_version > 0)
    words = (
        ("R", reads),
        ("W", feature in engine.writes),
        ("reads wrong", feature in engine.misreads),
        ("writes wrong", feature in engine.miswrites),
    )
    return " ".join(word for word, has in words if has) or "–"


def support(shown: Sequence[Engine]) -> str:
    features = [f for f in _native.known_features() if not f.name.endswith("-preview")]
    rows = [[f"`{f.name}`", *(mark(e, f.name, f.reader) for e in shown)] for f in features]
    return table(["table feature", *(f"{e.name} {e.versions}" for e in shown)], rows)


def measured() -> list[Engine]:
    return [e for e in engines() if e.source in ("measured", "its own features")]


def read_by() -> str:
    ways = ", ".join(f"{e.name} by `{e.reads_by}`" for e in measured() if e.reads_by)
    best = f"Of several ways to read, the best one counts: {ways}."
    return wrapped(
        f"{best} DuckDB appends to tables that `ATTACH` registered, and has tables of a catalog by its extension `unity_catalog`. delta-kernel-rs is measured by the package delta-kernel-rust-sharing-wrapper, which only reads."
    )


def not_measured() -> str:
    """The newest versions of programs that couldn't be had, each with the reason."""
    data = json.loads((ROOT / "python/deltaplane/compat/engines.json").read_text(encoding="utf-8"))
    return "\n".join(
        textwrap.fill(
            f"- {entry['name']} {entry['version']}: {entry['why']}",
            100,
            subsequent_indent="  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        for entry in data["not_measured"]
    )


def compatibility() -> str:
    documented = [e for e in engines() if e.source not in ("measured", "its own features")]
    sources = sorted({e.source for e in documented})
    pages = "\n".join(f"- <{page}>" for page in sources)
    return f"""# Compatibility

Which programs read (R) and write (W) tables with each feature of the Delta protocol. This page is
generated from `python/deltaplane/compat/engines.json` and from deltaplane's own feature modules: do
not edit it.

`deltaplane compat TABLE` and `DeltaTable.compatibility()` evaluate the same data for one table, and
`DeltaTable.compatibility({{"delta.enableDeletionVectors": "true"}})` shows which engines a change
would exclude.

## Measured

Each program reads tables that use the feature, and every value is compared. Then it appends to
them, delta-spark reads the result and the protocol verifier checks it
(`tests/interop/measure_engines.py`). `reads wrong` and `writes wrong`: the program does not refuse
the feature, and the rows or the table are wrong; `–`: it refuses. deltaplane's column is what its
core states about itself, which tests verify.

{read_by()}

{support(measured())}
Newer versions that are not measured:

{not_measured()}

## From documentation

{support(documented)}
Sources:

{pages}
"""


def kinds() -> list[type[DeltaError]]:
    """The classes that have a kind of their own, in the order of their module."""
    classes = [value for value in vars(exceptions).values() if isinstance(value, type)]
    return [c for c in classes if issubclass(c, DeltaError) and "default_kind" in vars(c) and c is not DeltaError]


def condition_of(kind: type[DeltaError]) -> str:
    """When an error is raised: the first paragraph of its docstring, in one line."""
    text = (kind.__doc__ or "").split("\n\n")[0]
    return " ".join(text.split()).replace("|", "\\|")


def errors() -> str:
    rows = [
        [
            f"`{kind.default_kind}`",
            f"`{kind.__name__}`",
            condition_of(kind),
            str(int(exit_code(kind("")))),
            next_step(kind("")),
        ]
        for kind in sorted(kinds(), key=lambda kind: kind.default_kind)
    ]
    others = [
        ["`ImportError`", str(int(exit_code(ImportError()))), next_step(ImportError())],
        ["`TypeError`", str(int(exit_code(TypeError()))), next_step(TypeError())],
    ]
    codes = [[str(int(code)), code.name.lower().replace("_", " ")] for code in ExitCode]
    by_class: dict[str, set[str]] = {}
    for known in known_conditions():
        by_class.setdefault(known.kind.__name__, set()).add(known.condition)
    conditions = [
        [f"`{name}`", ", ".join(f"`{condition}`" for condition in sorted(names))]
        for name, names in sorted(by_class.items())
    ]
    return f"""# Errors by kind

Every error of deltaplane is a `DeltaError` (`deltaplane.exceptions`). Its attribute `kind` is a
stable name, its message says what was attempted and what to do, and `table`, `version` and `path`
are set where they are known. The command line ends with the exit code, and prints the next step;
with `--json` it prints kind and message as JSON. This page is generated from the classes: do not
edit it.

{table(["kind", "class", "raised when", "exit code", "next step on the command line"], rows)}
`DeltaConcurrentModificationException` and its subclasses have `conflicting_commit`, the winning
commit; run the transaction again. After `StoreUnavailable` a commit may have happened: read the
table's history before you run it again, or write with an application version, which is written
once.

Python's own errors on the command line:

{table(["error", "exit code", "next step"], others)}
## Exit codes

{table(["code", "meaning"], codes)}
## Conditions on Spark

In a session of Spark errors are also those of PySpark, with the condition that delta-spark's users
know (`getCondition()`), where delta-spark has one:

{table(["class", "conditions"], conditions)}"""


def properties_table(prefix: str) -> str:
    rows = [
        [
            f"`{p.key}`",
            p.values,
            "" if p.default is None else f"`{p.default}`".replace("``", ""),
            p.meaning,
        ]
        for p in _native.known_properties()
        if p.key.startswith(prefix)
    ]
    return table(["property", "values", "default", "meaning"], rows)


def properties() -> str:
    return f"""# Table properties

Every property that Delta knows: its allowed values (`DeltaTable.alter.set_table_properties`), its
default, and its meaning. Keys are case-insensitive; unknown keys that begin with `delta.` are
refused. This page is generated from the core's list: do not edit it.

{properties_table("delta.")}
## Properties of deltaplane

Other programs keep them and don't interpret them. The case of their keys matters.

{properties_table("deltaplane.")}"""


def readme(text: str) -> str:
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n{support(measured())}{END}{rest.split(END)[1]}"


def migrating(text: str) -> str:
    """The page with the tables of rules and functions between its marks."""
    head = ["rule", "deltalake", "deltaplane", "write"]
    rules = [(rule.sql, [f"`{rule.name}`", rule.theirs, rule.ours, rule.write]) for rule in RULES.values()]
    functions = [
        [f"`{name}`", "is refused" if function.refused else "has another result", function.write]
        for name, function in FUNCTIONS.items()
    ]
    tables = {
        "rules": table(head, [cells for is_sql, cells in rules if is_sql]),
        "functions": table(["function of DataFusion", "in deltaplane", "write"], functions),
        "calls": table(head, [cells for is_sql, cells in rules if not is_sql]),
    }
    for name, made in tables.items():
        begin, end = f"<!-- {name}: begin (docs/generate.py) -->\n", f"<!-- {name}: end -->"
        before, rest = text.split(begin)
        text = f"{before}{begin}{made}{end}{rest.split(end)[1]}"
    return text


def pages() -> dict[Path, str]:
    """Each generated page with its text."""
    about, moving = ROOT / "README.md", ROOT / "docs" / "migrating-from-deltalake.md"
    return {
        ROOT / "docs" / "compatibility.md": compatibility(),
        ROOT / "docs" / "properties.md": properties(),
        ROOT / "docs" / "reference" / "errors.md": errors(),
        about: readme(about.read_text(encoding="utf-8")),
        moving: migrating(moving.read_text(encoding="utf-8")),
    }


def main() -> int:
    old = [path for path, text in pages().items() if not path.is_file() or path.read_text(encoding="utf-8") != text]
    if "--check" in sys.argv[1:]:
        for path in old:
            print(f"{path.relative_to(ROOT)} is out of date: run docs/generate.py")
        return 1 if old else 0
    for path in old:
        path.write_text(pages()[path], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
