"""Projections: read models folded from the log, run inline, live or as a rebuild; and consumers of events."""

from tallystick.projections.consumer import Consumer
from tallystick.projections.deadletters import drop_letter, recount_letters, replay_letter
from tallystick.projections.fingerprint import Fingerprint
from tallystick.projections.gauges import Gauge, gauges
from tallystick.projections.inline import InlineProjections, run_inline
from tallystick.projections.lag import Lag
from tallystick.projections.late import LateView
from tallystick.projections.live import Live
from tallystick.projections.model import Projection
from tallystick.projections.rebuild import rebuild
from tallystick.projections.reference import load
from tallystick.projections.retire import drop_consumer, drop_projection, reset_consumer
from tallystick.projections.summary.model import Summary
from tallystick.projections.tables import TableProjection, TableRunner
from tallystick.projections.view_reader import ViewReader

__all__ = [
    "Consumer",
    "Fingerprint",
    "Gauge",
    "InlineProjections",
    "Lag",
    "LateView",
    "Live",
    "Projection",
    "Summary",
    "TableProjection",
    "TableRunner",
    "ViewReader",
    "drop_consumer",
    "drop_letter",
    "drop_projection",
    "gauges",
    "load",
    "rebuild",
    "recount_letters",
    "replay_letter",
    "reset_consumer",
    "run_inline",
]
