"""One front door for traces: formats, malformed input, exports."""

import gzip
import json
import resource
import subprocess
import sys
from contextlib import suppress
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.testbed.core.any_format import parse_any
from apps.testbed.core.berth_jobs import berth_lines
from apps.testbed.core.trace_workload import (
    COLUMNS,
    TraceFormat,
    TraceWorkload,
    job_table,
)
from apps.testbed.core.traces import TraceError
from apps.testbed.files import read_trace, write_trace
from tests.testbed.samples import GOOGLE_HEADER, GOOGLE_ROWS, SWIM_ROWS, written, zipped

SHARED = Path(__file__).parents[3] / "shared" / "data"
SWF_ROWS = (
    "; MaxProcs: 128\n"
    "1 100 5 50 4 -1 -1 4 60 -1 1 -1 -1 7 -1 -1 -1 -1\n"
    "2 90 0 10 8 -1 -1 8 -1 -1 1 -1 -1 -1 -1 -1 -1 -1\n"
    "3 120 1 20 4 -1 -1 4 60 -1 1 -1 -1 7 -1 -1 -1 -1\n"
)
PODS_HEADER = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,"
    "deletion_time,scheduled_time,gpu_spec33\n"
)
PODS_ROWS = (
    "p0,12000,16384,1,500,,LS,Running,100,400,110,\n"
    "p1,1500,2048,0,0,,BE,Succeeded,150,250,150,\n"
    "p2,4000,8192,8,1000,V100,BE,Pending,160,,,\n"
)
BERTH_ROWS = (
    '{"application":"sort","kind":"batch","submit_s":0,"work_s":75.5,"units":2,"tasks":3}\n'
    '{"application":"web","kind":"latency_critical","submit_s":9.5,"work_s":null,"units":4,'
    '"seconds":600,"wait_s":1.5,"priority":3}\n'
)
SAMPLES = {
    TraceFormat.SWIM: SWIM_ROWS,
    TraceFormat.GOOGLE_2011: GOOGLE_HEADER + GOOGLE_ROWS,
    TraceFormat.SWF: SWF_ROWS,
    TraceFormat.ALIBABA_GPU_2023: PODS_HEADER + PODS_ROWS,
    TraceFormat.BERTH: BERTH_ROWS,
}
JOBS = {
    TraceFormat.SWIM: 4,
    TraceFormat.GOOGLE_2011: 2,
    TraceFormat.SWF: 3,
    TraceFormat.ALIBABA_GPU_2023: 2,
    TraceFormat.BERTH: 2,
}
BAD_LINES = {
    TraceFormat.SWIM: ("job9\t-5\t0\t1\t1\t1\n", "submit_time_s is '-5'"),
    TraceFormat.GOOGLE_2011: ("-5,,8,0,,0,u1,1,4,,,,\n", "time_us is '-5'"),
    TraceFormat.SWF: ("4 -7 0 1 1 -1 -1 1 1 -1 1 -1 -1 1 -1 -1 -1 -1\n", "submit time is '-7'"),
    TraceFormat.ALIBABA_GPU_2023: ("p9,1,1,0,0,,BE,Running,-5,9,9,\n", "creation_time is '-5'"),
    TraceFormat.BERTH: (
        '{"application":"a","submit_s":-5,"work_s":1}\n',
        "submit_s is '-5'; expected a number >= 0",
    ),
}
FORMATS = [pytest.param(kind, id=kind.value) for kind in TraceFormat]


def parsed(text: str, *, strict: bool = False) -> TraceWorkload:
    return parse_any(text.splitlines(), path="a.txt", name="a", strict=strict)


def rows(trace: TraceWorkload) -> list[str]:
    return list(berth_lines(trace))


@pytest.mark.parametrize("kind", FORMATS)
def test_every_format_is_recognised_by_its_content(kind: TraceFormat) -> None:
    trace = parsed(SAMPLES[kind])
    assert (trace.format, len(trace), trace.skipped) == (kind, JOBS[kind], 0)


@pytest.mark.parametrize("kind", FORMATS)
def test_a_malformed_line_is_counted_and_named(kind: TraceFormat) -> None:
    bad, detail = BAD_LINES[kind]
    trace = parsed(SAMPLES[kind] + bad)
    assert rows(trace) == rows(parsed(SAMPLES[kind]))
    assert trace.skipped == 1
    line = SAMPLES[kind].count("\n") + 1
    assert str(trace.problems[0]).startswith(f"a.txt, line {line}: {detail}")


@pytest.mark.parametrize("kind", FORMATS)
def test_a_malformed_line_is_fatal_if_strict(kind: TraceFormat) -> None:
    bad, detail = BAD_LINES[kind]
    with pytest.raises(TraceError) as caught:
        parsed(SAMPLES[kind] + bad, strict=True)
    assert detail in caught.value.detail


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_with_more_malformed_lines_than_good_ones_is_refused(kind: TraceFormat) -> None:
    lines = SAMPLES[kind].count("\n") + 1
    with pytest.raises(TraceError, match=rf"\({lines} malformed lines, \d+ good ones\)"):
        parsed(SAMPLES[kind] + BAD_LINES[kind][0] * lines)


@pytest.mark.parametrize("kind", FORMATS)
def test_mixed_line_ends_change_nothing(tmp_path: Path, kind: TraceFormat) -> None:
    first, second, rest = SAMPLES[kind].split("\n", 2)
    path = tmp_path / "a.txt"
    path.write_bytes(f"{first}\r{second}\r\n{rest}".encode())
    assert rows(read_trace(path)) == rows(parsed(SAMPLES[kind]))


def test_a_long_file_with_old_line_ends_is_read_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_bytes((SWIM_ROWS * 2_000).replace("\n", "\r").encode())
    assert len(read_trace(path, strict=True)) == 8_000


@pytest.mark.parametrize("kind", FORMATS)
def test_a_truncated_gzip_stream_imports_nothing(tmp_path: Path, kind: TraceFormat) -> None:
    noise = np.random.default_rng(1).integers(1, 10**9, 2_000)
    header, _, body = SAMPLES[kind].partition("\n")
    row = body.strip("\n").split("\n")[-1] if body else header
    more = "".join(f"{row}\n" for _ in noise)
    path = zipped(tmp_path / "a.gz", SAMPLES[kind] + more)
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(TraceError, match="the gzip stream is truncated; copy the file again"):
        read_trace(path)


def test_a_line_of_ten_gigabytes_is_refused_in_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "huge.tsv"
    path.write_text(SWIM_ROWS)
    with path.open("r+b") as file:
        file.truncate(10 * 2**30)  # a sparse file: one line of zeros
    program = (
        "import resource, sys, pathlib\n"
        "from apps.testbed.files import read_trace, TraceError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    read_trace(pathlib.Path(sys.argv[1]))\n"
        "except TraceError as error:\n    print(error)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)\n"
    )
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True
    )
    message, kilobytes = done.stdout.strip().rsplit("\n", 1)
    assert message.startswith(f"{path}, line 5: is longer than 65,536 characters; expected SWIM")
    assert int(kilobytes) < 20_000


def test_a_long_zipped_line_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb") as file:
        file.write(SWIM_ROWS.encode() + b"x" * 50_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(TraceError, match="line 5: is longer than 65,536 characters"):
        read_trace(path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_tasks_without_a_submission_are_counted() -> None:
    orphan = "700000000,,55,0,101,1,u1,1,4,0.5,0.1,0,0\n"
    trace = parsed(SAMPLES[TraceFormat.GOOGLE_2011] + orphan)
    assert len(trace) == 2
    assert "1 jobs have events but no SUBMIT and were left out." in trace.notes


@pytest.mark.parametrize(
    ("text", "note", "error"),
    [
        (
            (PODS_HEADER + PODS_ROWS).replace("gpu_spec33", "colour"),
            "unknown columns 'colour' ignored.",
            "a.txt, line 1: unknown column 'colour'",
        ),
        (
            BERTH_ROWS.replace('"tasks"', '"colour"'),
            "unknown keys colour ignored.",
            "a.txt, line 1: unknown key 'colour'",
        ),
    ],
    ids=["pods", "berth"],
)
def test_unknown_columns_are_named(text: str, note: str, error: str) -> None:
    assert note in parsed(text).notes
    with pytest.raises(TraceError, match=error):
        parsed(text, strict=True)


def test_a_missing_column_is_named() -> None:
    text = PODS_HEADER.replace("qos", "class") + PODS_ROWS
    with pytest.raises(TraceError, match="line 1: no column qos; expected a table of pods"):
        parsed(text)


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("{", "is not JSON"),
        ('{"application":"a","submit_s":1}', "no work_s"),
        ('{"application":"","submit_s":1,"work_s":1}', "application is ''; expected a name"),
        ('{"application":"a","submit_s":1,"work_s":0}', "work_s is '0'; expected a number > 0"),
        ('{"application":"a","submit_s":true,"work_s":1}', "submit_s is 'True'"),
        ('{"application":"a","submit_s":NaN,"work_s":1}', "submit_s is 'nan'"),
        ('{"application":"a","submit_s":1,"work_s":1,"units":1.5}', "expected a whole number"),
        ('{"application":"a","submit_s":1,"work_s":1,"kind":"x"}', "kind is 'x'; expected one of"),
        ('{"application":"a","submit_s":1,"work_s":null}', "a service"),
        ('{"application":"sort","submit_s":1,"work_s":1}', "application 'sort' is batch"),
    ],
    ids=["json", "key", "name", "zero", "bool", "nan", "whole", "kind", "service", "two kinds"],
)
def test_a_malformed_exported_job_says_why(line: str, detail: str) -> None:
    trace = parsed(BERTH_ROWS + line + "\n")
    assert (len(trace), trace.skipped) == (2, 1)
    assert trace.problems[0].detail.startswith(detail) or detail in trace.problems[0].detail


def test_swf_jobs_are_rigid_and_grouped_by_executable() -> None:
    trace = parsed(SWF_ROWS)
    assert trace.applications == ("a-c00", "a-e7")
    assert trace.jobs.application.tolist() == [0, 1, 1]
    assert trace.jobs.units.tolist() == [8, 4, 4]
    assert trace.jobs.work_s.tolist() == [80.0, 200.0, 80.0]
    assert trace.jobs.target_s.tolist() == [10.0, 60.0, 60.0]
    assert trace.jobs.wait_s.tolist() == [0.0, 5.0, 1.0]


def test_latency_sensitive_pods_are_services() -> None:
    trace = parsed(PODS_HEADER + PODS_ROWS)
    assert trace.jobs.submit_s.tolist() == [0.0, 50.0]
    assert trace.jobs.units.tolist() == [12, 2]
    assert trace.jobs.work_s.tolist() == [np.inf, 200.0]
    assert trace.jobs.seconds.tolist() == [290.0, 100.0]
    assert trace.jobs.wait_s.tolist() == [10.0, 0.0]
    assert trace.jobs.gpus.tolist() == [0.5, 0.0]
    kinds = [trace.kinds[i] for i in trace.jobs.application]
    assert kinds == ["latency_critical", "single_node"]
    assert trace.notes == (
        "1 pods never ran, or still ran at the end, and were left out.",
        "1 pods request GPUs; a replay has none and counts cores and memory.",
    )


@pytest.mark.parametrize("ending", [".jsonl", ".jsonl.gz", ".parquet"])
@pytest.mark.parametrize("kind", FORMATS)
def test_an_exported_trace_reads_back_the_same(
    tmp_path: Path, kind: TraceFormat, ending: str
) -> None:
    if ending == ".parquet":
        pytest.importorskip("pyarrow")
    trace = parsed(SAMPLES[kind])
    path = tmp_path / f"out{ending}"
    write_trace(trace, path)
    again = read_trace(path, strict=True)
    assert rows(again) == rows(trace)
    assert again.format is TraceFormat.BERTH
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", [".jsonl.gz", ".swf.gz"])
def test_the_same_jobs_are_the_same_bytes(tmp_path: Path, ending: str) -> None:
    trace = parsed(SWIM_ROWS)
    write_trace(trace, tmp_path / f"a{ending}")
    write_trace(trace, tmp_path / f"b{ending}")
    assert (tmp_path / f"a{ending}").read_bytes() == (tmp_path / f"b{ending}").read_bytes()


def test_rigid_jobs_survive_the_standard_workload_format(tmp_path: Path) -> None:
    trace = parsed(SWF_ROWS)
    path = tmp_path / "out.swf"
    write_trace(trace, path)
    again = read_trace(path, strict=True)
    for column in ("submit_s", "units", "work_s", "seconds", "wait_s", "target_s"):
        assert getattr(again.jobs, column).tolist() == getattr(trace.jobs, column).tolist()
    assert "; Executable: 1 a-e7" in path.read_text()


def test_a_failed_export_leaves_no_file_under_the_name(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"ends in \.swf, \.parquet or \.jsonl"):
        write_trace(parsed(SWIM_ROWS), tmp_path / "out.xlsx")
    with pytest.raises(TraceError, match="cannot be written: No such file"):
        write_trace(parsed(SWIM_ROWS), tmp_path / "absent" / "out.swf")
    assert list(tmp_path.iterdir()) == []


def test_damaged_parquet_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "out.parquet"
    write_trace(parsed(SWIM_ROWS), path)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TraceError, match="is damaged Parquet"):
        read_trace(path)


tables = st.integers(0, 2**32 - 1).map(lambda seed: _drawn(np.random.default_rng(seed)))


def _drawn(rng: np.random.Generator) -> TraceWorkload:
    n = int(rng.integers(1, 30))
    is_service = rng.random(n) < 0.3
    return TraceWorkload(
        name="drawn",
        format=TraceFormat.BERTH,
        applications=tuple(f"app-{i}" for i in range(n)),
        kinds=("batch",) * n,
        jobs=job_table(
            np.sort(rng.uniform(0.0, 1e6, n)),
            np.arange(n),
            np.where(is_service, np.inf, rng.uniform(0.1, 1e5, n)),
            units=np.where(is_service, 3, rng.integers(0, 50, n)),
            seconds=np.where(is_service | (rng.random(n) < 0.5), rng.uniform(1, 1e5, n), np.nan),
            target_s=np.where(rng.random(n) < 0.5, np.inf, rng.uniform(1.0, 1e5, n)),
            gpus=rng.uniform(0.0, 8.0, n),
            priority=rng.integers(-100, 101, n),
            queue=rng.integers(1, 5, n),
        ),
    )


@settings(max_examples=30, deadline=None)
@given(tables)
def test_any_jobs_read_back_from_json_lines(trace: TraceWorkload) -> None:
    again = parse_any(berth_lines(trace), path="a", name="a", strict=True)
    assert rows(again) == rows(trace)
    assert set(json.loads(rows(again)[0])) == {*COLUMNS, "kind"}


@settings(max_examples=50, deadline=None)
@given(st.text() | st.text().map(lambda text: "{" + text) | st.text().map("; ".__add__))
def test_any_text_is_jobs_or_a_trace_error(text: str) -> None:
    with suppress(TraceError):
        assert len(parsed(text)) > 0


@pytest.mark.skipif(not SHARED.exists(), reason="the published traces are not here")
@pytest.mark.parametrize(
    ("path", "jobs"),
    [
        ("swim_facebook/fb2010_day0.tsv.gz", 24_442),
        ("google_2011/task_events.csv.gz", 566),
        ("parallel_workloads/NASA-iPSC-1993-3.1-cln.swf.gz", 18_239),
        ("alibaba_gpu_2023/pods.csv.gz", 5_158),
    ],
    ids=["swim", "google", "swf", "alibaba"],
)
def test_reads_the_published_traces(path: str, jobs: int) -> None:
    trace = read_trace(SHARED / path, strict=True)
    assert len(trace) == jobs


def test_a_table_of_unequal_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="units must have one value for each job"):
        job_table(np.zeros(2), np.zeros(2), np.ones(2), units=[1])


def test_written_file_names_the_trace(tmp_path: Path) -> None:
    assert read_trace(written(tmp_path / "day0.tsv.txt", SWIM_ROWS)).name == "day0"


def test_a_command_converts_and_counts(tmp_path: Path) -> None:
    source = written(tmp_path / "day.tsv", SWIM_ROWS + BAD_LINES[TraceFormat.SWIM][0])
    out = StringIO()
    call_command("convert_trace", str(source), str(tmp_path / "day.swf"), stdout=out)
    assert f"left out: {source}, line 5: submit_time_s is '-5'" in out.getvalue()
    assert "day.swf: 4 jobs from swim, 1 malformed lines left out" in out.getvalue()
    assert len(read_trace(tmp_path / "day.swf", strict=True)) == 4
    with pytest.raises(CommandError, match="line 5"):
        call_command("convert_trace", str(source), str(tmp_path / "b.swf"), "--strict")
