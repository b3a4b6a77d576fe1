"""Writes while the credentials of a session change, in a JVM of its own. Prints the results as
JSON.

The keys are Java's system properties, which `SystemPropertyCredentialsProvider` reads each time,
or those of a role that a server of STS gives.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from deltaplane import spark as dp
from stores.on_spark.s3a_driver import session


def set_keys(spark: SparkSession, number: int) -> None:
    """The keys of this number, with a token, as Java's system properties."""
    system = spark._jvm.java.lang.System
    for name, value in {"accessKeyId": f"KEY{number}", "secretAccessKey": "test", "sessionToken": "test"}.items():
        system.setProperty(f"aws.{name}", value)


def follow(spark: SparkSession, marks: Path, stop: threading.Event) -> None:
    """Replaces the keys each time that the server asks for it by a file `gone-N`, and answers by
    `renewed-N`."""
    number = 1
    while not stop.wait(0.02):
        if (marks / f"gone-{number}").exists():
            set_keys(spark, number + 1)
            (marks / f"renewed-{number}").touch()
            number += 1


def outcome(run: Callable[[], Any]) -> Any:
    """The result, or the text of the error."""
    try:
        return run()
    except Exception as e:  # noqa: BLE001 - the test judges the text
        return f"{type(e).__name__}: {e}"


def changing(spark: SparkSession, base: str, marks: Path) -> dict[str, Any]:
    """Jobs whose keys end when the first task has put its file."""
    set_keys(spark, 1)
    stop = threading.Event()
    follower = threading.Thread(target=follow, args=(spark, marks, stop))
    follower.start()
    try:
        one_task = dp.write(spark.range(10).repartition(1), f"{base}/t").version
        read = dp.read(spark, f"{base}/t").count()
        two_tasks = outcome(lambda: dp.write(spark.range(10, 20).repartition(2), f"{base}/t", mode="append").version)
        left = dp.read(spark, f"{base}/t").count()
        (marks / "keep").touch()
        again = dp.write(spark.range(10, 20).repartition(2), f"{base}/t", mode="append").version
        return {
            "one task": one_task,
            "read": read,
            "two tasks": two_tasks,
            "left": left,
            "again": again,
            "rows": dp.read(spark, f"{base}/t").count(),
        }
    finally:
        stop.set()
        follower.join()


def assumed(spark: SparkSession, base: str, marks: Path) -> dict[str, Any]:
    """Jobs by a role, before and after its first credential is revoked."""
    first = dp.write(spark.range(10), f"{base}/t").version
    # Until the AWS library asks for another one.
    time.sleep(16)
    (marks / "revoked").touch()
    second = dp.write(spark.range(10, 20), f"{base}/t", mode="append").version
    dp.enable(spark)
    deleted = spark.sql(f"DELETE FROM delta.`{base}/t` WHERE id = 3").collect()[0][0]
    return {
        "versions": [first, second],
        "deleted": int(deleted),
        "rows": spark.read.format("delta").load(f"{base}/t").count(),
    }


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    spark = session(asked["settings"])
    spark.sparkContext.setLogLevel("ERROR")
    if asked["assumed"]:
        results = assumed(spark, asked["base"], Path(asked["marks"]))
    else:
        results = changing(spark, asked["base"], Path(asked["marks"]))
    print("results " + json.dumps(results), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
