"""COPY INTO: loads the files of a directory into a table, each file once.

`load_history` records loaded files, `sources` reads the files (by `formats`, `quotes` and
`compressed`); this module commits rows and load history together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.copying.formats import FORMATS
from deltaplane.copying.load_history import APPLICATION, Loaded
from deltaplane.copying.sources import SourceFiles, SourceRows
from deltaplane.exceptions import (
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaError,
    InvalidArgumentError,
    MetadataChangedException,
    ProtocolChangedException,
    UnsupportedFeatureError,
)
from deltaplane.io.storage_options import StorageOptions, location_text, storage_options_text
from deltaplane.io.tracing import traced
from deltaplane.properties import CommitProperties, PostCommitHookProperties, Transaction, WriterProperties
from deltaplane.write.api import OpenTable, WriteResult, commit_files, opened_address, write_rows
from deltaplane.write.intent import WriteIntent
from deltaplane.write.refresh import refresh_after_commit

if TYPE_CHECKING:
    from deltaplane.io import records
    from deltaplane.io.storage_options import TableUri

__all__ = ["CopyResult", "copy_into"]

# Maximum number of attempts; an attempt fails if another load, or a change of the table, commits
# first.
_MOST_ATTEMPTS = 20
_LOST = (ConcurrentTransactionException, MetadataChangedException, ProtocolChangedException)
_COPY_OPTIONS = ("force", "mergeschema")
# The property that limits how long application versions are retained.
_RETENTION = "delta.setTransactionRetentionDuration"


@dataclass(frozen=True)
class CopyResult:
    """The result of a load: the new version, or None if all files were loaded before; the numbers
    of added rows and of their files, and the number of skipped files.
    """

    version: int | None
    num_affected_rows: int = 0
    num_inserted_rows: int = 0
    num_loaded_files: int = 0
    num_skipped_files: int = 0


@checked()
@traced("COPY INTO")
def copy_into(
    table_or_uri: TableUri | OpenTable,
    source: TableUri,
    file_format: str,
    *,
    pattern: str | None = None,
    files: Sequence[str] | None = None,
    format_options: Mapping[str, str] | None = None,
    copy_options: Mapping[str, str | bool] | None = None,
    storage_options: StorageOptions | None = None,
    source_storage_options: StorageOptions | None = None,
    writer_properties: WriterProperties | None = None,
    commit_properties: CommitProperties | None = None,
    post_commithook_properties: PostCommitHookProperties | None = None,
) -> CopyResult:
    """Adds the rows of a directory's files to a table, in one commit; files that were loaded before
    are left out.

    Each file is loaded once, even with concurrent loaders and after a crash. A file is identified
    by its path, so one that changes later isn't loaded again. The loaded files are recorded below
    `_delta_log/_copy_into`, 16 bytes per file; the commit itself has one `txn` action, whatever the
    number of files (P076), which every writer understands. Rows are streamed; the list of the
    source's files is in memory.

    Columns are matched by name, ignoring case, and values converted to the table's types if that is
    lossless. Columns that a file lacks are null.

    Args:
        table_or_uri: an existing table: path, URL or `DeltaTable` (which then shows the new
            version).
        source: a directory, as path or URL. Names that begin with `_` or `.` are ignored.
        file_format: `parquet`, `csv` or `json` (one document per line); CSV and JSON may be
            compressed, with the name's ending `.gz`, `.bz2` or `.zst`.
        pattern: selects files by a glob over their paths below the source; `*` matches any text.
        files: selects files by their paths below the source instead.
        format_options: for CSV `header` (`true`: columns by name, otherwise by position), `sep` or
            `delimiter`, `quote`, `escape`, `nullValue`. Within quotes the escape (default `\\`)
            precedes a quote or itself; elsewhere it is text.
        copy_options: `mergeSchema` adds columns that the table lacks, `force` loads files again
            that were loaded before.
        storage_options: access to the table's store.
        source_storage_options: access to the source's store; the table's options by default.
        writer_properties, commit_properties, post_commithook_properties: see these classes.

    Raises:
        TableNotFoundError: the location contains no table.
        FileMissingError: one of `files` doesn't exist.
        SchemaMismatchError: a column that the table lacks, or values of an incompatible type; names
            the file.
        ConstraintViolationError: a row violates a rule of the table; nothing was loaded.
        InvalidArgumentError: invalid arguments.
        UnsupportedFeatureError: an unknown option or compression, or a table whose application
            versions expire.
        ConcurrentWriteException: every attempt lost against other loads.

    >>> import tempfile, pathlib, pyarrow as pa
    >>> from deltaplane import write_deltalake
    >>> _ = write_deltalake("memory://doc-copy/t", pa.table({"x": [0], "y": ["z"]}))
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "a.csv").write_text("y,x\\na,1\\nb,2\\n")
    >>> options = {"header": "true"}
    >>> copy_into("memory://doc-copy/t", folder, "csv", format_options=options).num_inserted_rows
    2
    >>> copy_into("memory://doc-copy/t", folder, "csv", format_options=options)
    CopyResult(version=None, num_affected_rows=0, num_inserted_rows=0, num_loaded_files=0, num_skipped_files=1)
    """
    table = table_or_uri if isinstance(table_or_uri, OpenTable) else None
    location, options = opened_address(table_or_uri, storage_options)
    asked = _flags(copy_options or {})
    if file_format.lower() not in FORMATS:
        raise InvalidArgumentError(f"file_format is {', '.join(FORMATS)}, not {file_format!r}")
    if pattern is not None and files is not None:
        raise InvalidArgumentError("pattern and files say both which files are loaded: give one")
    if (commit_properties or CommitProperties()).app_transactions:
        raise InvalidArgumentError("a load is committed once by its files: leave app_transactions out")
    theirs = options if source_storage_options is None else storage_options_text(source_storage_options)
    source_files = SourceFiles.listed(location_text(source), theirs, pattern, files)
    settings = (writer_properties, commit_properties, post_commithook_properties)
    load = _Load(location, options, source_files, file_format.lower(), dict(format_options or {}), asked, settings)
    result = load.run()
    if table is not None and result.version is not None:
        refresh_after_commit(table.update_incremental)
    return result


def _flags(options: Mapping[str, str | bool]) -> set[str]:
    """The options with the value true, in lower case."""
    unknown = [name for name in options if name.lower() not in _COPY_OPTIONS]
    if unknown:
        raise UnsupportedFeatureError(
            f"the copy option {unknown[0]!r} isn't one of this version: mergeSchema and force are"
        )
    wrong = [value for value in options.values() if str(value).lower() not in ("true", "false")]
    if wrong:
        raise InvalidArgumentError(f"a copy option is true or false, not {wrong[0]!r}")
    return {name.lower() for name, value in options.items() if str(value).lower() == "true"}


@dataclass(frozen=True)
class _Load:
    location: str
    options: dict[str, str] | None
    source_files: SourceFiles
    format: str
    format_options: dict[str, str]
    asked: set[str]
    settings: tuple[WriterProperties | None, CommitProperties | None, PostCommitHookProperties | None]

    def run(self) -> CopyResult:
        """Repeats attempts until one succeeds."""
        for _ in range(_MOST_ATTEMPTS):
            try:
                done = self._attempt()
            except _LOST:
                continue
            if done is not None:
                return done
        raise ConcurrentWriteException(
            f"other loads were committed first in each of {_MOST_ATTEMPTS} attempts: try again", table=self.location
        )

    def _attempt(self) -> CopyResult | None:
        """Loads the new files; None if another load committed between reading the history and
        planning the write."""
        snapshot = _native.Snapshot.open(self.location, self.options)
        _check_memory(snapshot)
        before = Loaded.of(self.location, self.options, snapshot)
        new = (
            self.source_files
            if "force" in self.asked
            else self.source_files.without(before.which(self.source_files.keys))
        )
        skipped = len(self.source_files) - len(new)
        if not len(new):
            return CopyResult(None, num_skipped_files=skipped)
        after = before.with_files(new.keys)
        merges = "mergeschema" in self.asked
        try:
            rows = SourceRows(new, self.format, self.format_options, snapshot.schema, merges)
        except DeltaError as e:
            e.table = e.table or self.location
            raise
        job = _native.WriteJob.begin(self.location, self.options, rows.reader.schema, self._request(after.pointer))
        planned_on = None if job.skip is not None else job.version
        if planned_on is None or snapshot.at(planned_on).transactions().get(APPLICATION) != before.pointer:
            return None
        adds = write_rows(self.location, self.options, job.spec, rows.reader)
        try:
            after.write()
        except DeltaError:
            _native.discard_files(self.location, self.options, adds)
            raise
        done: WriteResult = commit_files(self.location, self.options, job, adds)
        return CopyResult(done.version, rows.count, rows.count, len(new), skipped)

    def _request(self, pointer: int) -> records.WriteRequest:
        writer, commit, hook = self.settings
        commit = commit or CommitProperties()
        marked: dict[str, Any] = {**vars(commit), "app_transactions": [Transaction(APPLICATION, pointer)]}
        intent = WriteIntent(
            mode="append",
            schema_mode="merge" if "mergeschema" in self.asked else None,
            writer_properties=writer,
            commit_properties=CommitProperties(**marked),
            post_commithook_properties=hook,
        )
        return intent.request(self.location, self.options)


def _check_memory(snapshot: _native.Snapshot) -> None:
    """Refuses tables that discard old application versions, since those record which files were
    loaded."""
    if _RETENTION in snapshot.info.configuration:
        raise UnsupportedFeatureError(
            f"the table forgets applications' versions ({_RETENTION}), and with them which files were loaded: unset the "
            "property first",
            table=snapshot.location,
        )
