"""The view of prose that the structure tests share: paragraphs of comments, docstrings and
Markdown.

Each paragraph has its line numbers, so that a tool can rewrite it. Defines no rule.
"""

from __future__ import annotations

import ast
import bisect
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass, replace

from structure import repo


@dataclass(frozen=True)
class Paragraph:
    """Consecutive lines of prose, `first` to `last`, counted from 1.

    Verbatim paragraphs are tables, code, doctests, headings and directives: no tool may wrap them.
    A trailing comment is on a line with code, and `lead` includes that code.
    """

    first: int
    last: int
    lead: str
    indent: str
    text: str
    end: str = ""
    verbatim: bool = False
    trailing: bool = False


_DIRECTIVE = re.compile(r"(?:!|type:|noqa|pragma|ruff:|fmt:|mypy:|isort:|SAFETY|safety:|-\*-)|^-{3,}")
_ITEM = re.compile(r"(?:[-*+]|\d+\.)\s+")
_STRUCTURED = re.compile(r"\S {2,}\S|^[|>]|^#{1,6} |[─│┌└├┬┴]")
_SECTION = re.compile(r"(?:Args|Arguments|Raises|Returns|Yields|Attributes|Fields|Options|Examples?)(?: \([^)]*\))?:$")
_ENTRIES = re.compile(r"(?:Args|Arguments|Raises|Attributes|Fields|Options)(?: \([^)]*\))?:$")
_FENCE = re.compile(r"```|~~~")


def rust(text: str) -> list[Paragraph]:
    """The paragraphs of Rust's comments; comments of one kind and indent on consecutive lines
    belong together."""
    starts = [0, *(m.end() for m in re.finditer("\n", text))]
    comments = []
    for token in repo.rust_tokens(text):
        if token["comment"] and token["comment"].startswith("//"):
            line = bisect.bisect_right(starts, token.start())
            before = text[starts[line - 1] : token.start()]
            mark = re.match(r"//[/!]?", token["comment"])
            assert mark
            comments.append((line, before, mark[0], token["comment"][len(mark[0]) :]))
    return _comments(comments, markdown=True)


def python(text: str) -> list[Paragraph]:
    """The paragraphs of Python's comments and docstrings, in order of their lines."""
    comments = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            line, column = token.start
            comments.append((line, token.line[:column], "#", token.string[1:]))
    paragraphs = _comments(comments, markdown=False)
    lines = text.splitlines()
    for node in ast.walk(ast.parse(text)):
        for statement in getattr(node, "body", []) if not isinstance(node, (ast.Lambda, ast.IfExp)) else []:
            if (
                isinstance(statement, ast.Expr)
                and isinstance(statement.value, ast.Constant)
                and isinstance(statement.value.value, str)
            ):
                paragraphs += _docstring(lines, statement.value.lineno, statement.value.end_lineno or 0)
    return sorted(paragraphs, key=lambda p: p.first)


def markdown(text: str) -> list[Paragraph]:
    """The paragraphs of a page, lists item by item."""
    lines = text.splitlines()
    return list(_blocks([(n, line) for n, line in enumerate(lines, 1)], sections=False, base=0))


def paragraphs(path: str, text: str) -> list[Paragraph]:
    """The paragraphs of a file, by its suffix."""
    reader = {"rs": rust, "py": python, "pyi": python, "md": markdown}[path.rsplit(".", 1)[-1]]
    return reader(text)


def _comments(comments: list[tuple[int, str, str, str]], *, markdown: bool) -> list[Paragraph]:
    paragraphs: list[Paragraph] = []
    group: list[tuple[int, str]] = []
    shape: tuple[int, str] | None = None

    def close() -> None:
        if group and shape:
            lead = shape[1]
            for block in _blocks(group, sections=False):
                paragraphs.append(replace(block, lead=lead + block.lead, indent=lead + block.indent))
            group.clear()

    for line, before, mark, rest in comments:
        if before.strip():
            close()
            shape = None
            text = rest.strip()
            verbatim = bool(_DIRECTIVE.match(text))
            paragraphs.append(Paragraph(line, line, f"{before}{mark} ", "", text, verbatim=verbatim, trailing=True))
            continue
        here = before + mark
        if shape != (line - 1, here):
            close()
        shape = (line, here)
        group.append((line, rest))
    close()
    return paragraphs


def _docstring(lines: list[str], first: int, last: int) -> list[Paragraph]:
    opening = re.match(r"""(\s*[rRuUbB]*(?:\"{3}|'{3}|"|'))(.*)$""", lines[first - 1])
    if opening is None:
        return []
    quote = opening[1].strip().lstrip("rRuUbB")
    indent = re.match(r"\s*", opening[1])
    margin = indent[0] if indent else ""
    body = [(first, margin + opening[2])]
    body += [(n, lines[n - 1]) for n in range(first + 1, last + 1)]
    line, content = body[-1]
    closing = content.rfind(quote)
    if closing < 0 or content[closing + len(quote) :].strip():
        return []
    body[-1] = (line, content[:closing].rstrip())
    paragraphs = list(_blocks(body, sections=True))
    if paragraphs and paragraphs[0].first == first:
        paragraphs[0] = replace(
            paragraphs[0], lead=opening[1], indent=paragraphs[0].indent if paragraphs[0].last > first else margin
        )
    if paragraphs and paragraphs[-1].last == last:
        paragraphs[-1] = replace(paragraphs[-1], end=quote)
    return paragraphs


def _blocks(lines: list[tuple[int, str]], *, sections: bool, base: int | None = None) -> Iterator[Paragraph]:
    """Splits lines at empty lines, list items, entries of sections, headings, code and tables."""
    group: list[tuple[int, str]] = []
    hanging: int | None = None
    fenced = doctest = False
    section: int | None = None
    if base is None:
        base = min((len(_indent(line)) for _, line in lines if line.strip()), default=0)

    def done(verbatim: bool = False) -> Iterator[Paragraph]:
        if group:
            lead = _indent(group[0][1])
            indent = _indent(group[1][1]) if len(group) > 1 else lead
            if hanging is not None:
                indent = " " * hanging
            stripped = [line.strip() for _, line in group]
            verbatim = verbatim or any(_STRUCTURED.search(line) or _DIRECTIVE.match(line) for line in stripped)
            yield Paragraph(group[0][0], group[-1][0], lead, indent, " ".join(stripped), verbatim=verbatim)
            group.clear()

    for number, line in lines:
        text, depth = line.strip(), len(_indent(line))
        item = _ITEM.match(text)
        if section is not None and text and depth <= section:
            yield from done()
            section = hanging = None
        if not text:
            yield from done()
            doctest, hanging = False, None
        elif fenced or doctest or _FENCE.match(text) or text.startswith(">>>"):
            yield from done()
            fenced ^= bool(_FENCE.match(text))
            doctest = doctest or text.startswith(">>>")
            group.append((number, line))
            yield from done(verbatim=True)
        elif sections and _SECTION.match(text):
            yield from done()
            section = depth if _ENTRIES.match(text) else None
            group.append((number, line))
            yield from done(verbatim=True)
        elif section is not None and depth <= section + 4:
            yield from done()
            hanging = section + 8
            group.append((number, line))
        elif item:
            yield from done()
            hanging = depth + len(item[0])
            group.append((number, line))
        elif not group and (_is_markup(text) or (not sections and hanging is None and depth >= base + 4)):
            group.append((number, line))
            yield from done(verbatim=True)
        else:
            group.append((number, line))
    yield from done()


def _is_markup(text: str) -> bool:
    return text.startswith(("|", "<", "# ", "## ", "### ", "#### ")) or bool(re.match(r"\[[^\]]+\]:", text))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def words(text: str) -> list[str]:
    """The parts between which a line may be broken; list markers, code and links stay whole."""
    whole = r"^(?:[-*+]|\d+\.) \S*|`[^`]{1,50}`|\[[^\]]{1,60}\]\([^)\s]+\)"
    return re.sub(whole, lambda m: m[0].replace(" ", "\0"), text).split(" ")
