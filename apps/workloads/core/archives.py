"""Archives of files for the working directory of a command: tar, plain or compressed with gzip.

Agents check an archive again before they unpack it, so this module imports the standard library
only.
"""

import io
import tarfile
import zlib
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from typing import Final

MAX_BYTES: Final = 1 << 20  # as it is sent
MAX_UNPACKED: Final = 16 << 20  # of the tar file, headers included
MAX_MEMBERS: Final = 1000
MAX_NAME: Final = 1000  # bytes of the path of a member
MAX_PART: Final = 255  # bytes of one part of it, as file systems limit it
DIGEST: Final = "sha256:"  # begins the name of an archive
_GZIP: Final = b"\x1f\x8b"
_MODE: Final = 0o777  # no set-user-id
_OWNER: Final = 0o700  # of a directory: its owner can delete what is in it


class ArchiveError(ValueError):
    """An archive that is not accepted; the text says why."""


class Kind(StrEnum):
    """The kind of a member of an archive."""

    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Member:
    """One file, directory or symbolic link.

    Attributes
    ----------
    path : inside the directory, without "." and ".."
    mode : permissions
    data : of a file
    target : of a link; relative, and inside the directory
    """

    path: str
    kind: Kind
    mode: int = 0o755
    data: bytes = b""
    target: str = ""


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive by its digest; `data` is None if it must be stored already."""

    digest: str
    data: bytes | None = None


def digest_of(data: bytes) -> str:
    """Return the name of an archive: its SHA-256."""
    return DIGEST + sha256(data).hexdigest()


def members(data: bytes) -> list[Member]:
    """Return the members of an archive in its order, without its root.

    No member has an absolute path or a path with "..", is below a link, or is anything else than
    a file, a directory or a symbolic link. So files can be written in this order.
    Decompresses at most `MAX_UNPACKED` bytes.

    Raises
    ------
    ArchiveError : names the member, or the limit and the value.
    """
    if len(data) > MAX_BYTES:
        raise ArchiveError(f"must have at most {MAX_BYTES:,} bytes, not {len(data):,}")
    try:
        with tarfile.open(fileobj=io.BytesIO(_unpacked(data)), mode="r:") as tar:
            found = _members(tar)
    except ArchiveError:
        raise
    # a damaged header raises one of these in some version of the library
    except (tarfile.TarError, ValueError, LookupError, OverflowError, RecursionError) as error:
        raise ArchiveError(f"must be a tar file, plain or with gzip: {error}") from error
    if not found:
        raise ArchiveError("must hold at least one file")
    return found


def _unpacked(data: bytes) -> bytes:
    """Return the tar file of an archive."""
    if not data.startswith(_GZIP):
        return data
    stream = zlib.decompressobj(wbits=31)
    try:
        raw = stream.decompress(data, MAX_UNPACKED + 1)
    except zlib.error as error:
        raise ArchiveError(f"is damaged: {error}") from error
    if len(raw) > MAX_UNPACKED:
        raise ArchiveError(f"must have at most {MAX_UNPACKED:,} bytes when unpacked")
    if not stream.eof:
        raise ArchiveError("is damaged: the end of its gzip stream is missing")
    return raw


def _members(tar: tarfile.TarFile) -> list[Member]:
    found: list[Member] = []
    kinds: dict[str, Kind] = {}
    for number, info in enumerate(tar):
        if number >= MAX_MEMBERS:
            raise ArchiveError(f"must have at most {MAX_MEMBERS:,} members")
        member = _member(tar, info)
        if member is None:
            continue
        known = kinds.get(member.path)
        if known is not None and not known is member.kind is Kind.DIRECTORY:
            raise ArchiveError(f"holds {member.path!r:.80} twice")
        _check_parents(member.path, kinds)
        kinds[member.path] = member.kind
        found.append(member)
    for member in found:  # now all links are known: a target may lead through a later one
        if member.kind is Kind.LINK:
            _check_target(member, kinds)
    return found


def _member(tar: tarfile.TarFile, info: tarfile.TarInfo) -> Member | None:
    """Return a member; None for the root."""
    path = _path(info.name)
    mode = info.mode & _MODE
    if info.isdir():
        return Member(path, Kind.DIRECTORY, mode | _OWNER) if path else None
    if not path:
        raise ArchiveError(f"holds a member without a name: {info.name!r:.80}")
    if info.issym():
        return Member(path, Kind.LINK, target=info.linkname)
    if not info.isreg() or info.issparse() or info.size < 0:
        raise ArchiveError(
            f"may hold files, directories and symbolic links only; {path!r:.80} is something else"
        )
    stream = tar.extractfile(info)
    data = b"" if stream is None else stream.read()
    if len(data) != info.size:
        raise ArchiveError(f"is damaged: {path!r:.80} is not complete")
    return Member(path, Kind.FILE, mode, data)


def _path(name: str) -> str:
    """Return the path of a member without "." and double slashes."""
    parts = [part for part in name.split("/") if part not in {"", "."}]
    if name.startswith("/") or ".." in parts:
        raise ArchiveError(f"must hold relative paths without ..; {name!r:.80} is not")
    try:
        sizes = [len(part.encode("utf-8", "surrogateescape")) for part in parts]
    except UnicodeEncodeError as error:
        raise ArchiveError(f"holds a path that is not valid: {name!r:.80}") from error
    if "\0" in name or max(sizes, default=0) > MAX_PART or sum(sizes) + len(sizes) > MAX_NAME:
        raise ArchiveError(
            f"must hold paths of at most {MAX_NAME} bytes, {MAX_PART} in each part; {name!r:.80}"
        )
    return "/".join(parts)


def _check_parents(path: str, kinds: dict[str, Kind]) -> None:
    """Check that no part of the path of a member is a link or a file."""
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        above = "/".join(parts[:count])
        if kinds.setdefault(above, Kind.DIRECTORY) is not Kind.DIRECTORY:
            raise ArchiveError(f"holds {path!r:.80} below {above!r:.80}, which is no directory")


def _check_target(member: Member, kinds: dict[str, Kind]) -> None:
    """Check that a link stays inside the directory, and does not lead through another link."""
    at = member.path.split("/")[:-1]
    is_inside = member.target != "" and not member.target.startswith("/")
    is_inside = is_inside and "\0" not in member.target and len(member.target) <= MAX_NAME
    for part in member.target.split("/") if is_inside else ():
        if kinds.get("/".join(at)) is Kind.LINK:
            is_inside = False
        if part == "..":
            is_inside = is_inside and bool(at)
            at = at[:-1]
        elif part not in {"", "."}:
            at = [*at, part]
    if not is_inside:
        raise ArchiveError(
            f"must hold links inside its directory; {member.path!r:.80} leads to"
            f" {member.target!r:.80}"
        )
