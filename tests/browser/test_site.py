"""The documentation site in a real browser, opened as files: its pages load without an error, have
titles and fit the window; no link is dead; search works without a server, in light and dark.

Screenshots stay in .cache/site/shots, for inspection.
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from browser.chromium import Chromium, NavigatedError, Page, chromium
from structure import repo

sys.path.insert(0, str(repo.ROOT / "docs" / "building"))

import site_build

SHOTS = site_build.STAGE / "shots"


class Links(HTMLParser):
    """The title, the anchors and the links of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.title = ""
        self._in_title = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self._in_title = tag == "title" and not self.title
        attribute = "href" if tag in ("a", "link") else "src" if tag in ("img", "script", "iframe") else ""
        if attribute in values and values.get("rel") not in ("canonical", "preconnect"):
            self.links.append(values[attribute])

    def handle_data(self, data: str) -> None:
        self.title += data if self._in_title else ""

    def handle_endtag(self, tag: str) -> None:
        self._in_title = False


@pytest.fixture(scope="module")
def site() -> Path:
    """The built site."""
    return site_build.build()


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Links]:
    return {path.resolve(): Links(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


def dead_links(pages: dict[Path, Links]) -> list[str]:
    """The links to files and anchors that don't exist."""
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if link.startswith(("https:", "http:", "mailto:", "data:", "javascript:")):
                continue
            address, _, anchor = link.partition("#")
            target = (path.parent / unquote(address.partition("?")[0])).resolve() if address else path
            target = target / "index.html" if target.is_dir() else target
            unknown = target in pages and anchor and unquote(anchor) not in pages[target].anchors
            if not target.is_file() or unknown:
                dead.append(f"{path.name}: {link}")
    return dead


def test_no_link_is_dead_and_every_page_has_a_title(site: Path, pages: dict[Path, Links]) -> None:
    assert len(pages) > 150
    assert dead_links(pages) == []
    assert [path for path, page in pages.items() if not page.title.strip()] == []
    titles = [page.title for page in pages.values()]
    assert len(set(titles)) == len(titles)


def test_dead_links_are_noticed(tmp_path: Path) -> None:
    first, second = tmp_path / "a.html", tmp_path / "b.html"
    first.write_text("<title>a</title><a href='b.html#x'>1</a><a href='b.html#y'>2</a><a href='c.html'>3</a>")
    second.write_text("<title>b</title><h1 id='x'></h1>")
    pages = {path: Links(path.read_text()) for path in (first, second)}
    assert dead_links(pages) == ["a.html: b.html#y", "a.html: c.html"]


def looked(page: Page, path: Path) -> list[str]:
    """What is wrong with a loaded page."""
    wrong = [str(complaint) for complaint in page.complaints()]
    wrong += [f"requests {url}" for url in page.requests() if not url.startswith(("file:", "data:", "blob:"))]
    if page.value("document.documentElement.scrollWidth > innerWidth + 1"):
        wrong.append("is wider than the window")
    if page.value("!document.querySelector('h1') || !document.querySelector('h1').textContent.trim()"):
        wrong.append("has no heading")
    return [f"{path.name}: {text}" for text in wrong]


def test_pages_load_without_an_error(browser: Chromium, site: Path, pages: dict[Path, Links]) -> None:
    """Every page that is written by hand, and one of ten that are generated or decisions, which
    have one form."""
    alike = [path for path in pages if {"python", "adr"} & set(path.relative_to(site.resolve()).parts)]
    walked = [path for path in pages if path not in alike] + alike[::10]
    assert len(walked) > 70
    wrong = []
    with browser.page(site / "index.html") as page:
        for path in walked:
            page.go(path)
            wrong += looked(page, path)
    assert wrong == []


@pytest.mark.parametrize("dark", [False, True])
def test_kinds_of_pages_look_well_on_screens_and_phones(browser: Chromium, site: Path, dark: bool) -> None:
    names = ("index", "how-to/s3", "reference/python/deltaplane/DryRun")
    for name in names:
        path = site / f"{name}.html"
        for width in (1280, 390):
            with browser.page(path, dark=dark, width=width) as page:
                assert looked(page, path) == []
                shot = SHOTS / f"{name.replace('/', '-')}-{'dark' if dark else 'light'}-{width}.png"
                assert len(page.screenshot(shot)) > 10_000
                ground = page.value("getComputedStyle(document.body).backgroundColor")
                light = sum(int(part) for part in ground.strip("rgba()").split(",")[:3]) > 3 * 128
                assert light is not dark, (name, ground)


@pytest.fixture
def versions(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The sites of three versions; the newest isn't the last one that is published."""
    for version in ("0.9.0", "0.10.0", "0.2.0"):
        monkeypatch.setattr(site_build, "version", lambda version=version: version)
        site_build.publish(site, tmp_path)
    return tmp_path


def test_the_menu_of_versions_works_without_a_server(browser: Chromium, versions: Path) -> None:
    menu = "document.querySelector('select.version-selector')"
    page_of_old = versions / "0.9.0" / "reference" / "python" / "deltaplane" / "DeltaTable.html"
    with browser.page(page_of_old) as page:
        assert looked(page, page_of_old) == []
        assert page.value(f"[...{menu}.options].map((o) => o.value).join()") == "0.10.0,0.9.0,0.2.0"
        assert page.value(f"{menu}.value") == "0.9.0"
        assert page.value(f"{menu}.closest('header') !== null && {menu}.getAttribute('aria-label')")
        # After the answer, since the menu leads to another page.
        page.value(f"setTimeout(() => {{{menu}.value = '0.10.0'; {menu}.dispatchEvent(new Event('change'))}})")
        wait_for(page, "location.pathname.endsWith('/0.10.0/index.html')")
        wait_for(page, f"{menu}?.value === '0.10.0'")
        page.screenshot(SHOTS / "versions.png")
    assert "url=0.10.0/index.html" in (versions / "index.html").read_text()


def test_one_version_has_no_menu(
    browser: Chromium, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(site_build, "version", lambda: "0.1.0")
    site_build.publish(site, tmp_path)
    for path in (tmp_path / "0.1.0" / "index.html", site / "index.html"):
        with browser.page(path) as page:
            assert looked(page, path) == []
            assert page.value("document.querySelector('.version-selector')") is None


@pytest.mark.parametrize(
    ("text", "title"),
    [("prove_erased", "deltaplane.prove_erased"), ("medallion", "a medallion of three tables")],
)
def test_search_works_without_a_server(browser: Chromium, site: Path, text: str, title: str) -> None:
    box = "[...document.querySelectorAll('*')].find((e) => e.shadowRoot)"
    with browser.page(site / "index.html") as page:
        # The dialog puts the cursor into its box.
        page.value("document.querySelector('.md-search__button').click()")
        wait_for(page, f"{box} !== undefined && {box}.shadowRoot.activeElement !== null")
        page.call("Input.insertText", text=text)
        links = f"[...{box}.shadowRoot.querySelectorAll('a')]"
        wait_for(page, f"{links}.some((a) => a.textContent.toLowerCase().includes('{title}'))")
        assert page.complaints() == []


def wait_for(page: Page, script: str, seconds: float = 20) -> object:
    """The value of an expression as soon as it is true, on this page or on one that follows it."""
    until = time.monotonic() + seconds
    while True:
        with contextlib.suppress(NavigatedError):
            if value := page.value(script):
                return value
        assert time.monotonic() < until, script
        time.sleep(0.05)
