"""Checks prose: its lines have at most 100 columns, and retired words don't come back.

Prose is comments, docstrings, help texts of the command line and Markdown, as `prose` finds them.
`prose.toml` lists the retired words.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from structure import prose, repo

WIDTH = 100
WORDS = "tests/structure/prose.toml"
ENDINGS = (".rs", ".py", ".pyi", ".md")
ROOMS = ("rust/", "python/", "tests/", "benches/", "docs/", "examples/", "packaging/")
PAGES = ("README.md", "CHANGELOG.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "RELEASING.md", "CODE_OF_CONDUCT.md")


def sources() -> dict[str, str]:
    """Text by path of every file with prose."""
    texts: dict[str, str] = {}
    for room in ROOMS:
        texts |= repo.sources(room, *ENDINGS)
    return texts | {page: (repo.ROOT / page).read_text() for page in PAGES}


def wide(path: str, text: str) -> list[int]:
    """The lines of prose that are too wide, although a line break would help.

    Exempt are verbatim paragraphs (tables, code, doctests, headings, directives), comments behind
    code, and lines whose one word, such as an address, is too long by itself.
    """
    lines = text.splitlines()
    numbers = []
    for paragraph in prose.paragraphs(path, text):
        if paragraph.verbatim or paragraph.trailing:
            continue
        for number in range(paragraph.first, paragraph.last + 1):
            line = lines[number - 1]
            words = prose.words(line.strip())
            if len(line) > WIDTH and len(paragraph.indent) + max(map(len, words)) <= WIDTH and len(words) > 1:
                numbers.append(number)
    return numbers


def help_texts(text: str) -> list[tuple[int, str]]:
    """Line and text of each argument `help` that is a literal."""
    return [
        (keyword.value.lineno, keyword.value.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "help" and isinstance(keyword.value, ast.Constant) and isinstance(keyword.value.value, str)
    ]


def retired(path: str, text: str, words: Iterable[str]) -> list[tuple[int, str]]:
    """First line of the paragraph, and word, of each retired word in prose; quoted code is
    exempt."""
    pattern = re.compile(rf"\b(?:{'|'.join(re.escape(word) for word in words)})\b", re.IGNORECASE)
    texts = [(p.first, p.text) for p in prose.paragraphs(path, text) if not p.text.startswith((">>>", "..."))]
    if path.startswith("python/deltaplane/cli/"):
        texts += help_texts(text)
    return [
        (line, match.lower()) for line, content in texts for match in pattern.findall(re.sub(r"`[^`]*`", "``", content))
    ]


def problems(texts: Mapping[str, str], words: Mapping[str, Any]) -> list[str]:
    """Each violation, and each exception without a use or a reason."""
    instead = {entry["word"]: entry["instead"] for entry in words["retired"]}
    allowed = {(entry["word"], entry["path"]): entry.get("reason", "") for entry in words.get("exception", [])}
    out, used = [], set()
    for path, text in texts.items():
        out += [f"{path}:{line}: more than {WIDTH} columns of prose: break the line" for line in wide(path, text)]
        for line, word in retired(path, text, instead):
            if (word, path) in allowed:
                used.add((word, path))
            else:
                out.append(f"{path}:{line}: the word `{word}` is retired in prose: use {instead[word]}")
    out += [f"{path}: the exception for `{word}` isn't needed" for word, path in sorted({*allowed} - used)]
    out += [f"{path}: the exception for `{word}` gives no reason" for (word, path), why in allowed.items() if not why]
    return out


def test_prose_is_narrow_and_without_retired_words() -> None:
    findings = problems(sources(), tomllib.loads((repo.ROOT / WORDS).read_text()))
    assert not findings, "\n".join(findings)


def test_each_retired_word_of_prose_says_what_to_use() -> None:
    entries = tomllib.loads((repo.ROOT / WORDS).read_text())["retired"]
    assert len(entries) == len({entry["word"] for entry in entries}) >= 6
    assert [entry for entry in entries if not entry.get("instead")] == []


# --- the checks can fail ---

PLANTED = {"retired": [{"word": "anew", "instead": "again"}]}
LONG = "word " * 22


@pytest.mark.parametrize(
    ("path", "text", "lines"),
    [
        ("a.rs", f"/// {LONG}\nfn f() {{}}\n", [1]),
        ("a.rs", f"let a = 1; // {LONG}\n", []),
        ("a.rs", f'const A: &str = "\n// {LONG}\n";\n', []),
        ("a.rs", f"/// ```\n/// {LONG}\n/// ```\nfn f() {{}}\n", []),
        ("a.py", f"# short\n# {LONG}\nx = 1\n", [2]),
        ("a.py", f'def f():\n    """Short.\n\n    {LONG}\n    """\n', [4]),
        ("a.py", f'def f():\n    """Short.\n\n    >>> x = "{LONG}"\n    """\n', []),
        ("a.py", f'X = """\n{LONG}\n"""\n', []),
        ("a.md", f"# Head\n\n{LONG}\n", [3]),
        ("a.md", f"| {LONG} | b |\n", []),
        ("a.md", f"see <https://{'a' * 100}>\n", []),
        ("a.md", f"    {LONG}\n", []),
    ],
)
def test_wide_lines_of_prose_are_seen(path: str, text: str, lines: list[int]) -> None:
    assert wide(path, text) == lines


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.rs", "/// Written\n/// anew.\nfn f() {}\n"),
        ("a.rs", "f(); // Anew\n"),
        ("a.py", 'def f():\n    """Made anew."""\n'),
        ("a.md", "- made anew\n"),
        ("python/deltaplane/cli/a.py", 'x = Option(help="made anew")\n'),
    ],
)
def test_retired_words_in_prose_are_seen(path: str, text: str) -> None:
    [message] = problems({path: text}, PLANTED)
    assert re.fullmatch(rf"{re.escape(path)}:\d: the word `anew` is retired in prose: use again", message)


@pytest.mark.parametrize(
    ("path", "text"),
    [("a.rs", 'let anew = "anew";\n'), ("a.py", 'anew = "anew"\n'), ("a.md", "the name `anew`\n")],
)
def test_retired_words_in_code_are_not_prose(path: str, text: str) -> None:
    assert problems({path: text}, PLANTED) == []


def test_each_violation_names_its_file_and_line() -> None:
    texts = {"a.rs": f"// {LONG}\n", "b.rs": "// fine\n// anew\n", "c.rs": "// fine\n"}
    assert problems(texts, PLANTED) == [
        f"a.rs:1: more than {WIDTH} columns of prose: break the line",
        "b.rs:1: the word `anew` is retired in prose: use again",
    ]


def test_an_exception_of_a_word_needs_a_use_and_a_reason() -> None:
    entry = {"word": "anew", "path": "b.rs", "reason": "quotes a title"}
    words = {**PLANTED, "exception": [entry]}
    assert problems({"b.rs": "// anew\n"}, words) == []
    assert problems({"b.rs": "// fine\n"}, words) == ["b.rs: the exception for `anew` isn't needed"]
    unreasoned = {**PLANTED, "exception": [{**entry, "reason": ""}]}
    assert problems({"b.rs": "// anew\n"}, unreasoned) == ["b.rs: the exception for `anew` gives no reason"]
