"""Consent to continue a stream after columns were renamed, dropped or changed their type: a
source's options, or the session's settings.

Names and values of the settings, and the number that represents a checkpoint location, are those of
Spark's Delta source. Uses neither Spark nor the log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

__all__ = ["Leave", "Step", "checkpoint_number"]

_SETTING = "spark.databricks.delta.streaming."
_RENAME, _DROP, _TYPE = "allowSourceColumnRename", "allowSourceColumnDrop", "allowSourceColumnTypeChange"
# The setting that covers both renames and drops; there is no such option.
_RENAME_AND_DROP = "allowSourceColumnRenameAndDrop"
# Kinds of column changes, by the core's names, with the option and the alternative settings that
# allow each.
_KINDS = {
    "renamed": (_RENAME, (_RENAME, _RENAME_AND_DROP)),
    "dropped": (_DROP, (_DROP, _RENAME_AND_DROP)),
    "widened": (_TYPE, (_TYPE,)),
}
_ALWAYS = "always"


@dataclass(frozen=True)
class Step:
    """The columns with one kind of change, and the option that allows it."""

    option: str
    columns: Sequence[str]


@dataclass
class Leave:
    """The consent for one run of a query.

    Args:
        options: `always` or a version, by the option's lower-case name.
        setting: reads the session's settings by name; None without a session.
        place: the directory below the checkpoint location in which Spark stores this source's
            state; None if it is unknown.
    """

    options: Mapping[str, str]
    setting: Callable[[str], str | None] | None = None
    place: Callable[[], str | None] = lambda: None

    @cached_property
    def _suffix(self) -> str | None:
        place = self.place()
        return None if place is None else f".ckpt_{checkpoint_number(place)}"

    def lacking(self, steps: Mapping[str, Sequence[str]], version: int) -> list[Step]:
        """The changes in a version that lack consent; `steps` has the columns of each kind of
        change."""
        return [
            Step(option, steps[kind])
            for kind, (option, names) in _KINDS.items()
            if steps[kind] and not self._allows(option, names, version)
        ]

    def _allows(self, option: str, names: Sequence[str], version: int) -> bool:
        if self.options.get(option.lower()) in (_ALWAYS, str(version)):
            return True
        return any(self._is_set(name, version) for name in names)

    def _is_set(self, name: str, version: int) -> bool:
        if self.setting is None:
            return False
        if (self.setting(_SETTING + name) or "").lower() == _ALWAYS:
            return True
        # Asks for the checkpoint only here, since most queries need no consent.
        own = None if self._suffix is None else self.setting(_SETTING + name + self._suffix)
        return (own or "").lower() in (_ALWAYS, str(version))

    def ways(self, lacking: Sequence[Step], version: int) -> str:
        """Describes, for an error message, how to allow these changes."""
        options = [step.option for step in lacking]
        text = f"set the option{_s(options)} {' and '.join(options)} of the source to {version}, or to always"
        if self.setting is None:
            return text
        both = _RENAME in options and _DROP in options
        names = [_RENAME_AND_DROP, *(n for n in options if n == _TYPE)] if both else options
        text += "; or in the session, "
        if self._suffix is not None:
            own = [name + self._suffix for name in names]
            text += f"for this query and this change: {_sets(own, version)} For this query: {_sets(own, _ALWAYS)} "
        return f"{text}For all queries: {_sets(names, _ALWAYS)}"


def _s(items: Sequence[str]) -> str:
    return "s" if len(items) > 1 else ""


def _sets(names: Sequence[str], value: object) -> str:
    # Half of the numbers are negative, and SET accepts a sign only within backquotes.
    return " ".join(f"SET `{_SETTING}{name}` = {value};" for name in names)


def checkpoint_number(place: str) -> int:
    """The number by which settings name a source's directory below a checkpoint location: Java's
    hash code of the text.

    >>> checkpoint_number("file:/tmp/query/sources/0")
    -1615392567
    """
    number = 0
    units = place.encode("utf-16-be", "surrogatepass")
    for high, low in zip(units[::2], units[1::2], strict=True):
        number = (31 * number + (high << 8 | low)) & 0xFFFFFFFF
    return number - (1 << 32) if number >= 1 << 31 else number
