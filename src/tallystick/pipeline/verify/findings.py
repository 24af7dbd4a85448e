"""The checks of verification, each a DataFrame of what is wrong: (what, reason, position, stream, seq).

The tasks of `piece_check` have read every event; these checks use the rows that they left, by Spark's own functions.
All comparisons are null-safe, so that a missing link or checksum is a finding, not a row that every condition skips.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.event import names
from tallystick.event.chain import DOMAIN
from tallystick.pipeline.verify.chain_check import BREAK, EDGE
from tallystick.store import facts, reasons
from tallystick.store.reasons import Reason

GENESIS = "0" * 64
FINDING = ("what", "reason", "position", "stream", "seq")
HEAD = "head"
_ABOUT = facts.KIND + "/"


def hex_of(name: str) -> Column:
    """A binary column as lower-case hex."""
    return F.lower(F.hex(F.col(name)))


def finding(rows: DataFrame, what: str | Column, reason: Column) -> DataFrame:
    """Rows as findings."""
    code = F.lit(what) if isinstance(what, str) else what
    return rows.select(code.alias("what"), reason.alias("reason"), "position", "stream", "seq")


def sentence(reason: Reason, **values: Column) -> Column:
    """The sentence of a reason with the values of each row, which are given in the order of their places."""
    if not values:
        return F.lit(reason.sentence)
    return F.format_string(reason.sentence.format(**dict.fromkeys(values, "%s")), *values.values())


# --- what control facts claim ----------------------------------------------------------------------------------------


def claims(events: DataFrame, type_: str, schema: str) -> DataFrame:
    """The control facts of one type: the fields of `schema`, and the fact's own position as `at`."""
    chosen = events.where((F.col("type") == type_) & F.col("stream").startswith(_ABOUT))
    fact = F.from_json("payload", schema)
    return chosen.select(F.col("position").alias("at"), fact.alias("fact")).select("at", "fact.*")


def pruned_claims(events: DataFrame) -> DataFrame:
    """(stream, through, cut_link, …): up to where a stream was pruned, and by which archive; one row per prune."""
    schema = "stream string, through bigint, link string, count bigint, accepted boolean, archive struct<root: string>"
    found = claims(events, facts.PRUNED, schema)
    return found.select("stream", "through", F.col("link").alias("cut_link"), "count", "accepted", "archive", "at")


def relied_on(events: DataFrame) -> DataFrame:
    """(archive, through): the archives in facts about prunes, each once."""
    chosen = events.where((F.col("type") == facts.PRUNED) & F.col("stream").startswith(_ABOUT))
    found = chosen.select(
        F.get_json_object("payload", "$.archive").alias("archive"),
        F.get_json_object("payload", "$.last_position").try_cast("bigint").alias("through"),
    )
    return found.where("archive is not null").groupBy("archive").agg(F.max("through").alias("through"))


def erased_claims(events: DataFrame) -> DataFrame:
    """(stream, seq, erased_checksum): which payloads were erased."""
    found = claims(events, facts.ERASED, "stream string, seq bigint, checksum string")
    return found.select("stream", "seq", F.col("checksum").alias("erased_checksum"), "at")


def sealed_claims(events: DataFrame) -> DataFrame:
    """(stream, seq, sealed_link, ...): over which links fingerprints were sealed."""
    schema = "stream string, seq bigint, link string, state_hash string, fingerprint string"
    found = claims(events, facts.SEALED, schema)
    return found.select("stream", "seq", F.col("link").alias("sealed_link"), "state_hash", "fingerprint", "at")


def places(*named: DataFrame) -> DataFrame:
    """(stream, seq) of all rows, each once."""
    return reduce(DataFrame.unionAll, [item.select("stream", "seq") for item in named]).distinct()


def located(events: DataFrame, wanted: DataFrame) -> DataFrame:
    """(stream, seq, position, found_link) of the events at these (stream, seq)."""
    links = events.select("stream", "seq", "position", hex_of("link").alias("found_link"))
    return links.join(wanted, ["stream", "seq"], "left_semi")


def unmatched_heads(stitched: DataFrame) -> DataFrame:
    """(stream, seq, link) of the heads that are not the last event of their stream."""
    return stitched.where(F.col("kind") == HEAD).select("stream", "seq", "link")


# --- payloads --------------------------------------------------------------------------------------------------------


def unexplained_payloads(suspects: DataFrame, erased: DataFrame) -> DataFrame:
    """Suspect payloads without their checksum, and missing payloads that no fact names."""
    claim = erased.groupBy("stream", "seq").agg(F.first("erased_checksum").alias("erased_checksum"))
    joined = suspects.join(claim, ["stream", "seq"], "left")
    is_claimed = F.col("erased_checksum").isNotNull()
    other = is_claimed & ~F.col("erased_checksum").eqNullSafe(hex_of("checksum"))
    what = F.when(F.col("gone"), F.lit("erasure")).otherwise(F.lit("checksum"))
    reason = (
        F.when(~F.col("gone"), sentence(reasons.CHECKSUM))
        .when(~is_claimed, sentence(reasons.ERASURE_NOT_CLAIMED))
        .when(other, sentence(reasons.ERASURE_OF_ANOTHER))
    )
    return finding(joined.where(reason.isNotNull()), what, reason)


def unkept_erasures(found: DataFrame, suspects: DataFrame, erased: DataFrame, pruned: DataFrame) -> DataFrame:
    """Erasure facts about events whose payload still exists, or that neither exist nor were pruned."""
    gone = suspects.where("gone").select("stream", "seq")
    cut = pruned.groupBy("stream").agg(F.max("through").alias("through"))
    left = erased.select("stream", "seq").distinct().join(gone, ["stream", "seq"], "left_anti")
    left = left.join(found.dropDuplicates(["stream", "seq"]), ["stream", "seq"], "left").join(cut, "stream", "left")
    is_pruned = F.col("through").isNotNull() & (F.col("seq") <= F.col("through"))
    rows = left.where(F.col("position").isNotNull() | ~is_pruned)
    still, absent = sentence(reasons.ERASURE_NOT_DONE), sentence(reasons.ERASURE_OF_NOTHING)
    reason = F.when(F.col("position").isNotNull(), still).otherwise(absent)
    return finding(rows.withColumn("position", F.coalesce("position", F.lit(0).cast("bigint"))), "erasure", reason)


# --- chains ----------------------------------------------------------------------------------------------------------


def stitch(checked: DataFrame, heads: DataFrame) -> DataFrame:
    """Events that do not follow the one before in their stream, or have or need a signature; with the event before.

    Within a piece the task found them. Between pieces they are found here, from the edges. The heads that are not the
    last event of their stream are here too, so that all streams are shuffled and sorted once.
    """
    names = ("kind", "position", "stream", "seq", "link", "signature", "rest", "begins", "last_seq", "last_link")
    edges = checked.where(F.col("kind") == EDGE).select(*names, "last_position")
    ends = heads.select(F.lit(HEAD).alias("kind"), "stream", "seq", "link")
    rows = edges.unionByName(ends, allowMissingColumns=True)
    is_head = F.col("kind") == HEAD
    order = Window.partitionBy(F.xxhash64("stream"), "stream").orderBy(is_head, "seq", "position")
    before = [F.lag(f"last_{name}").over(order).alias(f"{name}_before") for name in ("seq", "link", "position")]
    events = rows.select("kind", "position", "stream", "seq", "link", "signature", "rest", "begins", *before)
    is_last = F.col("seq").eqNullSafe(F.col("seq_before")) & F.col("link").eqNullSafe(F.col("link_before"))
    follows = F.when(F.col("begins"), F.isnull("seq_before") & F.isnull("position_before")).otherwise(
        is_next()
        & (F.col("position") > F.coalesce("position_before", F.lit(0)))
        & (F.unhex(F.sha2(_text(link_before()), 256)) == F.col("link"))
    )
    is_signed = F.col("signature").isNotNull() | is_community()
    chosen = F.when(is_head, ~is_last).otherwise(~F.coalesce(follows, F.lit(False)) | is_signed)
    found = events.where(chosen).drop("begins")
    return found.unionAll(checked.where(F.col("kind") == BREAK).select(*found.columns))


def with_cuts(events: DataFrame, pruned: DataFrame) -> DataFrame:
    """Events of `stitch` with the cut that they may follow instead of an event."""
    cut = pruned.groupBy("stream", (F.col("through") + 1).alias("seq")).agg(F.first("cut_link").alias("cut_link"))
    return events.join(cut, ["stream", "seq"], "left")


def without_cuts(events: DataFrame) -> DataFrame:
    """Events of `stitch` as if nothing had been pruned."""
    return events.withColumn("cut_link", F.lit(None).cast("string"))


def is_community() -> Column:
    """`names.is_feed` as Spark computes it: whether an event has to be signed."""
    name = F.substring_index("stream", "/", -1)
    return F.col("stream").startswith(names.FEEDS) & ~name.startswith(names.ASIDE)


def is_next() -> Column:
    """Whether the seq is one more than that of the event before."""
    return F.col("seq").eqNullSafe(F.coalesce("seq_before", F.lit(0)) + 1)


def is_after_cut() -> Column:
    """Whether an event of `with_cuts` may follow a cut instead of the event before it."""
    return F.col("cut_link").isNotNull() & ~is_next()


def link_before() -> Column:
    """The link of the event before, in hex."""
    return F.when(F.isnull("seq_before"), F.lit(GENESIS)).otherwise(hex_of("link_before"))


def signed_text() -> Column:
    """The text that the link of an event of `with_cuts` hashes and its signature signs."""
    return _text(F.when(is_after_cut(), F.col("cut_link")).otherwise(link_before()))


def wrong_places(events: DataFrame) -> DataFrame:
    """Events that do not follow the one before them by seq, link or position."""
    broken = ~F.coalesce(F.unhex(F.sha2(signed_text(), 256)).eqNullSafe(F.col("link")), F.lit(False))
    position, seq = F.coalesce("position_before", F.lit(0)), F.coalesce("seq_before", F.lit(0))
    neighbour = F.concat(F.lit(" (after position "), position.cast("string"), F.lit(")"))
    follows = F.concat(sentence(reasons.SEQUENCE, seq=F.col("seq"), before=seq), neighbour)
    what = (
        F.when(~is_next() & ~is_after_cut(), "sequence")
        .when(broken, "link")
        .when(F.col("position") <= F.col("position_before"), "order")
    )
    unlinked = F.concat(sentence(reasons.LINK), neighbour)
    unordered = F.concat(sentence(reasons.ORDER), neighbour)
    reason = F.when(what == "sequence", follows).when(what == "link", unlinked).otherwise(unordered)
    return finding(events.where(what.isNotNull()), what, reason)


def _text(previous: Column) -> Column:
    return F.concat(F.lit(DOMAIN + "\n"), previous, F.col("rest")).cast("binary")


# --- fingerprints and heads ------------------------------------------------------------------------------------------


def wrong_seals(found: DataFrame, sealed: DataFrame) -> DataFrame:
    """Fingerprints over links that do not exist, or that do not follow from their link and state hash."""
    made = F.sha2(F.concat(F.col("sealed_link"), F.lit("\n"), F.col("state_hash")), 256)
    joined = sealed.join(found, ["stream", "seq"], "left")
    is_other = F.col("found_link").isNotNull() & (F.col("found_link") != F.col("sealed_link"))
    reason = F.when(~made.eqNullSafe(F.col("fingerprint")), sentence(reasons.FACT_OF_WRONG_SEAL)).when(
        is_other, sentence(reasons.SEAL_OVER_ANOTHER)
    )
    rows = joined.withColumn("position", F.coalesce("position", "at"))
    return finding(rows.where(reason.isNotNull()), "fingerprint", reason)


def wrong_heads(found: DataFrame, expected: DataFrame, pruned: DataFrame) -> DataFrame:
    """Known ends of streams that the table lacks: the whole stream is missing, or its tail."""
    cut = pruned.groupBy("stream").agg(F.max("through").alias("through"))
    known = expected.select("stream", "seq", hex_of("link").alias("expected_link"))
    joined = known.join(found, ["stream", "seq"], "left").join(cut, "stream", "left")
    is_gone = F.col("through").isNotNull() & (F.col("seq") <= F.col("through"))
    wrong = joined.where(
        ~F.col("found_link").eqNullSafe(F.col("expected_link")) & ~(F.col("found_link").isNull() & is_gone)
    )
    reason = F.when(F.col("found_link").isNull(), sentence(reasons.HEAD_MISSING)).otherwise(
        sentence(reasons.HEAD_OF_ANOTHER)
    )
    rows = wrong.withColumn("position", F.coalesce("position", F.lit(0).cast("bigint")))
    return finding(rows.dropDuplicates(["stream", "seq"]), "head", reason)


def unknown_facts(control: DataFrame, known: DataFrame, *, until: int) -> DataFrame:
    """Control facts up to `until` that the log lacks: a log never prunes them, so they were made up."""
    ends = known.select("stream", F.col("seq").alias("end"))
    joined = control.where(F.col("position") <= until).join(ends, "stream", "left")
    wrong = joined.where(F.col("end").isNull() | (F.col("seq") > F.col("end")))
    return finding(wrong, "fact", sentence(reasons.FACT_UNKNOWN))


def unknown_events(archived: DataFrame, ends: DataFrame) -> DataFrame:
    """Events of an archive after the ends of their streams, as recorded when they were archived."""
    last = ends.groupBy("stream").agg(F.max("seq").alias("end"))
    wrong = archived.select("position", "stream", "seq").join(last, "stream", "left")
    wrong = wrong.where(F.col("end").isNull() | (F.col("seq") > F.col("end")))
    return finding(wrong, "head", F.lit("the stream ended before this event when it was archived"))
