"""The storage port: the same rules in a directory and in an object store, and one winner of a race."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tallystick import errors
from tallystick.pipeline.archive import archive_files, manifest
from tallystick.pipeline.archive.manifest import Bucket, DataFile, Manifest
from tallystick.pipeline.file_list import files
from tallystick.pipeline.storage import object_storage
from tallystick.pipeline.storage.directory import DirectoryStorage
from tallystick.pipeline.storage.port import Storage, Taken, storage_at
from tests.pipeline.object_store import AnswerLost, Conflicting, Server

WRITERS = 8


@pytest.fixture(params=["disk", "objects"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    """An empty storage of each kind."""
    given = str(tmp_path / "archive") if request.param == "disk" else request.getfixturevalue("bucket_url")
    return storage_at(given)


def test_a_new_name_is_given_once(place: Storage) -> None:
    """PIPE-02: the second writer gets `Taken`, and the first bytes stay."""
    place.put_new("manifests/1", b"one")
    with pytest.raises(Taken):
        place.put_new("manifests/1", b"two")
    assert place.read("manifests/1") == b"one"


def test_one_of_many_writers_wins(place: Storage) -> None:
    """PIPE-02: of eight writers who create the same name at once, one succeeds, and its bytes are stored."""
    start = threading.Barrier(WRITERS)

    def create(number: int) -> bool:
        start.wait()
        try:
            place.put_new("manifests/2", f"writer {number}".encode())
        except Taken:
            return False
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        won = list(pool.map(create, range(WRITERS)))
    assert won.count(True) == 1
    assert place.read("manifests/2") == f"writer {won.index(True)}".encode()


def test_files_are_put_read_listed_and_removed(place: Storage) -> None:
    """PIPE-02: a missing file is `FileNotFoundError` or nothing; files of subfolders are not files of a folder."""
    assert place.names("data") == []
    assert place.size("data/a") is None
    with pytest.raises(FileNotFoundError):
        place.read("data/a")
    with pytest.raises(FileNotFoundError), place.opened("data/a") as path:
        path.read_bytes()
    place.put("data/a", b"one")
    place.put("data/a", b"two more")
    place.put("data/below/b", b"")
    place.put("database/c", b"")
    assert place.names("data") == ["data/a"]
    assert place.names_below("data") == ["data/a", "data/below/b"]
    assert [name for name in place.names_below("") if name[0] == "d"] == ["data/a", "data/below/b", "database/c"]
    assert (place.size("data/a"), place.read("data/a")) == (8, b"two more")
    place.remove("data/a")
    place.remove("data/a")
    assert place.names("data") == []


def test_a_draft_is_seen_when_it_is_kept(place: Storage) -> None:
    """PIPE-02: a draft is not listed before `keep`; after it the file has its bytes, also if it is large."""
    body = bytes(range(256)) * 50_000
    with place.drafted() as draft:
        draft.write_bytes(body)
        assert place.names("data") == []
        place.keep(draft, "data/large")
    with place.drafted() as forgotten:
        forgotten.write_bytes(b"never")
    assert place.names("data") == ["data/large"]
    with place.opened("data/large") as path:
        assert path.read_bytes() == body
        assert archive_files.hash_of(path) == hashlib.sha256(body).hexdigest()


def test_the_next_manifest_is_taken_once(place: Storage) -> None:
    """PIPE-02: of two commits on one manifest the second gets `Taken`; the newest is in force, old ones are empty."""
    first = manifest.save(place, Manifest(store_id="00" * 16))
    second = manifest.save(place, first)
    with pytest.raises(Taken):
        manifest.save(place, first)
    assert manifest.load(place) == second
    newest = second
    for _ in range(manifest.KEPT):
        newest = manifest.save(place, newest)
    assert manifest.load(place) == newest
    with pytest.raises(Taken):
        manifest.save(place, first)
    assert len(place.names(manifest.FOLDER)) == manifest.KEPT + 2, "no number is free again"
    assert place.read(manifest.name_of(1)) == place.read(manifest.name_of(2)) != place.read(manifest.name_of(3))


def test_an_answer_that_is_lost_is_not_a_defeat(objects: Server, bucket_url: str) -> None:
    """PIPE-02: a write succeeds but its response is lost: the client repeats it, and finds its own bytes."""

    def lose() -> None:
        raise AnswerLost

    objects.between.at("PUT", "manifests/0000000000000000001", lose, after=True)
    saved = manifest.save(bucket_url, Manifest(store_id="00" * 16))
    assert manifest.load(bucket_url) == saved
    assert sum(line.startswith("PUT") and "manifests/" in line for line in objects.between.seen) == 2


def test_a_write_under_way_is_not_a_defeat(objects: Server, bucket_url: str) -> None:
    """PIPE-02: S3 responds 409 while another write, maybe the same one, is under way: nobody has lost yet."""

    def conflict() -> None:
        raise Conflicting

    objects.between.at("PUT", "manifests/0000000000000000001", conflict)
    saved = manifest.save(bucket_url, Manifest(store_id="00" * 16))
    assert manifest.load(bucket_url) == saved
    for _ in range(5):
        objects.between.at("PUT", "manifests/0000000000000000002", conflict)
    with pytest.raises(errors.PlaceUnreachable, match="refuses to create"):
        manifest.save(bucket_url, saved)
    assert manifest.load(bucket_url) == saved


def test_a_link_whose_answer_is_lost_is_not_a_defeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-02: NFS links, loses the response, repeats, and reports that the name exists: the commit has won."""
    link = os.link

    def twice(draft: Path, path: Path) -> None:
        link(draft, path)
        link(draft, path)

    monkeypatch.setattr(os, "link", twice)
    saved = manifest.save(tmp_path, Manifest(store_id="00" * 16))
    assert manifest.load(tmp_path) == saved
    monkeypatch.undo()
    with pytest.raises(Taken):
        manifest.save(tmp_path, Manifest(store_id="00" * 16))


def test_a_file_system_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-02: the error names what is missing, and nothing is committed."""

    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(errors.InvalidValue, match="hard links"):
        manifest.save(tmp_path, Manifest(store_id="00" * 16))
    with pytest.raises(errors.ArchiveNotFound):
        manifest.load(tmp_path)


def test_a_store_that_ignores_the_condition_is_refused(objects: Server, bucket_url: str) -> None:
    """PIPE-02: both of two runs would succeed there, so it is refused; the old manifest stays in force."""
    first = manifest.save(bucket_url, Manifest(store_id="00" * 16))
    objects.between.ignored.add("if-none-match")
    with pytest.raises(errors.InvalidValue, match="ignores the condition"):
        manifest.save(bucket_url, first)
    assert manifest.load(bucket_url) == first
    objects.between.ignored.clear()
    assert manifest.load(bucket_url) == first
    assert manifest.save(bucket_url, first).number == 2


@pytest.mark.security
@pytest.mark.parametrize("outside", ["data/../../outside/x.parquet", "/tmp/x.parquet", "../outside/x.parquet", "x"])
def test_a_manifest_that_names_a_file_elsewhere_is_refused(place: Storage, tmp_path: Path, outside: str) -> None:
    """SAFE-07, PIPE-03: no file is read or copied by a name that leads out of the archive."""
    file = DataFile(name=outside, sha256="00" * 32, size=0, rows=0)
    bucket = Bucket(first=1, last=1, rows=0, events=file, heads=None, blocks=[])
    manifest.save(place, Manifest(store_id="00" * 16, through=1, buckets=[bucket]))
    with pytest.raises(errors.ArchiveDamaged, match="is not a file of an archive"):
        files(place, copies=tmp_path / "copies")


@pytest.mark.security
@pytest.mark.parametrize(
    "given",
    [
        "hdfs://host:8020/x",
        "http://host/x",
        "ftp://host/x",
        "file://elsewhere/x",
        Path("s3a://bucket/x"),
        "s3://bucket/x?AWS_SECRET_ACCESS_KEY=hush",
        "s3://user:hush@bucket/x",
        "s3://user:hu/sh@bucket/hush",
        "https://account.blob.core.windows.net/x?sig=hush",
        "file:///x?token=hush",
        "s3:///x",
        "s3:bucket/x",
        "s3a:bucket",
        "S3:bucket",
        "file:x",
        " s3://bucket/x",
        "s3_a://bucket/x",
        "1s3://bucket/x",
        "://x",
    ],
    ids=str,
)
def test_what_is_not_understood_is_refused(given: str | Path) -> None:
    """SAFE-07, PIPE-02: the error has the URL, without a secret that may be in it."""
    with pytest.raises(errors.InvalidValue) as caught:
        storage_at(given)
    assert "hush" not in str(caught.value)


def test_a_file_url_is_a_directory(tmp_path: Path) -> None:
    """PIPE-02: a file URL with one slash or three, and with escapes."""
    for url in (f"file://{tmp_path}/a%20b", f"file:{tmp_path}/a%20b", f"FILE://localhost{tmp_path}/a%20b"):
        assert storage_at(url) == DirectoryStorage(tmp_path / "a b")


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("s3://b/x", "S3Store"),
        ("s3a://b/x", "S3Store"),
        ("gs://b/x", "GCSStore"),
        ("abfss://c@account.dfs.core.windows.net/x", "AzureStore"),
    ],
)
def test_each_store_has_its_client(url: str, kind: str) -> None:
    """PIPE-02: the scheme decides which client is used; a store is not contacted before it is used."""
    found = storage_at(url)
    assert isinstance(found, object_storage.ObjectStorage)
    assert type(found._store()).__name__ == kind
    assert str(found) == url


def test_a_library_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-02: without obstore, one line says what to install."""
    monkeypatch.setitem(__import__("sys").modules, "obstore.store", None)
    object_storage.disconnect()
    with pytest.raises(errors.ObjectsMissing, match="obstore"):
        storage_at("s3://bucket/x")


def test_a_store_that_refuses_is_not_a_damaged_archive(objects: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """PIPE-02: a missing bucket or store gives its reason in one line, and is not reported as damage."""
    deeds: list[Callable[[], object]] = [
        lambda: manifest.load("s3://nowhere/x"),
        lambda: manifest.save("s3://nowhere/x", Manifest(store_id="00")),
    ]
    for deed in deeds:
        with pytest.raises(errors.PlaceUnreachable) as caught:
            deed()
        assert "\n" not in str(caught.value.values["reason"])
