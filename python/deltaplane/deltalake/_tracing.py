"""deltalake's version of its core, and its export of traces, which deltaplane doesn't have."""

from __future__ import annotations

import warnings


def rust_core_version() -> str:
    """The version of deltaplane's core."""
    from deltaplane import __version__

    return __version__


def init_tracing(endpoint: str | None = None) -> None:
    """Warns that no traces are sent: deltaplane has events and logging instead."""
    where = endpoint or "OpenTelemetry"
    warnings.warn(f"deltaplane sends no traces to {where}: see docs/deltalake.md", RuntimeWarning, stacklevel=2)


def shutdown_tracing() -> None:
    """Does nothing: no traces are sent."""
