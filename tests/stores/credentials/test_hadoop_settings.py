"""Hadoop's settings of object stores mean storage options: the facts, as a table."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

import pytest

from deltaplane import DeltaTable
from deltaplane.exceptions import DeltaError, InvalidArgumentError, StoreDeniedError
from deltaplane.io import session_options
from deltaplane.io.credentials import Handed, fetch, hand, provider_name
from deltaplane.io.hadoop_settings import store_of, translate
from deltaplane.io.session_options import Carried, carried_for, merged, overriding

LAKE, ABFS, GS = "s3a://lake/t", "abfss://c@acme.dfs.core.windows.net/t", "gs://lake/t"
KEYS = {"fs.s3a.access.key": "id", "fs.s3a.secret.key": "hidden"}
OUR_KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": "hidden"}
HADOOPS_CLASSES = (
    "org.apache.hadoop.fs.s3a.TemporaryAWSCredentialsProvider, org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider,\n"
    "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider,"
    "org.apache.hadoop.fs.s3a.auth.IAMInstanceCredentialsProvider"
)


def named(*classes: str) -> dict[str, str]:
    return {"fs.s3a.aws.credentials.provider": ",".join(f"org.apache.hadoop.fs.s3a.{name}" for name in classes)}


def oauth(kind: str, **more: str) -> dict[str, str]:
    return {
        "fs.azure.account.auth.type": "OAuth",
        "fs.azure.account.oauth.provider.type": f"org.apache.hadoop.fs.azurebfs.oauth2.{kind}",
        **{f"fs.azure.account.oauth2.{name.replace('_', '.')}": value for name, value in more.items()},
    }


LOGIN = "https://login.microsoftonline.com/tenant/oauth2/token"
CLIENT = {"azure_client_id": "c", "azure_client_secret": "s", "azure_tenant_id": "tenant"}
# Location, Hadoop's settings, and the options that they mean.
FACTS: list[tuple[str, dict[str, str], dict[str, str]]] = [
    (LAKE, {}, {}),
    (LAKE, KEYS, OUR_KEYS),
    ("s3://lake/t", KEYS, OUR_KEYS),
    (LAKE, {**KEYS, "fs.s3a.session.token": "t"}, {**OUR_KEYS, "aws_session_token": "t"}),
    (LAKE, {**KEYS, "fs.s3a.session.token": "t", **named("SimpleAWSCredentialsProvider")}, OUR_KEYS),
    # The file system of EMR, whose settings have another beginning; those of S3A precede them.
    ("s3://lake/t", {"fs.s3.awsAccessKeyId": "id", "fs.s3.awsSecretAccessKey": "hidden"}, OUR_KEYS),
    ("s3://lake/t", {"fs.s3.awsAccessKeyId": "emr", "fs.s3.awsSecretAccessKey": "emr", **KEYS}, OUR_KEYS),
    ("s3://lake/t", {**KEYS, "fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}, OUR_KEYS),
    # A bucket's own settings precede the general ones.
    (LAKE, {**KEYS, "fs.s3a.bucket.lake.access.key": "other"}, {**OUR_KEYS, "aws_access_key_id": "other"}),
    (LAKE, {"fs.s3a.bucket.sea.access.key": "other", "fs.s3a.bucket.sea.secret.key": "hidden"}, {}),
    # An address with and without a scheme.
    (LAKE, {"fs.s3a.endpoint": "http://10.0.0.1:9000"}, {"aws_endpoint_url": "http://10.0.0.1:9000", "aws_allow_http": "true"}),
    (LAKE, {"fs.s3a.endpoint": "10.0.0.1:9000/"}, {"aws_endpoint_url": "https://10.0.0.1:9000"}),
    (
        LAKE,
        {"fs.s3a.endpoint": "10.0.0.1:9000", "fs.s3a.connection.ssl.enabled": "false"},
        {"aws_endpoint_url": "http://10.0.0.1:9000", "aws_allow_http": "true"},
    ),
    # By name, S3A puts the bucket before the host unless the path has it.
    (
        LAKE,
        {"fs.s3a.endpoint": "https://minio.example"},
        {"aws_endpoint_url": "https://lake.minio.example", "aws_virtual_hosted_style_request": "true"},
    ),
    (
        LAKE,
        {"fs.s3a.endpoint": "https://minio.example", "fs.s3a.path.style.access": "true"},
        {"aws_endpoint_url": "https://minio.example"},
    ),
    ("s3a://l.ake/t", {"fs.s3a.endpoint": "https://minio.example"}, {"aws_endpoint_url": "https://minio.example"}),
    # Amazon's own address says the region.
    (LAKE, {"fs.s3a.endpoint": "s3.amazonaws.com"}, {}),
    (LAKE, {"fs.s3a.endpoint": "s3.eu-west-3.amazonaws.com"}, {"aws_region": "eu-west-3"}),
    (LAKE, {"fs.s3a.endpoint": "s3.eu-west-3.amazonaws.com", "fs.s3a.endpoint.region": "eu-north-1"}, {"aws_region": "eu-north-1"}),
    (LAKE, {"fs.s3a.endpoint.region": "sdk"}, {}),
    (LAKE, {"fs.s3a.requester.pays.enabled": "true"}, {"aws_request_payer": "true"}),
    # Credentials classes, in their order; Hadoop's own list is nobody's choice.
    (LAKE, named("AnonymousAWSCredentialsProvider"), {"aws_skip_signature": "true"}),
    (LAKE, {**KEYS, **named("SimpleAWSCredentialsProvider", "AnonymousAWSCredentialsProvider")}, OUR_KEYS),
    (LAKE, named("SimpleAWSCredentialsProvider", "AnonymousAWSCredentialsProvider"), {"aws_skip_signature": "true"}),
    (LAKE, named("auth.IAMInstanceCredentialsProvider"), {"allow_instance_metadata": "true"}),
    (LAKE, named("auth.ProfileAWSCredentialsProvider"), {"credential_provider": "aws"}),
    (LAKE, {"fs.s3a.aws.credentials.provider": HADOOPS_CLASSES}, {}),
    (LAKE, {"fs.s3a.aws.credentials.provider": HADOOPS_CLASSES, **KEYS}, OUR_KEYS),
    # Azure: of the account, by its host or name, or of all accounts.
    (ABFS, {"fs.azure.account.key.acme.dfs.core.windows.net": "a2V5"}, {"azure_storage_account_key": "a2V5"}),
    (ABFS, {"fs.azure.account.key.acme.blob.core.windows.net": "a2V5"}, {"azure_storage_account_key": "a2V5"}),
    (ABFS, {"fs.azure.account.key.other.dfs.core.windows.net": "a2V5"}, {}),
    (ABFS, {"fs.azure.account.key": "a2V5"}, {"azure_storage_account_key": "a2V5"}),
    (
        ABFS,
        {"fs.azure.account.auth.type.acme.dfs.core.windows.net": "SAS", "fs.azure.sas.fixed.token.acme.dfs.core.windows.net": "sv=1&sig=x"},
        {"azure_storage_sas_token": "sv=1&sig=x"},
    ),
    (ABFS, {"fs.azure.sas.c.acme.blob.core.windows.net": "sv=1&sig=x"}, {"azure_storage_sas_token": "sv=1&sig=x"}),
    (ABFS, oauth("ClientCredsTokenProvider", client_id="c", client_secret="s", client_endpoint=LOGIN), CLIENT),
    (
        ABFS,
        oauth("ClientCredsTokenProvider", client_id="c", client_secret="s", client_endpoint=LOGIN.replace("microsoftonline.com", "example")),
        {**CLIENT, "azure_authority_host": "https://login.example"},
    ),
    (
        ABFS,
        oauth("WorkloadIdentityTokenProvider", client_id="c", msi_tenant="tenant", token_file="/t"),
        {"azure_client_id": "c", "azure_tenant_id": "tenant", "azure_federated_token_file": "/t"},
    ),
    (ABFS, oauth("MsiTokenProvider", client_id="c"), {"azure_client_id": "c", "allow_instance_metadata": "true"}),
    # Google: both generations of its connector.
    (GS, {"fs.gs.auth.service.account.json.keyfile": "/k"}, {"google_service_account": "/k"}),
    (GS, {"google.cloud.auth.service.account.json.keyfile": "/k"}, {"google_service_account": "/k"}),
    (GS, {"fs.gs.auth.type": "UNAUTHENTICATED"}, {"google_skip_signature": "true"}),
    (GS, {"fs.gs.auth.type": "COMPUTE_ENGINE"}, {"allow_instance_metadata": "true"}),
    (GS, {"fs.gs.storage.root.url": "http://10.0.0.1:80/"}, {"google_base_url": "http://10.0.0.1:80", "allow_http": "true"}),
    (
        GS,
        {
            "fs.gs.auth.service.account.email": "a@b",
            "fs.gs.auth.service.account.private.key.id": "1",
            "fs.gs.auth.service.account.private.key": "k\\nl",
        },
        {"google_service_account_key": '{"type": "service_account", "client_email": "a@b", "private_key_id": "1", "private_key": "k\\nl"}'},
    ),
    ("/lake/t", KEYS, {}),
]  # fmt: skip


@pytest.mark.parametrize(("location", "settings", "options"), FACTS)
def test_settings_mean_options(location: str, settings: dict[str, str], options: dict[str, str]) -> None:
    translation = translate(location, settings)
    assert translation.options == options
    assert translation.java_class is None


@pytest.mark.parametrize(
    ("location", "settings", "asked"),
    [
        (LAKE, named("auth.AssumedRoleCredentialProvider"), "org.apache.hadoop.fs.s3a.auth.AssumedRoleCredentialProvider"),
        (LAKE, {"fs.s3a.aws.credentials.provider": "com.acme.Vault", **KEYS}, "com.acme.Vault"),
        (ABFS, oauth("RefreshTokenBasedTokenProvider"), "RefreshTokenBasedTokenProvider"),
        (GS, {"fs.gs.auth.access.token.provider.impl": "com.acme.Tokens"}, "com.acme.Tokens"),
    ],
)  # fmt: skip
def test_other_credentials_classes_are_asked_in_the_jvm(location: str, settings: dict[str, str], asked: str) -> None:
    assert translate(location, settings).java_class == asked
    assert translate(location, settings, ["credential_provider"]).java_class is None


def test_environment_decides_for_a_class_that_reads_it() -> None:
    classes = named("EnvironmentVariableCredentialsProvider", "AnonymousAWSCredentialsProvider")
    assert translate(LAKE, classes, environment={}).options == {"aws_skip_signature": "true"}
    assert translate(LAKE, classes, environment={"AWS_ACCESS_KEY_ID": "id"}).options == {}


def test_explicit_options_replace_groups() -> None:
    settings = {
        **KEYS,
        "fs.s3a.session.token": "t",
        "fs.s3a.endpoint": "http://10.0.0.1",
        "fs.s3a.endpoint.region": "r",
    }
    retained = translate(LAKE, settings, ["AWS_ACCESS_KEY_ID"]).options
    assert retained == {"aws_endpoint_url": "http://10.0.0.1", "aws_allow_http": "true", "aws_region": "r"}
    assert translate(LAKE, settings, ["endpoint", "region"]).options == {**OUR_KEYS, "aws_session_token": "t"}


def test_half_a_pair_of_keys_is_refused_by_both_names() -> None:
    with pytest.raises(InvalidArgumentError) as caught:
        translate(LAKE, {"fs.s3a.secret.key": "hidden"})
    assert "spark.hadoop.fs.s3a.access.key" in str(caught.value)
    assert "aws_access_key_id" in str(caught.value)
    assert "hidden" not in str(caught.value)


def test_locations_without_settings_have_no_store() -> None:
    assert [store_of(text) for text in ("/lake", "hdfs://n/t", "memory://x", "s3a:///t")] == [None] * 4


@pytest.fixture
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """The state of a task's process, which has no session."""
    monkeypatch.setattr(session_options, "_source", None)
    monkeypatch.setattr(session_options, "_received", None)


def received(settings: Mapping[str, str], options: Mapping[str, str]) -> Carried:
    carried: Carried = pickle.loads(pickle.dumps(Carried(settings, options, {})))
    carried.receive()
    return carried


def test_what_the_driver_handed_to_a_task_ends_with_advice(task: None, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        {"access_key_id": "id", "secret_access_key": "hidden", "session_token": "t", "expires_at": 2_000_000_000}
    ]
    name = provider_name(lambda: answers[-1])
    handed = pickle.loads(pickle.dumps(Handed.of(name)))
    hand(handed)
    monkeypatch.setattr("time.time", lambda: 1_999_999_999.0)
    fields, expires_ms = fetch(name)
    assert (dict(fields)["access_key_id"], expires_ms) == ("id", 2_000_000_000_000)
    monkeypatch.setattr("time.time", lambda: 2_000_000_000.0)
    with pytest.raises(StoreDeniedError, match=r"expired at 2033-05-18 03:33:20 UTC.*credential_provider") as caught:
        fetch(name)
    assert "hidden" not in str(caught.value)


def test_the_next_job_hands_the_keys_that_the_driver_has_then(task: None) -> None:
    answers = [{"access_key_id": "first", "secret_access_key": "hidden"}]
    name = provider_name(lambda: answers[-1])
    assert dict(Handed.of(name)()[0])["access_key_id"] == "first"
    answers.append({"access_key_id": "second", "secret_access_key": "hidden"})
    assert dict(Handed.of(name)()[0])["access_key_id"] == "second"


def test_a_provider_replaced_by_an_answer_keeps_its_name(task: None) -> None:
    """A later provider in its place in memory would get its name, and so its answers."""
    names = set()
    for number in range(100):
        name = provider_name(lambda number=number: {"access_key_id": str(number), "secret_access_key": "hidden"})
        hand(Handed.of(name))
        names.add(name)
    assert len(names) == 100


def test_a_task_has_what_the_driver_sent(task: None) -> None:
    assert carried_for([(LAKE, None)]) is None
    carried = received({**KEYS, "fs.s3a.endpoint.region": "r"}, {"timeout": "7s"})
    assert "hidden" not in repr(carried)
    assert merged(LAKE, {}) == {**OUR_KEYS, "timeout": "7s", "aws_region": "r"}
    # The given options come first, then the call's, then the session's.
    with overriding({"timeout": "8s", "aws_region": "call"}):
        assert merged(LAKE, {"region": "given"}) == {"region": "given", "timeout": "8s", **OUR_KEYS}
    assert merged("/lake/t", {"timeout": "9s"}) == {"timeout": "9s"}


def test_errors_name_both_spellings(task: None) -> None:
    received({}, {})
    with pytest.raises(DeltaError) as caught:
        DeltaTable(LAKE)
    assert "aws_access_key_id" in str(caught.value)
    assert "spark.hadoop.fs.s3a.access.key" in str(caught.value)


def test_hadoops_names_are_storage_options_too() -> None:
    with pytest.raises(DeltaError) as caught:
        DeltaTable(LAKE, storage_options={**KEYS, "fs.s3a.endpoint": "127.0.0.1:1", "max_retries": "0"})
    assert "127.0.0.1" in str(caught.value) or "error sending request" in str(caught.value)
    assert "hidden" not in str(caught.value)
