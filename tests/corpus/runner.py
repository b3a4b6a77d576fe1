"""Runs deltaplane over one table of the corpus and compares with what the reference engine read:
rows of each version, change feeds, conditions, and facts of the snapshot. Where a table mustn't be
read, an exception is right and a panic is not.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from corpus import reader
from corpus.comparing import compare

Json = dict[str, Any]
# A check's name, and what it found to be wrong.
Check = tuple[str, str]
_FEED_ONLY = "_commit_timestamp"
_UNORDERED = ("reader_features", "writer_features", "active_files")
_SCHEMA_FACTS = ("schema", "partition_columns", "min_reader_version", "min_writer_version")


def run_case(case: Path) -> list[Check]:
    """Every check of a case that has any; those that pass have an empty text."""
    expected = json.loads((case / "expected.json").read_text(encoding="utf-8"))
    if expected["outcome"] == "skip":
        return []
    if "materialise" not in expected:
        return list(_checks(case, case / "table", expected))
    with tempfile.TemporaryDirectory() as folder:
        # Its log has absolute paths: a copy gets its own.
        table = Path(folder) / case.name
        shutil.copytree(case / "table", table)
        for commit in (table / "_delta_log").glob("*.json"):
            commit.write_text(_placed(commit.read_text(encoding="utf-8"), table), encoding="utf-8")
        return list(_checks(case, table, json.loads(_placed(json.dumps(expected), table))))


def _placed(text: str, table: Path) -> str:
    return text.replace("{{TABLE_URI}}", f"file:{table}").replace("{{TABLE_PATH}}", str(table))


def _checks(case: Path, table: Path, expected: Json) -> Iterator[Check]:
    path, versions, newest = str(table), expected.get("versions", {}), expected.get("latest_version")
    of_newest = versions.get(str(newest)) or {"outcome": expected["outcome"], "error": expected.get("error", {})}
    yield from _rows("latest", case, of_newest, lambda: reader.read(path, None))
    for version, wanted in versions.items():
        yield from _rows(f"v{version}", case, wanted, lambda v=int(version): reader.read(path, v))
    for feed in expected.get("cdf", []):
        start, end = feed["start"], feed["end"]
        yield from _rows(f"cdf {start}-{end}", case, feed, lambda a=start, b=end: reader.cdf(path, a, b))
    for predicate in expected.get("predicates", []):
        yield f"where {predicate['sql']}", _counted(path, predicate)
    if expected.get("schema"):
        yield "meta", _facts(path, None, {**expected, "version": newest})
        for version, wanted in versions.items():
            if wanted["outcome"] == "ok" and int(version) != newest:
                facts = {**{key: expected[key] for key in _SCHEMA_FACTS}, **wanted, "version": int(version)}
                known = {*_SCHEMA_FACTS, "version", "num_active_files"}
                yield f"meta v{version}", _facts(path, int(version), {k: v for k, v in facts.items() if k in known})


def _rows(name: str, case: Path, wanted: Json, read: Callable[[], pa.Table]) -> Iterator[Check]:
    if wanted["outcome"] == "skip":
        return
    rows, error = _attempt(read)
    if wanted["outcome"] == "error":
        kind = wanted.get("error", {}).get("kind", "?")
        yield name, f"no error, expected one ({kind})" if error is None else _panic(error)
    elif error is not None:
        yield name, _short(error)
    else:
        rows = rows.drop_columns([column for column in rows.column_names if column == _FEED_ONLY])
        yield name, compare(rows, pq.ParquetFile(case / wanted["data"]).read())


def _counted(path: str, predicate: Json) -> str:
    rows, error = _attempt(lambda: reader.where(path, predicate["sql"]))
    if error is not None:
        return _short(error)
    return "" if rows.num_rows == predicate["num_rows"] else f"{rows.num_rows} rows, expected {predicate['num_rows']}"


def _facts(path: str, version: int | None, expected: Json) -> str:
    facts, error = _attempt(lambda: reader.meta(path, version))
    if error is not None:
        return _short(error)
    wrong = []
    for key in facts.keys() & expected.keys():
        own, wanted = (sorted(side[key] or []) if key in _UNORDERED else side[key] for side in (facts, expected))
        if own != wanted:
            wrong.append(f"{key}: {str(own)[:120]} (expected {str(wanted)[:120]})")
    return "; ".join(sorted(wrong))


def _attempt(read: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    try:
        return read(), None
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as e:  # noqa: BLE001 - a panic of the core is no Exception
        return None, e


def _panic(error: BaseException) -> str:
    return "" if isinstance(error, Exception) else f"crashed: {_short(error)}"


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]
