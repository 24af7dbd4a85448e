"""Execute a workflow: the next node comes from the graph, and every step is recorded before the next one starts.

One commit per step: the end of one node and the start of the next are written together, so a node costs one fsync.
Nodes that do not wait for each other may run in threads. They start in the graph's order, and the state is the same.
"""

from __future__ import annotations

import heapq
import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait

import msgspec

from tallystick import errors
from tallystick.runs.facts import (
    ArtifactWritten,
    IssueOpened,
    IssueResolved,
    NodeFailed,
    NodeFinished,
    NodeStarted,
    RunFact,
    RunStateChanged,
    SessionEnded,
)
from tallystick.runs.journal import Journal
from tallystick.runs.sections import Sections
from tallystick.runs.work import Work
from tallystick.runs.workflow import Graph, Workflow
from tallystick.runs.workspace import Content, Workspace

BACKOFF_MS_MAX = 60_000
ERROR_CHARACTERS_MAX = 2000
WITHHELD = "(withheld: it looks like a secret)"
WITHHELD_CODE = "Withheld"
NODE_FAILED = "NodeFailed"


class StartedAttempt(msgspec.Struct, frozen=True):
    """An attempt that is recorded as started."""

    node: str
    attempt: int
    tries: int
    span: str
    delay_ms: int = 0


class AttemptResult(msgspec.Struct, frozen=True):
    """The result of an attempt."""

    begun: StartedAttempt
    contents: dict[str, Content] = {}
    issues: list[RunFact] = []
    error: str | None = None


class Runner:
    """One session on one run."""

    def __init__(
        self,
        journal: Journal,
        workflow: Workflow,
        graph: Graph,
        workspace: Workspace,
        *,
        session: str,
        worker: str,
        parallel: int = 1,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._journal = journal
        self._nodes = workflow.nodes
        self._graph = graph
        self._workspace = workspace
        self._session = session
        self._worker = worker
        self._parallel = parallel
        self._sleep = sleep
        state = journal.state
        self._sections = Sections(state.work_items, state.section_states)
        self._paths = {name: item.path for name, item in state.inputs.items()}
        self._paths |= {output.artifact: output.path for item in state.work_items for output in item.outputs}
        self._open_issues: dict[str, list[str]] = {}  # by node, from attempts before the current one
        for issue in state.issues:
            if issue.state == "open" and issue.node is not None:
                self._open_issues.setdefault(issue.node, []).append(issue.issue)
        finished = {item.node for item in state.work_items if item.state == "finished"}
        self._missing = {name: len(graph.waits[name] - finished) for name in graph.order if name not in finished}
        self._ready = [graph.rank[name] for name, count in self._missing.items() if not count]
        heapq.heapify(self._ready)
        self._failed: dict[str, str] = {}
        self._retries: list[StartedAttempt] = []
        self._fresh: dict[str, str] = {}  # artifacts of the batch that is not yet recorded
        self._batch: list[RunFact | tuple[RunFact, str]] = []

    def run(self) -> None:
        """Execute everything that is left. Raises `RunFault` if a node failed after all retries."""
        try:
            for ended in self._carried_out():
                self._note(ended)
        except (errors.TallyError, OSError):
            raise
        except BaseException:  # Ctrl-C: record it, and leave the run where it is
            self._close("interrupted")
            raise
        self._close("failed" if self._failed else "finished")
        if self._failed:
            node, reason = next(iter(self._failed.items()))
            raise errors.RunFault(run=self._journal.run, nodes=", ".join(self._failed), reason=f"{node}: {reason}")

    def _carried_out(self) -> Iterator[AttemptResult]:
        if self._parallel > 1:
            yield from self._side_by_side()
            return
        while begun := self._begin(room=1):
            self._flush()
            yield self._attempt(begun[0])

    def _side_by_side(self) -> Iterator[AttemptResult]:
        running: dict[Future[AttemptResult], StartedAttempt] = {}
        with ThreadPoolExecutor(self._parallel, thread_name_prefix="node") as pool:
            while True:
                begun = self._begin(room=self._parallel - len(running))
                self._flush()
                running |= {pool.submit(self._attempt, item): item for item in begun}
                if not running:
                    return
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in sorted(done, key=lambda future: self._graph.rank[running[future].node]):
                    del running[future]
                    yield future.result()

    # --- starting --------------------------------------------------------------------------------------------------

    def _begin(self, *, room: int) -> list[StartedAttempt]:
        """Take as many next nodes from the graph as there is room for. After a failure no more are started."""
        begun = self._retries[:room]
        del self._retries[:room]
        while self._ready and len(begun) < room and not self._failed:
            node = self._graph.order[heapq.heappop(self._ready)]
            begun.append(self._started(node, tries=1))
        return begun

    def _started(self, node: str, *, tries: int, delay_ms: int = 0, attempt: int | None = None) -> StartedAttempt:
        attempt = attempt or self._journal.reducer.items[node].attempts + 1
        begun = StartedAttempt(node, attempt, tries, secrets.token_hex(8), delay_ms)
        index = self._journal.state.artifacts_index
        inputs = {name: self._fresh.get(name) or index[name].sha256 for name in self._nodes[node].inputs}
        started = NodeStarted(node=node, attempt=attempt, session=self._session, inputs=inputs)
        self._batch.append((started, begun.span))
        self._sections.move(node, "running")
        return begun

    # --- carrying out, perhaps in a thread -------------------------------------------------------------------------

    def _attempt(self, begun: StartedAttempt) -> AttemptResult:
        node = self._nodes[begun.node]
        known = self._journal.reducer.issues
        work = Work(self._journal.run, node, begun.attempt, self._workspace, self._paths, known)
        try:
            if begun.delay_ms:
                self._sleep(begun.delay_ms / 1000)
            node.function(work)
            contents = {}
            for output in node.outputs:
                found = self._workspace.settle(output.place)
                if found is None:
                    raise errors.NodeFault(node=node.name, reason=f"it did not write its output {output.name!r}")
                contents[output.name] = found
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # sys.exit() too: a node cannot end the run
            return AttemptResult(begun, issues=work.issues, error=_said(problem))
        return AttemptResult(begun, contents, work.issues)

    # --- ending ----------------------------------------------------------------------------------------------------

    def _note(self, ended: AttemptResult) -> None:
        self._batch += [(issue, ended.begun.span) for issue in ended.issues]
        if ended.error is not None:
            self._remember(ended)
            self._failure(ended.begun, ended.error)
        else:
            self._finished(ended)

    def _remember(self, ended: AttemptResult) -> None:
        """Resolve the issues of failed attempts when one finishes."""
        opened = [fact.issue for fact in ended.issues if isinstance(fact, IssueOpened)]
        resolved = {fact.issue for fact in ended.issues if isinstance(fact, IssueResolved)}
        left = [issue for issue in opened if issue not in resolved]
        self._open_issues.setdefault(ended.begun.node, []).extend(left)

    def _finished(self, ended: AttemptResult) -> None:
        node, span = ended.begun.node, ended.begun.span
        for output in self._nodes[node].outputs:
            content = ended.contents[output.name]
            written = ArtifactWritten(
                artifact=output.name,
                path=output.place,
                sha256=content.sha256,
                bytes=content.bytes,
                node=node,
                writer_worker=self._worker,
                schema_id=output.schema_id,
            )
            self._fresh[output.name] = content.sha256
            self._batch.append((written, span))
        self._batch.append((NodeFinished(node=node, attempt=ended.begun.attempt), span))
        for issue in self._open_issues.pop(node, []):
            self._batch.append((IssueResolved(issue=issue, how="the node was executed again"), span))
        self._sections.move(node, "finished")
        for follower in self._graph.followers[node]:
            if follower in self._missing:
                self._missing[follower] -= 1
                if not self._missing[follower]:
                    heapq.heappush(self._ready, self._graph.rank[follower])

    def _failure(self, begun: StartedAttempt, error: str) -> None:
        node = self._nodes[begun.node]
        retry_ms = None
        if begun.tries <= node.retries and not self._failed:
            retry_ms = min(node.backoff_ms * 2 ** (begun.tries - 1), BACKOFF_MS_MAX)
        failed = NodeFailed(node=node.name, attempt=begun.attempt, error=error, retry_ms=retry_ms)
        self._batch.append((failed, begun.span))
        self._sections.move(node.name, "failed")
        if retry_ms is not None:
            again = self._started(node.name, tries=begun.tries + 1, delay_ms=retry_ms, attempt=begun.attempt + 1)
            self._retries.append(again)
            return
        self._failed[node.name] = error
        issue = f"{node.name}#{begun.attempt}.failed"
        opened = IssueOpened(issue=issue, code=NODE_FAILED, severity="blocker", message=error, node=node.name)
        self._batch.append((opened, begun.span))

    # --- recording -------------------------------------------------------------------------------------------------

    def _flush(self) -> None:
        self._batch += self._sections.changes()
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        try:
            self._journal.record(batch)
        except errors.SecretFound:  # an error message may quote something that must not be stored permanently
            self._record_withheld([_without_message(item) for item in batch])
        self._fresh.clear()
        self._journal.save_snapshot_if_due()

    def _record_withheld(self, batch: list[RunFact | tuple[RunFact, str]]) -> None:
        try:
            self._journal.record(batch)
        except errors.SecretFound:  # not in a message: a node gave an issue such a code
            self._journal.record([_without_code(item) for item in batch])

    def _close(self, status: str) -> None:
        """Record how the session ended, seal the run, and save a snapshot."""
        self._batch += self._sections.changes()
        ended = msgspec.convert({"session": self._session, "status": status}, SessionEnded)
        self._batch += [ended, msgspec.convert({"state": status}, RunStateChanged)]
        self._flush()
        self._journal.seal()
        self._journal.save_snapshot()


def _said(problem: BaseException) -> str:
    """The message of an exception as text that can be recorded; only its class if the message cannot be read."""
    try:
        text = f"{type(problem).__name__}: {problem}"
    except Exception:
        text = f"{type(problem).__name__}: (its message cannot be read)"
    return text[:ERROR_CHARACTERS_MAX].encode(errors="replace").decode().replace("\0", "�")


def _without_code(item: RunFact | tuple[RunFact, str]) -> RunFact | tuple[RunFact, str]:
    fact, span = item if isinstance(item, tuple) else (item, "")
    if isinstance(fact, IssueOpened) and fact.code != NODE_FAILED:
        fact = msgspec.structs.replace(fact, code=WITHHELD_CODE)
    return (fact, span) if span else fact


def _without_message(item: RunFact | tuple[RunFact, str]) -> RunFact | tuple[RunFact, str]:
    fact, span = item if isinstance(item, tuple) else (item, "")
    if isinstance(fact, NodeFailed):
        fact = msgspec.structs.replace(fact, error=WITHHELD)
    elif isinstance(fact, IssueOpened):
        fact = msgspec.structs.replace(fact, message=WITHHELD)
    elif isinstance(fact, IssueResolved):
        fact = msgspec.structs.replace(fact, how=WITHHELD)
    return (fact, span) if span else fact
