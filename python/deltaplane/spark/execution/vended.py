"""Credentials that a catalog hands out for a table's files, for tasks and for Spark's own scan.
Internal to `deltaplane.spark`.

Only the driver asks the catalog; tasks get the answer with their function, and Spark's scan gets it
as options of its relation, which no plan and no log shows.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from deltaplane import _native
from deltaplane.exceptions import StoreDeniedError
from deltaplane.io.credentials import fetch, is_local, provider_name
from deltaplane.io.hadoop_settings import store_of
from deltaplane.io.session_options import settings_of_call
from deltaplane.spark.jvm.internals import NativeScanUnavailable

__all__ = ["hadoop_settings", "vended_provider"]

# Credentials are asked for again this long before they end, so that a job has that time.
_AHEAD_SECONDS = 300
# The most tables whose providers are held.
_TABLES = 4096

_PROVIDERS: OrderedDict[tuple[str, str, tuple[tuple[str, str], ...]], _VendedCredentials] = OrderedDict()
_lock = threading.Lock()

_TEMPORARY = "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider"
_KEYS = "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider"
# The session's setting of the class that gives Google's connector its tokens. The connector has
# none; the one of Unity Catalog's jar takes the token from the settings.
_TOKEN_CLASS = "fs.gs.auth.access.token.provider"
# The end of a token without one.
_NO_END_MS = 2**53


class _VendedCredentials:
    """Asks a catalog for the credentials of one table."""

    def __init__(self, name: str, place: str, catalog: Mapping[str, str]) -> None:
        self._name, self._place = name, place
        self._catalog = dict(catalog)
        self._last: tuple[dict[str, Any], float | None] | None = None

    def known(self) -> bool:
        """Whether the catalog hands out any."""
        try:
            self()
        except StoreDeniedError:
            if self._last is None:
                return False
            raise
        return True

    def __call__(self) -> dict[str, Any]:
        """The current credentials, by the names of storage options, with their end.

        Raises:
            StoreDeniedError: the catalog hands out none any more.
        """
        last = self._last
        if last is not None and (last[1] is None or time.time() < last[1] - _AHEAD_SECONDS):
            return last[0]
        answer = _native.CatalogNames.open(self._catalog).credentials(self._name, self._place)
        if answer is None:
            raise StoreDeniedError(f"the catalog hands out no credentials for {self._name}")
        fields, end_ms = answer
        end = None if end_ms is None else end_ms / 1000
        # The catalog's answer of "no end" is beyond the years of a date.
        credentials: dict[str, Any] = {**dict(fields), "expires_at": end if end is not None and end < 1e11 else None}
        self._last = credentials, credentials["expires_at"]
        return credentials


def vended_provider(name: str, place: str, options: Mapping[str, str]) -> str | None:
    """The name of a credential provider of this process that asks the catalog of a table; None if
    the catalog hands out no credentials for it.

    Args:
        name: the table's full name.
        place: the location of its files.
        options: storage options, those of the catalog among them.
    """
    catalog = {key: value for key, value in options.items() if key.lower().startswith("catalog")}
    key = name, place, tuple(sorted(catalog.items()))
    with _lock:
        provider = _PROVIDERS.get(key)
    if provider is None:
        provider = _VendedCredentials(name, place, catalog)
        if not provider.known():
            return None
        with _lock:
            provider = _PROVIDERS.setdefault(key, provider)
            while len(_PROVIDERS) > _TABLES:
                _PROVIDERS.popitem(last=False)
    return provider_name(provider)


def hadoop_settings(place: str, options: Mapping[str, str]) -> dict[str, str]:
    """Hadoop's settings with the credentials of a provider of `vended_provider` among the options;
    empty without one.

    Hadoop opens a bucket once in a process and then uses the credentials of that time, so the
    settings disable this: tables of one bucket may have different credentials.

    Raises:
        NativeScanUnavailable: no setting gives Hadoop such credentials.
    """
    name, store = options.get("credential_provider"), store_of(place)
    if name is None or store is None or not is_local(name):
        return {}
    fields, end_ms = fetch(name)
    credentials = dict(fields)
    if store.kind == "s3a" and {"access_key_id", "secret_access_key"} <= credentials.keys():
        token = credentials.get("session_token")
        return {
            "fs.s3a.access.key": credentials["access_key_id"],
            "fs.s3a.secret.key": credentials["secret_access_key"],
            **({} if token is None else {"fs.s3a.session.token": token}),
            "fs.s3a.aws.credentials.provider": _KEYS if token is None else _TEMPORARY,
            "fs.s3a.impl.disable.cache": "true",
        }
    if store.kind == "azure" and store.host and "sas_token" in credentials:
        return {
            f"fs.azure.account.auth.type.{store.host}": "SAS",
            f"fs.azure.sas.fixed.token.{store.host}": credentials["sas_token"],
            "fs.abfs.impl.disable.cache": "true",
            "fs.abfss.impl.disable.cache": "true",
        }
    has_token = store.kind == "gs" and "token" in credentials
    if has_token and any(key.startswith(_TOKEN_CLASS) for key in settings_of_call(store)):
        return {
            "fs.gs.auth.type": "ACCESS_TOKEN_PROVIDER",
            "fs.gs.auth.access.token.credential": credentials["token"],
            "fs.gs.auth.access.token.expiration": str(_NO_END_MS if end_ms is None else end_ms),
            # The token is for the table's folder, not for those above it.
            "fs.gs.create.items.conflict.check.enable": "false",
            "fs.gs.impl.disable.cache": "true",
        }
    raise NativeScanUnavailable(
        f"Spark's file system for {place.partition('://')[0]}:// has no setting for the credentials that the catalog hands out"
    )
