"""Owns what every test may ask for: an S3 server on loopback, one Spark session and places for
tables."""

from __future__ import annotations

import itertools
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import jvm
import sharing
from stores.servers import MOTO, saying_its_port

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

jvm.start_quickly()


@dataclass(frozen=True)
class S3Server:
    """An S3 server that any credentials open; they are given as options, never through the
    environment."""

    endpoint: str
    access_key_id: str = "test"
    secret_access_key: str = "test"
    region: str = "us-east-1"

    @property
    def options(self) -> dict[str, str]:
        """Storage options under the names that users of deltalake and object_store know."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": self.access_key_id,
            "AWS_SECRET_ACCESS_KEY": self.secret_access_key,
            "AWS_REGION": self.region,
            "AWS_ALLOW_HTTP": "true",
        }

    def client(self) -> Any:
        """boto3's client of this server."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key_id,
            aws_secret_access_key=self.secret_access_key,
            region_name=self.region,
        )

    def new_bucket(self) -> str:
        """The `s3://` location of a bucket that is empty and nobody else's."""
        name = f"bucket-{uuid.uuid4().hex}"
        self.client().create_bucket(Bucket=name)
        return f"s3://{name}"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option that renews golden files."""
    parser.addoption("--update", action="store_true", help="write golden files again, as the code gives them")


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written again."""
    return bool(request.config.getoption("--update"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """In the order in which workers of pytest-xdist take them."""
    items[:] = sharing.ordered(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> sharing.ByJvm:
    """Tests that share a JVM go to one worker."""
    return sharing.ByJvm(config, log)


@pytest.fixture(scope="session")
def moto_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """moto's S3 in a process of its own, one for the whole run."""
    with moto(tmp_path_factory.mktemp("moto") / "log") as server:
        yield server


@contextmanager
def moto(log: Path) -> Iterator[S3Server]:
    """moto's S3 in a process of its own, which writes its errors to a file."""
    with saying_its_port([sys.executable, "-c", MOTO], log) as endpoint:
        yield S3Server(endpoint)


@pytest.fixture
def tmp_table(tmp_path: Path) -> Callable[[], str]:
    """Gives a path at each call where no table is yet; its parent exists and is the test's own."""
    numbers = itertools.count()
    return lambda: str(tmp_path / f"table-{next(numbers)}")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A local session with two cores and up to four attempts at each task; one for the run, since a
    start costs ten seconds and more."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    import sparks
    from deltaplane import spark as dp

    sparks.prepare_pyspark_3()
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
