"""The storage options that a catalog reads, which stores don't know."""

from __future__ import annotations

import re
from collections.abc import Mapping

from deltaplane.exceptions import InvalidArgumentError

__all__ = ["CATALOG", "GLUE_ENDPOINT", "TIMEOUT", "is_of_metastore", "of_store", "option", "seconds_of"]

CATALOG = "catalog"
TIMEOUT = "catalog_timeout"
GLUE_ENDPOINT = "aws_endpoint_url_glue"
_OF_CATALOGS = {CATALOG, TIMEOUT, GLUE_ENDPOINT}


def option(options: Mapping[str, str] | None, *names: str) -> str | None:
    """The value of the first of these options that is set; names in upper or lower case."""
    lower = {key.lower(): value for key, value in (options or {}).items()}
    return next((lower[name] for name in names if lower.get(name)), None)


def of_store(options: Mapping[str, str] | None) -> dict[str, str] | None:
    """The options for the table's store: those that no catalog reads alone. None if there are none.

    >>> of_store({"catalog": "thrift://host", "AWS_REGION": "eu-north-1"})
    {'AWS_REGION': 'eu-north-1'}
    """
    return {key: value for key, value in (options or {}).items() if key.lower() not in _OF_CATALOGS} or None


def is_of_metastore(options: Mapping[str, str] | None) -> bool:
    """Whether the options name a metastore as the catalog, which a table at a location doesn't
    use."""
    said = option(options, CATALOG)
    return said is not None and said.lower().startswith(("thrift://", "glue://"))


def seconds_of(options: Mapping[str, str] | None, default: float) -> float:
    """The option `catalog_timeout` in seconds.

    Raises:
        InvalidArgumentError: no positive time, or more than an hour.

    >>> seconds_of({"catalog_timeout": "500ms"}, 30), seconds_of({}, 30)
    (0.5, 30)
    """
    said = option(options, TIMEOUT)
    if said is None:
        return default
    parts = re.fullmatch(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m)?\s*", said, re.ASCII)
    seconds = 0.0 if parts is None else float(parts[1]) * {"ms": 0.001, "s": 1.0, "m": 60.0}[parts[2] or "s"]
    if not 0.001 <= seconds <= 3600:
        raise InvalidArgumentError(f"{TIMEOUT} is a time such as 10s or 500ms, up to an hour, not {said[:40]!r}")
    return seconds
