"""Reading on Spark: whole tables, selective queries, and planning over many files, compared with
plain Parquet and delta-spark.

All read the same files. Rows are read through an existing frame; selective queries also open their
table. Planning measures Spark up to a query's tasks, over logs without data files. There plain
Parquet is the limit: a folder with only the matching files, and a known schema.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.changed_tables import table_of
from support.harness import Case, Task, main, scale_of
from support.logs import Log
from support.planners import Query, by_day, by_id
from support.rows import AMOUNT_LIMIT, ROWS
from support.sparks import ENGINES, NAMES, Engine, checksum, contestants, session, task

# A JVM compiles frequently run code: the first calls of a query are slower for every contestant.
CALLS = {"quick": 1, "small": 3, "full": 15}
FILES = {"quick": 1_000, "small": 10_000, "full": 100_000}
WITH_LOGS = ("deltaplane", "delta-spark")


def _summed(frame: Any) -> int:
    """Every row's id, and an amount that statistics don't contain."""
    sums = frame.selectExpr("count(*)", "coalesce(sum(id), 0)", "max(amount)").collect()[0]
    return int(sums[0]) * 1_000_003 + int(sums[1])


def rows(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    spark = session(scratch, engine.settings())

    def opened() -> Any:
        frame = engine.read(spark, case["path"])
        return frame if case["sql"] is None else frame.where(case["sql"])

    frame = opened()

    def all_columns() -> None:
        frame.write.format("noop").mode("overwrite").save()

    if case["takes"] == "all columns":
        return task(all_columns, lambda _: checksum(frame))
    if case["takes"] == "a checksum":
        return task(lambda: checksum(frame))
    return task(lambda: _summed(opened() if case["reopened"] else frame))


def plans(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    """The answer is the number of the query's tasks, which depends on the files' sizes."""
    spark = session(scratch, engine.settings())

    def opened() -> Any:
        if engine.name in WITH_LOGS:
            return engine.read(spark, case["path"])
        return spark.read.schema(case["columns"]).parquet(case["matching"])

    def planned(frame: Any) -> int:
        return int(frame.where(case["sql"])._jdf.queryExecution().toRdd().getNumPartitions())

    if case["reopened"]:
        return task(lambda: planned(opened()))
    frame = opened()
    return task(lambda: planned(frame))


def matching_files(case: Mapping[str, Any], scratch: Path) -> Task:
    """Reads only the files that match the query, and knows their schema: the limit of selective
    queries."""
    from deltaplane import DeltaTable

    table = DeltaTable(case["path"])
    files, columns = table.file_uris(case["sql"]), _columns(table)
    floor = replace(ENGINES["Spark's Parquet"], read=lambda spark, _: spark.read.schema(columns).parquet(*files))
    return rows(floor, case, scratch)


def contestant(engine: Engine, case: Mapping[str, Any], scratch: Path) -> Task:
    return (plans if case["takes"] == "a plan" else rows)(engine, case, scratch)


MATCHING = "Spark's Parquet, matching files"
CONTESTANTS = {**contestants(contestant), MATCHING: matching_files}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--files", type=int, help="files to plan over, instead of the scale's number")


def _with_vectors(scale: str) -> str:
    """The table with one row in a hundred deleted by deletion vectors."""
    from deltaplane import DeltaTable

    table = table_of(scale, "vectors")
    path = table.with_name(f"{table.name}-deleted")
    if not path.exists():
        unfinished = path.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(table, unfinished)
        DeltaTable(str(unfinished)).delete("id % 100 = 7")
        unfinished.rename(path)
    return str(path)


def _matching(log: Log, query: Query) -> dict[str, str]:
    """The columns of a log's table, and a folder with empty files of the same sizes as the files
    that match a query."""
    from deltaplane import DeltaTable

    table = DeltaTable(str(log.make()))
    folder = log.path.with_name(f"{log.path.name}-{query.condition.split()[0]}")
    if not folder.exists():
        unfinished = folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        plan = table.plan(query.arguments["sql"]).read_all()
        for path, size in zip(plan["path"].to_pylist(), plan["size_bytes"].to_pylist(), strict=True):
            file = unfinished / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            os.truncate(file, size)
        unfinished.rename(folder)
    return {"columns": _columns(table), "matching": str(folder)}


def _columns(table: Any) -> str:
    """A table's columns, all of them of primitive types, in SQL."""
    return ", ".join(f"`{field.name}` {field.type.type}" for field in table.schema().fields)


def cases(options: argparse.Namespace) -> list[Case]:
    scale = scale_of(options)
    count = ROWS[scale]
    calls = CALLS[scale]
    clustered = f"id BETWEEN {count // 2} AND {count // 2 + count // 100 - 1}"
    queries: list[tuple[str, str, str | None, str, bool]] = [
        ("all columns", "all columns", None, "full", False),
        ("two columns", "sums", None, "full", False),
        ("1 % by amount", "sums", f"amount > {0.99 * AMOUNT_LIMIT}", "", False),
        ("1 % by id", "sums", clustered, "selective", False),
        ("1 % by id, opened again", "sums", clustered, "selective", True),
        ("one row, opened again", "sums", f"id = {count // 3}", "selective", True),
    ]

    def read(path: Callable[[str], str], takes: str, sql: str | None, reopened: bool) -> dict[str, Any]:
        return {"path": path(scale), "takes": takes, "sql": sql, "reopened": reopened}

    def plain(scale: str) -> str:
        return str(table_of(scale, "copy-on-write"))

    all_cases = [
        Case(
            f"{count:,} rows, {what}",
            [*NAMES, MATCHING] if target == "selective" else NAMES,
            functools.partial(read, plain, takes, sql, reopened),
            calls=calls,
            size=count,
            target=f"spark scan {target}" if target else "",
            together="rows read on Spark",
        )
        for what, takes, sql, target, reopened in queries
    ]
    # delta-spark refuses to write a frame with deletion vectors to `noop`, since it looks for the
    # query of its snapshot.
    for what, takes in (("all columns hashed", "a checksum"), ("two columns", "sums")):
        all_cases.append(
            Case(
                f"{count:,} rows, {what}, with deletion vectors",
                WITH_LOGS,
                functools.partial(read, _with_vectors, takes, None, False),
                calls=calls,
                size=count,
                target="spark scan vectors",
                together="rows with deletion vectors read on Spark",
            )
        )
    files = options.files or FILES[scale]
    log = Log(files, "own")

    def plan(query: Query, reopened: bool) -> dict[str, Any]:
        return {
            **log.arguments()(),
            **_matching(log, query),
            "sql": query.arguments["sql"],
            "takes": "a plan",
            "reopened": reopened,
        }

    for query in (by_day(log), by_id(log)):
        for reopened in (True, False):
            all_cases.append(
                Case(
                    f"plan, {log.name}, {query.condition}{', opened again' if reopened else ''}",
                    NAMES,
                    functools.partial(plan, query, reopened),
                    calls=calls,
                    size=files,
                    target=f"spark plan {'reopened' if reopened else 'opened'}",
                    together="planned on Spark",
                )
            )
    return all_cases


if __name__ == "__main__":
    main("spark scan", CONTESTANTS, cases, arguments)
