"""Classes of requests and results: they have the fields of the Rust structs of their names, are
frozen, compare and pickle by their fields, and refuse what doesn't fit."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pytest

from deltaplane import _native, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.records import LogFiles, Record, TailLimits

pa = pytest.importorskip("pyarrow")

CLASSES: dict[str, type[Record]] = {record.__name__: record for record in Record.__subclasses__()}


def fields_of_classes() -> dict[str, list[str]]:
    return {
        name: sorted(record._fields) for name, record in CLASSES.items() if record.__module__.startswith("deltaplane.")
    }


def test_classes_have_the_fields_of_the_structs_of_their_names() -> None:
    if _native.build_profile != "dev":
        pytest.skip("only builds for tests tell the structs' fields")
    structs: dict[str, list[str]] = _native.record_fields()  # type: ignore[attr-defined]
    assert {name: sorted(fields) for name, fields in structs.items()} == fields_of_classes()


def test_every_class_is_found_by_its_name() -> None:
    assert fields_of_classes().keys() <= set(records.__all__)
    assert all(getattr(records, name) is CLASSES[name] for name in fields_of_classes())


class Pair(Record):
    """A class of this test alone."""

    left: int
    right: Any = None


def test_a_record_holds_its_fields_and_is_frozen() -> None:
    pair = Pair(1, right=[LogFiles(2, 3)])
    assert (pair.left, pair.right, Pair(1).right) == (1, [LogFiles(2, 3)], None)
    assert repr(pair) == "Pair(left=1, right=[LogFiles(files=2, size_bytes=3)])"
    assert pair.to_dict() == {"left": 1, "right": [{"files": 2, "size_bytes": 3}]}
    assert list(LogFiles(size_bytes=1, files=2).to_dict()) == ["files", "size_bytes"]
    with pytest.raises(AttributeError, match="frozen"):
        pair.left = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del pair.left
    with pytest.raises(TypeError, match="unhashable"):
        hash(pair)


def test_records_are_equal_if_class_and_fields_are() -> None:
    assert Pair(1, 2) == Pair(left=1, right=2)
    assert Pair(1, 2) != Pair(1, 3)
    assert Pair(1, 2) != LogFiles(1, 2)
    again = pickle.loads(pickle.dumps(Pair(1, LogFiles(1, 2))))
    assert (again, type(again.right)) == (Pair(1, LogFiles(1, 2)), LogFiles)


@pytest.mark.parametrize(
    ("values", "named", "message"),
    [
        ((1, 2, 3), {}, "takes 2 fields, not 3"),
        ((1,), {"left": 1}, "two values for its field left"),
        ((1,), {"middle": 1}, "no field middle"),
        ((), {"right": 1}, "needs a value for its field left"),
    ],
)
def test_wrong_fields_are_refused(values: tuple[int, ...], named: dict[str, int], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Pair(*values, **named)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        (LogFiles(1, 2), "a LogFiles was passed where a TailLimits is needed"),
        ({"files": 1}, "a dict was passed where a TailLimits is needed"),
        (TailLimits(files="x"), "not a TailLimits"),  # type: ignore[arg-type]
        (TailLimits(files=-1), "not a TailLimits"),
        (TailLimits(files=1 << 70), "not a TailLimits"),
    ],
)
def test_a_request_that_does_not_fit_is_refused_by_name(request_: Any, message: str, tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"a": [1]}))
    tail = _native.Tail.open(str(tmp_path), None, records.TailRequest())
    start = tail.start(records.TailStart())
    assert tail.end(start, TailLimits(files=1)) != start
    with pytest.raises(InvalidArgumentError, match=message):
        tail.end(start, request_)
