"""Commands: a handler decides, and its decision takes effect once, however often the request arrives."""

from tallystick.commands.labels import backfill, correction
from tallystick.commands.model import Answer, Context, Decision
from tallystick.commands.retention import forget_old
from tallystick.commands.runner import Commands
from tallystick.store.idempotency import CommandKey

__all__ = ["Answer", "CommandKey", "Commands", "Context", "Decision", "backfill", "correction", "forget_old"]
