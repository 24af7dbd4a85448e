"""What an engine may lack, by name. Everything not listed here, every engine has.

A log lists in `capabilities` what it offers. It refuses a request for anything else with `UnsupportedCapability`, which
names the missing capability.
"""

from __future__ import annotations

DURABLE = "durable"  # a store that was closed can be opened again
GLOBAL_ORDER = "global_order"  # positions order the events of all streams
MULTI_STREAM = "multi_stream"  # one commit can append to several streams
ANY_STREAM = "any_stream"  # a stream can have any well-formed name
MAINTENANCE = "maintenance"  # pruning, erasing, and snapshots inside the store
COMMANDS = "commands"  # records of commands, written in the commit of their events
TRANSFER = "transfer"  # taking over part of another log at its positions
CONDITIONS = "conditions"  # an append can depend on a query of types and tags
RUN_TABLES = "run_tables"  # SQL tables of runs

ALL = frozenset(
    {DURABLE, GLOBAL_ORDER, MULTI_STREAM, ANY_STREAM, MAINTENANCE, COMMANDS, TRANSFER, CONDITIONS, RUN_TABLES}
)
