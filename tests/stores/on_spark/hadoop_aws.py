"""The jars by which Spark reads and writes S3: hadoop-aws of PySpark's Hadoop, and the parts of the
AWS library that it uses, 13 MB in place of the 686 MB of `bundle`.

What they need beyond these (Netty, Apache's HTTP client, SLF4J) pyspark ships.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pinned_jars import PinnedJars

JARS = PinnedJars(Path(__file__).parents[1] / "pinned" / "hadoop-aws.sha256")


def pinned() -> dict[str, tuple[str, str]]:
    """Each jar's file name → its address and SHA-256."""
    return JARS.addresses()


def hadoop_aws_jars() -> list[Path]:
    """The jars for `spark.driver.extraClassPath`; raises FileNotFoundError with the command to run
    if they are missing."""
    return JARS.paths()


def address(endpoint: str) -> dict[str, str]:
    """An endpoint as Hadoop's settings: without a scheme, as Hadoop's page writes it."""
    return {
        "spark.hadoop.fs.s3a.endpoint": endpoint.removeprefix("http://"),
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }


def hadoops(options: Mapping[str, str]) -> dict[str, str]:
    """A store's options as Hadoop's settings."""
    return {
        **address(options["AWS_ENDPOINT_URL"]),
        "spark.hadoop.fs.s3a.access.key": options["AWS_ACCESS_KEY_ID"],
        "spark.hadoop.fs.s3a.secret.key": options["AWS_SECRET_ACCESS_KEY"],
    }
