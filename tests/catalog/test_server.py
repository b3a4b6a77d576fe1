"""`deltaplane catalog serve` and its clients: tokens and rights, races of processes, failures."""

from __future__ import annotations

import json
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from catalog.conftest import ALL_BACKENDS, COMMAND, SCHEMA, Lake, ids, rows, serving
from catalog.killing import message
from deltaplane import Catalog, DeltaTable, write_deltalake
from deltaplane.exceptions import StoreDeniedError, StoreUnavailableError

BACKENDS = ALL_BACKENDS


def test_health_metrics_and_a_graceful_stop(database: str, tmp_path: Path) -> None:
    with serving(database, tmp_path / "log", "--anonymous") as (url, process):
        assert urllib.request.urlopen(f"{url}/health").read() == b"ok\n"
        Catalog(url).catalogs()
        assert b"catalogs" in urllib.request.urlopen(f"{url}/metrics").read()
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 0


def test_wrong_tokens_and_missing_rights(database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = Catalog(database)
    owner.create_schema("main.hr")
    tokens = {}
    for name, access in (("reader", "READ"), ("writer", "WRITE")):
        owner.grant(name, access, SCHEMA)
        tokens[name] = owner.create_token(name)
    with serving(database, tmp_path / "log") as (url, _):
        for token in (None, "dpc_wrong"):
            with pytest.raises(StoreDeniedError, match="token") as raised:
                Catalog(url, token).catalogs()
            assert "dpc_wrong" not in str(raised.value)
        writer, reader = Catalog(url, tokens["writer"]), Catalog(url, lambda: tokens["reader"])
        assert writer.schemas("main") == [SCHEMA]
        writer.create_table(f"{SCHEMA}.t", rows().schema)
        write_deltalake(f"uc://{SCHEMA}.t", rows(1), mode="append", storage_options=writer.storage_options)
        assert ids(reader.table(f"{SCHEMA}.t")) == [1]
        with pytest.raises(StoreDeniedError, match="WRITE"):
            reader.table(f"{SCHEMA}.t").delete()
        with pytest.raises(StoreDeniedError):
            writer.create_table("main.hr.t", rows().schema)
        # From a file, and from the environment for the server that it names.
        file = tmp_path / "token"
        file.write_text(tokens["reader"] + "\n")
        assert Catalog(url, storage_options={"catalog_token_file": str(file)}).tables(SCHEMA) == [f"{SCHEMA}.t"]
        monkeypatch.setenv("UNITY_CATALOG_URI", url)
        monkeypatch.setenv("UNITY_CATALOG_TOKEN", tokens["reader"])
        assert ids(DeltaTable(f"uc://{SCHEMA}.t")) == [1]
        monkeypatch.setenv("UNITY_CATALOG_URI", "https://elsewhere.example")
        with pytest.raises(StoreDeniedError):
            Catalog(url).catalogs()
        owner.revoke_tokens("writer")


def test_no_token_is_shown(database: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    owner = Catalog(database)
    owner.grant("writer", "MANAGE")
    secret = owner.create_token("writer")
    caplog.set_level(0)
    with serving(database, tmp_path / "log") as (url, _):
        catalog = Catalog(url, secret)
        table = catalog.create_table(f"{SCHEMA}.t", rows().schema)
        write_deltalake(table, rows(1), mode="append")
        texts = [repr(catalog), str(catalog), repr(table), str(table.detail().to_pylist()), str(table.history())]
        texts += [str(table.metadata()), str(table.explain("id = 1"))]
        texts.append(table._snapshot.location + table._snapshot.uri)
        with pytest.raises(StoreDeniedError) as raised:
            catalog.__class__(url, secret + "x").catalogs()
        texts.append(str(raised.value))
        for path in Path(table.table_uri.removeprefix("file://")).rglob("*"):
            texts.append(path.read_bytes().decode("latin-1") if path.is_file() else str(path))
    texts += [record.getMessage() for record in caplog.records] + [(tmp_path / "log").read_text()]
    assert not [text for text in texts if secret in text]
    # What carries options anyway.
    assert secret.encode() in pickle.dumps(table)
    assert secret.encode() in pickle.dumps(catalog)
    plan = pickle.dumps([table._snapshot.tracked_columns, table._snapshot.schema])
    assert secret.encode() not in plan


def _append(options: dict[str, str], first: int, count: int, start: str) -> None:
    while not os.path.exists(start):
        time.sleep(0.01)
    for number in range(first, first + count):
        write_deltalake(f"uc://{SCHEMA}.t", rows(number), mode="append", storage_options=options)


def test_racing_processes(lake: Lake, tmp_path: Path) -> None:
    lake.write("t", rows())
    context, start, count = multiprocessing.get_context("spawn"), str(tmp_path / "start"), 6
    processes = [
        context.Process(target=_append, args=(lake.options, first * count, count, start)) for first in range(8)
    ]
    for process in processes:
        process.start()
    Path(start).touch()
    for process in processes:
        process.join(300)
    assert [process.exitcode for process in processes] == [0] * 8
    table = lake.open("t")
    assert (table.version(), ids(table)) == (8 * count, list(range(8 * count)))


def _in_child(lake: Lake, table: DeltaTable) -> None:
    assert ids(table) == [1]
    lake.write("t", rows(2))
    table.update_incremental()
    assert ids(table) == [1, 2]


def test_a_forked_child_has_connections_of_its_own(lake: Lake) -> None:
    lake.write("t", rows(1))
    table = lake.open("t")
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(lake, table))
    child.start()
    child.join(120)
    assert child.exitcode == 0
    lake.write("t", rows(3))
    assert ids(lake.open("t")) == [1, 2, 3]


@contextmanager
def losing_answers(target: str) -> Iterator[tuple[str, threading.Event]]:
    """A URL before a server; while the event is set, answers to requests that change something are
    lost after the server decided."""
    host, port = target.removeprefix("http://").split(":")
    loses, listener = threading.Event(), socket.create_server(("127.0.0.1", 0))

    def serve(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as server:
            while request := message(client):
                server.sendall(request)
                answer = message(server)
                if loses.is_set() and request.startswith(b"POST"):
                    return
                client.sendall(answer)

    def accept() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=_quietly, args=(serve, client), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}", loses
    finally:
        listener.close()


def _quietly(serve: Callable[[socket.socket], None], client: socket.socket) -> None:
    with suppress(OSError):
        serve(client)


def test_lost_answers_are_looked_up(database: str, tmp_path: Path) -> None:
    with serving(database, tmp_path / "log", "--anonymous") as (url, _), losing_answers(url) as (address, loses):
        lake = Lake(Catalog(address), database)
        lake.write("t", rows(0))
        loses.set()
        for number in range(1, 4):
            lake.write("t", rows(number))
        loses.clear()
        table = lake.open("t")
        assert (table.version(), ids(table)) == (3, [0, 1, 2, 3])


def test_a_catalog_that_goes_away_in_a_commit(database: str, tmp_path: Path) -> None:
    with serving(database, tmp_path / "log", "--anonymous") as (url, process):
        lake = Lake(Catalog(url), database)
        lake.write("t", rows(0))
        process.kill()
        process.wait()
        with pytest.raises(StoreUnavailableError, match="can't be reached"):
            lake.write("t", rows(1))
    # The owner of the database goes on.
    later = Lake(Catalog(database), database)
    later.write("t", rows(2))
    assert ids(later.open("t")) == [0, 2]


def test_the_server_starts_quickly(database: str, tmp_path: Path) -> None:
    begun = time.perf_counter()
    with serving(database, tmp_path / "log", "--anonymous"):
        seconds = time.perf_counter() - begun
    # 0.3 s on a quiet machine; tests share theirs.
    assert seconds < 10


def test_verbs_take_names(database: str, tmp_path: Path) -> None:
    def run(*arguments: str) -> str:
        done = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    option = ("-o", f"catalog={database}")
    name = f"uc://{SCHEMA}.t"
    write_deltalake(name, rows(1, 2), storage_options={"catalog": database})
    write_deltalake(name, rows(3), mode="append", storage_options={"catalog": database})
    assert [entry["version"] for entry in json.loads(run("history", name, *option, "--json"))] == [1, 0]
    assert json.loads(run("info", name, *option, "--json"))["version"] == 1
    run("optimize", name, *option)
    run("checkpoint", name, *option)
    run("vacuum", name, *option, "--dry-run")
    run("check", name, *option)
    assert "3" in run("sql", "--catalog", database, f"SELECT count(*) AS n FROM {SCHEMA}.t", "--json")
    assert json.loads(run("catalog", "list", database, "--json")) == [{"name": "main"}]
    assert json.loads(run("catalog", "list", database, SCHEMA, "--json"))[0]["full_name"] == f"{SCHEMA}.t"
    published = json.loads(run("catalog", "backfill", database, "--json"))
    assert published == [{"table": f"{SCHEMA}.t", "published": 2}]
    assert json.loads(run("catalog", "check", database, "--json")) == []
    run("catalog", "repair", database)
    run("catalog", "create", database, "main.new")
    run("catalog", "rename", database, f"{SCHEMA}.t", "u")
    run("catalog", "drop", database, f"{SCHEMA}.u")
    assert sys.executable in COMMAND


def test_check_finds_tables_without_files(database: str) -> None:
    import shutil

    lake = Lake(Catalog(database), database)
    lake.write("t", rows(1))
    shutil.rmtree(lake.folder("t"))
    done = subprocess.run(
        [*COMMAND, "catalog", "check", database, "--json"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, [row["table"] for row in json.loads(done.stdout)]) == (1, [f"{SCHEMA}.t"])
