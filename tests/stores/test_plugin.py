"""Stores written in Python: the contract check's findings, tables on them, races, failures, and
waiting without the GIL."""

from __future__ import annotations

import math
import os
import pickle
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ClassVar

import pytest

from deltaplane import DeltaTable, LogStore, StoredObject, register_log_store, write_deltalake
from deltaplane.exceptions import (
    DeltaError,
    InvalidArgumentError,
    StoreDeniedError,
    StoreUnavailableError,
    UnsupportedFeatureError,
)
from deltaplane.io.log_store_check import LogStoreContractError, check_log_store
from deltaplane.spark.jvm.location import absolute_location
from stores import proofs
from stores.folder_store import Folder
from stores.numbers import ids, rows

WRITERS, APPENDS, PROCESSES = 4, 6, 3
TESTS = Path(__file__).resolve().parents[1]


class Service(LogStore):
    """A commit service: it decides commits itself and uses a built-in directory store for
    everything else."""

    decided: ClassVar[dict[str, bytes]] = {}
    lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, location: str, options: dict[str, str]) -> None:
        self.table = Path(options["folder"]) / location.partition("://")[2]
        self.base = str(self.table)
        self.base_options = {}

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if not path.endswith(".json"):
            return NotImplemented
        file = self.table / path
        with self.lock:
            if self.decided.setdefault(str(file), data) is not data:
                return False
            file.parent.mkdir(parents=True, exist_ok=True)
            draft = file.with_name(f".{file.name}")
            draft.write_bytes(data)
            draft.replace(file)
        return True


class Failing(Folder):
    """Fails `times` puts with `failure`; `after_writing` says whether the put is executed before it
    fails."""

    failure: ClassVar[Exception | None] = None
    after_writing: ClassVar[bool] = False
    times: ClassVar[float] = 1

    def put_if_absent(self, path: str, data: bytes) -> bool:
        failure = Failing.failure if Failing.times > 0 else None
        Failing.times -= 1
        if failure is None:
            return super().put_if_absent(path, data)
        if self.after_writing:
            super().put_if_absent(path, data)
        raise failure


class Overtaken(Folder):
    """Its next listing misses a commit, like the listing of a directory during a write."""

    misses: ClassVar[str | None] = None

    def list_from(self, directory: str, name: str) -> Iterable[StoredObject]:
        missed, Overtaken.misses = Overtaken.misses, None
        return [o for o in super().list_from(directory, name) if missed is None or not o.path.endswith(missed)]


STORES = {"folder": Folder, "overtaken": Overtaken, "service": Service, "failing": Failing}


@pytest.fixture(autouse=True)
def registered() -> None:
    Failing.failure, Failing.times = None, 1
    for name, store in STORES.items():
        register_log_store(f"test-{name}", store)


def place(store: str) -> str:
    return f"test-{store}://host:1/{uuid.uuid4().hex}/a b"


@pytest.mark.parametrize("store", ["folder", "service"])
def test_a_table_s_life(store: str, tmp_path: Path) -> None:
    table, options = place(store), {"folder": str(tmp_path)}
    assert not DeltaTable.is_deltatable(table, options)
    write_deltalake(table, rows(0, 3), storage_options=options)
    write_deltalake(table, rows(3, 3), mode="append", storage_options=options)
    opened = DeltaTable(table, storage_options=options)
    assert (opened.table_uri, ids(opened)) == (table, list(range(6)))
    opened.delete("id = 1")
    opened.create_checkpoint()
    assert ids(pickle.loads(pickle.dumps(opened))) == [0, 2, 3, 4, 5]
    write_deltalake(opened, rows(10, 2), mode="overwrite")
    assert ids(DeltaTable(table, storage_options=options)) == [10, 11]
    assert ids(DeltaTable(table, version=1, storage_options=options)) == list(range(6))
    assert [entry["version"] for entry in opened.history()] == [3, 2, 1, 0]


def test_a_commit_that_only_a_listing_missed_is_no_gap(tmp_path: Path) -> None:
    table, options = place("overtaken"), {"folder": str(tmp_path)}
    for n in range(4):
        write_deltalake(table, rows(n), mode="append", storage_options=options)
    Overtaken.misses = f"{2:020d}.json"
    assert ids(DeltaTable(table, storage_options=options)) == [0, 1, 2, 3]
    assert Overtaken.misses is None


@pytest.mark.parametrize("store", ["folder", "service"])
def test_racing_threads_lose_nothing(store: str, tmp_path: Path) -> None:
    table, options = place(store), {"folder": str(tmp_path)}
    write_deltalake(table, rows(0, 0), storage_options=options)

    def appends(writer: int) -> None:
        for n in range(APPENDS):
            write_deltalake(table, rows(writer * APPENDS + n), mode="append", storage_options=options)

    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(appends, range(WRITERS)))
    opened = DeltaTable(table, storage_options=options)
    assert (opened.version(), ids(opened)) == (WRITERS * APPENDS, list(range(WRITERS * APPENDS)))


_APPENDING = """
import sys, pyarrow as pa
from deltaplane import register_log_store, write_deltalake
from stores.folder_store import Folder
table, folder, first, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
register_log_store("test-folder", Folder)
for n in range(first, first + count):
    data = pa.table({"id": pa.array([n], pa.int64())})
    write_deltalake(table, data, mode="append", storage_options={"folder": folder})
"""


def test_racing_processes_lose_nothing_and_the_contract_is_kept(tmp_path: Path) -> None:
    table, options = place("folder"), {"folder": str(tmp_path)}
    write_deltalake(table, rows(0, 0), storage_options=options)
    running = []
    for n in range(PROCESSES):
        arguments = [table, str(tmp_path), str(n * APPENDS), str(APPENDS)]
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        running.append(subprocess.Popen([sys.executable, "-c", _APPENDING, *arguments], env=environment))
    assert [process.wait(timeout=120) for process in running] == [0] * PROCESSES
    assert ids(DeltaTable(table, storage_options=options)) == list(range(PROCESSES * APPENDS))
    figures = check_log_store("test-folder://check/t", {"folder": str(tmp_path)})
    proofs.tell(
        "plugin",
        title="Stores written in Python",
        claims=[
            f"{PROCESSES} racing processes lose none of their {PROCESSES * APPENDS} appends on a store that keeps LogStore's contract.",
        ],
        figures={
            "racing processes": PROCESSES,
            "appends of racing processes": PROCESSES * APPENDS,
            "commits lost": 0,
            **figures,
        },
        how="DELTAPLANE_PROOFS=1 .venv/bin/python -m pytest tests/stores/test_plugin.py",
    )


class Overwriting(Folder):
    def put_if_absent(self, path: str, data: bytes) -> bool:
        self.put(path, data)
        return True


class Looking(Folder):
    """Checks, then writes: a wrong implementation for stores without conditional writes."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        if (self.table / path).exists():
            return False
        time.sleep(0.002)
        self.put(path, data)
        return True


class Torn(Folder):
    """Creates the name first and then writes in pieces."""

    def put_if_absent(self, path: str, data: bytes) -> bool:
        file = self.table / path
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.open("xb") as opened:
                for start in range(0, len(data), 4000):
                    opened.write(data[start : start + 4000])
                    opened.flush()
                    time.sleep(0.001)
        except FileExistsError:
            return False
        return True


class TornPut(Folder):
    def put(self, path: str, data: bytes) -> None:
        file = self.table / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("wb") as opened:
            opened.write(data[: len(data) // 2])
            opened.flush()
            time.sleep(0.001)
            opened.write(data[len(data) // 2 :])


class Late(Folder):
    """Lists a new file only after a while."""

    def list_from(self, directory: str, name: str) -> Iterable[StoredObject]:
        until = time.time() * 1000 - 5000
        return [entry for entry in super().list_from(directory, name) if entry.modified_ms < until]


class Unsorted(Folder):
    def list_from(self, directory: str, name: str) -> Iterable[StoredObject]:
        return reversed(list(super().list_from(directory, name)))


class Excluding(Folder):
    def list_from(self, directory: str, name: str) -> Iterator[StoredObject]:
        return (entry for entry in super().list_from(directory, name) if entry.path != f"{directory}/{name}")


class Silent(Folder):
    def read(self, path: str) -> bytes:
        try:
            return super().read(path)
        except FileNotFoundError:
            return b""


class Crying(Folder):
    def delete(self, path: str) -> None:
        (self.table / path).unlink()
        raise ValueError("no")


WRONG = {
    Overwriting: "put_if_absent of a taken name says False: True",
    Looking: "of 16 racing writers exactly one creates",
    Torn: "whole, as the winner wrote it",
    TornPut: "sees an overwritten object whole",
    Late: "from '' on, in order: [] instead of",
    Unsorted: "in order",
    Excluding: "from '0010.json' on",
    Silent: "a deleted object is missing: 'an answer'",
    Crying: "Crying.delete failed with ValueError: no, which isn't among the exceptions",
}


@pytest.mark.parametrize("broken", WRONG)
def test_the_check_finds_what_a_store_does_wrong(broken: type[Folder], tmp_path: Path) -> None:
    """P070: puts that aren't atomic, aren't listed at once, or aren't reported."""
    register_log_store("test-broken", broken)
    with pytest.raises(LogStoreContractError) as refused:
        check_log_store("test-broken://check/t", {"folder": str(tmp_path)})
    assert any(WRONG[broken] in failure for failure in refused.value.failures), refused.value
    assert not [file for file in tmp_path.rglob("*") if file.is_file()]


def test_the_check_leaves_alone_what_isn_t_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"mine")
    with pytest.raises(InvalidArgumentError, match="isn't empty: it holds file"):
        check_log_store(str(tmp_path))
    assert (tmp_path / "file").read_bytes() == b"mine"


def test_the_check_tries_built_in_stores_too(tmp_path: Path) -> None:
    assert check_log_store(str(tmp_path / "new"))["writers of each name"] == 16


@pytest.mark.parametrize("arrived", [False, True])
def test_a_put_that_failed_once_is_repeated_and_counted_once(arrived: bool, tmp_path: Path) -> None:
    """P072: the commit's own id identifies its writer."""
    table, options = place("failing"), {"folder": str(tmp_path)}
    write_deltalake(table, rows(0), storage_options=options)
    Failing.failure, Failing.after_writing, Failing.times = RuntimeError("the line is dead"), arrived, 1
    assert write_deltalake(table, rows(1), mode="append", storage_options=options).version == 1
    assert ids(DeltaTable(table, storage_options=options)) == [0, 1]


def test_a_put_whose_outcome_stays_open_names_its_transaction(tmp_path: Path) -> None:
    table, options = place("failing"), {"folder": str(tmp_path), "retry_timeout": "300ms"}
    write_deltalake(table, rows(0), storage_options=options)
    Failing.failure, Failing.after_writing, Failing.times = RuntimeError("the line is dead"), False, math.inf
    with pytest.raises(StoreUnavailableError, match="RuntimeError: the line is dead") as open_outcome:
        write_deltalake(table, rows(1), mode="append", storage_options=options)
    assert "transaction id" in str(open_outcome.value)
    assert "try again" not in str(open_outcome.value)
    assert ids(DeltaTable(table, storage_options=options)) == [0]


@pytest.mark.parametrize(
    ("raised", "expected"),
    [
        (StoreDeniedError("not you"), StoreDeniedError),
        (PermissionError("not you"), StoreDeniedError),
        (TimeoutError("not you"), StoreUnavailableError),
        (OSError("not you"), StoreUnavailableError),
        (FileNotFoundError("not you"), StoreUnavailableError),
        (InvalidArgumentError("not you"), InvalidArgumentError),
        (ZeroDivisionError("not you"), StoreUnavailableError),
    ],
)
def test_exceptions_have_a_meaning(raised: Exception, expected: type[DeltaError], tmp_path: Path) -> None:
    table, options = place("failing"), {"folder": str(tmp_path), "retry_timeout": "300ms"}
    write_deltalake(table, rows(0), storage_options=options)
    Failing.failure, Failing.after_writing, Failing.times = raised, False, math.inf
    with pytest.raises(expected, match="not you") as refused:
        write_deltalake(table, rows(1), mode="append", storage_options=options)
    assert type(raised).__name__ in str(refused.value)
    assert (refused.value.table, refused.value.path) == (table, "_delta_log/00000000000000000001.json")


class Raising(Folder):
    def put_if_absent(self, path: str, data: bytes) -> bool:
        if not super().put_if_absent(path, data):
            raise FileExistsError(path)
        return True


def test_a_taken_name_may_be_told_by_an_exception(tmp_path: Path) -> None:
    register_log_store("test-raising", Raising)
    assert check_log_store("test-raising://x/t", {"folder": str(tmp_path)})["names raced for"] == 20


def test_no_secret_leaves_with_a_store_s_exception(tmp_path: Path) -> None:
    table = place("failing")
    options = {"folder": str(tmp_path), "corp_secret": "hunter2hunter2", "retry_timeout": "300ms"}
    Failing.failure, Failing.after_writing = OSError("GET ?secret=hunter2hunter2"), False
    Failing.times = math.inf
    with pytest.raises(StoreUnavailableError, match=r"\[redacted\]") as refused:
        write_deltalake(table, rows(0), storage_options=options)
    assert "hunter2" not in str(refused.value)
    with pytest.raises(StoreUnavailableError, match="KeyError"):
        write_deltalake(table, rows(0))


class Missing(LogStore):
    def __init__(self, location: str, options: dict[str, str]) -> None:
        pass


class Wrong(Folder):
    def list_from(self, directory: str, name: str) -> Iterable[StoredObject]:
        return ["no object"]  # type: ignore[list-item]


def test_what_is_neither_written_nor_done_by_a_base_is_named() -> None:
    register_log_store("test-missing", Missing)
    with pytest.raises(InvalidArgumentError, match="Missing has no method read"):
        DeltaTable("test-missing://x/t")
    register_log_store("test-missing", Wrong)
    with pytest.raises(StoreUnavailableError, match=r"Wrong\.list_from failed with TypeError"):
        DeltaTable("test-missing://x/t", storage_options={"folder": "/nowhere"})


@pytest.mark.parametrize("scheme", ["s3", "file", "GCS", "", "not a scheme"])
def test_schemes_that_can_t_be_registered(scheme: str) -> None:
    with pytest.raises(InvalidArgumentError):
        register_log_store(scheme, Folder)
    with pytest.raises(InvalidArgumentError, match="no store"):
        DeltaTable("test-nobody://x/t")


def test_spark_refuses_by_name(tmp_path: Path) -> None:
    for location in ("test-folder://x/t", "TEST-folder://x/t"):
        with pytest.raises(UnsupportedFeatureError, match="its log store is registered in this process"):
            absolute_location(location)


_HOLDING_THE_GIL = """
import ctypes, sys, pyarrow as pa
from deltaplane import DeltaTable, register_log_store, write_deltalake
from stores.folder_store import Folder
register_log_store("test-folder", Folder)
options = {"folder": sys.argv[1]}
write_deltalake("test-folder://x/t", pa.table({"id": [1, 2, 3]}), storage_options=options)
capsule = DeltaTable("test-folder://x/t", storage_options=options).scan().__arrow_c_stream__()
pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
stream = pointer(capsule, b"arrow_array_stream")
# struct ArrowArrayStream: get_schema, get_next, ...; a PYFUNCTYPE is called with the GIL held.
get_next = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(
    ctypes.cast(stream, ctypes.POINTER(ctypes.c_void_p))[1]
)
array = (ctypes.c_int64 * 10)()
print(get_next(stream, ctypes.addressof(array)), array[0])
"""


def test_a_reader_that_holds_the_gil_doesn_t_wait_for_ever(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TESTS)}
    command = [sys.executable, "-c", _HOLDING_THE_GIL, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert done.stdout == "0 3\n", done.stderr
