"""kill -9 of any process at any point of a replay: nothing is lost, doubled or stuck.

A whole instance, started as a person would, on a small cluster and a short trace. The moments of
the kills are drawn from a seed; what must hold afterwards does not depend on them.
"""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psycopg
import pytest

from apps.testbed.core.generator import generate_day
from apps.testbed.core.traces import SwimTrace
from benchmarks._instance import RunningInstance

pytestmark = pytest.mark.service

JOBS = 240
TRACE_S = 3600.0  # the day's jobs come within an hour of cluster time
SPEED = 300.0
END_TIMEOUT_S = 90.0
VICTIMS = ("--queues agents", "run_emulator", "gunicorn", "postgres -D")


def swim_text(trace: SwimTrace) -> str:
    columns = (
        trace.submit_s * TRACE_S / 86_400.0,
        # A terabyte job would outlast the test.
        np.minimum(trace.input_bytes, 2e9),
        np.minimum(trace.shuffle_bytes, 1e9),
        np.minimum(trace.output_bytes, 1e9),
    )
    return "".join(
        f"job{number}\t{at:.1f}\t0\t{read:.0f}\t{moved:.0f}\t{written:.0f}\n"
        for number, (at, read, moved, written) in enumerate(zip(*columns, strict=True))
    )


@pytest.fixture
def instance(tmp_path: Path) -> Iterator[RunningInstance]:
    running = RunningInstance(("--servers", "60", "--speed", str(SPEED)))
    yield running
    running.discard()


def children(pid: int) -> list[int]:
    """Processes started by that one."""
    everyone = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [child for child in everyone if parent_of(child) == pid]


def parent_of(pid: int) -> int:
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return 0  # it ended just now
    return int(status.rpartition(")")[2].split()[1])


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except OSError:
        return ""


def kill_one(instance: RunningInstance, word: str) -> None:
    """kill -9 of one of the instance's own processes, the one with the word in its command."""
    assert instance.process is not None
    commands = {pid: command_of(pid) for pid in children(instance.process.pid)}
    (victim,) = [pid for pid, command in commands.items() if word in command]
    os.kill(victim, signal.SIGKILL)


def await_progress(instance: RunningInstance, jobs: int) -> None:
    """Wait until that many jobs were submitted."""
    deadline = time.monotonic() + END_TIMEOUT_S
    while count(instance, "SELECT count(*) FROM workloads_job") < jobs:
        assert time.monotonic() < deadline, f"fewer than {jobs} jobs in time"
        time.sleep(0.2)


def await_end(instance: RunningInstance) -> None:
    """Wait until every job of the trace is there and has ended."""
    query = (
        "SELECT count(*) FROM workloads_job WHERE labels ? 'trace'"
        " AND state IN ('succeeded', 'failed', 'cancelled')"
    )
    deadline = time.monotonic() + END_TIMEOUT_S
    while (ended := count(instance, query)) < JOBS:
        assert time.monotonic() < deadline, f"{ended} of {JOBS} jobs ended in time"
        time.sleep(0.5)


def count(instance: RunningInstance, query: str) -> int:
    with psycopg.connect(instance.variable("DATABASE_URL")) as connection:
        row = connection.execute(query).fetchone()
    assert row is not None
    return int(row[0])


def test_kill_9_of_any_process_loses_doubles_and_sticks_nothing(
    instance: RunningInstance, tmp_path: Path
) -> None:
    rng = np.random.default_rng(2027)
    trace = tmp_path / "hour.tsv"
    trace.write_text(swim_text(generate_day(JOBS, rng)))
    for step, victim in enumerate(VICTIMS):
        instance.start("--trace", str(trace))
        await_progress(instance, JOBS * step // 5 + 10)
        time.sleep(float(rng.uniform(0.0, 1.5)))
        kill_one(instance, victim)
        assert instance.await_end() != 0
    instance.start("--trace", str(trace))
    await_end(instance)
    checked = instance.manage("verify_replay", "--trace", str(trace), "--complete")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "All checks hold." in checked.stdout
    assert instance.stop() == 0
