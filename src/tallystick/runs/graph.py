"""The graph of a run with the state of every node: as Mermaid text, and the layers that a drawing needs."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tallystick.runs.facts import NodeDeclared
from tallystick.runs.state import RunState, WorkItem
from tallystick.runs.workflow import Graph

COLOURS: dict[str, tuple[str, str, str]] = {
    "pending": ("#f1f3f5", "#868e96", "#343a40"),
    "running": ("#dbe9ff", "#2563eb", "#1e3a8a"),
    "finished": ("#dcf5e3", "#2f9e44", "#14532d"),
    "failed": ("#ffe1e1", "#e03131", "#7f1d1d"),
    "stale": ("#fff1d6", "#e8930c", "#7a4a00"),
    "input": ("#ffffff", "#adb5bd", "#495057"),
}
"""State -> background, border, text."""


INPUT = "\0"  # prefix of an input's name: a node may have the same name, and no name contains this character


class Edge(msgspec.Struct, frozen=True):
    """From a node or an input to a node. `label` names the artifacts that are passed on; it may be empty."""

    source: str
    target: str
    label: str


class Drawing(msgspec.Struct, frozen=True):
    """The elements to draw: inputs, nodes in order, edges. The names of inputs start with `INPUT`."""

    inputs: list[str]
    items: list[WorkItem]
    edges: list[Edge]
    graph: Graph


def drawing(state: RunState) -> Drawing:
    """The graph that was declared in a run."""
    declared = [
        NodeDeclared(
            node=item.node, code=item.code, inputs=item.inputs, outputs=item.outputs, after=item.after, params={}
        )
        for item in state.work_items
    ]
    graph = Graph(declared, state.inputs)
    by_name = {item.node: item for item in state.work_items}
    items = [by_name[name] for name in graph.order]
    edges = [edge for item in items for edge in _edges(item, graph)]
    used = [INPUT + name for name in state.inputs if name in graph.readers and name not in graph.maker]
    return Drawing(used, items, edges, graph)


def _edges(item: WorkItem, graph: Graph) -> Iterator[Edge]:
    handed: dict[str, list[str]] = {name: [] for name in item.after}
    for artifact in item.inputs:
        handed.setdefault(graph.maker.get(artifact, ""), []).append(artifact)
    for artifact in handed.pop("", []):
        yield Edge(INPUT + artifact, item.node, "")
    for source in sorted(handed, key=graph.rank.__getitem__):
        yield Edge(source, item.node, ", ".join(handed[source]))


def mermaid(state: RunState) -> str:
    """The graph as Mermaid flowchart text, sections as boxes, states as colours."""
    found = drawing(state)
    names = {item.node: f"n{number}" for number, item in enumerate(found.items)}
    names |= {name: f"i{number}" for number, name in enumerate(found.inputs)}
    lines = ["flowchart LR"]
    lines += [f'  {names[name]}(["{_quoted(name.removeprefix(INPUT))}"]):::input' for name in found.inputs]
    sections = list(dict.fromkeys(item.section for item in found.items))
    for number, section in enumerate(sections):
        inside = [item for item in found.items if item.section == section]
        nodes = [f'{names[item.node]}["{_quoted(item.node)}"]:::{item.state}' for item in inside]
        if section is None:
            lines += [f"  {node}" for node in nodes]
        else:
            lines += [f'  subgraph s{number}["{_quoted(section)}"]', *(f"    {node}" for node in nodes), "  end"]
    for edge in found.edges:
        label = f'|"{_quoted(edge.label)}"|' if edge.label else ""
        lines.append(f"  {names[edge.source]} -->{label} {names[edge.target]}")
    for name, (fill, stroke, text) in COLOURS.items():
        lines.append(f"  classDef {name} fill:{fill},stroke:{stroke},color:{text}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    """A text for Mermaid's quotation marks, with entities for characters that would end it."""
    for character, entity in (("&", "&amp;"), ('"', "&quot;"), ("<", "&lt;"), (">", "&gt;"), ("#", "&num;")):
        text = text.replace(character, entity)
    return text


def layers(found: Drawing) -> list[list[str]]:
    """Columns from left to right: a node is to the right of everything it waits for, near what it reads."""
    column = dict.fromkeys(found.inputs, 0)
    first = 1 if found.inputs else 0
    for item in found.items:
        waits = [column[name] + 1 for name in found.graph.waits[item.node]]
        column[item.node] = max([first, *waits])
    columns: list[list[str]] = [[] for _ in range(max(column.values(), default=0) + 1)]
    for name in (*found.inputs, *(item.node for item in found.items)):
        columns[column[name]].append(name)
    sources: dict[str, list[str]] = {}
    for edge in found.edges:
        sources.setdefault(edge.target, []).append(edge.source)
    height = {name: (row + 0.5) / len(columns[0]) for row, name in enumerate(columns[0])}
    for names in columns[1:]:
        wanted = {
            name: _middle([height[other] for other in sources.get(name, []) if other in height]) for name in names
        }
        names.sort(key=wanted.__getitem__)
        height |= {name: (row + 0.5) / len(names) for row, name in enumerate(names)}
    return columns


def _middle(heights: list[float]) -> float:
    return sum(heights) / len(heights) if heights else 0.5
