"""A session's settings for object stores, as the driver's source of storage options; and the
credentials classes of Hadoop, which the JVM asks.

Reads settings and asks for credentials; `io.hadoop_settings` knows what the settings mean.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from deltaplane.exceptions import StoreDeniedError, UnsupportedFeatureError
from deltaplane.io.credentials import provider_name
from deltaplane.io.hadoop_settings import SECRETS, Store, chosen, store_of
from deltaplane.io.storage_options import storage_options_text
from deltaplane.spark.jvm.session_catalogs import HELD, TRANSACTION, held_catalogs
from deltaplane.spark.jvm.thread_values import thread_value

__all__ = ["SETTING", "file_system_class", "hold_options", "release_options", "settings_of"]

# The beginning of settings of a session whose rest is a storage option.
SETTING = "spark.deltaplane.storage."
# The setting by which copies of a session find the options that its Python side holds.
_HELD = "spark.deltaplane.optionsId"
_OWN = "spark.deltaplane."
# What is asked of a configuration with one call: settings of `fs.s3a.` and of EMR's `fs.s3.`.
_BEGINNINGS = {"s3a": ("fs.s3",), "azure": ("fs.azure.",), "gs": ("fs.gs.", "google.cloud.auth.")}
_SECRET_FILES = "hadoop.security.credential.provider.path"
# Hadoop 3.5 has a default, the machine's identity, beside which it reads no key file.
_GS_AUTH = "fs.gs.auth.type"

_options: dict[str, dict[str, str]] = {}
# Providers by the store's bucket or account and the class: each is asked once for all tables.
_providers: dict[tuple[str, str, str], Any] = {}
# The JVM's gateway and its writer of JSON, which takes longer to make than all questions of a
# store.
_writer: tuple[Any, Any] | None = None


def hold_options(spark: Any, options: Mapping[str, object] | None) -> None:
    """Sets the storage options of a session; they replace earlier ones."""
    import uuid

    release_options(spark)
    text = storage_options_text(options)
    if text:
        number = str(uuid.uuid4())
        _options[number] = text
        spark.conf.set(_HELD, number)


def release_options(spark: Any) -> None:
    """Forgets the options of a session."""
    number = spark.conf.get(_HELD, None)
    if number is not None:
        _options.pop(number, None)
        spark.conf.unset(_HELD)


def file_system_class(spark: Any, scheme: str) -> str | None:
    """The class that Spark's Hadoop has for a scheme; None without one, or without its jar."""
    from py4j.protocol import Py4JJavaError

    conf = spark._jsparkSession.sessionState().newHadoopConf()
    try:
        return str(spark._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, conf).getName())
    except Py4JJavaError:
        return None


def settings_of(spark: Any = None) -> SessionOptions | None:
    """The options of a Spark session, or else of the active or the first one; None in a task and in
    a process without a session."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None or context._jsc is None:
        return None
    from pyspark.sql import SparkSession

    if getattr(spark, "_jsparkSession", None) is not None and getattr(spark.sparkContext, "_jsc", None) is not None:
        return SessionOptions(spark)
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    return None if session is None else SessionOptions(session)


class SessionOptions:
    """The options of one session at this moment."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark
        self._conf = spark._jsparkSession.sessionState().newHadoopConf()

    def settings(self, store: Store) -> Mapping[str, str]:
        """Hadoop's settings of the store's kind."""
        settings: dict[str, str] = {}
        for beginning in _BEGINNINGS[store.kind]:
            settings |= {beginning + key: value for key, value in self._with_prefix(beginning).items()}
        if store.kind == "s3a" and self._has_secret_files(settings, store):
            settings |= self._secrets(store)
        if store.kind == "gs" and self._is_hadoops_own(_GS_AUTH):
            settings.pop(_GS_AUTH, None)
        return chosen(settings)

    def options(self) -> Mapping[str, str]:
        """The session's storage options: those of `enable`, then the settings that name one."""
        own = {_OWN + key: value for key, value in self._with_prefix(_OWN).items()}
        named = {key.removeprefix(SETTING): value for key, value in own.items() if key.startswith(SETTING)}
        return {**named, **_options.get(own.get(_HELD, ""), {})}

    def catalogs(self) -> Mapping[str, Mapping[str, str]]:
        """The storage options of tables in the session's catalogs, by the catalog's name."""
        held = held_catalogs(self._conf.get(HELD))
        return {name: catalog.storage_options for name, catalog in held.items()}

    def transaction(self) -> str | None:
        """The id of the session's open transaction over tables of a catalog."""
        of_session: str | None = self._conf.get(TRANSACTION)
        return thread_value(self._spark, TRANSACTION) or of_session

    def provider(self, location: str, java_class: str) -> str:
        """The name of a provider that asks Hadoop's class."""
        store = store_of(location)
        assert store is not None
        key = (store.kind, store.host or store.bucket, java_class)
        provider = _providers.get(key)
        if provider is None:
            provider = _providers[key] = _of_java(self._spark, store, java_class)
        return provider_name(provider)

    def _with_prefix(self, prefix: str) -> dict[str, str]:
        """The settings with a prefix, without it, in one call each to collect and to read them."""
        text = _mapper(self._spark).writeValueAsString(self._conf.getPropsWithPrefix(prefix))
        return {str(key): str(value) for key, value in json.loads(text).items()}

    def _is_hadoops_own(self, key: str) -> bool:
        """Whether a setting has only the value of Hadoop's own file of defaults. Hadoop names that
        file for a value that Spark has set, too."""
        sources = self._conf.getPropertySources(key)
        if sources is None or list(sources) != ["core-default.xml"]:
            return False
        of_session = self._spark._jsparkSession.sessionState().conf()
        return not of_session.contains(key) and not of_session.contains(f"spark.hadoop.{key}")

    def _has_secret_files(self, settings: Mapping[str, str], store: Store) -> bool:
        names = (
            "fs.s3a.security.credential.provider.path",
            f"fs.s3a.bucket.{store.bucket}.security.credential.provider.path",
        )
        return any(settings.get(name) for name in names) or bool(self._conf.get(_SECRET_FILES))

    def _secrets(self, store: Store) -> dict[str, str]:
        """Secrets of Hadoop's own files of secrets."""
        conf = self._spark._jvm.org.apache.hadoop.fs.s3a.S3AUtils.propagateBucketOptions(self._conf, store.bucket)
        secrets = {name: conf.getPassword(name) for name in SECRETS}
        return {name: "".join(secret) for name, secret in secrets.items() if secret is not None}


def _mapper(spark: Any) -> Any:
    """The JVM's writer of JSON."""
    global _writer
    gateway = spark.sparkContext._gateway
    if _writer is None or _writer[0] is not gateway:
        _writer = gateway, spark._jvm.com.fasterxml.jackson.databind.ObjectMapper()
    return _writer[1]


def _of_java(spark: Any, store: Store, java_class: str) -> Any:
    """A credential provider that asks the JVM.

    Raises:
        UnsupportedFeatureError: a class of a store that can't be asked.
    """
    if store.kind == "s3a":
        return _S3aCredentials(spark, store, java_class)
    raise UnsupportedFeatureError(
        f"the credentials class {java_class} of Spark's settings can't be asked for this store's credentials: give deltaplane its "
        "own, as storage options, in enable(spark, options=…) or as the option credential_provider"
    )


class _S3aCredentials:
    """Asks S3A's classes of a bucket, in their order."""

    def __init__(self, spark: Any, store: Store, java_class: str) -> None:
        self._spark = spark
        self._bucket = store.bucket
        self._java_class = java_class
        self._list: Any = None

    def __call__(self) -> dict[str, Any]:
        """The current credentials.

        Raises:
            StoreDeniedError: the classes have none, or the JVM lacks them.
        """
        from py4j.protocol import Py4JError

        jvm = self._spark._jvm
        try:
            if self._list is None:
                s3a = jvm.org.apache.hadoop.fs.s3a
                conf = self._spark._jsparkSession.sessionState().newHadoopConf()
                conf = s3a.S3AUtils.propagateBucketOptions(conf, self._bucket)
                uri = jvm.java.net.URI.create(f"s3a://{self._bucket}")
                self._list = s3a.auth.CredentialProviderListFactory.createAWSCredentialProviderList(uri, conf)
            held = self._list.resolveCredentials()
            session = "software.amazon.awssdk.auth.credentials.AwsSessionCredentials"
            gateway = self._spark.sparkContext._gateway
            from py4j.java_gateway import is_instance_of

            # Keys without a token have no end.
            is_temporary = is_instance_of(gateway, held, session)
            token = str(held.sessionToken()) if is_temporary else None
            ends = held.expirationTime() if is_temporary else None
            return {
                "access_key_id": str(held.accessKeyId()),
                "secret_access_key": str(held.secretAccessKey()),
                "session_token": token,
                "expires_at": int(ends.get().toEpochMilli()) / 1000 if ends is not None and ends.isPresent() else None,
            }
        except (Py4JError, TypeError):
            # The exception's text may hold a credential.
            raise StoreDeniedError(
                f"Spark's credentials class {self._java_class} gave no credentials for s3a://{self._bucket}; look whether Spark "
                "itself can read this bucket (it needs the jar hadoop-aws), or give storage options"
            ) from None
