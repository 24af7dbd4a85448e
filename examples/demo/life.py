"""Chapter: a run is folded, sealed, snapshotted and pruned, and its fingerprint still matches."""

from __future__ import annotations

from typing import Any

import tallystick
from examples.demo.stage import Chapter, Stage, tally_command
from tallystick import Store, state
from tallystick.event.model import Event
from tallystick.state import Reducer, Until, as_reducer
from tallystick.store import verify

KIND = "agent/"

STREAMS = 1000  # asked for at a time


class AgentRun:
    """What an agent did: calls by tool, failures, and whether it is done."""

    name = "demo.agent"
    version = 1
    kinds = ("agent",)
    step_types = ("tool.returned", "agent.finished")

    def initial(self) -> dict[str, Any]:
        """Nothing yet."""
        return {"calls": {}, "failed": 0, "thoughts": 0, "finished": False}

    def apply(self, run: dict[str, Any], event: Event) -> dict[str, Any]:
        """Add one event."""
        data = event.data or {}
        if event.type == "tool.called":
            calls = run["calls"] | {data["tool"]: run["calls"].get(data["tool"], 0) + 1}
            return run | {"calls": calls}
        if event.type == "tool.returned":
            return run | {"failed": run["failed"] + (not data["ok"])}
        if event.type == "agent.thought":
            return run | {"thoughts": run["thoughts"] + 1}
        return run | {"finished": run["finished"] or event.type == "agent.finished"}


def play(stage: Stage) -> bool:
    """Fold, seal, snapshot, prune, compare."""
    reducer = as_reducer(AgentRun)
    with tallystick.open(stage.url) as store:
        stream = _longest(store)
        before = state.fold(store, reducer, stream)
        sealed = state.seal(store, reducer, stream)
        cut = _step_end(store, reducer, stream, before.seq * 2 // 3)
        state.make(store, reducer, stream, until=Until(seq=cut))
        pruned = state.prune(store, stream, before=cut + 1, reducers=[reducer], accept=True)
        after = state.fold(store, reducer, stream)
        compared = state.compare(store, reducer, stream)
        verified = verify.verify(store.log)
    same = after.body == before.body
    matches = compared.equal and compared.resumed == bytes.fromhex(sealed.fingerprint)
    calls = sum(before.value["calls"].values())
    stage.table(
        [
            (
                "folded",
                f"{before.events:,}",
                f"events of {stream}: {calls} tool calls, {before.value['failed']} failed",
            ),
            ("pruned", f"{pruned:,}", f"events, covered by a snapshot at seq {cut}"),
            ("folded again", f"{after.events:,}", "events, from the snapshot on"),
            ("state", _yes(same, "the same"), "byte for byte in canonical JSON"),
            ("fingerprint", _yes(matches, "matches"), f"{sealed.fingerprint[:16]}… over history and state"),
            (
                "hashes and links",
                _yes(verified.ok, "all good"),
                f"{verified.pruned} events pruned, and it is on record",
            ),
        ]
    )
    command = f"{tally_command()} audit {stage.url}"
    stage.suggest(command, "what was done to the store: sealed, snapshotted, pruned")
    return same and matches and verified.ok


def _longest(store: Store) -> str:
    """The agent's run with the most events."""
    after, best, seq = KIND, "", 0
    while page := store.streams(after=after, limit=STREAMS):
        for info in page:
            if info.stream.startswith(KIND) and info.seq > seq:
                best, seq = info.stream, info.seq
        after = page[-1].stream
    return best


def _step_end(store: Store, reducer: Reducer, stream: str, last: int) -> int:
    """The last seq at or before this one that ends a step."""
    ends = [event.seq for event in store.read_stream(stream, until=last) if reducer.ends_step(event)]
    return ends[-1]


def _yes(good: bool, text: str) -> str:
    return f"[bold green]{text}[/]" if good else "[bold red]no[/]"


CHAPTER = Chapter("History goes, and the proof stays", play)
