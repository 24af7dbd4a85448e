"""Runs: workflows whose every step is an event, so that they resume where they stopped, on any engine.

from tallystick import runs

flow = runs.Workflow("letters")
state = runs.start(store, flow, run="monday")
state = runs.resume(store, flow, "monday")
"""

from tallystick.runs.activity import ActivityQuery, run_ids, telemetry
from tallystick.runs.diff import diff
from tallystick.runs.fork import fork
from tallystick.runs.graph import mermaid
from tallystick.runs.journal import load
from tallystick.runs.launch import Attestation, RunnerInfo, resume, start
from tallystick.runs.picture import svg
from tallystick.runs.recovery import replay
from tallystick.runs.reducer import STATE
from tallystick.runs.state import RunState
from tallystick.runs.table_filling import fill_tables
from tallystick.runs.work import Work
from tallystick.runs.workflow import Artifact, Workflow

__all__ = [
    "STATE",
    "ActivityQuery",
    "Artifact",
    "Attestation",
    "RunState",
    "RunnerInfo",
    "Work",
    "Workflow",
    "diff",
    "fill_tables",
    "fork",
    "load",
    "mermaid",
    "replay",
    "resume",
    "run_ids",
    "start",
    "svg",
    "telemetry",
]
