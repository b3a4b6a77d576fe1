"""Storage options of the variable DELTAPLANE_STORAGE_OPTIONS, for programs that can't be given
any."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from deltaplane import DeltaTable, write_deltalake
from deltaplane.exceptions import InvalidArgumentError
from deltaplane.io import session_options
from deltaplane.io.session_options import VARIABLE, Carried, carried_everywhere, merged, overriding

if TYPE_CHECKING:
    from stores.servers import StoreServer

LAKE = "s3://lake/t"
KEYS = {"aws_access_key_id": "id", "aws_secret_access_key": "hidden"}


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session_options, "_source", None)
    monkeypatch.setattr(session_options, "_received", None)


def test_every_server_works_with_the_variable_alone(store_server: StoreServer, monkeypatch: pytest.MonkeyPatch) -> None:
    location = f"{store_server.new_bucket()}/t"
    monkeypatch.setenv(VARIABLE, json.dumps(store_server.options))
    import pyarrow as pa

    write_deltalake(location, pa.table({"id": [1, 2, 3]}))
    assert DeltaTable(location).count() == 3
    # Another process, which is given the variable alone.
    read = f"import deltaplane; print(deltaplane.DeltaTable({location!r}).count())"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.check_output([sys.executable, "-c", read], text=True, env=environment).strip() == "3"


def test_the_programs_own_options_precede(no_session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({**KEYS, "aws_session_token": "t", "timeout": 60, "allow_http": True}))
    assert merged(LAKE, {}) == {**KEYS, "aws_session_token": "t", "timeout": "60", "allow_http": "true"}
    # A token isn't sent with another pair of keys.
    explicit = {"aws_access_key_id": "other", "aws_secret_access_key": "also", "timeout": "1s"}
    assert merged(LAKE, explicit) == {**explicit, "allow_http": "true"}
    with overriding({"TIMEOUT": "2s"}):
        assert "timeout" not in merged(LAKE, {})


def test_tasks_have_the_drivers_variable(no_session: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, json.dumps({**KEYS, "timeout": "60s"}))
    carried = carried_everywhere({"timeout": "1s"})
    assert carried is not None
    monkeypatch.delenv(VARIABLE)
    task: Carried = pickle.loads(pickle.dumps(carried))
    assert task.options() == {**KEYS, "timeout": "1s"}
    assert merged(LAKE, {}) == {**KEYS, "timeout": "1s"}


@pytest.mark.parametrize(
    "text", ["aws_region=hidden", "[]", '"hidden"', "{", '{"a": {"hidden": 1}}', '{"a": ["hidden"]}']
)
def test_another_text_is_refused_without_its_values(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(InvalidArgumentError, match=VARIABLE) as caught:
        DeltaTable(LAKE)
    assert "hidden" not in str(caught.value)


def test_an_unknown_option_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, '{"aws_regoin": "eu-north-1"}')
    with pytest.raises(InvalidArgumentError, match="aws_region"):
        DeltaTable(LAKE)


def test_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "")
    assert merged("/lake/t", {"timeout": "9s"}) == {"timeout": "9s"}
