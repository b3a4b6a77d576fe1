"""The IAM policies of docs/how-to/s3.md suffice for what the page says, and no more: moto's S3
checks the actions of each request by its signer's policies.

moto ignores conditions of policies, so that the prefix of listings isn't tested. Where several
objects are deleted at once it asks for the right on the bucket, S3 on each object.
"""

from __future__ import annotations

import json
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

from conftest import S3Server, moto
from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError
from structure import repo

PAGE = repo.ROOT / "docs" / "how-to" / "s3.md"


def statements() -> list[list[dict[str, Any]]]:
    """The page's policies on objects: the reader's, and what a writer has in addition."""
    blocks = re.findall(r"^```json\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    policies = [json.loads(block) for block in blocks]
    return [policy.get("Statement", [policy]) for policy in policies if "dynamodb:" not in str(policy)]


def signed(server: S3Server, name: str, allowed: list[dict[str, Any]]) -> dict[str, str]:
    """The storage options of a new user with a policy."""
    root = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
    iam = boto3.client("iam", endpoint_url=server.endpoint, **root)
    iam.create_user(UserName=name)
    policy = json.dumps({"Version": "2012-10-17", "Statement": allowed})
    iam.put_user_policy(UserName=name, PolicyName="table", PolicyDocument=policy)
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {
        **server.options,
        "AWS_ACCESS_KEY_ID": key["AccessKeyId"],
        "AWS_SECRET_ACCESS_KEY": key["SecretAccessKey"],
        "retry_timeout": "1s",
    }


@pytest.fixture(scope="module")
def users(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, dict[str, str]]]:
    """The page's roles on a server that checks signatures and policies from now on."""
    with moto(tmp_path_factory.mktemp("moto") / "log") as server:
        server.client().create_bucket(Bucket="lake")
        reader, more = statements()
        deletes = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::lake"}
        assert any("s3:DeleteObject" in statement["Action"] for statement in more)
        keeps = [{**s, "Action": [a for a in s["Action"] if a != "s3:DeleteObject"]} for s in more]
        made = {
            "reader": signed(server, "reader", reader),
            "writer": signed(server, "writer", [*reader, *more, deletes]),
            "without deletes": signed(server, "without", reader + keeps),
            "stranger": signed(server, "stranger", [{**deletes, "Action": "s3:ListAllMyBuckets"}]),
        }
        text = {"Content-Type": "text/plain"}
        request = urllib.request.Request(f"{server.endpoint}/moto-api/reset-auth", data=b"0", headers=text)
        urllib.request.urlopen(request).close()
        yield made


def test_roles_do_what_the_page_says(users: dict[str, dict[str, str]]) -> None:
    where, rows = "s3://lake/orders", pa.table({"id": list(range(100))})
    writer, reader = users["writer"], users["reader"]
    for _ in range(12):
        write_deltalake(where, rows, mode="append", storage_options=writer)
    table = DeltaTable(where, storage_options=writer)
    table.delete("id < 10")
    table.optimize.compact()
    table.create_checkpoint()
    assert DeltaTable(where, storage_options=reader).count() == 1080
    assert DeltaTable(where, storage_options=reader).to_pyarrow_table(filters="id = 50").num_rows == 12
    deleted = table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    assert len(deleted) >= 12
    assert table.check() == []


def test_roles_do_no_more(users: dict[str, dict[str, str]]) -> None:
    where, rows = "s3://lake/orders", pa.table({"id": [1]})
    write_deltalake(where, rows, mode="append", storage_options=users["writer"])
    with pytest.raises(DeltaError):
        write_deltalake(where, rows, mode="append", storage_options=users["reader"])
    with pytest.raises(DeltaError):
        DeltaTable(where, storage_options=users["stranger"]).count()


def test_a_writer_without_deletes_commits(users: dict[str, dict[str, str]], tmp_path: Path) -> None:
    where, options = "s3://lake/orders", users["without deletes"]
    before = DeltaTable(where, storage_options=options).version()
    for _ in range(11):
        write_deltalake(where, pa.table({"id": [1]}), mode="append", storage_options=options)
    table = DeltaTable(where, storage_options=options)
    table.delete("id = 1")
    table.create_checkpoint()
    assert table.version() == before + 12
    with pytest.raises(DeltaError):
        table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
