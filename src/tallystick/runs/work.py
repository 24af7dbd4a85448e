"""What a node is given: its inputs, its parameters, a place for its outputs, and a way to raise issues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical
from tallystick.runs.facts import Fact, IssueOpened, IssueResolved, Severity
from tallystick.runs.workflow import Artifact, Node
from tallystick.runs.workspace import Workspace


class Work:
    """One attempt at a node. Only declared artifacts can be reached: what is not declared cannot become stale."""

    def __init__(self, run_id: str, node: Node, attempt: int, workspace: Workspace, inputs: dict[str, str]) -> None:
        self.run_id = run_id
        self.node = node.name
        self.attempt = attempt
        self.params = node.params
        self.issues: list[Fact] = []
        self._inputs = inputs
        self._outputs: dict[str, Artifact] = {item.name: item for item in node.outputs}
        self._workspace = workspace

    def path(self, artifact: str) -> Path:
        """The file of a declared input or output. An output's directory is made."""
        if artifact in self._outputs:
            found = self._workspace.path(self._outputs[artifact].place)
            found.parent.mkdir(parents=True, exist_ok=True)
            return found
        if artifact in self._inputs:
            return self._workspace.path(self._inputs[artifact])
        raise errors.ArtifactUnknown(node=self.node, artifact=artifact, reason="is not declared by this node")

    def read(self, artifact: str) -> bytes:
        """The bytes of an artifact."""
        return self.path(artifact).read_bytes()

    def text(self, artifact: str) -> str:
        """The text of an artifact, UTF-8."""
        return self.read(artifact).decode()

    def json(self, artifact: str) -> Any:
        """The value of a JSON artifact."""
        return msgspec.json.decode(self.read(artifact))

    def write(self, artifact: str, data: bytes | str) -> None:
        """Make an output: whole or not at all."""
        if artifact not in self._outputs:
            raise errors.ArtifactUnknown(node=self.node, artifact=artifact, reason="is no output of this node")
        content = data.encode() if isinstance(data, str) else data
        self._workspace.write(self._outputs[artifact].place, content)

    def write_json(self, artifact: str, value: Any) -> None:
        """Make an output of a JSON value, in canonical form: the same value gives the same hash."""
        self.write(artifact, canonical.encode_state(value) + b"\n")

    def open_issue(self, code: str, message: str, *, severity: Severity = "warning") -> str:
        """Record that something is wrong; returns the issue's name. It is written when the attempt ends."""
        issue = f"{self.node}#{self.attempt}.{len(self.issues) + 1}"
        self.issues.append(IssueOpened(issue=issue, code=code, severity=severity, message=message, node=self.node))
        return issue

    def resolve_issue(self, issue: str, how: str) -> None:
        """Record that an issue is no longer one."""
        self.issues.append(IssueResolved(issue=issue, how=how))
