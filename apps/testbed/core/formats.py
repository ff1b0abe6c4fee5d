"""Recognise the format of a trace by its content, and parse it into arrays.

Sources: SWIM (Chen et al., MASCOTS 2011; `workloadSuite/README`): six tab-separated columns, no
header in the original. Google clusterdata-2011-2 (format document of Reiss, Wilkes, Hellerstein):
task events, thirteen comma-separated columns, no header in the original.
"""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np

from apps.testbed.core.google import GOOGLE_COLUMNS, parse_google
from apps.testbed.core.text_table import (
    Line,
    SkippedLines,
    number_in,
    read_columns,
    rows_after_header,
    shorten,
)
from apps.testbed.core.traces import SwimTrace, Trace, TraceError

SWIM_COLUMNS: Final = (
    "job_id",
    "submit_time_s",
    "inter_job_submit_gap_s",
    "map_input_bytes",
    "shuffle_bytes",
    "reduce_output_bytes",
)
EXPECTED: Final = (
    "expected SWIM (6 tab-separated columns: job, submit s, gap s, input, shuffle, output bytes)"
    " or Google 2011 task events (13 comma-separated columns)"
)
LONGEST_LINE: Final = 65_536  # characters; a longer line is not part of a text table


def parse_trace(
    lines: Iterable[str], *, path: str, name: str, skipped: SkippedLines | None = None
) -> Trace:
    """Parse a SWIM or Google 2011 file.

    Parameters
    ----------
    lines : the file's lines, decoded, with or without line ends
    path : named in errors
    name : label of the trace
    skipped : takes malformed lines; None = they are errors

    Raises
    ------
    TraceError : empty, unknown format or malformed; names the line and the expected format.
    """
    numbered = non_empty(lines, path)
    first = next(numbered, None)
    if first is None:
        raise TraceError(path, 0, f"the file is empty; {EXPECTED}")
    number, text = first
    if "\t" in text:
        return parse_swim(first, numbered, path, name, skipped)
    if text.count(",") + 1 == len(GOOGLE_COLUMNS):
        return parse_google(first, numbered, path, name, skipped)
    raise TraceError(path, number, f"starts with {shorten(text)}; {EXPECTED}")


def non_empty(lines: Iterable[str], path: str) -> Iterator[Line]:
    """Yield the lines that are not empty, numbered from 1, without line ends.

    Raises
    ------
    TraceError : a line is longer than `LONGEST_LINE`.
    """
    for number, line in enumerate(lines, start=1):
        if len(line) > LONGEST_LINE:
            raise TraceError(path, number, f"a line of {len(line):,} characters; {EXPECTED}")
        text = line.rstrip("\r\n").removeprefix("\ufeff")
        if text.strip():
            yield number, text


def parse_swim(
    first: Line,
    rest: Iterator[Line],
    path: str,
    name: str,
    skipped: SkippedLines | None = None,
) -> SwimTrace:
    """Read the jobs of a SWIM file, sorted by submit time.

    Raises
    ------
    TraceError : a row is malformed and ``skipped`` does not take it, or there is no job.
    """

    def cells_of(number: int, text: str) -> list[float]:
        cells = text.split("\t")
        # FB-2010 "withInputPaths" files have a seventh column, the path, which is not needed.
        if len(cells) not in (6, 7):
            detail = f"{len(cells)} columns; expected 6: {', '.join(SWIM_COLUMNS)}"
            raise TraceError(path, number, detail)
        return [number_in(cells[i], SWIM_COLUMNS[i], path, number) for i in (1, 3, 4, 5)]

    rows = rows_after_header(first, rest, header="job_id", separator="\t")
    columns = read_columns(rows, cells_of, 4, skipped or SkippedLines(strict=True))
    if not columns.size:
        raise TraceError(path, 0, "only a header, no jobs; expected one line for each job")
    submit, read, shuffled, written = columns
    order = np.argsort(submit, kind="stable")
    late = int(np.count_nonzero(np.diff(submit) < 0))
    notes = (f"{late} jobs were out of order; sorted by submit time.",) if late else ()
    return SwimTrace(name, submit[order], read[order], shuffled[order], written[order], notes)
