"""The events of a run: one class for the payload of each event type. The shipped JSON Schema is generated from them.

A node is a step of the workflow's graph. A worker executes nodes. A session is the time one worker works on a run.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from tallystick import errors
from tallystick.event import canonical

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
Sha256 = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
Count = Annotated[int, msgspec.Meta(ge=0)]
Attempt = Annotated[int, msgspec.Meta(ge=1)]

RunStatus = Literal["created", "running", "finished", "failed", "interrupted"]
NodeStatus = Literal["pending", "running", "finished", "failed", "stale"]
SessionStatus = Literal["open", "finished", "failed", "interrupted", "lost"]
Severity = Literal["blocker", "error", "warning", "note"]

F = TypeVar("F", bound="RunFact")


class RunFact(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The payload of one event."""

    TYPE: ClassVar[str] = ""

    def payload(self) -> dict[str, Any]:
        """The fact as a plain JSON object."""
        found: dict[str, Any] = msgspec.to_builtins(self)
        return found


class Parent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a fork starts: the history before it is that of `stream` up to `seq`, which has this link."""

    stream: Name
    seq: Attempt
    link: Sha256
    node: Name


class Output(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An artifact that a node writes: its name, its file in the workspace, and the schema of its content."""

    artifact: Name
    path: Name
    schema_id: str | None = None


class RunCreated(RunFact, frozen=True, kw_only=True):
    """The run exists. `reference` is the MODULE:WORKFLOW to load it from, `workspace` where its files are."""

    TYPE = "RUN_CREATED"
    workflow: Name
    reference: str | None = None
    workspace: str | None = None
    parent: Parent | None = None


class InputDeclared(RunFact, frozen=True, kw_only=True):
    """The workflow reads this artifact, and no node writes it."""

    TYPE = "INPUT_DECLARED"
    artifact: Name
    path: Name
    schema_id: str | None = None


class NodeDeclared(RunFact, frozen=True, kw_only=True):
    """A node of the graph, or a new version of one. `code` is the hash of its source and parameters."""

    TYPE = "NODE_DECLARED"
    node: Name
    code: Sha256
    inputs: list[Name] = []
    outputs: list[Output] = []
    after: list[Name] = []
    params: dict[str, Any] = {}
    section: str | None = None


class NodeRemoved(RunFact, frozen=True, kw_only=True):
    """The workflow no longer has this node."""

    TYPE = "NODE_REMOVED"
    node: Name


class WorkerRegistered(RunFact, frozen=True, kw_only=True):
    """The hardware and software of a worker."""

    TYPE = "WORKER_REGISTERED"
    worker: Name
    hardware: str


class WorkerAttested(RunFact, frozen=True, kw_only=True):
    """Evidence about the hardware of a worker, in hex."""

    TYPE = "WORKER_ATTESTED"
    worker: Name
    attestation_type: Name
    attestation: Annotated[str, msgspec.Meta(pattern="^([0-9a-f]{2})+$")]


class SessionStarted(RunFact, frozen=True, kw_only=True):
    """A worker started to work on the run, with this version of the code."""

    TYPE = "SESSION_STARTED"
    session: Name
    worker: Name
    actor: Name
    pid: Count
    commit: str | None = None
    dirty: bool = False


class SessionEnded(RunFact, frozen=True, kw_only=True):
    """A session ended. `lost`: it ended without recording it, which the next session noticed."""

    TYPE = "SESSION_ENDED"
    session: Name
    status: Literal["finished", "failed", "interrupted", "lost"]


class RunStateChanged(RunFact, frozen=True, kw_only=True):
    """The state of the run as a whole changed."""

    TYPE = "RUN_STATE_CHANGED"
    state: RunStatus


class SectionStateChanged(RunFact, frozen=True, kw_only=True):
    """The state of one section, derived from its nodes, changed."""

    TYPE = "SECTION_STATE_CHANGED"
    section: Name
    state: NodeStatus


class NodeStarted(RunFact, frozen=True, kw_only=True):
    """A node is about to be executed with these inputs."""

    TYPE = "NODE_STARTED"
    node: Name
    attempt: Attempt
    session: Name
    inputs: dict[str, Sha256] = {}


class NodeFinished(RunFact, frozen=True, kw_only=True):
    """A node finished. It is not executed again unless it becomes stale."""

    TYPE = "NODE_FINISHED"
    node: Name
    attempt: Attempt


class NodeFailed(RunFact, frozen=True, kw_only=True):
    """An attempt failed. `retry_ms` None: it was the last attempt of this session."""

    TYPE = "NODE_FAILED"
    node: Name
    attempt: Attempt
    error: str
    retry_ms: Count | None = None


class NodeStale(RunFact, frozen=True, kw_only=True):
    """A finished node must be executed again."""

    TYPE = "NODE_STALE"
    node: Name
    because: str


class ArtifactWritten(RunFact, frozen=True, kw_only=True):
    """A node wrote an artifact."""

    TYPE = "ARTIFACT_WRITTEN"
    artifact: Name
    path: Name
    sha256: Sha256
    bytes: Count
    node: Name
    writer_worker: Name
    schema_id: str | None = None


class ArtifactSeen(RunFact, frozen=True, kw_only=True):
    """The content of an input, or of an artifact that was changed outside the run (`was`: its hash before)."""

    TYPE = "ARTIFACT_SEEN"
    artifact: Name
    path: Name
    sha256: Sha256
    bytes: Count
    schema_id: str | None = None
    was: Sha256 | None = None


class ArtifactStale(RunFact, frozen=True, kw_only=True):
    """The inputs of an artifact have changed."""

    TYPE = "ARTIFACT_STALE"
    artifact: Name
    because: str


class IssueOpened(RunFact, frozen=True, kw_only=True):
    """A problem that somebody should know about."""

    TYPE = "ISSUE_OPENED"
    issue: Name
    code: Name
    severity: Severity
    message: str
    node: str | None = None


class IssueResolved(RunFact, frozen=True, kw_only=True):
    """The problem no longer exists."""

    TYPE = "ISSUE_RESOLVED"
    issue: Name
    how: str


FACTS: tuple[type[RunFact], ...] = (
    RunCreated,
    InputDeclared,
    NodeDeclared,
    NodeRemoved,
    WorkerRegistered,
    WorkerAttested,
    SessionStarted,
    SessionEnded,
    RunStateChanged,
    SectionStateChanged,
    NodeStarted,
    NodeFinished,
    NodeFailed,
    NodeStale,
    ArtifactWritten,
    ArtifactSeen,
    ArtifactStale,
    IssueOpened,
    IssueResolved,
)
BY_TYPE = {fact.TYPE: fact for fact in FACTS}
_decoders = {fact.TYPE: msgspec.json.Decoder(fact).decode for fact in FACTS}


def decode(type_: str, payload: bytes | None) -> RunFact | None:
    """Decode the fact in an event; None if its type is not one of a run. A payload that does not fit is refused."""
    decoder = _decoders.get(type_)
    if decoder is None:
        return None
    if payload is None:
        raise errors.SchemaViolation(type=type_, version=1, pointer="", reason="the payload was erased")
    try:
        return decoder(payload)
    except msgspec.ValidationError as problem:
        raise errors.SchemaViolation(type=type_, version=1, pointer="", reason=str(problem)) from None


def check(fact: RunFact) -> dict[str, Any]:
    """The payload of a fact, checked against the schema of its type before it is written."""
    payload = fact.payload()
    decode(fact.TYPE, canonical.encode(payload))
    return payload
