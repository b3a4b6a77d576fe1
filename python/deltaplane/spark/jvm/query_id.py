"""Reads the id of a streaming query, which is constant for a checkpoint location, from Spark's file
there."""

from __future__ import annotations

import json

from deltaplane import _native
from deltaplane.exceptions import DeltaError, InvalidArgumentError

__all__ = ["query_id"]

# Spark writes the file before the first micro-batch.
_FILE = "metadata"


def query_id(checkpoint: str | None) -> str:
    """The id of the query with this checkpoint location.

    Raises:
        InvalidArgumentError: no location, or its file can't be read from this process; the message
            suggests `txnAppId`.
    """
    advice = "set the option txnAppId to a name of your own for the query, the same after each restart"
    if checkpoint is None:
        raise InvalidArgumentError(
            'a stream is written exactly once by the id in its checkpoint: .option("checkpointLocation", …) before '
            f"start(), which this sink doesn't see when the session's settings have it; or {advice}"
        )
    try:
        text = _native.RawStore.open(checkpoint).read(_FILE)
        known = json.loads(text)["id"]
    except (DeltaError, ValueError, KeyError) as e:
        raise InvalidArgumentError(
            f"the query's id can't be read from its checkpoint location {checkpoint}: {e}; {advice}"
        ) from e
    return str(known)
