"""`tally project`: keep the rows of a projection current."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tallystick.cli import modules, options, output, progress

if TYPE_CHECKING:
    from tallystick import Store


@click.command("project", short_help="Bring a projection up to date, and keep it so.")
@options.url
@click.argument("reference", metavar="MODULE:NAME")
@click.option("-f", "--follow", is_flag=True, help="Go on as events are appended, until Ctrl-C.")
@modules.catalog
@options.as_json
def command(url: str, reference: str, follow: bool, catalog: str | None, as_json: bool) -> None:
    """Apply every event that the rows of a projection have not seen, from their checkpoint on.

    MODULE:NAME is a Projection that can be imported from here. It may run beside writers and other runners. Rows that
    another version of the projection made are refused: `tally rebuild` replaces them.
    """
    projection = modules.projection(reference)
    with open_beside_writer(url, catalog=catalog) as store:
        run = runner(store, projection)
        head = store.head()
        with progress.bar(projection.name, total=head) as move:
            reached = run.catch_up(progress=move)
        show({"projection": projection.name, "position": reached, "head": head}, as_json=as_json)
        if follow:
            _follow(run, projection.name, as_json=as_json)


def _follow(run: Any, name: str, *, as_json: bool) -> None:
    shown: list[int] = []

    def report(position: int) -> None:
        if not shown or position > shown[-1]:
            shown[:] = [position]
            show({"projection": name, "position": position, "head": run.store.head()}, as_json=as_json)

    try:
        run.follow(stopped=lambda: False, progress=report)
    except KeyboardInterrupt:
        return


def open_beside_writer(url: str, *, catalog: str | None = None) -> Store:
    """The store, for writing if nobody else is; else for reading, where rows and cursors can be kept all the same."""
    import tallystick
    from tallystick import errors

    known = modules.loaded_catalog(catalog)
    try:
        return tallystick.open(url, create=False, catalog=known)
    except errors.StoreLocked:
        return tallystick.open(url, readonly=True, create=False, catalog=known)


def runner(store: Store, projection: Any) -> Any:
    """What runs this kind of projection."""
    from tallystick.projections import Live, TableProjection, TableRunner

    kind = TableRunner if isinstance(projection, TableProjection) else Live
    return kind(store, projection)


def show(found: dict[str, Any], *, as_json: bool) -> None:
    """One line on where a projection is."""
    if as_json:
        output.document(found)
    else:
        click.echo(f"{found['projection']} is at position {found['position']} of {found['head']}")
