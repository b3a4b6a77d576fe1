"""The options of a streaming source as Spark's Delta source names them: where it begins, how much it takes, what it passes over.

Knows neither Spark nor rows. Called by `_stream_source` and `_native_stream`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from deltaplane.exceptions import InvalidArgumentError, UnsupportedFeatureError
from deltaplane.options import version_arguments
from deltaplane.tail import limits, tail_request

__all__ = ["STREAM_OPTIONS", "StreamOptions", "flag"]

_FLAGS = ("ignoredeletes", "ignorechanges", "skipchangecommits", "failondataloss", "readchangefeed")
STREAM_OPTIONS = (
    *_FLAGS,
    "startingversion",
    "startingtimestamp",
    "maxfilespertrigger",
    "maxbytespertrigger",
    "excluderegex",
    "schematrackinglocation",
    "schemalocation",
)
# As in Spark's Delta source.
_FILES = 1000
_UNITS = {"": 1, "b": 1, "k": 1 << 10, "kb": 1 << 10, "m": 1 << 20, "mb": 1 << 20, "g": 1 << 30, "gb": 1 << 30}


@dataclass(frozen=True)
class StreamOptions:
    """The options of one source: texts as the core takes them; the bounds also by themselves, None where there is none."""

    request: str
    start: str
    max_files: int | None
    max_bytes: int | None
    read_change_feed: bool

    @property
    def limits(self) -> str:
        """What one micro-batch takes."""
        return limits(self.max_files, self.max_bytes)

    @classmethod
    def of(cls, own: Mapping[str, str]) -> StreamOptions:
        """From options whose names are in lower case.

        Raises:
            InvalidArgumentError: an option that isn't what its name says, or two that don't go together.
            UnsupportedFeatureError: one that this version lacks, by name.
        """
        if tracking := [name for name in ("schematrackinglocation", "schemalocation") if name in own]:
            raise UnsupportedFeatureError(
                f"{tracking[0]}: this version keeps no log of a stream's schemas; leave it out, and start the query again "
                "where the table's columns changed"
            )
        if batch := [
            name for name in ("versionasof", "timestampasof", "endingversion", "endingtimestamp") if name in own
        ]:
            raise InvalidArgumentError(
                f"{batch[0]} is an option of a batch; a stream has startingVersion or startingTimestamp"
            )
        max_bytes = _bytes(own["maxbytespertrigger"]) if "maxbytespertrigger" in own else None
        max_files = _number(own, "maxfilespertrigger") if "maxfilespertrigger" in own else None
        if max_files is None and max_bytes is None:
            max_files = _FILES
        fed = flag(own, "readchangefeed")
        request = tail_request(
            ignore_deletes=flag(own, "ignoredeletes"),
            ignore_changes=flag(own, "ignorechanges"),
            skip_change_commits=flag(own, "skipchangecommits"),
            exclude_regex=own.get("excluderegex"),
            fail_on_data_loss=flag(own, "failondataloss", "true"),
            read_change_feed=fed,
        )
        return cls(request, json.dumps(_start(own)), max_files, max_bytes, fed)


def _start(own: Mapping[str, str]) -> str | dict[str, int | None]:
    version, timestamp = own.get("startingversion"), own.get("startingtimestamp")
    if version is not None and timestamp is not None:
        raise InvalidArgumentError("give startingVersion or startingTimestamp, not both")
    if timestamp is not None:
        return {"timestamp": version_arguments(timestamp)[1]}
    if version is None:
        return "snapshot"
    if version.lower() == "latest":
        return "latest"
    if not version.isdecimal():
        raise InvalidArgumentError(f"startingVersion is a number or latest, not {version!r}")
    return {"version": int(version)}


def flag(options: Mapping[str, str], name: str, default: str = "false") -> bool:
    """Whether an option is on.

    Raises:
        InvalidArgumentError: neither true nor false.
    """
    value = options.get(name, default).lower()
    if value not in ("true", "false"):
        raise InvalidArgumentError(f"the option {name} is true or false, not {value!r}")
    return value == "true"


def _number(own: Mapping[str, str], name: str) -> int:
    if not own[name].isdecimal() or int(own[name]) < 1:
        raise InvalidArgumentError(f"the option {name} is a number from 1 on, not {own[name]!r}")
    return int(own[name])


def _bytes(text: str) -> int:
    number = text.strip().lower()
    digits = number.rstrip("bkmg")
    unit = number[len(digits) :]
    if not digits.isdecimal() or unit not in _UNITS or int(digits) < 1:
        raise InvalidArgumentError(f"the option maxBytesPerTrigger is a number of bytes such as 64m, not {text!r}")
    return int(digits) * _UNITS[unit]
