"""Plots as SVG: bars, made of numbers alone, so that a page with them needs nothing beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
ROW = 22
"""Height of a horizontal bar with its space."""
LABEL = 300
"""Room for labels left of horizontal bars."""
VALUE = 60
COLUMN_PLOT_HEIGHT = 140
MARGIN = 22
WIDEST_COLUMN = 44
"""Room of a group of vertical bars, spaces included."""
MOST_LABELS = 24


@dataclass(frozen=True)
class Bar:
    """One bar of a row or column."""

    value: float | None
    """None leaves a gap."""
    kind: str
    """Class of the bar: its colour is the page's."""


@dataclass(frozen=True)
class Group:
    """Bars that belong together, under one label."""

    label: str
    bars: tuple[Bar, ...]


def rows(groups: Sequence[Group], unit: str, highest: float, title: str) -> str:
    """Horizontal bars from 0 to `highest`; what lies outside is cut off, its number is not."""
    scale = (WIDTH - LABEL - VALUE) / highest
    parts, y = [], 4.0
    for group in groups:
        parts.append(_text(LABEL - 8, y + ROW / 2, group.label, "end"))
        height = (ROW - 6) / max(1, len(group.bars))
        for index, bar in enumerate(group.bars):
            if bar.value is None:
                continue
            length = max(0.5, min(bar.value, highest) * scale)
            top = y + index * height
            parts.append(_rect(LABEL, top, length, height, bar.kind, f"{group.label}: {bar.value:.1f} {unit}"))
            if len(group.bars) == 1:
                parts.append(_text(LABEL + length + 6, y + ROW / 2 - 3, f"{bar.value:.1f}", "start"))
        y += ROW
    return _svg(WIDTH, y + 4, title, parts)


def columns(groups: Sequence[Group], highest: float, title: str, bound: float | None = None) -> str:
    """Vertical bars from 0 to `highest`, and a line at `bound`."""
    step = min(WIDEST_COLUMN, (WIDTH - 2 * MARGIN) / max(1, len(groups)))
    base, scale = COLUMN_PLOT_HEIGHT, (COLUMN_PLOT_HEIGHT - 10) / highest
    parts = [f'<line class="axis" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{base}" y2="{base}"/>']
    every = max(1, -(-len(groups) // MOST_LABELS))
    for number, group in enumerate(groups):
        left = MARGIN + number * step
        width = step * 0.8 / max(1, len(group.bars))
        for index, bar in enumerate(group.bars):
            if bar.value is None:
                continue
            height = max(0.5, min(max(bar.value, 0.0), highest) * scale)
            hint = f"{group.label}: {bar.value:.3g}"
            parts.append(_rect(left + index * width, base - height, width, height, bar.kind, hint))
        if number % every == 0:
            parts.append(_text(left + step * 0.4, base + 14, group.label, "middle"))
    if bound is not None:
        level = base - bound * scale
        parts.append(f'<line class="bound" x1="{MARGIN}" x2="{WIDTH - MARGIN}" y1="{level:.1f}" y2="{level:.1f}"/>')
    return _svg(WIDTH, base + MARGIN, title, parts)


def _rect(x: float, y: float, width: float, height: float, kind: str, hint: str) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"'
    return f'<rect class="{escape(kind)}" {place}><title>{escape(hint)}</title></rect>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" dominant-baseline="middle">{escape(text)}</text>'


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    box = f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" aria-label="{escape(title)}"'
    return f"<svg {box}>{''.join(parts)}</svg>"
