"""One Spark session for the whole run: a start costs ten seconds and more."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores and up to four attempts at each task."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from deltaplane import spark as dp

    scratch = tmp_path_factory.mktemp("spark")
    conf: dict[str, Any] = {
        "spark__sql__shuffle__partitions": 2,
        "spark__driver__memory": "2g",
        "spark__local__dir": scratch,
        "spark__sql__warehouse__dir": scratch / "warehouse",
        "spark__ui__showConsoleProgress": "false",
    }
    session = dp.session("deltaplane tests", master="local[2,4]", **conf)
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table's path that asks for care: a space, a percent sign, a letter beyond ASCII."""
    return str(tmp_path / "a täble %20")


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[None]:
    """The session's time zone, far from UTC and with daylight saving time."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)
