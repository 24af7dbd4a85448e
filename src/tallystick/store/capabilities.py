"""What an engine may lack, by name. Everything not listed here, every engine has."""

from __future__ import annotations

DURABLE = "durable"
GLOBAL_ORDER = "global_order"
MULTI_STREAM = "multi_stream"
ANY_STREAM = "any_stream"

ALL = frozenset({DURABLE, GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM})

OPT_OUTS: dict[str, frozenset[str]] = {
    "memory": frozenset({DURABLE}),
    "ndjson": frozenset({GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM}),
}
"""The only opt-outs there are. A test fails on an engine that lacks anything else."""
