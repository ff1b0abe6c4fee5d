"""Archives of files: what is accepted, and why others are not."""

import gzip
import tarfile
from base64 import b64encode
from io import BytesIO
from typing import Any

import numpy as np
import pytest

from apps.common.core.errors import InvalidInputError
from apps.workloads.core import archives
from apps.workloads.core.archives import Archive, ArchiveError, Kind, Member, members
from apps.workloads.core.spec import parse_job
from tests.workloads.archives import tar_of


def packed(*entries: tuple[str, bytes, Any]) -> bytes:
    """A tar file of (name, type, content or target)."""
    raw = BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        for name, kind, content in entries:
            info = tarfile.TarInfo(name)
            info.type, info.mode = kind, 0o6755
            if kind in {tarfile.SYMTYPE, tarfile.LNKTYPE}:
                info.linkname = content
                tar.addfile(info)
            else:
                info.size = len(content)
                tar.addfile(info, BytesIO(content))
    return raw.getvalue()


FILE, LINK, HARD, FOLDER = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE


def test_files_directories_and_links_are_read_without_set_user_id() -> None:
    data = packed(
        (".", FOLDER, b""), ("./bin", FOLDER, b""), ("./bin/run", FILE, b"x"),
        ("lib//a", FILE, b""), ("bin/a", LINK, "../lib/a"), ("here", LINK, "bin/a"),
    )  # fmt: skip
    assert members(data) == [
        Member("bin", Kind.DIRECTORY, 0o755),
        Member("bin/run", Kind.FILE, 0o755, b"x"),
        Member("lib/a", Kind.FILE, 0o755),
        Member("bin/a", Kind.LINK, target="../lib/a"),
        Member("here", Kind.LINK, target="bin/a"),
    ]
    assert members(gzip.compress(data)) == members(data)


@pytest.mark.parametrize(
    ("entries", "reason"),
    [
        ([("/etc/x", FILE, b"")], "relative paths"),
        ([("a/../../x", FILE, b"")], "relative paths"),
        ([("..", FOLDER, b"")], "relative paths"),
        ([("a", FILE, b""), ("a", FILE, b"")], "twice"),
        ([("a", LINK, "b"), ("a/x", FILE, b"")], "below 'a'"),
        ([("a", FILE, b""), ("a/x", FILE, b"")], "below 'a'"),
        ([("a/x", FILE, b""), ("a", LINK, "b")], "twice"),
        ([("a", LINK, "/etc/passwd")], "inside its directory"),
        ([("a", LINK, "../x")], "inside its directory"),
        ([("d/a", LINK, "../../x")], "inside its directory"),
        ([("d/l", LINK, ".."), ("m", LINK, "d/l/../x")], "inside its directory"),
        ([("m", LINK, "l/.."), ("l", LINK, ".")], "inside its directory"),
        ([("a", FILE, b""), ("b", HARD, "a")], "something else"),
        ([("a", tarfile.CHRTYPE, b"")], "something else"),
        ([("a", tarfile.FIFOTYPE, b"")], "something else"),
        ([("x" * 256, FILE, b"")], "255 in each part"),
        ([("x" * 200 + "/" + "y" * 200, FILE, b"")] * 2, "twice"),
        (["x/" * 500 + "y"], "1000 bytes"),
        ([(f"f{n}", FILE, b"") for n in range(archives.MAX_MEMBERS + 1)], "1,000 members"),
        ([], "at least one file"),
        ([(".", FOLDER, b"")], "at least one file"),
    ],
    ids=str(list(range(21)))[1:-1].split(", "),
)
def test_what_could_leave_the_directory_is_refused(entries: list[Any], reason: str) -> None:
    full = [(entry, FILE, b"") if isinstance(entry, str) else entry for entry in entries]
    with pytest.raises(ArchiveError, match=reason):
        members(packed(*full))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "tar file"),
        (b"PK\x03\x04 a zip file", "tar file"),
        (tar_of({"a": b"x" * 5000})[:2000], "tar file"),
        (gzip.compress(tar_of({"a": b"x" * 5000}))[:-20], "end of its gzip stream"),
        (b"\x1f\x8b\x08 nothing", "damaged"),
        (gzip.compress(bytes(archives.MAX_UNPACKED + 1)), "16,777,216 bytes when unpacked"),
        (bytes(archives.MAX_BYTES + 1), "at most 1,048,576 bytes, not 1,048,577"),
    ],
    ids=["empty", "zip", "cut", "cut gzip", "not gzip", "bomb", "large"],
)
def test_what_is_no_small_archive_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ArchiveError, match=reason):
        members(data)


@pytest.mark.parametrize("seed", range(20))
def test_a_damaged_archive_is_refused_or_harmless(seed: int) -> None:
    rng = np.random.default_rng(seed)
    whole = packed(("a/b", FILE, b"x" * 600), ("l", LINK, "a/b"), ("d", FOLDER, b""))
    results = []
    for _ in range(50):
        data = bytearray(whole)
        for place in rng.integers(0, 2560, size=3):
            data[place] = rng.integers(0, 256)
        try:
            results.append(members(bytes(data)))
        except ArchiveError:
            results.append([])
    assert len(results) == 50
    paths = [member.path for found in results for member in found]
    assert not [path for path in paths if path.startswith("/") or ".." in path.split("/")]


def test_a_job_takes_an_archive_in_base64_or_by_its_digest() -> None:
    data = tar_of({"a": b"1"})
    digest = archives.digest_of(data)
    given = parse_job({"command": ["true"], "files": b64encode(data).decode()})
    assert given.files == Archive(digest, data)
    assert parse_job({"command": ["true"], "files": digest}).files == Archive(digest)


@pytest.mark.parametrize(
    ("values", "pointer", "detail"),
    [
        ({"files": 7}, "/files", "must be a tar file in base64, or its sha256:..., not 7"),
        ({"files": "%"}, "/files", "must be base64"),
        ({"files": "\u00fc"}, "/files", "must be base64"),
        ({"files": "sha256:ab"}, "/files", "64 hexadecimal digits, not 'sha256:ab'"),
        ({"files": b64encode(b"no").decode()}, "/files", "must be a tar file"),
        ({"files": "A" * 1_400_000}, "/files", "characters of base64, not 1,400,000"),
        ({"files": "sha256:" + "0" * 64, "working_directory": "/srv"}, "/working_directory",
         "must be omitted with files"),
        ({"files": "sha256:" + "0" * 64, "command": None}, "/files", "this job has none"),
    ],
    ids=["type", "base64", "not ASCII", "digest", "tar", "long", "directory", "no command"],
)  # fmt: skip
def test_a_wrong_archive_is_named(values: dict[str, Any], pointer: str, detail: str) -> None:
    job = {"command": ["true"], "application": "a", "target": {"kind": "best_effort"}, **values}
    with pytest.raises(InvalidInputError) as raised:
        parse_job(job)
    (problem,) = raised.value.problems
    assert problem.pointer == pointer
    assert detail in problem.detail
