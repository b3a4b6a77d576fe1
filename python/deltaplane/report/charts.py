"""Draws charts as inline SVG: columns, lines, and small charts for table cells. The page's style
sheet defines colours and fonts.

Takes numbers and texts; escapes the texts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

from deltaplane.report.words import bytes_text, short_number

__all__ = ["Bar", "Mark", "columns", "line", "meter", "sparkline"]

WIDTH, HEIGHT = 520, 244
LEFT, RIGHT, TOP, BOTTOM = 80, 14, 14, 54
# Maximum number of labels below a chart.
_LABELS = 7
_TICKS = 4
_LABELS_AT = HEIGHT - BOTTOM + 22

Words = Callable[[float], str]


@dataclass(frozen=True)
class Bar:
    """One column: its label, its tooltip, and its parts from the axis up, each with a colour's
    number."""

    label: str
    note: str
    parts: tuple[tuple[int, float], ...]

    @property
    def height(self) -> float:
        """The sum of all parts."""
        return sum(value for _, value in self.parts)


@dataclass(frozen=True)
class Mark:
    """A point of a line."""

    x: float
    y: float
    note: str


def columns(
    name: str, bars: Sequence[Bar], x_title: str, y_title: str, *, edges: bool = False, of_bytes: bool = False
) -> str:
    """Draws a column chart. `edges` puts the labels at the columns' left edges, as in a
    histogram."""
    top = _ceiling(max((bar.height for bar in bars), default=0), of_bytes)
    step = (WIDTH - LEFT - RIGHT) / max(1, len(bars))
    gap = min(3.0, step * 0.16)
    every = -(-len(bars) // _LABELS)
    parts = []
    for number, bar in enumerate(bars):
        x, base = LEFT + number * step, 0.0
        shapes = []
        for colour, value in bar.parts:
            low, high = _y(base, top), _y(base + value, top)
            # A positive value has a visible height, however small it is.
            height = max(low - high, 1.5 if value else 0.0)
            shapes.append(
                f'<rect class="c{colour}" x="{x + gap / 2:.1f}" y="{low - height:.1f}" width="{step - gap:.1f}" height="{height:.1f}"/>'
            )
            base += value
        # The whole strip reacts to the pointer, so that low columns can be selected.
        strip = f'<rect class="strip" x="{x:.1f}" y="{TOP}" width="{step:.1f}" height="{HEIGHT - TOP - BOTTOM}"/>'
        parts.append(f'<g class="bar"><title>{escape(bar.note)}</title>{"".join(shapes)}{strip}</g>')
        if number % every == 0:
            middle = x if edges else x + step / 2
            parts.append(_text(middle, _LABELS_AT, "middle", bar.label, lean=number // every % 2 == 1))
    return _chart(name, [*_grid(top, of_bytes), *parts], x_title, y_title)


def line(
    name: str, marks: Sequence[Mark], x_words: Words, x_title: str, y_title: str, *, of_bytes: bool = False
) -> str:
    """Draws a step line, level until the next point, with a filled area below."""
    top = _ceiling(max((m.y for m in marks), default=0), of_bytes)
    low, high = min((m.x for m in marks), default=0.0), max((m.x for m in marks), default=1.0)
    span = (high - low) or 1.0
    inner = WIDTH - LEFT - RIGHT

    def place(x: float) -> float:
        return LEFT + (x - low) / span * inner

    path = f"M{place(low):.1f} {_y(0, top):.1f}" if marks else ""
    edge = ""
    for number, mark in enumerate(marks):
        step = (
            f"H{place(mark.x):.1f} V{_y(mark.y, top):.1f}" if number else f"L{place(mark.x):.1f} {_y(mark.y, top):.1f}"
        )
        edge += f"M{place(mark.x):.1f} {_y(mark.y, top):.1f}" if not number else step
        path += step
    strips = []
    for number, mark in enumerate(marks):
        here = place(mark.x)
        until = place(marks[number + 1].x) if number + 1 < len(marks) else WIDTH - RIGHT
        strips.append(
            f'<g class="bar"><title>{escape(mark.note)}</title>'
            f'<circle class="dot" cx="{here:.1f}" cy="{_y(mark.y, top):.1f}" r="3"/>'
            f'<rect class="strip" x="{here:.1f}" y="{TOP}" width="{max(until - here, 2):.1f}" height="{HEIGHT - TOP - BOTTOM}"/></g>'
        )
    labels = []
    for n in range(_TICKS + 1 if high > low else 1):
        anchor = "start" if n == 0 else "end" if n == _TICKS else "middle"
        x = low + span * n / _TICKS
        labels.append(_text(place(x), _LABELS_AT, anchor, x_words(x), lean=n % 2 == 1))
    area = f'<path class="area" d="{path}H{WIDTH - RIGHT} V{_y(0, top):.1f}Z"/>' if marks else ""
    drawn = [area, f'<path class="edge" d="{edge}H{WIDTH - RIGHT}"/>' if marks else ""]
    return _chart(name, [*_grid(top, of_bytes), *drawn, *strips, *labels], x_title, y_title)


def sparkline(name: str, values: Sequence[float], notes: Sequence[str]) -> str:
    """Draws a histogram in the size of a word."""
    width, height, step = 120, 28, 120 / max(8, len(values))
    most = max(values, default=0) or 1
    parts = []
    for number, (value, note) in enumerate(zip(values, notes, strict=True)):
        tall = max(value / most * (height - 2), 1.5 if value else 0.0)
        x = number * step
        shape = (
            f'<rect class="c0" x="{x + 0.5:.1f}" y="{height - tall:.1f}" width="{step - 1:.1f}" height="{tall:.1f}"/>'
        )
        strip = f'<rect class="strip" x="{x:.1f}" y="0" width="{step:.1f}" height="{height}"/>'
        parts.append(f'<g class="bar"><title>{escape(note)}</title>{shape}{strip}</g>')
    base = f'<line class="axis" x1="0" x2="{width}" y1="{height}" y2="{height}"/>'
    return _svg(name, "spark", width, height + 1, [base, *parts])


def meter(name: str, share: float, level: str = "") -> str:
    """Draws a bar that is full at 1."""
    width = 120 * min(1.0, max(0.0, share))
    full = f'<rect class="track" width="120" height="8" rx="4"/><rect class="fill {level}" width="{width:.1f}" height="8" rx="4"/>'
    return _svg(name, "meter", 120, 8, [full])


def _chart(name: str, parts: Sequence[str], x_title: str, y_title: str) -> str:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    named = [
        f'<text class="axis-title" x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 9}" text-anchor="middle">{escape(x_title)}</text>',
        f'<text class="axis-title" transform="translate(13 {middle:.0f}) rotate(-90)" text-anchor="middle">{escape(y_title)}</text>',
        f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM}"/>',
    ]
    return _svg(name, "chart", WIDTH, HEIGHT, [*parts, *named])


def _svg(name: str, kind: str, width: float, height: float, parts: Sequence[str]) -> str:
    return (
        f'<svg class="{kind}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(name)}" '
        f'preserveAspectRatio="xMinYMid meet">{"".join(parts)}</svg>'
    )


def _text(x: float, y: float, anchor: str, text: str, *, lean: bool = False) -> str:
    """A label; `lean` hides it on narrow screens."""
    kind = ' class="lean"' if lean else ""
    return f'<text{kind} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _y(value: float, top: float) -> float:
    return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * value / top


def _grid(top: float, of_bytes: bool) -> list[str]:
    words: Words = bytes_text if of_bytes else short_number
    parts = []
    for n in range(_TICKS + 1):
        y, value = _y(top * n / _TICKS, top), top * n / _TICKS
        if value == int(value):
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(_text(LEFT - 7, y + 4, "end", words(value)))
    return parts


def _ceiling(most: float, of_bytes: bool) -> float:
    """The smallest round number at or above the maximum, whose quarters are round too.

    >>> _ceiling(37, False), _ceiling(3 * 2**30, True) / 2**30, _ceiling(0, False), _ceiling(3, False)
    (40.0, 3.0, 4.0, 4.0)
    """
    if most <= _TICKS:
        return float(_TICKS)
    unit = 1024.0 ** max(0, math.floor(math.log(most, 1024))) if of_bytes else 1.0
    scale = 10.0 ** math.floor(math.log10(most / unit)) * unit
    return next(scale * step for step in (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10, 20) if scale * step >= most)
