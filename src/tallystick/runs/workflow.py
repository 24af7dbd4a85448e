"""Declare a workflow: nodes with the artifacts they read and write. The graph follows from that.

flow = Workflow("letters")
flow.input("letters.txt")

@flow.node(inputs=["letters.txt"], outputs=["count.json"], params={"minimum": 3}, retries=2)
def count(work): work.write_json("count.json", {"letters": len(work.text("letters.txt"))})
"""

from __future__ import annotations

import copy
import heapq
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from tallystick import errors
from tallystick.event import canonical, names
from tallystick.runs import code
from tallystick.runs.facts import InputDeclared, NodeDeclared, Output

if TYPE_CHECKING:
    from tallystick.runs.work import Work

RETRIES_MAX = 100
LABEL_MAX = 200  # characters of a name that is recorded
NODE_LABEL_MAX = 160  # names of issues are derived from it
BACKOFF_MS = 100


class Artifact(msgspec.Struct, frozen=True):
    """A file that nodes pass on. Its path is relative to the run's workspace. Default: the name."""

    name: str
    path: str = ""
    schema_id: str | None = None

    @property
    def place(self) -> str:
        """The path in the workspace."""
        return self.path or self.name


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """One step: a function, what it reads and writes, and how often it is retried."""

    name: str
    function: Callable[[Work], Any]
    inputs: tuple[str, ...] = ()
    outputs: tuple[Artifact, ...] = ()
    after: tuple[str, ...] = ()
    params: dict[str, Any] = {}
    section: str | None = None
    retries: int = 0
    backoff_ms: int = BACKOFF_MS

    def declared(self) -> NodeDeclared:
        """The node as it is recorded."""
        return NodeDeclared(
            node=self.name,
            code=code.version(self.function, self.params),
            inputs=list(self.inputs),
            outputs=[Output(artifact=o.name, path=o.place, schema_id=o.schema_id) for o in self.outputs],
            after=list(self.after),
            params=self.params,
            section=self.section,
        )


class Workflow:
    """A named set of nodes. `order` decides which node runs first if there is a choice."""

    def __init__(self, name: str) -> None:
        self.name = _label(name, "workflow", name)
        self.inputs: dict[str, Artifact] = {}
        self.nodes: dict[str, Node] = {}
        self._taken: set[tuple[str, str]] = set()

    def input(self, name: str, *, path: str = "", schema_id: str | None = None) -> str:
        """Declare a file from outside the workflow. Returns its name."""
        self.inputs[name] = self._new(Artifact(name, path or name, schema_id))
        return name

    def node(
        self,
        name: str | None = None,
        *,
        inputs: Sequence[str] = (),
        outputs: Sequence[str | Artifact] = (),
        after: Sequence[str] = (),
        params: dict[str, Any] | None = None,
        section: str | None = None,
        retries: int = 0,
        backoff_ms: int = BACKOFF_MS,
    ) -> Callable[[Callable[[Work], Any]], Callable[[Work], Any]]:
        """Declare a node. Its default name is that of the function. `after` waits for a node without an artifact."""

        def declare(function: Callable[[Work], Any]) -> Callable[[Work], Any]:
            self.add(
                name or function.__name__,
                function,
                inputs=inputs,
                outputs=outputs,
                after=after,
                params=params,
                section=section,
                retries=retries,
                backoff_ms=backoff_ms,
            )
            return function

        return declare

    def add(
        self,
        name: str,
        function: Callable[[Work], Any],
        *,
        inputs: Sequence[str] = (),
        outputs: Sequence[str | Artifact] = (),
        after: Sequence[str] = (),
        params: dict[str, Any] | None = None,
        section: str | None = None,
        retries: int = 0,
        backoff_ms: int = BACKOFF_MS,
    ) -> None:
        """Declare a node without the decorator."""
        if _label(name, "node", self.name) in self.nodes:
            raise errors.WorkflowInvalid(workflow=self.name, reason=f"there are two nodes {name!r}")
        if type(retries) is not int or not 0 <= retries <= RETRIES_MAX or type(backoff_ms) is not int or backoff_ms < 0:
            reason = f"node {name!r}: retries are from 0 to {RETRIES_MAX}, backoff_ms at least 0"
            raise errors.WorkflowInvalid(workflow=self.name, reason=reason)
        if len(name) > NODE_LABEL_MAX:
            reason = f"the name of a node has at most {NODE_LABEL_MAX} characters: {name[:50]!r}…"
            raise errors.WorkflowInvalid(workflow=self.name, reason=reason)
        if section is not None:
            _label(section, "section", self.name)
        made = tuple(self._new(item if isinstance(item, Artifact) else Artifact(item)) for item in outputs)
        canonical.check(params or {}, what=f"params of node {name}")
        self.nodes[name] = Node(
            name=name,
            function=function,
            inputs=tuple(inputs),
            outputs=made,
            after=tuple(after),
            params=copy.deepcopy(params or {}),
            section=section,
            retries=retries,
            backoff_ms=backoff_ms,
        )

    def _new(self, artifact: Artifact) -> Artifact:
        """The artifact, if its name and its file are still free."""
        _label(artifact.name, "artifact", self.name)
        _check_path(self.name, artifact.place)
        for what, value in (("name", artifact.name), ("path", artifact.place)):
            if (what, value) in self._taken:
                raise errors.WorkflowInvalid(workflow=self.name, reason=f"two artifacts have the {what} {value!r}")
            self._taken.add((what, value))
        return artifact

    # --- the graph -------------------------------------------------------------------------------------------------

    def graph(self) -> Graph:
        """The checked graph: every artifact has a source, and there is no cycle."""
        if not self.nodes:
            raise errors.WorkflowInvalid(workflow=self.name, reason="it has no nodes")
        declared = [node.declared() for node in self.nodes.values()]
        graph = Graph(declared, self.inputs)
        if graph.left_over:
            raise errors.GraphCycle(workflow=self.name, nodes=", ".join(graph.left_over))
        return graph

    def declared_inputs(self) -> list[InputDeclared]:
        """The inputs as they are recorded."""
        return [InputDeclared(artifact=i.name, path=i.place, schema_id=i.schema_id) for i in self.inputs.values()]


class Graph:
    """Which node waits for which. `order` is topological; among possible next nodes the first declared is first."""

    def __init__(self, nodes: Sequence[NodeDeclared], inputs: Iterable[str]) -> None:
        self.nodes = {node.node: node for node in nodes}
        self.maker = {output.artifact: node.node for node in nodes for output in node.outputs}
        known = set(inputs)
        self.waits: dict[str, set[str]] = {}
        self.followers: dict[str, list[str]] = {node.node: [] for node in nodes}
        self.readers: dict[str, list[str]] = {}
        for node in nodes:
            self.waits[node.node] = self._upstream(node, known)
            for artifact in node.inputs:
                self.readers.setdefault(artifact, []).append(node.node)
        for name, upstream in self.waits.items():
            for other in upstream:
                self.followers[other].append(name)
        self.order, self.left_over = self._sorted()
        self.rank = {name: rank for rank, name in enumerate(self.order)}

    def _upstream(self, node: NodeDeclared, inputs: set[str]) -> set[str]:
        found = set()
        for artifact in node.inputs:
            if artifact in self.maker:
                found.add(self.maker[artifact])
            elif artifact not in inputs:
                reason = "is neither written by a node nor an input of the workflow"
                raise errors.ArtifactUnknown(node=node.node, artifact=artifact, reason=reason)
        for other in node.after:
            if other not in self.nodes:
                raise errors.WorkflowInvalid(
                    workflow="", reason=f"node {node.node!r} waits for {other!r}, which is not a node"
                )
            found.add(other)
        return found

    def _sorted(self) -> tuple[list[str], list[str]]:
        declared = {name: index for index, name in enumerate(self.nodes)}
        missing = {name: len(upstream) for name, upstream in self.waits.items()}
        ready = [declared[name] for name, count in missing.items() if not count]
        heapq.heapify(ready)
        names_by_index = list(self.nodes)
        order = []
        while ready:
            name = names_by_index[heapq.heappop(ready)]
            order.append(name)
            for follower in self.followers[name]:
                missing[follower] -= 1
                if not missing[follower]:
                    heapq.heappush(ready, declared[follower])
        done = set(order)
        return order, [name for name in self.nodes if name not in done]

    def downstream(self, roots: Iterable[str]) -> list[str]:
        """These nodes and everything that depends on them, in order."""
        seen: set[str] = set()
        pending = list(roots)
        while pending:
            name = pending.pop()
            if name not in seen:
                seen.add(name)
                pending += self.followers[name]
        return sorted(seen, key=self.rank.__getitem__)


def _label(name: str, what: str, workflow: str) -> str:
    try:
        label = names.check_label(what, name)
    except errors.InvalidValue as problem:
        raise errors.WorkflowInvalid(workflow=str(workflow)[:100], reason=problem.message) from None
    if len(label) > LABEL_MAX:
        reason = f"the name of a {what} has at most {LABEL_MAX} characters: {label[:50]!r}…"
        raise errors.WorkflowInvalid(workflow=str(workflow)[:100], reason=reason)
    return label


def _check_path(workflow: str, path: str) -> None:
    """Refuse a path that could leave the workspace, on any system."""
    parts = path.split("/")
    if not path.isprintable() or len(path) > LABEL_MAX:
        reason = f"the path {path[:50]!r} must be a printable text of at most {LABEL_MAX} characters"
        raise errors.WorkflowInvalid(workflow=workflow, reason=reason)
    if path.startswith("/") or "\\" in path or ":" in path or any(part in ("", ".", "..") for part in parts):
        reason = f"the path {path!r} must be relative, with '/' and without '..'"
        raise errors.WorkflowInvalid(workflow=workflow, reason=reason)
