"""Read and write trace files, with or without gzip compression."""

import gzip
import hashlib
import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

from apps.testbed.core.any_format import KNOWN, parse_any
from apps.testbed.core.berth_jobs import SCHEMA, berth_lines, berth_rows, parse_rows
from apps.testbed.core.formats import LONGEST_LINE, parse_trace
from apps.testbed.core.google import read_task_events
from apps.testbed.core.google_tasks import GoogleTasks, google_tasks, read_machine_events
from apps.testbed.core.swf import SwfTrace, parse_swf
from apps.testbed.core.swf_export import swf_lines
from apps.testbed.core.trace_workload import TraceWorkload
from apps.testbed.core.traces import SwimTrace, Trace, TraceError, UnreadableTraceError

CHUNK: Final = LONGEST_LINE + 2  # bytes read at once
GZIP_MAGIC: Final = b"\x1f\x8b"
PARQUET_MAGIC: Final = b"PAR1"
PARQUET_ROWS: Final = 10_000  # held at once


def read_trace(path: Path, *, strict: bool = False) -> TraceWorkload:
    """Read the jobs of a trace in any known format, recognised by its content.

    Lines are read one by one; the columns of the jobs stay in memory, at most 120 bytes each.

    Parameters
    ----------
    strict : a malformed line is an error; otherwise it is left out and counted

    Raises
    ------
    TraceError : unreadable, damaged, empty, unknown format, too many malformed lines, or any if
        ``strict``; names file and line. Nothing is returned then.
    """
    if _begins_with(path, PARQUET_MAGIC):
        return _read_parquet(path, strict=strict)
    return parse_any(_lines(path), path=str(path), name=_label(path), strict=strict)


def read_submissions(path: Path) -> Trace:
    """Read a SWIM or Google 2011 trace with the columns that `run_replay` submits.

    Raises
    ------
    TraceError : unreadable, damaged, empty, unknown format or malformed; names file and line.
    """
    return parse_trace(_lines(path), path=str(path), name=_label(path))


def read_swf(path: Path) -> SwfTrace:
    """Read a log in the Standard Workload Format.

    Raises
    ------
    TraceError : unreadable, damaged or malformed; names file and line.
    """
    return parse_swf(enumerate(_lines(path), start=1), path=str(path), name=_label(path))


def write_trace(trace: TraceWorkload, path: Path) -> None:
    """Write the jobs; the format follows the name: .swf, .parquet, .jsonl, or with .gz.

    The file appears when it is complete.

    Raises
    ------
    TraceError : unknown ending, the file cannot be written, or Parquet support is missing.
    """
    suffixes = [suffix for suffix in path.suffixes if suffix != ".gz"]
    partial = path.with_name(path.name + ".partial")
    try:
        if suffixes[-1:] == [".parquet"]:
            _write_parquet(trace, partial)
        elif suffixes[-1:] in ([".swf"], [".jsonl"]):
            lines = swf_lines(trace) if suffixes[-1] == ".swf" else berth_lines(trace)
            _write_lines(lines, partial, is_zipped=path.suffix == ".gz")
        else:
            raise TraceError(str(path), 0, "expected a name that ends in .swf, .parquet or .jsonl")
        partial.replace(path)
    except OSError as error:
        raise TraceError(str(path), 0, f"cannot be written: {error.strerror}") from error


def _write_lines(lines: Iterable[str], path: Path, *, is_zipped: bool) -> None:
    with path.open("wb") as raw:
        # without time and name, the same jobs are the same bytes
        file = gzip.GzipFile("", "wb", fileobj=raw, mtime=0) if is_zipped else raw
        for line in lines:
            file.write(line.encode() + b"\n")
        if is_zipped:
            file.close()


def _label(path: Path) -> str:
    return path.name.split(".")[0] or "trace"


def _begins_with(path: Path, magic: bytes) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(len(magic)) == magic
    except OSError as error:
        raise UnreadableTraceError(str(path), 0, f"cannot be read: {error.strerror}") from error


def _parquet(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow  # noqa: PLC0415  (optional, and slow to import)
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError as error:
        detail = "Parquet needs the package pyarrow (in a checkout: .venv/bin/pip install pyarrow)"
        raise TraceError(str(path), 0, detail) from error
    return pyarrow, pyarrow.parquet


def _read_parquet(path: Path, *, strict: bool) -> TraceWorkload:
    arrow, parquet = _parquet(path)
    try:
        with parquet.ParquetFile(path) as file:
            batches = (batch.to_pylist() for batch in file.iter_batches(PARQUET_ROWS))
            rows = (
                (number, row)
                for number, row in enumerate(itertools.chain.from_iterable(batches), start=1)
            )
            return parse_rows(rows, path=str(path), name=_label(path), strict=strict)
    except arrow.ArrowException as error:
        raise TraceError(str(path), 0, f"is damaged Parquet: {error}") from error


def _write_parquet(trace: TraceWorkload, path: Path) -> None:
    arrow, parquet = _parquet(path)
    schema = arrow.schema(
        [
            (key, arrow.string() if kind is str else getattr(arrow, kind.__name__ + "64")())
            for key, kind in SCHEMA.items()
        ]
    )
    with parquet.ParquetWriter(path, schema) as file:
        rows = berth_rows(trace)
        while chunk := list(itertools.islice(rows, PARQUET_ROWS)):
            file.write_table(arrow.Table.from_pylist(chunk, schema=schema))


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
        raise UnreadableTraceError(str(path), 0, f"cannot be read: {error.strerror}") from error


def _lines(path: Path) -> Iterator[str]:
    number = 0
    try:
        with _opened(path) as file:
            for line in _split_lines(file):
                number += 1
                if len(line) > LONGEST_LINE:
                    detail = f"is longer than {LONGEST_LINE:,} characters; {KNOWN}"
                    raise TraceError(str(path), number, detail)
                yield line.decode()
    except EOFError as error:
        raise TraceError(
            str(path),
            number + 1,
            "the gzip stream is truncated; copy the file again",
        ) from error
    except UnicodeDecodeError as error:
        raise TraceError(str(path), number, f"is not text in UTF-8; {KNOWN}") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise TraceError(
            str(path), number + 1, f"the gzip stream is damaged ({error}); copy the file again"
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise UnreadableTraceError(str(path), 0, f"cannot be read: {reason}") from error


def _split_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a file whose lines end in CR, LF or both, also mixed.

    At most two chunks are in memory; a longer line is cut, which the caller refuses.
    """
    carry = b""
    while chunk := file.readline(CHUNK):
        text, carry = carry + chunk, b""
        if not chunk.endswith(b"\n") and b"\r" in text:
            text, _, carry = text.rpartition(b"\r")
        yield from text.removesuffix(b"\n").removesuffix(b"\r").split(b"\r")
    if carry:
        yield carry


def _opened(path: Path) -> BinaryIO:
    file = path.open("rb")
    head = file.read(2)
    file.seek(0)
    # A GzipFile does not close a file object, so it gets the path.
    if head != GZIP_MAGIC:
        return file
    file.close()
    return cast("BinaryIO", gzip.open(path, "rb"))


class DataFolder:
    """Public data sets below a folder, as the figures of papers need them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._google: GoogleTasks | None = None

    def swim(self, file: str) -> SwimTrace:
        """Read a trace of the folder ``swim_facebook``.

        Raises
        ------
        TraceError : unreadable, damaged, or another format.
        """
        path = self._folder / "swim_facebook" / file
        trace = read_submissions(path)
        if not isinstance(trace, SwimTrace):
            raise TraceError(str(path), 0, "is not a SWIM trace")
        return trace

    def google_hour(self) -> GoogleTasks:
        """Read the first hour of Google 2011 at task level, once.

        Raises
        ------
        TraceError : unreadable, damaged or malformed.
        """
        if self._google is None:
            self._google = read_google_tasks(self._folder / "google_2011")
        return self._google


def read_google_tasks(folder: Path) -> GoogleTasks:
    """Read `task_events.csv.gz` and `machine_events.csv.gz` of a folder.

    Raises
    ------
    TraceError : unreadable, damaged or malformed.
    """
    tasks, machines = folder / "task_events.csv.gz", folder / "machine_events.csv.gz"
    task_rows = enumerate(_lines(tasks), start=1)
    machine_rows = enumerate(_lines(machines), start=1)
    return google_tasks(
        read_task_events(next(task_rows, (1, "")), task_rows, str(tasks)),
        read_machine_events(next(machine_rows, (1, "")), machine_rows, str(machines)),
        str(tasks),
    )
