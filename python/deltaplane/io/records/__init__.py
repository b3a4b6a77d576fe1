"""Requests and results of the core as frozen classes: a class here and the Rust struct of its name
have the same fields. Rust finds the classes here by name.
"""

from __future__ import annotations

from deltaplane.io.records.following import TailLimits
from deltaplane.io.records.log_facts import (
    CommitTotals,
    HistoryEntry,
    LogFiles,
    LogFolder,
    LogSize,
    NewestCheckpoint,
    ScanReport,
    TombstoneTotals,
)
from deltaplane.io.records.maintenance import (
    AlterRequest,
    CloneRequest,
    ReadRequest,
    RepairRequest,
    RestoreRequest,
    VacuumRequest,
)
from deltaplane.io.records.record import Record

__all__ = [
    "AlterRequest",
    "CloneRequest",
    "CommitTotals",
    "HistoryEntry",
    "LogFiles",
    "LogFolder",
    "LogSize",
    "NewestCheckpoint",
    "ReadRequest",
    "Record",
    "RepairRequest",
    "RestoreRequest",
    "ScanReport",
    "TailLimits",
    "TombstoneTotals",
    "VacuumRequest",
]
