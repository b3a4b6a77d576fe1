"""The options that this process holds for stores: those of a Spark session on the driver, in its
tasks what the driver sent, and those of the variable DELTAPLANE_STORAGE_OPTIONS. The core asks
`merged` for each store that it opens.

Knows no Spark: `deltaplane.spark` sets where they come from. Secrets are in no `repr`.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, ParamSpec, Protocol, TypeVar

from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io.credentials import Handed, hand, is_local
from deltaplane.io.hadoop_settings import SPELLINGS, Store, beside, has_credentials, is_hadoops, store_of, translate
from deltaplane.io.own_identity import found_for
from deltaplane.io.storage_options import storage_options_text

__all__ = [
    "CATALOG_SCHEME",
    "Carried",
    "Source",
    "advice",
    "carried_everywhere",
    "carried_for",
    "files_options",
    "in_session",
    "in_transaction",
    "merged",
    "of_session",
    "overriding",
    "settings_of_call",
    "transaction_of_thread",
    "use",
    "user_metadata",
]

# A JSON object of storage options for every store that this process opens by a URL.
VARIABLE = "DELTAPLANE_STORAGE_OPTIONS"
# The setting of a session with the text that each of its commits records in the history.
_USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"

# What a table's name in a catalog begins with, where a location is expected.
CATALOG_SCHEME = "uc://"
# What a path in a volume of a catalog begins with.
_VOLUMES = "dbfs:/Volumes/"
# The storage option with the id of a transaction over tables of a catalog.
_TRANSACTION = "catalog_transaction"

P = ParamSpec("P")
R = TypeVar("R")


class Source(Protocol):
    """Where a session's options come from."""

    def settings(self, store: Store) -> Mapping[str, str]:
        """Hadoop's settings of the store's kind."""

    def options(self) -> Mapping[str, str]:
        """The session's storage options, for all stores."""

    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The storage options of tables in the session's catalogs, by the catalog's name."""

    def transaction(self) -> str | None:
        """The id of the session's open transaction over tables of a catalog."""

    def provider(self, location: str, java_class: str) -> str:
        """The name of a credential provider that asks a class of the JVM."""


# The driver's source, which takes the session of the call, if there is one, and gives None outside
# of a session; and what a task received.
_source: Callable[[Any], Source | None] | None = None
_received: Carried | None = None
# The session of one call, and options of one call, such as a statement's.
_session: ContextVar[Any] = ContextVar("deltaplane_session", default=None)
_call: ContextVar[Mapping[str, str] | None] = ContextVar("deltaplane_call_options", default=None)
# The id of the transaction over tables of a catalog in whose block this thread is.
_transaction: ContextVar[str | None] = ContextVar("deltaplane_transaction", default=None)


class Carried:
    """What a task needs to open a job's stores; travels to it in the pickled function."""

    def __init__(
        self,
        settings: Mapping[str, str],
        options: Mapping[str, str],
        handed: Mapping[str, Handed],
        catalogs: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self._settings = dict(settings)
        self._options = dict(options)
        self._handed = dict(handed)
        self._catalogs = {name: dict(of_name) for name, of_name in (catalogs or {}).items()}

    def __repr__(self) -> str:
        return f"Carried({len(self._settings)} settings, {len(self._options)} options, {len(self._handed)} credentials)"

    def __getstate__(self) -> dict[str, Any]:
        return vars(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        # Spark unpickles the function or the class of a task before it calls anything of it.
        self.receive()

    def settings(self, store: Store) -> Mapping[str, str]:
        """Hadoop's settings."""
        return self._settings

    def options(self) -> Mapping[str, str]:
        """The session's storage options."""
        return self._options

    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The storage options of tables in the session's catalogs."""
        return self._catalogs

    def transaction(self) -> str | None:
        """None: the driver has the transaction, and a task only reads and writes files."""
        return None

    def provider(self, location: str, java_class: str) -> str:
        """The name of the provider that the driver asked."""
        handed = self._handed.get(_key(location))
        return java_class if handed is None else handed.name

    def receive(self) -> None:
        """Makes this task's process use these options until it receives others."""
        global _received
        _received = self
        for handed in self._handed.values():
            hand(handed)


def use(source: Callable[[Any], Source | None]) -> None:
    """Sets where the driver's options come from; called again, it replaces the source."""
    global _source
    _source = source


@contextmanager
def in_session(session: Any) -> Iterator[None]:
    """Within the block the options of this session apply, in this thread, whichever is active; None
    leaves the block before in force."""
    token = _session.set(_session.get() if session is None else session)
    try:
        yield
    finally:
        _session.reset(token)


def of_session(session: Callable[..., Any]) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A decorator of a function that runs `in_session`: `session` finds the session in its
    arguments."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with in_session(session(*args, **kwargs)):
                return function(*args, **kwargs)

        return run

    return decorate


@contextmanager
def overriding(options: Mapping[str, str] | None) -> Iterator[None]:
    """Within the block these options precede the session's, in this thread."""
    token = _call.set({**(_call.get() or {}), **(options or {})})
    try:
        yield
    finally:
        _call.reset(token)


def merged(location: str, options: Mapping[str, str]) -> dict[str, str]:
    """The options for a store: the given ones, then the call's, the session's, those of the
    variable DELTAPLANE_STORAGE_OPTIONS, and what Hadoop's settings mean. Settings of Hadoop among
    the given options precede the session's.

    Raises:
        InvalidArgumentError: settings that contradict each other, or a variable that isn't a JSON
            object.

    >>> merged("s3a://lake/t", {"fs.s3a.endpoint.region": "eu-north-1", "aws_access_key_id": "id"})
    {'aws_access_key_id': 'id', 'aws_region': 'eu-north-1'}
    """
    held = _held()
    own: dict[str, str] = {}
    layers = [options, _call.get() or {}, {} if held is None else held.options(), _of_variable()]
    theirs: dict[str, str] = {}
    for layer in layers:
        own |= beside({key: value for key, value in layer.items() if not is_hadoops(key)}, own)
        theirs = {**{key: value for key, value in layer.items() if is_hadoops(key)}, **theirs}
    if location.startswith((CATALOG_SCHEME, _VOLUMES)):
        return _of_name(location, own, held)
    store = store_of(location)
    if store is None:
        return own
    settings = {**settings_of_call(store), **theirs}
    if settings:
        translation = translate(location, settings, own, os.environ)
        own |= translation.options
        if translation.java_class is not None and held is not None:
            own["credential_provider"] = held.provider(location, translation.java_class)
    if not has_credentials(own):
        own |= beside(found_for(store.kind, os.environ), own)
    return own


def settings_of_call(store: Store) -> Mapping[str, str]:
    """Hadoop's settings of a store, in the session of the call."""
    held = _held()
    return {} if held is None else held.settings(store)


def _of_name(location: str, own: dict[str, str], held: Source | None) -> dict[str, str]:
    """The options of a table's name in a catalog, with the session's for that catalog unless the
    call names one; and with the open transaction."""
    if "catalog" not in own and held is not None:
        name = re.split(r"[./]", location.removeprefix(CATALOG_SCHEME).removeprefix(_VOLUMES), maxsplit=1)[0]
        own |= beside(held.catalogs().get(name, {}), own)
    if location.startswith(_VOLUMES):
        return own
    open_transaction = _transaction.get()
    if open_transaction is None and held is not None and _session.get() is not None:
        # Not for calls without the session, whose options are those of the active one.
        open_transaction = held.transaction()
    if open_transaction is not None:
        own.setdefault(_TRANSACTION, open_transaction)
    return own


def files_options(
    location: str,
    options: Mapping[str, str] | None,
    place: str,
    vended: Callable[[str, str, Mapping[str, str]], str | None],
) -> dict[str, str]:
    """The options for the files of a table in a catalog, where they are opened by their place
    instead of the table's name: without what only its catalog needs, and with the credentials that
    the catalog hands out unless the caller has some.

    Args:
        location, options: the table, as the driver opens it.
        place: the location of its files.
        vended: gives the name of a credential provider that asks the catalog, from the table's
            name, this place and the options; None if the catalog hands out none.
    """
    whole = merged(location, options or {})
    own = {key: value for key, value in whole.items() if not key.lower().startswith("catalog")}
    if store_of(place) is not None and not has_credentials(merged(place, own)):
        provider = vended(location.removeprefix(CATALOG_SCHEME), place, whole)
        if provider is not None:
            own["credential_provider"] = provider
    return own


@contextmanager
def in_transaction(identifier: str) -> Iterator[None]:
    """Within the block, commands on tables in catalogs are part of a transaction, in this
    thread."""
    token = _transaction.set(identifier)
    try:
        yield
    finally:
        _transaction.reset(token)


def transaction_of_thread() -> str | None:
    """The id of the transaction in whose block this thread is; None outside of blocks."""
    return _transaction.get()


def carried_for(stores: Iterable[tuple[str, Mapping[str, str] | None]]) -> Carried | None:
    """What the tasks of a job on these locations, each with the job's own options, need; None
    without a session or for locations that no session has options for. A provider that only this
    process can ask is asked here."""
    known = [(location, options, store) for location, options in stores if (store := store_of(location)) is not None]
    held = _held() if known else None
    if held is None:
        return None
    settings: dict[str, str] = {}
    handed: dict[str, Handed] = {}
    for location, options, store in known:
        settings |= held.settings(store)
        name = merged(location, options or {}).get("credential_provider")
        if name and is_local(name):
            # A provider of the job's own options isn't one of the bucket.
            handed[name if name in (options or {}).values() else _key(location)] = Handed.of(name)
    return Carried(settings, _together(_call.get() or {}, held.options(), _of_variable()), handed)


def carried_everywhere(options: Mapping[str, str] | None = None) -> Carried | None:
    """What stores of every kind need, with options that precede the session's; None without a
    session that has any. Nothing is asked of a provider."""
    held = _held()
    settings: dict[str, str] = {}
    for location in ("s3a://any", "abfss://any@any", "gs://any"):
        store = store_of(location)
        settings |= {} if held is None or store is None else held.settings(store)
    call = {**(_call.get() or {}), **(options or {})}
    session = _together(call, {} if held is None else held.options(), _of_variable())
    catalogs = {} if held is None else held.catalogs()
    return Carried(settings, session, {}, catalogs) if settings or session or catalogs else None


def advice(location: str, message: str) -> str | None:
    """The settings of Spark that mean the storage options of an error's text; None if it names
    none, or there is no session."""
    if _held() is None:
        return None
    named = [setting for option, setting in SPELLINGS.items() if option in message]
    return f"in Spark's settings these are {', '.join(named)}" if named else None


def user_metadata() -> str | None:
    """The text that the session of this call records in the history with each of its commits; None
    without such a setting, or outside of a session's call."""
    settings = getattr(_session.get(), "conf", None)
    text: str | None = None if settings is None else settings.get(_USER_METADATA, None)
    return text


def _together(*layers: Mapping[str, str]) -> dict[str, str]:
    """The options of all layers; earlier ones precede."""
    options: dict[str, str] = {}
    for layer in layers:
        options |= beside(layer, options)
    return options


def _of_variable() -> Mapping[str, str]:
    text = os.environ.get(VARIABLE)
    return _parsed(text) if text else {}


@functools.lru_cache(maxsize=4)
def _parsed(text: str) -> Mapping[str, str]:
    """The options of the variable's text, which may hold secrets and is in no error."""
    try:
        options = json.loads(text)
    except ValueError:
        options = None
    if not isinstance(options, dict) or any(isinstance(value, dict | list) for value in options.values()):
        raise InvalidArgumentError(
            f'the variable {VARIABLE} isn\'t a JSON object of storage options, such as {{"timeout": "60s"}}'
        )
    return storage_options_text(options) or {}


def _held() -> Any:
    source = None if _source is None else _source(_session.get())
    return _received if source is None else source


def _key(location: str) -> str:
    store = store_of(location)
    return location if store is None else f"{store.kind}://{store.bucket}@{store.host}"
