"""User-defined stores: a class that stores a scheme's tables, or decides their commits.

Documents the class's contract and registers it; `deltaplane.io.log_store_check` tests the contract.
The core calls it.
"""

# mypy: disable-error-code="no-any-return"
from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from deltaplane import _native
from deltaplane.arguments import checked
from deltaplane.exceptions import InvalidArgumentError

__all__ = ["LogStore", "StoredObject", "is_registered", "register_log_store"]

_SCHEMES: set[str] = set()


class StoredObject(NamedTuple):
    """An object of a listing.

    Attributes: `path` (relative to the table, with `/` between its parts), `size_bytes`,
    `modified_ms` (last modification, in milliseconds since 1970, UTC) and `etag` (a text that
    changes with the content, if the store has one).

    >>> StoredObject("_delta_log/00000000000000000000.json", 120, 1_700_000_000_000).etag is None
    True
    """

    path: str
    size_bytes: int
    modified_ms: int
    etag: str | None = None


class LogStore:
    """Base of classes for `register_log_store`: override the methods that the base store doesn't
    provide.

    A method that returns `NotImplemented`, as all of these do, passes its call to `base`: the
    location of a store that deltaplane supports itself. A *commit service* names a base and
    overrides `put_if_absent`, and also `read` and `list_from` if its commits aren't in the base at
    once; Parquet files are streamed to and from the base itself. A *store of its own* has no base
    and overrides all methods except `head` and `read_range`, which are derived from the others;
    files pass through it whole.

    Paths are relative to the table. Methods are called from several threads at once, with the GIL,
    which the core releases while it waits; on free-threaded Python they run at the same time.
    Meaning of exceptions:

    - `FileNotFoundError`: the object doesn't exist; from `put_if_absent` it has no meaning
    - `FileExistsError` from `put_if_absent`: the name is taken, as False
    - `PermissionError`: refused, and nothing was written; becomes `StoreDeniedError`
    - `TimeoutError`, every other `OSError`, and any other exception: `StoreUnavailableError`.
      Whether the call was carried out is unknown, so a commit is read back and counts if it exists
    - `StoreDeniedError`, `StoreUnavailableError`, `InvalidArgumentError`,
      `UnsupportedFeatureError`: unchanged

    Attributes: `base` (a location such as `s3://bucket/table`, or None) and `base_options` (its
    storage options; None means the table's).
    """

    base: str | None = None
    base_options: Mapping[str, str] | None = None

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Writes an object if its name is free: durable, visible only as a whole, and listed from
        then on (P070).

        Of all concurrent callers, in any process, exactly one gets True.
        """
        return NotImplemented

    def read(self, path: str) -> bytes:
        """A whole object."""
        return NotImplemented

    def list_from(self, directory: str, name: str) -> Iterable[StoredObject]:
        """The files directly in a directory whose names are equal to or greater than `name`, in
        byte order."""
        return NotImplemented

    def list_all(self, directory: str) -> Iterable[StoredObject]:
        """All files below a directory; an empty text means the whole table."""
        return NotImplemented

    def put(self, path: str, data: bytes) -> None:
        """Writes an object, replacing an existing one: readers see the old or the new one,
        whole."""
        return NotImplemented

    def delete(self, path: str) -> None:
        """Deletes an object; it may be absent."""
        return NotImplemented

    def head(self, path: str) -> StoredObject:
        """Size and time of an object."""
        return NotImplemented

    def read_range(self, path: str, start: int, end: int) -> bytes:
        """The bytes of an object from `start` to before `end`, fewer if the object is shorter."""
        return NotImplemented


@checked()
def register_log_store(scheme: str, factory: Callable[[str, dict[str, str]], LogStore]) -> None:
    """Makes locations `scheme://authority/path` tables of the caller's own store, in this process.

    The factory is called with the location and the storage options (lower-case keys) when a table
    is opened, and again in each forked child. Registering a scheme again replaces its factory.
    Spark's tasks run in other processes without the registration, so Spark refuses such tables by
    name. Atomic commits are P070.

    Args:
        scheme: a name that isn't one of deltaplane's own.
        factory: creates the store of one table.

    Raises:
        InvalidArgumentError: an invalid or built-in scheme, or the factory can't be called.

    >>> import tempfile
    >>> import pyarrow as pa
    >>> from deltaplane import DeltaTable, write_deltalake
    >>> class Audited(LogStore):
    ...     commits: list[str] = []
    ...     def __init__(self, location: str, options: dict[str, str]) -> None:
    ...         self.base = folder + location.removeprefix("audited:/")
    ...     def put_if_absent(self, path: str, data: bytes) -> bool:
    ...         self.commits.append(path)
    ...         return NotImplemented
    >>> folder = tempfile.mkdtemp()
    >>> register_log_store("audited", Audited)
    >>> write_deltalake("audited://team/table", pa.table({"id": [1, 2]})).version
    0
    >>> DeltaTable("audited://team/table").count()
    2
    >>> [path for path in Audited.commits if path.endswith(".json")]
    ['_delta_log/00000000000000000000.json']
    """
    if not isinstance(scheme, str) or not callable(factory):
        raise InvalidArgumentError("register_log_store takes a scheme's name and a callable that makes a LogStore")
    _native.register_log_store(scheme, factory)
    _SCHEMES.add(scheme.lower())


def is_registered(location: str) -> bool:
    """Whether a location belongs to a registered log store.

    >>> is_registered("s3://bucket/table")
    False
    """
    return location.partition("://")[0].lower() in _SCHEMES
