"""The size from which Spark is faster than one process, computed from measured costs."""

from __future__ import annotations

from typing import Any

import pytest

from tallystick import errors
from tallystick.cli import rebuild_location
from tallystick.event.catalog import Catalog
from tallystick.projections import Summary, crossover
from tallystick.projections.summary import count

from .conftest import ENGINES


class Counted(Summary):
    """A summary."""

    types = ("noted",)
    events = count()


def test_more_cores_meet_earlier_and_too_few_never() -> None:
    """PIPE-04: at the crossover both take the same time; with too few cores there is no crossover."""
    assert crossover.crossover_events(1) == crossover.NEVER
    found = [crossover.crossover_events(cores) for cores in (4, 8, 16)]
    assert found == sorted(found, reverse=True)
    alone = found[1] * crossover.PYTHON.process_us
    assert alone == pytest.approx(crossover.START_S * 1e6 + found[1] * crossover.PYTHON.spark_us / 8)


def test_where_spark_never_wins_one_process_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-04: one process is chosen for any size, and the reason has no meaningless number."""
    monkeypatch.setattr(crossover, "CROSSOVER_EVENTS", crossover.NEVER)
    chosen = rebuild_location.choose("auto", object(), events=10**12, archive=None)
    assert chosen == rebuild_location.LocationChoice(
        rebuild_location.PROCESS, "with this number of cores Spark is never faster"
    )


@pytest.mark.parametrize("engine", ENGINES)
def test_a_server_computes_summaries(engine: str, open_store: Any) -> None:
    """PIPE-04: a PostgreSQL server computes them at lower cost; SQLite, which runs in this process, does not."""
    chosen = rebuild_location.choose("auto", Counted(), events=1, archive=None, store=open_store(engine))
    assert chosen.on == (rebuild_location.SQL if engine == "postgres" else rebuild_location.PROCESS)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_upcaster_leaves_it_to_python(engine: str, open_store: Any) -> None:
    """PIPE-04: on every engine, and the output says so, also if Spark is chosen or requested."""
    catalog = Catalog()
    catalog.upcaster("noted", from_version=1)(lambda data: data)
    store = open_store(engine, catalog=catalog)
    for place, events, archive in (("auto", 1, None), ("auto", 1, "archive"), ("spark", 1, None)):
        chosen = rebuild_location.choose(place, Counted(), events=events, archive=archive, store=store)
        assert chosen.on != rebuild_location.SQL
        assert "Python folds this summary: its types have upcasters" in chosen.why


@pytest.mark.parametrize("place", ["process", "sql"])
def test_only_spark_reads_an_archive(place: str) -> None:
    """PIPE-04: another place is refused: it would leave out the history in the archive."""
    with pytest.raises(errors.InvalidValue, match="only Spark"):
        rebuild_location.choose(place, Counted(), events=1, archive="archive")
