"""Tallystick: an append-only event log that is the truth, and everything derived from it provably so."""

from tallystick import errors
from tallystick.event.catalog import Catalog
from tallystick.event.model import Event, NewEvent
from tallystick.event.typed import Erased, TypedEvent
from tallystick.opening import accept_loss, open, refill
from tallystick.store.commit import Appended
from tallystick.store.expectation import ANY, NO_STREAM, Expected
from tallystick.store.ledger import Head
from tallystick.store.page import Page
from tallystick.store.selection import Selection, select
from tallystick.store.store import Store
from tallystick.store.typed_reader import TypedReader

__version__ = "0.1.0"

__all__ = [
    "ANY",
    "NO_STREAM",
    "Appended",
    "Catalog",
    "Erased",
    "Event",
    "Expected",
    "Head",
    "NewEvent",
    "Page",
    "Selection",
    "Store",
    "TypedEvent",
    "TypedReader",
    "accept_loss",
    "errors",
    "open",
    "refill",
    "select",
]
