"""`DeltaTable.index`: indexes of keys, which name the files that can hold a value of a column, or
values of several.

Converts arguments; the Rust core builds and reads the indexes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import records
from deltaplane.io.index_properties import ON_WRITE, build_indexes
from deltaplane.table.alter import TableAlterer
from deltaplane.table.alter_plan import AlterPlan

if TYPE_CHECKING:
    from deltaplane.properties import CommitProperties
    from deltaplane.write.api import OpenTable

__all__ = ["KeyIndex", "KeyIndexes"]


@dataclass(frozen=True)
class KeyIndex:
    """An index: its columns, its objects and their bytes, its pairs of file and key, and the live
    files that it covers. Every look-up reads the files that it doesn't cover.

    >>> KeyIndex(("id",), segments=1, size_bytes=4096, entries=1000, covered_files=9, uncovered_files=1)
    KeyIndex(columns=('id',), segments=1, size_bytes=4096, entries=1000, covered_files=9, uncovered_files=1)
    """

    columns: tuple[str, ...]
    segments: int
    size_bytes: int
    entries: int
    covered_files: int
    uncovered_files: int

    @classmethod
    def of(cls, state: records.KeyIndex) -> KeyIndex:
        """Converts the core's record."""
        return cls(**{**state.to_dict(), "columns": tuple(state.columns)})


@checked()
class KeyIndexes:
    """A table's indexes of keys, as `DeltaTable.index`.

    An index makes plans leave out the files that have none of the wanted values, where a condition
    compares its column by `=` or `IN` with values, and where MERGE looks for the keys of its
    source. An index of several columns does where a condition compares each of them. It is a
    property of the table and objects below `_deltaplane_index/`, which other engines ignore. It
    never changes a result: files that it doesn't cover are read, and without it, or with a damaged
    one, all files are.
    """

    def __init__(
        self, table: OpenTable, build: Callable[[_native.Snapshot, bool], list[records.KeyIndex]] | None = None
    ) -> None:
        self._table = table
        self._build = build or build_indexes

    def create(
        self,
        columns: Sequence[str],
        *,
        build: bool = True,
        on_write: bool | None = None,
        commit_properties: CommitProperties | None = None,
    ) -> list[KeyIndex]:
        """Adds an index, by one commit that sets properties.

        Args:
            columns: the names of one or more top-level columns of integers, decimals, strings,
                binary values, dates or timestamps, which aren't partition columns. Several make one
                index of their values together, for look-ups that compare them all. A table may have
                several indexes.
            build: whether to build the index at once; False leaves it to `build`.
            on_write: whether deltaplane's writers cover the files of each commit by the table's
                indexes right after it (`deltaplane.buildIndexesOnWrite`), for all indexes of the
                table; None leaves that as it is. They read the column of the new files again.
            commit_properties: see this class.

        Returns:
            The state of all indexes of the table.

        Cost: reads the columns in all files; memory holds 128 MiB of hashes, and temporary files 8
        bytes for each value if there are more than 16 million. The index takes at most about 2 % of
        the data files' bytes, unless it needs more to find few files in vain.

        Raises:
            InvalidArgumentError: an unknown column, one that is named twice, or none.
            UnsupportedFeatureError: a column that can't be indexed.
            MetadataChangedException: another writer changed the table's metadata first.

        >>> import pyarrow as pa
        >>> from deltaplane import DeltaTable, write_deltalake
        >>> for ids in ([1, 9], [2, 8], [3, 7]):
        ...     _ = write_deltalake("memory://doc-index/t", pa.table({"id": ids}), mode="append")
        >>> table = DeltaTable("memory://doc-index/t")
        >>> [(index.columns, index.covered_files) for index in table.index.create(["id"])]
        [(('id',), 3)]
        >>> why = table.explain("id = 7")
        >>> why.skipped_by_index, why.selected
        (2, 1)
        """
        self.add(columns, commit_properties, on_write)
        return self.build() if build else self.describe()

    def add(
        self,
        columns: Sequence[str],
        commit_properties: CommitProperties | None = None,
        on_write: bool | None = None,
    ) -> AlterPlan:
        """The commit of `create`: makes the index, without building it."""
        key, kind = self._newest().index_to_add(_listed(columns))
        properties = {key: kind} if on_write is None else {key: kind, ON_WRITE: str(on_write).lower()}
        return self._alterer().set_table_properties(properties, commit_properties=commit_properties)

    def drop(self, columns: Sequence[str], *, commit_properties: CommitProperties | None = None) -> AlterPlan:
        """Removes the index of these columns, by one commit, and deletes its objects.

        Raises:
            InvalidArgumentError: the columns have no index.
        """
        key = self._newest().index_to_drop(_listed(columns))
        plan = self._alterer().unset_table_properties(key, if_exists=True, commit_properties=commit_properties)
        self._newest().clean_indexes(True)
        return plan

    def build(self, *, rebuild: bool = False) -> list[KeyIndex]:
        """Brings the indexes up to date with the newest version; commits nothing. Once an index has
        8 objects the small ones become one.

        Args:
            rebuild: whether to build from all files instead of those that no index covers. This
                also happens once more removed than live files are covered.

        Raises:
            ConcurrentWriteException: other builders finished first again and again.
        """
        return [KeyIndex.of(state) for state in self._build(self._newest(), rebuild)]

    def describe(self) -> list[KeyIndex]:
        """The state of each index for the newest version."""
        return [KeyIndex.of(state) for state in self._newest().indexes()]

    def _newest(self) -> _native.Snapshot:
        return _native.Snapshot.open(self._table.location, self._table.storage_options)

    def _alterer(self) -> TableAlterer:
        return TableAlterer(self._table)


def _listed(columns: Sequence[str]) -> list[str]:
    if isinstance(columns, str) or not columns:
        raise InvalidArgumentError('name the columns of an index in a list, as in ["user_id"]')
    return list(columns)
