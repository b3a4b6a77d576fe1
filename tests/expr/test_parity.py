"""Every admitted function, operator and cast has Spark's results, row by row, including errors."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import pytest

import deltaplane.expr.functions  # noqa: F401 - fills the list
from deltaplane.exceptions import InvalidArgumentError, UnsupportedExpressionError
from deltaplane.expr.casts import CASTS
from deltaplane.expr.program import compile_expressions
from deltaplane.expr.registry import ENTRIES
from deltaplane.expr.syntax import called, parse
from deltaplane.schema import Schema
from expr import cases, parity, rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

ADMITTED = 264

# These need the current time, which differs between two engines: `test_program.py` covers them.
_OF_NOW = {"current_timestamp", "now", "current_date", "curdate", "localtimestamp"}
_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


@pytest.fixture
def interpreting(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark at UTC, without code generation: compiling hundreds of expressions for some rows would
    take most of the time."""
    before = {key: spark.conf.get(key, None) for key in _SESSION}
    for key, value in _SESSION.items():
        spark.conf.set(key, value)
    yield spark
    for key, old in before.items():
        spark.conf.unset(key) if old is None else spark.conf.set(key, old)


@functools.cache
def admitted_casts(schema_json: str) -> list[str]:
    texts = []
    for text in cases.casts():
        try:
            compile_expressions([text], schema_json)
            texts.append(text)
        except (InvalidArgumentError, UnsupportedExpressionError):
            continue
    return texts


def test_every_admitted_name_has_a_case_and_the_count_is_known() -> None:
    compared = set().union(*(called(parse(text)) for text in cases.EXPRESSIONS))
    assert set(ENTRIES) - compared == _OF_NOW
    assert len(ENTRIES) == ADMITTED
    assert ADMITTED >= 150


def test_every_admitted_cast_has_a_case() -> None:
    schema = Schema.from_arrow(rows.table(1).schema)
    casts = admitted_casts(schema.to_json())
    program = compile_expressions(casts, schema)
    kinds = {f.name: str(f.type.to_value()).split("(")[0] for f in schema.fields}
    sources = [kinds[text.removeprefix("cast(").split(" ")[0]] for text in casts]
    assert set(CASTS) <= {(a, t.name) for a, t in zip(sources, program.types, strict=True)}


def difference(ours: list[Any], theirs: list[Any] | str, partial: bool) -> str | None:
    if isinstance(theirs, str):
        return f"Spark refuses it: {theirs}"
    for row, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a is parity.FAILED and (b is parity.FAILED or partial):
            continue
        if a is parity.FAILED or b is parity.FAILED or not parity.same(a, b):
            return (
                f"row {row}: {'an error' if a is parity.FAILED else a}, Spark {'an error' if b is parity.FAILED else b}"
            )
    if all(a is parity.FAILED for a in ours):
        return "every row fails"
    return None


def test_what_is_admitted_is_what_spark_gives(interpreting: SparkSession) -> None:
    # P104: expressions that can't be evaluated exactly are refused, so all others must be exact
    table = rows.table()
    schema = Schema.from_arrow(table.schema)
    texts = list(dict.fromkeys(cases.EXPRESSIONS + admitted_casts(schema.to_json())))
    program = compile_expressions(texts, schema)
    ours = parity.by_engine(program, table)
    theirs = parity.by_spark(interpreting, table, texts)
    wrong = {
        text: why
        for text, mine, bound in zip(texts, ours, program.expressions, strict=True)
        if (why := difference(mine, theirs[text], bound.partial))
    }
    assert wrong == {}
    print(
        f"{len(ENTRIES)} functions and operators, {len(CASTS)} casts, {len(texts)} expressions, {table.num_rows} rows"
    )


def test_the_comparison_can_fail() -> None:
    assert difference([1.0, 0.0], [1.0, -0.0], partial=False) == "row 1: 0.0, Spark -0.0"
    assert difference([parity.FAILED, 1], [3, 1], partial=False) == "row 0: an error, Spark 3"
    assert difference([3], [parity.FAILED], partial=True) == "row 0: 3, Spark an error"
    assert difference([1], ["1"], partial=False) == "row 0: 1, Spark 1"
    assert difference([parity.FAILED], [1], partial=True) == "every row fails"
    assert difference([float("nan")], [float("nan")], partial=False) is None
