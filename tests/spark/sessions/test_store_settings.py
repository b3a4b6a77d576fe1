"""The options for stores in Spark sessions: which session's settings apply, and when a warning says
that Spark itself may go on with others."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from deltaplane import spark as dp
from deltaplane.exceptions import StoreUnavailableError
from deltaplane.io import session_options
from deltaplane.spark.scan.file_systems import warn_of_shared_settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SETTING = "spark.deltaplane.storage.timeout"
TABLE = "s3a://lake/t"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """The option `timeout` of every store that is opened; opening ends with an error."""
    seen: list[str | None] = []
    original = session_options.merged

    def merged(location: str, options: Mapping[str, str]) -> dict[str, str]:
        result = original(location, options)
        seen.append(result.get("timeout"))
        raise StoreUnavailableError("not opened here")

    monkeypatch.setattr(session_options, "merged", merged)
    return seen


@pytest.fixture
def sessions(spark: SparkSession) -> Iterator[tuple[SparkSession, SparkSession]]:
    """The active session and another one, with different options."""
    other = spark.newSession()
    spark.conf.set(SETTING, "1s")
    other.conf.set(SETTING, "2s")
    yield spark, other
    spark.conf.unset(SETTING)


CALLS: dict[str, Callable[[Any], Any]] = {
    "read": lambda spark: dp.read(spark, TABLE),
    "read_changes": lambda spark: dp.read_changes(spark, TABLE, 0),
    "plan": lambda spark: dp.plan(spark, TABLE),
    "write": lambda spark: dp.write(spark.range(1), TABLE),
    "read_stream": lambda spark: dp.read_stream(spark, TABLE),
    "create_or_replace_temp_view": lambda spark: dp.create_or_replace_temp_view(spark, "never", TABLE),
    "sql": lambda spark: dp.sql(spark, f"DELETE FROM delta.`{TABLE}` WHERE id = 1"),
    "DeltaTable.forPath": lambda spark: dp.DeltaTable.forPath(spark, TABLE),
    "DeltaTable.isDeltaTable": lambda spark: dp.DeltaTable.isDeltaTable(spark, TABLE),
    "DeltaTable.delete": lambda spark: dp.DeltaTable(spark, TABLE).delete("id = 1"),
    "DeltaTable.optimize": lambda spark: dp.DeltaTable(spark, TABLE).optimize().executeCompaction(),
}


@pytest.mark.parametrize("name", CALLS)
def test_the_session_of_a_call_decides(
    name: str, sessions: tuple[SparkSession, SparkSession], asked: list[str | None]
) -> None:
    for session, timeout in zip(sessions, ("1s", "2s"), strict=True):
        asked.clear()
        with pytest.raises(StoreUnavailableError):
            CALLS[name](session)
        assert asked
        assert set(asked) == {timeout}


ENABLED_CALLS: dict[str, Callable[[Any], Any]] = {
    "load": lambda spark: spark.read.format("delta").load(TABLE).count(),
    "save": lambda spark: spark.range(1).write.format("delta").mode("append").save(TABLE),
    "writeTo": lambda spark: spark.range(1).writeTo(f"delta.`{TABLE}`").append(),
    "sql": lambda spark: spark.sql(f"DELETE FROM delta.`{TABLE}`"),
}


@pytest.mark.parametrize("name", ENABLED_CALLS)
def test_an_enabled_session_decides_for_its_own_statements(
    name: str, sessions: tuple[SparkSession, SparkSession], asked: list[str | None]
) -> None:
    for session, timeout in zip(sessions, ("1s", "2s"), strict=True):
        dp.enable(session)
        try:
            asked.clear()
            with pytest.raises(StoreUnavailableError):
                ENABLED_CALLS[name](session)
            assert set(asked) == {timeout}
        finally:
            dp.disable(session)


def test_a_new_session_of_an_enabled_one_has_its_own_options(spark: SparkSession, asked: list[str | None]) -> None:
    dp.enable(spark, options={"timeout": "3s"})
    try:
        made = spark.newSession()
        for session, timeout in ((spark, "3s"), (made, None)):
            asked.clear()
            with pytest.raises(StoreUnavailableError):
                session.read.format("delta").load(TABLE)
            assert set(asked) == {timeout}
        dp.enable(made, options={"timeout": "4s"})
        asked.clear()
        with pytest.raises(StoreUnavailableError):
            made.read.format("delta").load(TABLE)
        assert set(asked) == {"4s"}
    finally:
        dp.disable(spark)


def test_options_of_a_statement_precede_those_of_its_session(
    sessions: tuple[SparkSession, SparkSession], asked: list[str | None]
) -> None:
    for text in (f"SELECT * FROM delta.`{TABLE}`", f"UPDATE delta.`{TABLE}` SET id = 1"):
        asked.clear()
        with pytest.raises(StoreUnavailableError):
            dp.sql(sessions[1], text, storage_options={"timeout": "5s"})
        assert set(asked) == {"5s"}


def test_settings_that_spark_may_not_see_any_more_are_warned_of(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    spark.conf.set("fs.s3a.endpoint.region", "eu-north-1")
    try:
        with caplog.at_level(logging.WARNING, logger="deltaplane"):
            warn_of_shared_settings(spark, TABLE, {"fs.s3a.endpoint.region": "eu-north-1", "fs.defaultFS": "file:///"})
            assert caplog.text == ""
            warn_of_shared_settings(
                spark, TABLE, {"fs.s3a.endpoint.region": "eu-west-1", "fs.s3a.secret.key": "hidden"}
            )
    finally:
        spark.conf.unset("fs.s3a.endpoint.region")
    assert "fs.s3a.endpoint.region, fs.s3a.secret.key differ from the session's settings for s3a://lake" in caplog.text
    assert "hidden" not in caplog.text


def test_paths_of_spark_are_literal(spark: SparkSession, tmp_path: Path) -> None:
    for number, name in enumerate(("a%20b", "a b", "a#b", "100%")):
        place = tmp_path / str(number) / name
        dp.write(spark.range(2), f"file:{place}")
        dp.write(spark.range(2, 3), f"file://{place}")
        assert dp.read(spark, str(place)).count() == 3
        assert [path.name for path in place.parent.iterdir()] == [name]


def test_googles_credentials_are_not_those_of_hadoops_defaults(spark: SparkSession) -> None:
    """Hadoop 3.5 sets the machine's identity in its file of defaults, which nobody has chosen; as
    the session's own setting it counts."""
    name, key_file = "fs.gs.auth.type", "fs.gs.auth.service.account.json.keyfile"
    with session_options.in_session(spark):
        assert "allow_instance_metadata" not in session_options.merged("gs://lake/t", {})
        try:
            spark.conf.set(key_file, "/key.json")
            assert session_options.merged("gs://lake/t", {}) == {"google_service_account": "/key.json"}
            spark.conf.unset(key_file)
            spark.conf.set(name, "COMPUTE_ENGINE")
            assert session_options.merged("gs://lake/t", {}) == {"allow_instance_metadata": "true"}
        finally:
            spark.conf.unset(name)
            spark.conf.unset(key_file)
