"""Parser of the Standard Workload Format: logs of parallel batch systems.

Source: Chapin et al., "Benchmarks and Standards for the Evaluation of Parallel Job Schedulers",
JSSPP 1999; Parallel Workloads Archive (Feitelson, Tsafrir, Krakov 2014).
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.testbed.core.batch.jobs import ParallelJobs
from apps.testbed.core.text_table import LARGEST, Line, SkippedLines, read_columns, shorten
from apps.testbed.core.traces import Floats, Ints, TraceError

SWF_FIELDS: Final = (
    "job number",
    "submit time",
    "wait time",
    "run time",
    "allocated processors",
    "average CPU time",
    "used memory",
    "requested processors",
    "requested time",
    "requested memory",
    "status",
    "user",
    "group",
    "executable",
    "queue",
    "partition",
    "preceding job",
    "think time",
)
# submit, run, allocated, requested processors, requested time, wait, executable, queue
NEEDED: Final = (1, 3, 4, 7, 8, 2, 13, 14)
MIN_ESTIMATE_S: Final = 1.0  # the format counts whole seconds
_SIZE: Final = re.compile(r";\s*(MaxProcs|MaxNodes):\s*(\d+)\s*$")


@dataclass(frozen=True, slots=True, eq=False)
class SwfTrace:
    """A log of parallel jobs.

    Attributes
    ----------
    name : label of the trace
    processors : `MaxProcs` of the header, else `MaxNodes`, else those of the widest job
    jobs : submit times count from the first job
    wait_s : (n,) as logged; NaN if unknown
    executable : (n,) number of the program; -1 if unknown
    queue : (n,) number of the queue; 0 if unknown
    notes : jobs left out and values estimated, one sentence each
    """

    name: str
    processors: int
    jobs: ParallelJobs
    wait_s: Floats
    executable: Ints
    queue: Ints
    notes: tuple[str, ...]


def parse_swf(
    lines: Iterable[Line], *, path: str, name: str, skipped: SkippedLines | None = None
) -> SwfTrace:
    """Read a log. Jobs without a run time or processors never ran and are left out.

    The estimate is the requested time; the run time where the log has none or a shorter one.

    Raises
    ------
    TraceError : a line is malformed and ``skipped`` does not take it, or no job ran; names the
        line, the field and its value.
    """
    size: dict[str, int] = {}
    columns = read_columns(
        _job_lines(lines, size),
        lambda number, text: _fields(text, path, number),
        len(NEEDED),
        skipped or SkippedLines(strict=True),
    )
    return _trace(columns, size, path, name)


def _job_lines(lines: Iterable[Line], size: dict[str, int]) -> Iterator[Line]:
    """Yield the lines that are not comments; store the sizes that comments state."""
    for number, text in lines:
        if not text.lstrip().startswith(";"):
            yield number, text
        elif found := _SIZE.match(text.strip()):
            size[found[1]] = int(found[2])


def _fields(text: str, path: str, line: int) -> list[float]:
    cells = text.split()
    if len(cells) != len(SWF_FIELDS):
        raise TraceError(
            path, line, f"{len(cells)} fields; expected 18, from job number to think time"
        )
    return [_number(cells[index], SWF_FIELDS[index], path, line) for index in NEEDED]


def _number(cell: str, field: str, path: str, line: int) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = float("nan")
    if not (value == -1.0 or 0.0 <= value <= LARGEST):
        text = f"{field} is {shorten(cell)}; expected a number >= 0, or -1 for unknown"
        raise TraceError(path, line, text)
    return value


def _trace(columns: Floats, size: dict[str, int], path: str, name: str) -> SwfTrace:
    submit, run, allocated, requested, estimate, wait, executable, queue = columns
    width = np.where(allocated > 0, allocated, requested)
    ran = (run >= 0) & (width > 0) & (submit >= 0)
    if not ran.any():
        raise TraceError(path, 0, "no job has a run time and processors; expected 18 fields a job")
    widest = int(width[ran].max())
    processors = size.get("MaxProcs") or size.get("MaxNodes") or widest
    kept = ran & (width <= processors)
    if not kept.any():
        raise TraceError(path, 0, f"every job needs more than the {processors} processors")
    order = np.flatnonzero(kept)[np.argsort(submit[kept], kind="stable")]
    seconds = run[order]
    jobs = ParallelJobs(
        submit_s=submit[order] - submit[order][0],
        processors=width[order].astype(np.int64),
        seconds=seconds,
        estimate_s=np.maximum(np.maximum(estimate[order], seconds), MIN_ESTIMATE_S),
    )
    return SwfTrace(
        name=name,
        processors=processors,
        jobs=jobs,
        wait_s=np.where(wait[order] >= 0, wait[order], np.nan),
        executable=executable[order].astype(np.int64),
        queue=np.maximum(queue[order], 0.0).astype(np.int64),
        notes=tuple(_notes(ran, kept, estimate, run, processors)),
    )


def _notes(
    ran: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    kept: "np.ndarray[tuple[int], np.dtype[np.bool_]]",
    estimate: Floats,
    run: Floats,
    processors: int,
) -> Iterator[str]:
    never = int(np.count_nonzero(~ran))
    if never:
        yield f"{never} jobs have no run time or processors and were left out."
    wide = int(np.count_nonzero(ran & ~kept))
    if wide:
        yield f"{wide} jobs need more than the {processors} processors and were left out."
    unknown = int(np.count_nonzero(kept & (estimate < run)))
    if unknown:
        yield f"{unknown} jobs have no estimate as long as their run time; it is their estimate."


def at_load(jobs: ParallelJobs, processors: int, load: float) -> ParallelJobs:
    """Stretch the times between submissions so that the jobs need a share of the processors.

    Raises
    ------
    ValueError : the load is not above 0, or all jobs are submitted at once.
    """
    span_s = float(jobs.submit_s[-1] - jobs.submit_s[0])
    if not (load > 0.0 and span_s > 0.0):
        raise ValueError(f"load is {load} over {span_s} s; expected both above 0")
    natural = float((jobs.processors * jobs.seconds).sum()) / (processors * span_s)
    return replace(jobs, submit_s=(jobs.submit_s - jobs.submit_s[0]) * natural / load)
