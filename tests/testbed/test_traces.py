"""Reading traces: recognised by content, errors that name file and line."""

from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from apps.testbed.core.formats import parse_trace
from apps.testbed.core.traces import GoogleTrace, SwimTrace, TraceError
from apps.testbed.files import read_submissions, trace_digest
from tests.testbed.samples import (
    GOOGLE_HEADER,
    GOOGLE_ROWS,
    SWIM_HEADER,
    SWIM_ROWS,
    written,
    zipped,
)

SHARED = Path(__file__).parents[3] / "shared" / "data"
FB2009 = SHARED / "swim_facebook" / "fb2009_day0.tsv.gz"
GOOGLE = SHARED / "google_2011" / "task_events.csv.gz"


def swim(text: str) -> SwimTrace:
    trace = parse_trace(text.splitlines(), path="a.tsv", name="a")
    assert isinstance(trace, SwimTrace)
    return trace


def google(text: str) -> GoogleTrace:
    trace = parse_trace(text.splitlines(), path="a.csv", name="a")
    assert isinstance(trace, GoogleTrace)
    return trace


def error_of(text: str) -> TraceError:
    with pytest.raises(TraceError) as caught:
        parse_trace(text.splitlines(), path="a.tsv", name="a")
    return caught.value


@pytest.mark.parametrize("text", [SWIM_ROWS, SWIM_HEADER + SWIM_ROWS, "\n" + SWIM_ROWS + "\n\n"])
def test_reads_swim_with_and_without_header(text: str) -> None:
    trace = swim(text)
    assert trace.submit_s.tolist() == [10, 25, 25, 90]
    assert trace.input_bytes.tolist() == [1000, 4e8, 1500, 9e9]
    assert trace.shuffle_bytes.tolist() == [0, 1e8, 0, 3e9]
    assert trace.output_bytes.tolist() == [500, 2e7, 700, 4e7]
    assert trace.notes == ()


@pytest.mark.parametrize("text", [SWIM_ROWS.replace("\n", "\r\n"), "\ufeff" + SWIM_ROWS])
def test_reads_what_windows_programs_save(text: str) -> None:
    assert len(swim(text)) == 4


def test_reads_the_seventh_column_of_fb2010() -> None:
    assert len(swim("job0\t1\t1\t2\t3\t4\tinputPath7\n")) == 1


def test_sorts_late_jobs_and_says_so() -> None:
    trace = swim("j\t9\t0\t1\t0\t1\nj\t3\t0\t2\t0\t1\n")
    assert trace.submit_s.tolist() == [3, 9]
    assert trace.input_bytes.tolist() == [2, 1]
    assert trace.notes == ("1 jobs were out of order; sorted by submit time.",)


@pytest.mark.parametrize("text", [GOOGLE_ROWS, GOOGLE_HEADER + GOOGLE_ROWS])
def test_folds_google_task_events_into_jobs(text: str) -> None:
    trace = google(text)
    assert trace.job_id.tolist() == [8, 9]
    assert trace.submit_s.tolist() == [5.0, 60.0]
    assert trace.tasks.tolist() == [2, 1]
    assert trace.cpu_request[0] == pytest.approx(0.125)
    assert np.isnan(trace.cpu_request[1])
    assert trace.task_seconds[0] == pytest.approx(50.0)
    assert np.isnan(trace.task_seconds[1])
    assert trace.scheduling_class.tolist() == [1, 0]
    assert trace.priority.tolist() == [4, 0]


def test_leaves_out_google_jobs_from_before_the_trace_and_says_so() -> None:
    notes = google(GOOGLE_ROWS).notes
    assert notes == ("1 jobs existed before the trace (time 0) and were left out.",)


def test_a_task_submitted_twice_counts_once() -> None:
    again = "700000000,,8,0,,0,u1,1,4,0.0625,0.01,0,0\n"
    assert google(GOOGLE_ROWS + again).tasks.tolist() == [2, 1]


def test_a_task_that_ran_twice_counts_its_last_run() -> None:
    evicted = GOOGLE_ROWS + (
        "660000000,,8,1,102,2,u1,1,4,0.1875,0.03,0,0\n"
        "670000000,,8,1,103,1,u1,1,4,0.1875,0.03,0,0\n"
        "700000000,,8,1,103,4,u1,1,4,0.1875,0.03,0,0\n"
    )
    assert google(evicted).task_seconds[0] == pytest.approx((50.0 + 30.0) / 2)


def test_an_end_without_a_start_tells_no_duration() -> None:
    again = "700000000,,8,0,101,4,u1,1,4,0.0625,0.01,0,0\n"
    assert google(GOOGLE_ROWS + again).task_seconds[0] == pytest.approx(50.0)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("", 0, "empty"),
        ("\n \n", 0, "empty"),
        ("hello world\n", 1, "starts with 'hello world'; expected SWIM"),
        (SWIM_HEADER, 0, "only a header"),
        ("job0\t10\t10\t1000\t0\n", 1, "5 columns; expected 6"),
        (SWIM_ROWS + "job4\tx\t1\t1\t1\t1\n", 5, "submit_time_s is 'x'; expected a number >= 0"),
        (SWIM_ROWS + "job4\t95\t1\t-5\t1\t1\n", 5, "map_input_bytes is '-5'; expected a number"),
        (SWIM_HEADER + "job4\t95\t1\t5\tnan\t1\n", 2, "shuffle_bytes is 'nan'; expected"),
        (SWIM_HEADER + "job4\t95\t1\t5\t1\tinf\n", 2, "reduce_output_bytes is 'inf'; expected"),
        (SWIM_HEADER + "job4\t95\t1\t5\t1\t\n", 2, "reduce_output_bytes is ''; expected"),
        (GOOGLE_HEADER, 0, "no job is submitted after time 0"),
        (GOOGLE_HEADER + "1,2\n", 2, "2 columns; expected 13"),
        (GOOGLE_HEADER + "0,,7,0,100,9,u0,3,9,,,,\n", 2, "event_type is '9'; expected 0"),
        (GOOGLE_HEADER + "0,,,0,100,1,u0,3,9,,,,\n", 2, "job_id is ''; expected"),
        ("x" * 70_000 + "\t\n", 1, "a line of 70,001 characters"),
    ],
)
def test_says_which_line_is_wrong_and_what_would_be_right(
    text: str, line: int, words: str
) -> None:
    error = error_of(text)
    assert error.line == line
    assert words in error.detail
    assert str(error).startswith("a.tsv")


def test_the_error_text_names_file_and_line() -> None:
    error = error_of(SWIM_ROWS + "job4\tx\t1\t1\t1\t1\n")
    assert str(error).startswith("a.tsv, line 5: ")


@given(st.text())
def test_any_text_is_a_trace_or_a_trace_error(text: str) -> None:
    with suppress(TraceError):
        assert len(parse_trace(text.splitlines(), path="a", name="a")) > 0


cells = st.one_of(st.floats().map(str), st.integers().map(str), st.text(max_size=3))


@given(st.lists(st.lists(cells, min_size=6, max_size=6).map("\t".join), min_size=1, max_size=4))
def test_any_swim_like_rows_give_non_negative_sorted_arrays(rows: list[str]) -> None:
    try:
        trace = parse_trace(rows, path="a", name="a")
    except TraceError:
        return
    assert isinstance(trace, SwimTrace)
    assert (np.diff(trace.submit_s) >= 0).all()
    assert np.isfinite(trace.input_bytes).all()
    assert (trace.input_bytes >= 0).all()


@given(
    st.lists(
        st.tuples(st.integers(0, 10**10), st.integers(1, 3), st.integers(0, 2), st.integers(0, 8)),
        min_size=1,
        max_size=30,
    )
)
def test_any_google_events_give_jobs_with_tasks(events: list[tuple[int, int, int, int]]) -> None:
    rows = [f"{at},,{job},{task},,{kind},u,0,0,,,," for at, job, task, kind in events]
    submitted = [f"{10**10},,9,0,,0,u,0,0,,,,"]
    trace = parse_trace(rows + submitted, path="a", name="a")
    assert isinstance(trace, GoogleTrace)
    assert (trace.tasks >= 1).all()
    assert (trace.submit_s >= 0).all()
    assert not (trace.task_seconds < 0).any()


def test_reads_a_gzip_file_whatever_its_name(tmp_path: Path) -> None:
    assert len(read_submissions(zipped(tmp_path / "day.tsv", SWIM_ROWS))) == 4


def test_names_the_trace_after_the_file(tmp_path: Path) -> None:
    assert read_submissions(written(tmp_path / "day0.tsv.txt", SWIM_ROWS)).name == "day0"


def test_a_truncated_gzip_file_names_the_file(tmp_path: Path) -> None:
    path = zipped(tmp_path / "day.tsv.gz", SWIM_HEADER + SWIM_ROWS * 5000)
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(TraceError, match="stream is truncated") as caught:
        read_submissions(path)
    assert caught.value.path == str(path)
    assert caught.value.line > 1


def test_a_damaged_gzip_file_is_a_trace_error(tmp_path: Path) -> None:
    path = zipped(tmp_path / "day.tsv.gz", SWIM_ROWS * 5000)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(bytes(content))
    with pytest.raises(TraceError):
        read_submissions(path)


def test_a_binary_file_is_a_trace_error(tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(b"\x89PNG\r\n\xff\xfe\x00\x01")
    with pytest.raises(TraceError, match="not text in UTF-8"):
        read_submissions(path)


@pytest.mark.parametrize(("name", "reason"), [("absent.tsv", "No such file"), (".", "directory")])
def test_an_unreadable_path_says_why(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(TraceError, match=reason):
        read_submissions(tmp_path / name)


def test_the_digest_tells_files_apart(tmp_path: Path) -> None:
    first = written(tmp_path / "a", SWIM_ROWS)
    same = written(tmp_path / "b", SWIM_ROWS)
    other = written(tmp_path / "c", SWIM_ROWS + " ")
    assert trace_digest(first) == trace_digest(same)
    assert trace_digest(first) != trace_digest(other)


@pytest.mark.skipif(not FB2009.exists(), reason="the FB-2009 file is not here")
def test_reads_the_published_facebook_day() -> None:
    trace = read_submissions(FB2009)
    assert isinstance(trace, SwimTrace)
    assert len(trace) == 5894
    assert trace.notes == ()


@pytest.mark.skipif(not GOOGLE.exists(), reason="the Google 2011 file is not here")
def test_reads_the_published_google_hour() -> None:
    trace = read_submissions(GOOGLE)
    assert isinstance(trace, GoogleTrace)
    assert len(trace) == 566
    assert trace.notes == ("3981 jobs existed before the trace (time 0) and were left out.",)
