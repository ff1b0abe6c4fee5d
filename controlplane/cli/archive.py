"""Read the files that a job gets: a tar file as it is, or a directory as a tar file."""

import base64
import gzip
import io
import tarfile
from pathlib import Path
from typing import Final

from apps.workloads.core import archives
from controlplane.cli.errors import CliError, Exit

LEVEL: Final = 6  # of gzip


def read_files(name: str) -> str:
    """Return an archive in base64.

    The same directory gives the same archive, as long as no file in it changes.

    Raises
    ------
    CliError : it cannot be read, or is no archive that a server accepts.
    """
    path = Path(name)
    try:
        data = _packed(path) if path.is_dir() else _content(path)
        archives.members(data)
    except OSError as error:
        raise CliError(f"cannot read {name}: {error.strerror}", code=Exit.USAGE) from error
    except archives.ArchiveError as error:
        raise CliError(f"--files {name}: {error}", code=Exit.USAGE) from error
    return base64.b64encode(data).decode()


def _content(path: Path) -> bytes:
    """Return a file, or the beginning of one that is too large."""
    with path.open("rb") as stream:
        return stream.read(archives.MAX_BYTES + 1)


def _packed(directory: Path) -> bytes:
    """Return a directory as a tar file with gzip: without owners and times of its files."""
    raw = io.BytesIO()
    size = 0
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(directory.rglob("*")):
            info = tar.gettarinfo(path, str(path.relative_to(directory)))
            if not (info.isreg() or info.islnk() or info.isdir() or info.issym()):
                raise archives.ArchiveError(f"may not hold devices and pipes: {path}")
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            info.mtime = 0
            if info.isdir() or info.issym():
                tar.addfile(info)
                continue
            info.type, info.linkname = tarfile.REGTYPE, ""  # a hard link is a file like others
            info.size = path.stat().st_size
            size += info.size
            if size > archives.MAX_UNPACKED:
                raise archives.ArchiveError(
                    f"must have at most {archives.MAX_UNPACKED:,} bytes when unpacked"
                )
            with path.open("rb") as stream:
                tar.addfile(info, stream)
    return gzip.compress(raw.getvalue(), LEVEL, mtime=0)
