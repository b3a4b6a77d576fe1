"""Credentials that change while a table is open: an application's provider, AWS's web identity,
Google's service accounts.

`rust/store` (tests/credentials.rs) tests the stores' reactions; this file tests the Python
interface.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import pickle
import re
import subprocess
import sys
import textwrap
import urllib.request
from collections import namedtuple
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import pytest

from deltaplane import DeltaTable, GroupWriter, sql, write_deltalake
from deltaplane.exceptions import DeltaError, InvalidArgumentError, StoreDeniedError, StoreUnavailableError
from deltaplane.io.credentials import fetch, provider_name
from stores.forwarding import Answer, Request, forwarding
from stores.numbers import ids, rows

if TYPE_CHECKING:
    from tests.conftest import S3Server

SECRET = "wJalrXUtnFEMIK7MDENGbPxRfiCYsecret"
HOUR = timedelta(hours=1)
REFUSED = Answer(403, [], b"<Error><Code>InvalidAccessKeyId</Code></Error>")


class Signers:
    """The key ids that signed requests, and the ones that the store accepts."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.gone: set[str] = set()

    def __call__(self, request: Request, ask: Callable[[], Answer]) -> Answer | None:
        match = re.search(r"Credential=([^/]+)/", request.headers.get("authorization", ""))
        self.seen.append(match[1] if match else "")
        return REFUSED if self.seen[-1] in self.gone else ask()


class Keys:
    """A provider whose keys are numbered by its answers."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> dict[str, object]:
        self.asked += 1
        return {
            "access_key_id": f"KEY{self.asked}",
            "secret_access_key": SECRET,
            "session_token": f"token-{self.asked}-that-nobody-may-see",
            "expires_at": datetime.now(timezone.utc) + HOUR,
        }


def without_keys(server: S3Server, endpoint: str) -> dict[str, str]:
    every = {**server.options, "AWS_ENDPOINT_URL": endpoint}
    return {key: value for key, value in every.items() if "KEY" not in key}


def test_a_table_s_life_by_a_provider(moto_server: S3Server) -> None:
    """The provider is called once for all requests, and again when the store rejects its keys."""
    table, keys, signers = f"{moto_server.new_bucket()}/t", Keys(), Signers()
    with forwarding(moto_server.endpoint, signers) as endpoint:
        options = {**without_keys(moto_server, endpoint), "credential_provider": keys}
        write_deltalake(table, rows(0), storage_options=options)
        opened = DeltaTable(table, storage_options=options)
        assert ids(opened) == [0]
        with GroupWriter(table, storage_options=options) as writer:
            writer.append(rows(1))
        assert sql(f"SELECT count(*) FROM delta.`{table}`", storage_options=options).to_pylist() == [{"count(1)": 2}]
        assert keys.asked == 1
        assert set(signers.seen) == {"KEY1"}

        signers.gone.add("KEY1")
        signers.seen.clear()
        # A write begins with two requests at the same time: its file, and the newest version.
        write_deltalake(opened, rows(2), mode="append")
        opened.update_incremental()
        assert ids(opened) == [0, 1, 2]
        assert keys.asked == 2
        assert set(signers.seen) == {"KEY1", "KEY2"}
        # The first requests use the old keys, later ones don't.
        assert signers.seen.count("KEY1") <= 2
        assert "KEY1" not in signers.seen[4:]

        # Options and pickles contain the provider's name and no credential.
        text = repr(opened) + repr(opened.storage_options) + repr(pickle.dumps(opened))
        assert SECRET not in text
        assert "nobody-may-see" not in text
        assert ids(pickle.loads(pickle.dumps(opened))) == [0, 1, 2]
        script = "import pickle, sys; pickle.load(sys.stdin.buffer).version(); print('opened')"
        done = subprocess.run(
            [sys.executable, "-c", script], input=pickle.dumps(opened), capture_output=True, timeout=60
        )
        assert b"isn't known in this process" in done.stderr
        assert b"InvalidArgumentError" in done.stderr


def test_a_provider_by_name_serves_other_processes(moto_server: S3Server, tmp_path: Path) -> None:
    """For example Spark's workers: the option's text is `module:name`."""
    (tmp_path / "identity_of_ours.py").write_text(
        textwrap.dedent("""
        class Team:
            @staticmethod
            def keys():
                return {"AccessKeyId": "TEAM", "SecretAccessKey": "s", "SessionToken": None}
        """)
    )
    table, signers = f"{moto_server.new_bucket()}/t", Signers()
    with forwarding(moto_server.endpoint, signers) as endpoint:
        options = {**without_keys(moto_server, endpoint), "credential_provider": "identity_of_ours:Team.keys"}
        with pytest.raises(InvalidArgumentError, match=r"identity_of_ours.*can't be imported \(ModuleNotFoundError\)"):
            DeltaTable(table, storage_options=options)
        script = f"""
import pickle, pyarrow as pa, identity_of_ours
from deltaplane import DeltaTable, write_deltalake
options = {options!r}
write_deltalake({table!r}, pa.table({{"id": [7]}}), storage_options=options)
options["credential_provider"] = identity_of_ours.Team.keys
opened = DeltaTable({table!r}, storage_options=options)
assert opened.storage_options["credential_provider"] == "identity_of_ours:Team.keys"
assert opened.to_pyarrow_table()["id"].to_pylist() == [7]
"""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
        done = subprocess.run(
            [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
    assert set(signers.seen) == {"TEAM"}


def test_a_forked_child_asks_anew(moto_server: S3Server) -> None:
    table, keys = f"{moto_server.new_bucket()}/t", Keys()
    options = {**without_keys(moto_server, moto_server.endpoint), "credential_provider": keys}
    write_deltalake(table, rows(0), storage_options=options)
    child = os.fork()
    if child == 0:  # pragma: no cover
        ids_read = ids(DeltaTable(table, storage_options=options))
        os._exit(0 if (ids_read, keys.asked) == ([0], 2) else 1)
    assert os.waitpid(child, 0)[1] == 0


AccessToken = namedtuple("AccessToken", ["token", "expires_on"])
END = datetime(2999, 1, 1, tzinfo=timezone.utc)
END_MS = int(END.timestamp()) * 1000


@pytest.mark.parametrize(
    ("credentials", "fields", "end"),
    [
        ({"token": "x"}, {"token": "x"}, None),
        # boto3's STS, whose Expiration is a datetime.
        (
            {"AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c", "Expiration": END},
            {"access_key_id": "a", "secret_access_key": "b", "session_token": "c"},
            END_MS,
        ),
        # Polars' pair of a mapping and seconds; azure-identity's token; texts.
        (({"bearer_token": "x"}, END_MS // 1000), {"bearer_token": "x"}, END_MS),
        (({"bearer_token": "x"}, None), {"bearer_token": "x"}, None),
        (AccessToken("x", END_MS // 1000), {"token": "x"}, END_MS),
        ({"token": "x", "expires_at": "2999-01-01T00:00:00Z"}, {"token": "x"}, END_MS),
        ({"token": "x", "expiry": 32472144000.5}, {"token": "x"}, END_MS + 500),
    ],
)
def test_what_a_provider_may_give(credentials: object, fields: dict[str, str], end: int | None) -> None:
    assert fetch(provider_name(lambda: credentials)) == (list(fields.items()), end)


async def coroutine() -> dict[str, str]:
    return {"token": "x"}


@pytest.mark.parametrize(
    ("credentials", "words"),
    [
        (None, "gave NoneType"),
        (SECRET, "gave str"),
        ({"token": SECRET.encode()}, "a token that is bytes, not text"),
        ({"token": "x", "expires_at": datetime(2999, 1, 1)}, "an end without a time zone"),
        ({"token": SECRET, "expires_at": "tomorrow"}, "an end that is neither"),
        ({"token": SECRET, "expires_at": True}, "an end that is neither"),
        # Milliseconds.
        ({"token": SECRET, "expires_at": END_MS}, "an end that is neither"),
    ],
)
def test_what_is_no_credential_is_refused_without_its_value(credentials: object, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words) as caught:
        fetch(provider_name(lambda: credentials))
    assert SECRET not in str(caught.value)


def test_no_provider() -> None:
    with pytest.raises(InvalidArgumentError, match="not as a coroutine"):
        fetch(provider_name(coroutine))
    for bad in (3, {"token": SECRET}):
        with pytest.raises(InvalidArgumentError, match="credential_provider is a callable") as caught:
            DeltaTable("s3://b/t", storage_options={"credential_provider": bad})  # type: ignore[dict-item]
        assert SECRET not in str(caught.value)
    for bad, words in (("nothing", "isn't known in this process"), ("json:nothing", "nothing that can be called")):
        with pytest.raises(InvalidArgumentError, match=words):
            DeltaTable("s3://b/t", storage_options={"credential_provider": bad})
    both = {"credential_provider": Keys(), "aws_access_key_id": "a", "aws_secret_access_key": SECRET}
    with pytest.raises(InvalidArgumentError, match="give one of the two") as caught:
        DeltaTable("s3://b/t", storage_options=both)
    assert SECRET not in str(caught.value)
    # One object has one name, however often it is passed.
    keys = Keys()
    assert provider_name(keys) == provider_name(keys) != provider_name(Keys())


@pytest.mark.parametrize(
    ("raised", "kind"),
    [
        (RuntimeError(SECRET), StoreDeniedError),
        (PermissionError(SECRET), StoreDeniedError),
        (TimeoutError(SECRET), StoreUnavailableError),
        (KeyError(SECRET), StoreDeniedError),
    ],
)
def test_what_a_provider_raises_is_told_by_its_class(
    raised: Exception, kind: type[DeltaError], caplog: pytest.LogCaptureFixture
) -> None:
    def provider() -> None:
        raise raised

    caplog.set_level(logging.DEBUG)
    for location in ("s3://b/t", "az://c/t", "gs://b/t"):
        options = {"credential_provider": provider, "account_name": "a"}
        with pytest.raises(kind, match=f"raised {type(raised).__name__}") as caught:
            DeltaTable(location, storage_options=options)
        assert SECRET not in str(caught.value) + repr(caught.value) + caplog.text


def test_a_credential_that_has_ended_is_refused() -> None:
    def provider() -> dict[str, object]:
        return {"token": SECRET, "expires_at": datetime(2020, 1, 1, tzinfo=timezone.utc)}

    with pytest.raises(StoreDeniedError, match="has expired already") as caught:
        DeltaTable("gs://b/t", storage_options={"credential_provider": provider})
    assert SECRET not in str(caught.value)


# --- web identity -----------------------------------------------------------------------------------------------------


def certificate(scratch: Path) -> Path:
    """A self-signed certificate for loopback, with its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(timezone.utc)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "loopback")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - HOUR).not_valid_after(now + 24 * HOUR)
    signed = builder.sign(key, hashes.SHA256())
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path = scratch / "loopback.pem"
    path.write_bytes(signed.public_bytes(encoding) + secret)
    return path


class Sts:
    """moto's STS; its first credential has expired. The requested parameters are recorded."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.asked: list[dict[str, str]] = []
        self.keys: list[str] = []

    def __call__(self, request: Request, ask: Callable[[], Answer]) -> Answer | None:
        query = urlsplit(request.path).query
        self.asked.append({name: values[0] for name, values in parse_qs(query).items()})
        # moto recognises an unsigned request by its body alone.
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(self.endpoint, query.encode(), form), timeout=30) as answer:
            text = answer.read().decode()
        match = re.search("<AccessKeyId>(.*)</AccessKeyId>", text)
        assert match is not None, text
        self.keys.append(match[1])
        if len(self.asked) == 1:
            text = re.sub("<Expiration>[^<]*", "<Expiration>2020-01-01T00:00:00Z", text)
        return Answer(200, [("Content-Type", "text/xml")], text.encode())


def test_web_identity_is_exchanged_and_renewed(moto_server: S3Server, tmp_path: Path) -> None:
    """AssumeRoleWithWebIdentity with the token in a file, which is read again each time since the
    platform replaces it."""
    table, signers, sts = f"{moto_server.new_bucket()}/t", Signers(), Sts(moto_server.endpoint)
    token = tmp_path / "token"
    token.write_text("first-web-token")
    secure = certificate(tmp_path)
    with (
        forwarding(moto_server.endpoint, signers) as endpoint,
        forwarding(moto_server.endpoint, sts, secure) as sts_endpoint,
    ):
        options = {
            **without_keys(moto_server, endpoint),
            "aws_web_identity_token_file": str(token),
            "aws_role_arn": "arn:aws:iam::123456789012:role/reader",
            "aws_role_session_name": "tables",
            "aws_endpoint_url_sts": sts_endpoint,
            "allow_invalid_certificates": "true",
        }
        write_deltalake(table, rows(0), storage_options=options)
        token.write_text("second-web-token")
        assert ids(DeltaTable(table, storage_options=options)) == [0]
        assert {asked["RoleArn"] for asked in sts.asked} == {options["aws_role_arn"]}
        assert {asked["RoleSessionName"] for asked in sts.asked} == {"tables"}
        tokens = [asked["WebIdentityToken"] for asked in sts.asked]
        assert tokens[0] == "first-web-token"
        assert tokens[-1] == "second-web-token"
        # The expired credential was replaced before the next request, so it signed the requests
        # that began side by side with the first one: the hint and the listing.
        assert set(signers.seen) == set(sts.keys)
        assert signers.seen.count(sts.keys[0]) <= 2
        # Plain http is refused, since tokens must not be sent unencrypted.
        plain = {**options, "aws_endpoint_url_sts": moto_server.endpoint, "max_retries": "0"}
        with pytest.raises(DeltaError) as caught:
            DeltaTable(table, storage_options=plain)
        assert "second-web-token" not in str(caught.value)
        assert len(sts.asked) == len(tokens)


# --- Google -----------------------------------------------------------------------------------------------------------


def service_account(scratch: Path) -> tuple[Path, Any]:
    """The file of a service account, and its public key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    key = rsa.generate_private_key(65537, 2048)
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode()
    account = {
        "type": "service_account",
        "private_key": secret,
        "private_key_id": "key-1",
        "client_email": "reader@project.iam",
    }
    path = scratch / "account.json"
    path.write_text(json.dumps(account))
    return path, key.public_key()


@pytest.mark.parametrize("option", ["google_service_account", "google_application_credentials"])
def test_a_service_account_signs_its_own_tokens(option: str, tmp_path: Path) -> None:
    """Each token is valid for an hour, without a request to a server."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    path, public = service_account(tmp_path)
    seen: list[str] = []

    def serve(request: Request, ask: Callable[[], Answer]) -> Answer | None:
        seen.append(request.headers["authorization"])
        return Answer(404, [], b"")

    with forwarding("http://127.0.0.1:1", serve) as endpoint:
        options = {option: str(path), "google_base_url": endpoint, "allow_http": "true"}
        with pytest.raises(DeltaError) as caught:
            DeltaTable("gs://bucket/t", storage_options=options)
    assert "PRIVATE KEY" not in str(caught.value)
    assert len(set(seen)) == 1
    message, _, signature = seen[0].removeprefix("Bearer ").rpartition(".")

    def decoded(text: str) -> bytes:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))

    public.verify(decoded(signature), message.encode(), padding.PKCS1v15(), hashes.SHA256())
    claims = json.loads(decoded(message.split(".")[1]))
    assert claims["iss"] == "reader@project.iam"
    assert claims["exp"] - claims["iat"] == 3600
    assert decoded(signature).hex() not in str(caught.value)


def test_an_external_account_is_refused_with_the_way_to_go(tmp_path: Path) -> None:
    path = tmp_path / "external.json"
    path.write_text(
        json.dumps({"type": "external_account", "audience": "a", "token_url": "https://sts.googleapis.com"})
    )
    with pytest.raises(InvalidArgumentError, match=r"external_account.*credential_provider"):
        DeltaTable("gs://bucket/t", storage_options={"google_application_credentials": str(path)})
