"""Fork a run: a new run that shares the old one's history up to a node and continues on its own.

The child's first event names the parent's stream, seq and link. The history before it is read from the parent, and a
control fact about the parent protects it from pruning. Existing artifacts are copied, so that each run owns its files.
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
    """Create `child` with the history of `run` up to the last start of `node`. Nothing is executed yet."""
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
    """The end of the history that a fork at this node shares: just before the node's last start."""
    stream = journal.stream_of(run)
    before = None
    found = None
    for event in journal.events_of(store, stream):
        if event.type == NodeStarted.TYPE and event.data["node"] == node:
            found = before
        before = event
    if found is None:
        raise errors.ForkImpossible(run=run, reason=f"it has not started the node {node!r} itself")
    return Parent(stream=stream, seq=found.seq, link=found.link.hex(), node=node)


def _copy(state: RunState, source: Workspace, target: Workspace) -> None:
    """Copy the files that have not changed. The others become stale, and are made again."""
    for artifact in state.artifacts_index.values():
        content = source.look(artifact.path)
        if content is not None and (content.sha256 == artifact.sha256 or artifact.node is None):
            target.take(source.path(artifact.path), artifact.path)
