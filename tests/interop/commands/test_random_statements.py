"""Random statements by Spark without a jar and by delta-spark: after each one, the same refusal or
the same rows and the same schema.

`DELTAPLANE_STATEMENT_SEQUENCES` sets the number of sequences, `DELTAPLANE_STATEMENT_SEED` the first
seed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import DeltaTable
from deltaplane import spark as dp
from interop.commands.outcomes import ours, rows, theirs
from interop.commands.random_statements import random_sequence
from interop.delta_spark import DeltaSpark
from interop.same import assert_same
from interop.verifier import verify

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = int(os.environ.get("DELTAPLANE_STATEMENT_SEED", "0"))
SEQUENCES = int(os.environ.get("DELTAPLANE_STATEMENT_SEQUENCES", "2"))
# Conditions by which deltaplane refuses a statement before it reads rows, and delta-spark only if
# there is a row that the rule concerns.
EARLIER = {"DELTA_CANNOT_MODIFY_APPEND_ONLY", "DELTA_MISSING_NOT_NULL_COLUMN_VALUE"}
# Column metadata that is random, or that depends on how many columns were there before.
OWN_METADATA = ("delta.columnMapping.",)


@pytest.fixture(autouse=True)
def enabled(spark: SparkSession) -> Iterator[None]:
    dp.enable(spark)
    yield
    dp.disable(spark)


def schema(path: str) -> Any:
    """A table's columns with everything but the random parts of their metadata."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items() if not key.startswith(OWN_METADATA)}
        return [plain(item) for item in value] if isinstance(value, list) else value

    return plain(DeltaTable(path).schema().to_value())


def test_random_statements_leave_what_delta_sparks_do(
    spark: SparkSession, delta_spark: DeltaSpark, tmp_table: Callable[[], str]
) -> None:
    compared = refused = 0
    for seed in range(FIRST, FIRST + SEQUENCES):
        mine, other = tmp_table(), tmp_table()
        for number, statement in enumerate(random_sequence(seed).statements):
            where = f"seed {seed}, statement {number}: {statement}"
            actual = ours(spark, statement.replace("{t}", f"delta.`{mine}`"))
            expected = theirs(delta_spark, statement.replace("{t}", f"delta.`{other}`"))
            if (actual in EARLIER and expected is None) or (expected and expected.startswith("INTERNAL_ERROR")):
                break
            assert (actual is None) == (expected is None), f"{where}: {actual} instead of {expected}"
            if expected is not None and number == 0:
                break
            compared, refused = compared + 1, refused + (expected is not None)
            assert schema(mine) == schema(other), where
            try:
                assert_same(rows(mine), rows(other))
            except AssertionError as e:
                raise AssertionError(f"{where}: {e}") from e
        if DeltaTable.is_deltatable(mine):
            verify(mine)
            assert_same(delta_spark.read(mine), delta_spark.read(other))
    # Most sequences reach their fourth statement, and most statements are valid.
    assert compared > 3 * SEQUENCES
    assert refused < compared
