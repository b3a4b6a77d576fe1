"""Requests and results of the core as frozen classes: a class here and the Rust struct of its name
have the same fields. Rust finds the classes here by name.
"""

from __future__ import annotations

from deltaplane.io.records.command_results import (
    AlterResult,
    CheckpointResult,
    CleanupResult,
    CommandResult,
    Finding,
    PlannedCommit,
    VacuumResult,
)
from deltaplane.io.records.following import ColumnSteps, TailLimits, TailRequest, TailStart, TrackedColumns
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
from deltaplane.io.records.tables import FeatureInfo, PropertyInfo, Protocol, Protocols, TableInfo

__all__ = [
    "AlterRequest",
    "AlterResult",
    "CheckpointResult",
    "CleanupResult",
    "CloneRequest",
    "ColumnSteps",
    "CommandResult",
    "CommitTotals",
    "FeatureInfo",
    "Finding",
    "HistoryEntry",
    "LogFiles",
    "LogFolder",
    "LogSize",
    "NewestCheckpoint",
    "PlannedCommit",
    "PropertyInfo",
    "Protocol",
    "Protocols",
    "ReadRequest",
    "Record",
    "RepairRequest",
    "RestoreRequest",
    "ScanReport",
    "TableInfo",
    "TailLimits",
    "TailRequest",
    "TailStart",
    "TombstoneTotals",
    "TrackedColumns",
    "VacuumRequest",
    "VacuumResult",
]
