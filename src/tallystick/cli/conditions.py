"""Queries of types and tags on the command line: the condition of `tally append`, and `tally consult`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import options, output
from tallystick.event.line import line

if TYPE_CHECKING:
    from tallystick import Marker, Query


class _Item(click.ParamType[Any]):
    """One alternative of a query: types and tags as words, or a JSON object."""

    name = "item"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The query that the text stands for."""
        from tallystick import Query, errors

        if isinstance(value, Query):
            return value
        try:
            return _query(str(value))
        except errors.InvalidInput as problem:
            self.fail(problem.message + ".", param, ctx)


def _query(text: str) -> Query:
    from tallystick.event import canonical
    from tallystick.store import query

    if text.lstrip().startswith("{"):
        return query.from_wire([canonical.parse(text, what="item")])
    words = text.split()
    if not words:
        raise click.BadParameter("an item has types and tags; {} is every event.")
    return query.match([word for word in words if ":" not in word], [word for word in words if ":" in word])


ITEM = _Item()
ITEM_HELP = (
    "ITEM is words: those with a colon are tags, the others are types. An event matches if it has one of the types and "
    'all of the tags. Other tags need JSON: {"types": [...], "tags": [...]}.'
)

condition = options.all_of(
    (
        click.option(
            "--unless",
            "items",
            type=ITEM,
            multiple=True,
            metavar="ITEM",
            help="Append only if no event matches, as in --unless 'student.subscribed course:c1'. May be repeated: no "
            "event may match any of them.",
        ),
        click.option(
            "--unless-after",
            metavar="CURSOR|POSITION",
            help="Events up to there do not count: a cursor that `tally consult` printed, or a position that was read.",
        ),
        click.option(
            "--unless-beyond",
            type=click.IntRange(0),
            metavar="N",
            help="How many matching events after --unless-after were seen. `tally consult` prints it.",
        ),
    )
)
"""The options of a condition. `marker` makes one of them."""


def marker(items: tuple[Query, ...], after: str | None, beyond: int | None) -> Marker | None:
    """The condition of an append, or None without `--unless`."""
    from tallystick import Marker

    if not items:
        if after is not None or beyond is not None:
            raise click.UsageError("--unless-after and --unless-beyond need --unless.")
        return None
    return Marker(_whole(items), "0" if after is None else after, beyond or 0)


def _whole(items: tuple[Query, ...]) -> Query:
    from tallystick import Query, errors

    try:
        return Query(tuple(dict.fromkeys(item for query in items for item in query.items)))
    except errors.InvalidInput as problem:
        raise click.UsageError(problem.message + ".") from None


@click.command("consult", short_help="Print the events that a decision depends on.")
@options.url
@click.argument("items", metavar="ITEM...", type=ITEM, nargs=-1, required=True)
@click.option("--after", default="0", metavar="CURSOR|POSITION", help="Only events after this.")
@click.option("--org", metavar="ORG", help="Only events whose meta names this org.")
@click.option("--over-pruned", is_flag=True, help="Accept that matching events were pruned.")
@options.as_json
def consult(url: str, items: tuple[Query, ...], after: str, org: str | None, over_pruned: bool, as_json: bool) -> None:
    """Print every event that matches one of the ITEMs, and where a condition of `tally append` starts.

    ITEM is words: those with a colon are tags, the others are types. An event matches if it has one of the types and
    all of the tags. Other tags need JSON: {"types": ["t"], "tags": ["vip"]}. {} is every event.

    For example, take a seat only if nobody took one since:

    \b
    tally consult files:school 'student.subscribed course:c1'
    tally append files:school subscription/c1 student.subscribed --tag course:c1 --tag student:s7 \\
        --unless 'student.subscribed course:c1' --unless-after CURSOR
    """
    import msgspec

    from tallystick.store import query

    wanted = _whole(items)
    with options.open_reading(url) as store:
        found = store.consult(wanted, after=store.after(after), org=org, over_pruned=over_pruned)
    place = found.marker.after, found.marker.beyond
    if not as_json:
        output.events(found.events, as_json=False)
        output.note(f"the marker: --unless-after {place[0]} --unless-beyond {place[1]}")
        return
    made = msgspec.json.encode({"items": query.to_wire(wanted), "after": place[0], "beyond": place[1]}).decode()
    click.echo(f'{{"events":[{",".join(map(line, found.events))}],"marker":{made}}}')
