"""Converts users' table locations, storage options and versions to the core's arguments.

Uses no table and does no I/O.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.credentials import CredentialProvider, provider_name

if TYPE_CHECKING:
    from datetime import date, datetime

__all__ = ["StorageOptions", "TableUri", "VersionLike", "location_text", "storage_options_text", "version_arguments"]

TableUri = str | os.PathLike[str]
VersionLike: TypeAlias = "int | str | datetime"
# Text values; only `credential_provider` and `catalog_token` may be callables.
StorageOptions: TypeAlias = Mapping[str, str] | Mapping[str, str | CredentialProvider]


def location_text(table_uri: TableUri) -> str:
    """The location as text: a path, or a URL such as `s3://bucket/table`.

    Raises:
        InvalidArgumentError: not a path, or an empty one.
    """
    try:
        text = os.fspath(table_uri)
    except TypeError:
        raise InvalidArgumentError(
            f"a table's location is a path or URL as str or Path, not {type(table_uri).__name__}"
        ) from None
    if not isinstance(text, str) or not text.strip():
        raise InvalidArgumentError(f"a table's location is a path or URL as str or Path, not {text!r}")
    return text


def storage_options_text(storage_options: Mapping[str, object] | None) -> dict[str, str] | None:
    """The options with text values; `True` becomes `"true"`, `None` values are left out, a provider
    becomes its name.

    Raises:
        InvalidArgumentError: a key isn't text, or a provider can't be called. Values are never
            shown: they may be secrets.
    """
    if storage_options is None:
        return None
    options: dict[str, str] = {}
    for key, value in storage_options.items():
        if not isinstance(key, str):
            raise InvalidArgumentError(f"keys of storage_options are text, not {type(key).__name__}")
        if value is None:
            continue
        if key.lower() == "credential_provider":
            value = provider_name(value)
        elif key.lower() == "catalog_token" and callable(value):
            key, value = "catalog_token_provider", provider_name(value)
        options[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return options


def version_arguments(version: VersionLike | None) -> tuple[int | None, int | None]:
    """`(version, timestamp_ms)`, of which at most one is set, from a number, an ISO 8601 text or a
    datetime.

    Text and datetimes without a zone are UTC. Milliseconds since 1970-01-01 UTC, rounded down.

    Raises:
        InvalidArgumentError: another type, or a negative number.

    >>> version_arguments(3), version_arguments("2024-01-01"), version_arguments("2024-01-01T00:00:00+01:00")
    ((3, None), (None, 1704067200000), (None, 1704063600000))
    """
    if version is None:
        return None, None
    from datetime import date, datetime

    if not isinstance(version, (bool, int)) and hasattr(version, "__index__"):
        # NumPy's numbers are accepted as well.
        version = operator.index(version)
    if isinstance(version, bool) or not isinstance(version, (int, str, datetime, date)):
        raise InvalidArgumentError(
            f"a version is a number, an ISO 8601 text or a datetime, not {type(version).__name__}"
        )
    if isinstance(version, int):
        if version < 0:
            raise InvalidArgumentError(f"versions count from 0: {version} isn't one")
        return version, None
    return None, _epoch_ms(version)


def _epoch_ms(moment: str | datetime | date) -> int:
    from datetime import datetime, timezone

    if isinstance(moment, str):
        text = moment.strip()
        try:
            # Python 3.10 can't parse the suffix Z.
            moment = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
        except ValueError:
            raise InvalidArgumentError(
                f"{moment!r} is no ISO 8601 date or timestamp, such as 2024-01-31 or 2024-01-31T12:00:00Z"
            ) from None
    elif not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    epoch = datetime(1970, 1, 1, tzinfo=timezone.utc)
    since = moment - epoch
    return (since.days * 86_400 + since.seconds) * 1000 + since.microseconds // 1000
