"""Tables on S3 (moto's server): modes, racing writers, refusals; no credential in any text.

Crate tests cover the log on a store; this file tests the Python interface. test_servers.py runs on
every store.
"""

from __future__ import annotations

import logging
import os
import pickle
import subprocess
import sys
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import StoreDeniedError, StoreUnavailableError, TableNotFoundError
from stores.numbers import ids
from stores.numbers import partitioned_rows as rows

if TYPE_CHECKING:
    from tests.conftest import S3Server

WRITERS, APPENDS = 4, 10
# Maximum time until a user learns that a credential is missing, without waiting for a metadata
# address to time out.
DENIED_SECONDS = 30
SECRETS = ("AKIAVERYSECRETKEYID1", "wJalrXUtnFEMIK7MDENGbPxRfiCYsecret", "token-that-nobody-may-see")


def test_a_table_s_life(moto_server: S3Server) -> None:
    table, options = f"{moto_server.new_bucket()}/some/deep er/tablé", moto_server.options
    assert not DeltaTable.is_deltatable(table, options)
    with pytest.raises(TableNotFoundError):
        DeltaTable(table, storage_options=options)
    write_deltalake(table, rows(0, 3), storage_options=options, partition_by="p")
    write_deltalake(table, rows(3, 3), storage_options=options, mode="append")
    assert write_deltalake(table, rows(9, 1), storage_options=options, mode="ignore").skipped == "exists"
    opened = DeltaTable(table, storage_options=options)
    assert ids(opened) == list(range(6))
    write_deltalake(opened, rows(10, 2), mode="overwrite", predicate="p = 'a/b é'")
    assert (opened.version(), ids(opened)) == (2, [10, 11])
    assert ids(DeltaTable(table, version=0, storage_options=options)) == [0, 1, 2]
    opened.create_checkpoint()
    assert ids(pickle.loads(pickle.dumps(opened))) == [10, 11]
    assert all(uri.startswith(table.split("/some")[0]) for uri in opened.file_uris())
    assert [entry["version"] for entry in opened.history()] == [2, 1, 0]


def test_the_options_keys_of_deltalake(moto_server: S3Server) -> None:
    """deltaplane's tables with deltalake's reader and writer under the same options, and the
    reverse."""
    import deltalake

    table, options = f"{moto_server.new_bucket()}/t", {**moto_server.options, "conditional_put": "etag"}
    write_deltalake(table, rows(0, 3), storage_options=options)
    deltalake.write_deltalake(table, rows(3, 3), mode="append", storage_options=options)
    assert ids(DeltaTable(table, storage_options=options)) == list(range(6))
    theirs = deltalake.DeltaTable(table, storage_options=options)
    assert sorted(theirs.to_pyarrow_table()["id"].to_pylist()) == list(range(6))


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
@pytest.mark.parametrize("lower", [False, True])
def test_spellings(scheme: str, lower: bool, moto_server: S3Server) -> None:
    options = {k.lower() if lower else k: v for k, v in moto_server.options.items()}
    table = f"{moto_server.new_bucket()}/t".replace("s3:", f"{scheme}:")
    write_deltalake(table, rows(0, 1), storage_options=options)
    assert ids(DeltaTable(table, storage_options=options)) == [0]


def test_racing_writers_lose_nothing(moto_server: S3Server) -> None:
    table, options = f"{moto_server.new_bucket()}/t", moto_server.options
    write_deltalake(table, rows(0, 0), storage_options=options)

    def append(writer: int) -> list[int | None]:
        first = writer * APPENDS
        return [
            write_deltalake(table, rows(first + n, 1), mode="append", storage_options=options).version
            for n in range(APPENDS)
        ]

    with ThreadPoolExecutor(WRITERS) as pool:
        versions = [version for made in pool.map(append, range(WRITERS)) for version in made]
    assert sorted(v for v in versions if v is not None) == list(range(1, WRITERS * APPENDS + 1))
    opened = DeltaTable(table, storage_options=options)
    assert opened.version() == WRITERS * APPENDS
    assert [entry["version"] for entry in opened.history()] == list(range(WRITERS * APPENDS, -1, -1))
    assert ids(opened) == list(range(WRITERS * APPENDS))


def test_racing_creators_make_one_table(moto_server: S3Server) -> None:
    table, options = f"{moto_server.new_bucket()}/t", moto_server.options

    def create(n: int) -> int | None:
        return write_deltalake(table, rows(n, 1), mode="ignore", storage_options=options).version

    with ThreadPoolExecutor(WRITERS) as pool:
        made = list(pool.map(create, range(WRITERS)))
    opened = DeltaTable(table, storage_options=options)
    assert (opened.version(), made.count(0), opened.count()) == (0, 1, 1)
    assert made.count(None) == WRITERS - 1


def test_missing_credentials_are_said_at_once(moto_server: S3Server) -> None:
    """Without endpoint and key: fails without waiting for a cloud's metadata addresses."""
    code = (
        "from deltaplane import DeltaTable\n"
        "from deltaplane.exceptions import StoreDeniedError\n"
        "try:\n"
        f"    DeltaTable('s3://some-bucket/t', storage_options={{'AWS_ENDPOINT_URL': {moto_server.endpoint!r}, 'AWS_ALLOW_HTTP': 'true', 'AWS_REGION': 'us-east-1'}})\n"
        "except StoreDeniedError as e:\n"
        "    print(e)\n"
    )
    clean = {k: v for k, v in os.environ.items() if not k.upper().startswith("AWS_")}
    clean["HOME"] = "/nonexistent"
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=clean)
    assert time.monotonic() - began < DENIED_SECONDS
    assert done.returncode == 0, done.stderr
    assert "aws_access_key_id" in done.stdout.lower()
    assert "aws_secret_access_key" in done.stdout.lower()


def test_an_endpoint_that_nobody_serves(moto_server: S3Server) -> None:
    options = {**moto_server.options, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1:9|endpoint"):
        DeltaTable("s3://some-bucket/t", storage_options=options)
    assert time.monotonic() - began < 60


def test_a_bucket_that_does_not_exist(moto_server: S3Server) -> None:
    with pytest.raises((TableNotFoundError, StoreDeniedError), match="no-such-bucket"):
        DeltaTable("s3://no-such-bucket-anywhere/t", storage_options=moto_server.options)


def test_no_text_shows_a_credential(moto_server: S3Server, caplog: pytest.LogCaptureFixture, capfd: Any) -> None:
    key, secret, token = SECRETS
    good = {
        **moto_server.options,
        "AWS_ACCESS_KEY_ID": key,
        "AWS_SECRET_ACCESS_KEY": secret,
        "AWS_SESSION_TOKEN": token,
    }
    caplog.set_level(logging.DEBUG)
    table = f"{moto_server.new_bucket()}/t"
    texts: list[str] = []
    write_deltalake(table, rows(0, 2), storage_options=good)
    opened = DeltaTable(table, storage_options=good)
    texts += [repr(opened), str(opened), opened.table_uri, repr(opened.scan()), repr(opened.history())]
    texts += opened.file_uris()
    attempts: list[tuple[str, dict[str, Any]]] = [
        ("s3://no-such-bucket-anywhere/t", {}),
        (table, {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}),
        (table, {"AWS_ENDPOINT_URL": f"http://{key}:{secret}@127.0.0.1:9"}),
        (table, {"AWS_ALLOW_HTTP": "perhaps"}),
        (table, {"AWS_ALLOW_HTTP": "false"}),
        (table, {"AWS_NO_SUCH_OPTION": secret}),
        (table + "/missing", {}),
        (f"s3://{key}:{secret}@bucket/t", {}),
        (f"{table}?X-Amz-Signature={secret}", {}),
    ]
    for location, changed in attempts:
        for use in (
            lambda path, o: DeltaTable(path, storage_options=o).to_pyarrow_table(),
            lambda path, o: write_deltalake(path, pa.table({"other": [1]}), mode="append", storage_options=o),
        ):
            try:
                use(location, {**good, **changed})
            except Exception as e:  # noqa: BLE001 - whatever is raised, its text is what matters
                texts += [str(e), repr(e), "".join(traceback.format_exception_only(e)), repr(vars(e))]
    out, err = capfd.readouterr()
    texts += [out, err, caplog.text]
    for credential in SECRETS:
        assert [text for text in texts if credential in text] == []
