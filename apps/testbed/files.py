"""Read trace files, with or without gzip compression."""

import gzip
import hashlib
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, cast

from apps.testbed.core.formats import EXPECTED, LONGEST_LINE, parse_trace
from apps.testbed.core.traces import Trace, TraceError

GZIP_MAGIC: Final = b"\x1f\x8b"


def read_trace(path: Path) -> Trace:
    """Read the trace in a file, recognised by its content.

    Raises
    ------
    TraceError : unreadable, damaged, empty, unknown format or malformed; names file and line.
    """
    name = path.name.split(".")[0] or "trace"
    return parse_trace(_lines(path), path=str(path), name=name)


def trace_digest(path: Path) -> str:
    """SHA-256 of the raw file, in hexadecimal.

    Raises
    ------
    TraceError : the file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise TraceError(str(path), 0, f"cannot be read: {error.strerror}") from error


def _lines(path: Path) -> Iterator[str]:
    number = 0
    try:
        with _opened(path) as file:
            while line := file.readline(LONGEST_LINE + 2):
                number += 1
                yield line.decode()
    except EOFError as error:
        raise TraceError(
            str(path),
            number + 1,
            "the gzip stream is truncated; copy the file again",
        ) from error
    except UnicodeDecodeError as error:
        raise TraceError(str(path), number, f"is not text in UTF-8; {EXPECTED}") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(
            str(path), number + 1, f"the gzip stream is damaged ({error}); copy the file again"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise TraceError(str(path), 0, f"cannot be read: {reason}") from error


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    head = file.read(2)
    file.seek(0)
    # A GzipFile does not close a file object, so it gets the path.
    if head != GZIP_MAGIC:
        return file
    file.close()
    return cast("BinaryIO", gzip.open(path, "rb"))
