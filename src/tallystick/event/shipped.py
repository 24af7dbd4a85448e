"""The event types that come with tallystick, in a catalog of their own: `catalog.include(shipped.catalog)`.

| type | model | in a stream |
|---|---|---|
| `command_event` | `CommandEvent` | of the agent's session: a tool call and the result of its validation |
| `spec_loaded` | `SpecLoaded` | `run/<id>`: the specification that the run must fulfil |
| `evidence_submitted` | `EvidenceSubmitted` | `run/<id>`: something to be evaluated |
| `evaluation_completed` | `EvaluationCompleted` | `run/<id>`: the result |
| `transcript_exported` | `TranscriptExported` | `run/<id>`: what left the store, and its hash |

The stream's name is the run's id, and the meta says who, when and why. The payload repeats neither.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from tallystick.event.catalog import Catalog

catalog = Catalog()

Name = Annotated[str, Field(min_length=1, max_length=200)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@catalog.event("command_event")
class CommandEvent(BaseModel):
    """A tool call of an agent, and whether it may run."""

    agent_id: str = Field(min_length=1, max_length=128)
    tool_name: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    tool_input: dict[str, Any]
    validation_status: Literal["pending", "approved", "rejected"]


@catalog.event("spec_loaded")
class SpecLoaded(BaseModel):
    """The specification of a run was read."""

    spec_id: Name
    spec_version: Name
    spec_sha256: Sha256
    spec: dict[str, Any]


@catalog.event("evidence_submitted")
class EvidenceSubmitted(BaseModel):
    """Evidence was submitted, in full or as its hash."""

    evidence_id: Name
    kind: Name
    content_sha256: Sha256
    content: dict[str, Any] | None = None


@catalog.event("evaluation_completed")
class EvaluationCompleted(BaseModel):
    """The evidence was compared with the specification."""

    evaluation_id: Name
    spec_id: Name
    evidence_ids: list[Name]
    outcome: Literal["passed", "failed", "inconclusive"]
    score: float | None = Field(default=None, ge=0, le=1)
    findings: list[dict[str, Any]] = Field(default_factory=list)


@catalog.event("transcript_exported")
class TranscriptExported(BaseModel):
    """The transcript of a run was exported."""

    transcript_id: Name
    format: Name
    transcript_sha256: Sha256
    last_seq: int = Field(ge=0)
    transcript: list[dict[str, Any]] = Field(default_factory=list)
