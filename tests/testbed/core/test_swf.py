"""Standard Workload Format: fields, sizes, jobs left out, and lines that are wrong."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from apps.testbed.core.batch.pool import Discipline, run_pool
from apps.testbed.core.swf import SwfTrace, at_load, parse_swf
from apps.testbed.core.traces import TraceError

NASA = Path(__file__).parents[4] / "shared/data/parallel_workloads/NASA-iPSC-1993-3.1-cln.swf.gz"
HEADER = "; Version: 2.2\n; MaxNodes: 64\n; MaxProcs: 128\n;\n"
REST = " -1 -1 1 1 1 -1 -1 -1 -1 -1"
ROWS = (
    "1 100 -1 50 4 -1 -1 4 60" + REST.replace(" -1 -1 1", " -1 1", 1) + "\n"
    "2 90 -1 10 -1 -1 -1 8 -1" + REST.replace(" -1 -1 1", " -1 1", 1) + "\n"
    "3 120 -1 -1 4 -1 -1 4 60" + REST.replace(" -1 -1 1", " -1 1", 1) + "\n"
    "4 130 -1 0 200 -1 -1 200 60" + REST.replace(" -1 -1 1", " -1 1", 1) + "\n"
)


def swf(text: str) -> SwfTrace:
    return parse_swf(iter(list(enumerate(text.splitlines(), start=1))), path="a.swf", name="a")


def test_reads_the_fields_of_jobs_that_ran() -> None:
    trace = swf(HEADER + ROWS)
    assert trace.processors == 128
    assert trace.jobs.submit_s.tolist() == [0.0, 10.0]
    assert trace.jobs.processors.tolist() == [8, 4]
    assert trace.jobs.seconds.tolist() == [10.0, 50.0]
    assert trace.jobs.estimate_s.tolist() == [10.0, 60.0]
    assert trace.notes == (
        "1 jobs have no run time or processors and were left out.",
        "1 jobs need more than the 128 processors and were left out.",
        "1 jobs have no estimate as long as their run time; it is their estimate.",
    )


def test_the_size_comes_from_the_header_or_from_the_widest_job() -> None:
    assert swf("; MaxNodes: 300\n" + ROWS).processors == 300
    assert swf(ROWS).processors == 200


def test_a_job_of_no_time_has_an_estimate() -> None:
    assert swf(ROWS).jobs.estimate_s.min() >= 1.0
    run_pool(swf(ROWS).jobs, 200, Discipline.CONSERVATIVE)


def test_arrivals_are_stretched_to_a_load() -> None:
    trace = swf(HEADER + ROWS)
    jobs = at_load(trace.jobs, trace.processors, 0.5)
    assert jobs.submit_s.tolist() == [0.0, pytest.approx((80 + 200) / (128 * 0.5))]
    with pytest.raises(ValueError, match=r"load is 0.0 over 10.0 s; expected both above 0"):
        at_load(trace.jobs, trace.processors, 0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 2 3\n", "a.swf, line 1: 3 fields; expected 18"),
        (ROWS.replace("100", "x"), "line 1: submit time is 'x'; expected a number >= 0, or -1"),
        (ROWS.replace("100", "-5"), "line 1: submit time is '-5'"),
        (ROWS.replace("100", "nan"), "line 1: submit time is 'nan'"),
        (HEADER, "a.swf: no job has a run time and processors"),
        ("; MaxProcs: 2\n" + ROWS, "a.swf: every job needs more than the 2 processors"),
    ],
    ids=["short", "text", "negative", "nan", "empty", "small"],
)
def test_wrong_lines_are_named(text: str, message: str) -> None:
    with pytest.raises(TraceError) as caught:
        swf(text)
    assert message in str(caught.value)


@pytest.mark.skipif(not NASA.exists(), reason="the log is not here")
def test_backfill_shortens_waits_on_a_real_log() -> None:
    """The published order: FCFS waits longest by far, conservative and EASY are close."""
    with gzip.open(NASA, "rt") as file:
        trace = swf(file.read())
    assert (len(trace.jobs), trace.processors) == (18_239, 128)
    jobs = at_load(trace.jobs, trace.processors, 0.7)
    slowdown = {
        kind: float(np.mean(run_pool(jobs, trace.processors, kind).bounded_slowdown))
        for kind in Discipline
    }
    assert slowdown[Discipline.FCFS] > 3.0 * slowdown[Discipline.CONSERVATIVE]
    assert slowdown[Discipline.FCFS] > 3.0 * slowdown[Discipline.EASY]
