"""Determines which engines can read and write a table, from data: `engines.json` beside this file,
and the Rust core's own features.

Each entry of the data names its source: a documentation page, or `measured` for results of the
tests. This module opens no table.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

from deltaplane import _native
from deltaplane.io import records
from deltaplane.io.html import TextInNotebooks

__all__ = ["Compatibility", "Engine", "Protocol", "Verdict", "engines", "newly_excluded", "reader_features", "verdicts"]


@dataclass(frozen=True)
class Protocol:
    """A table's protocol: versions, and every feature supported, listed or implied by the versions.

    >>> str(Protocol(3, 7, frozenset({"appendOnly"})))
    '(3, 7: appendOnly)'
    """

    min_reader_version: int
    min_writer_version: int
    features: frozenset[str]

    @classmethod
    def of(cls, value: records.Protocol) -> Protocol:
        """Converts the core's protocol."""
        return cls(value.min_reader_version, value.min_writer_version, frozenset(value.features))

    def __str__(self) -> str:
        versions = f"{self.min_reader_version}, {self.min_writer_version}"
        if self.min_writer_version < _LISTS:
            return f"({versions})"
        return f"({versions}: {', '.join(sorted(self.features))})"


# The writer version from which the protocol lists features one by one.
_LISTS = 7


@dataclass(frozen=True)
class Engine:
    """One program in a range of versions: the protocols it can read and write.

    `reads` and `writes` are feature names; a version below 3 and 7 means that the program doesn't
    know feature lists. `misreads` and `miswrites` name features that it accepts but handles
    wrongly. `source` is the documentation page, or `measured`; `reads_by` is then the program's
    best way to read.
    """

    name: str
    versions: str
    reader_version: int
    writer_version: int
    reads: frozenset[str]
    writes: frozenset[str]
    source: str
    misreads: frozenset[str] = frozenset()
    miswrites: frozenset[str] = frozenset()
    reads_by: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.versions}"

    @property
    def is_writer(self) -> bool:
        """Whether the program writes Delta tables at all."""
        return self.writer_version > 0

    def missing_to_read(self, protocol: Protocol) -> list[str]:
        """The reasons why the engine can't read such a table; empty if it can."""
        needed = protocol.features & reader_features()
        missing = sorted(needed - self.reads)
        if protocol.min_reader_version > self.reader_version:
            missing.append(f"reader version {protocol.min_reader_version}")
        return missing

    def missing_to_write(self, protocol: Protocol) -> list[str]:
        """The reasons why the engine can't write such a table; empty if it can."""
        if not self.is_writer:
            return ["its writing isn't measured" if self.source == "measured" else "it doesn't write Delta tables"]
        missing = set(self.missing_to_read(protocol)) | (protocol.features - self.writes)
        if protocol.min_writer_version > self.writer_version:
            missing.add(f"writer version {protocol.min_writer_version}")
        return sorted(missing)


@dataclass(frozen=True)
class Verdict:
    """The abilities of one engine for a table, and the features that it lacks."""

    engine: str
    versions: str
    reads: bool
    writes: bool
    missing_to_read: list[str]
    missing_to_write: list[str]
    source: str


@dataclass(frozen=True)
class Compatibility(TextInNotebooks):
    """The engines that can read and write a table, and those that a planned change would
    exclude."""

    protocol: Protocol
    engines: list[Verdict]
    after: Protocol | None = None
    unreadable_for: tuple[str, ...] = ()
    unwritable_for: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Converts the verdicts to plain values, for JSON."""

        def plain(protocol: Protocol) -> dict[str, Any]:
            return {**vars(protocol), "features": sorted(protocol.features)}

        return {
            "protocol": plain(self.protocol),
            "engines": [vars(verdict) for verdict in self.engines],
            "after": None if self.after is None else plain(self.after),
            "unreadable_for": list(self.unreadable_for),
            "unwritable_for": list(self.unwritable_for),
        }


@functools.cache
def _registry() -> tuple[records.FeatureInfo, ...]:
    return tuple(_native.known_features())


@functools.cache
def reader_features() -> frozenset[str]:
    """The features that readers must support, too."""
    return frozenset(f.name for f in _registry() if f.reader)


@functools.cache
def engines() -> tuple[Engine, ...]:
    """deltaplane as its core describes itself, then the other engines from the data.

    >>> [e.name for e in engines()][0]
    'deltaplane'
    """
    text = resources.files(__name__).joinpath("engines.json").read_text(encoding="utf-8")
    return (_ourselves(), *(_engine(value) for value in json.loads(text)["engines"]))


def _ourselves() -> Engine:
    return Engine(
        name="deltaplane",
        versions=_native.__version__,
        reader_version=3,
        writer_version=_LISTS,
        reads=frozenset(f.name for f in _registry() if f.reads),
        writes=frozenset(f.name for f in _registry() if f.writes),
        source="its own features",
    )


def _engine(value: Mapping[str, Any]) -> Engine:
    return Engine(
        name=value["name"],
        versions=value["versions"],
        reader_version=value["reader_version"],
        writer_version=value["writer_version"],
        reads=frozenset(value["reads"]),
        writes=frozenset(value["writes"]),
        source=value["source"],
        misreads=frozenset(value.get("misreads", ())),
        miswrites=frozenset(value.get("miswrites", ())),
        reads_by=value.get("reads_by", ""),
    )


def verdicts(protocol: Protocol, ours: str | None = None) -> list[Verdict]:
    """The abilities of each engine for a table of this protocol.

    `ours` is deltaplane's reason for refusing to write this table, empty if it can: a feature that
    is supported but not used excludes no engine.

    >>> plain = verdicts(Protocol(1, 2, frozenset({"appendOnly", "invariants"})))
    >>> all(v.reads for v in plain)
    True
    """
    by_engine = [_verdict(engine, protocol) for engine in engines()]
    if ours is not None:
        by_engine[0] = replace(by_engine[0], writes=not ours, missing_to_write=[ours] if ours else [])
    return by_engine


def _verdict(engine: Engine, protocol: Protocol) -> Verdict:
    read, write = engine.missing_to_read(protocol), engine.missing_to_write(protocol)
    return Verdict(engine.name, engine.versions, not read, not write, read, write, engine.source)


def newly_excluded(before: Protocol, after: Protocol) -> tuple[list[str], list[str]]:
    """The engines that could read, and write, the table before and can't after."""

    def lost(can: Iterable[tuple[Engine, bool, bool]]) -> list[str]:
        return [str(engine) for engine, was, is_now in can if was and not is_now]

    readers = ((e, not e.missing_to_read(before), not e.missing_to_read(after)) for e in engines())
    writers = ((e, not e.missing_to_write(before), not e.missing_to_write(after)) for e in engines())
    return lost(readers), lost(writers)
