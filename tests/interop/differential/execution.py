"""Runs scenarios on a Spark session and describes what each step did.

The same code runs for both engines, in separate processes. An outcome has no path, no generated
name and no time, so that outcomes of two runs are comparable. Imports no engine except PySpark.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from interop.differential.scenarios import Scenario, Step

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The session's settings that both engines have: few tasks, and times in UTC.
SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
STREAM_SECONDS = 60
# The deepest chain of causes that is followed.
CAUSES = 12
_GENERATED = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_EXPRESSION_IDS = re.compile(r"(?<=\w)#\d+L?")
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\]")
# What PySpark raises for a condition of delta-spark that Spark's own list doesn't have.
_UNLISTED = re.compile(r"\[INTERNAL_ERROR\] Cannot find main error class '([A-Z0-9_]+)")


class Helpers:
    """Functions that steps in Python may call."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._place = place

    def run(self, query: Any) -> None:
        """Waits for a streaming query with the trigger `availableNow`; raises its error."""
        try:
            query.awaitTermination(STREAM_SECONDS)
        finally:
            query.stop()

    def on_day(self, table: str) -> None:
        """Gives the commit of version `n` the time of 2020-01-01 plus `n` days, in the files'
        modification times."""
        for commit in (self._place / table / "_delta_log").glob("*.json"):
            day = 1577836800 + 86400 * int(commit.stem)
            os.utime(commit, (day, day))


def run(spark: SparkSession, scenario: Scenario, place: Path) -> dict[str, Any]:
    """The outcomes of a scenario: `steps`, and `rows` of its tables at the end."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    database = "differential"
    before = {key: spark.conf.get(key, None) for key in {**SETTINGS, **scenario.settings}}
    for key, value in {**SETTINGS, **scenario.settings}.items():
        spark.conf.set(key, value)
    spark.sql(f"CREATE DATABASE {database} LOCATION '{place}'")
    spark.catalog.setCurrentDatabase(database)
    try:
        seen: set[Path] = set()
        steps = [_outcome(spark, step, place, seen) for step in scenario.steps]
        for key in scenario.settings:
            spark.conf.unset(key)
        rows = {table: _rows(spark, table) for table in scenario.tables}
        return {"name": scenario.name, "steps": steps, "rows": rows}
    finally:
        spark.catalog.setCurrentDatabase("default")
        for view in spark.sql("SHOW VIEWS").collect():
            if view.isTemporary:
                spark.catalog.dropTempView(view.viewName)
        spark.sql(f"DROP DATABASE IF EXISTS {database} CASCADE")
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)
        shutil.rmtree(place, ignore_errors=True)


def _outcome(spark: SparkSession, step: Step, place: Path, seen: set[Path]) -> dict[str, Any]:
    text = step.text.replace("{dir}", str(place))
    outcome: dict[str, Any] = {}
    try:
        if step.python:
            helpers = Helpers(spark, place)
            names = {"spark": spark, "F": F, "dir": str(place), "run": helpers.run, "on_day": helpers.on_day}
            result = eval(text, names)  # noqa: S307 - the families' own texts
        else:
            result = spark.sql(text)
        if isinstance(result, DataFrame):
            outcome |= described(result, step.only, place)
    except Exception as e:  # noqa: BLE001 - every error is an outcome
        outcome = {"error": conditions(e), "kind": type(e).__name__, "message": normalized(str(e), place)[:600]}
    outcome["commits"] = list(_commits(place, seen))
    return outcome


def _rows(spark: SparkSession, table: str) -> Any:
    try:
        return described(spark.table(table), (), Path("/"))
    except Exception as e:  # noqa: BLE001 - a table that can't be read is an outcome
        return {"error": conditions(e), "message": str(e)[:300]}


def described(frame: DataFrame, only: tuple[str, ...], place: Path) -> dict[str, Any]:
    """Columns and rows of a result, in any order of rows."""
    if not frame.columns:
        return {"columns": [], "result": []}
    chosen = frame.select(*only) if only else frame
    columns = [f"{field.name} {field.dataType.simpleString()}" for field in chosen.schema.fields]
    # Variants and intervals have no Python value that can be compared.
    rows = [json.dumps(_plain(row), default=str) for row in chosen.collect()]
    return {"columns": columns, "result": sorted(normalized(row, place) for row in rows)}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return sorted(([_plain(k), _plain(v)] for k, v in value.items()), key=str)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return repr(value)
    return bytes(value).hex() if isinstance(value, (bytes, bytearray)) else value


def normalized(text: str, place: Path) -> str:
    """A text without the scenario's directory and without generated names."""
    for prefix in ("file://", "file:", ""):
        text = text.replace(f"{prefix}{place}", "<dir>")
    return _EXPRESSION_IDS.sub("#", _GENERATED.sub("<uuid>", text))


def conditions(error: BaseException) -> list[str]:
    """The conditions of an error and of its causes, outermost first."""
    if unlisted := _UNLISTED.search(str(error)):
        return [unlisted[1]]
    names: list[str] = []
    own = getattr(error, "getCondition", None)
    if own is not None:
        with contextlib.suppress(Exception):
            names.append(own())
    java: Any = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    for _ in range(CAUSES):
        if java is None:
            break
        with contextlib.suppress(Exception):
            names.append(java.getCondition())
        try:
            named = _CONDITION.match(java.getMessage() or "")
            java = java.getCause()
        except Exception:  # noqa: BLE001 - a cause of Python has neither
            break
        names += [named[1]] if named else []
    if named := _CONDITION.search(str(error)):
        names.append(named[1])
    return list(dict.fromkeys(name for name in names if name))


def _commits(place: Path, seen: set[Path]) -> Iterator[dict[str, Any]]:
    """What commits that weren't seen yet say of the table's columns, properties and history."""
    for path in sorted(place.glob("**/_delta_log/*.json")):
        if path in seen or not path.stem.isdigit():
            continue
        seen.add(path)
        facts: dict[str, Any] = {"table": str(path.parent.parent.relative_to(place)), "version": int(path.stem)}
        for line in path.read_text().splitlines():
            action = json.loads(normalized(line, place)) if line else {}
            if info := action.get("commitInfo"):
                facts["operation"] = info.get("operation")
                facts["parameters"] = {k: _parameter(v) for k, v in info.get("operationParameters", {}).items()}
                if "userMetadata" in info:
                    facts["userMetadata"] = info["userMetadata"]
            if metadata := action.get("metaData"):
                facts["schema"] = json.loads(metadata["schemaString"])["fields"]
                facts["partitions"] = metadata.get("partitionColumns", [])
                facts["properties"] = metadata.get("configuration", {})
                facts["description"] = metadata.get("description")
            if protocol := action.get("protocol"):
                features = {*protocol.get("readerFeatures", []), *protocol.get("writerFeatures", [])}
                facts["protocol"] = [protocol["minReaderVersion"], protocol["minWriterVersion"], sorted(features)]
            if (domain := action.get("domainMetadata")) and domain["domain"] != "delta.rowTracking":
                facts.setdefault("domains", []).append([domain["domain"], domain.get("removed")])
            if txn := action.get("txn"):
                facts.setdefault("transactions", []).append([txn["appId"], txn["version"]])
        yield facts


def _parameter(value: Any) -> Any:
    """A parameter's value: JSON within a text is parsed, so that its layout doesn't count."""
    if isinstance(value, str) and value[:1] in ("[", "{"):
        with contextlib.suppress(ValueError):
            return json.loads(value)
    return value if isinstance(value, str) else json.dumps(value)
