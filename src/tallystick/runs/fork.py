"""Forking a run: a new run that has the old one's history up to a node, and goes its own way from there.

The child's first event names the parent's stream, seq and link; the history before it is read there, and a control fact
about the parent keeps it from being pruned. Artifacts that had been made are copied, so that both runs own theirs.
"""

from __future__ import annotations

from tallystick import errors
from tallystick.event import names
from tallystick.event.model import NewEvent
from tallystick.runs import journal
from tallystick.runs.facts import NodeStarted, Parent, RunCreated
from tallystick.runs.journal import Journal
from tallystick.runs.launch import recorded_place, workspace_of
from tallystick.runs.state import RunState
from tallystick.runs.workspace import Workspace
from tallystick.store import facts
from tallystick.store.store import Store


def fork(store: Store, run: str, node: str, *, child: str, workspace: str | None = None) -> RunState:
    """Make `child`, which has everything of `run` up to where `node` was last begun. Nothing is carried out yet."""
    stream = journal.stream_of(child)
    names.kind_of(stream)
    if store.stream_head(stream) is not None:
        raise errors.RunExists(run=child)
    whole = journal.load(store, run).state
    parent = _parent(store, run, node)
    held = facts.Forked(stream=parent.stream, seq=parent.seq, link=parent.link, child=stream)
    store.record([(facts.stream_about(parent.stream), NewEvent(facts.FORKED, held.payload))])
    begun = journal.inherited(store, child, parent)
    place = workspace_of(store, child, workspace)
    _copy(begun.state, workspace_of(store, run, whole.workspace), place)
    kept = recorded_place(store, place, workspace)
    created = RunCreated(workflow=whole.workflow, reference=whole.reference, workspace=kept, parent=parent)
    written = Journal(store, child, begun)
    written.record([created])
    journal.keep_beginning(store, child)
    written.save_snapshot()
    return written.state


def _parent(store: Store, run: str, node: str) -> Parent:
    """Where the history ends that a fork at this node has: just before the node was last begun."""
    stream = journal.stream_of(run)
    before = None
    found = None
    for event in journal.events_of(store, stream):
        if event.type == NodeStarted.TYPE and event.data["node"] == node:
            found = before
        before = event
    if found is None:
        raise errors.ForkImpossible(run=run, reason=f"it has not begun the node {node!r} itself")
    return Parent(stream=stream, seq=found.seq, link=found.link.hex(), node=node)


def _copy(state: RunState, source: Workspace, target: Workspace) -> None:
    """Take over the files that are still what they were. What is not gets made again, as it is stale then."""
    for artifact in state.artifacts_index.values():
        content = source.look(artifact.path)
        if content is not None and (content.sha256 == artifact.sha256 or artifact.node is None):
            target.take(source.path(artifact.path), artifact.path)
