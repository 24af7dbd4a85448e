"""`tally audit`: what was done to the store itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import options, output

if TYPE_CHECKING:
    from tallystick import Event


@click.command("audit", short_help="Show what was done to the store.")
@options.url
@options.after
@click.option("--org", metavar="ORG", help="Only facts about this org.")
@click.option("--run", metavar="RUN", help="Only facts about this run.")
@click.option("--actor", metavar="ID", help="Only what this actor did.")
@options.time_range
@options.as_json
def command(
    url: str,
    after: int | None,
    org: str | None,
    run: str | None,
    actor: str | None,
    time_from: int | None,
    time_until: int | None,
    as_json: bool,
) -> None:
    """Show the control facts in order of position: settings, repairs, and whatever removed or sealed anything."""
    from tallystick.store import control
    from tallystick.store.selection import select

    chosen = select(org=org, time_from=time_from, time_until=time_until)
    with options.open_reading(url) as store:
        for event in control.audit(store.log, after=after or 0, selection=chosen):
            if (run is None or _concerns(event, run)) and (actor is None or _actor(event) == actor):
                output.events([event], as_json=as_json)


def _actor(event: Event) -> Any:
    return event.metadata.get("actor_id")


def _concerns(event: Event, run: str) -> bool:
    """Whether a control fact is about this run: it names its stream or its id, or is kept in a stream of that name."""
    fact = event.data or {}
    return (
        fact.get("stream") == f"run/{run}"
        or run in (fact.get("run"), fact.get("run_id"))
        or event.stream.partition("/")[2] in (run, f"run:{run}")
    )
