"""Writes docs/which-spark.md from docs/sparks.json: what worked on each version of Spark, as
`make record-sparks` recorded it.

`--check` only reports whether the page is up to date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RECORD = ROOT / "docs" / "sparks.json"
PAGE = ROOT / "docs" / "which-spark.md"

HEAD = """# Which Spark?

`deltaplane.spark` works with PySpark 3.5 to 4.3. One Spark that already runs is a good reason to
stay with it: tables are the same on each. For a new program take the newest one.

| Spark | Java | what to know |
| --- | --- | --- |
| before 3.5 | | `deltaplane.spark` is refused by name; `DeltaTable` and `deltaplane.sql` need no Spark |
| 3.5 | 8, 11 or 17 | formats need `enable`; ANSI mode is off by default; no VARIANT, SQL scripts, `mergeInto`; Scala 2.12 |
| 4.0 | 17 or newer | SQL scripts need `spark.sql.scripting.enabled` and have no handlers; `''` within a text ends it and begins another |
| 4.1 to 4.3 | 17 or newer | the environment of development has 4.2; from 4.3 on Spark itself reads `t@v3` as a version |

On Spark 3.5 all tests of Spark passed in one run with Java 8, and in several with 17; those of
reading and writing passed with 11.

PySpark's conversions use pandas, which the extra `spark` keeps below 3.

## What works where

`make record-sparks` tries these rows, functions of `tests/spark_versions/features.py` that assert
their results. *From Spark …* means that this Spark lacks what the feature needs, and that the error
of the attempt says so: the record fails if the feature works, or fails in another way.
A Spark without a column isn't recorded yet. `make test-sparks` runs all tests of Spark on 3.5,
4.0, 4.1 and 4.3, `make test` on 4.2.
"""

FOOT = """
## What older Sparks lack

- **Columns of type void** (before 4.1): Spark's Parquet reader doesn't have the type, so that a
  table with such a column is refused until a value gives the column a type.
- **Widened columns** (before 4.0): Spark's Parquet reader doesn't convert the values of older
  files, so that a table with such a column is refused, unless it was widened among byte, short and
  integer.
- **The format by itself** (before 4.0): PySpark has no data sources in Python. `enable` provides
  the formats `delta` and `deltaplane` to a classic session; Spark Connect needs PySpark 4.
- **Expressions that fail** (before 4.0): `spark.sql.ansi.enabled` is off by default, so that a
  division by zero in a MERGE, UPDATE or write is NULL, as in the session's queries.
- **Streams of the change feed** (before 4.2): a batch reads the feed on each Spark.
- **A stream whose sink is the format by itself** (before 4.1), and **one whose source is** (before
  4.2): streams of an enabled session, `read_stream` and `write_stream` work on each.
- **Joins whose condition names `_metadata`** (before 4.1): `join` fails with a ClassCastException;
  select the field first.

## The next Spark

Spark's internal classes have no promise, so that a version is supported once all tests of Spark
pass on it, not before.

1. A release candidate gets a file of its own in `requirements`, and `make test-sparks SPARKS=…`
   runs the tests on it.
2. Classes that moved are lines of `spark_versions.py`; what differs more is a Java class of a
   generation (`jvm/java/spark3`, `jvm/java/spark4`).
3. `make record-sparks` adds its column here, and the bound of the extra `spark` moves.
4. A version leaves a year after the Spark project has ended it; the changelog says so one minor
   version ahead.
"""


READ = """## Tables of each, read by each

One table with partitions, column mapping, deletion vectors, decimals, timestamps and nested columns
was written by the statements CREATE, INSERT, DELETE, UPDATE, MERGE and ALTER on each of these
Sparks. {readers} read equal rows from all of them.
"""


def page() -> str:
    """The page."""
    record: dict[str, Any] = json.loads(RECORD.read_text(encoding="utf-8"))
    sparks = record["sparks"]
    versions = [spark["spark"] for spark in sparks]
    lines = [["feature", *versions], ["---"] * (len(versions) + 1)]
    lines += [[name, *(spark["features"][name] for spark in sparks)] for name in sparks[0]["features"]]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
    read = [READ.format(readers=_readers(record))] if record["tables_read_by"] else []
    return "\n".join([HEAD, table, *read, FOOT.lstrip()])


def _readers(record: dict[str, Any]) -> str:
    """The engines that read the tables of each Spark."""
    of_deltaplane = [reader for reader in record["tables_read_by"] if reader != "delta-spark"]
    return f"deltaplane on Spark {', '.join(of_deltaplane)},\nand delta-spark 3.3.2 on Spark 3.5,"


def main() -> int:
    """Writes or checks the page."""
    if "--check" in sys.argv[1:]:
        old = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page()
        if old:
            print(f"{PAGE.relative_to(ROOT)} is out of date: run docs/generate_sparks.py")
        return int(old)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
