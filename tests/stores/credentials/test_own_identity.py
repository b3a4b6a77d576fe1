"""What a process has without options: shared files of AWS, and the machine's role."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from deltaplane.exceptions import StoreDeniedError
from deltaplane.io import own_identity, session_options
from deltaplane.io.own_identity import aws_credentials, found_for, machine
from deltaplane.io.session_options import merged

CREDENTIALS = "[default]\naws_access_key_id = id\naws_secret_access_key = hidden\n[work]\naws_session_token = t\n"
CONFIG = "[default]\nregion = eu-north-1\n[profile work]\nregion = eu-west-3\ncredential_process = {} -c {!r}\n"
CONFIG += "[profile login]\nsso_session = acme\n"
PROGRAM = 'print(\'{"AccessKeyId": "id2", "SecretAccessKey": "hidden2", "Expiration": "2999-01-01T00:00:00Z"}\')'


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables of a process with shared files, which has no other credentials and no boto3."""
    folder = tmp_path / ".aws"
    folder.mkdir()
    (folder / "credentials").write_text(CREDENTIALS)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    (folder / "config").write_text(CONFIG.replace("{} -c {!r}", f"{sys.executable} {program}"))
    for name in list(own_identity.os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setitem(sys.modules, "boto3", None)
    return {"HOME": str(tmp_path)}


def test_the_profile_s_files_are_used_without_a_switch(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert found_for("s3a", files) == {"credential_provider": "aws", "aws_region": "eu-north-1"}
    assert found_for("s3a", {**files, "AWS_REGION": "us-west-1"}) == {"credential_provider": "aws"}
    assert aws_credentials() == {"access_key_id": "id", "secret_access_key": "hidden", "session_token": None}
    monkeypatch.setattr(session_options, "_source", None)
    assert merged("s3://lake/t", {}) == {"credential_provider": "aws", "aws_region": "eu-north-1"}
    # Options and variables precede the files.
    options = {"aws_skip_signature": "true"}
    assert merged("s3://lake/t", options) == options
    assert found_for("s3a", {**files, "AWS_ACCESS_KEY_ID": "id"}) == {}


def test_a_program_of_the_profile_is_asked(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "work")
    assert aws_credentials()["access_key_id"] == "id2"
    assert aws_credentials()["expires_at"] == "2999-01-01T00:00:00Z"


@pytest.mark.parametrize(("profile", "said"), [("login", "pip install boto3"), ("nobody", "AWS_PROFILE")])
def test_what_was_tried_is_said(
    files: dict[str, str], monkeypatch: pytest.MonkeyPatch, profile: str, said: str
) -> None:
    monkeypatch.setenv("AWS_PROFILE", profile)
    assert found_for("s3a", {**files, "AWS_PROFILE": profile})["credential_provider"] == "aws"
    with pytest.raises(StoreDeniedError, match=said) as caught:
        aws_credentials()
    assert f"{profile} of {files['HOME']}/.aws/credentials" in str(caught.value)


def test_boto3_is_asked_where_it_is_installed(files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    class Frozen:
        access_key, secret_key, token = "id3", "hidden3", "t3"

    class Boto3:
        class Session:
            def get_credentials(self) -> Any:
                return type("Held", (), {"get_frozen_credentials": lambda self: Frozen})()

    monkeypatch.setitem(sys.modules, "boto3", Boto3)  # type: ignore[arg-type]
    assert aws_credentials()["session_token"] == "t3"


@pytest.mark.parametrize(
    ("name", "text", "variable", "kind"),
    [
        ("sys_vendor", "Amazon EC2", "AWS_EC2_METADATA_DISABLED", "s3a"),
        ("product_name", "Google Compute Engine", "NO_GCE_CHECK", "gs"),
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77", "", "azure"),
    ],
)
def test_the_firmware_says_whose_machine_it_is(tmp_path: Path, name: str, text: str, variable: str, kind: str) -> None:
    assert machine({}, tmp_path) is None
    (tmp_path / name).write_text(text + "\n")
    assert machine({}, tmp_path) == kind
    if variable:
        assert machine({variable: "true"}, tmp_path) is None
