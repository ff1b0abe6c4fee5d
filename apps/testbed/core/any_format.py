"""Detect the format of a trace in a text file, and read its jobs."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final

from apps.testbed.core.alibaba import is_pods_header, parse_pods
from apps.testbed.core.berth_jobs import parse_json_lines
from apps.testbed.core.formats import non_empty, parse_swim
from apps.testbed.core.google import GOOGLE_COLUMNS, parse_google
from apps.testbed.core.swf import SWF_FIELDS, parse_swf
from apps.testbed.core.text_table import Line, SkippedLines, shorten
from apps.testbed.core.trace_jobs import workload_of_sizes, workload_of_swf
from apps.testbed.core.trace_workload import TraceWorkload
from apps.testbed.core.traces import TraceError

KNOWN: Final = (
    "expected SWIM (6 tab-separated columns), Google 2011 task events (13 comma-separated"
    " columns), the Standard Workload Format (18 blank-separated fields), pods of the Alibaba GPU"
    " trace of 2023 (CSV with a header), or jobs exported by Berth (JSON Lines or Parquet)"
)


def parse_any(
    lines: Iterable[str], *, path: str, name: str, strict: bool = False
) -> TraceWorkload:
    """Read the jobs of a text file.

    Parameters
    ----------
    lines : decoded, with or without line ends
    path : named in errors
    name : label of the trace
    strict : a malformed line is an error; otherwise it is left out and counted

    Raises
    ------
    TraceError : empty, unknown format, more malformed lines than good ones, or any if ``strict``.
    """
    skipped = SkippedLines(strict=strict)
    numbered = non_empty(lines, path)
    first = next(numbered, None)
    if first is None:
        raise TraceError(path, 0, f"the file is empty; {KNOWN}")
    found = _parsed(first, numbered, path, name, skipped)
    return replace(found, skipped=skipped.count, problems=tuple(skipped.first))


def _parsed(
    first: Line, rest: Iterator[Line], path: str, name: str, skipped: SkippedLines
) -> TraceWorkload:
    number, text = first
    if text.startswith("{"):
        return parse_json_lines(chain([first], rest), path=path, name=name, skipped=skipped)
    if text.lstrip().startswith(";") or len(text.split()) == len(SWF_FIELDS):
        lines = chain([first], rest)
        return workload_of_swf(parse_swf(lines, path=path, name=name, skipped=skipped))
    if "\t" in text:
        return workload_of_sizes(parse_swim(first, rest, path, name, skipped))
    if is_pods_header(text):
        return parse_pods(first, rest, path, name, skipped)
    if text.count(",") + 1 == len(GOOGLE_COLUMNS):
        return workload_of_sizes(parse_google(first, rest, path, name, skipped))
    raise TraceError(path, number, f"starts with {shorten(text)}; {KNOWN}")
