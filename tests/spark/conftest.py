"""Fixtures that the Spark tests share, besides the session in tests/conftest.py."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from sparks import is_at_least

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A table's path with characters that need escaping: a space, a percent sign, a letter beyond
    ASCII."""
    return str(tmp_path / "a täble %20")


@pytest.fixture
def in_new_york(spark: SparkSession) -> Iterator[None]:
    """The session's time zone, far from UTC and with daylight saving time."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    yield
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture
def conf(spark: SparkSession) -> Iterator[dict[str, str]]:
    """Session settings, restored after the test."""
    settings: dict[str, str] = {}

    class Settings(dict[str, str]):
        def __setitem__(self, key: str, value: str) -> None:
            settings[key] = value
            spark.conf.set(key, value)

    yield Settings()
    for key in settings:
        spark.conf.unset(key)


@pytest.fixture
def enabled(spark: SparkSession) -> Iterator[SparkSession]:
    """The session with `enable` applied during the test."""
    from deltaplane import spark as dp

    dp.enable(spark)
    yield spark
    dp.disable(spark)


@pytest.fixture
def ansi(conf: dict[str, str]) -> None:
    """Expressions that fail instead of returning NULL, as they do by default from Spark 4.0 on."""
    conf["spark.sql.ansi.enabled"] = "true"


@pytest.fixture
def sources(spark: SparkSession) -> Iterator[None]:
    """The format `deltaplane` during the test: PySpark's data source, or, on PySpark 3.5, which has
    none in Python, the one of `enable`."""
    from deltaplane import spark as dp

    if not is_at_least("4.0"):
        dp.enable(spark)
    yield
    if not is_at_least("4.0"):
        dp.disable(spark)


@pytest.fixture
def name(spark: SparkSession) -> Iterator[str]:
    """A table name that is free before and after the test; dropping the table keeps its files."""
    name = f"familiar_{uuid.uuid4().hex}"
    yield name
    spark.sql(f"DROP TABLE IF EXISTS default.{name}")
