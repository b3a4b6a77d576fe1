"""Runs the code of a documentation page, and compares what it prints with what the page shows.

A block of Python or of the command line is code; a block `text` directly behind it is what it
prints, in which `…` is any text. The blocks of a page run in order, in one namespace and one empty
directory. A comment `<!-- not run: why -->` before a block exempts it.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Folders whose pages show nothing that doesn't run.
FOLDERS = ("start", "tutorials", "how-to", "performance", "reference", "explanation")
# Pages whose code tests of their own run: tests/cli/test_migrate_check.py and
# tests/spark/sessions/test_migrating.py.
TESTED_APART = {"migrating-from-delta-spark.md", "migrating-from-deltalake.md"}
_BLOCK = re.compile(
    r"^(?P<exempt><!-- not run: [^>]+ -->\n+)?```(?P<language>\w+)\n(?P<code>.*?)^```\n"
    r"(?:\n```text\n(?P<output>.*?)^```\n)?",
    re.MULTILINE | re.DOTALL,
)
ON_SPARK = "deltaplane import spark"
WILD = "…"


@dataclass(frozen=True)
class Snippet:
    """One block of code, what the page shows of its output, and where in the page both are."""

    language: str
    code: str
    output: str | None
    line: int
    span: tuple[int, int]


def pages() -> list[str]:
    """The pages whose code is run, from the root of the checkout."""
    flat = (path for path in (ROOT / "docs").glob("*.md") if path.name not in TESTED_APART)
    paths = [*flat, *(p for name in FOLDERS for p in (ROOT / "docs" / name).rglob("*.md"))]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def snippets(text: str) -> list[Snippet]:
    """The code of a page that isn't exempt."""
    return [
        Snippet(m["language"], m["code"], m["output"], text.count("\n", 0, m.start("code")) + 1, m.span())
        for m in _BLOCK.finditer(text)
        if m["language"] in ("python", "bash") and not m["exempt"]
    ]


def is_for_spark(text: str) -> bool:
    """Whether a page's code needs a session."""
    return any(ON_SPARK in snippet.code or "pyspark" in snippet.code for snippet in snippets(text))


def matches(shown: str, printed: str) -> bool:
    """Whether an output is what a page shows, line by line, without blanks at the ends of lines."""
    expected = re.escape(_stripped(shown)).replace(re.escape(WILD), ".*?")
    return re.fullmatch(expected, _stripped(printed), re.DOTALL) is not None


def _stripped(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


def run_page(page: str, text: str, names: dict[str, Any], update: bool) -> tuple[list[str], str]:
    """Runs a page's code in the current directory.

    Returns:
        What isn't as the page shows it, and the page with the outputs that were printed.
    """
    wrong: list[str] = []
    new, end = [], 0
    for snippet in snippets(text):
        printed = _run(page, snippet, names)
        begin, stop = snippet.span
        block = text[begin:stop]
        if not matches(snippet.output or "", printed):
            wrong.append(f"{page}:{snippet.line} prints\n{textwrap.indent(printed, '    ')}")
            if update:
                block = block.split("\n```text\n")[0].removesuffix("\n") + f"\n\n```text\n{_stripped(printed)}\n```\n"
        new += [text[end:begin], block]
        end = stop
    return wrong, "".join([*new, text[end:]])


def _run(page: str, snippet: Snippet, names: dict[str, Any]) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        if snippet.language == "python":
            # Lines of errors are those of the page.
            code = "\n" * (snippet.line - 1) + snippet.code
            exec(compile(code, page, "exec"), names)  # noqa: S102  # a page's code is the repository's own
        else:
            _command_lines(f"{page}:{snippet.line}", snippet.code)
    return printed.getvalue()


def _command_lines(where: str, code: str) -> None:
    from deltaplane.cli.app import run

    for line in code.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        expected = int(match[1]) if (match := re.search(r"# exits with (\d+)", line)) else 0
        if words:
            assert words[0] == "deltaplane", f"{where} runs {words[0]}: only deltaplane's own commands are run"
            assert run(words[1:]) == expected, f"{where}: {line}"
