"""The outcome of a statement in two engines: a refusal by its condition, or the table's rows."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from deltaplane import DeltaTable
from deltaplane.spark.jvm.schema import LENGTHS
from interop.delta_spark import DeltaSpark, DeltaSparkError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def ours(spark: SparkSession, statement: str) -> str | None:
    """Runs a statement; returns None, or the condition of its refusal."""
    try:
        spark.sql(statement).collect()
    except (PySparkException, Py4JJavaError) as e:
        return str(getattr(e, "getCondition", lambda: None)() or e)
    return None


def theirs(delta_spark: DeltaSpark, statement: str) -> str | None:
    """As `ours` by delta-spark; an error without a condition is its text."""
    try:
        delta_spark.execute(statement)
    except DeltaSparkError as e:
        named = re.search(r"\[([A-Z][A-Z_0-9.]*)\]", str(e))
        return named.group(1) if named else str(e)
    return None


def rows(path: str) -> pa.Table:
    """A table's rows. Values of char(n) are padded, as Spark reads them: INSERT BY NAME stores them
    as they are, and a command that writes such a row again pads them, which the engines do to
    different rows."""
    table = DeltaTable(path)
    read = table.to_pyarrow_table()
    for i, field in enumerate(table.schema().fields):
        if length := re.fullmatch(r"char\((\d+)\)", str(field.metadata.get(LENGTHS, ""))):
            padded = pc.utf8_rpad(read.column(field.name), int(length[1]))
            read = read.set_column(i, field.name, padded)
    return read
