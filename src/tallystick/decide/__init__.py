"""Deciders: a state that is folded from typed events, and decisions on it that take effect once, or not at all."""

from tallystick.decide.model import Decider, FunctionDecider
from tallystick.decide.runner import Boundary, Decided, Decisions, Loaded

__all__ = ["Boundary", "Decided", "Decider", "Decisions", "FunctionDecider", "Loaded"]
