"""deltalake's exceptions: deltaplane's own classes of these names, so that `except` of either
catches
errors of both."""

from __future__ import annotations

from deltaplane.exceptions import (
    CommitFailedError,
    DeltaError,
    DeltaProtocolError,
    SchemaMismatchError,
    TableNotFoundError,
)

__all__ = ["CommitFailedError", "DeltaError", "DeltaProtocolError", "SchemaMismatchError", "TableNotFoundError"]
