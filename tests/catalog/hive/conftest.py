"""One metastore for the run, a delta-spark with it, and new schemas."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from catalog.hive.metastore_server import Forwarder, hive_metastore
from deltaplane.metastores.hive import HiveMetastore
from interop.delta_spark import DeltaSpark

_numbers = itertools.count()


@pytest.fixture(scope="session")
def metastore_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a real metastore."""
    with hive_metastore(tmp_path_factory.mktemp("metastore")) as uri:
        yield uri


@pytest.fixture
def hive(metastore_uri: str) -> HiveMetastore:
    """The metastore as a catalog."""
    return HiveMetastore(metastore_uri)


@pytest.fixture
def options(metastore_uri: str) -> dict[str, str]:
    """The storage options of names in this metastore."""
    return {"catalog": metastore_uri}


@pytest.fixture
def schema(hive: HiveMetastore, tmp_path: Path) -> str:
    """The name of a new schema, whose directory is the test's own."""
    name = f"schema_{next(_numbers)}"
    hive.create_schema(name, str(tmp_path / name))
    return name


@pytest.fixture
def forwarder(metastore_uri: str) -> Iterator[Forwarder]:
    """Another address of the metastore, which can be cut."""
    host, _, port = metastore_uri.removeprefix("thrift://").partition(":")
    made = Forwarder((host, int(port)))
    yield made
    made.cut()


@pytest.fixture(scope="session")
def hive_spark(metastore_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], DeltaSpark]]:
    """delta-spark whose session's catalog is the metastore; started by the first call."""
    started: list[DeltaSpark] = []

    def session() -> DeltaSpark:
        if not started:
            settings = {
                "spark.sql.catalogImplementation": "hive",
                "spark.hadoop.hive.metastore.uris": metastore_uri,
                "spark.driver.memory": "1g",
            }
            started.append(DeltaSpark(tmp_path_factory.mktemp("hive-spark"), settings))
        return started[0]

    yield session
    for worker in started:
        worker.stop()
