"""Starting a Spark session that is set up: with Java, the right Python in the workers, UTC, little output, our package.

Only classic sessions: a Spark Connect server has neither a status tracker nor our package.
"""

from __future__ import annotations

import os
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

import tallystick
from tallystick import errors
from tallystick.pipeline.source.data_source import register
from tallystick.pipeline.spark.java import find_java

MASTER = "local[*]"
SHUFFLE_PARTITIONS_PER_CORE = 4
COLLECTOR = (
    "-XX:+UseParallelGC"  # jobs need throughput, not short pauses: this takes a tenth less time than the default
)

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.parquet.compression.codec": "zstd",
    # Batches to Python are limited by rows: to limit them by bytes too, Spark sums all sizes again after every row,
    # which costs a quarter of a fold. 1000 of the largest events are 1 GB; 1000 usual ones stay in a core's cache.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "1000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    "spark.sql.adaptive.coalescePartitions.parallelismFirst": "true",
}
ROWS_A_PART = 100_000
PARTS_MAX = 10_000
_JOB_SETTINGS = {
    # With these two on, every shuffle and every small side of a join is a separate job: ten jobs for a query over a few
    # hundred rows.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.shuffle.partitions": "1",
}
_PACKAGES = ("tallystick", "pyspark_tallystick")
_SET_UP_BY_USER = ("SPARK_CONF_DIR", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


def session(
    master: str = MASTER,
    *,
    name: str = "tallystick",
    memory: str = "2g",
    settings: Mapping[str, str] | None = None,
    py_files: Sequence[str | Path] = (),
) -> SparkSession:
    """A session with the format `tallystick`: the running session, or a new one.

    `settings` are Spark's own and override ours. `py_files` are modules and packages for the workers: `.py`, `.zip`,
    or a directory.
    """
    sent = [_sendable(Path(path)) for path in py_files]
    if os.environ.get("SPARK_REMOTE") or os.environ.get("SPARK_CONNECT_MODE_ENABLED"):
        raise errors.InvalidValue(what="SPARK_REMOTE", value="set", must="unset: the pipeline runs in classic sessions")
    is_new = not is_running()
    is_local = master.startswith("local")
    with _surroundings(is_local):
        builder = SparkSession.builder.master(master).appName(name).config("spark.driver.memory", memory)
        for key, value in (_SETTINGS | _sized(master) | dict(settings or {})).items():
            builder = builder.config(key, value)
        try:
            spark = builder.getOrCreate()
        except Exception as problem:
            raise errors.JobFailed(reason=f"Spark did not start: {problem}".splitlines()[0]) from problem
    if is_new and not is_local:
        _send_package(spark)
    for path in sent:
        spark.sparkContext.addPyFile(str(path))
    return register(spark)


def is_running() -> bool:
    """Whether this process has a Spark session."""
    return SparkSession.getActiveSession() is not None


def _sized(master: str) -> dict[str, str]:
    """Settings for one machine: shuffle partitions that its cores can do in a few rounds, and a garbage collector.

    Spark's 200 partitions are for clusters. The collector is left alone if the user sets options for Java.
    """
    if not master.startswith("local"):
        return {}
    cores = os.cpu_count() or 1
    number = master.removeprefix("local").strip("[]").partition(",")[0]
    if number.isdecimal():
        cores = int(number)
    elif not number:
        cores = 1
    found = {"spark.sql.shuffle.partitions": str(cores * SHUFFLE_PARTITIONS_PER_CORE)}
    if not any(name in os.environ for name in _SET_UP_BY_USER):
        found["spark.driver.extraJavaOptions"] = COLLECTOR
    return found


@contextmanager
def _surroundings(is_local: bool) -> Iterator[None]:
    """Set the variables that Spark's processes inherit, while they start."""
    wanted = {
        "JAVA_HOME": find_java(),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if is_local:
        wanted["SPARK_LOCAL_IP"] = os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")
        paths = [str(_root()), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
        wanted["PYTHONPATH"] = os.pathsep.join(path for path in dict.fromkeys(paths) if path)
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


def _root() -> Path:
    """The directory that the package was imported from."""
    return Path(tallystick.__file__).resolve().parent.parent


def _send_package(spark: SparkSession) -> None:
    """Send the package to the executors. Their Python must have the libraries that it needs."""
    files = [file for package in _PACKAGES for file in _sources(_root() / package)]
    spark.sparkContext.addPyFile(str(_zipped("tallystick_package", files, _root())))


def _sendable(path: Path) -> Path:
    """A file that Spark accepts for `addPyFile`: a directory becomes a zip of its packages and modules."""
    if not path.exists():
        raise errors.InvalidValue(what="a Python file", value=str(path), must="a file or directory that exists")
    if path.is_dir():
        is_package = (path / "__init__.py").exists()
        return _zipped(path.resolve().name, _sources(path), path.resolve().parent if is_package else path)
    if path.suffix not in (".py", ".zip", ".egg"):
        raise errors.InvalidValue(what="a Python file", value=str(path), must="a .py, .zip or .egg, or a directory")
    return path


def _sources(directory: Path) -> list[Path]:
    return sorted(file for file in directory.rglob("*") if file.is_file() and file.suffix != ".pyc")


def _zipped(name: str, files: Iterable[Path], root: Path) -> Path:
    path = Path(tempfile.mkdtemp(prefix="tallystick-")) / f"{name}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            archive.write(file.resolve(), file.resolve().relative_to(root.resolve()).as_posix())
    return path


# --- sessions of jobs -------------------------------------------------------------------------------------------------


def job_session(spark: SparkSession) -> SparkSession:
    """A session for a job with many small queries: its settings do not change those of `spark`.

    It shares the context: cores, files and cached tables. Spark Connect cannot make one, so there it is `spark`.
    """
    if not isinstance(spark, SparkSession):
        return spark
    made = spark.newSession()
    for name, value in _JOB_SETTINGS.items():
        made.conf.set(name, value)
    return made


def set_shuffle_partitions(spark: SparkSession, *, rows: int, cores: int) -> None:
    """Set the number of shuffle partitions for this many rows: one partition if the rows are few."""
    if not isinstance(spark, SparkSession):
        return
    parts = 1 if rows <= ROWS_A_PART else max(-(-rows // ROWS_A_PART), cores)
    spark.conf.set("spark.sql.shuffle.partitions", str(min(parts, PARTS_MAX)))
