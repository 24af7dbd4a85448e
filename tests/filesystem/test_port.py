"""The port's rules, on the real file system and on the simulated one."""

from __future__ import annotations

import errno

import pytest

from tallystick import errors
from tallystick.store.filesystem import FileSystem, replace_file, write_fully
from tallystick.testing.faults import Fault, FaultyFileSystem
from tallystick.testing.simulated_disk import SimulatedDisk


def written(files: FileSystem, path: str, data: bytes) -> None:
    """Put bytes into a new file."""
    file = files.create(path)
    write_fully(file, 0, data)
    file.close()


def content(files: FileSystem, path: str) -> bytes:
    """A file's bytes."""
    file = files.open_read(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def test_bytes_are_read_where_they_were_written(files: FileSystem, root: str) -> None:
    """Writes and reads go by offset, and a read past the end is short."""
    file = files.create(f"{root}/a")
    assert file.write_at(0, b"hello world") == 11
    assert file.write_at(6, b"there") == 5
    assert file.read_at(0, 100) == b"hello there"
    assert file.read_at(6, 3) == b"the"
    assert file.read_at(11, 5) == b""
    assert file.size() == 11
    file.close()


def test_a_write_behind_the_end_leaves_zeros_between(files: FileSystem, root: str) -> None:
    """What lies between the old end and the new bytes reads as zeros."""
    file = files.create(f"{root}/a")
    file.write_at(4, b"x")
    assert file.read_at(0, 10) == b"\0\0\0\0x"
    file.truncate(2)
    assert file.read_at(0, 10) == b"\0\0"
    file.truncate(3)
    assert file.size() == 3
    file.close()


def test_create_empties_an_old_file(files: FileSystem, root: str) -> None:
    """Creating a name that exists leaves an empty file."""
    written(files, f"{root}/a", b"old")
    written(files, f"{root}/a", b"")
    assert content(files, f"{root}/a") == b""


def test_open_write_keeps_the_bytes_and_needs_the_file(files: FileSystem, root: str) -> None:
    """An existing file is opened as it is; a missing one is an error, not a new file."""
    written(files, f"{root}/a", b"old")
    file = files.open_write(f"{root}/a")
    file.write_at(3, b" and new")
    file.sync()
    file.close()
    assert content(files, f"{root}/a") == b"old and new"
    with pytest.raises(FileNotFoundError):
        files.open_write(f"{root}/b")
    with pytest.raises(FileNotFoundError):
        files.open_read(f"{root}/b")
    assert not files.exists(f"{root}/b")


def test_a_file_open_for_reading_takes_no_bytes(files: FileSystem, root: str) -> None:
    """Writing through a reader's handle fails."""
    written(files, f"{root}/a", b"x")
    file = files.open_read(f"{root}/a")
    with pytest.raises(OSError) as caught:
        file.write_at(0, b"y")
    assert caught.value.errno == errno.EBADF
    file.close()


def test_names_are_listed_in_order_and_not_those_below(files: FileSystem, root: str) -> None:
    """A listing is sorted and holds the names of one directory."""
    files.make_dir(f"{root}/d/e")
    for name in ("b", "a", "d/c"):
        written(files, f"{root}/{name}", b"")
    assert files.list(root) == ["a", "b", "d"]
    assert files.list(f"{root}/d") == ["c", "e"]
    with pytest.raises(FileNotFoundError):
        files.list(f"{root}/none")


def test_make_dir_makes_parents_and_minds_nothing_that_is_there(files: FileSystem, root: str) -> None:
    """A directory is made with its parents; making it again is no error, making it over a file is one."""
    files.make_dir(f"{root}/x/y/z")
    files.make_dir(f"{root}/x/y/z")
    assert files.exists(f"{root}/x/y/z")
    written(files, f"{root}/file", b"")
    with pytest.raises(OSError):
        files.make_dir(f"{root}/file")


def test_rename_replaces_and_an_open_file_stays_the_same_file(files: FileSystem, root: str) -> None:
    """A rename replaces what had the name; a handle keeps its own file, not the name."""
    written(files, f"{root}/old", b"old")
    written(files, f"{root}/new", b"new")
    reader = files.open_read(f"{root}/old")
    files.rename(f"{root}/new", f"{root}/old")
    assert content(files, f"{root}/old") == b"new"
    assert reader.read_at(0, 3) == b"old"
    assert files.list(root) == ["old"]
    reader.close()


def test_unlink_takes_the_name_and_leaves_an_open_file_readable(files: FileSystem, root: str) -> None:
    """After unlink the name is gone, and a reader that has the file open still reads it."""
    written(files, f"{root}/a", b"data")
    reader = files.open_read(f"{root}/a")
    files.unlink(f"{root}/a")
    assert not files.exists(f"{root}/a")
    assert reader.read_at(0, 4) == b"data"
    reader.close()
    with pytest.raises(FileNotFoundError):
        files.unlink(f"{root}/a")


def test_a_directory_is_not_opened_as_a_file(files: FileSystem, root: str) -> None:
    """LH-10: a name that is no regular file is refused."""
    files.make_dir(f"{root}/d")
    for opening in (files.open_read, files.open_write, files.create):
        with pytest.raises(OSError):
            opening(f"{root}/d")


def test_a_lock_is_exclusive_until_released(files: FileSystem, root: str) -> None:
    """LH-10: a second lock on the same file is refused at once and names the holder; released, it is free."""
    lock = files.lock(f"{root}/lock")
    with pytest.raises(errors.StoreLocked, match="pid "):
        files.lock(f"{root}/lock")
    lock.release()
    lock.release()
    files.lock(f"{root}/lock").release()


def test_a_reader_of_the_lock_file_does_not_free_it(files: FileSystem, root: str) -> None:
    """LH-10: opening and closing the lock file elsewhere in the process leaves the lock held."""
    lock = files.lock(f"{root}/lock")
    files.open_read(f"{root}/lock").close()
    with pytest.raises(errors.StoreLocked):
        files.lock(f"{root}/lock")
    lock.release()


def test_replace_file_leaves_the_new_bytes_and_no_temporary(files: FileSystem, root: str) -> None:
    """A replaced file has the new bytes, and its temporary name is gone."""
    replace_file(files, root, "state", b"one")
    replace_file(files, root, "state", b"two")
    assert content(files, f"{root}/state") == b"two"
    assert files.list(root) == ["state"]


def test_a_closed_file_refuses_everything_and_closes_twice(files: FileSystem, root: str) -> None:
    """After close every use is an error, except closing again."""
    file = files.create(f"{root}/a")
    file.close()
    file.close()
    for use in (file.size, file.sync, lambda: file.read_at(0, 1), lambda: file.write_at(0, b"x")):
        with pytest.raises((OSError, ValueError)):
            use()


def test_free_bytes_are_a_number(files: FileSystem, root: str) -> None:
    """The free space can be asked for."""
    assert files.free_bytes(root) > 0


@pytest.mark.parametrize("short", [1, 3, 7])
def test_write_fully_goes_on_after_short_writes(files: FileSystem, root: str, short: int) -> None:
    """LH-16: a write that takes fewer bytes than given is continued, not lost."""
    faulty = FaultyFileSystem(files, Fault(operation="write", short=short, persistent=True))
    written(faulty, f"{root}/a", b"0123456789")
    assert faulty.fired > 1
    assert content(files, f"{root}/a") == b"0123456789"


@pytest.mark.parametrize("number", [errno.EINTR, errno.EAGAIN])
def test_write_fully_retries_what_is_transient(files: FileSystem, root: str, number: int) -> None:
    """LH-16: an interrupted write is tried again."""
    faulty = FaultyFileSystem(files, Fault(operation="write", error=number))
    written(faulty, f"{root}/a", b"data")
    assert (faulty.fired, content(files, f"{root}/a")) == (1, b"data")


@pytest.mark.parametrize(
    "fault",
    [
        Fault(operation="write", error=errno.EINTR, persistent=True),
        Fault(operation="write", short=0, persistent=True),
        Fault(operation="write", error=errno.EIO),
        Fault(operation="write", error=errno.ENOSPC),
    ],
    ids=str,
)
def test_write_fully_gives_up(files: FileSystem, root: str, fault: Fault) -> None:
    """LH-16: retries are bounded, and what is not transient is not retried."""
    faulty = FaultyFileSystem(files, fault)
    file = faulty.create(f"{root}/a")
    with pytest.raises(OSError):
        write_fully(file, 0, b"data")
    assert faulty.counts["write"] <= 200
    file.close()


def test_names_that_differ_in_case_alone_are_one_name_where_the_disk_folds() -> None:
    """LH-10: the simulated disk can fold case as macOS and Windows do, keeping the name as it was made."""
    disk = SimulatedDisk(folds_case=True)
    written(disk, "Name", b"x")
    assert content(disk, "nAME") == b"x"
    disk.create("NAME").close()
    assert disk.list(".") == ["Name"]
    assert content(disk, "Name") == b""
