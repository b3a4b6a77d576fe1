"""Parses the options of a streaming source under the names of Spark's Delta source: start, limits
of a batch, and skipped commits.

Uses neither Spark nor rows.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.storage_options import version_arguments
from deltaplane.spark.jvm.location import size_of
from deltaplane.table.follow import limits, tail_request

__all__ = ["STREAM_OPTIONS", "StreamOptions", "flag", "refuse_options_of_batches"]

# Options of a batch, with what a stream has instead.
_OF_BATCHES = {
    **dict.fromkeys(
        ("versionasof", "version", "timestampasof", "timestamp", "endingversion", "endingtimestamp"),
        "a stream has startingVersion or startingTimestamp",
    ),
    "predicate": "apply where(…) to the stream's rows",
}
# Options that consent to renamed, dropped or retyped columns, together with
# `schemaTrackingLocation`.
_LEAVES = ("allowsourcecolumnrename", "allowsourcecolumndrop", "allowsourcecolumntypechange")
_SPELT = {
    name.lower(): name
    for name in (
        "ignoreDeletes",
        "ignoreChanges",
        # The former name of `ignoreChanges`.
        "ignoreFileDeletion",
        "skipChangeCommits",
        "failOnDataLoss",
        "readChangeFeed",
        "startingVersion",
        "startingTimestamp",
        # Waits for a start that doesn't exist yet.
        "waitForStart",
        "maxFilesPerTrigger",
        "maxBytesPerTrigger",
        "excludeRegex",
        "schemaTrackingLocation",
        "schemaLocation",
        "streamingSourceTrackingId",
        "allowSourceColumnRename",
        "allowSourceColumnDrop",
        "allowSourceColumnTypeChange",
    )
}
# In lower case, since names are case-insensitive.
STREAM_OPTIONS = tuple(_SPELT)
# The default of Spark's Delta source.
_FILES = 1000


@dataclass(frozen=True)
class StreamOptions:
    """The options of one source: the core's request, and the limits separately, None for no
    limit."""

    request: records.TailRequest
    start: records.TailStart
    max_files: int | None
    max_bytes: int | None
    read_change_feed: bool
    # The directory of the schema log, and the name that distinguishes the logs of one query's
    # sources.
    schema_location: str | None = None
    tracking_id: str | None = None
    # `always`, or the version whose column changes are allowed, by the option's name.
    allowed: Mapping[str, str] = field(default_factory=dict)

    @property
    def limits(self) -> records.TailLimits:
        """The limits of one micro-batch."""
        return limits(self.max_files, self.max_bytes)

    def request_with(self, columns: records.TrackedColumns) -> records.TailRequest:
        """The request of a follower with these columns."""
        return records.TailRequest(**{**self.request.to_dict(), "columns": columns})

    @classmethod
    def of(cls, own: Mapping[str, str]) -> StreamOptions:
        """Parses options with lower-case names.

        Raises:
            InvalidArgumentError: an invalid value, or two incompatible options.
        """
        refuse_options_of_batches(own)
        max_bytes = _size(own["maxbytespertrigger"]) if "maxbytespertrigger" in own else None
        max_files = _number(own, "maxfilespertrigger") if "maxfilespertrigger" in own else None
        if max_files is None and max_bytes is None:
            max_files = _FILES
        fed = flag(own, "readchangefeed")
        request = tail_request(
            ignore_deletes=flag(own, "ignoredeletes"),
            ignore_changes=any([flag(own, "ignorechanges"), flag(own, "ignorefiledeletion")]),
            skip_change_commits=flag(own, "skipchangecommits"),
            exclude_regex=own.get("excluderegex"),
            fail_on_data_loss=flag(own, "failondataloss", "true"),
            read_change_feed=fed,
            waits_for_start=flag(own, "waitforstart"),
        )
        location = own.get("schematrackinglocation", own.get("schemalocation"))
        allowed = {name: _leave(name, own[name]) for name in _LEAVES if name in own}
        tracking_id = own.get("streamingsourcetrackingid")
        if location is None and (without := [*allowed, *(["streamingsourcetrackingid"] if tracking_id else [])]):
            raise InvalidArgumentError(f"{_SPELT[without[0]]} goes with schemaTrackingLocation, which isn't given")
        return cls(request, _start(own), max_files, max_bytes, fed, location, tracking_id, allowed)


def _leave(name: str, text: str) -> str:
    if text.lower() != "always" and not text.isdecimal():
        raise InvalidArgumentError(
            f"the option {_SPELT[name]} is always, or the version with the new columns, not {text!r}"
        )
    return text.lower()


def _start(own: Mapping[str, str]) -> records.TailStart:
    version, timestamp = own.get("startingversion"), own.get("startingtimestamp")
    if version is not None and timestamp is not None:
        raise InvalidArgumentError("give startingVersion or startingTimestamp, not both")
    if timestamp is not None:
        return records.TailStart(timestamp_ms=version_arguments(timestamp)[1])
    if version is None:
        return records.TailStart()
    if version.lower() == "latest":
        return records.TailStart(latest=True)
    if not version.isdecimal():
        raise InvalidArgumentError(f"the option startingVersion is a number or latest, not {version!r}")
    return records.TailStart(version=int(version))


def flag(options: Mapping[str, str], name: str, default: str = "false") -> bool:
    """Whether an option is true.

    Raises:
        InvalidArgumentError: the value is neither true nor false.
    """
    value = options.get(name, default).lower()
    if value not in ("true", "false"):
        raise InvalidArgumentError(f"the option {_SPELT.get(name, name)} is true or false, not {value!r}")
    return value == "true"


def _number(own: Mapping[str, str], name: str) -> int:
    if not own[name].isdecimal() or int(own[name]) < 1:
        raise InvalidArgumentError(f"the option {_SPELT[name]} is a number from 1 on, not {own[name]!r}")
    return int(own[name])


def _size(text: str) -> int:
    size = size_of(text)
    if not size:
        raise InvalidArgumentError(f"the option maxBytesPerTrigger is a number of bytes such as 64m, not {text!r}")
    return size


def refuse_options_of_batches(
    options: Iterable[str], names: Container[str] = _OF_BATCHES, location: str | None = None
) -> None:
    """Refuses a stream's options with these names, ignoring case.

    Raises:
        InvalidArgumentError: there is one of them.
    """
    for option in options:
        if (name := option.lower()) in names:
            raise InvalidArgumentError(f"{option} is an option of a batch; {_OF_BATCHES[name]}", table=location)
