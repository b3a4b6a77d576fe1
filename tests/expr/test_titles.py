"""Unnamed columns of queries have Spark's names, for each expression that both engines evaluate."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane.expr.types import of_json
from deltaplane.queries.grammar import Grammar
from deltaplane.queries.plan import Column
from deltaplane.queries.rules import Text, title
from deltaplane.queries.syntax import Item, Select
from deltaplane.schema import Schema
from expr import cases, rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AT_ONCE = 200
# The text alone doesn't tell Spark's name of these.
UNKNOWN = ("array_sort(a", "filter(ad, x -> x > 0.0)", "negative(", "position(c in t1)", "struct(named_struct(")


def names_by_spark(spark: SparkSession, expressions: list[str]) -> dict[str, str]:
    """Spark's name of each expression; those that it refuses are left out."""
    from pyspark.errors import PySparkException

    names: dict[str, str] = {}
    waiting = [expressions[i : i + AT_ONCE] for i in range(0, len(expressions), AT_ONCE)]
    while waiting:
        part = waiting.pop()
        try:
            columns = spark.sql(f"SELECT {', '.join(part)} FROM titled").columns
        except PySparkException:
            if len(part) > 1:
                waiting += [part[: len(part) // 2], part[len(part) // 2 :]]
            continue
        names.update(zip(part, columns, strict=True))
    return names


def name(expression: str, columns: list[Column]) -> str:
    body = Grammar(f"SELECT {expression}").query().body
    assert isinstance(body, Select)
    (item,) = body.items
    assert isinstance(item, Item)
    return title(item, {}, columns)


@pytest.mark.spark
def test_names_are_those_of_spark(spark: SparkSession) -> None:
    table = rows.table(1)
    frame = spark.createDataFrame(table)
    # Spark treats all Arrow times as instants.
    clocks = [f.name for f in table.schema if pa.types.is_timestamp(f.type) and f.type.tz is None]
    frame.withColumns({c: frame[c].cast("timestamp_ntz") for c in clocks}).createOrReplaceTempView("titled")
    fields = json.loads(Schema.from_arrow(table.schema).to_json())["fields"]
    columns = [Column(f["name"], f["name"], of_json(f["type"]), ("titled",)) for f in fields]
    theirs = names_by_spark(spark, list(dict.fromkeys([*cases.EXPRESSIONS, *cases.casts()])))
    assert len(theirs) > 1700
    ours = {text: name(text, columns) for text in theirs}
    known = {text: made for text, made in ours.items() if not isinstance(made, Text)}
    assert {text: (made, theirs[text]) for text, made in known.items() if made != theirs[text]} == {}
    assert [text for text in ours if text not in known and not text.startswith(UNKNOWN)] == []
    spark.catalog.dropTempView("titled")
