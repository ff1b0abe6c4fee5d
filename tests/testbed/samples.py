"""Small made-up traces in the two formats."""

import gzip
from pathlib import Path

SWIM_HEADER = (
    "job_id\tsubmit_time_s\tinter_job_submit_gap_s\tmap_input_bytes\tshuffle_bytes\t"
    "reduce_output_bytes\n"
)
SWIM_ROWS = (
    "job0\t10\t10\t1000\t0\t500\n"
    "job1\t25\t15\t400000000\t100000000\t20000000\n"
    "job2\t25\t0\t1500\t0\t700\n"
    "job3\t90\t65\t9000000000\t3000000000\t40000000\n"
)
GOOGLE_HEADER = (
    "time_us,missing_info,job_id,task_index,machine_id,event_type,user,scheduling_class,"
    "priority,cpu_request,memory_request,disk_request,different_machines\n"
)
# Job 7 existed before; job 8 has two tasks of which one finishes after 50 s; job 9 is free-band.
GOOGLE_ROWS = (
    "0,,7,0,100,0,u0,3,9,0.5,0.25,0,0\n"
    "0,,7,0,100,1,u0,3,9,0.5,0.25,0,0\n"
    "605000000,,8,0,,0,u1,1,4,0.0625,0.01,0,0\n"
    "605000000,,8,1,,0,u1,1,4,0.1875,0.03,0,0\n"
    "606000000,,8,0,101,1,u1,1,4,0.0625,0.01,0,0\n"
    "607000000,,8,1,102,1,u1,1,4,0.1875,0.03,0,0\n"
    "656000000,,8,0,101,4,u1,1,4,0.0625,0.01,0,0\n"
    "660000000,,9,0,,0,u2,0,0,,,,\n"
)


def written(path: Path, text: str) -> Path:
    """The path, after the text was written to it."""
    path.write_text(text)
    return path


def zipped(path: Path, text: str) -> Path:
    """The path, after the text was written to it through gzip."""
    with gzip.open(path, "wt") as file:
        file.write(text)
    return path
