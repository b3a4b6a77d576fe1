"""Glue and S3 in one server of moto, with new databases and buckets."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from deltaplane.metastores.glue import GlueCatalog

if TYPE_CHECKING:
    from tests.conftest import S3Server

_numbers = itertools.count()


@dataclass(frozen=True)
class Lake:
    """A Glue catalog with a new database, whose location is a new bucket's."""

    catalog: GlueCatalog
    options: dict[str, str]
    schema: str
    root: str


@pytest.fixture
def lake(moto_server: S3Server) -> Lake:
    """A new database."""
    options = {**moto_server.options, "aws_endpoint_url_glue": moto_server.endpoint}
    catalog = GlueCatalog("glue://", options)
    schema, root = f"schema_{next(_numbers)}", moto_server.new_bucket()
    catalog.create_schema(schema, f"{root}/lake")
    return Lake(catalog, options, schema, f"{root}/lake")
