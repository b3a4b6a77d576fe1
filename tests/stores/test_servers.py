"""A table's life, racing writers and refusals on every store's server; the contract suite of the
store crate over all of them."""

from __future__ import annotations

import json
import logging
import os
import pickle
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import DeltaError, StoreDeniedError, TableNotFoundError
from stores import contract
from stores.numbers import ids
from stores.numbers import partitioned_rows as rows

if TYPE_CHECKING:
    from stores.servers import StoreServer

WRITERS, APPENDS = 4, 5


def test_a_table_s_life(store_server: StoreServer) -> None:
    """P001, P036: created, appended to by racing threads, deleted from, checkpointed, read at old
    versions, cleaned up."""
    table, options = f"{store_server.new_bucket()}/some/deep er/tablé", store_server.options
    assert not DeltaTable.is_deltatable(table, options)
    retention = "interval 0 days"
    configuration = {"delta.logRetentionDuration": retention, "delta.deletedFileRetentionDuration": retention}
    write_deltalake(table, rows(0, 3), storage_options=options, partition_by="p", configuration=configuration)

    def append(writer: int) -> list[int | None]:
        firsts = range(100 + writer * APPENDS, 100 + (writer + 1) * APPENDS)
        return [
            write_deltalake(table, rows(first, 1), mode="append", storage_options=options).version for first in firsts
        ]

    with ThreadPoolExecutor(WRITERS) as pool:
        versions = sorted(v or 0 for made in pool.map(append, range(WRITERS)) for v in made)
    total = WRITERS * APPENDS
    assert versions == list(range(1, total + 1))
    opened = DeltaTable(table, storage_options=options)
    appended = list(range(100, 100 + total))
    assert ids(opened) == [0, 1, 2, *appended]
    opened.delete("id >= 100 AND id % 2 = 0")
    odd = [n for n in appended if n % 2]
    assert ids(opened) == [0, 1, 2, *odd]
    assert ids(DeltaTable(table, version=0, storage_options=options)) == [0, 1, 2]
    opened.create_checkpoint()
    write_deltalake(opened, rows(500, 1), mode="append")
    assert ids(pickle.loads(pickle.dumps(opened))) == [0, 1, 2, *odd, 500]
    assert [entry["version"] for entry in opened.history()] == list(range(total + 2, -1, -1))
    assert all(uri.startswith(table.split("/some")[0]) for uri in opened.file_uris())
    opened.cleanup_metadata()
    assert ids(DeltaTable(table, storage_options=options)) == [0, 1, 2, *odd, 500]


def test_racing_creators_make_one_table(store_server: StoreServer) -> None:
    table, options = f"{store_server.new_bucket()}/t", store_server.options

    def create(n: int) -> int | None:
        return write_deltalake(table, rows(n, 1), mode="ignore", storage_options=options).version

    with ThreadPoolExecutor(WRITERS) as pool:
        made = list(pool.map(create, range(WRITERS)))
    opened = DeltaTable(table, storage_options=options)
    assert (opened.version(), made.count(0), opened.count()) == (0, 1, 1)


def test_a_bucket_that_does_not_exist(store_server: StoreServer) -> None:
    missing = store_server.bucket("no-such-bucket-anywhere/t")
    with pytest.raises((TableNotFoundError, StoreDeniedError), match="no-such-bucket"):
        DeltaTable(missing, storage_options=store_server.options)


# --- no text shows a credential -----------------------------------------------------------------------------------------

# Generated for this test, in the stores' formats; none grants access.
S3_SECRETS = {
    "AWS_ACCESS_KEY_ID": "AKIAVERYSECRETKEYID1",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMIK7MDENGbPxRfiCYsecret",
    "AWS_SESSION_TOKEN": "token-that-nobody-may-see",
}
AZURE_KEY = {"AZURE_STORAGE_ACCOUNT_KEY": "bm9ib2R5IG1heSBzZWUgdGhpcyBhY2NvdW50IGtleQ=="}
AZURE_SAS = {"AZURE_STORAGE_SAS_TOKEN": "sv=2024-11-04&sp=rl&sig=bm9ib2R5TWF5U2VlVGhpc1Rva2Vu%2B%3D"}
AZURE_BEARER = {"AZURE_STORAGE_TOKEN": "bearer.that.nobody.may.see"}
GOOGLE_BEARER = {"GOOGLE_BEARER_TOKEN": "ya29.token-that-nobody-may-see"}
GOOGLE_JSON = {
    "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(
        {
            "type": "service_account",
            "private_key_id": "keyidthatnobodymaysee",
            "private_key": "-----BEGIN PRIVATE KEY-----\nbm90QUtleUJ1dE5vYm9keU1heVNlZUl0\n-----END PRIVATE KEY-----\n",
            "client_email": "somebody@project.iam.gserviceaccount.com",
        }
    )
}
# Texts that must not appear: whole values, and the pieces of compound ones.
PIECES = (
    *S3_SECRETS.values(),
    *AZURE_KEY.values(),
    *AZURE_BEARER.values(),
    *GOOGLE_BEARER.values(),
    "bm9ib2R5TWF5U2VlVGhpc1Rva2Vu",
    "bm90QUtleUJ1dE5vYm9keU1heVNlZUl0",
    "keyidthatnobodymaysee",
)


# HDFS has no secret options: it uses a user's name, or Kerberos's own files.
SECRETS = {
    "hdfs": [],
    "s3": [S3_SECRETS],
    "az": [AZURE_KEY, AZURE_SAS, AZURE_BEARER],
    "gs": [GOOGLE_BEARER, GOOGLE_JSON],
}


def test_no_text_shows_a_credential(
    store_server: StoreServer, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Replaces the server's credentials: servers that check signatures refuse, the others work."""
    caplog.set_level(logging.DEBUG)
    texts = [text for secrets in SECRETS[store_server.scheme] for text in _texts(store_server, secrets)]
    out, err = capfd.readouterr()
    texts += [out, err, caplog.text]
    whole = [value for secrets in SECRETS[store_server.scheme] for value in secrets.values()]
    for piece in (*PIECES, *whole):
        assert [text for text in texts if piece in text] == []


def _texts(store_server: StoreServer, secrets: dict[str, str]) -> list[str]:
    """All texts that a user may see, in failures and in successes."""
    credentials = ("KEY", "SECRET", "TOKEN")
    bare = {k: v for k, v in store_server.options.items() if not any(word in k for word in credentials)}
    options = {**bare, **secrets}
    secret = next(iter(secrets.values()))
    endpoint = next(key for key in bare if "ENDPOINT" in key or "BASE_URL" in key)
    table = f"{store_server.new_bucket()}/t"
    attempts: list[tuple[str, dict[str, str]]] = [
        (table, {}),
        (store_server.bucket("no-such-bucket-anywhere/t"), {}),
        (table, {endpoint: "http://127.0.0.1:9", "max_retries": "0"}),
        (table, {endpoint: f"http://user:{secret[:20]}@127.0.0.1:9", "max_retries": "0"}),
        (table, {"TIMEOUT": secret}),
        (table, {"NO_SUCH_OPTION_AT_ALL": secret}),
        (f"{table}?sig={secret[:40]}", {}),
    ]
    texts: list[str] = []
    for location, changed in attempts:
        changed_options = {**options, **changed}
        for use in (_read, _write):
            try:
                use(location, changed_options)
            except DeltaError as e:
                texts += [str(e), repr(e), "".join(traceback.format_exception_only(e)), repr(vars(e))]
    assert len(texts) >= 4 * len(attempts)
    return texts


def _read(location: str, options: dict[str, str]) -> Any:
    return DeltaTable(location, storage_options=options).to_pyarrow_table()


def _write(location: str, options: dict[str, str]) -> Any:
    opened = write_deltalake(location, pa.table({"id": [1]}), mode="append", storage_options=options)
    return repr(opened)


# --- the contract suite -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_store_contract_in_rust(tmp_path: Path) -> None:
    """P001: racing conditional puts, order of listings, uploads, unusual names, error kinds; with
    the same figures as in the docs."""
    assert "DELTAPLANE_TEST_SERVERS" not in os.environ
    made = contract.proof(contract.run_all(tmp_path))
    assert made == json.loads(contract.PROOF.read_text()), "the proof is out of date: make prove-stores"
