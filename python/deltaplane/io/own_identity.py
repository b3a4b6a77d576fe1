"""Credentials that a process has without options: the shared files of AWS with `AWS_PROFILE`, and
the role of the machine it runs on.

`aws_credentials` is the credential provider `aws`; `found_for` says when a store uses one of these.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deltaplane.exceptions import StoreDeniedError

__all__ = ["aws_credentials", "found_for", "machine"]

# What the firmware of a cloud's machines says, and the store whose metadata address they have.
_FIRMWARE = Path("/sys/class/dmi/id")
_SAYS = {
    "s3a": (("sys_vendor", "Amazon EC2"), ("bios_vendor", "Amazon EC2"), ("board_vendor", "Amazon EC2")),
    "gs": (("product_name", "Google Compute Engine"),),
    "azure": (("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),),
}
_AWS_KEYS = (
    *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_WEB_IDENTITY_TOKEN_FILE"),
    *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_SKIP_SIGNATURE"),
)
# A profile with one of these has credentials, of which only boto3 knows how to get most.
_SOURCES = ("aws_access_key_id", "credential_process", "role_arn", "sso_session", "sso_start_url")
# Time limit of a profile's `credential_process`, below that of a provider.
_PROCESS_SECONDS = 45


def found_for(kind: str, environment: Mapping[str, str]) -> dict[str, str]:
    """The option that gives a store without credentials its own, and the region of its profile;
    nothing if there are none. Reads files, and asks no network.

    Args:
        kind: `s3a`, `gs` or `azure`.
        environment: the process's variables.
    """
    if kind == "s3a":
        if any(environment.get(name) for name in _AWS_KEYS):
            return {}
        profile = _profile(environment)
        if any(name in profile for name in _SOURCES) or environment.get("AWS_PROFILE"):
            named = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
            region = {"aws_region": profile["region"]} if not named and "region" in profile else {}
            return {"credential_provider": "aws", **region}
    if machine(environment) == kind:
        return {"allow_instance_metadata": "true"}
    return {}


def machine(environment: Mapping[str, str], firmware: Path = _FIRMWARE) -> str | None:
    """The cloud whose machine this is, by its firmware: `s3a` for EC2, `gs`, `azure`; None
    elsewhere, and where `AWS_EC2_METADATA_DISABLED` or `NO_GCE_CHECK` turns it off."""
    for kind, off in (("s3a", "AWS_EC2_METADATA_DISABLED"), ("gs", "NO_GCE_CHECK"), ("azure", "")):
        if environment.get(off, "").lower() == "true":
            continue
        for name, text in _SAYS[kind]:
            try:
                if (firmware / name).read_text().strip() == text:
                    return kind
            except OSError:
                continue
    return None


def aws_credentials() -> Any:
    """The credentials of AWS's default chain for `AWS_PROFILE`: by boto3 where it is installed,
    otherwise keys and `credential_process` of the shared files.

    Raises:
        StoreDeniedError: none were found; the text says what was tried.
    """
    try:
        import boto3  # type: ignore[import-untyped]
    except ImportError:
        return _of_files(os.environ)
    name = os.environ.get("AWS_PROFILE") or "default"
    try:
        held = boto3.Session().get_credentials()
        frozen = None if held is None else held.get_frozen_credentials()
    except Exception as e:  # noqa: BLE001 botocore has dozens of classes, whose texts may hold a secret
        raise StoreDeniedError(
            f"boto3 got no credentials for the profile {name} ({type(e).__name__}): look at `aws sts get-caller-identity`, "
            "or log in again with `aws sso login`"
        ) from None
    if frozen is None:
        raise StoreDeniedError(
            f"boto3 found no credentials: tried the environment, the profile {name} of the shared files, containers and the "
            "machine's role; give aws_access_key_id and aws_secret_access_key"
        )
    ends = getattr(held, "_expiry_time", None)
    return {
        "access_key_id": frozen.access_key,
        "secret_access_key": frozen.secret_key,
        "session_token": frozen.token,
        "expires_at": ends,
    }


def _of_files(environment: Mapping[str, str]) -> Any:
    profile, name = _profile(environment), environment.get("AWS_PROFILE") or "default"
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        return {
            "access_key_id": profile["aws_access_key_id"],
            "secret_access_key": profile["aws_secret_access_key"],
            "session_token": profile.get("aws_session_token"),
        }
    if "credential_process" in profile:
        return _of_process(profile["credential_process"], name)
    files = " and ".join(map(str, _files(environment)))
    if any(source in profile for source in _SOURCES):
        raise StoreDeniedError(
            f"the profile {name} of {files} gets its credentials by a role or single sign-on, which boto3 does: pip install boto3"
        )
    raise StoreDeniedError(
        f"no credentials in the profile {name} of {files}: write aws_access_key_id and aws_secret_access_key there, set "
        "AWS_PROFILE to another one, or install boto3 for the rest of AWS's chain"
    )


def _of_process(command: str, name: str) -> dict[str, Any]:
    """The answer of a profile's program, in the form that AWS documents."""
    import json
    import shlex
    import subprocess

    try:
        run = subprocess.run(
            shlex.split(command), stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROCESS_SECONDS, check=True
        )
        said = json.loads(run.stdout)
        return {
            "access_key_id": said["AccessKeyId"],
            "secret_access_key": said["SecretAccessKey"],
            "session_token": said.get("SessionToken"),
            "expires_at": said.get("Expiration"),
        }
    except (OSError, ValueError, KeyError, subprocess.SubprocessError) as e:
        raise StoreDeniedError(
            f"the credential_process of the profile {name} gave no credentials ({type(e).__name__}); run it by itself to see why"
        ) from None


def _files(environment: Mapping[str, str]) -> tuple[Path, Path]:
    home = Path(environment.get("HOME") or Path.home()) / ".aws"
    credentials = environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / "credentials"
    config = environment.get("AWS_CONFIG_FILE") or home / "config"
    return Path(credentials).expanduser(), Path(config).expanduser()


def _profile(environment: Mapping[str, str]) -> dict[str, str]:
    """The settings of the chosen profile; those of the file of credentials precede the others."""
    name = environment.get("AWS_PROFILE") or "default"
    credentials, config = _files(environment)
    settings: dict[str, str] = {}
    for file, section in ((config, name if name == "default" else f"profile {name}"), (credentials, name)):
        settings |= _section(file, section)
    return settings


def _section(file: Path, section: str) -> dict[str, str]:
    if not file.is_file():
        return {}
    import configparser

    parser = configparser.RawConfigParser()
    try:
        parser.read(file)
    except (OSError, UnicodeDecodeError, configparser.Error):
        return {}
    return dict(parser[section]) if parser.has_section(section) else {}
