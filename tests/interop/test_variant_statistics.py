"""Bounds inside variants (P169): both write the same if delta-spark is configured to, and read each
other's tables."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow.compute as pc

from deltaplane import DeltaTable, Field, Schema, write_deltalake
from interop.delta_spark import DeltaSpark
from interop.variant_bounds import bounds
from interop.verifier import verify

# delta-spark 4.4.0 writes none by default.
_ASKED = {
    "spark.databricks.delta.variantShredding.parseFooterForStats": "true",
    "spark.databricks.delta.stats.limitPerVariant": "100",
}
_ROWS = """
    SELECT id AS i, CASE WHEN id % 10 = 8 THEN NULL WHEN id % 10 = 9 THEN parse_json('"text"') ELSE
        to_variant_object(named_struct(
            'n', id - 1000, 'd', CAST(id AS DECIMAL(12, 3)), 'big', CAST(id AS DECIMAL(30, 5)), 'x', id / 7,
            's', concat(repeat('é', 40), id), 'day', date_add(DATE'1969-12-31', CAST(id AS INT)), 'b', id % 2 = 0,
            'at', timestamp_micros(id * 1000003 - 5000000), 'ntz', timestamp_ntz'0001-01-01 00:00:00.000001',
            'o', named_struct('p', id, 'it''s', 'q'), 'list', array(id), 'mixed', parse_json(IF(id % 2 = 0, '1', '"1"'))))
        END AS v FROM range({first}, {last})"""


def test_both_write_the_same_bounds(delta_spark: DeltaSpark, tmp_table: Callable[[], str]) -> None:
    # P169
    plain, theirs, ours = (tmp_table() for _ in range(3))
    delta_spark.sql(f"CREATE TABLE delta.`{plain}` (i BIGINT, v VARIANT) USING delta")
    delta_spark.sql(f"INSERT INTO delta.`{plain}` {_ROWS.format(first=0, last=60)}")
    shredding = {"delta.enableVariantShredding": "true"}
    delta_spark.sql(
        f"CREATE TABLE delta.`{theirs}` (i BIGINT, v VARIANT) USING delta "
        "TBLPROPERTIES ('delta.enableVariantShredding' = 'true')"
    )
    # delta-spark shreds only columns of objects.
    objects = f"SELECT /*+ COALESCE(1) */ * FROM delta.`{plain}` WHERE i % 10 <> 9"
    with delta_spark.settings(_ASKED):
        delta_spark.sql(f"INSERT INTO delta.`{theirs}` {objects}")
    rows = DeltaTable(plain).to_pyarrow_table()
    DeltaTable.create(ours, Schema([Field("i", "long"), Field("v", "variant")]), configuration=shredding)
    write_deltalake(ours, rows, mode="append")
    ((nulls, low, high),) = bounds(ours)
    ((_, their_low, their_high),) = bounds(theirs)
    assert nulls == 6
    assert set(low) == {f"$['{n}']" for n in ("n", "d", "big", "x", "s", "day", "at", "ntz")} | {
        "$['o']['p']",
        "$['o']['it\\'s']",
    }
    assert (low["$['n']"], low["$['s']"], high["$['n']"]) == (-1000, "é" * 32, -943)
    assert (low, high) == (their_low, their_high)
    verify(ours)

    # A second file beyond the first one's bounds: a reader that skips by the bounds must find the
    # same rows.
    delta_spark.sql(f"INSERT INTO delta.`{plain}` {_ROWS.format(first=1000, last=1060)}")
    added = DeltaTable(plain).to_pyarrow_table()
    write_deltalake(ours, added.filter(pc.greater(added["i"], 999)), mode="append")
    conditions = [
        "variant_get(v, '$.n', 'long') > -500",
        "variant_get(v, '$.n', 'long') < -950",
        "variant_get(v, '$.s', 'string') IS NOT NULL",
        "variant_get(v, '$.o.p', 'int') = 1007",
        "try_variant_get(v, '$.x', 'double') >= 100.0D",
        "v IS NULL",
    ]
    with delta_spark.settings({"spark.sql.codegen.factoryMode": "FALLBACK"}):
        expected = delta_spark.counts(plain, conditions)
        assert 0 < expected[0] < 120
        assert delta_spark.counts_skipping(ours, conditions) == expected
        # delta-spark's checkpoint contains deltaplane's bounds and the reverse; both engines read
        # both.
        delta_spark.checkpoint(ours)
        assert delta_spark.counts_skipping(ours, conditions) == expected
    assert DeltaTable(ours).to_pyarrow_table().num_rows == 120
    DeltaTable(theirs).create_checkpoint()
    write_deltalake(theirs, rows, mode="append")
    DeltaTable(ours).delete("i = 1001")
    DeltaTable(ours).create_checkpoint()
    assert delta_spark.counts(ours, ["true"]) == [119]
    assert delta_spark.counts(theirs, ["true"]) == [114]
    verify(ours)
    verify(theirs)
