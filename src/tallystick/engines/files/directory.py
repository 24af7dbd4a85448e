"""A file log by its directory: open it, refill it from a donor, or accept its losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tallystick import errors
from tallystick.engines.disk import Disk
from tallystick.engines.files import losses, opener, refill
from tallystick.engines.files.compressor import COMPRESS_BYTES_MIN
from tallystick.engines.files.engine import FilesLog
from tallystick.engines.files.writer import (
    SEGMENT_AGE_NS_MAX,
    SEGMENT_BYTES_LIMIT,
    SEGMENT_BYTES_MAX,
    SEGMENT_BYTES_MIN,
)
from tallystick.event import limits
from tallystick.store.acceptance import Acceptance
from tallystick.store.environment import number
from tallystick.store.filesystem import FileSystem
from tallystick.store.refill import Donor, Refilled

SIZE_VARIABLE, AGE_VARIABLE = "TALLY_SEGMENT_BYTES_MAX", "TALLY_SEGMENT_HOURS_MAX"
COMPRESS_VARIABLE = "TALLY_COMPRESS_BYTES_MIN"
HOUR_NS = 3600 * 1_000_000_000
SEGMENT_HOURS_LIMIT = 876_000


def refill_files(
    directory: str,
    donor: Donor,
    *,
    clock: Callable[[], int],
    progress: Callable[[int], None],
    filesystem: FileSystem | None = None,
) -> Refilled:
    """Refill the damaged ranges of the log in a directory from a donor."""
    with _closed_log(directory, filesystem) as (files, place):
        return refill.refill(files, place, donor, clock=clock, progress=progress)


def accept_loss_files(
    directory: str, *, clock: Callable[[], int], dry_run: bool, filesystem: FileSystem | None = None
) -> Acceptance:
    """Accept the loss of the damaged ranges of the log in a directory, or only report what would be lost."""
    with _closed_log(directory, filesystem) as (files, place):
        return losses.accept(files, place, clock=clock, dry_run=dry_run)


@contextmanager
def _closed_log(directory: str, filesystem: FileSystem | None) -> Iterator[tuple[FileSystem, str]]:
    """The file system and the directory of an existing log, to be changed while it is closed."""
    files: FileSystem = filesystem or Disk()
    directory = directory.rstrip("/") or "/"
    if not opener.exists(files, directory):
        raise errors.StoreNotFound(url=f"files:{directory}")
    try:
        files = files.anchored(directory)
        try:
            yield files, directory
        finally:
            files.release()
    except OSError as problem:
        raise errors.ReadFailed(path=f"files:{directory}", reason=str(problem)) from problem


def _segment_bytes() -> int:
    return int(number(SIZE_VARIABLE, SEGMENT_BYTES_MAX, least=SEGMENT_BYTES_MIN, most=SEGMENT_BYTES_LIMIT))


def _segment_age_ns() -> int:
    hours = number(AGE_VARIABLE, SEGMENT_AGE_NS_MAX / HOUR_NS, least=1 / 3600, most=SEGMENT_HOURS_LIMIT)
    return int(hours * HOUR_NS)


def _compress_bytes() -> int:
    return int(number(COMPRESS_VARIABLE, COMPRESS_BYTES_MIN, least=0, most=limits.INT_MAX))


def open_files(
    directory: str,
    *,
    readonly: bool,
    create: bool,
    profile: str | None,
    clock: Callable[[], int],
    filesystem: FileSystem | None = None,
    segment_bytes_max: int | None = None,
    segment_age_ns_max: int | None = None,
    compress_bytes_min: int | None = None,
) -> FilesLog:
    """Open the log in a directory. `filesystem` is for tests. Limits that are None come from the environment."""
    segment_bytes_max = _segment_bytes() if segment_bytes_max is None else segment_bytes_max
    segment_age_ns_max = _segment_age_ns() if segment_age_ns_max is None else segment_age_ns_max
    compress_bytes_min = _compress_bytes() if compress_bytes_min is None else compress_bytes_min
    if type(segment_bytes_max) is not int or not SEGMENT_BYTES_MIN <= segment_bytes_max <= SEGMENT_BYTES_LIMIT:
        must = f"from {SEGMENT_BYTES_MIN} to {SEGMENT_BYTES_LIMIT}"
        raise errors.InvalidValue(what="segment_bytes_max", value=segment_bytes_max, must=must)
    files: FileSystem = filesystem or Disk()
    directory = directory.rstrip("/") or "/"
    if (readonly or not create) and not opener.exists(files, directory):
        raise errors.StoreNotFound(url=f"files:{directory}")
    try:
        if not readonly:
            files.make_dir(directory)
        files = files.anchored(directory)
        try:
            if readonly:
                opened = opener.open_for_reading(files, directory)
            else:
                opened = opener.open_for_writing(files, directory, profile=profile or "plain", clock=clock)
        except BaseException:
            files.release()
            raise
        try:
            return FilesLog(
                directory,
                opened,
                readonly=readonly,
                clock=clock,
                segment_bytes_max=segment_bytes_max,
                segment_age_ns_max=segment_age_ns_max,
                compress_bytes_min=compress_bytes_min,
            )
        except BaseException:
            opened.handles.close()
            if opened.lock is not None:
                opened.lock.release()
            raise
    except OSError as problem:
        raise errors.UnknownUrl(url=f"files:{directory}", reason=str(problem)) from problem
