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
from deltaplane.io.records.writing import (
    ColumnRule,
    CommitResult,
    Fill,
    IncomingRequest,
    LayoutRequest,
    OptimizeCommit,
    OptimizeSummary,
    RewriteRequest,
    RowCheck,
    RowRules,
    StoredIds,
    TaskSpec,
    WriteRequest,
    WriteSpec,
)

__all__ = [
    "AlterRequest",
    "AlterResult",
    "CheckpointResult",
    "CleanupResult",
    "CloneRequest",
    "ColumnRule",
    "ColumnSteps",
    "CommandResult",
    "CommitResult",
    "CommitTotals",
    "FeatureInfo",
    "Fill",
    "Finding",
    "HistoryEntry",
    "IncomingRequest",
    "LayoutRequest",
    "LogFiles",
    "LogFolder",
    "LogSize",
    "NewestCheckpoint",
    "OptimizeCommit",
    "OptimizeSummary",
    "PlannedCommit",
    "PropertyInfo",
    "Protocol",
    "Protocols",
    "ReadRequest",
    "Record",
    "RepairRequest",
    "RestoreRequest",
    "RewriteRequest",
    "RowCheck",
    "RowRules",
    "ScanReport",
    "StoredIds",
    "TableInfo",
    "TailLimits",
    "TailRequest",
    "TailStart",
    "TaskSpec",
    "TombstoneTotals",
    "TrackedColumns",
    "VacuumRequest",
    "VacuumResult",
    "WriteRequest",
    "WriteSpec",
]
