"""Credentials of Spark that change while a job runs: keys of a class of the JVM, and an assumed
role, each on a server of S3 that refuses keys which have ended."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

import pytest

from stores.forwarding import Answer, Request, forwarding
from stores.on_spark.driving import run_driver
from stores.on_spark.hadoop_aws import address, hadoop_aws_jars

if TYPE_CHECKING:
    from tests.conftest import S3Server

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(400)]

ENDED = Answer(400, [], b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>")
ROLE = "arn:aws:iam::123456789012:role/tables"


def signer(request: Request) -> str:
    """The key id that signed a request."""
    match = re.search(r"Credential=([^/]+)/", request.headers.get("authorization", ""))
    return match[1] if match else ""


def is_commit(request: Request) -> bool:
    return request.command == "PUT" and re.search(r"_delta_log/\d{20}\.json$", request.path) is not None


def driven(place: Path, endpoint: str, base: str, settings: dict[str, str], **asked: Any) -> Any:
    own = {
        "spark.master": "local[1]",
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(place / "warehouse"),
        "spark.driver.extraClassPath": ":".join(map(str, hadoop_aws_jars())),
        **address(endpoint),
        **settings,
    }
    lake = base.replace("s3://", "s3a://") + "/lake"
    return run_driver("stores.on_spark.renewal_driver", {"settings": own, "base": lake, **asked}, place, 350)[0]


class Ending:
    """Refuses the keys of a number once they have put a data file, and waits until the session has
    the next ones; keeps all keys once there is a file `keep`."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.lock = threading.Lock()
        self.current = 1
        self.refused: list[str] = []
        self.commits: list[str] = []

    def __call__(self, request: Request, ask: Callable[[], Answer]) -> Answer | None:
        key = signer(request)
        if key.startswith("KEY") and int(key.removeprefix("KEY")) < self.current:
            self.refused.append(key)
            return ENDED
        answer = ask()
        if is_commit(request) and answer.status == 200:
            self.commits.append(key)
        puts_rows = request.command == "PUT" and request.path.endswith(".parquet") and "_delta_log" not in request.path
        with self.lock:
            if puts_rows and key == f"KEY{self.current}" and not (self.place / "keep").exists():
                self.end()
        return answer

    def end(self) -> None:
        (self.place / f"gone-{self.current}").touch()
        until = time.monotonic() + 30
        while not (self.place / f"renewed-{self.current}").exists():
            assert time.monotonic() < until, "the session has no new keys"
            time.sleep(0.02)
        self.current += 1


def test_keys_of_a_class_that_change_while_a_job_runs(moto_server: S3Server, tmp_path: Path) -> None:
    """The driver commits with the new keys; a task that begins with the old ones fails, and commits
    nothing."""
    ending = Ending(tmp_path)
    name = "software.amazon.awssdk.auth.credentials.SystemPropertyCredentialsProvider"
    settings = {"spark.hadoop.fs.s3a.aws.credentials.provider": name}
    with forwarding(moto_server.endpoint, ending) as endpoint:
        base = moto_server.new_bucket()
        results = driven(tmp_path, endpoint, base, settings, assumed=False, marks=str(tmp_path))
    failure = results.pop("two tasks")
    assert results == {"one task": 0, "read": 10, "left": 10, "again": 1, "rows": 20}
    assert "StoreDeniedError" in failure, failure
    # Each job began with keys that ended before its commit.
    assert set(ending.refused) == {"KEY1", "KEY2"}
    assert ending.commits == ["KEY2", "KEY3"]


class Sts:
    """Gives a role's credentials for some time each, and notes what it is asked. The AWS library
    asks for new ones a minute before the end."""

    SECONDS = 75

    def __init__(self, revoked: Path) -> None:
        # When this file appears, the credentials that were given until then are revoked.
        self.revoked = revoked
        self.first_valid: int | None = None
        self.asked: list[dict[str, str]] = []
        self.refused: list[str] = []
        self.commits: list[str] = []

    def __call__(self, request: Request, ask: Callable[[], Answer]) -> Answer | None:
        self.asked.append({name: values[0] for name, values in parse_qs(request.body.decode()).items()})
        end = datetime.now(timezone.utc) + timedelta(seconds=self.SECONDS)
        credentials = (
            f"<AccessKeyId>ROLE{len(self.asked)}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey>"
            f"<SessionToken>token</SessionToken><Expiration>{end:%Y-%m-%dT%H:%M:%SZ}</Expiration>"
        )
        user = f"<Arn>{ROLE}/tables</Arn><AssumedRoleId>A:tables</AssumedRoleId>"
        text = (
            '<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult>'
            f"<AssumedRoleUser>{user}</AssumedRoleUser><Credentials>{credentials}</Credentials>"
            "</AssumeRoleResult></AssumeRoleResponse>"
        )
        return Answer(200, [("Content-Type", "text/xml")], text.encode())

    def serve_store(self, request: Request, ask: Callable[[], Answer]) -> Answer | None:
        """The store, which accepts the role's credentials until they are revoked, and no others."""
        key = signer(request)
        if self.first_valid is None and self.revoked.exists():
            self.first_valid = len(self.asked) + 1
        if not key.startswith("ROLE") or int(key.removeprefix("ROLE")) < (self.first_valid or 1):
            self.refused.append(key)
            return ENDED
        answer = ask()
        if is_commit(request) and answer.status == 200:
            self.commits.append(key)
        return answer


def test_an_assumed_role_whose_credentials_are_revoked(moto_server: S3Server, tmp_path: Path) -> None:
    """S3A's own settings of a role; a server of STS on loopback gives the credentials. S3A's
    setting of its address takes no port, so it is the AWS library's own."""
    sts = Sts(tmp_path / "revoked")
    with (
        forwarding(moto_server.endpoint, sts) as sts_endpoint,
        forwarding(moto_server.endpoint, sts.serve_store) as endpoint,
    ):
        settings = {
            "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider",
            "spark.hadoop.fs.s3a.assumed.role.arn": ROLE,
            "spark.hadoop.fs.s3a.assumed.role.session.name": "tables",
            "spark.hadoop.fs.s3a.access.key": "the-users-own",
            "spark.hadoop.fs.s3a.secret.key": "secret-of-the-user",
            "spark.driver.extraJavaOptions": f"-Daws.endpointUrlSts={sts_endpoint} -Daws.region=us-east-1",
        }
        results = driven(tmp_path, endpoint, moto_server.new_bucket(), settings, assumed=True, marks=str(tmp_path))
    assert results == {"versions": [0, 1], "deleted": 1, "rows": 19}
    assert {asked["RoleArn"] for asked in sts.asked} == {ROLE}
    assert {asked["RoleSessionName"] for asked in sts.asked} == {"tables"}
    # The driver's first credential was refused, and replaced while the second job ran.
    assert sts.commits[0] in sts.refused
    assert set(sts.refused) <= {f"ROLE{number}" for number in range(1, sts.first_valid or 0)}
    assert len(sts.commits) == 3
    assert sts.commits[0] not in sts.commits[1:]
