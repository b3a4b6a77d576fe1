"""Appends whose commits are measured alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

__all__ = ["planned_append"]


def planned_append(location: str, options: Mapping[str, str], rows: pa.Table) -> Callable[[], Any]:
    """Plans an append as `write_deltalake` does, and writes its data file. The function that is
    returned commits it, once."""
    from deltaplane import _native
    from deltaplane.write.api import write_rows
    from deltaplane.write.intent import WriteIntent

    own = dict(options)
    request = WriteIntent(mode="append").request(location, own)
    job = _native.WriteJob.begin(location, own, rows.schema, request, ahead=True)
    files = write_rows(location, own, job.spec, rows.to_reader())
    return lambda: job.commit(files)
