"""One text is one place for delta-spark over Hadoop's file systems and for deltaplane, with Spark
and without it: locations, and paths in logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from interop.jars import delta_jars
from stores.on_spark.driving import run_driver
from stores.on_spark.hadoop_aws import hadoop_aws_jars, hadoops
from stores.servers import versitygw

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

# Characters that URIs escape, texts that look escaped, and Unicode.
NAMES = ["a%20b", "a b", "a+b", "a#b", "a?b", "a%2Fb", "a%b", "a%25b", "é", "a&b=c", "a[b]{c}^|", "a:b", "a'b,c;d@e!"]
CLONED = ["a%20b", "a b", "é"]


def test_a_text_is_one_place_for_hadoop_and_deltaplane(tmp_path: Path) -> None:
    with versitygw(tmp_path) as server:
        bucket = server.new_bucket()
        settings = {
            **hadoops(server.options),
            "spark.driver.extraClassPath": ":".join(map(str, [*hadoop_aws_jars(), *delta_jars()])),
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
            "spark.sql.shuffle.partitions": "1",
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.warehouse.dir": str(tmp_path / "warehouse"),
        }
        asked = {
            "settings": settings,
            "options": server.options,
            "bucket": bucket.replace("s3://", "s3a://"),
            "folder": str(tmp_path / "local"),
            "names": NAMES,
            "cloned": CLONED,
        }
        results, _ = run_driver("stores.on_spark.keys_driver", asked, tmp_path, 800)
        keys = _keys(server.options, bucket.removeprefix("s3://"))
    for number, name in enumerate(NAMES):
        rows = [[1, name], [2, name], [3, name]]
        expected = {"delta-spark": rows, "deltaplane on Spark": rows, "deltaplane": rows, "by its URI": 2}
        assert results["s3a"][name] == expected, name
        assert results["file"][name] == expected, name
        # The key is the text, for the log and for the directory of the table alike.
        assert f"{number}/{name}/_delta_log/00000000000000000002.json" in keys
        assert [path.name for path in (tmp_path / "local" / str(number)).iterdir()] == [name]
    for name in CLONED:
        assert results["clones"][name] == {"deltaplane": [1, 2, 3], "delta-spark": [1, 2, 3]}, name


def _keys(options: dict[str, str], bucket: str) -> set[str]:
    import boto3

    client = boto3.client(
        "s3",
        endpoint_url=options["AWS_ENDPOINT_URL"],
        aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        region_name="us-east-1",
    )
    pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return {item["Key"] for page in pages for item in page.get("Contents", [])}
