"""deltalake's names of table features; the core knows what they mean."""

from __future__ import annotations

from enum import Enum


class TableFeatures(Enum):
    """The features that `TableAlterer.add_feature` adds."""

    ColumnMapping = "ColumnMapping"
    DeletionVectors = "DeletionVectors"
    TimestampWithoutTimezone = "TimestampWithoutTimezone"
    V2Checkpoint = "V2Checkpoint"
    AppendOnly = "AppendOnly"
    Invariants = "Invariants"
    CheckConstraints = "CheckConstraints"
    ChangeDataFeed = "ChangeDataFeed"
    GeneratedColumns = "GeneratedColumns"
    IdentityColumns = "IdentityColumns"
    RowTracking = "RowTracking"
    DomainMetadata = "DomainMetadata"
    IcebergCompatV1 = "IcebergCompatV1"
    VariantType = "VariantType"
    VariantTypePreview = "VariantTypePreview"


# Features of tables that pyarrow can read and write, as deltalake lists them for other libraries.
SUPPORTED_READER_FEATURES = {"timestampNtz", "variantType", "variantType-preview"}
SUPPORTED_WRITER_FEATURES = {"appendOnly", "invariants", *SUPPORTED_READER_FEATURES}
