"""Credential providers: an application's callables that return fresh credentials for a store, and
their names in storage options.

Knows this process's providers and reads their answers; the core decides when to ask, and calls
`check` and `fetch`.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from deltaplane.exceptions import InvalidArgumentError, StoreDeniedError, StoreUnavailableError
from deltaplane.io.own_identity import aws_credentials

__all__ = ["CredentialProvider", "Handed", "check", "fetch", "hand", "is_local", "provider_name", "token"]

CredentialProvider: TypeAlias = Callable[[], Any]

# The name of the provider that reads the shared files of AWS.
AWS = "aws"
# The field names of boto3's STS client.
_OF_STS = {
    "accesskeyid": "access_key_id",
    "secretaccesskey": "secret_access_key",
    "sessiontoken": "session_token",
    "expiration": "expires_at",
}
# Names of the expiry in answers of boto3, azure-identity, Polars and obstore.
_ENDS = ("expires_at", "expires_on", "expiry")

# Providers that other processes can't import, by name and by identity. They are never removed,
# since options may name them.
_named: dict[str, CredentialProvider] = {}
# With the provider, so that no later object gets its identity: `hand` may replace it in `_named`.
_names: dict[int, tuple[CredentialProvider, str]] = {}
_lock = threading.Lock()


def provider_name(provider: object) -> str:
    """A provider's name as a storage option: `module:name` if it can be imported.

    Raises:
        InvalidArgumentError: neither a callable nor such a name.

    >>> import secrets
    >>> provider_name("my_package.identity:keys"), provider_name(secrets.token_hex)
    ('my_package.identity:keys', 'secrets:token_hex')
    """
    if isinstance(provider, str):
        return provider
    if not callable(provider):
        raise InvalidArgumentError(
            "credential_provider is a callable that gives credentials, or the text module:name of one, "
            f"not {type(provider).__name__}"
        )
    module, name = getattr(provider, "__module__", None), getattr(provider, "__qualname__", None)
    # The main script's module has another name in other processes.
    if module and name and module != "__main__" and _attribute(sys.modules.get(module), name) is provider:
        return f"{module}:{name}"
    with _lock:
        _, generated_name = _names.get(id(provider), (None, None))
        if generated_name is None:
            generated_name = f"{type(provider).__name__}-{os.urandom(16).hex()} of process {os.getpid()}"
            _names[id(provider)] = (provider, generated_name)
            _named[generated_name] = provider
        return generated_name


class HandedExpiredError(Exception):
    """A handed answer has expired, and this process can't ask for another one."""

    def __init__(self, expires_ms: int) -> None:
        from datetime import datetime, timezone

        end = datetime.fromtimestamp(expires_ms / 1000, timezone.utc)
        super().__init__(
            f"the credentials that Spark's driver gave to this job expired at {end:%Y-%m-%d %H:%M:%S} UTC, while the job ran, and "
            "only the driver can ask for others: use credentials that last longer than the job, split the job, or name a provider "
            "that tasks can ask themselves by the storage option credential_provider, as the text module:name"
        )


class Handed:
    """A provider's last answer on its way to another process, which can't call the provider."""

    def __init__(self, name: str, fields: list[tuple[str, str]], expires_ms: int | None) -> None:
        self.name = name
        self._fields = fields
        self._expires_ms = expires_ms

    def __repr__(self) -> str:
        return f"Handed({self.name!r})"

    @classmethod
    def of(cls, name: str) -> Handed:
        """Asks a provider of this process.

        Raises:
            StoreUnavailableError, StoreDeniedError, InvalidArgumentError: as `fetch`.
        """
        known = _named.get(name)
        return known if isinstance(known, Handed) else cls(name, *fetch(name))

    def __call__(self) -> tuple[dict[str, str], float | None]:
        """The answer, as a provider gives it.

        Raises:
            HandedExpiredError: it has expired.
        """
        if self._expires_ms is not None and time.time() * 1000 >= self._expires_ms:
            raise HandedExpiredError(self._expires_ms)
        return dict(self._fields), None if self._expires_ms is None else self._expires_ms / 1000


def is_local(name: str) -> bool:
    """Whether only this process can ask the provider of this name."""
    return name in _named


def hand(handed: Handed) -> None:
    """Makes this process know another one's provider by its name and last answer."""
    with _lock:
        _named[handed.name] = handed


def check(name: str) -> None:
    """Checks that this process has a provider of this name.

    Raises:
        InvalidArgumentError: no such provider, or the object of this name can't be called.
    """
    _provider(name)


def fetch(name: str) -> tuple[list[tuple[str, str]], int | None]:
    """A provider's current answer: fields with their values, and the expiry in ms since 1970 (UTC),
    or None.

    Errors name the provider and the class of its exception, but not that exception's text, which
    may contain a credential.

    Raises:
        InvalidArgumentError: the answer isn't credentials.
        StoreUnavailableError: it raised an `OSError`, such as `TimeoutError` or `ConnectionError`.
        StoreDeniedError: it raised any other exception.
    """
    provider = _provider(name)
    try:
        credentials = provider()
    except HandedExpiredError as e:
        raise StoreDeniedError(str(e)) from None
    except Exception as e:  # noqa: BLE001 whatever it is, the core gets an error of ours
        passes = isinstance(e, OSError) and not isinstance(e, PermissionError)
        raise (StoreUnavailableError if passes else StoreDeniedError)(
            f"the credential_provider {name} raised {type(e).__qualname__}; "
            "its message isn't shown, since it may hold a credential: call the provider by itself to see it"
        ) from None
    return _fields(name, credentials)


def token(name: str) -> str:
    """A catalog's token from the function of this name. Errors don't show the text of its
    exception, which may contain the token.

    Raises:
        StoreDeniedError: it raised an exception, or returned something else than text.
    """
    provider = _provider(name)
    try:
        answer = provider()
    except Exception as e:  # noqa: BLE001 whatever it is, the core gets an error of ours
        raise StoreDeniedError(
            f"the catalog_token function {name} raised {type(e).__qualname__}; call it by itself to see the message"
        ) from None
    if not isinstance(answer, str):
        raise StoreDeniedError(f"the catalog_token function {name} returned {type(answer).__name__}, not text")
    return answer


def _provider(name: str) -> CredentialProvider:
    provider = _named.get(name)
    if provider is not None:
        return provider
    if name == AWS:
        return aws_credentials
    module, colon, attribute = name.partition(":")
    if not colon or not module or not attribute:
        raise InvalidArgumentError(
            f"the credential_provider {name} isn't known in this process, and no module:name that it could import; give the "
            "callable itself here, or one that stands in a module, which tables that are sent to other processes need"
        )
    try:
        provider = _attribute(importlib.import_module(module), attribute)
    except Exception as e:  # noqa: BLE001 importing runs code of others
        raise InvalidArgumentError(
            f"the credential_provider {name} can't be imported ({type(e).__name__}); install its module in this process too"
        ) from None
    if not callable(provider):
        raise InvalidArgumentError(f"the credential_provider {name} is nothing that can be called; name a callable")
    return provider  # type: ignore[no-any-return]


def _attribute(owner: object, path: str) -> Any:
    for part in path.split("."):
        owner = getattr(owner, part, None)
    return owner


def _fields(name: str, credentials: object) -> tuple[list[tuple[str, str]], int | None]:
    end: object = None
    if hasattr(credentials, "token") and hasattr(credentials, "expires_on"):
        # An AccessToken of azure-identity, which is a tuple as well.
        end, credentials = credentials.expires_on, {"token": credentials.token}
    elif isinstance(credentials, tuple) and len(credentials) == 2:
        credentials, end = credentials
    if not isinstance(credentials, Mapping):
        close = getattr(credentials, "close", None)
        if callable(close) and hasattr(credentials, "__await__"):
            close()
        raise InvalidArgumentError(
            f"the credential_provider {name} gave {type(credentials).__name__}; it gives a mapping such as "
            '{"access_key_id": …, "secret_access_key": …, "session_token": …, "expires_at": …} or {"token": …, "expires_at": …}, '
            "at once and not as a coroutine"
        )
    fields: list[tuple[str, str]] = []
    for key, value in credentials.items():
        key = str(key).lower()
        key = _OF_STS.get(key, key)
        if value is None:
            continue
        if key in _ENDS:
            end = value
        elif isinstance(value, str):
            fields.append((key, value))
        else:
            raise InvalidArgumentError(
                f"the credential_provider {name} gave a {key} that is {type(value).__name__}, not text"
            )
    return fields, _end_ms(name, end)


def _end_ms(name: str, end: object) -> int | None:
    from datetime import datetime

    if end is None:
        return None
    if isinstance(end, str):
        try:
            end = datetime.fromisoformat(end[:-1] + "+00:00" if end[-1:] in ("Z", "z") else end)
        except ValueError:
            end = object()
    if isinstance(end, datetime):
        if end.tzinfo is None:
            raise InvalidArgumentError(
                f"the credential_provider {name} gave an end without a time zone; make it one, such as by tzinfo=timezone.utc"
            )
        return int(end.timestamp() * 1000)
    if isinstance(end, (int, float)) and not isinstance(end, bool) and 0 <= end < 1e11:
        return int(end * 1000)
    raise InvalidArgumentError(
        f"the credential_provider {name} gave an end that is neither a datetime with a time zone nor seconds since 1970"
    )
