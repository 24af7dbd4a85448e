"""The argument of a node: its inputs, its parameters, its outputs, and a way to raise issues."""

from __future__ import annotations

import copy
from collections.abc import Container
from pathlib import Path
from typing import Any

import msgspec

from tallystick import errors
from tallystick.event import canonical
from tallystick.runs import facts
from tallystick.runs.facts import IssueOpened, IssueResolved, RunFact, Severity
from tallystick.runs.workflow import Artifact, Node
from tallystick.runs.workspace import Workspace

MESSAGE_CHARACTERS_MAX = 100_000


class Work:
    """One attempt at a node. Only declared artifacts are accessible: others could not become stale.

    `paths` has all artifacts of the run, `issues` all known issues.
    """

    def __init__(
        self,
        run_id: str,
        node: Node,
        attempt: int,
        workspace: Workspace,
        paths: dict[str, str],
        issues: Container[str] = (),
    ) -> None:
        self.run_id = run_id
        self.node = node.name
        self.attempt = attempt
        self.params = copy.deepcopy(node.params)  # so that a node cannot change the declared value
        self.issues: list[RunFact] = []
        self._inputs = {name: paths[name] for name in node.inputs}
        self._known_issues = issues
        self._outputs: dict[str, Artifact] = {item.name: item for item in node.outputs}
        self._workspace = workspace

    def path(self, artifact: str) -> Path:
        """The file of a declared input or output. The directory of an output is created."""
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
        """Write an output atomically."""
        if artifact not in self._outputs:
            raise errors.ArtifactUnknown(node=self.node, artifact=artifact, reason="is not an output of this node")
        content = data.encode() if isinstance(data, str) else data
        self._workspace.write(self._outputs[artifact].place, content)

    def write_json(self, artifact: str, value: Any) -> None:
        """Write a JSON value as an output, in canonical form: the same value gives the same hash."""
        self.write(artifact, canonical.encode_state(value) + b"\n")

    def open_issue(self, code: str, message: str, *, severity: Severity = "warning") -> str:
        """Record a problem. Returns the issue's name. It is written when the attempt ends."""
        issue = f"{self.node}#{self.attempt}.{len(self.issues) + 1}"
        opened = IssueOpened(issue=issue, code=code, severity=severity, message=message, node=self.node)
        self._add(opened, message)
        return issue

    def resolve_issue(self, issue: str, how: str) -> None:
        """Record that an issue is resolved. It must have been opened by this attempt, or recorded before it."""
        opened = {fact.issue for fact in self.issues if isinstance(fact, IssueOpened)}
        if issue not in opened and issue not in self._known_issues:
            raise errors.NodeFault(node=self.node, reason=f"it resolves the issue {issue!r}, which is not known")
        self._add(IssueResolved(issue=issue, how=how), how)

    def _add(self, fact: RunFact, text: str) -> None:
        """Add an issue that can be recorded. Any other is an error of the node, raised while it can be reported."""
        facts.check(fact)
        if len(text) > MESSAGE_CHARACTERS_MAX:
            reason = f"the text of an issue has {len(text)} characters, at most {MESSAGE_CHARACTERS_MAX} are kept"
            raise errors.NodeFault(node=self.node, reason=reason)
        self.issues.append(fact)
