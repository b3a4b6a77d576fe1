"""Translates Hadoop's settings of S3A, ABFS and Google's connector to storage options: one table.

Pure: no session, no I/O. Which settings apply, and who asks a credentials class, is
`session_options`'s.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from deltaplane.exceptions import InvalidArgumentError

__all__ = [
    "PREFIXES",
    "SECRETS",
    "SPELLINGS",
    "Store",
    "Translation",
    "beside",
    "chosen",
    "has_credentials",
    "is_hadoops",
    "store_of",
    "translate",
]

# The beginnings of the settings that are translated.
PREFIXES = ("fs.s3a.", "fs.s3.", "fs.azure.", "fs.gs.", "google.cloud.auth.")
# Hadoop's settings that a file of secrets (`hadoop.security.credential.provider.path`) may hold.
SECRETS = ("fs.s3a.access.key", "fs.s3a.secret.key", "fs.s3a.session.token")

# For errors: a storage option, and the setting of Spark that means the same.
SPELLINGS = {
    "aws_access_key_id": "spark.hadoop.fs.s3a.access.key",
    "aws_secret_access_key": "spark.hadoop.fs.s3a.secret.key",
    "aws_session_token": "spark.hadoop.fs.s3a.session.token",
    "aws_endpoint_url": "spark.hadoop.fs.s3a.endpoint",
    "aws_region": "spark.hadoop.fs.s3a.endpoint.region",
    "aws_skip_signature": "spark.hadoop.fs.s3a.aws.credentials.provider",
    "azure_storage_account_key": "spark.hadoop.fs.azure.account.key.ACCOUNT.dfs.core.windows.net",
    "azure_storage_sas_token": "spark.hadoop.fs.azure.sas.fixed.token.ACCOUNT.dfs.core.windows.net",
    "azure_client_secret": "spark.hadoop.fs.azure.account.oauth2.client.secret",
    "google_service_account": "spark.hadoop.fs.gs.auth.service.account.json.keyfile",
}

# Credentials classes of S3A by the last part of their names, of Hadoop and of both AWS libraries.
# `environment` and `instance` need nothing but permission; every other class is asked in the JVM.
_S3A_CLASSES = {
    "SimpleAWSCredentialsProvider": "keys",
    "TemporaryAWSCredentialsProvider": "keys",
    "AnonymousAWSCredentialsProvider": "anonymous",
    "AnonymousCredentialsProvider": "anonymous",
    "EnvironmentVariableCredentialsProvider": "environment",
    "WebIdentityTokenFileCredentialsProvider": "environment",
    "WebIdentityTokenCredentialsProvider": "environment",
    "IAMInstanceCredentialsProvider": "instance",
    "InstanceProfileCredentialsProvider": "instance",
    "ContainerCredentialsProvider": "instance",
    "EC2ContainerCredentialsProviderWrapper": "instance",
    "ProfileAWSCredentialsProvider": "aws",
    "ProfileCredentialsProvider": "aws",
    "DefaultCredentialsProvider": "aws",
    "DefaultAWSCredentialsProviderChain": "aws",
}
# Hadoop's own list, which every session has without having chosen it.
_S3A_DEFAULT = {
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider",
    "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider",
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider",
}
# The settings of S3A that are read here, of all buckets and of one.
_S3A_READ = re.compile(
    r"fs\.s3a\.(?:bucket\..+\.)?(?:access\.key|secret\.key|session\.token|endpoint|endpoint\.region|path\.style\.access"
    r"|connection\.ssl\.enabled|aws\.credentials\.provider|requester\.pays\.enabled|security\.credential\.provider\.path)"
)
_DEFAULTS = {
    "fs.s3a.path.style.access": "false",
    "fs.s3a.connection.ssl.enabled": "true",
    "fs.s3a.requester.pays.enabled": "false",
}
_AWS_VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE")
# The host of Amazon's own endpoints, which need no address but the region.
_AMAZON = re.compile(
    r"(?:bucket\.)?s3(?:[.-](?:fips[.-]|dualstack[.-])?(?P<region>[a-z]{2}(?:-[a-z]+)+-\d))?\.amazonaws\.com(?:\.cn)?"
)
_IP = re.compile(r"\[.*\]|\d{1,3}(?:\.\d{1,3}){3}")

# Settings of ABFS and their options. Each may end in the account's host.
_AZURE_OAUTH = {
    "fs.azure.account.oauth2.client.id": "azure_client_id",
    "fs.azure.account.oauth2.client.secret": "azure_client_secret",
    "fs.azure.account.oauth2.msi.tenant": "azure_tenant_id",
    "fs.azure.account.oauth2.token.file": "azure_federated_token_file",
}
_MICROSOFT_LOGIN = re.compile(r"(?P<host>https?://[^/]+)/(?P<tenant>[^/]+)/oauth2(?:/v2\.0)?/token/?")

# Groups of options of which an explicit one replaces all of the session's.
_GROUPS = (
    frozenset(
        (
            "access_key_id secret_access_key session_token skip_signature web_identity_token_file role_arn "
            "container_credentials_relative_uri container_credentials_full_uri container_authorization_token_file "
            "credential_provider"
        ).split()
    ),
    frozenset("endpoint_url endpoint_url_s3 allow_http virtual_hosted_style_request".split()),
    frozenset("region default_region".split()),
    frozenset(
        (
            "account_key sas_token bearer_token session_token client_id client_secret tenant_id federated_token_file use_azure_cli "
            "use_emulator skip_signature credential_type credential_provider"
        ).split()
    ),
    frozenset(
        "service_account service_account_key application_credentials bearer_token skip_signature credential_provider".split()
    ),
)
# Other names of options in these groups.
_SAME = {
    "endpoint": "endpoint_url",
    "token": "session_token",
    "access_key": "account_key",
    "master_key": "account_key",
    "sas_key": "sas_token",
    "authority_id": "tenant_id",
    "service_account_path": "service_account",
}


def chosen(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings that mean an option, without Hadoop's own values.

    >>> chosen({"fs.s3a.threads.max": "96", "fs.s3a.path.style.access": "false", "fs.s3a.endpoint": "https://minio"})
    {'fs.s3a.endpoint': 'https://minio'}
    """
    return {
        key: value
        for key, value in settings.items()
        if value.strip()
        and (_S3A_READ.fullmatch(key) or not key.startswith("fs.s3a."))
        and not (key.startswith("fs.azure.") and not key.startswith(("fs.azure.account.", "fs.azure.sas.")))
        and value != _DEFAULTS.get(key)
        and not (key == "fs.s3a.aws.credentials.provider" and set(_classes(value)) == _S3A_DEFAULT)
    }


def has_credentials(options: Iterable[str]) -> bool:
    """Whether options say how to get credentials, by a key, an identity or a permission.

    >>> has_credentials(["aws_region"]), has_credentials(["AWS_ACCESS_KEY_ID"]), has_credentials(["allow_instance_metadata"])
    (False, True, True)
    """
    names = {_plain(key) for key in options}
    return "allow_instance_metadata" in names or any(
        names & group for group in _GROUPS if "credential_provider" in group
    )


def is_hadoops(key: str) -> bool:
    """Whether a key is a setting of Hadoop's object stores, and no storage option.

    >>> is_hadoops("fs.s3a.access.key"), is_hadoops("fs.defaultFS"), is_hadoops("aws_region")
    (True, False, False)
    """
    return key.startswith(PREFIXES)


class Store(NamedTuple):
    """The parts of a location by which settings are chosen."""

    kind: str
    """`s3a`, `azure` or `gs`."""
    bucket: str
    """The bucket or container."""
    host: str
    """The account's host; empty outside of Azure."""


class Translation(NamedTuple):
    """The options of a store, and what must be asked in the JVM."""

    options: dict[str, str]
    """Storage options; values may be secrets."""
    java_class: str | None
    """The first credentials class that only the JVM can ask; None if there is none."""


def store_of(location: str) -> Store | None:
    """The store of a location; None for a location without settings of Hadoop.

    >>> store_of("s3a://lake/t"), store_of("abfss://c@acme.dfs.core.windows.net/t").host, store_of("/lake/t")
    (Store(kind='s3a', bucket='lake', host=''), 'acme.dfs.core.windows.net', None)
    """
    scheme, separator, rest = location.partition("://")
    authority = rest.split("/", 1)[0]
    if not separator or not authority:
        return None
    scheme = scheme.lower()
    if scheme in ("s3a", "s3", "s3n"):
        return Store("s3a", authority, "")
    if scheme in ("abfs", "abfss", "az", "azure"):
        container, sign, host = authority.rpartition("@")
        return Store("azure", container if sign else authority, host if sign else "")
    if scheme in ("gs", "gcs"):
        return Store("gs", authority, "")
    return None


def beside(options: Mapping[str, str], explicit: Iterable[str]) -> dict[str, str]:
    """The options that explicit ones leave in force: credentials, endpoint and region are replaced
    each as a group, so that no session token is sent with another pair of keys.

    >>> beside({"aws_session_token": "…", "aws_region": "eu-north-1"}, ["ACCESS_KEY_ID"])
    {'aws_region': 'eu-north-1'}
    """
    if not options:
        return {}
    own = {_plain(key) for key in explicit}
    replaced = own.union(*(group for group in _GROUPS if group & own))
    return {key: value for key, value in options.items() if _plain(key) not in replaced}


def translate(
    location: str,
    settings: Mapping[str, str],
    explicit: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Translation:
    """The storage options of a location that Hadoop's settings mean, without those that explicit
    options replace (`beside`). `environment` decides whether classes that read it have a
    credential.

    Raises:
        InvalidArgumentError: half of a pair of keys. Values are never shown.

    >>> translate("s3a://lake/t", {"fs.s3a.endpoint": "localhost:9000", "fs.s3a.connection.ssl.enabled": "false",
    ...     "fs.s3a.path.style.access": "true"}).options
    {'aws_endpoint_url': 'http://localhost:9000', 'aws_allow_http': 'true'}
    """
    store = store_of(location)
    if store is None:
        return Translation({}, None)
    reader = {"s3a": _s3a, "azure": _azure, "gs": _gs}[store.kind]
    options, java_class = reader(store, _Settings(store, settings, environment or {}))
    explicit = list(explicit)
    asks = java_class if beside({"credential_provider": ""}, explicit) else None
    return Translation(beside(options, explicit), asks)


def _plain(key: str) -> str:
    """An option's name without its store, so that spellings can be compared."""
    key = key.lower()
    for prefix in ("aws_", "azure_storage_", "azure_", "google_"):
        key = key.removeprefix(prefix)
    return _SAME.get(key, key)


class _Settings:
    """Settings of one store: those of its bucket or account precede the general ones."""

    def __init__(self, store: Store, settings: Mapping[str, str], environment: Mapping[str, str]) -> None:
        self._store = store
        self._settings = settings
        self.environment = environment

    def get(self, key: str) -> str | None:
        """The value of a setting, None if it is missing or blank."""
        names = [key]
        if self._store.kind == "s3a":
            names = [key.replace("fs.s3a.", f"fs.s3a.bucket.{self._store.bucket}.", 1), key]
        elif self._store.host:
            account = self._store.host.split(".", 1)[0]
            names = [f"{key}.{self._store.host}", f"{key}.{account}", key]
        for name in names:
            value = (self._settings.get(name) or "").strip()
            # An unresolved reference of a configuration file means nothing.
            if value and not value.startswith("${"):
                return value
        return None

    def is_on(self, key: str, default: bool) -> bool:
        """The value of a boolean setting."""
        value = self.get(key)
        return default if value is None else value.lower() == "true"


def _s3a(store: Store, settings: _Settings) -> tuple[dict[str, str], str | None]:
    options: dict[str, str] = {}
    region = settings.get("fs.s3a.endpoint.region")
    endpoint = settings.get("fs.s3a.endpoint")
    if endpoint is not None:
        scheme, separator, host = endpoint.rpartition("://")
        host = host.rstrip("/")
        if not separator:
            scheme = "https" if settings.is_on("fs.s3a.connection.ssl.enabled", True) else "http"
        if (amazon := _AMAZON.fullmatch(host.lower())) is not None:
            region = region or amazon["region"]
        else:
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            by_host = not settings.is_on("fs.s3a.path.style.access", False) and "." not in store.bucket
            if by_host and not _IP.fullmatch(name):
                options["aws_virtual_hosted_style_request"] = "true"
                host = f"{store.bucket}.{host}"
            options["aws_endpoint_url"] = f"{scheme}://{host}"
            if scheme.lower() == "http":
                options["aws_allow_http"] = "true"
    # `sdk` and the empty text leave the region to the environment.
    if region and region != "sdk":
        options["aws_region"] = region
    if settings.is_on("fs.s3a.requester.pays.enabled", False):
        options["aws_request_payer"] = "true"
    credentials, java_class = _s3a_credentials(settings)
    return {**options, **credentials}, java_class


def _classes(names: str) -> list[str]:
    return [name for name in re.split(r"[,\s]+", names) if name]


def _s3a_credentials(settings: _Settings) -> tuple[dict[str, str], str | None]:
    """The options of the first credentials class that has any."""
    classes = _classes(settings.get("fs.s3a.aws.credentials.provider") or "")
    key, secret = settings.get("fs.s3a.access.key"), settings.get("fs.s3a.secret.key")
    if key is None and secret is None:
        # The keys of `s3://` on EMR, which has no others.
        key, secret = settings.get("fs.s3.awsAccessKeyId"), settings.get("fs.s3.awsSecretAccessKey")
    if (key is None) != (secret is None):
        raise InvalidArgumentError(
            "the session's settings hold one of spark.hadoop.fs.s3a.access.key and spark.hadoop.fs.s3a.secret.key (storage options "
            "aws_access_key_id and aws_secret_access_key): set both, or neither"
        )
    token = settings.get("fs.s3a.session.token")
    if not classes or set(classes) == _S3A_DEFAULT:
        classes = ["TemporaryAWSCredentialsProvider"]
    for name in classes:
        meaning = _S3A_CLASSES.get(re.split(r"[.$]", name)[-1])
        if meaning == "keys":
            if key is None or secret is None:
                continue
            options = {"aws_access_key_id": key, "aws_secret_access_key": secret}
            # The class for keys alone ignores the token.
            if token is not None and not name.endswith("SimpleAWSCredentialsProvider"):
                options["aws_session_token"] = token
            return options, None
        if meaning == "anonymous":
            return {"aws_skip_signature": "true"}, None
        if meaning == "environment":
            if any(settings.environment.get(name) for name in _AWS_VARIABLES):
                return {}, None
            continue
        if meaning == "instance":
            return {"allow_instance_metadata": "true"}, None
        if meaning == "aws":
            return {"credential_provider": "aws"}, None
        return {}, name
    return {}, None


def _azure(store: Store, settings: _Settings) -> tuple[dict[str, str], str | None]:
    options: dict[str, str] = {}
    kind = (settings.get("fs.azure.account.auth.type") or "SharedKey").lower()
    sas = settings.get("fs.azure.sas.fixed.token")
    if sas is None and store.host:
        blob = store.host.replace(".dfs.", ".blob.", 1)
        sas = settings.get(f"fs.azure.sas.{store.bucket}.{blob}") or settings.get(
            f"fs.azure.sas.{store.bucket}.{store.host}"
        )
    if kind == "oauth":
        name = (settings.get("fs.azure.account.oauth.provider.type") or "").rsplit(".", 1)[-1]
        for setting, option in _AZURE_OAUTH.items():
            value = settings.get(setting)
            if value is not None:
                options[option] = value
        endpoint = settings.get("fs.azure.account.oauth2.client.endpoint")
        login = _MICROSOFT_LOGIN.fullmatch(endpoint or "")
        if login is not None:
            options["azure_tenant_id"] = login["tenant"]
            if login["host"] != "https://login.microsoftonline.com":
                options["azure_authority_host"] = login["host"]
        if name == "MsiTokenProvider":
            return {**options, "allow_instance_metadata": "true"}, None
        if name in ("ClientCredsTokenProvider", "WorkloadIdentityTokenProvider", ""):
            return options, None
        return {}, name
    if kind == "custom":
        return {}, settings.get("fs.azure.account.oauth.provider.type")
    if kind == "sas" or (sas is not None and settings.get("fs.azure.account.key") is None):
        if sas is not None:
            return {"azure_storage_sas_token": sas}, None
        return {}, settings.get("fs.azure.sas.token.provider.type")
    key = settings.get("fs.azure.account.key")
    if key is None and store.host:
        key = settings.get(f"fs.azure.account.key.{store.host.replace('.dfs.', '.blob.', 1)}")
    if key is not None:
        options["azure_storage_account_key"] = key
    return options, None


def _gs(store: Store, settings: _Settings) -> tuple[dict[str, str], str | None]:
    options: dict[str, str] = {}
    root = settings.get("fs.gs.storage.root.url")
    if root is not None and "storage.googleapis.com" not in root:
        options["google_base_url"] = root.rstrip("/")
        if root.startswith("http://"):
            options["allow_http"] = "true"

    def auth(name: str) -> str | None:
        """A setting of either generation of Google's connector."""
        return settings.get(f"fs.gs.auth.{name}") or settings.get(f"google.cloud.auth.{name}")

    kind = (auth("type") or "").upper()
    keyfile, email = auth("service.account.json.keyfile"), auth("service.account.email")
    key = auth("service.account.private.key")
    if kind == "UNAUTHENTICATED" or (auth("null.enable") or "").lower() == "true":
        options["google_skip_signature"] = "true"
    elif kind == "COMPUTE_ENGINE":
        options["allow_instance_metadata"] = "true"
    elif kind in ("ACCESS_TOKEN_PROVIDER", "USER_CREDENTIALS") or auth("access.token.provider.impl"):
        return options, auth("access.token.provider.impl") or kind
    elif keyfile is not None:
        options["google_service_account"] = keyfile
    elif email is not None and key is not None:
        options["google_service_account_key"] = _google_key(email, auth("service.account.private.key.id"), key)
    return options, None


def _google_key(email: str, key_id: str | None, key: str) -> str:
    """The text of a service account's key file."""
    import json

    return json.dumps(
        {
            "type": "service_account",
            "client_email": email,
            "private_key_id": key_id or "",
            "private_key": key.replace("\\n", "\n"),
        }
    )
