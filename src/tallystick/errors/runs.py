"""What runs refuse."""

from __future__ import annotations

from tallystick.errors.base import TallyError
from tallystick.errors.given import InvalidInput
from tallystick.errors.refused import Refused

__all__ = [
    "ArtifactUnknown",
    "CodeChanged",
    "ForkImpossible",
    "GraphCycle",
    "InputMissing",
    "NodeFault",
    "RunExists",
    "RunFault",
    "RunLogInvalid",
    "RunNotFound",
    "SnapshotInvalid",
    "WorkflowInvalid",
]


class WorkflowInvalid(InvalidInput):
    """A workflow is not declared as one can be."""

    template = "workflow {workflow!r}: {reason}"
    advice = "Correct the declaration; docs/runs.md shows one."
    workflow: str
    reason: str


class GraphCycle(InvalidInput):
    """Nodes wait for each other."""

    template = "workflow {workflow!r}: the nodes {nodes} wait for each other"
    advice = "Let one of them do without the other's output."
    workflow: str
    nodes: str


class ArtifactUnknown(InvalidInput):
    """A node names an artifact that no node makes and that is no input, or uses one that it did not declare."""

    template = "node {node!r}: artifact {artifact!r} {reason}"
    advice = "Declare it: as an output of a node, with Workflow.input, or in the node's inputs."
    node: str
    artifact: str
    reason: str


class InputMissing(Refused):
    """A file that the workflow needs is not there."""

    template = "the input {artifact!r} is missing: there is no file {path}"
    advice = "Put the file there, or name it with --input {artifact}=FILE, and try again."
    artifact: str
    path: str


class RunExists(Refused):
    """A run of that id exists."""

    template = "run {run!r} exists already"
    advice = "Resume it, or choose another id."
    run: str


class RunNotFound(TallyError):
    """There is no run of that id."""

    template = "there is no run {run!r} in {url}"
    advice = "`tally run status URL` lists the runs."
    run: str
    url: str


class CodeChanged(Refused):
    """The code or the parameters of nodes are not those that the run was made with."""

    template = "run {run!r} was made with other code: {nodes}"
    advice = "Resume with --accept-changes to keep what they made, or with --rerun-changed to make it again."
    run: str
    nodes: str


class NodeFault(Refused):
    """A node did not do what it declares."""

    template = "node {node!r}: {reason}"
    advice = "Correct the node and resume; what had finished is not repeated."
    node: str
    reason: str


class RunFault(Refused):
    """The run ended without finishing."""

    template = "run {run!r} failed at {nodes}: {reason}"
    advice = "`tally run status` shows the trail; correct the cause, then `tally run resume` goes on from there."
    run: str
    nodes: str
    reason: str


class RunLogInvalid(Refused):
    """The events of a run do not make a run."""

    template = "run {run!r}: event {seq} does not fit the ones before it: {reason}"
    advice = "Something else wrote to this stream. `tally verify` says whether the log is whole."
    run: str
    seq: int
    reason: str


class SnapshotInvalid(Refused):
    """The snapshot is not valid and cannot be rebuilt, because the log is damaged or gone."""

    template = "the snapshot of run {run!r} cannot be rebuilt: {reason}"
    advice = "The log was not touched. Restore it from a copy, or look at it with `tally verify`."
    run: str
    reason: str


class ForkImpossible(Refused):
    """A run cannot be forked there, or the history that a fork refers to is not there."""

    template = "run {run!r}: {reason}"
    advice = "Fork from a node that the run has started, and keep the run that a fork refers to."
    run: str
    reason: str
