"""deltalake's names of table features; the core knows what they mean."""

from __future__ import annotations

from typing import ClassVar


class TableFeatures:
    """The features that `TableAlterer.add_feature` adds: members of this class, as in deltalake,
    where
    it is no `enum.Enum`.

    >>> TableFeatures.AppendOnly
    TableFeatures.AppendOnly
    """

    ColumnMapping: ClassVar[TableFeatures]
    DeletionVectors: ClassVar[TableFeatures]
    TimestampWithoutTimezone: ClassVar[TableFeatures]
    V2Checkpoint: ClassVar[TableFeatures]
    AppendOnly: ClassVar[TableFeatures]
    Invariants: ClassVar[TableFeatures]
    CheckConstraints: ClassVar[TableFeatures]
    ChangeDataFeed: ClassVar[TableFeatures]
    GeneratedColumns: ClassVar[TableFeatures]
    IdentityColumns: ClassVar[TableFeatures]
    RowTracking: ClassVar[TableFeatures]
    DomainMetadata: ClassVar[TableFeatures]
    IcebergCompatV1: ClassVar[TableFeatures]
    VariantType: ClassVar[TableFeatures]
    VariantTypePreview: ClassVar[TableFeatures]

    def __init__(self, name: str) -> None:
        self._name = name

    def __repr__(self) -> str:
        return f"TableFeatures.{self._name}"

    def __reduce__(self) -> tuple[object, ...]:
        return getattr, (TableFeatures, self._name)


for _name in TableFeatures.__annotations__:
    setattr(TableFeatures, _name, TableFeatures(_name))


# Features of tables that pyarrow can read and write, as deltalake lists them for other libraries.
SUPPORTED_READER_FEATURES = {"timestampNtz", "variantType", "variantType-preview"}
SUPPORTED_WRITER_FEATURES = {"appendOnly", "invariants", *SUPPORTED_READER_FEATURES}
