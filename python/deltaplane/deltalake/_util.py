"""deltalake's helpers that other libraries import."""

from __future__ import annotations

import os
import warnings
from datetime import date, datetime
from typing import Any
from urllib.parse import quote


def encode_partition_value(val: Any) -> str:
    """A partition value as the log has it.

    >>> encode_partition_value(True), encode_partition_value(datetime(2024, 1, 2, 3))
    ('true', '2024-01-02 03:00:00')
    """
    if isinstance(val, bool):
        return "true" if val else "false"
    if isinstance(val, (str, int, float)):
        return str(val)
    if isinstance(val, datetime):
        return val.isoformat(sep=" ")
    if isinstance(val, date):
        return val.isoformat()
    if isinstance(val, bytes):
        return val.decode("unicode_escape", "backslashreplace")
    raise ValueError(f"Could not encode partition value for type: {val}")


def deprecate_positional_commit_args(
    method_name: str,
    args: tuple[Any, ...],
    commit_properties: Any = None,
    post_commithook_properties: Any = None,
    legacy_order: tuple[str, ...] = ("commit_properties", "post_commithook_properties"),
) -> tuple[Any, Any]:
    """Commit and hook properties, of which old programs pass some by position."""
    values = {"commit_properties": commit_properties, "post_commithook_properties": post_commithook_properties}
    if args:
        take_positional(method_name, args, values, legacy_order)
    return values["commit_properties"], values["post_commithook_properties"]


def take_positional(
    method_name: str, args: tuple[Any, ...], values: dict[str, Any], order: tuple[str, ...], absent: Any = None
) -> None:
    """Writes arguments that were passed by position to `given`, which has those passed by name.

    Raises:
        TypeError: too many arguments, or one that was passed twice.
    """
    if len(args) > len(order):
        raise TypeError(f"{method_name}() takes at most {len(order)} positional commit argument(s), got {len(args)}")
    warnings.warn(
        f"Passing commit arguments positionally to {method_name}() is deprecated and will be removed in a "
        "future release. Use keyword arguments instead.",
        DeprecationWarning,
        stacklevel=4,
    )
    for name, value in zip(order, args, strict=False):
        if values[name] is not absent and values[name] is not None:
            raise TypeError(f"{method_name}() got multiple values for '{name}'")
        values[name] = value


# Characters that URLs have as they are, beside letters and digits.
_IN_PATHS = "/=:@!$&'()*+,;-._~"


def path_in_log(path: str) -> str:
    """A file's path as the log has it, URL-encoded.

    >>> path_in_log("day=a b/x%2Fy.parquet")
    'day=a%20b/x%252Fy.parquet'
    """
    return quote(path, safe=_IN_PATHS)


# Options of deltalake's writer of files.
_OF_DELTALAKE = {"max_buffer_size", "max_concurrency"}
_ROOT = "opendal.root"
_IGNORE = "ignore_unknown_options"


def own_options(options: dict[str, str] | None) -> dict[str, str] | None:
    """Storage options without those that only deltalake's writer of files has. Unknown ones are
    ignored, as in deltalake: libraries pass settings of their own along.

    >>> own_options({"aws_region": "r", "max_buffer_size": "1"})
    {'aws_region': 'r', 'ignore_unknown_options': 'true'}
    """
    retained = {key: value for key, value in (options or {}).items() if key not in _OF_DELTALAKE and key != _ROOT}
    return {**retained, _IGNORE: "true"} if retained else None


def own_location(table_uri: str, options: dict[str, str] | None) -> str:
    """The location as deltaplane has it: `~` is the home directory, and OpenDAL's scheme of local
    files (`fs://host/path` below the option `opendal.root`) a path."""
    scheme, _, rest = table_uri.partition("://")
    if scheme in ("fs", "opendal+fs"):
        return os.path.join((options or {}).get(_ROOT, "/"), rest.partition("/")[2])
    return os.path.expanduser(table_uri) if table_uri.startswith("~") else table_uri
