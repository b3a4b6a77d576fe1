"""A lock table in moto's DynamoDB, and a proxy before the server by which a writer can crash after
any of its requests."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from stores.forwarding import Answer, Request, forwarding

if TYPE_CHECKING:
    from tests.conftest import S3Server

KEYS = (("tablePath", "HASH"), ("fileName", "RANGE"))


@dataclass(frozen=True)
class LockTable:
    """A new, empty lock table on a server that also serves S3."""

    server: S3Server
    name: str

    @property
    def options(self) -> dict[str, str]:
        """The storage options for the lock table, in deltaplane and deltalake."""
        return {
            **self.server.options,
            "AWS_S3_LOCKING_PROVIDER": "dynamodb",
            "DELTA_DYNAMO_TABLE_NAME": self.name,
            "AWS_ENDPOINT_URL_DYNAMODB": self.server.endpoint,
        }

    def behind(self, endpoint: str) -> LockTable:
        """The same table, accessed through another address."""
        return replace(self, server=replace(self.server, endpoint=endpoint))

    def client(self, service: str) -> Any:
        """boto3's client of `s3` or `dynamodb`."""
        import boto3

        return boto3.client(
            service,
            endpoint_url=self.server.endpoint,
            aws_access_key_id=self.server.access_key_id,
            aws_secret_access_key=self.server.secret_access_key,
            region_name=self.server.region,
        )

    def items(self) -> list[dict[str, Any]]:
        """Every item, in the order of the file names."""
        items = self.client("dynamodb").scan(TableName=self.name, ConsistentRead=True)["Items"]
        return sorted(items, key=lambda item: str(item["fileName"]["S"]))

    def keys(self, table: str, prefix: str) -> list[str]:
        """The names below a table's directory, relative to it."""
        bucket, _, path = table.removeprefix("s3://").partition("/")
        listed = self.client("s3").list_objects_v2(Bucket=bucket, Prefix=f"{path}/{prefix}")
        return sorted(str(entry["Key"]).removeprefix(f"{path}/") for entry in listed.get("Contents", ()))


def new_lock_table(server: S3Server) -> LockTable:
    """Creates a lock table with delta-spark's keys."""
    table = LockTable(server, f"locks-{uuid.uuid4().hex}")
    table.client("dynamodb").create_table(
        TableName=table.name,
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name, _ in KEYS],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in KEYS],
        BillingMode="PAY_PER_REQUEST",
    )
    return table


class Cut:
    """The last request of a commit: the connection breaks after it, or after it arrived but before
    its answer.

    The count starts at a commit's first request (deltaplane's checks whether its name is free).
    """

    def __init__(self, after: int | None, *, answered: bool = True, first: str = "HEAD 0") -> None:
        self.after, self.answered, self._first = after, answered, first
        self.seen: list[str] = []
        # Set when the last request was executed or lost.
        self.reached = threading.Event()
        self._lock = threading.Lock()

    def count(self, what: str) -> tuple[bool, bool]:
        """Whether to pass on this request, and whether to pass on its answer."""
        with self._lock:
            if self.seen or what.startswith(self._first):
                self.seen.append(what)
            number = len(self.seen)
        if self.after is None or number < self.after:
            return True, True
        return number == self.after, number == self.after and self.answered


@contextmanager
def proxy(server: S3Server, cut: Cut) -> Iterator[str]:
    """The address of a proxy that passes requests on until the cut."""

    def serve(request: Request, ask: Callable[[], Answer]) -> Answer | None:
        target = request.headers.get("x-amz-target", "").rpartition(".")[2]
        name = urlsplit(request.path).path.rpartition("/")[2]
        passed, answered = cut.count(f"{target or request.command} {name}")
        answer = ask() if passed else None
        if cut.after is not None and len(cut.seen) >= cut.after:
            cut.reached.set()
        return answer if answered else None

    with forwarding(server.endpoint, serve) as endpoint:
        yield endpoint
