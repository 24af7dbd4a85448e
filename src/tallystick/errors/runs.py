"""Errors of workflows and their runs."""

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
    """The declaration of a workflow is not valid."""

    template = "workflow {workflow!r}: {reason}"
    advice = "Correct the declaration. docs/runs.md shows an example."
    workflow: str
    reason: str


class GraphCycle(InvalidInput):
    """Nodes wait for each other."""

    template = "workflow {workflow!r}: the nodes {nodes} wait for each other"
    advice = "Change one of them so that it does not need the other's output."
    workflow: str
    nodes: str


class ArtifactUnknown(InvalidInput):
    """A node names an artifact that is neither an input nor written by a node, or uses one that it did not declare."""

    template = "node {node!r}: artifact {artifact!r} {reason}"
    advice = "Declare it: as an output of a node, with Workflow.input, or in the node's inputs."
    node: str
    artifact: str
    reason: str


class InputMissing(Refused):
    """A file that the workflow needs does not exist."""

    template = "the input {artifact!r} is missing: there is no file {path}"
    advice = "Create the file, or name another one with --input {artifact}=FILE, and try again."
    artifact: str
    path: str


class RunExists(Refused):
    """A run with this id exists already."""

    template = "run {run!r} exists already"
    advice = "Resume it, or choose another id."
    run: str


class RunNotFound(TallyError):
    """There is no run with this id."""

    template = "there is no run {run!r} in {url}"
    advice = "`tally run status URL` lists the runs."
    run: str
    url: str


class CodeChanged(Refused):
    """The code or the parameters of nodes differ from those that the run was made with."""

    template = "run {run!r} was made with other code: {nodes}"
    advice = "Resume with --accept-changes to keep their output, or with --rerun-changed to run them again."
    run: str
    nodes: str


class NodeFault(Refused):
    """A node did not do what it declares."""

    template = "node {node!r}: {reason}"
    advice = "Fix the node and resume. Finished nodes are not run again."
    node: str
    reason: str


class RunFault(Refused):
    """The run ended without finishing."""

    template = "run {run!r} failed at {nodes}: {reason}"
    advice = "`tally run status` shows every attempt. Fix the cause, then run `tally run resume`."
    run: str
    nodes: str
    reason: str


class RunLogInvalid(Refused):
    """The events of a run are not a valid sequence."""

    template = "run {run!r}: event {seq} does not fit the events before it: {reason}"
    advice = "Another program wrote to this stream. `tally verify` says whether the log is damaged."
    run: str
    seq: int
    reason: str


class SnapshotInvalid(Refused):
    """The snapshot is not valid, and cannot be rebuilt because the log is damaged or missing."""

    template = "the snapshot of run {run!r} cannot be rebuilt: {reason}"
    advice = "The log was not changed. Restore it from a copy, or check it with `tally verify`."
    run: str
    reason: str


class ForkImpossible(Refused):
    """The run cannot be forked at this node, or the history that a fork refers to is missing."""

    template = "run {run!r}: {reason}"
    advice = "Fork from a node that the run has started, and do not remove the run that a fork refers to."
    run: str
    reason: str
