"""Every public name has a page, every page an entry in the navigation, and the hand-written pages
of the reference name all that the code knows.

The generated pages are compared with `dir()` of the imported package.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator

import pytest
import yaml

from structure import repo

sys.path.insert(0, str(repo.ROOT / "docs" / "building"))

import site_build
import site_pages
import site_reference

# Attributes of exceptions and tuples that Python itself documents.
PYTHONS = {"args", "add_note", "with_traceback", "characters_written", "errno", "filename", "filename2", "strerror"}
PYTHONS |= {"count", "index"}


@pytest.fixture(scope="module")
def made() -> dict[str, str]:
    """The pages of the site."""
    return site_build.pages()


def public(module: str) -> Iterator[tuple[str, str]]:
    """Each public name of a module, and each public member of its classes."""
    imported = importlib.import_module(module)
    for name in imported.__all__:
        value = getattr(imported, name)
        if name.startswith("__"):
            continue
        yield name, ""
        if inspect.isclass(value):
            yield from ((name, member) for member in dir(value) if not member.startswith("_"))


@pytest.mark.parametrize("module", site_reference.MODULES)
def test_every_public_name_and_member_has_its_place(module: str, made: dict[str, str]) -> None:
    missing = []
    for name, member in public(module):
        page = made.get(site_reference.place(module, name), "")
        if f"{{#{member}}}" not in page if member else not page.startswith(f"# `{module}.{name}`"):
            missing.append(f"{name}.{member}".rstrip("."))
    assert [name for name in missing if name.rpartition(".")[2] not in PYTHONS] == []


def test_the_methods_that_users_need_most_are_documented(made: dict[str, str]) -> None:
    page = made[site_reference.place("deltaplane", "DeltaTable")]
    for member in ("merge", "delete", "update", "vacuum", "restore", "scan", "tail", "maintain"):
        section = page.split(f"{{#{member}}}")[1].split("\n### ")[0]
        assert len(section) > 300, member
    # Sections of docstrings are lists, and examples are code.
    section = page.split("{#delete}")[1].split("\n### ")[0]
    assert "predicate" in section
    assert "```pycon\n>>> " in section
    assert "Args:" not in section


def test_every_page_is_in_the_navigation_and_has_a_title(made: dict[str, str]) -> None:
    assert site_build.without_entry(made) == []
    listed = site_build.listed(made)
    assert sorted(set(listed) - set(made)) == []
    assert len(listed) == len(set(listed))
    assert [page for page, text in made.items() if not site_pages.title(text)] == []


def test_the_navigation_has_each_kind_of_page() -> None:
    kinds = [next(iter(entry)) for entry in yaml.safe_load(site_build.CONFIGURATION.read_text())["nav"]]
    assert kinds == [
        *("Start", "Tutorials", "How-to", "Performance", "Reference", "Explanation"),
        *("Migrating", "Use cases", "Project"),
    ]


def test_a_page_without_an_entry_and_a_link_to_nothing_are_noticed(made: dict[str, str]) -> None:
    assert site_build.without_entry({**made, "how-to/unknown.md": "# Unknown\n"}) == ["how-to/unknown.md"]
    pages = {"docs/a.md": "a.md", "docs/how-to/b.md": "how-to/b.md"}
    text = "[b](how-to/b.md#x) [c](../README.md) `DeltaTable.merge`\n```\n[d](gone.md)\n```\n"
    names = {"DeltaTable.merge": "reference/x.md#merge"}
    assert site_pages.with_links("docs/a.md", text, pages, names).startswith(
        f"[b](how-to/b.md#x) [c]({site_pages.REPOSITORY}/blob/main/README.md) "
        "[`DeltaTable.merge`](reference/x.md#merge)\n```\n[d](gone.md)"
    )
    with pytest.raises(ValueError, match=r"gone\.md"):
        site_pages.with_links("docs/how-to/b.md", "[d](gone.md)", pages, {})


def test_every_variable_and_setting_is_on_its_page() -> None:
    code = "\n".join({**repo.sources("python/", ".py"), **repo.sources("rust/", ".rs")}.values())
    page = (repo.ROOT / "docs/reference/settings.md").read_text()
    variables = set(re.findall(r"\bDELTAPLANE_[A-Z_]*[A-Z]\b", code))
    internal = {name for name in variables if name.startswith("DELTAPLANE_TEST_")} | {"DELTAPLANE_SPARK"}
    errors = {"DELTAPLANE_SCHEMA_MISMATCH"}
    assert sorted(name for name in variables - internal - errors if f"`{name}`" not in page) == []
    shared = re.findall(r"`spark\.databricks\.delta\.`.*?(?=\n\n[A-Z])", page, re.DOTALL)[0]
    settings = set(re.findall(r"\"spark\.databricks\.delta\.([\w.]+?)\.?\"", code))
    named = [text.rstrip("….") for text in re.findall(r"`([\w.…]+)`", shared)]
    assert sorted(s for s in settings if not any(s.lower().startswith(name.lower()) for name in named)) == []
    for name in set(re.findall(r"\"(spark\.deltaplane\.distributed\w+)\"", code)):
        assert f"`{name}`" in page


def test_every_statement_is_on_its_page() -> None:
    from deltaplane.statements import STATEMENTS

    page = (repo.ROOT / "docs/reference/sql.md").read_text().lower()
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    # `desc` is short for `describe`, and a query may begin with a parenthesis.
    statements = [["describe" if w == "desc" else w for w in s.words] for s in STATEMENTS if s.words != ("(",)]
    assert len(statements) > 25
    missing = [words for words in statements if not any(_has(row, words) for row in rows)]
    assert missing == []


def _has(row: str, words: list[str]) -> bool:
    return all(re.search(rf"\b{re.escape(word)}\b", row) for word in words)


def test_every_metric_of_a_table_is_on_its_page() -> None:
    from deltaplane.report.metrics import METRICS

    page = (repo.ROOT / "docs/reference/events.md").read_text()
    for metric in METRICS:
        assert f"deltaplane_table_{metric.name}" in page, metric.name
