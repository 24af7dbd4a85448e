"""The growth report as one self-contained HTML page, with plots as SVG."""

from __future__ import annotations

import datetime
import html
import io
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # before pyplot is imported: there may be no screen

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from tallystick.pipeline.jobs.growth import GrowthReport

TYPES_SHOWN = 15
_MIB = 1 << 20

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222 }
table { border-collapse: collapse; margin: 1rem 0 } td, th { padding: .25rem .8rem; text-align: right }
td:first-child, th:first-child { text-align: left } tr:nth-child(even) { background: #f5f5f5 }
svg { width: 100%; height: auto } h2 { margin-top: 2.5rem }
"""


def write_page(found: GrowthReport, path: str | Path) -> Path:
    """Write the page."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(page(found), "utf-8")
    return target


def page(found: GrowthReport) -> str:
    """The page as text."""
    title = f"Growth of {html.escape(found.url)}"
    parts = [
        f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{title}</title><style>{_STYLE}</style>",
        f"<h1>{title}</h1><p>{found.events:,} events, {_mib(found.size)}, up to position {found.until:,}.</p>",
        f"<p>{found.events_a_day:,.1f} events and {_mib(found.size_a_day)} a day, "
        f"{_mib(found.size_a_month)} a month.</p>",
        "<h2>Events a day</h2>",
        _days_plot(found),
        "<h2>Size and forecast</h2>",
        _forecast_plot(found),
        _table(("in", "events", "size"), [(f"{i.days} days", f"{i.events:,}", _mib(i.size)) for i in found.forecasts]),
        "<h2>By type</h2>",
        _types_plot(found),
        _table(
            ("type", "events", "size", "mean", "largest"),
            [(i.type, f"{i.events:,}", _mib(i.size), f"{i.mean:,.0f} B", f"{i.largest:,} B") for i in found.types],
        ),
        "</html>",
    ]
    return "\n".join(parts)


def _mib(count: float) -> str:
    return f"{count / _MIB:,.2f} MiB"


def _table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = ["<table><tr>" + "".join(f"<th>{name}</th>" for name in headings) + "</tr>"]
    for row in rows:
        lines.append("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>")
    return "".join(lines) + "</table>"


def _days_plot(found: GrowthReport) -> str:
    figure, axes = plt.subplots(figsize=(9, 3))
    days: list[Any] = [datetime.date.fromisoformat(item.day) for item in found.days]
    axes.bar(days, [item.events for item in found.days], color="#4a7ebb", label="events")
    other = axes.twinx()
    other.plot(days, [item.streams for item in found.days], color="#c0504d", marker=".", label="active streams")
    axes.set_ylabel("events")
    other.set_ylabel("active streams")
    figure.autofmt_xdate()
    return _drawn(figure)


def _forecast_plot(found: GrowthReport) -> str:
    figure, axes = plt.subplots(figsize=(9, 3))
    total = 0
    sizes: list[float] = []
    days: list[Any] = []
    for item in found.days:
        total += item.size
        sizes.append(total / _MIB)
        days.append(datetime.date.fromisoformat(item.day))
    axes.plot(days, sizes, color="#4a7ebb", label="until now")
    if days:
        ahead = [days[-1] + datetime.timedelta(days=item.days) for item in found.forecasts]
        coming = [item.size / _MIB for item in found.forecasts]
        axes.plot([days[-1], *ahead], [sizes[-1], *coming], "--", color="#c0504d", label="forecast")
    axes.set_ylabel("MiB")
    axes.legend()
    figure.autofmt_xdate()
    return _drawn(figure)


def _types_plot(found: GrowthReport) -> str:
    shown = found.types[:TYPES_SHOWN][::-1]
    figure, axes = plt.subplots(figsize=(9, 1 + 0.3 * len(shown)))
    axes.barh([item.type for item in shown], [item.size / _MIB for item in shown], color="#4a7ebb")
    axes.set_xlabel("MiB")
    return _drawn(figure)


def _drawn(figure: Figure) -> str:
    """The figure as SVG, without the header of a separate file."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight")
    plt.close(figure)
    text = buffer.getvalue()
    return text[text.index("<svg") :]
