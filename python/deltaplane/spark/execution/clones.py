"""The locations of the files of shallow clones, for tasks: this process trusts the clones that it
made, but tasks run in other processes.

Internal to `deltaplane.spark`.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

__all__ = ["note_clone", "with_sources"]

_ALLOWED = "allow_external_files"

# The sources of each clone that this process made, by the clone's path.
_sources: dict[str, set[str]] = {}


def note_clone(clone: str, source: str, options: Mapping[str, str] | None = None) -> None:
    """Records that a table was made a shallow clone of a source, which was read with these
    options."""
    own = {source, *_sources.get(_path(source), ()), *_places(options)}
    _sources.setdefault(_path(clone), set()).update(own)


def with_sources(table: str, options: Mapping[str, str] | None) -> dict[str, str] | None:
    """A store's options with permission for the locations of the table's files, so that tasks may
    read them.

    >>> note_clone("/lake/clone", "/lake/source")
    >>> with_sources("file:///lake/clone", None), with_sources("/lake/other", None)
    ({'allow_external_files': '/lake/source'}, None)
    """
    merged = dict(options or {})
    if sources := _sources.get(_path(table)):
        merged[_ALLOWED] = ",".join(sorted({*sources, *_places(merged)}))
    return merged or None


def _places(options: Mapping[str, str] | None) -> list[str]:
    return [place.strip() for place in (options or {}).get(_ALLOWED, "").split(",") if place.strip()]


def _path(location: str) -> str:
    if location.startswith("file:"):
        location = "/" + unquote(location.removeprefix("file:")).lstrip("/")
    return location.rstrip("/")
