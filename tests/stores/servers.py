"""The stores' servers on loopback: their list, starting one, and new buckets.

A server lives as long as the standard input of its starting process is open, so it can't outlive a
test run. `make servers` installs the programs; a missing one is an error that names the command,
never a skip.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Any

from stores import hdfs_server

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "servers"
START_SECONDS = 60

# moto's server prints its port; it accepts any S3 credentials. It executes a conditional write as a
# look-up followed by a write: two of its threads would both find nothing, where S3 and DynamoDB let
# one writer win.
MOTO = """
import functools, logging, sys, threading
from moto.dynamodb.responses import DynamoHandler
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
one_at_a_time = threading.RLock()
def alone(method):
    @functools.wraps(method)
    def run(*arguments, **named):
        with one_at_a_time:
            return method(*arguments, **named)
    return run
for handler, names in {
    S3Response: ["put_object", "_key_response_post"],
    DynamoHandler: ["put_item", "update_item", "delete_item", "transact_write_items"],
}.items():
    for name in names:
        setattr(handler, name, alone(getattr(handler, name)))
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
server.stop()
"""
# Runs a program until standard input closes, then ends it by its process id.
_UNTIL_CLOSED = '"$@" <&- & child=$!; cat > /dev/null; kill $child; wait $child'
# Azurite's built-in account; its key is part of Azurite's documentation.
AZURITE_ACCOUNT = "devstoreaccount1"
AZURITE_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True)
class StoreServer:
    """A running server: opens its store, and creates new buckets."""

    name: str
    scheme: str
    options: dict[str, str]
    # The number of names in one page of a listing.
    page: int
    make_bucket: Callable[[str], None]
    endpoint: str
    # Unusual names that the store refuses, since it can't represent them.
    refused: tuple[str, ...] = ()
    # The file system in which a bucket is only a directory.
    root: str | None = None

    def bucket(self, name: str) -> str:
        """The location of a bucket (container) of that name."""
        return f"{self.root or f'{self.scheme}:/'}/{name}"

    def new_bucket(self) -> str:
        """The location of a new, empty bucket (container)."""
        name = f"bucket-{uuid.uuid4().hex[:20]}"
        self.make_bucket(name)
        return self.bucket(name)

    def contract(self) -> dict[str, Any]:
        """This server's parameters for the contract suite in Rust."""
        return {
            "name": self.name,
            "root": f"{self.new_bucket()}/tables",
            "bucket": self.new_bucket(),
            # A missing directory is an empty location.
            "missing": self.bucket("no-such-bucket-here/t") if self.root is None else None,
            "options": self.options,
            "page": self.page,
            "refused": self.refused,
        }


@contextmanager
def running(command: list[str], log: Path, **more: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that ends when its standard input closes, at the latest with this block."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, **more
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(timeout=10)
        process.stdout.close()


@contextmanager
def saying_its_port(command: list[str], log: Path) -> Iterator[str]:
    """The endpoint of a program that chooses a free port and prints it."""
    with running(command, log) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        assert port, f"{command[:2]} did not start:\n{log.read_text()}"
        yield f"http://127.0.0.1:{port}"


@contextmanager
def told_its_port(command: Callable[[int], list[str]], log: Path) -> Iterator[str]:
    """The endpoint of a program that needs a port: a free one, or another one if the port is taken
    meanwhile."""
    for _ in range(3):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with running(["sh", "-c", _UNTIL_CLOSED, "sh", *command(port)], log) as process:
            if _answers(port, process):
                yield f"http://127.0.0.1:{port}"
                return
    raise AssertionError(f"{command(0)[0]} did not start:\n{log.read_text()}")


def _answers(port: int, process: subprocess.Popen[str]) -> bool:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.05)
    return False


def program(path: str) -> str:
    """A file that `make servers` installs."""
    file = CACHE / path
    if not file.exists():
        raise FileNotFoundError(f"no {file}: run `make servers`")
    return str(file)


def _s3(name: str, endpoint: str, key: str, secret: str) -> StoreServer:
    def make_bucket(bucket: str) -> None:
        import boto3

        credentials = {"aws_access_key_id": key, "aws_secret_access_key": secret}
        client = boto3.client("s3", endpoint_url=endpoint, region_name="us-east-1", **credentials)
        client.create_bucket(Bucket=bucket)

    options = {
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    return StoreServer(name, "s3", options, 1000, make_bucket, endpoint)


@contextmanager
def moto(scratch: Path) -> Iterator[StoreServer]:
    """moto: S3 in Python, in memory."""
    with saying_its_port([sys.executable, "-c", MOTO], scratch / "moto.log") as endpoint:
        yield _s3("moto", endpoint, "test", "test-secret")


@contextmanager
def versitygw(scratch: Path) -> Iterator[StoreServer]:
    """versitygw: S3 in Go, on files, which checks signatures.

    The server stores metadata in the file's extended attributes. In separate files (`--sidecar`),
    metadata would be written after the object gets its name, and a writer that lost a race for the
    name would be told that the object doesn't exist.
    """
    key, secret = "versitykeyid", "versity-secret-access-key"
    files = scratch / "files"
    files.mkdir()
    try:
        os.setxattr(files, "user.deltaplane", b"")
    except OSError as e:
        raise RuntimeError(f"{files} keeps no user attributes ({e}): set TMPDIR to a file system that does") from None

    def command(port: int) -> list[str]:
        gateway = [program("bin/versitygw"), "--port", f"127.0.0.1:{port}", "--access", key, "--secret", secret]
        return [*gateway, "--quiet", "posix", str(files)]

    with told_its_port(command, scratch / "versitygw.log") as endpoint:
        yield _s3("versitygw", endpoint, key, secret)


@contextmanager
def azurite(scratch: Path) -> Iterator[StoreServer]:
    """Azurite: Azure's blobs in Node, in memory; it checks signatures."""

    def command(port: int) -> list[str]:
        script = program("node_modules/azurite/dist/src/blob/main.js")
        flags = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--inMemoryPersistence", "--silent"]
        return [node(), script, *flags, "--disableTelemetry", "--skipApiVersionCheck"]

    with told_its_port(command, scratch / "azurite.log") as host:
        endpoint = f"{host}/{AZURITE_ACCOUNT}"
        options = {
            "AZURE_STORAGE_ENDPOINT": endpoint,
            "AZURE_STORAGE_ACCOUNT_NAME": AZURITE_ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": AZURITE_KEY,
            "AZURE_ALLOW_HTTP": "true",
        }

        def make(name: str) -> None:
            _make_container(endpoint, name)

        yield StoreServer("azurite", "az", options, 5000, make, endpoint, refused=("back\\slash",))


def node() -> str:
    """Node from the lock file's wheel."""
    return program("bin/node")


def _make_container(endpoint: str, name: str) -> None:
    """Signed with the account's key, by Azure's rules for shared keys."""
    date, version = formatdate(usegmt=True), "2021-08-06"
    resource = f"/{AZURITE_ACCOUNT}/{AZURITE_ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + f"x-ms-date:{date}\nx-ms-version:{version}\n{resource}"
    digest = hmac.new(base64.b64decode(AZURITE_KEY), text.encode(), hashlib.sha256).digest()
    signature = base64.b64encode(digest).decode()
    headers = {
        "x-ms-date": date,
        "x-ms-version": version,
        "Authorization": f"SharedKey {AZURITE_ACCOUNT}:{signature}",
    }
    _put(f"{endpoint}/{name}?restype=container", headers)


def _put(url: str, headers: dict[str, str]) -> None:
    request = urllib.request.Request(url, method="PUT", headers={**headers, "Content-Length": "0"})
    # Bypasses the machine's proxy, since the server is on loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=10) as done:
        assert done.status in (200, 201)


@contextmanager
def gcs(scratch: Path) -> Iterator[StoreServer]:
    """The stub of Google's XML API; `gcs_stub` explains why it exists."""
    with saying_its_port([sys.executable, str(HERE / "gcs_stub.py")], scratch / "gcs.log") as endpoint:
        options = {"GOOGLE_BASE_URL": endpoint, "GOOGLE_BEARER_TOKEN": "a-bearer-token-for-tests", "ALLOW_HTTP": "true"}
        yield StoreServer("gcs-stub", "gs", options, 1000, lambda name: _put(f"{endpoint}/{name}", {}), endpoint)


@contextmanager
def hdfs(scratch: Path) -> Iterator[StoreServer]:
    """Hadoop's own NameNode and DataNode, in one small JVM."""
    with saying_its_port(hdfs_server.command(scratch / "dfs"), scratch / "hdfs.log") as address:
        port = address.rpartition(":")[2]
        root = f"hdfs://127.0.0.1:{port}"
        page = hdfs_server.LISTED_AT_ONCE
        yield StoreServer("hdfs", "hdfs", {}, page, lambda name: None, root, refused=("a:b",), root=root)


SERVERS = {"moto": moto, "versitygw": versitygw, "azurite": azurite, "gcs-stub": gcs, "hdfs": hdfs}
