"""WITH RECURSIVE: its limits, and the forms that are refused. `queries` has comparisons with
Spark."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaplane import sql
from deltaplane.exceptions import DeltaError, InvalidArgumentError, UnsupportedExpressionError

COUNTING = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t{where}) {query}"


@pytest.mark.parametrize("query", ["SELECT n FROM t", "SELECT count(*) AS c FROM t", "SELECT 1 AS one FROM t"])
def test_a_level_too_many_is_an_error_whatever_is_read_of_it(query: str) -> None:
    assert sql(COUNTING.format(where=" WHERE n < 100", query=query)).to_arrow().num_rows > 0
    with pytest.raises(InvalidArgumentError, match="RECURSION_LEVEL_LIMIT_EXCEEDED"):
        sql(COUNTING.format(where="", query=query)).to_arrow()


def test_too_many_rows_are_an_error() -> None:
    tens = ", ".join(f"({n})" for n in range(10))
    query = f"WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t, VALUES {tens}) SELECT count(*) AS c FROM t"
    with pytest.raises(InvalidArgumentError, match="RECURSION_ROW_LIMIT_EXCEEDED"):
        sql(query).to_arrow()


@pytest.mark.parametrize(
    "step",
    [
        "UNION SELECT n + 1 FROM t WHERE n < 3",
        "UNION ALL SELECT a.n + 1 FROM t a, t b WHERE a.n < 3",
        "UNION ALL SELECT x + 1 FROM (SELECT n AS x FROM t) WHERE x < 3",
        "UNION ALL SELECT DISTINCT n + 1 FROM t WHERE n < 3",
        "UNION ALL SELECT max(n) + 1 FROM t",
        "UNION ALL SELECT s.n FROM s WHERE s.n IN (SELECT n + 1 FROM t)",
        "UNION ALL SELECT t.n + 1 FROM s LEFT JOIN t ON s.n = t.n",
        "UNION ALL SELECT n + 1 FROM t WHERE n < 3 ORDER BY n LIMIT 1",
    ],
)
def test_other_forms_are_refused(step: str) -> None:
    with pytest.raises(UnsupportedExpressionError, match="recursive query"):
        sql(f"WITH RECURSIVE t(n) AS (SELECT 1 {step}) SELECT n FROM t", tables={"s": pa.table({"n": [1]})})


def test_both_parts_have_the_same_types() -> None:
    with pytest.raises(DeltaError, match="the same types"):
        sql("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1L FROM t WHERE n < 3) SELECT n FROM t")
