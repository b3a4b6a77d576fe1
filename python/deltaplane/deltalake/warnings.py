"""deltalake's warnings."""

from __future__ import annotations


class ExperimentalWarning(Warning):
    """A feature that may still change."""
