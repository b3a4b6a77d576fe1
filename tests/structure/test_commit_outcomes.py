"""Rust and Python say of the same errors that the commit which raised them didn't happen: both
delete the new files then, and keep them after every other error."""

from __future__ import annotations

import re

from deltaplane import exceptions
from structure import repo


def kinds_of(function: str, text: str) -> set[str]:
    """The kinds that a function of Rust's `Kind` names."""
    body = re.search(rf"fn {function}\(self\).*?\n    }}\n", text, re.DOTALL)
    assert body is not None, function
    return set(re.findall(r"Kind::(\w+)", body[0]))


def classes_of_kinds(text: str) -> dict[str, str]:
    """Kind → exception, as the boundary raises it."""
    body = text[text.index("fn class_name(") :]
    arms = re.findall(r'((?:Kind::\w+(?: \| )?)+) => "(\w+)"', body[: body.index("\n}\n")])
    return {kind: name for kinds, name in arms for kind in re.findall(r"Kind::(\w+)", kinds)}


def test_python_and_rust_rule_out_the_commit_after_the_same_errors() -> None:
    errors = (repo.ROOT / "rust/error/src/lib.rs").read_text()
    classes = classes_of_kinds((repo.ROOT / "rust/operations/src/error_classes.rs").read_text())
    ruled_out = kinds_of("rules_out_commit", errors) | kinds_of("is_conflict", errors)
    assert len(classes) > 20
    assert len(ruled_out) > 8
    excluded = {
        kind for kind, name in classes.items() if issubclass(getattr(exceptions, name), exceptions.NOT_COMMITTED)
    }
    assert excluded == ruled_out


def test_kinds_and_classes_are_read_from_the_sources() -> None:
    text = "fn a(self) -> bool {\n        matches!(self, Kind::X | Kind::Y)\n    }\n    fn b(self) { Kind::Z }\n"
    assert kinds_of("a", text) == {"X", "Y"}
    text = 'fn class_name(k: Kind) {\n    Kind::X | Kind::Y => "A",\n    Kind::Z => "B",\n}\n'
    assert classes_of_kinds(text) == {"X": "A", "Y": "A", "Z": "B"}
