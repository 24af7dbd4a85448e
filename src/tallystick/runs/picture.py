"""The graph of a run as an SVG picture: columns from left to right, colours by state, readable in light and dark."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

import msgspec

from tallystick.runs import graph
from tallystick.runs.graph import COLOURS, Drawing, Edge
from tallystick.runs.state import RunState, WorkItem

BOX_WIDTH, BOX_HEIGHT = 176, 54
GAP_X, GAP_Y = 84, 26
MARGIN, HEADER, LEGEND = 28, 62, 44
NAME_CHARACTERS, LABEL_CHARACTERS = 21, 14

STYLE = """
 .page{fill:#ffffff} .title{fill:#212529;font:600 17px system-ui,sans-serif}
 .small{fill:#868e96;font:12px system-ui,sans-serif}
 .name{font:600 13px system-ui,sans-serif} .fact{font:11px system-ui,sans-serif;opacity:.8}
 .edge{fill:none;stroke:#adb5bd;stroke-width:1.5} .label{fill:#868e96;font:10.5px system-ui,sans-serif}
 .halo{stroke:#ffffff;stroke-width:4;paint-order:stroke;stroke-linejoin:round}
 @media (prefers-color-scheme:dark){.page{fill:#16181c}.title{fill:#f1f3f5}.edge{stroke:#5c636a}.halo{stroke:#16181c}}
"""


class Box(msgspec.Struct, frozen=True):
    """The upper left corner of a box."""

    x: float
    y: float

    @property
    def right(self) -> tuple[float, float]:
        """Where edges leave."""
        return self.x + BOX_WIDTH, self.y + BOX_HEIGHT / 2

    @property
    def left(self) -> tuple[float, float]:
        """Where edges arrive."""
        return self.x, self.y + BOX_HEIGHT / 2


def svg(state: RunState) -> str:
    """The picture of a run."""
    found = graph.drawing(state)
    columns = graph.layers(found)
    places = _places(columns)
    rows = max(map(len, columns))
    width = 2 * MARGIN + len(columns) * BOX_WIDTH + (len(columns) - 1) * GAP_X
    width = max(width, 2 * MARGIN + len(COLOURS) * 110)
    height = HEADER + rows * (BOX_HEIGHT + GAP_Y) + LEGEND + MARGIN
    title = f"{state.run_id}: {state.workflow}, {state.run_state}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" role="img" aria-label={quoteattr(title)}>',
        f"<title>{escape(title)}</title><style>{STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#adb5bd"/></marker></defs>',
        f'<rect class="page" width="{width:g}" height="{height:g}" rx="10"/>',
        f'<text class="title" x="{MARGIN}" y="34">{escape(state.run_id)}</text>',
        f'<text class="small" x="{MARGIN}" y="52">{escape(_summary(state))}</text>',
        *(_edge(edge, places) for edge in found.edges),
        *(_box(name.removeprefix(graph.INPUT), places[name], "input", "input") for name in found.inputs),
        *(_box(item.node, places[item.node], item.state, _facts(item)) for item in found.items),
        *_legend(found, height - MARGIN),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _places(columns: list[list[str]]) -> dict[str, Box]:
    rows = max(map(len, columns))
    places = {}
    for column, names in enumerate(columns):
        x = MARGIN + column * (BOX_WIDTH + GAP_X)
        top = HEADER + (rows - len(names)) * (BOX_HEIGHT + GAP_Y) / 2
        for row, name in enumerate(names):
            places[name] = Box(x, top + row * (BOX_HEIGHT + GAP_Y))
    return places


def _box(name: str, place: Box, state: str, fact: str) -> str:
    fill, stroke, text = COLOURS[state]
    middle = place.x + BOX_WIDTH / 2
    radius = BOX_HEIGHT / 2 if state == "input" else 9
    dash = ' stroke-dasharray="5 4"' if state in ("pending", "input") else ""
    return (
        f"<g><title>{escape(name)}: {escape(fact)}</title>"
        f'<rect x="{place.x:g}" y="{place.y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="{radius:g}" '
        f'fill="{fill}" stroke="{stroke}" stroke-width="1.5"{dash}/>'
        f'<text class="name" x="{middle:g}" y="{place.y + 23:g}" text-anchor="middle" fill="{text}">'
        f"{escape(_cut(name, NAME_CHARACTERS))}</text>"
        f'<text class="fact" x="{middle:g}" y="{place.y + 41:g}" text-anchor="middle" fill="{text}">'
        f"{escape(_cut(fact, 30))}</text></g>"
    )


def _edge(edge: Edge, places: dict[str, Box]) -> str:
    x1, y1 = places[edge.source].right
    x2, y2 = places[edge.target].left
    bend = max((x2 - x1) / 2, 30)
    curve = f"M{x1:g} {y1:g}C{x1 + bend:g} {y1:g} {x2 - bend:g} {y2:g} {x2 - 2:g} {y2:g}"
    path = f'<path class="edge" marker-end="url(#tip)" d="{curve}"/>'
    if not edge.label:
        return path
    told = f"<title>{escape(edge.label)}</title>{path}"
    if x2 - x1 > GAP_X:  # on a long edge the name would cover other boxes: it is only in the tooltip
        return f"<g>{told}</g>"
    x, y = (x1 + x2) / 2, (y1 + y2) / 2 - 5
    label = escape(_cut(edge.label, LABEL_CHARACTERS))
    return f'<g>{told}<text class="label halo" x="{x:g}" y="{y:g}" text-anchor="middle">{label}</text></g>'


def _legend(found: Drawing, y: float) -> list[str]:
    states = [name for name in COLOURS if name == "input" or any(item.state == name for item in found.items)]
    parts = []
    for number, name in enumerate(states):
        fill, stroke, _ = COLOURS[name]
        x = MARGIN + number * 100
        parts.append(f'<rect x="{x}" y="{y - 11:g}" width="14" height="14" rx="4" fill="{fill}" stroke="{stroke}"/>')
        parts.append(f'<text class="small" x="{x + 21}" y="{y:g}">{name}</text>')
    return parts


def _facts(item: WorkItem) -> str:
    if item.state == "stale":
        return f"stale: {item.stale_because}"
    if not item.history or item.inherited_from:
        return f"inherited from {item.inherited_from}" if item.inherited_from else item.state
    last = item.history[-1]
    took = "" if last.ended_at is None else f", {duration(last.ended_at - last.started_at)}"
    tries = f", attempt {item.attempts}" if item.attempts > 1 else ""
    return f"{item.state}{took}{tries}"


def _summary(state: RunState) -> str:
    done = sum(item.state == "finished" for item in state.work_items)
    return f"{state.workflow} · {state.run_state} · {done} of {len(state.work_items)} nodes finished"


def duration(ns: int) -> str:
    """A duration for people; unknown if the clock was set back in between."""
    if ns < 0:
        return "?"
    seconds = ns / 1e9
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
