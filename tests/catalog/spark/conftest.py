"""A session with the catalog `main`, in this process or behind the real server, whose token is
secret."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from catalog.conftest import SCHEMA, Lake, rows, serving
from deltaplane import Catalog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def shop(spark: SparkSession, lake: Lake) -> Iterator[Lake]:
    """A session with the catalog, and the table `t` with the rows 1 and 2."""
    from deltaplane import spark as dp

    lake.write("t", rows(1, 2))
    dp.enable(spark, catalogs={"main": lake.catalog})
    yield lake
    dp.disable(spark)


@pytest.fixture
def local(spark: SparkSession, database: str) -> Iterator[Lake]:
    """The same, always in this process."""
    from deltaplane import spark as dp

    lake = Lake(Catalog(database), database)
    lake.write("t", rows(1, 2))
    dp.enable(spark, catalogs={"main": database})
    yield lake
    dp.disable(spark)


@pytest.fixture
def guarded(database: str, tmp_path: Path) -> Iterator[tuple[str, str]]:
    """The URL of a server, and a token that may write to the schema."""
    owner = Catalog(database)
    token = owner.create_token("etl")
    owner.grant("etl", "MANAGE", SCHEMA.partition(".")[0])
    with serving(database, tmp_path / "server.log") as (url, _):
        yield url, token
