"""Spark on S3, by a real server: sessions with Hadoop's settings alone, and without its jars."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from stores.on_spark.driving import run_driver
from stores.on_spark.hadoop_aws import hadoop_aws_jars, hadoops, pinned
from stores.servers import StoreServer, versitygw

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with versitygw(tmp_path_factory.mktemp("s3a")) as running:
        yield running


def driven(
    server: StoreServer,
    place: Path,
    settings: Mapping[str, str],
    options: Mapping[str, str] | None = None,
    *,
    jars: bool = True,
    whole: bool = False,
) -> tuple[dict[str, Any], str, str]:
    """The results of a program in a session with these settings, the text of its plans, and its
    log, which holds Spark's event log too."""
    place.mkdir(exist_ok=True)
    own = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": place.as_uri(),
    }
    if jars:
        own["spark.driver.extraClassPath"] = ":".join(map(str, hadoop_aws_jars()))
    base = server.new_bucket().replace("s3://", "s3a://") + "/lake"
    asked = {"settings": {**own, **settings}, "options": options, "base": base, "whole": whole}
    answer, log = run_driver("stores.on_spark.s3a_driver", asked, place, 500)
    events = "".join(path.read_text() for path in place.rglob("events_*"))
    assert "SparkListenerJobStart" in events
    return answer["results"], answer["plans"], log + events


def test_a_session_with_hadoops_settings_alone(server: StoreServer, tmp_path: Path) -> None:
    results, plans, log = driven(server, tmp_path / "s3a", hadoops(server.options), whole=True)
    unused, left, rows = results.pop("VACUUM for real")
    assert unused > 3
    assert (left, rows) == (0, 2008)
    assert results == {
        "write": 0,
        "filter": 11,
        "plan": 2,
        "save": 1000,
        "append": 2000,
        "MERGE": 30,
        "DELETE": 2,
        "UPDATE": 2,
        "time travel": [1000, 2008],
        "stream": 1000,
        "more rows": 1,
        "stream restarted": 1010,
        "OPTIMIZE": 1,
        "VACUUM": 0,
        # VACUUM is two of them, its start and its end.
        "history": 8,
        "name": 2008,
        "changes": 3,
        "data source": 1010,
    }
    secret = server.options["AWS_SECRET_ACCESS_KEY"]
    assert "delta.`s3a://" in plans or "FileScan" in plans
    assert secret not in plans
    assert secret not in log


def test_a_jvm_without_the_jars_reads_through_the_data_source(server: StoreServer, tmp_path: Path) -> None:
    results, _, log = driven(server, tmp_path / "plain", hadoops(server.options), jars=False)
    assert results == {"read": 10, "again": 3}
    assert log.count("org.apache.hadoop:hadoop-aws:") == 1
    assert server.options["AWS_SECRET_ACCESS_KEY"] not in log


def test_options_of_the_session_precede_its_settings(server: StoreServer, tmp_path: Path) -> None:
    wrong = {**hadoops(server.options), "spark.hadoop.fs.s3a.secret.key": "no-key-of-this-server"}
    results, _, log = driven(server, tmp_path / "options", wrong, server.options, jars=False)
    assert results == {"read": 10, "again": 3}
    assert server.options["AWS_SECRET_ACCESS_KEY"] not in log


def test_other_credentials_classes_are_asked_in_the_jvm(server: StoreServer, tmp_path: Path) -> None:
    settings = {key: value for key, value in hadoops(server.options).items() if not key.endswith(".key")}
    key_id, secret = server.options["AWS_ACCESS_KEY_ID"], server.options["AWS_SECRET_ACCESS_KEY"]
    name = "software.amazon.awssdk.auth.credentials.SystemPropertyCredentialsProvider"
    settings["spark.hadoop.fs.s3a.aws.credentials.provider"] = name
    settings["spark.driver.extraJavaOptions"] = f"-Daws.accessKeyId={key_id} -Daws.secretAccessKey={secret}"
    results, plans, _ = driven(server, tmp_path / "class", settings)
    assert results == {"read": 10, "again": 3}
    assert secret not in plans


def test_a_checksum_is_pinned_for_each_jar() -> None:
    assert len(pinned()) > 30
    assert all(len(digest) == 64 for _, digest in pinned().values())
