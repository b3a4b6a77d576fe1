"""The pages of the documentation site: which files they are, where they are in the site, and their
links there.

A link to a file that is no page leads to the repository; a link to nothing is an error.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
REPOSITORY = "https://github.com/deltaplane/deltaplane"
# Pages outside of docs, with their places in the site.
PAPERS = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "explanation/security.md",
    "tests/README.md": "project/tests.md",
}
_FENCED = re.compile(r"(^```.*?^```|^~~~.*?^~~~)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_CODE = re.compile(r"(?<!\[)`([\w.]+)(?:\(\))?`")


def sources() -> dict[str, str]:
    """Each file that is a page, from the root of the checkout, and its place in the site."""
    docs = {path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md")}
    pages = {name: _index(name.removeprefix("docs/")) for name in sorted(docs)}
    examples = sorted((ROOT / "examples").glob("*/README.md"))
    pages |= {path.relative_to(ROOT).as_posix(): f"use-cases/{path.parent.name}.md" for path in examples}
    return pages | {name: page for name, page in PAPERS.items() if (ROOT / name).is_file()}


def _index(name: str) -> str:
    head, _, last = name.rpartition("/")
    return posixpath.join(head, "index.md") if last == "README.md" else name


def title(text: str) -> str:
    """A page's first heading."""
    return next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")


def with_links(source: str, text: str, pages: Mapping[str, str], names: Mapping[str, str]) -> str:
    """A page's text with links that work in the site.

    Args:
        source: The file, from the root of the checkout.
        text: Its text.
        pages: Each file that is a page, and its place in the site.
        names: Each public name, such as `DeltaTable.merge`, and its place in the reference. Code
            that is such a name becomes a link.

    Raises:
        ValueError: a link leads to a file that doesn't exist.
    """
    here = posixpath.dirname(pages[source])

    def link(match: re.Match[str]) -> str:
        return f"]({_target(source, match[1], here, pages)})"

    def name(match: re.Match[str]) -> str:
        place = names.get(match[1].removeprefix("deltaplane."))
        return f"[{match[0]}]({posixpath.relpath(place, here or '.')})" if place else match[0]

    parts = _FENCED.split(text)
    for index in range(0, len(parts), 2):
        lines = _LINK.sub(link, parts[index]).splitlines(keepends=True)
        parts[index] = "".join(line if line.startswith("#") else _CODE.sub(name, line) for line in lines)
    return "".join(parts)


def _target(source: str, link: str, here: str, pages: Mapping[str, str]) -> str:
    if re.match(r"[a-z]+:|#", link):
        return link
    path, mark, anchor = link.partition("#")
    target = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
    if target in pages:
        return posixpath.relpath(pages[target], here or ".") + mark + anchor
    if not (ROOT / target).exists():
        raise ValueError(f"{source} links to {link}, which doesn't exist")
    return f"{REPOSITORY}/{'tree' if (ROOT / target).is_dir() else 'blob'}/main/{target}{mark}{anchor}"


def navigation(entries: list[Any], pages: Mapping[str, str]) -> list[Any]:
    """The navigation of mkdocs.yml, in which `folder/*` represents the folder's pages that it
    doesn't name otherwise.

    Args:
        entries: The entries as mkdocs.yml has them.
        pages: The title of each page of the site.
    """
    named = {page for page in listed(entries) if not page.endswith("/*")}

    def expanded(items: list[Any]) -> list[Any]:
        full: list[Any] = []
        for item in items:
            if isinstance(item, str) and item.endswith("/*"):
                folder = item.removesuffix("*")
                rest = sorted(page for page in pages if page.startswith(folder) and page not in named)
                full += [{pages[page]: page} for page in rest]
            elif isinstance(item, dict):
                full += [{name: expanded(page) if isinstance(page, list) else page} for name, page in item.items()]
            else:
                full.append(item)
        return full

    return expanded(entries)


def listed(entries: list[Any]) -> list[str]:
    """The pages in a navigation, in its order."""
    pages: list[str] = []
    for item in entries:
        for value in item.values() if isinstance(item, dict) else [item]:
            pages += listed(value) if isinstance(value, list) else [value]
    return pages
