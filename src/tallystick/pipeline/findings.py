"""What verification asks of a table, each question a DataFrame of what is wrong: (what, reason, position, stream, seq).

Everything is computed by Spark's own functions: no Python sees a row. Comparisons are null-safe throughout, so that a
missing link, checksum or meta is a finding and not a row that no condition is true of.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark

from tallystick.event.chain import DOMAIN
from tallystick.pipeline.digests import hex_of
from tallystick.store import facts

GENESIS = "0" * 64
FINDING = ("what", "reason", "position", "stream", "seq")
_ABOUT = facts.KIND + "/"


def finding(rows: DataFrame, what: str | Column, reason: Column) -> DataFrame:
    """Rows as findings."""
    kind = F.lit(what) if isinstance(what, str) else what
    place = [F.col(name) for name in ("position", "stream", "seq")]
    return rows.select(kind.alias("what"), reason.alias("reason"), *place)


# --- what control facts claim ----------------------------------------------------------------------------------------


def claims(events: DataFrame, type_: str, schema: str) -> DataFrame:
    """The control facts of one type: the fields of `schema`, and the fact's own place as `at`."""
    told = events.where((F.col("type") == type_) & F.col("stream").startswith(_ABOUT))
    fact = F.from_json("payload", schema)
    return told.select(F.col("position").alias("at"), fact.alias("fact")).select("at", "fact.*")


def pruned_claims(events: DataFrame) -> DataFrame:
    """(stream, through, cut_link): up to where streams were pruned, every time it was done."""
    found = claims(events, facts.PRUNED, "stream string, through bigint, link string, count bigint")
    return found.select("stream", "through", F.col("link").alias("cut_link"), "count", "at")


def erased_claims(events: DataFrame) -> DataFrame:
    """(stream, seq, erased_checksum): which payloads were erased."""
    found = claims(events, facts.ERASED, "stream string, seq bigint, checksum string")
    return found.select("stream", "seq", F.col("checksum").alias("erased_checksum"), "at")


def sealed_claims(events: DataFrame) -> DataFrame:
    """(stream, seq, sealed_link, ...): over which links fingerprints were sealed."""
    schema = "stream string, seq bigint, link string, state_hash string, fingerprint string"
    found = claims(events, facts.SEALED, schema)
    return found.select("stream", "seq", F.col("link").alias("sealed_link"), "state_hash", "fingerprint", "at")


def at_places(events: DataFrame, *places: DataFrame) -> DataFrame:
    """(stream, seq, position, found_link) of the events at these places. Places are few beside events: they travel."""
    wanted = reduce(DataFrame.unionAll, [item.select("stream", "seq") for item in places]).distinct()
    links = events.select("stream", "seq", "position", hex_of("link").alias("found_link"))
    return links.join(F.broadcast(wanted), ["stream", "seq"], "left_semi")


# --- payloads --------------------------------------------------------------------------------------------------------


def wrong_payloads(events: DataFrame, erased: DataFrame) -> DataFrame:
    """Payloads without their checksum, missing ones that no fact tells of, and facts that are not kept."""
    claim = erased.groupBy("stream", "seq").agg(F.first("erased_checksum").alias("erased_checksum"), F.first("at"))
    sha = F.sha2(F.col("payload").cast("binary"), 256)
    fits = sha.eqNullSafe(hex_of("checksum"))
    suspects = events.select(
        "position", "stream", "seq", "checksum", fits.alias("fits"), F.isnull("payload").alias("gone")
    )
    suspects = suspects.join(F.broadcast(claim), ["stream", "seq"], "left")
    is_claimed = F.col("erased_checksum").isNotNull()
    other = is_claimed & ~F.col("erased_checksum").eqNullSafe(hex_of("checksum"))
    what = F.when(F.col("gone") | is_claimed, F.lit("erasure")).otherwise(F.lit("checksum"))
    reason = (
        F.when(other, "a control fact says that it was erased, and names another checksum")
        .when(F.col("gone") & ~is_claimed, "the payload is gone, and no control fact says that it was erased")
        .when(~F.col("gone") & is_claimed, "a control fact says that it was erased, and the payload is still there")
        .when(~F.col("gone") & ~F.col("fits"), "the payload does not have its checksum")
    )
    return finding(suspects.where(reason.isNotNull()), what, reason)


def missing_erased(found: DataFrame, erased: DataFrame, pruned: DataFrame) -> DataFrame:
    """Erasures of events that are neither there nor pruned."""
    cut = pruned.groupBy("stream").agg(F.max("through").alias("through"))
    left = erased.join(found, ["stream", "seq"], "left_anti")
    left = left.join(cut, "stream", "left").where(F.col("through").isNull() | (F.col("seq") > F.col("through")))
    rows = left.select(F.lit(0).cast("bigint").alias("position"), "stream", "seq")
    return finding(rows, "erasure", F.lit("a control fact says that it was erased, and there is no event"))


# --- chains ----------------------------------------------------------------------------------------------------------


def chained(events: DataFrame, pruned: DataFrame) -> DataFrame:
    """Every event beside the one before it in its stream, and the cut that it may follow instead."""
    order = Window.partitionBy("stream").orderBy("seq", "position")
    before = [F.lag(name).over(order).alias(f"{name}_before") for name in ("seq", "link", "position")]
    beside = events.select(
        "position", "stream", "seq", "type", "version", "id", "time", "meta", "checksum", "link", *before
    )
    cut = pruned.groupBy("stream", (F.col("through") + 1).alias("seq")).agg(F.first("cut_link").alias("cut_link"))
    return beside.join(F.broadcast(cut), ["stream", "seq"], "left")


def wrong_places(beside: DataFrame) -> DataFrame:
    """Events that do not follow the one before: by seq, by link, or by position."""
    is_next = F.col("seq").eqNullSafe(F.coalesce("seq_before", F.lit(0)) + 1)
    is_cut = F.col("cut_link").isNotNull() & ~is_next
    previous = (
        F.when(is_cut, F.col("cut_link"))
        .when(F.col("seq_before").isNull(), F.lit(GENESIS))
        .otherwise(hex_of("link_before"))
    )
    text = _text(previous)
    broken = ~F.coalesce(F.sha2(text, 256).eqNullSafe(hex_of("link")), F.lit(False))
    seq_text, before_text = F.col("seq").cast("string"), F.coalesce(F.col("seq_before"), F.lit(0)).cast("string")
    beside_text = F.concat(
        F.lit(" (after position "), F.coalesce(F.col("position_before"), F.lit(0)).cast("string"), F.lit(")")
    )
    follows = F.concat(F.lit("seq "), seq_text, F.lit(" follows "), before_text, beside_text)
    what = (
        F.when(~is_next & ~is_cut, "sequence")
        .when(broken, "link")
        .when(F.col("position") <= F.col("position_before"), "order")
    )
    reason = (
        F.when(what == "sequence", follows)
        .when(
            what == "link",
            F.concat(F.lit("the link does not follow from the event and the link before it"), beside_text),
        )
        .otherwise(F.concat(F.lit("its position does not rise along its stream"), beside_text))
    )
    return finding(beside.where(what.isNotNull()), what, reason)


def _text(previous: Column) -> Column:
    """The text that a link hashes; null if any part is missing, which `concat` keeps and `concat_ws` would not."""
    numbers = {name: F.col(name).cast("string") for name in ("seq", "version", "time")}
    parts = [
        F.lit(DOMAIN),
        previous,
        F.col("stream"),
        numbers["seq"],
        F.col("type"),
        numbers["version"],
        hex_of("id"),
        numbers["time"],
        F.col("meta"),
        hex_of("checksum"),
    ]
    separated = [part for item in parts for part in (F.lit("\n"), item)][1:]
    return F.concat(*separated)


# --- fingerprints and heads ------------------------------------------------------------------------------------------


def wrong_seals(found: DataFrame, sealed: DataFrame) -> DataFrame:
    """Fingerprints over links that are not there, or that do not follow from what they say."""
    made = F.sha2(F.concat(F.col("sealed_link"), F.lit("\n"), F.col("state_hash")), 256)
    beside = sealed.join(found, ["stream", "seq"], "left")
    reason = F.when(
        ~made.eqNullSafe(F.col("fingerprint")), "the fingerprint does not follow from its link and state hash"
    ).when(
        F.col("found_link").isNotNull() & (F.col("found_link") != F.col("sealed_link")),
        "a fingerprint was sealed here over another link",
    )
    rows = beside.withColumn("position", F.coalesce("position", "at"))
    return finding(rows.where(reason.isNotNull()), "fingerprint", reason)


def wrong_heads(found: DataFrame, expected: DataFrame, pruned: DataFrame) -> DataFrame:
    """Ends of streams, as somebody else knows them, that are not in the table: a stream is missing, or its tail is."""
    cut = pruned.groupBy("stream").agg(F.max("through").alias("through"))
    known = expected.select("stream", "seq", hex_of("link").alias("expected_link"))
    beside = known.join(found, ["stream", "seq"], "left").join(cut, "stream", "left")
    is_gone = F.col("through").isNotNull() & (F.col("seq") <= F.col("through"))
    wrong = beside.where(
        ~F.col("found_link").eqNullSafe(F.col("expected_link")) & ~(F.col("found_link").isNull() & is_gone)
    )
    reason = F.when(
        F.col("found_link").isNull(), "the stream went as far as this, and the event is not there"
    ).otherwise("the stream has another event here")
    rows = wrong.withColumn("position", F.coalesce("position", F.lit(0).cast("bigint")))
    return finding(rows.dropDuplicates(["stream", "seq"]), "head", reason)
