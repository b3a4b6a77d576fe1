"""Consent to continue with changed columns: options, session settings, and settings for one
checkpoint location."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane import spark as dp
from deltaplane.spark.datasource.schema_change_consent import Leave, checkpoint_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECONDS = 120
PREFIX = "spark.databricks.delta.streaming."
PLACE = "file:/tmp/query/sources/0"
NUMBER = checkpoint_number(PLACE)
NO_LEAVE = "DELTA_STREAMING_CANNOT_CONTINUE_PROCESSING_POST_SCHEMA_EVOLUTION"
NOTHING: dict[str, list[str]] = {"renamed": [], "dropped": [], "widened": []}


def leave(options: dict[str, str] | None = None, **settings: str) -> Leave:
    settings_given = {PREFIX + name: value for name, value in settings.items()}
    return Leave(options or {}, settings_given.get, lambda: PLACE)


def lacks(consent: Leave, version: int, **steps: list[str]) -> list[str]:
    return [step.option for step in consent.lacking({**NOTHING, **steps}, version)]


# Java's hash codes; the last but one is the smallest integer.
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("", 0),
        ("a", 97),
        ("hello world", 1794106052),
        ("polygenelubricants", -(1 << 31)),
        ("\N{GRINNING FACE}", 0xD83D * 31 + 0xDE00),
    ],
)
def test_the_number_of_a_place_is_java_s(text: str, number: int) -> None:
    assert checkpoint_number(text) == number


@pytest.mark.parametrize("value", ["always", "Always", "7"])
def test_a_setting_for_this_checkpoint(value: str) -> None:
    for name in ("allowSourceColumnRename", "allowSourceColumnRenameAndDrop"):
        consent = leave(**{f"{name}.ckpt_{NUMBER}": value})
        assert lacks(consent, 7, renamed=["a"]) == []
        assert lacks(consent, 8, renamed=["a"]) == ([] if value.lower() == "always" else ["allowSourceColumnRename"])
    consent = leave(**{f"allowSourceColumnTypeChange.ckpt_{NUMBER}": value})
    assert lacks(consent, 7, widened=["a"], dropped=["b"]) == ["allowSourceColumnDrop"]


def test_what_allows_nothing() -> None:
    for settings in (
        {"allowSourceColumnDrop": "7"},
        {"allowSourceColumnDrop": "true"},
        {f"allowSourceColumnDrop.ckpt_{NUMBER + 1}": "always"},
        {f"allowSourceColumnRename.ckpt_{NUMBER}": "always"},
        {f"allowSourceColumnDrop.ckpt_{NUMBER}": "70"},
    ):
        assert lacks(leave(**settings), 7, dropped=["a"]) == ["allowSourceColumnDrop"], settings
    # The RenameAndDrop setting doesn't cover types.
    assert lacks(leave(allowSourceColumnRenameAndDrop="always"), 7, widened=["a"]) == ["allowSourceColumnTypeChange"]


def test_the_place_is_asked_for_only_where_it_matters() -> None:
    asked = []

    def place() -> str:
        asked.append(1)
        return PLACE

    consent = Leave({"allowsourcecolumndrop": "7"}, {PREFIX + "allowSourceColumnRename": "ALWAYS"}.get, place)
    assert lacks(consent, 7, dropped=["a"], renamed=["b"]) == []
    assert not asked
    assert lacks(consent, 8, dropped=["a"]) == ["allowSourceColumnDrop"]
    assert len(asked) == 1


def test_the_ways_are_named_with_their_values() -> None:
    consent = leave()
    both = consent.lacking({**NOTHING, "renamed": ["a"], "dropped": ["b"], "widened": ["c"]}, 7)
    said = consent.ways(both, 7)
    for value in ("7", "always"):
        for name in ("RenameAndDrop", "TypeChange"):
            assert f"SET `{PREFIX}allowSourceColumn{name}.ckpt_{NUMBER}` = {value};" in said
    assert f"SET `{PREFIX}allowSourceColumnRenameAndDrop` = always;" in said
    text = consent.ways(consent.lacking({**NOTHING, "dropped": ["b"]}, 7), 7)
    assert f"SET `{PREFIX}allowSourceColumnDrop.ckpt_{NUMBER}` = 7;" in text
    assert "RenameAndDrop" not in text
    # Without a session only options can be set; without a checkpoint location no setting for it can
    # be named.
    assert "SET" not in Leave({}).ways(both, 7)
    assert "ckpt_" not in Leave({}, {}.get).ways(both, 7)


# --- with Spark ---


def table(path: str) -> None:
    schema = pa.schema({"id": pa.int64(), "a": pa.int64()})
    write_deltalake(path, schema.empty_table(), configuration={"delta.columnMapping.mode": "name"})
    write_deltalake(path, pa.table({"id": [1], "a": [10]}, schema=schema), mode="append")


def run(frame: DataFrame, checkpoint: str) -> None:
    writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    assert writer.trigger(availableNow=True).start().awaitTermination(SECONDS)


@pytest.mark.spark
def test_a_session_allows_one_query(spark: SparkSession, path: str, conf: dict[str, str]) -> None:
    table(path)

    def start(name: str) -> None:
        checkpoint = f"{path}-{name}"
        run(dp.read_stream(spark, path, schemaTrackingLocation=f"{checkpoint}/columns"), checkpoint)

    names = ("first", "second")
    for name in names:
        start(name)
    DeltaTable(path).alter.rename_column("a", "b")
    for name in names:
        with pytest.raises(Exception, match="DELTA_STREAMING_METADATA_EVOLUTION"):
            start(name)
    with pytest.raises(Exception, match=NO_LEAVE) as refused:
        start("first")
    (own,) = set(re.findall(r"SET `(\S+\.ckpt_\S+)` = 2;", str(refused.value)))
    assert own == f"{PREFIX}allowSourceColumnRename.ckpt_{checkpoint_number(f'file:{path}-first/sources/0')}"
    conf[own] = "1"
    with pytest.raises(Exception, match=NO_LEAVE):
        start("first")
    for value in ("2", "always"):
        statement = f"SET `{own}` = {value};"
        assert statement in str(refused.value)
        spark.sql(statement)
        start("first")
        with pytest.raises(Exception, match=NO_LEAVE):
            start("second")


@pytest.mark.spark
@pytest.mark.parametrize("place", ["b", "polygenelubricants"], ids=["98", "below zero"])
def test_statements_of_the_message_run(spark: SparkSession, conf: dict[str, str], place: str) -> None:
    consent = Leave({}, {}.get, lambda: place)
    said = consent.ways(consent.lacking({**NOTHING, "renamed": ["a"]}, 7), 7)
    statements = re.findall("SET [^;]+;", said)
    assert len(statements) == 3
    key = f"{PREFIX}allowSourceColumnRename"
    conf[key] = conf[f"{key}.ckpt_{checkpoint_number(place)}"] = "no"
    for statement in statements:
        spark.sql(statement)
    assert [spark.conf.get(name) for name in (key, f"{key}.ckpt_{checkpoint_number(place)}")] == ["always", "always"]


@pytest.mark.spark
def test_sources_of_a_query_have_numbers(spark: SparkSession, path: str, conf: dict[str, str]) -> None:
    earlier, other = f"{path} 1", f"{path} 2"
    checkpoint = f"{path}-query"

    def start() -> None:
        frames = [dp.read_stream(spark, p, schemaTrackingLocation=f"{checkpoint}/columns") for p in (earlier, other)]
        first, second = (frame.select("id") for frame in frames)
        # A source that a query uses twice counts once.
        run(first.union(first).union(second), checkpoint)

    for each in (earlier, other):
        table(each)
    start()
    DeltaTable(other).alter.drop_columns(["a"])
    with pytest.raises(Exception, match="DELTA_STREAMING_METADATA_EVOLUTION"):
        start()
    setting = PREFIX + "allowSourceColumnDrop.ckpt_{}"
    conf[setting.format(checkpoint_number(f"file:{checkpoint}/sources/0"))] = "always"
    second = checkpoint_number(f"file:{checkpoint}/sources/1")
    with pytest.raises(Exception, match=NO_LEAVE + rf"[\s\S]*ckpt_{second}` = always"):
        start()
    conf[setting.format(second)] = "always"
    start()
