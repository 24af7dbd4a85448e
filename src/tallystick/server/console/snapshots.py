"""The snapshots page: the snapshots, what a policy would prune and what it keeps, and what was pruned."""

from __future__ import annotations

from itertools import islice
from typing import Any

import msgspec
from starlette.responses import Response

from tallystick import errors
from tallystick.server.console import render, route
from tallystick.server.console.sign_in import read_form
from tallystick.server.http.route import HttpRequest
from tallystick.server.jobs import Job
from tallystick.server.service import Service
from tallystick.state import shelf
from tallystick.state.policy import DAY, PRESETS, Policy, policy
from tallystick.state.retention import retain
from tallystick.state.shelf import SnapshotEntry
from tallystick.store import facts, iterate
from tallystick.store.store import Store

STREAMS_PAGE = 40
SNAPSHOTS_EACH = 3
CUTS_SHOWN = 50
DEEDS_SHOWN = 200
TRIAL = "retention trial"
PRESET_NAMES = (("", "the policy of this service"), *((name, f"preset {name}") for name in PRESETS))

pages = route.pages()
data = route.data()


@pages.get("/snapshots")
def show_snapshots(request: HttpRequest, after: str = "", trial: str = "") -> Response:
    """Snapshots by stream, the last dry run of a policy, and the cuts."""
    service = request.service
    names, following = _streams_with_facts(service.store, after)
    entries = [] if after else _entries(service.store, "")
    for name in names:
        entries += _entries(service.store, name)
    return render.page(
        request,
        "snapshots.html",
        here="/snapshots",
        title="Snapshots and retention",
        snapshots=[_row(service.store, entry) for entry in entries],
        after=after,
        following=following,
        looked=len(names),
        presets=PRESET_NAMES,
        cuts=service.store.log.cuts(limit=CUTS_SHOWN),
        **_trial(service, trial),
    )


def _streams_with_facts(store: Store, after: str) -> tuple[list[str], str]:
    """A page of the streams that have facts, and the cursor after it."""
    found = store.streams(after=after or f"{facts.KIND}/", limit=STREAMS_PAGE + 1)
    mine = [info for info in found if info.stream.startswith(f"{facts.KIND}/")]
    names = [name for info in mine[:STREAMS_PAGE] if (name := _subject(store, info.stream, info.seq))]
    return names, mine[STREAMS_PAGE - 1].stream if len(mine) > STREAMS_PAGE else ""


def _subject(store: Store, about: str, seq: int) -> str:
    """The stream that the newest fact of a stream of facts is about."""
    try:
        found = iterate.at(store.log, about, seq)
    except errors.Damaged:
        return ""
    name = (found.data or {}).get("stream", "") if found else ""
    return name if isinstance(name, str) and facts.stream_about(name) == about else ""


def _entries(store: Store, stream: str) -> list[SnapshotEntry]:
    return list(islice(shelf.entries(store, stream), SNAPSHOTS_EACH))


def _row(store: Store, entry: SnapshotEntry) -> dict[str, Any]:
    why = shelf.why_unusable(store, entry)
    fact = entry.fact
    return {
        "stream": fact.stream,
        "reducer": fact.reducer,
        "version": fact.reducer_version,
        "at": fact.seq or fact.position,
        "kind": fact.kind,
        "bytes": fact.body_bytes,
        "made": entry.made,
        "tone": "bad" if why else "ok",
        "says": why or ("protected" if entry.protected else "good"),
    }


# --- the trial -------------------------------------------------------------------------------------------------------


def _trial(service: Service, id_: str) -> dict[str, Any]:
    """The result of the dry run with this id, if there is one."""
    job = next((job for job in service.operations.jobs.all() if (job.id, job.kind) == (id_, TRIAL)), None)
    blank = {"preset": "", "trial": None, "trial_more": False, "policy_says": "", "nothing_says": "", "job": ""}
    if job is None:
        return blank
    if job.state == "running":
        return blank | {"preset": job.subject, "job": job.id}
    chosen = _policy(service, job.subject)
    return blank | {
        "preset": job.subject,
        "trial": _deeds(job),
        "trial_more": len((job.result or {}).get("deeds", ())) > DEEDS_SHOWN,
        "policy_says": _policy_says(chosen),
        "nothing_says": _nothing_says(service, chosen),
    }


def _deeds(job: Job) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (job.result or {}).get("deeds", [])
    return found[:DEEDS_SHOWN]


def _policy(service: Service, preset: str) -> Policy:
    return policy(preset) if preset else service.operations.policy


def _policy_says(chosen: Policy) -> str:
    if chosen.prune_ns is None:
        return "This policy never deletes an event."
    return f"This policy prunes events that were recorded more than {chosen.prune_ns / DAY:g} days ago and are covered."


def _nothing_says(service: Service, chosen: Policy) -> str:
    if chosen.prune_ns is None:
        return "Everything is kept. Choose a preset with a retention window to see what it would do."
    if not service.own_reducers:
        return "No reducer is served, so no snapshot can cover events. Serve with --reducer to make snapshots."
    return "Nothing is older than the window of this policy."


@data.post("/retention/trial")
async def begin_trial(request: HttpRequest) -> Response:
    """Begin a dry run of a policy in the background. It changes nothing."""
    service = request.service
    preset = (await read_form(request)).get("preset", "")
    if preset and preset not in PRESETS:
        raise errors.InvalidValue(what="preset", value=preset[:40], must="one of " + ", ".join(PRESETS))
    chosen = _policy(service, preset)

    def work(move: Any) -> dict[str, Any]:
        archive = service.archive()
        deeds, _ = retain(service.store, service.own_reducers, chosen, dry_run=True, archive=archive, progress=move)
        return {"deeds": msgspec.to_builtins(deeds[: DEEDS_SHOWN + 1])}

    return render.data({"id": service.operations.jobs.begin(TRIAL, work, subject=preset).id})
