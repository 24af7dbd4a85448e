"""Chapter: every event is compared with what was sent, and every hash with what it covers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

import tallystick
from examples.demo import traffic
from examples.demo.stage import Chapter, Stage, disk_bytes, tally_command
from tallystick.event import canonical, chain, names
from tallystick.event.model import Event
from tallystick.store import verify

PROBLEMS_SHOWN = 5


class Count(msgspec.Struct):
    """What the log holds, compared with what was sent: `found` has a 1 for each event that is stored as it was sent."""

    found: bytearray
    invented: int = 0
    control: int = 0
    payload_bytes: int = 0


def play(stage: Stage) -> bool:
    """Compare, verify, and show the totals."""
    options = stage.options
    with tallystick.open(stage.url, readonly=True) as store, stage.progress() as progress:
        total = store.head()
        bar = progress.add_task("compare with what was sent", total=total)
        count = compare(
            _counted(store.events(over_holes=True), lambda done: progress.update(bar, completed=done)), stage
        )
        bar = progress.add_task("verify every hash and link", total=total)
        verified = verify.verify(store.log, progress=lambda done: progress.update(bar, completed=done))
    lost = sum(acknowledged and not there for acknowledged, there in zip(stage.acknowledged, count.found, strict=True))
    stage.table(_totals(stage, count, lost) + _facts(stage, count, verified))
    for problem in verified.problems[:PROBLEMS_SHOWN]:
        stage.say(f"{problem.what} at position {problem.position}: {problem.reason}", style="red")
    for action, purpose in (
        ("tail", "the newest events"),
        ("streams", "what streams there are"),
        ("verify", "the same check from the command line"),
        ("doctor", "what recovery did, and the state of the store"),
    ):
        stage.suggest(f"{tally_command()} {action} {stage.url}", purpose)
    return lost == 0 and count.invented == 0 and verified.ok and sum(stage.acknowledged) == options.events


def compare(events: Iterable[Event], stage: Stage) -> Count:
    """Count the events that are stored as they were sent, and those that nobody sent."""
    count = Count(bytearray(stage.options.events))
    sent = _sent(stage)
    number, digest = next(sent)
    for event in events:
        if names.is_reserved(event.stream.partition("/")[0]):
            count.control += 1
            continue
        carried = traffic.event_number(event.id)
        while carried is not None and number < carried < stage.options.events:
            number, digest = next(sent)
        if carried != number or event.checksum != digest or count.found[number]:
            count.invented += 1
            continue
        count.found[number] = 1
        count.payload_bytes += len(event.payload or b"") + len(event.meta)
    return count


def _sent(stage: Stage) -> Iterator[tuple[int, bytes]]:
    """The number and the payload's checksum of every event that the writers sent, in order."""
    for commit in traffic.commits(stage.options.events, seed=stage.options.seed):
        payloads = canonical.encode_many([event.payload for event in commit.events])
        yield from enumerate(chain.checksums(payloads), commit.first)


def _totals(stage: Stage, count: Count, lost: int) -> list[tuple[str, str, str]]:
    return [
        ("acknowledged", f"{sum(stage.acknowledged):,}", "by both writers"),
        ("found", f"{sum(count.found):,}", "byte for byte as they were sent"),
        ("lost", _verdict(lost), "acknowledged, but missing"),
        ("invented", _verdict(count.invented), "stored, but never sent like this"),
        ("", "", ""),
    ]


def _facts(stage: Stage, count: Count, verified: verify.Verification) -> list[tuple[str, str, str]]:
    on_disk = disk_bytes(stage.options.directory)
    events = max(sum(count.found), 1)
    rows = [(f"rate, {name}", f"{rate:,.0f}/s", "durable, mixed commits") for name, rate in stage.rates.items()]
    return [
        *rows,
        ("streams", f"{verified.streams:,}", ""),
        ("hashes and links", "[green]all good[/]" if verified.ok else f"[red]{len(verified.problems)} bad[/]", ""),
        (
            "disk",
            f"{on_disk / events:,.0f} B/event",
            f"{on_disk / 1e6:,.0f} MB; payload and meta {_mean(count, events)}",
        ),
    ]


def _mean(count: Count, events: int) -> str:
    return f"{count.payload_bytes / events:,.0f} B/event"


def _verdict(number: int) -> str:
    return f"[bold green]{number}[/]" if number == 0 else f"[bold red]{number:,}[/]"


def _counted(events: Iterable[Event], progress: Callable[[int], None]) -> Iterator[Event]:
    done = 0
    for done, event in enumerate(events, 1):
        if done % 1000 == 0:
            progress(done)
        yield event
    progress(done)


CHAPTER = Chapter("Nothing is lost, nothing is invented", play)
