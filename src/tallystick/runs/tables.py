"""Runs as rows: the tables `runs`, `sessions`, `jobs`, `job_attempts` and `nodes` of engines that have them.

A job is a node of a workflow, a row of `nodes` is a worker with its hardware and attestation. The rows are a function
of the runs' events: filling the tables again gives the same rows.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import msgspec

from tallystick.event import canonical
from tallystick.runs.state import RunState, Worker, WorkItem
from tallystick.store.facts import Sealed
from tallystick.store.run_tables import RunRow as Row
from tallystick.store.run_tables import RunRows

JOB_STATES = {"pending": "queued"}  # a row says queued for a pending node; the other words are the same


def rows(states: Iterable[tuple[RunState, Sealed | None]]) -> RunRows:
    """The rows of these runs. Each run comes with the fact that sealed its current state, if there is one."""
    found = RunRows()
    workers: dict[str, Row] = {}
    for state, seal in states:
        found.runs.append(_run(state, seal))
        found.sessions += _sessions(state)
        for name, worker in state.workers.items():
            workers[name] = _merged(workers.get(name), _worker(name, worker, state))
        for item in [*state.work_items, *state.removed_items]:
            found.jobs.append(_job(state, item))
            found.job_attempts += _attempts(state, item)
    found.nodes = [workers[name] for name in sorted(workers)]
    return found


def _run(state: RunState, seal: Sealed | None) -> Row:
    if seal is not None and seal.seq != state.seq:  # the run continued
        seal = None
    return {
        "id": state.run_id,
        "tenant_id": state.org,
        "status": state.run_state,
        "created_at": state.created_at,
        "updated_at": state.updated_at,
        "fingerprint": bytes.fromhex(seal.fingerprint) if seal else None,
        "fingerprint_seq": seal.seq if seal else None,
        "fingerprint_reducer": seal.reducer if seal else None,
        "fingerprint_reducer_version": seal.reducer_version if seal else None,
        "fingerprint_upcasters": bytes.fromhex(seal.upcasters) if seal else None,
    }


def _sessions(state: RunState) -> list[Row]:
    return [
        {
            "id": session.session,
            "tenant_id": state.org,
            "run_id": state.run_id,
            "actor_id": session.actor,
            "status": session.status,
            "started_at": session.started_at,
            "ended_at": session.ended_at,
        }
        for session in state.sessions
    ]


def _worker(name: str, worker: Worker, state: RunState) -> Row:
    busy = any(session.worker == name and session.status == "open" for session in state.sessions)
    return {
        "id": name,
        "tenant_id": None,
        "name": name,
        "status": "busy" if busy else "idle",
        "registered_at": worker.registered_at,
        "seen_at": worker.seen_at,
        "hardware": worker.hardware,
        "attestation": bytes.fromhex(worker.attestation) if worker.attestation else None,
        "attestation_type": worker.attestation_type,
        "attested_at": worker.attested_at,
    }


def _merged(one: Row | None, other: Row) -> Row:
    """Merge two runs' rows of a worker: the later one wins, busy wins over idle, the oldest registration stays."""
    if one is None:
        return other
    late, early = (other, one) if _time(other, "seen_at") >= _time(one, "seen_at") else (one, other)
    attested = late if late["attested_at"] is not None else early
    busy = "busy" in (one["status"], other["status"])
    return late | {
        "status": "busy" if busy else "idle",
        "registered_at": min(_time(one, "registered_at"), _time(other, "registered_at")),
        **{key: attested[key] for key in ("attestation", "attestation_type", "attested_at")},
    }


def _time(row: Row, key: str) -> int:
    value = row[key]
    assert isinstance(value, int)
    return value


def _job(state: RunState, item: WorkItem) -> Row:
    declared = {key: getattr(item, key) for key in ("inputs", "outputs", "after", "params", "code", "section")}
    times = [item.declared_at, *(attempt.ended_at or attempt.started_at for attempt in item.history)]
    return {
        "id": f"{state.run_id}/{item.node}",
        "tenant_id": state.org,
        "run_id": state.run_id,
        "type": item.node,
        "status": JOB_STATES.get(item.state, item.state),
        "payload": canonical.encode_state(msgspec.to_builtins(declared)),
        "created_at": item.declared_at,
        "updated_at": max(times),
    }


def _attempts(state: RunState, item: WorkItem) -> list[Row]:
    workers = {session.session: session.worker for session in state.sessions}
    found: list[Row] = []
    for attempt in item.history:
        name = workers.get(attempt.session)
        if name is None:  # inherited: the parent has the row
            continue
        worker = state.workers.get(name)
        evidence = bytes.fromhex(worker.attestation) if worker is not None and worker.attestation else None
        found.append(
            {
                "job_id": f"{state.run_id}/{item.node}",
                "attempt": attempt.attempt,
                "node_id": name,
                "status": attempt.status,
                "error": attempt.error,
                "started_at": attempt.started_at,
                "ended_at": attempt.ended_at,
                "attestation_hash": hashlib.sha256(evidence).digest() if evidence else None,
            }
        )
    return found
