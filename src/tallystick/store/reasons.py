"""Why verification calls something wrong: every reason with its code, its sentence, and what to do about it.

The code is `Problem.what`. Programs match on it; the sentence and the advice are for people. What checks an event says
it with a `Reason`, so that reading, `tally verify`, the service and Spark use the same words. Engines, archives and
tables describe their own structures in their own sentences, under a code that has an advice here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tallystick.event.model import Event
from tallystick.store.events import Problem

MOVE = "move"
LOSS = "loss"
TAG_FILE = "tag_file"
NO_DAMAGE = frozenset({MOVE, TAG_FILE})
"""Codes of what is not put on record: a move has only to be continued, and files of tags are made again."""

_RESTORE = (
    "Refill it from a copy: `tally doctor --repair --refill-from COPY` (files, SQLite). On PostgreSQL restore a backup."
)
_REBUILD = "Rebuild the rows: `tally rebuild URL MODULE:NAME`."
_ARCHIVE = "Put the file back from a copy, or write a new archive into an empty directory."
_TABLE = "Write the table again at an empty place: `tally pipeline lake`."
_FACTS = "Somebody changed the store by other means. Compare it with a copy, and restore what differs."
_SERVER = "Undo the change on the server, or run `tally migrate`."
_SESSION = "End that session on the server if it does not end by itself."

ADVICE = {
    # events
    "checksum": _RESTORE,
    "link": _RESTORE,
    "sequence": _RESTORE,
    "order": _RESTORE,
    "hole": _RESTORE,
    "damage": _RESTORE,
    "erasure": "Restore the payload from a copy, or erase it with `tally erase`, which records it.",
    "signature": "Get the event again from its author, or from a node that has it. Do not trust this one.",
    "nobody's": "Do not trust the signature: nothing says whose it is.",
    # control facts, and what the engine knows without them
    "fact": _FACTS,
    "cut": _FACTS,
    "head": _FACTS,
    "scope": _FACTS,
    "tags": _RESTORE,
    "fingerprint": "Compare the log with a copy. If the log is right, seal it again: `tallystick.state.seal`.",
    "snapshot": "Folds do not use it. Make a new one: `tally snapshot`.",
    LOSS: "Run `tally doctor --accept-loss` again: it records the missing control fact.",
    MOVE: "Run the import or the copy again. It continues where it stopped.",
    # structures of engines
    "segment": _RESTORE,
    "frame": _RESTORE,
    "line": _RESTORE,
    "database": _RESTORE,
    "opening": _RESTORE,
    "mark": _RESTORE,
    "structure": _RESTORE,
    "index": (
        "If its segment is sound, stop the writer and delete the file of the index: opening the store builds it again. "
        "If the segment is damaged, keep it: only the index knows what was there."
    ),
    TAG_FILE: "A writer that verifies the log has made the file again. If it was a reader, delete the file.",
    "id": _FACTS,
    "record": "Run `tally doctor --repair`: it verifies everything and writes the record again.",
    "writer": "Open the store again: recovery decides what is stored.",
    "schema": _SERVER,
    "server": _SERVER,
    "stuck appender": _SESSION,
    "foreign lock": _SESSION,
    # next to the log
    "rows": _REBUILD,
    "checkpoint": "Drop the consumer, or set its position: `tally consumers`.",
    "dead letters": "Record what is left: `tally deadletters --recount`.",
    "beside": "`tally doctor` shows what cannot be read. The log is not affected.",
    # archives and tables of Spark
    "archive": _ARCHIVE,
    "block": _ARCHIVE,
    "log": "Verify the log itself: `tally verify`.",
    "duplicate": "Two events have one id. Compare the log with a copy.",
    "file": _TABLE,
    "row": _TABLE,
    "table": _TABLE,
}
"""What to do about each code. A code that is not in here does not exist."""


class Reason(msgspec.Struct, frozen=True):
    """One reason: its code, and its sentence with places for values."""

    code: str
    sentence: str

    def at(self, event: Event, **values: Any) -> Problem:
        """The finding about an event."""
        return Problem(self.code, self.sentence.format(**values), event.position, event.stream, event.seq)

    def of(self, stream: str = "", seq: int = 0, /, *, position: int = 0, **values: Any) -> Problem:
        """The finding about a stream, or about the log, where no event was read."""
        return Problem(self.code, self.sentence.format(**values), position, stream, seq)


CHECKSUM = Reason("checksum", "the payload does not have its checksum")
LINK = Reason("link", "the link does not follow from the event and the link before it")
SEQUENCE = Reason("sequence", "seq {seq} follows {before}")
FIRST_SEQ = Reason("sequence", "seqs begin with 1")
ORDER = Reason("order", "its position does not rise along its stream")

ERASURE_NOT_NOTED = Reason("erasure", "the payload is gone, and no erasure is noted")
ERASURE_NOT_CLAIMED = Reason("erasure", "the payload is gone, and no control fact says that it was erased")
ERASURE_NOT_DONE = Reason("erasure", "a control fact says that it was erased, and the payload is still there")
ERASURE_OF_ANOTHER = Reason("erasure", "a control fact says that it was erased, and names another checksum")
ERASURE_OF_NOTHING = Reason("erasure", "a control fact says that it was erased, and there is no event")

SEAL_OVER_ANOTHER = Reason("fingerprint", "a fingerprint was sealed here over another link")
SEAL_OVER_NOTHING = Reason("fingerprint", "a fingerprint was sealed here, and the log ends at {end}")

FACT_MALFORMED = Reason("fact", "the fact does not have its form: {problem}")
FACT_MISPLACED = Reason("fact", "a fact about {subject} does not belong in this stream")
FACT_OF_EARLIER_CUT = Reason("fact", "it prunes up to seq {through}, after {before} was pruned")
FACT_OF_SECOND_ERASURE = Reason("fact", "seq {seq} was erased before")
FACT_OF_WRONG_SEAL = Reason("fact", "the fingerprint does not follow from its link and state hash")
FACT_UNKNOWN = Reason("fact", "the log itself does not have this control fact")
FACT_OF_WRONG_SNAPSHOTS = Reason("fact", "the snapshots that it lists are not those that existed then")

CUT_NOT_CLAIMED = Reason("cut", "the store says that it is pruned up to seq {through}, and no control fact does")
CUT_CLAIMED_OTHERWISE = Reason(
    "cut", "the store says pruned up to seq {through}, the control fact {claimed}, or another link"
)
CUT_NOT_DONE = Reason("cut", "a control fact says that it was pruned, and the store does not know of it")

SNAPSHOT_UNSOUND = Reason("snapshot", "the body of snapshot {id} {problem}")
SNAPSHOT_NOT_CLAIMED = Reason("snapshot", "no control fact names the snapshot {id}")

HEAD_ELSEWHERE = Reason("head", "the log ends at seq {end}, the store says {listed}")
HEAD_MISSING = Reason("head", "the stream reached this seq, and the event is missing")
HEAD_OF_ANOTHER = Reason("head", "the stream has another event here")
HEAD_NOT_LISTED = Reason("head", "the log has the stream, and the store does not list it")

LOSS_NOT_ACCEPTED = Reason(LOSS, "positions {first} to {last} are lost, and no control fact accepts that")
MOVE_UNFINISHED = Reason(MOVE, "a move into this store is unfinished, and {missing}: run it again")


def advice_for(problems: Iterable[Problem]) -> dict[str, str]:
    """What to do, by code, in the order in which the codes first appear."""
    return {problem.what: ADVICE[problem.what] for problem in problems if problem.what in ADVICE}
