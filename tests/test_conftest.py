"""Tests the shared fixtures: the S3 server answers and supports conditional puts, on which commits
depend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


def test_the_server_refuses_a_second_conditional_put(moto_server) -> None:
    import boto3
    from botocore.exceptions import ClientError

    bucket = moto_server.new_bucket().removeprefix("s3://")
    keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": moto_server.region}
    client = boto3.client("s3", endpoint_url=moto_server.endpoint, **keys)
    client.put_object(Bucket=bucket, Key="k", Body=b"first", IfNoneMatch="*")
    with pytest.raises(ClientError, match="PreconditionFailed"):
        client.put_object(Bucket=bucket, Key="k", Body=b"second", IfNoneMatch="*")


def test_every_path_is_new(tmp_table: Callable[[], str]) -> None:
    first, second = tmp_table(), tmp_table()
    assert first != second
    assert Path(first).parent.is_dir()
    assert not Path(first).exists()
