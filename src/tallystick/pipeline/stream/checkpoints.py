"""Where the checkpoint of a streaming query is: Spark writes it itself, so Spark has to know the file system."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from tallystick import errors
from tallystick.pipeline.storage.port import disk_of, scheme_of
from tallystick.store.stating import shown

_JARS = {"s3a": "hadoop-aws", "gs": "gcs-connector", "abfs": "hadoop-azure", "abfss": "hadoop-azure"}


def checkpoint_of(spark: SparkSession, given: str | Path) -> str:
    """The place as Spark takes it: a directory by its whole path, or a URL that this session can reach."""
    scheme = scheme_of(given)
    if scheme in (None, "file") or isinstance(given, Path):
        return str(disk_of(given, what="checkpoint"))
    if not _is_known(spark, scheme):
        need = f"with the jar {_JARS[scheme]} in Spark" if scheme in _JARS else "and Spark knows no such file system"
        must = f"a directory, by its path or as file:///PATH, or a URL that Spark can reach: this one only {need}"
        raise errors.InvalidValue(what="checkpoint", value=shown(given), must=must)
    return given


def _is_known(spark: SparkSession, scheme: str | None) -> bool:
    context: Any = spark.sparkContext
    try:
        context._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, context._jsc.hadoopConfiguration())
    except Py4JJavaError:
        return False
    return True
