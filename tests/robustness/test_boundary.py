"""A panic of the core reaches Python as an InternalError that asks for a report, wherever it
happens."""

from __future__ import annotations

import pyarrow as pa
import pytest

from deltaplane import _native
from deltaplane.exceptions import InternalError

panic_at = getattr(_native, "panic_at", None)
pytestmark = pytest.mark.skipif(panic_at is None, reason="a build for users has no panic on demand")


@pytest.mark.parametrize("place", ["call", "work", "task"])
def test_a_panic_in_a_call_is_an_internal_error(place: str) -> None:
    assert panic_at is not None
    for _ in range(2):
        with pytest.raises(InternalError, match=r"planted.*report"):
            panic_at(place)


def test_a_panic_behind_a_stream_is_an_error_of_the_stream() -> None:
    assert panic_at is not None
    stream = panic_at("stream")
    with pytest.raises(pa.ArrowInvalid, match="planted"):
        pa.RecordBatchReader.from_stream(stream).read_all()
    with pytest.raises(InternalError, match=r"planted, at .*planted\.rs.*report"):
        stream.raise_error()
