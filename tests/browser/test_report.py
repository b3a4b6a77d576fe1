"""The health report in a real browser: it requests nothing, logs no error, nothing overflows, and
all text is legible.

Screenshots stay in .cache/report, for inspection.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pytest

from browser.chromium import Chromium, Page, chromium
from deltaplane import DeltaTable, write_deltalake

SHOTS = Path(__file__).resolve().parents[2] / ".cache" / "report"
HOSTILE = "<script>document.title = 'taken'; throw 1</script>"
LONG = "a_name_without_any_place_to_break_it_" * 4
# Texts with too little contrast, by WCAG, each once.
CONTRAST = """
(() => {
  const numbers = (c) => c.match(/[\\d.]+/g).map(Number)
  const light = (c) => {
    const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    return 0.2126 * r + 0.7152 * g + 0.0722 * b
  }
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const c = numbers(getComputedStyle(e).backgroundColor)
      if (c.length < 4 || c[3] > 0) return c.slice(0, 3)
    }
    return [255, 255, 255]
  }
  const faint = new Set()
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim()) || e.closest('title')) continue
    const style = getComputedStyle(e)
    const ink = light(numbers(e.closest('svg') ? style.fill : style.color).slice(0, 3))
    const [low, high] = [ink, light(ground(e))].sort((a, b) => a - b)
    if ((high + 0.05) / (low + 0.05) < 4.5) faint.add(e.tagName + '.' + (e.getAttribute('class') || ''))
  }
  return [...faint]
})()
"""
# Boxes that extend beyond the window, except those within a scrolling box.
STICKING_OUT = """
[...document.querySelectorAll('body *')]
  .filter((e) => !e.closest('.scroll') && e.getBoundingClientRect().right > innerWidth + 0.5)
  .map((e) => e.tagName + '.' + (e.getAttribute('class') || ''))
"""
# Overlapping texts in charts.
COLLISIONS = """
[...document.querySelectorAll('svg.chart')].flatMap((svg) => {
  const boxes = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()])
  return boxes.flatMap(([a, p], n) => boxes.slice(n + 1)
    .filter(([, q]) => p.left < q.right - 1 && q.left < p.right - 1 && p.top < q.bottom - 2 && q.top < p.bottom - 2)
    .map(([b]) => a + ' / ' + b))
})
"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    with chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a table with content in each section, and with hostile names."""
    where = str(tmp_path_factory.mktemp("report") / "t")
    r = random.Random(7)
    for n in range(24):
        day = date(2026, 3, 1) + timedelta(days=int(r.paretovariate(1.2)) % 20)
        rows = r.choice([5, 40, 300])
        began = datetime(2026, 3, 1, n, tzinfo=timezone.utc)
        data = pa.table(
            {
                "day": pa.array([day] * rows, pa.date32()),
                "kind": pa.array([r.choice([HOSTILE, "a", LONG, None])] * rows, pa.string()),
                "id": range(1000 * n, 1000 * n + rows),
                HOSTILE: [r.random() for _ in range(rows)],
                "at": pa.array([began + timedelta(minutes=r.randrange(200)) for _ in range(rows)]),
                "place": [{LONG: r.randrange(99)} for _ in range(rows)],
            }
        )
        write_deltalake(
            where,
            data,
            mode="append",
            partition_by=["day", "kind"],
            name=HOSTILE,
            description=LONG,
            configuration={"delta.enableDeletionVectors": "true", "delta.columnMapping.mode": "name"}
            if n == 0
            else None,
        )
    table = DeltaTable(where)
    table.delete("id % 7 = 0")
    path = tmp_path_factory.mktemp("page") / "report.html"
    table.report(path)
    table.report(path.with_name("advised.html"), advice=table.advise(["id = 7", f"`{HOSTILE}` > 0.5"]))
    return path


def sound(page: Page, report: Path) -> None:
    """What holds for the page however it is looked at."""
    assert page.complaints() == []
    assert page.requests() == [report.resolve().as_uri()]
    assert page.value("document.title").endswith("version 24: table health")
    assert page.value("document.scripts.length") == 0
    assert page.value("document.documentElement.scrollWidth") == page.value("innerWidth")
    assert page.value(STICKING_OUT) == []
    assert page.value(COLLISIONS) == []


@pytest.mark.parametrize("width", [1280, 390, 320])
@pytest.mark.parametrize("dark", [False, True])
def test_looks(browser: Chromium, report: Path, dark: bool, width: int) -> None:
    name = f"{'dark' if dark else 'light'}-{width}.png"
    with browser.page(report, width=width, dark=dark) as page:
        sound(page, report)
        assert page.value(CONTRAST) == []
        shown = page.screenshot(SHOTS / name)
        grounds = page.value("getComputedStyle(document.body).backgroundColor")
        assert (grounds == "rgb(246, 247, 249)") is not dark
        # Text was laid out with a font: its lines are as wide as their letters.
        assert page.value("document.querySelector('h2').firstChild && document.querySelector('h1').scrollHeight") > 20
        assert len(shown) > 30_000
        # Everything that is folded away fits as well.
        page.value("document.querySelectorAll('details').forEach((d) => { d.open = true })")
        sound(page, report)


def test_looks_with_advice(browser: Chromium, report: Path) -> None:
    advised = report.with_name("advised.html")
    for width in (1280, 320):
        with browser.page(advised, width=width) as page:
            sound(page, advised)
            assert page.value("document.querySelectorAll('#advice table tbody tr').length") > 0
            page.screenshot(SHOTS / f"advised-{width}.png")


def test_reads_without_scripts(browser: Chromium, report: Path) -> None:
    with browser.page(report, scripts=False) as page:
        sound(page, report)


def test_whoever_does_not_see_is_told(browser: Chromium, report: Path) -> None:
    with browser.page(report) as page:
        assert page.value("document.documentElement.lang") == "en"
        assert page.value(
            "[...document.querySelectorAll('main section')].every((s) => s.getAttribute('aria-labelledby'))"
        )
        unnamed = (
            "[...document.querySelectorAll('svg')].filter((s) => !s.getAttribute('aria-label') && !s.ariaHidden).length"
        )
        assert page.value(unnamed) == 0
        # Every chart has its figures in a table, every column of one a note to point at.
        charts = "[...document.querySelectorAll('svg.chart')].every((c) => c.closest('section').querySelector('table'))"
        assert page.value(charts)
        assert page.value(
            "[...document.querySelectorAll('svg .bar')].every((b) => b.querySelector('title').textContent)"
        )
        # Headings don't leave out a level; links lead somewhere.
        levels = page.value("[...document.querySelectorAll('h1, h2, h3')].map((h) => Number(h.tagName[1]))")
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
        assert page.value("[...document.querySelectorAll('a')].every((a) => document.querySelector(a.hash))")
        # A scrolling box can be reached by the keyboard and has an accessible name.
        reached = (
            "[...document.querySelectorAll('.scroll')].every((b) => b.tabIndex === 0 && b.getAttribute('aria-label'))"
        )
        assert page.value(reached)
        tree = page.call("Accessibility.getFullAXTree")["nodes"]
        roles = [node["role"]["value"] for node in tree if "role" in node]
        assert {"main", "navigation", "banner", "contentinfo", "image", "table"} <= set(roles)


def test_hostile_names_are_shown_as_they_are(browser: Chromium, report: Path) -> None:
    with browser.page(report) as page:
        assert page.value("document.querySelector('h1').textContent") == HOSTILE
        columns = page.value("[...document.querySelectorAll('#columns tbody th')].map((h) => h.firstChild.data.trim())")
        assert HOSTILE in columns
        assert page.complaints() == []


def test_nothing_runs_even_if_a_script_got_into_the_page(browser: Chromium, report: Path) -> None:
    broken = report.with_name("broken.html")
    broken.write_text(report.read_text().replace("<main>", f"<main><img src='x' onerror='throw 2'>{HOSTILE}"))
    with browser.page(broken) as page:
        assert page.value("document.title").endswith("table health")
        complaints = [c["entry"]["text"] for c in page.complaints()]
        # The script, the handler and the picture.
        assert len(complaints) == 3
        assert all("Content Security Policy" in text for text in complaints)


def test_prints(browser: Chromium, report: Path) -> None:
    with browser.page(report, dark=True) as page:
        pdf = page.printed(SHOTS / "printed.pdf")
        assert pdf.startswith(b"%PDF")
        assert 3 <= pdf.count(b"/Type /Page\n") <= 14


def test_the_checks_see_what_is_wrong(browser: Chromium, tmp_path: Path) -> None:
    """Each check of a page fails on a page that it is made for."""
    wrong = tmp_path / "wrong.html"
    wrong.write_text(
        "<!doctype html><title>x</title><img src='https://example.invalid/a.png'><p style='color:#aaa'>faint</p>"
        "<div style='width:4000px'>wide</div><svg class=chart><text y=9>ab</text><text y=9>cd</text></svg>"
        "<script>console.warn('hm'); throw new Error('no')</script>"
    )
    with browser.page(wrong) as page:
        assert page.value(CONTRAST) == ["P."]
        assert "DIV." in page.value(STICKING_OUT)
        assert page.value(COLLISIONS) == ["ab / cd"]
        assert len(page.requests()) == 2
        assert len(page.complaints()) == 3
        assert page.value("document.documentElement.scrollWidth") > 1280
    with browser.page(wrong, scripts=False) as page:
        assert not any("exceptionDetails" in c for c in page.complaints())
