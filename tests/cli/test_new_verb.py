"""A verb of the command line is one file in the folder of verbs: help, parsing and errors take
it."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer.main
from typer.core import TyperGroup

from deltaplane.cli.app import PANELS, create_app, run, verbs_of
from deltaplane.cli.verbs import look

VERB = '''
"""`deltaplane ponder`: thinks about a table."""

from deltaplane.cli import render
from deltaplane.cli.arguments import AsJson, Location
from deltaplane.exceptions import InvalidArgumentError


def ponder(location: Location, times: int = 2, json: AsJson = False) -> None:
    """Thinks about a table, so often."""
    if times < 0:
        raise InvalidArgumentError("nobody thinks less than never")
    render.facts({"table": location, "times": times}, as_json=json)
'''


@pytest.fixture
def new_verb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The file `ponder.py` beside the files of the other verbs."""
    (tmp_path / "ponder.py").write_text(VERB)
    monkeypatch.setattr(look, "__path__", [*look.__path__, str(tmp_path)])
    yield
    sys.modules.pop(f"{look.__name__}.ponder", None)


@pytest.mark.usefixtures("new_verb")
def test_a_new_verb_is_one_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--help"]) == 0
    assert re.search(r"ponder +Thinks about a table, so often\.", capsys.readouterr().out)
    assert run(["ponder", "t", "--times", "3", "--json"]) == 0
    assert '"times": 3' in capsys.readouterr().out
    assert run(["ponder", "t", "--times", "-1"]) == 2
    assert capsys.readouterr().err == "deltaplane: nobody thinks less than never\n"
    assert run(["ponder"]) == 2
    assert "LOCATION" in capsys.readouterr().err.upper()


def test_without_its_file_there_is_no_such_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ponder", "t"]) == 2
    assert "ponder" in capsys.readouterr().err


def test_every_verb_has_a_file_of_its_name_and_says_what_it_does() -> None:
    names = {module.__name__.rpartition(".")[2] for panel in PANELS for module in verbs_of(panel)}
    app = create_app()
    commands = {command.callback.__name__: command.callback for command in app.registered_commands if command.callback}
    groups = {group.typer_instance.info.name for group in app.registered_groups if group.typer_instance}
    assert {*commands} | groups == names
    assert [name for name, function in commands.items() if not (function.__doc__ or "").endswith(".")] == []


@pytest.mark.parametrize("example", [text for panel in PANELS for verb in verbs_of(panel) for text in verb.EXAMPLES])
def test_the_examples_of_the_help_are_commands(example: str) -> None:
    """Each is parsed completely; nothing is run."""
    program, *arguments = shlex.split(example)
    command = typer.main.get_command(create_app())
    context = command.make_context(program, list(arguments), resilient_parsing=False)
    while isinstance(command, TyperGroup):
        _, verb, arguments = command.resolve_command(context, arguments)
        assert verb is not None
        command, context = verb, verb.make_context(verb.name, arguments, parent=context)
    assert program == "deltaplane"
