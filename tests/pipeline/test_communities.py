"""Views of communities on Spark."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import tallystick
from tallystick.community import EventLog, build_snapshot, declare_floor
from tallystick.community.messages import Delivery
from tallystick.community.views.projections import Chat
from tallystick.event import canonical
from tallystick.pipeline.jobs.rebuild import rebuild
from tallystick.projections import Live, ViewReader
from tallystick.testing.community.people import Author, engine_over, keys

EVENTS = 40


def test_spark_rebuilds_a_view(spark: SparkSession, tmp_path: Path) -> None:
    """PIPE-04, COM-07: with a floor, a cut and lamports out of order Spark gives the rows of the replay engine, and the
    live runner continues from them."""
    founder, url = keys(1), f"sqlite:{tmp_path / 'log.db'}"
    one, other = (Author(keys(number), founder.node) for number in (2, 3))
    with tallystick.open(url, profile="community") as store:
        log = EventLog(store, founder.node, node=founder.node)
        log.append_local("community.created", {"name": "test"}, founder)
        for author in (one, other):
            log.append_local("community.member.invited", {"node": author.node}, founder)
            author.lamport = log.head()
            _give(log, author, "community.member.joined", {"invite": author.node})
        for number in range(EVENTS):
            author = (one, other)[number % 3 == 0]
            _give(log, author, "chat.message.sent", {"text": str(number)})
            _give(log, author, "market.post.created", {"post": str(number % 4), "price": number})
            if number == EVENTS // 2:
                made = build_snapshot(log, engine_over(log), founder, log.head())
                declare_floor(log, made, founder)
        log.append_local("community.member.revoked", {"node": other.node, "seq": 15}, founder)
        rebuild(spark, store, Chat())
        assert dict(ViewReader(store, Chat.name).items()) == _wanted(log)
        _give(log, one, "chat.message.sent", {"text": "the last"})
        Live(store, Chat()).catch_up()
        assert dict(ViewReader(store, Chat.name).items()) == _wanted(log)


def _give(log: EventLog, author: Author, type_: str, data: dict[str, object]) -> None:
    log.receive(Delivery(community_id=log.community, events=[author.write(type_, data)]), peer="p")


def _wanted(log: EventLog) -> dict[str, object]:
    state = canonical.decode(canonical.encode_state(engine_over(log).states()[Chat.view_name]))
    return {log.replica.streams.kind: state}
