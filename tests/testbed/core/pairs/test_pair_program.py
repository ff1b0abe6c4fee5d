"""The program that measures two commands, as a real process."""

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from apps.testbed.core.pairs.rounds import read_report
from apps.testbed.infrastructure import pair_program

SOURCE = Path(pair_program.__file__).read_text()
QUICK = ["sh", "-c", "i=0; while [ $i -lt 200 ]; do i=$((i+1)); done"]
pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two cores")


def spec(first: list[str], second: list[str] = QUICK, **values: Any) -> str:
    sides: list[dict[str, Any]] = [
        {"command": command, "environment": {}, "working_directory": None, "units": 1}
        for command in (first, second)
    ]
    # other programs may use this machine: every round counts
    usual = {"rounds": 3, "window_s": 0.05, "patience_s": 30.0, "max_foreign": 9.9}
    return json.dumps({"sides": sides, **usual, **values})


def run(text: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: S603 - our own program
        [sys.executable, "-I", "-c", SOURCE, text],
        capture_output=True, text=True, timeout=100, check=False,
        env={"PATH": os.environ["PATH"], **environment},
    )  # fmt: skip


def test_rounds_are_reported_with_progress(tmp_path: Path) -> None:
    progress = tmp_path / "progress"
    done = run(spec(QUICK), BERTH_PROGRESS=str(progress))
    assert (done.returncode, done.stderr) == (0, "")
    report = read_report(done.stdout)
    assert (len(report.rounds), report.rejected, report.failure) == (3, 0, "")
    assert report.is_complete
    lines = progress.read_text().splitlines()
    assert lines[0] == "0.333 round 1 of 3"
    assert lines[-1] == "1.000 round 3 of 3"


def test_a_command_that_fails_is_named_with_its_error() -> None:
    done = run(spec(QUICK, ["sh", "-c", "echo no such input >&2; exit 3"]))
    failure = "the second command ended with exit code 3: no such input"
    assert (done.returncode, read_report(done.stdout).failure) == (1, failure)


def test_a_command_that_does_not_exist_is_named() -> None:
    failure = read_report(run(spec(["/no/such/program"])).stdout).failure
    assert failure.startswith("the first command cannot be started: ")
    assert "/no/such/program" in failure


def test_a_command_that_never_ends_is_given_up() -> None:
    done = run(spec(["sleep", "60"], patience_s=0.3))
    assert "the first command completed no run within" in read_report(done.stdout).failure


def test_rounds_with_foreign_work_do_not_count() -> None:
    done = run(spec(QUICK, max_foreign=-1.0))
    report = read_report(done.stdout)
    assert (report.rounds, report.rejected) == ((), 8)
    assert (
        report.failure == "other programs used more than -100 % of the cores in all rounds but 0"
    )


def test_a_long_command_is_measured_over_its_whole_run() -> None:
    report = read_report(run(spec(["sleep", "0.3"])).stdout)
    for each in report.rounds:
        assert 0.3 <= each.alone[0] < 3.0
        assert each.together[1] < 0.3  # the quick one was repeated meanwhile


def test_each_command_runs_on_a_core_of_its_own(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("first", "second")]
    commands = [
        ["sh", "-c", f"grep Cpus_allowed_list /proc/self/status >> {file}"] for file in files
    ]
    assert run(spec(*commands)).returncode == 0
    usable = [str(core) for core in sorted(os.sched_getaffinity(0))[:2]]
    assert [file.read_text().split()[1] for file in files] == usable


def test_a_stopped_measurement_leaves_no_command_behind(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    text = spec(["sh", "-c", f"echo $$ > {started}.new; mv {started}.new {started}; sleep 60"])
    with subprocess.Popen([sys.executable, "-c", SOURCE, text]) as process:  # noqa: S603
        until = time.monotonic() + 30
        while not started.exists() and time.monotonic() < until:
            time.sleep(0.02)
        pid = int(started.read_text())
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
    assert running_members(pid) == []


def running_members(group: int) -> list[str]:
    """Processes of a group that have not ended; a killed one may wait for its reaper."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(path.parent.name)
    return found
